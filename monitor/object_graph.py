"""Objects and all that they refer to, as bytes, and back in another process.

Idea: the state of a process is a graph of objects, with circles and long chains. An object of a kept class is a *record*:
it has a number and is written field by field, with the numbers of the records that its fields refer to. So a chain is
never followed in depth. Records of one class are written together, a column for each field. What both processes have
anyway is a *fixture*, named by its path from a root: a function, the compiled specs, and the parts that exist once. Parts
are records, too. Their fields are set on the part that is there.

Columns are pickles. Pickle keeps which containers are one, and reads a million objects in seconds. A file may name
only classes of plain values (`_Reader.find_class`), so reading it runs no code of its choice.

Records have versions. What is written says of each class which version it is and which fields it has. A class whose fields
have changed since is read if `Layout.changes` says how (what is in a new field, which are gone), and refused by name if
not: a file is never read as something else than what was written. A change of what a field *means* is a change, too.

Invariants:

- All or nothing: `read` changes no fixture before all is read.
- Only what is known how to keep is written. Everything else is an `UnkeptError`, never left out silently.

Example: a table (a part) holds a session, whose judgement holds a judge (a fixture) and a log. Written are three
records: the table's fields, the session's, and the judgement's with the path of the judge and the log's number; then
the log's fields.
"""

from __future__ import annotations

import operator
import pickle
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from functools import partial
from importlib import import_module
from io import BytesIO
from itertools import repeat
from types import BuiltinFunctionType
from typing import Any, Final, NamedTuple, TypeVar

__all__ = [
    "Block",
    "Change",
    "Kind",
    "Layout",
    "UnkeptError",
    "finished",
    "fixtures",
    "read",
    "write",
]

Result = TypeVar("Result")

AT_ONCE: Final = 4_096
"""Records of one class in a block."""
_FLAT: Final[frozenset[type]] = frozenset({int, float, str, bytes, bool, type(None)})
"""Types of values that refer to nothing."""
_PLAIN: Final[frozenset[type]] = frozenset(
    {
        *_FLAT,
        dict,
        list,
        tuple,
        set,
        frozenset,
        bytearray,
        array,
        deque,
        Counter,
        OrderedDict,
        type,
    }
)
"""Types of values that pickle writes by itself."""
_NAMED: Final[frozenset[type]] = frozenset(
    {Counter, OrderedDict, deque, set, frozenset, bytearray, array}
)
"""Classes from outside that a file may name."""
_VALUES: Final = (tuple, Enum, dict)
"""A class of ours that is one of these is a plain value, not a record."""


class UnkeptError(Exception):
    """An object that nothing says how to keep, or a file that does not fit this process."""


class Kind(IntEnum):
    """What a block holds."""

    FLAT = 1
    """Columns of values that refer to nothing: they can be read first, and in any order."""
    LINKED = 2
    """Columns of all other values, in the order in which they were written."""
    INDEX = 3
    """Classes, fixtures, and the class of each record; the last one."""


class Block(NamedTuple):
    """A part of what is written."""

    kind: Kind
    payload: bytes


class Change(NamedTuple):
    """How a class became its next version.

    Args:
        added: its new fields, each with what makes it for a record that was written before.
        dropped: fields that it has no more.
        refused: why records that were written before cannot be read; "" if they can.
    """

    added: Mapping[str, Callable[[], Any]] = {}
    dropped: tuple[str, ...] = ()
    refused: str = ""


class Layout(NamedTuple):
    """What is kept of which classes.

    Args:
        packages: names of packages: ours.
        records: prefixes of module names; instances of their classes are records, unless they are plain values.
        still: names of classes, and of modules with a dot at their end; their instances are never written, and must
            be fixtures.
        caches: name of a class -> fields that are not written, each with what makes it in a new object. Those of parts
            stay as they are.
        only: name of a class -> its fields that are kept; its records must be fixtures.
        own: name of a class -> its fields that follow from settings: parts keep those of the process that reads.
        changes: name of a class -> how it became what it is, the earliest change first. Their number is its version.
    """

    packages: tuple[str, ...]
    records: tuple[str, ...]
    still: tuple[str, ...]
    caches: Mapping[str, Mapping[str, Callable[[], Any]]]
    only: Mapping[str, tuple[str, ...]]
    own: Mapping[str, tuple[str, ...]] = {}
    changes: Mapping[str, tuple[Change, ...]] = {}

    def is_ours(self, module: str) -> bool:
        """True for a module of our packages."""
        return module.partition(".")[0] in self.packages

    def is_record(self, cls: type) -> bool:
        """True for a class whose instances are written field by field."""
        name = _name(cls)
        if issubclass(cls, _VALUES) or not name.startswith(self.records):
            return False
        return name not in self.still and not name.startswith(
            tuple([each for each in self.still if each.endswith(".")])
        )

    def is_value(self, cls: type) -> bool:
        """True for a class whose instances pickle writes."""
        if cls in _PLAIN or issubclass(cls, type):
            return True
        return issubclass(cls, _VALUES) and self.is_ours(cls.__module__)

    def kept(self, cls: type, an_instance: object) -> tuple[str, ...]:
        """The fields of a class that are written."""
        name = _name(cls)
        if name in self.only:
            return self.only[name]
        caches = self.caches.get(name, {})
        return tuple([each for each in _fields_of(cls, an_instance) if each not in caches])


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _fields_of(cls: type, an_instance: object) -> list[str]:
    """The names of all fields: slots, those that a compiled class has in their place, and those of a dictionary."""
    found: dict[str, None] = {}
    for each in reversed(cls.__mro__):
        slots = each.__dict__.get("__mypyc_attrs__", each.__dict__.get("__slots__", ()))
        for slot in (slots,) if isinstance(slots, str) else slots:
            found[_mangled(each, slot)] = None
    found |= dict.fromkeys(getattr(an_instance, "__dict__", ()))
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def _mangled(cls: type, slot: str) -> str:
    is_private = slot.startswith("__") and not slot.endswith("__")
    return f"_{cls.__name__.lstrip('_')}{slot}" if is_private else slot


def fixtures(roots: Mapping[str, object], layout: Layout) -> dict[str, object]:
    """What can be reached from the roots, by path: records, and what is never written.

    Args:
        roots: by name. In the other process these must lead to the same objects.
        layout: of both processes.
    """
    found: dict[str, object] = {}
    seen: set[int] = set()
    todo = deque(roots.items())
    while todo:
        path, each = todo.popleft()
        cls = type(each)
        if cls in _FLAT or id(each) in seen:
            continue
        seen.add(id(each))
        if layout.is_record(cls):
            found[path] = each
            for name in _fields_of(cls, each):
                if hasattr(each, name):
                    todo.append((f"{path}.{name}", getattr(each, name)))
        elif isinstance(each, dict):
            todo.extend((f"{path}[{key!r}]", value) for key, value in each.items())
        elif isinstance(each, list | tuple | deque):
            todo.extend((f"{path}[{place}]", value) for place, value in enumerate(each))
        elif not layout.is_value(cls):
            found[path] = each
    return found


# --- writing ------------------------------------------------------------------------------------


def write(known: Mapping[str, object], layout: Layout, more: object = None) -> Iterator[Block]:
    """The fixtures that are records, and all that they refer to.

    Args:
        known: fixtures by path.
        layout: what is kept.
        more: any value; it may refer to records.

    Raises:
        UnkeptError: something refers to what cannot be kept.
    """
    return _Writer(known, layout).blocks(more)


class _Writer(pickle.Pickler):
    """Numbers records as they are met."""

    def __init__(self, known: Mapping[str, object], layout: Layout) -> None:
        self._out = BytesIO()
        super().__init__(self._out, 5)
        self._layout = layout
        self._records: list[object] = []
        self._numbers: dict[int, int] = {}
        """Identity of a record -> its number."""
        self._still = {
            id(each): path for path, each in known.items() if not layout.is_record(type(each))
        }
        """Identity of a fixture that is no record -> its path."""
        self._classes: list[type] = []
        self._codes = array("H")
        """By record, the place of its class in `_classes`."""
        self._code_of: dict[type, int] = {}
        self._todo: list[list[int]] = []
        """By class, records whose fields are not written yet."""
        self._fields: dict[type, tuple[str, ...]] = {}
        """By class of records or of tuples with names, what is written of it."""
        self._is_record: dict[type, bool | None] = dict.fromkeys(_PLAIN)
        """None for values that pickle writes."""
        self._parts = [
            (path, each) for path, each in known.items() if layout.is_record(type(each))
        ]
        for _, each in self._parts:
            self._add(each)

    def blocks(self, more: object) -> Iterator[Block]:
        """All of it."""
        yield Block(Kind.LINKED, self._linked(more))
        while any(self._todo):
            for code, todo in enumerate(self._todo):
                while todo:
                    some = todo[:AT_ONCE]
                    del todo[:AT_ONCE]
                    yield from self._columns(code, some)
        yield Block(Kind.INDEX, self._index())

    def _columns(self, code: int, numbers: list[int]) -> Iterator[Block]:
        cls = self._classes[code]
        records = [self._records[number] for number in numbers]
        flat: dict[str, list[Any]] = {}
        linked: dict[str, list[Any]] = {}
        self._fields[cls] = self._layout.kept(cls, records[0])
        for name in self._fields[cls]:
            try:
                column = list(map(operator.attrgetter(name), records))
            except AttributeError as problem:
                raise UnkeptError(f"{_name(cls)}: {problem}") from None
            (flat if _FLAT.issuperset(map(type, column)) else linked)[name] = column
        places = array("I", numbers).tobytes()
        if flat:
            yield Block(Kind.FLAT, pickle.dumps((code, places, flat), 5))
        if linked:
            yield Block(Kind.LINKED, self._linked((code, places, linked)))

    def _linked(self, what: object) -> bytes:
        self._out.seek(0)
        self._out.truncate()
        try:
            self.dump(what)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as problem:
            raise UnkeptError(str(problem)) from problem
        return self._out.getvalue()

    def _index(self) -> bytes:
        classes = [(cls.__module__, cls.__qualname__) for cls in self._classes]
        shapes = [
            (cls.__module__, cls.__qualname__, self._version(cls), fields)
            for cls, fields in self._fields.items()
        ]
        parts = [path for path, _ in self._parts]
        return pickle.dumps((classes, parts, self._codes.tobytes(), shapes), 5)

    def _version(self, cls: type) -> int:
        return len(self._layout.changes.get(_name(cls), ()))

    def persistent_id(self, each: object) -> int | str | None:
        """A record's number, or a fixture's path; None for values."""
        cls = type(each)
        try:
            is_record = self._is_record[cls]
        except KeyError:
            is_record = self._look(cls)
        if is_record is None:
            return None
        if is_record:
            number = self._numbers.get(id(each))
            return self._add(each) if number is None else number
        path = self._still.get(id(each))
        if path is None and not _is_reader_of(each):
            raise UnkeptError(f"nothing says how to keep {cls.__module__}.{cls.__qualname__}")
        return path

    def _look(self, cls: type) -> bool | None:
        is_record = None if self._layout.is_value(cls) else self._layout.is_record(cls)
        self._is_record[cls] = is_record
        fields = getattr(cls, "_fields", None)
        if is_record is None and isinstance(fields, tuple):
            self._fields[cls] = fields
        return is_record

    def _add(self, each: object) -> int:
        cls = type(each)
        code = self._code_of.get(cls)
        if code is None:
            code = self._code_of[cls] = len(self._classes)
            self._classes.append(cls)
            self._todo.append([])
        number = self._numbers[id(each)] = len(self._records)
        if number >= len(self._parts) and _name(cls) in self._layout.only:
            raise UnkeptError(f"{_name(cls)} is of an earlier version")
        self._records.append(each)
        self._codes.append(code)
        self._todo[code].append(number)
        return number


def _is_reader_of(each: object) -> bool:
    """True for what pickle names to read an array."""
    return isinstance(each, BuiltinFunctionType) and each.__module__ == "array"


# --- reading ------------------------------------------------------------------------------------


def read(
    blocks: Callable[[Kind], Iterable[bytes]], known: Mapping[str, object], layout: Layout
) -> Generator[None, None, Any]:
    """Sets the fixtures that are records as they were, and makes all other records.

    It yields between blocks, so that its caller may do something else. Fixtures change at the end, all at once.

    Args:
        blocks: gives the payloads of one kind, in their order. They must be as they were written.
        known: fixtures of this process, by path.
        layout: what is kept.

    Returns:
        What was given as `more`.

    Raises:
        UnkeptError: it does not fit this process. Then nothing has changed.
    """
    try:
        return (yield from _read(blocks, known, layout))
    except UnkeptError:
        raise
    except Exception as problem:  # pickle raises nearly anything for what it cannot read
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
    blocks: Callable[[Kind], Iterable[bytes]], known: Mapping[str, object], layout: Layout
) -> Generator[None, None, Any]:
    names, parts, codes, shapes = _plain(next(iter(blocks(Kind.INDEX))))
    classes = [_class(module, name, layout) for module, name in names]
    written = {
        _class(module, name, layout): _Shape(version, fields)
        for module, name, version, fields in shapes
    }
    fits = [_fit(cls, written.get(cls), layout) for cls in classes]
    for cls, shape in written.items():
        _check_tuple(cls, shape, layout)
    records = _records(classes, array("H", codes), parts, known, fits)
    delayed: list[tuple[object, str, Any]] = []
    for payload in blocks(Kind.FLAT):
        yield
        code, places, columns = _plain(payload)
        _set(records, array("I", places), columns, len(parts), delayed, fits[code])
    source = _Source(blocks(Kind.LINKED))
    reader = _Reader(source, records, known, layout)
    source.turn()
    more = reader.load()
    while source.turn():
        yield
        code, places, columns = reader.load()
        _set(records, array("I", places), columns, len(parts), delayed, fits[code])
    for part, name, value in delayed:
        object.__setattr__(part, name, value)
    return more


class _Shape(NamedTuple):
    """A class as it was when it was written."""

    version: int
    fields: tuple[str, ...]


class _Fit(NamedTuple):
    """What is done with records of a class."""

    made: Mapping[str, Callable[[], Any]]
    """Fields that were not written, each with what makes it in a new record."""
    dropped: frozenset[str]
    """Fields that are passed over."""
    own: frozenset[str]
    """Fields that parts keep as they are."""


def _fit(cls: type, shape: _Shape | None, layout: Layout) -> _Fit:
    """How a class of today takes what was written of it.

    Raises:
        UnkeptError: nothing says how.
    """
    name = _name(cls)
    made = dict(layout.caches.get(name, {}))
    own = frozenset(layout.own.get(name, ()))
    if shape is None:
        return _Fit(made, frozenset(), own)
    _check_version(name, shape, layout)
    later = layout.changes.get(name, ())[shape.version :]
    dropped = frozenset(field for change in later for field in change.dropped)
    for change in later:
        made |= change.added
    if _has_slots(cls) and name not in layout.only:
        today = set(_fields_of(cls, None)) - set(layout.caches.get(name, {}))
        before = set(shape.fields) - dropped
        odd = sorted(before - today) + sorted(today - before - set(made))
        if odd:
            raise UnkeptError(f"{name} had other fields: {', '.join(odd)}")
    return _Fit(made, dropped, own)


def _check_version(name: str, shape: _Shape, layout: Layout) -> None:
    changes = layout.changes.get(name, ())
    if shape.version > len(changes):
        raise UnkeptError(f"{name} is of version {shape.version}, which is newer")
    for change in changes[shape.version :]:
        if change.refused:
            raise UnkeptError(f"{name}: {change.refused}")


def _check_tuple(cls: type, shape: _Shape, layout: Layout) -> None:
    """Names of a tuple may have been added since, with defaults; nothing else."""
    fields: tuple[str, ...] | None = getattr(cls, "_fields", None)
    if fields is None or layout.is_record(cls):
        return
    _check_version(_name(cls), shape, layout)
    defaults = getattr(cls, "_field_defaults", {})
    new = fields[len(shape.fields) :]
    if fields[: len(shape.fields)] != shape.fields or not defaults.keys() >= set(new):
        raise UnkeptError(f"{_name(cls)} had other fields")


def _has_slots(cls: type) -> bool:
    """True if all fields of a class are known without an instance."""
    return all(
        "__slots__" in each.__dict__ or "__mypyc_attrs__" in each.__dict__
        for each in cls.__mro__[:-1]
    )


def _records(
    classes: list[type],
    codes: array[int],
    parts: list[str],
    known: Mapping[str, object],
    fits: list[_Fit],
) -> list[object]:
    """The parts of this process, then as many new objects as there were; their fields are not set yet."""
    records: list[object] = []
    for path, code in zip(parts, codes, strict=False):
        part = known.get(path)
        if type(part) is not classes[code]:
            raise UnkeptError(f"{path} is of another class")
        records.append(part)
    blank = [_blank(cls) for cls in classes]
    records += [blank[code]() for code in codes[len(parts) :]]
    if any(fit.made for fit in fits):
        for record, code in zip(records[len(parts) :], codes[len(parts) :], strict=True):
            for name, make in fits[code].made.items():
                object.__setattr__(record, name, make())
    return records


def _blank(cls: type) -> Callable[[], Any]:
    """Makes objects of a class whose fields are not set. A compiled class is told so by `...` (`hatch_build.py`)."""
    made: Any = cls.__new__
    return partial(made, cls, ...) if hasattr(cls, "__mypyc_attrs__") else partial(made, cls)


def _set(
    records: list[object],
    places: array[int],
    columns: Mapping[str, list[Any]],
    parts: int,
    delayed: list[tuple[object, str, Any]],
    fit: _Fit,
) -> None:
    """Sets the fields of new records; those of parts are noted."""
    some = [records[place] for place in places]
    first = next((at for at, place in enumerate(places) if place >= parts), len(places))
    for name, column in columns.items():
        if name in fit.dropped:
            continue
        if name not in fit.own:
            delayed += [(some[at], name, column[at]) for at in range(first)]
        deque(map(object.__setattr__, some[first:], repeat(name), column[first:]), maxlen=0)


def _class(module: str, name: str, layout: Layout) -> type:
    if not layout.is_ours(module):
        raise UnkeptError(f"{module}.{name} is not ours")
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not isinstance(found, type) or not (layout.is_record(found) or layout.is_value(found)):
        raise UnkeptError(f"{module}.{name} is not kept")
    return found


def _plain(payload: bytes) -> Any:
    return _Plain(BytesIO(payload)).load()


class _Plain(pickle.Unpickler):
    """Reads values that name no class."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuses all."""
        raise UnkeptError(f"it names {module}.{name}")


class _Source:
    """Blocks one after the other, as a file."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._block = BytesIO()

    def turn(self) -> bool:
        """The next block; False if there is none."""
        found = next(self._blocks, None)
        self._block = BytesIO(found or b"")
        return found is not None

    def read(self, size: int) -> bytes:
        """As a file's."""
        return self._block.read(size)

    def readline(self) -> bytes:
        """As a file's."""
        return self._block.readline()


class _Reader(pickle.Unpickler):
    """Reads values that refer to records and fixtures."""

    def __init__(
        self,
        source: _Source,
        records: list[object],
        known: Mapping[str, object],
        layout: Layout,
    ) -> None:
        super().__init__(source)
        self._records = records
        self._known = known
        self._layout = layout

    def persistent_load(self, pid: int | str) -> object:
        """The record, or the fixture."""
        return self._records[pid] if type(pid) is int else self._known[pid]  # type: ignore[index]

    def find_class(self, module: str, name: str) -> Any:
        """A class of plain values; nothing else may be named."""
        if (module, name) == ("array", "_array_reconstructor"):
            return super().find_class(module, name)
        for cls in _NAMED:
            if (module, name) == (cls.__module__, cls.__qualname__):
                return cls
        return _class(module, name, self._layout)
