"""The bound on names and ids that agents give themselves: agents, sessions, namespaces, services, calls.

Names live as long as what they name, so tables with a bounded number of them are bounded in bytes, too. A longer name is cut.
A digest of the whole stands at its end, so that two names that begin alike stay two.

Example: 9,000 times `a` becomes 991 times `a`, `~`, and 32 hexadecimal digits.
"""

from __future__ import annotations

import threading
from hashlib import blake2b
from typing import Final

__all__ = ["CUT", "NAME_MAX", "CutNames", "bounded"]

NAME_MAX: Final = 1_024
"""Bytes of a name as UTF-8. Calls of tools whose names have more characters are left out."""

_WIDEST: Final = 4
"""Most bytes of one character."""

_DIGEST_BYTES: Final = 16


class CutNames(threading.local):
    """Counts the names that were cut, for each thread: judges go through spans again in one of their own."""

    def __init__(self) -> None:
        self.count = 0

    def taken(self) -> int:
        """The number in this thread since the last time."""
        found, self.count = self.count, 0
        return found


CUT: Final = CutNames()


def bounded(name: str) -> str:
    """The name, cut if it is longer than `NAME_MAX`; a name that was cut stays as it is."""
    if len(name) * _WIDEST <= NAME_MAX or (len(name) <= NAME_MAX and name.isascii()):
        return name
    raw = name.encode(errors="surrogatepass")
    if len(raw) <= NAME_MAX:
        return name
    CUT.count += 1
    end = f"~{blake2b(raw, digest_size=_DIGEST_BYTES).hexdigest()}"
    return raw[: NAME_MAX - len(end)].decode(errors="ignore") + end
