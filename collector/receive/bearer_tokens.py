"""Bearer tokens that senders and users of the admin listener need. The file is reloaded when it changes.

A line is `token` or `name: token`. Empty lines and lines that begin with `#` are ignored. The name of a
sender's token keeps its sessions apart from those of others. No message ever contains a token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from pathlib import Path
from typing import Final, NamedTuple

from collector.net.watched_files import UnusableFileError, WatchedFiles, read_file
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.logs import log

__all__ = ["UNNAMED", "Tokens", "token_of"]

SETTING: Final = "receiver.auth.bearer.tokens_file"
UNNAMED: Final = "unnamed"
"""The name of a token without one, in a file where others have names. Without it, such a sender could
claim another's namespace by an attribute."""
_LINE: Final = re.compile(r"(?:(?P<name>[A-Za-z0-9_.@-]{1,64})\s*:\s*)?(?P<token>[^\s:]\S*)")
TOKEN_BYTES_MAX: Final = 8 << 10


class _Known(NamedTuple):
    name: str
    digest: bytes


class Tokens:
    """Who may send.

    Args:
        file: one token or `name: token` a line.
        setting: key of the setting that names the file.

    Raises:
        OSError: a sentence; the file cannot be read, has a bad line, or no token.
    """

    def __init__(self, file: Path, setting: str = SETTING) -> None:
        self._file = file
        self._setting = setting
        self._watched = WatchedFiles(file)
        self._known = self._read()
        self._log = log

    @property
    def names(self) -> set[str]:
        """The names of all tokens."""
        return {each.name for each in self._known if each.name}

    def sender(self, authorization: str) -> str:
        """The name of the token in an Authorization header; "" if no token has a name.

        Raises:
            Refusal: UNAUTHENTICATED; the message does not contain the header.
        """
        if self._watched.changed():
            self._reload()
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Refusal(ExportStatus.UNAUTHENTICATED, "expected Authorization: Bearer TOKEN")
        digest = _digest(token.strip()[:TOKEN_BYTES_MAX])
        found: str | None = None
        for known in self._known:  # always all, so that the time reveals nothing
            if hmac.compare_digest(known.digest, digest):
                found = known.name
        if found is None:
            raise Refusal(ExportStatus.UNAUTHENTICATED, "the bearer token is not known here")
        return found

    def _reload(self) -> None:
        try:
            self._known = self._read()
        except OSError as error:
            self._log.warning("tokens_not_reloaded", reason=error.strerror)
        else:
            self._log.info("tokens_reloaded", tokens=len(self._known))

    def _read(self) -> list[_Known]:
        try:
            lines = read_file(self._file, self._setting).decode().splitlines()
        except UnicodeDecodeError:
            raise self._wrong("expected UTF-8 text") from None
        found = [
            self._line(number, line.strip())
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.strip().startswith("#")
        ]
        if not found:
            raise self._wrong("there is no token in it")
        if any(known.name for known in found):
            found = [known._replace(name=known.name or UNNAMED) for known in found]
        return found

    def _line(self, number: int, line: str) -> _Known:
        match = _LINE.fullmatch(line)
        if match is None:
            raise self._wrong(f"line {number}: expected TOKEN or NAME: TOKEN")
        return _Known(match["name"] or "", _digest(match["token"]))

    def _wrong(self, reason: str) -> UnusableFileError:
        return UnusableFileError(self._setting, self._file, reason)


def token_of(line: str) -> str:
    """The token of a line of such a file, without its name; "" if the line holds none."""
    match = _LINE.fullmatch(line.strip())
    return "" if match is None or line.lstrip().startswith("#") else match["token"]


def _digest(token: str) -> bytes:
    """A digest: gives the comparison equal lengths, and keeps tokens out of memory."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
