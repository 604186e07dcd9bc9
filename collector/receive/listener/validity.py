"""From when and until when a certificate is valid, read from its PEM text.

The standard library checks the certificates of peers, and does not show the times of one's own. They are two fields at a
fixed place of each certificate (RFC 5280, section 4.1):

    Certificate  { tbsCertificate { [0] version?, serialNumber, signature, issuer, validity { notBefore, notAfter } ...
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

__all__ = ["Validity", "validity_of"]

_PEM: Final = re.compile(
    rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.+?)-----END", re.DOTALL
)
CERTIFICATES_MAX: Final = 32
"""Certificates looked at in one file: no chain is longer."""

VERSION: Final = 0xA0
UTC_TIME: Final = 0x17
"""Years in two digits: 1950 to 2049. The other form of times has four."""
SERIAL_TO_ISSUER: Final = 3
"""Elements between the version and the validity."""


class Validity(NamedTuple):
    """When a chain of certificates is valid, Unix seconds."""

    begins: int
    ends: int


class _Element(NamedTuple):
    """One element of DER: its tag, and where its content is."""

    tag: int
    begin: int
    end: int


def validity_of(pem: bytes) -> Validity | None:
    """When the certificates of a file are valid: of a chain, the one that ends first.

    Returns:
        None if a certificate is in no known form, or there is none.
    """
    texts = [found[1] for found in islice(_PEM.finditer(pem), CERTIFICATES_MAX)]
    try:
        chain = [_validity(a2b_base64(text)) for text in texts]
    except (ValueError, IndexError):
        return None
    return min(chain, key=lambda each: each.ends, default=None)


def _validity(der: bytes) -> Validity:
    certificate = _element(der, 0)
    at = _element(der, certificate.begin).begin
    first = _element(der, at)
    if first.tag == VERSION:
        at = first.end
    for _ in range(SERIAL_TO_ISSUER):
        at = _element(der, at).end
    begins = _element(der, _element(der, at).begin)
    return Validity(_time(der, begins), _time(der, _element(der, begins.end)))


def _element(der: bytes, at: int) -> _Element:
    """The element that begins at a place."""
    length, begin = der[at + 1], at + 2
    if length >= 0x80:  # the length of the length
        begin += length - 0x80
        length = int.from_bytes(der[at + 2 : begin])
    if begin + length > len(der):
        raise ValueError("it is cut")
    return _Element(der[at], begin, begin + length)


def _time(der: bytes, element: _Element) -> int:
    """Unix seconds of an element that is a time."""
    text = der[element.begin : element.end].decode("ascii")
    if element.tag == UTC_TIME:
        text = ("20" if text < "50" else "19") + text
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())
