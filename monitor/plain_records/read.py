"""Reads plain records: sets the parts as they were, and makes all other objects.

Idea: all rows of a kind are made at once, without their fields. Then columns of values, of fields and of items are set, each for thousands
of rows. Reading makes objects of declared kinds and plain data alone, whatever is in a file.

Invariants:

- All or nothing: `read` changes no part before all is read.
- A kind is read only if it has the version and the fields of today, or its changes say what became of them. Else it is refused by name:
  a record is never read as something else than what was written.

Example: a file has 100 records of the kind "session", version 1. This program has version 2, whose change says that a field is new:
the 100 sessions get it as the change makes it. Of version 3, it would refuse them.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import islice, repeat
from typing import Any, Final, TypeVar

import msgspec

from monitor.plain_records.blocks import BlockKind
from monitor.plain_records.kinds import Form, Kinds, UnkeptError
from monitor.plain_records.numbers import from_bytes, of_code
from monitor.plain_records.write import SURROGATES

__all__ = ["finished", "read"]

Result = TypeVar("Result")
Delayed = list[tuple[object, str, Any]]
Blocks = Callable[[BlockKind], Iterable[bytes]]


def read(
    blocks: Blocks, known: Mapping[str, object], kinds: Kinds
) -> Generator[None, None, Any]:
    """Sets the parts as they were, and makes all other objects.

    It yields between blocks, so that its caller may do something else. Parts change at the end, all at once.

    Args:
        blocks: gives the payloads of one kind of block, in their order. They must be as they were written.
        known: parts and other named objects of this process, by name.
        kinds: what is kept.

    Returns:
        What was given as root.

    Raises:
        UnkeptError: it does not fit this process. Then nothing has changed.
    """
    try:
        return (yield from _read(blocks, known, kinds))
    except UnkeptError:
        raise
    except Exception as problem:  # whatever is in it
        raise UnkeptError(f"{type(problem).__name__}: {problem}") from problem


def finished(steps: Generator[None, None, Result]) -> Result:
    """Goes through all steps of `read` at once, and gives what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Result = end.value
            return found


def _read(
    blocks: Blocks, known: Mapping[str, object], kinds: Kinds
) -> Generator[None, None, Any]:
    described, root = _unpacked(next(iter(blocks(BlockKind.INDEX))))
    tables = [_Table(kinds, *each) for each in described]
    for table in tables:
        table.check()
    for table in tables:
        table.make(known)
        yield
    words: list[Any] = []
    for payload in blocks(BlockKind.WORDS):
        words += _unpacked(payload)
    columns = _Columns(tables, words, known)
    delayed: Delayed = []
    for kind in (BlockKind.VALUES, BlockKind.RECORDS, BlockKind.CONTAINERS):
        for payload in blocks(kind):
            number, first, count, content = _unpacked(payload)
            tables[number].take(first, count, content, columns, delayed)
            yield
    for table in tables:
        table.check_whole()
    [found] = columns.read(root)
    for part, name, value in delayed:
        _SET(part, name, value)
    return found


class _Table:
    """The rows of one kind.

    Args:
        kinds: of this process.
        name: of the kind.
        version: of its records.
        fields: that they have.
        parts: names of the first rows, which this process has.
        count: of all rows.
        more: what each row must be made with.
    """

    def __init__(
        self,
        kinds: Kinds,
        name: str,
        version: int,
        fields: list[str],
        parts: list[str],
        count: int,
        more: list[Any],
    ) -> None:
        kind = kinds.by_name.get(name)
        if kind is None:
            raise UnkeptError(f'this program does not know "{name}"')
        self.kind = kind
        self.form = kind.form
        self.rows: list[Any] = []
        self._version = version
        self._written = fields
        self._fields: list[str | None] = []
        """The fields of today, in the order of the columns; None for those that are gone."""
        self._made: dict[str, Callable[[], Any]] = {}
        self._parts = parts
        self._count = count
        self._more = more
        self._taken = 0
        """Rows that have what they hold."""

    # --- whether it fits ------------------------------------------------------------------------

    def check(self) -> None:
        """Compares version and fields.

        Raises:
            UnkeptError: it is newer, or nothing says what became of its fields.
        """
        kind = self.kind
        if self._version > kind.version:
            raise UnkeptError(f'"{kind.name}" is of version {self._version}, which is newer')
        added: dict[str, Callable[[], Any]] = {}
        self._fields = list(self._written)
        for change in kind.changes[self._version - 1 :]:
            if change.refused:
                raise UnkeptError(f'"{kind.name}": {change.refused}')
            self._fields = [change.name_of(each) for each in self._fields]
            added = {change.name_of(each) or "": make for each, make in added.items()}
            added |= change.added
        added.pop("", None)
        there = {*filter(None, self._fields), *added}
        odd = sorted(there.symmetric_difference(kind.fields))
        if odd:
            raise UnkeptError(f'"{kind.name}" had other fields: {", ".join(odd)}')
        self._made = {**kind.made, **added}

    # --- rows without what they hold --------------------------------------------------------------

    def make(self, known: Mapping[str, object]) -> None:
        """The parts of this process, and as many new objects as there were; values come later."""
        for name in self._parts:
            part = known.get(name)
            if type(part) is not self.kind.cls:
                raise UnkeptError(f'"{name}" is something else here')
            self.rows.append(part)
        if self.form not in (Form.VALUE, Form.TUPLE, Form.ENUM):
            self.rows += self._blanks(self._count - len(self._parts))
        if self.form is not Form.VALUE:
            for name, make in self._made.items():
                for row in self.rows[len(self._parts) :]:
                    _SET(row, name, make())

    def _blanks(self, count: int) -> Iterable[Any]:
        if self.kind.cls is deque:
            return [deque(maxlen=most) for most in self._more]
        if self.kind.cls is array:
            return [array(code) for code in self._more]
        make = self.kind.made_blank()
        return [make() for _ in range(count)]

    # --- what they hold ---------------------------------------------------------------------------

    def take(
        self, first: int, count: int, content: list[Any], columns: _Columns, delayed: Delayed
    ) -> None:
        """The next rows get what they hold."""
        if first != self._taken:
            raise UnkeptError(f'"{self.kind.name}" goes on at {first}, not at {self._taken}')
        self._taken += count
        if self.form is Form.RECORD:
            self._set(first, content, columns, delayed)
        elif self.form is Form.VALUE:
            self.rows += self._values(count, content, columns)
        elif self.form is Form.BYTES:
            self._fill_bytes(first, content)
        else:
            self._fill(first, content, columns, delayed)

    def check_whole(self) -> None:
        """Compares the rows with their number.

        Raises:
            UnkeptError: some are missing.
        """
        if self.form is not Form.ENUM and not self._taken == len(self.rows) == self._count:
            raise UnkeptError(f'"{self.kind.name}" has {self._taken} of {self._count} rows')

    def _set(self, first: int, content: list[Any], columns: _Columns, delayed: Delayed) -> None:
        """Fields of new records are set; those of parts are noted."""
        parts = max(0, len(self._parts) - first)
        for name, column in zip(self._fields, content, strict=True):
            if name is None:
                continue
            found = columns.read(column)
            rows = self.rows[first : first + len(found)]
            delayed += zip(rows[:parts], repeat(name), found, strict=False)
            deque(map(_SET, rows[parts:], repeat(name), found[parts:]), maxlen=0)

    def _values(self, count: int, content: list[Any], columns: _Columns) -> Iterator[Any]:
        found = {
            name: columns.read(column)
            for name, column in zip(self._fields, content, strict=True)
            if name is not None
        }
        for name, make in self._made.items():
            found[name] = [make() for _ in range(count)]
        make_all: Any = self.kind.cls
        return map(
            make_all._make, zip(*[found[name] for name in self.kind.fields], strict=True)
        )

    def _fill_bytes(self, first: int, content: list[Any]) -> None:
        lengths, payload = content
        at = 0
        for row, length in zip(islice(self.rows, first, None), of_code(*lengths), strict=False):
            part = payload[at : at + length]
            row.extend(from_bytes(row.typecode, part) if type(row) is array else part)
            at += length

    def _fill(
        self, first: int, content: list[Any], columns: _Columns, delayed: Delayed
    ) -> None:
        lengths = of_code(*content[0])
        items: Iterator[Any] = iter(columns.read(content[1]))
        if self.form is Form.TUPLE:
            make: Any = self.kind.cls
            self.rows += [make(islice(items, length)) for length in lengths]
            return
        rows = self.rows[first : first + len(lengths)]
        if self.form is Form.PAIRS:
            items = zip(items, columns.read(content[2]), strict=True)
        fill: Callable[[Any, Any], Any] = _FILL.get(self.kind.cls, dict.update)
        for row, length in zip(rows, lengths, strict=True):
            if length:
                fill(row, islice(items, length))
        self._set(first, content[3:], columns, delayed)
        if self.kind.filled is not None:
            for row in rows:
                self.kind.filled(row)


_SET: Final = object.__setattr__
_FILL: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    list: list.extend,
    set: set.update,
    deque: deque.extend,
    OrderedDict: OrderedDict.update,
}


class _Columns:
    """Reads columns.

    Args:
        tables: of all kinds.
        words: all texts and bytes.
        known: named objects.
    """

    def __init__(
        self, tables: list[_Table], words: list[Any], known: Mapping[str, object]
    ) -> None:
        self._tables = tables
        self._words = words
        self._known = known
        self._members = [
            table.kind.members() if table.form is Form.ENUM else {} for table in tables
        ]
        """Members of enumerations, by their values."""

    def read(self, column: list[Any]) -> list[Any]:
        """The values of a column.

        Raises:
            UnkeptError: it is of no known form.
        """
        match column:
            case ["none", bytes() as each]:
                return [None] * len(each)
            case ["bool", bytes() as each]:
                return list(map(bool, each))
            case ["int", code, payload]:
                return of_code(code, payload)
            case ["big", list() as texts]:
                return [int(each, 16) for each in texts]
            case ["float", bytes() as payload]:
                return of_code("d", payload)
            case ["word", numbers]:
                return list(map(self._words.__getitem__, of_code(*numbers)))
            case ["rows", int() as table, numbers]:
                return list(map(self._tables[table].rows.__getitem__, of_code(*numbers)))
            case ["enum", int() as table, values]:
                return list(map(self._members[table].__getitem__, self.read(values)))
            case ["named", names]:
                return [self._known[each] for each in self.read(names)]
            case ["mixed", bytes() as places, list() as columns]:
                found = [iter(self.read(each)) for each in columns]
                return list(map(next, map(found.__getitem__, places)))
        raise UnkeptError(f"a column is of the form {column[0]!r}")


def _unpacked(payload: bytes) -> Any:
    return _DECODER.decode(payload)


def _text(code: int, payload: memoryview) -> str:
    if code != SURROGATES:
        raise UnkeptError(f"a text is of the form {code}")
    return bytes(payload).decode("utf-8", "surrogatepass")


_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_text)
