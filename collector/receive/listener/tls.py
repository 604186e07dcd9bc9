"""Certificates of a listener, reloaded when their files are replaced.

Open connections keep their certificate. New connections get the new one at most 1 s after the files
change. Files that do not match (half of a renewal) are not used until they do.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from collector.net.watched_files import UnusableFileError, WatchedFiles, read_file
from collector.receive.listener.validity import Validity, validity_of
from collector.telemetry.logs import log

__all__ = ["Certificates", "Material"]

SETTING: Final = "receiver.tls"
"""Default section of the settings that names the files."""


class Material(NamedTuple):
    """The contents of the files, in PEM."""

    cert: bytes
    key: bytes
    client_ca: bytes | None


class Certificates:
    """A server's certificate and key, and the authorities of accepted clients.

    Args:
        cert: PEM, the server's certificate first, then the intermediate ones.
        key: PEM, not encrypted.
        client_ca: PEM; if given, only clients with a certificate of these authorities are accepted (mTLS).
        setting: the section of the settings that names the files.
    """

    def __init__(
        self, cert: Path, key: Path, client_ca: Path | None = None, setting: str = SETTING
    ) -> None:
        self._setting = setting
        self._cert = cert
        self._key = key
        self._client_ca = client_ca
        self._watched = WatchedFiles(*(file for file in (cert, key, client_ca) if file))
        self._current: ssl.SSLContext | None = None
        self._protocols: list[str] = []
        self._validity: Validity | None = None
        """Validity of the certificate in use."""
        self._reloads = self._handed = 0
        """How often files were read anew, and up to which of these `renewed` has returned them."""
        self._log = log

    @property
    def mutual(self) -> bool:
        """True if clients need a certificate."""
        return self._client_ca is not None

    @property
    def cert(self) -> Path:
        """The file with the server's certificate."""
        return self._cert

    def validity(self) -> Validity | None:
        """When the chain in use is valid; None before the first use, and where it cannot be read from it.

        Replaced files are in use from then on, though nobody has connected since.
        """
        self._look()
        return self._validity

    def read(self) -> Material:
        """Return what the files hold.

        Raises:
            OSError: they cannot be read, or do not fit together.
        """
        self._context()
        return self._material()

    def _material(self) -> Material:
        authority = read_file(self._client_ca, self._setting) if self._client_ca else None
        return Material(
            read_file(self._cert, self._setting), read_file(self._key, self._setting), authority
        )

    def renewed(self) -> Material | None:
        """The contents of the files if they have changed and match each other; else None."""
        self._look()
        reloads = self._reloads
        if reloads == self._handed:
            return None
        try:
            material = self._material()
        except OSError as error:
            self._refused(error)
            return None
        self._handed = reloads
        return material

    def context(self, protocols: Sequence[str] = ("http/1.1",)) -> ssl.SSLContext:
        """A context for asyncio that uses the newest files for each new connection.

        Args:
            protocols: what is agreed on (ALPN).

        Raises:
            OSError: as `read`.
        """
        self._protocols = list(protocols)
        first = self._current = self._context()
        first.sni_callback = self._hand_over  # OpenSSL calls it without a name, too
        return first

    def _hand_over(self, connection: Any, _name: str | None, _first: ssl.SSLContext) -> None:
        self._look()
        connection.context = self._current

    def _look(self) -> None:
        """Uses the files that have changed, if they match each other."""
        if not self._watched.changed():
            return
        try:
            self._current = self._context()
        except OSError as error:
            self._refused(error)
            return
        self._reloads += 1
        self._log.info("certificate_reloaded", cert=str(self._cert))

    def _refused(self, error: OSError) -> None:
        self._log.warning("certificate_not_reloaded", reason=error.strerror)

    def _context(self) -> ssl.SSLContext:
        files = {"cert": self._cert, "key": self._key, "client_ca": self._client_ca}
        read = {  # our errors name the file; those of ssl do not
            name: read_file(file, f"{self._setting}.{name}")
            for name, file in files.items()
            if file is not None
        }
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(self._protocols)
        # A session resumed by a ticket would skip the check of a client's certificate, whose
        # authority may have been replaced meanwhile.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            context.load_cert_chain(self._cert, self._key, password=_no_password)
            if self._client_ca is not None:
                context.load_verify_locations(self._client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            given = ", ".join(str(file) for file in files.values() if file is not None)
            raise UnusableFileError(self._setting, given, reason) from error
        self._validity = validity_of(read["cert"])
        return context


def _no_password() -> str:
    """Instead of OpenSSL's prompt on the terminal."""
    raise ValueError("the key is encrypted; expected one without a password")
