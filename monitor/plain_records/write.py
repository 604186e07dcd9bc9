"""Writes objects and all that they refer to as plain records.

Idea: what is kept of a kind is a table. Each object is a row, which has a number, and whatever refers to it has this number. So two ways
to one object lead to one row, circles are no matter, and a chain is never followed in depth. Rows are written some thousands at
a time, a column for each field, and a column is bytes of numbers wherever it can be: nothing is done for an object alone. All
that is in a file is MessagePack of numbers, texts, bytes and lists of these.

    column = [form, ...]
        none    a byte each                   int     code of the array, bytes
        bool    a byte each                   big     hexadecimal texts
        float   bytes                         word    numbers of texts or bytes (code, bytes)
        rows    table, numbers (code, bytes)  enum    table, column of the values
        named   column of names               mixed   for each the place of its column (bytes), columns

What both processes have anyway is a part or a named object: it is given with a name (`monitor.plain_records.kinds.named`). A part is a row, too:
its fields are set on the part that is there.

Invariants:

- Only what a kind says how to keep is written. Everything else is an `UnkeptError`, never left out silently.
- A row of values comes behind all rows of values that it refers to.

Example: a table (a part) holds a session, whose judgement has a judge (a part) and a log. Written are three records: the table's fields,
the session's, and the judgement's with the numbers of the judge and of the log; then the log's fields.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec

from monitor.plain_records.blocks import Block, BlockKind
from monitor.plain_records.kinds import Form, Kinds, PlainRecordKind, UnkeptError
from monitor.plain_records.numbers import as_bytes, narrow

__all__ = ["SURROGATES", "write"]

Column = list[Any]

AT_ONCE: Final = 4_096
"""Rows in a block."""
SURROGATES: Final = 1
"""The code of a text that is no Unicode: it is written as bytes."""

_MADE_AT_ONCE: Final = (Form.VALUE, Form.TUPLE)
"""Forms whose rows cannot be made before what they refer to."""


def write(known: Mapping[str, object], kinds: Kinds, root: object = None) -> Iterator[Block]:
    """The parts, and all that they refer to.

    Args:
        known: parts and other named objects, by name.
        kinds: what is kept.
        root: any value that is kept.

    Raises:
        UnkeptError: something refers to what no kind keeps.
    """
    return _Writer(known, kinds).blocks(root)


class _Table:
    """The rows of one kind."""

    def __init__(self, kind: PlainRecordKind, number: int) -> None:
        self.kind = kind
        self.form = kind.form
        self.number = number
        self.parts: list[str] = []
        """Names of those rows that the other process has, the first ones."""
        self.rows: list[Any] = []
        """All objects. They are held: another object would get the identity of one that is gone."""
        self.written = 0

    def columns_of(self, rows: list[Any]) -> list[list[Any]]:
        """What is written of some rows, a list for each field."""
        try:
            return [list(map(attrgetter(name), rows)) for name in self.kind.fields]
        except AttributeError as problem:
            raise UnkeptError(f"{self.kind.name}: {problem}") from None

    def more(self) -> list[Any]:
        """What a row must be made with, of each."""
        if self.kind.name == "queue":
            return [each.maxlen for each in self.rows]
        return [each.typecode for each in self.rows] if self.kind.name == "array" else []


class _Words(dict[Any, int]):
    """Numbers of texts and bytes; new ones are noted."""

    __slots__ = ("fresh",)

    def __init__(self) -> None:
        self.fresh: list[str | bytes] = []

    def __missing__(self, word: str | bytes) -> int:
        self.fresh.append(word)
        number = self[word] = len(self)
        return number


class _Writer:
    """Numbers objects as they are met."""

    def __init__(self, known: Mapping[str, object], kinds: Kinds) -> None:
        self._kinds = kinds
        self._tables: dict[type, _Table] = {}
        self._numbers: dict[int, int] = {}
        """Identity of an object -> its row."""
        self._names: dict[int, str] = {}
        """Identity of what is no part -> its name."""
        self._words = _Words()
        self._ready: list[Block] = []
        """Blocks of values that come before what refers to them."""
        for name, each in known.items():
            if type(each) in kinds.by_class:
                self._add_part(name, each)
            else:
                self._names[id(each)] = name

    def _add_part(self, name: str, each: object) -> None:
        table = self._table(type(each))
        table.parts.append(name)
        self._numbers[id(each)] = len(table.rows)
        table.rows.append(each)

    def blocks(self, root: object) -> Iterator[Block]:
        """All of it."""
        column = self._column([root])
        yield from self._taken()
        while todo := [each for each in self._tables.values() if each.written < len(each.rows)]:
            for table in todo:
                yield from self._some(table)
        yield self._index(column)

    def _some(self, table: _Table) -> Iterator[Block]:
        """The next rows of a table."""
        first = table.written
        rows = table.rows[first : first + AT_ONCE]
        table.written += len(rows)
        is_record = table.form is Form.RECORD
        kind = BlockKind.RECORDS if is_record else BlockKind.CONTAINERS
        block = self._block(kind, table, first, rows)
        yield from self._taken()
        yield block

    def _taken(self) -> list[Block]:
        """Words and values that were met, which what refers to them comes behind."""
        found, self._ready = self._ready, []
        if self._words.fresh:
            found.insert(0, Block(BlockKind.WORDS, _packed(self._words.fresh)))
            self._words.fresh = []
        return found

    def _block(self, kind: BlockKind, table: _Table, first: int, rows: list[Any]) -> Block:
        content = self._content(table, rows)
        return _block_of(kind, table, first, len(rows), content)

    def _index(self, root: Column) -> Block:
        tables = [
            [
                table.kind.name,
                table.kind.version,
                table.kind.fields,
                table.parts,
                len(table.rows),
                table.more(),
            ]
            for table in self._tables.values()
        ]
        return Block(BlockKind.INDEX, _packed([tables, root]))

    # --- tables ---------------------------------------------------------------------------------

    def _table(self, cls: type) -> _Table:
        table = self._tables.get(cls)
        if table is None:
            table = self._tables[cls] = _Table(self._kinds.by_class[cls], len(self._tables))
        return table

    def _content(self, table: _Table, rows: list[Any]) -> list[Any]:
        """What rows hold, as columns."""
        form = table.form
        if form is Form.BYTES:
            parts = [as_bytes(row) if type(row) is array else bytes(row) for row in rows]
            return [narrow(list(map(len, parts))), b"".join(parts)]
        fields = [self._column(column) for column in table.columns_of(rows)]
        if form in (Form.RECORD, Form.VALUE):
            return fields
        lengths = narrow(list(map(len, rows)))
        items = self._column(list(chain.from_iterable(rows)))
        if form is not Form.PAIRS:
            return [lengths, items]
        values = chain.from_iterable([row.values() for row in rows])
        return [lengths, items, self._column(list(values)), *fields]

    # --- columns --------------------------------------------------------------------------------

    def _column(self, values: list[Any]) -> Column:
        """Values, each of whatever class."""
        classes = list(dict.fromkeys(map(type, values)))
        if len(classes) == 1:
            return self._of(classes[0], values)
        if not classes:
            return ["none", b""]
        places = {cls: place for place, cls in enumerate(classes)}
        codes = list(map(places.__getitem__, map(type, values)))
        columns = [
            self._of(cls, [each for each in values if type(each) is cls]) for cls in classes
        ]
        return ["mixed", bytes(codes), columns]

    def _of(self, cls: type, values: list[Any]) -> Column:
        """Values of one class."""
        if cls is int:
            found = narrow(values)
            return ["int", *found] if found else ["big", [f"{each:x}" for each in values]]
        if cls is str or cls is bytes:
            return ["word", narrow(list(map(self._words.__getitem__, values)))]
        if cls is type(None):
            return ["none", bytes(len(values))]
        if cls is bool:
            return ["bool", bytes(values)]
        if cls is float:
            return ["float", as_bytes(array("d", values))]
        if cls in self._kinds.by_class:
            return self._of_kind(cls, values)
        return ["named", self._column([self._name_of(each) for each in values])]

    def _name_of(self, each: object) -> str:
        name = self._names.get(id(each))
        if name is None:
            cls = type(each)
            raise UnkeptError(f"no kind keeps {cls.__module__}.{cls.__qualname__}")
        return name

    def _of_kind(self, cls: type, values: list[Any]) -> Column:
        table = self._table(cls)
        if table.form is Form.ENUM:
            return ["enum", table.number, self._column([each.value for each in values])]
        ids = list(map(id, values))
        numbers = list(map(self._numbers.get, ids))
        if None in numbers:
            fresh = {
                number: each
                for number, each, known in zip(ids, values, numbers, strict=True)
                if known is None
            }
            self._add(table, fresh)
        return ["rows", table.number, narrow(list(map(self._numbers.__getitem__, ids)))]

    def _add(self, table: _Table, fresh: dict[int, Any]) -> None:
        """Gives objects their numbers, by identity."""
        if table.kind.only_parts:
            raise UnkeptError(f"{table.kind.name}: one is of an earlier version")
        if table.form in _MADE_AT_ONCE:
            self._add_values(table, fresh)
        else:
            first = len(table.rows)
            self._numbers.update(zip(fresh, range(first, first + len(fresh)), strict=True))
            table.rows += fresh.values()

    def _add_values(self, table: _Table, fresh: dict[int, Any]) -> None:
        """The same of values. What they hold comes first, and may be some of them."""
        while fresh:
            rows = list(fresh.values())
            content = self._content(table, rows)
            inner = [number for number in fresh if number in self._numbers]
            if not inner:
                break
            for number in inner:
                del fresh[number]
        if not fresh:
            return
        first = len(table.rows)
        self._numbers.update(zip(fresh, range(first, first + len(fresh)), strict=True))
        table.rows += rows
        table.written = len(table.rows)
        self._ready.append(_block_of(BlockKind.VALUES, table, first, len(rows), content))


def _block_of(
    kind: BlockKind, table: _Table, first: int, count: int, content: list[Any]
) -> Block:
    return Block(kind, _packed([table.number, first, count, content]))


# --- MessagePack ----------------------------------------------------------------------------------


def _packed(what: Any) -> bytes:
    try:
        return _ENCODER.encode(what)
    except UnicodeEncodeError:
        return _ENCODER.encode([_as_unicode(each) for each in what])


def _as_unicode(word: Any) -> Any:
    """A text of which parts are no Unicode, as bytes; all else as it is."""
    if type(word) is not str or not _has_surrogates(word):
        return word
    return msgspec.msgpack.Ext(SURROGATES, word.encode("utf-8", "surrogatepass"))


def _has_surrogates(word: str) -> bool:
    return any("\ud800" <= each <= "\udfff" for each in word)


_ENCODER: Final = msgspec.msgpack.Encoder()
