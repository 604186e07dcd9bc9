"""Certificates for tests, made by the openssl program."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

__all__ = ["Pair", "authority", "expired", "have_openssl", "issue"]

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
SIGNS = "keyUsage=critical,keyCertSign,cRLSign"
"""Without it Python 3.13 trusts no authority."""
EXTENSIONS = """\
subjectAltName=DNS:localhost,IP:127.0.0.1
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth,clientAuth
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""


class Pair(NamedTuple):
    """A certificate and its key, in PEM files."""

    cert: Path
    key: Path

    def together(self) -> Path:
        """Both in one file."""
        both = self.cert.with_suffix(".both.pem")
        both.write_bytes(self.key.read_bytes() + self.cert.read_bytes())
        return both


def have_openssl() -> bool:
    return shutil.which("openssl") is not None


def authority(folder: Path, name: str = "authority") -> Pair:
    """One that signs."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", *NEW_KEY, "-days", "2", "-subj", f"/CN={name}"),
        *("-addext", SIGNS),
        *("-keyout", str(pair.key), "-out", str(pair.cert)),
    )
    return pair


def issue(signer: Pair, folder: Path, name: str) -> Pair:
    """A certificate for localhost, for servers and clients."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text(EXTENSIONS)
    _openssl(
        *("req", *NEW_KEY, "-subj", "/CN=localhost"),
        *("-keyout", str(pair.key), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-days", "2", "-extfile", str(extensions)),
        *("-CA", str(signer.cert), "-CAkey", str(signer.key), "-CAcreateserial"),
        *("-out", str(pair.cert)),
    )
    return pair


def expired(pair: Pair) -> None:
    """The certificate of a pair ended in 2024 from now on: its signature is that of before, which a server does not check."""
    head, body, tail = re.split(
        rb"(?<=CERTIFICATE-----)\n|\n(?=-----END)", pair.cert.read_bytes().strip()
    )
    der = base64.b64decode(body)
    _, last = re.findall(rb"\x17\x0d\d{12}Z", der)
    changed = der.replace(last, b"\x17\x0d240101000000Z")
    pair.cert.write_bytes(b"\n".join([head, base64.encodebytes(changed).strip(), tail, b""]))


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=20)
