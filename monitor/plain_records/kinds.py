"""What is kept of which classes: a declared kind each, with a name, a version and its fields.

Idea: a file knows kinds, never classes. A kind's name says what it is to the product ("session"), so a class may move to another
module or be called otherwise, and its records are read all the same. Nothing is looked up by a name that a file gives but in
the table of kinds.

A kind whose fields change gets another version: `PlainRecordKind.changes` has an entry for each version after the first, which says how records
of the version before become such of this one. A change of what a field *means* is a change, too.

Example: `kept("call", LogicalCall, "agent tool", changes=(KindChange(added={"tool": str}),))` is version 2. A record of version 1 has an agent alone, and
gets the tool "".
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntEnum
from functools import partial
from typing import Any, Final, NamedTuple

__all__ = [
    "Form",
    "KindChange",
    "Kinds",
    "PlainRecordKind",
    "UnkeptError",
    "kept",
    "kept_growing",
    "named",
]


class UnkeptError(Exception):
    """An object that no kind says how to keep, or records that do not fit this process."""


class KindChange(NamedTuple):
    """How records of one version of a kind become such of the next one.

    Args:
        added: its new fields, each with what makes it for a record that was written before.
        dropped: fields that it has no more.
        renamed: new names of fields, by the old ones.
        refused: why records that were written before cannot be read; "" if they can.
    """

    added: Mapping[str, Callable[[], Any]] = {}
    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str] = {}
    refused: str = ""

    def name_of(self, field: str | None) -> str | None:
        """What a field is called after it; None if it is gone."""
        if field is None or field in self.dropped:
            return None
        return self.renamed.get(field, field)


class Form(IntEnum):
    """How the objects of a kind are kept."""

    RECORD = 1
    """An object with fields. It is made first, and gets its fields later: records may lead in circles."""
    VALUE = 2
    """A tuple with names: it is made of its fields."""
    ENUM = 3
    """A member of an enumeration, by its value. It has no rows."""
    TUPLE = 4
    """A tuple, or a frozen set: it is made of its items."""
    ITEMS = 5
    """A list, a set or a queue: it is made first, and gets its items later."""
    PAIRS = 6
    """A dictionary; likewise. A class of ours may have fields in addition."""
    BYTES = 7
    """An array of bytes or numbers."""


class PlainRecordKind(NamedTuple):
    """What is kept of one class.

    Args:
        name: in files, for ever.
        cls: the class of today.
        fields: that are written.
        made: fields that are not written, each with what makes it in a new object.
        left: fields that are not written, and stay as they are in a part: what follows from settings, and other parts.
        parts: fields that lead to other parts.
        changes: how it became what it is, the earliest first.
        only_parts: True if there are no other objects of it than those that both processes have.
        blank: makes an object without its fields, if it must not be made from nothing.
        filled: is called with each new dictionary that has got its pairs.
    """

    name: str
    cls: type
    fields: tuple[str, ...] = ()
    made: Mapping[str, Callable[[], Any]] = {}
    left: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    changes: tuple[KindChange, ...] = ()
    only_parts: bool = False
    blank: Callable[[], Any] | None = None
    filled: Callable[[Any], None] | None = None

    @property
    def version(self) -> int:
        """Of its records, from 1 up."""
        return 1 + len(self.changes)

    @property
    def form(self) -> Form:
        """How its objects are kept."""
        if self.cls in _FORMS:
            return _FORMS[self.cls]
        if issubclass(self.cls, Enum):
            return Form.ENUM
        if issubclass(self.cls, dict):
            return Form.PAIRS
        return Form.VALUE if issubclass(self.cls, tuple) else Form.RECORD

    def members(self) -> dict[Any, Enum]:
        """Those of an enumeration, by their values."""
        members: Mapping[str, Enum] = getattr(self.cls, "__members__", {})
        return {each.value: each for each in members.values()}

    def made_blank(self) -> Callable[[], Any]:
        """Makes objects whose fields are not set. A compiled class is told so by `...` (`hatch_build.py`)."""
        if self.blank is not None:
            return self.blank
        made: Any = self.cls.__new__
        if hasattr(self.cls, "__mypyc_attrs__"):
            return partial(made, self.cls, ...)
        return partial(made, self.cls)


def kept(
    name: str,
    cls: type,
    fields: str = "",
    *,
    left: str = "",
    parts: str = "",
    made: Mapping[str, Callable[[], Any]] | None = None,
    changes: tuple[KindChange, ...] = (),
    only_parts: bool = False,
    blank: Callable[[], Any] | None = None,
    filled: Callable[[Any], None] | None = None,
) -> PlainRecordKind:
    """A kind, whose fields are given as one text with spaces between them."""
    return PlainRecordKind(
        name,
        cls,
        tuple(fields.split()),
        made or {},
        tuple(left.split()),
        tuple(parts.split()),
        changes,
        only_parts,
        blank,
        filled,
    )


def kept_growing(name: str, cls: Any, *, first: int) -> PlainRecordKind:
    """A named tuple that grows at its end alone: each later field is a change, None in records written before.

    Args:
        name: of the kind.
        cls: the named tuple.
        first: so many of its fields were there from the beginning.
    """
    fields: tuple[str, ...] = cls._fields
    changes = tuple(KindChange(added={field: type(None)}) for field in fields[first:])
    return PlainRecordKind(name, cls, fields, changes=changes)


_FORMS: Final[Mapping[type, Form]] = {
    tuple: Form.TUPLE,
    frozenset: Form.TUPLE,
    list: Form.ITEMS,
    set: Form.ITEMS,
    deque: Form.ITEMS,
    dict: Form.PAIRS,
    Counter: Form.PAIRS,
    OrderedDict: Form.PAIRS,
    bytearray: Form.BYTES,
    array: Form.BYTES,
}
_CONTAINERS: Final = tuple(
    PlainRecordKind(name, cls)
    for name, cls in (
        ("tuple", tuple),
        ("frozen set", frozenset),
        ("list", list),
        ("set", set),
        ("queue", deque),
        ("dictionary", dict),
        ("counts", Counter),
        ("ordered dictionary", OrderedDict),
        ("bytes that change", bytearray),
        ("array", array),
    )
)


class Kinds:
    """All kinds that are kept.

    Raises:
        ValueError: two have one name, or one class.
    """

    def __init__(self, declared: Iterable[PlainRecordKind]) -> None:
        self.all = (*_CONTAINERS, *declared)
        self.by_class = {each.cls: each for each in self.all}
        self.by_name = {each.name: each for each in self.all}
        if not len(self.all) == len(self.by_class) == len(self.by_name):
            raise ValueError("two kinds have one name, or one class")

    def replaced(self, *others: PlainRecordKind) -> Kinds:
        """The same with other kinds of some classes."""
        found = self.by_class | {each.cls: each for each in others}
        return Kinds([each for each in found.values() if each.cls not in _FORMS])


def named(roots: Mapping[str, object], kinds: Kinds) -> dict[str, object]:
    """What both processes have anyway, by name: the roots, and the parts that they lead to.

    A part that is the only one of its kind is named by its kind, and another one by the part and the field that leads to it. So
    parts may be arranged otherwise one day. What no kind keeps is referred to by its name, and never written.
    """
    found: list[tuple[object, str, str]] = []
    seen: dict[int, int] = {}
    todo: deque[tuple[object, int, str]] = deque(
        (each, -1, name) for name, each in roots.items()
    )
    owners: list[int] = []
    while todo:
        each, owner, name = todo.popleft()
        if each is None or id(each) in seen:
            continue
        seen[id(each)] = len(found)
        kind = kinds.by_class.get(type(each))
        for field in kind.parts if kind else ():
            todo.append((getattr(each, field), len(found), field))
        found.append((each, kind.name if kind else "", name))
        owners.append(owner)
    count = Counter(kind for _, kind, _ in found)
    names: list[str] = []
    for (_, kind_name, name), owner in zip(found, owners, strict=True):
        if owner < 0:
            names.append(name)
        elif count[kind_name] == 1 and kind_name:
            names.append(kind_name)
        else:
            names.append(f"{names[owner]}: {name.lstrip('_')}")
    return {name: each for name, (each, _, _) in zip(names, found, strict=True)}
