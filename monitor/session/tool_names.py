"""Tool names as small integers, which the steps of sessions hold.

Idea: a number takes 16 bits of a step. Names in specs keep their numbers. Names that agents invent are
bounded in bytes, and the last quarter of the bound is for tenants with few names. Names that no step
has any more are forgotten, and their numbers are used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from monitor.limits import NAMES_BYTES_MAX
from monitor.tenants import Holdings
from monitor.weights import text_bytes

__all__ = ["BorrowedNames", "Names"]

NAME_BYTES: Final = 160
"""Bytes that a name counts beside its text, so that the bytes run out before the numbers."""

SHARE_BYTES: Final = 64 << 10
"""Bytes that a tenant may hold and still use the last quarter: some 350 names."""


class Names:
    """Tool names as small integers, shared by all sessions.

    Args:
        bytes_max: limit of the bytes of names that are in no spec.
    """

    __slots__ = (
        "_bytes_max",
        "_free",
        "_held",
        "_numbers",
        "_owners",
        "_texts",
        "overflowed",
    )

    NAMES_MAX: Final = 65_536
    """Numbers of 16 bits; 0 stands for all names without a number of their own."""

    OVERFLOW: Final = "__overflow__"

    def __init__(self, bytes_max: int = NAMES_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._texts: list[str] = [self.OVERFLOW]
        self._numbers: dict[str, int] = {}
        self._owners: dict[int, str] = {}
        """Number -> tenant that its name counts for; names of specs have none."""
        self._held = Holdings()
        """Bytes by tenant."""
        self._free: list[int] = []
        self.overflowed = 0
        """The number of times that a tool got no number of its own, so its name is not shown."""

    def __len__(self) -> int:
        """The number of known names."""
        return len(self._numbers)

    def number(self, text: str, namespace: str = "") -> int:
        """The number of a name; 0 if there is no room for it."""
        found = self._numbers.get(text)
        return found if found is not None else self._add(text, namespace)

    def text(self, number: int) -> str:
        """The name, or `OVERFLOW`."""
        return self._texts[number]

    def find(self, fits: Callable[[str], bool]) -> frozenset[int]:
        """The numbers of the names that fit."""
        return frozenset(number for text, number in self._numbers.items() if fits(text))

    def reserve(self, texts: Iterable[str]) -> None:
        """Reserves names of specs: they are never forgotten and count for no tenant."""
        for text in texts:
            number = self._numbers.get(text)
            if number is None:
                self._put(text)
            elif number in self._owners:
                self._disown(number, text)

    @property
    def crowded(self) -> bool:
        """True if it is time to forget names that no step has any more."""
        return 2 * self._held.total > self._bytes_max

    def forget(self, used: set[int]) -> int:
        """Forgets invented names whose numbers no step has.

        Args:
            used: the numbers that steps have.

        Returns:
            The number of forgotten names.
        """
        gone = [number for number in self._owners if number not in used]
        for number in gone:
            text = self._texts[number]
            self._disown(number, text)
            del self._numbers[text]
            self._texts[number] = self.OVERFLOW
            self._free.append(number)
        return len(gone)

    def _add(self, text: str, namespace: str) -> int:
        size = _size(text)
        name, total = self._held.name(namespace), self._held.total + size
        small = self._held.of(name) + size <= SHARE_BYTES
        number = 0
        if total <= (self._bytes_max if small else self._bytes_max * 3 // 4):
            number = self._put(text)
        if number:
            self._owners[number] = name
            self._held.add(name, size)
        else:
            self.overflowed += 1
        return number

    def has_room(self, text: str, namespace: str) -> bool:
        """True if a name that is not known would get a number of its own."""
        size = _size(text)
        held, total = self._held.of(self._held.name(namespace)), self._held.total + size
        small = held + size <= SHARE_BYTES
        if total > (self._bytes_max if small else self._bytes_max * 3 // 4):
            return False
        return bool(self._free) or len(self._texts) < self.NAMES_MAX

    def known(self, text: str) -> int | None:
        """The number of a name; None if it has none yet."""
        return self._numbers.get(text)

    def _put(self, text: str) -> int:
        if self._free:
            number = self._free.pop()
            self._texts[number] = text
        elif len(self._texts) < self.NAMES_MAX:
            number = len(self._texts)
            self._texts.append(text)
        else:
            return 0
        self._numbers[text] = number
        return number

    def _disown(self, number: int, text: str) -> None:
        self._held.add(self._owners.pop(number), -_size(text))


class BorrowedNames(Names):
    """The names of another, which stay as they are; new names get numbers here, for as long as this lives.

    Args:
        names: of the sessions.
    """

    __slots__ = ("_names", "_new")

    def __init__(self, names: Names) -> None:
        super().__init__(0)
        self._names = names
        self._new: list[str] = []
        """The names that are new here. The first has the highest number."""

    def number(self, text: str, namespace: str = "") -> int:
        found = self._names.known(text)
        if found is not None:
            return found
        if text not in self._new:
            if not self._names.has_room(text, namespace):
                return 0
            self._new.append(text)
        return self.NAMES_MAX - 1 - self._new.index(text)

    def text(self, number: int) -> str:
        place = self.NAMES_MAX - 1 - number
        return self._new[place] if place < len(self._new) else self._names.text(number)


def _size(text: str) -> int:
    return NAME_BYTES + text_bytes(text)
