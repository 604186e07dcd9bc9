"""Plain data -> typed records, with everything that is wrong with it and not only the first fault.

The records are msgspec structs: what a field may hold is told by its annotation and by
`msgspec.Meta`, from which the JSON Schema is made as well. msgspec itself stops at the first
fault, so the same tables are walked here; nothing else reads documents of users.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import NODEFAULT, inspect

__all__ = ["BEFORE", "Fault", "Leaf", "leaves", "shaped"]

_Model = TypeVar("_Model", bound=msgspec.Struct)
_Path = tuple[str | int, ...]

BEFORE: Final = "before"
"""`Meta(extra={BEFORE: f})`: f sees the value first, and raises ValueError where it is wrong."""


class Fault(NamedTuple):
    """One thing that is wrong."""

    path: _Path
    kind: Literal["missing", "unknown", "value"]
    """A key that is not there, a key that nobody knows, or anything else."""
    said: str


class Leaf(NamedTuple):
    """A field that is no record itself."""

    path: tuple[str, ...]
    default: Any
    """NODEFAULT where it must be given."""
    description: str


def shaped(
    model: type[_Model], data: Any, *, lenient: bool = False
) -> tuple[_Model | None, list[Fault]]:
    """The record that the data describe; None, and every fault, where they describe none.

    Args:
        model: what is expected.
        data: dicts with text keys, lists, texts, numbers, booleans, None.
        lenient: a text may stand for a number or a boolean, as in a variable of the environment,
            and numbers must be finite.
    """
    reader = _Reader(lenient)
    found = reader.read(_told(model), data, ())
    return (None if reader.faults else found), reader.faults


def leaves(model: type[msgspec.Struct], path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """The fields of a record and of the records in it, in order."""
    for field in _told(model).fields:
        kind, description = field.type, ""
        if isinstance(kind, inspect.Metadata):
            description = (kind.extra_json_schema or {}).get("description", "")
            kind = kind.type
        here = (*path, field.encode_name)
        if isinstance(kind, inspect.StructType):
            yield from leaves(kind.cls, here)
        else:
            yield Leaf(here, _default(field), description)


def _default(field: inspect.Field) -> Any:
    factory = field.default_factory
    return field.default if factory is NODEFAULT else factory()


@cache
def _told(model: type[msgspec.Struct]) -> inspect.StructType:
    told = inspect.type_info(model)
    assert isinstance(told, inspect.StructType)
    return told


class _Wrong(Exception):  # noqa: N818 - caught before anybody sees it
    """A value that is not as it should be; the message says how it should be."""


_BAD: Final[Any] = object()
"""Instead of a value with a fault."""


class _Reader:
    """Walks data beside the types, and collects what is wrong."""

    def __init__(self, lenient: bool) -> None:
        self.faults: list[Fault] = []
        self._lenient = lenient

    def read(self, kind: inspect.Type, value: Any, path: _Path) -> Any:
        """The value as its type wants it, or `_BAD`."""
        try:
            return self._read(kind, value, path)
        except _Wrong as wrong:
            return self._fault(path, str(wrong))

    def _fault(self, path: _Path, said: str) -> Any:
        self.faults.append(Fault(path, "value", said))
        return _BAD

    def _read(self, kind: inspect.Type, value: Any, path: _Path) -> Any:
        if isinstance(kind, inspect.Metadata):
            before = (kind.extra or {}).get(BEFORE)
            return self._read(kind.type, _passed(before, value) if before else value, path)
        if isinstance(kind, inspect.UnionType):
            types = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
            if value is None and len(types) < len(kind.types):
                return None
            return self._read(_chosen(types, value), value, path)
        if isinstance(kind, inspect.StructType):
            return self._record(kind, value, path)
        if isinstance(kind, inspect.DictType):
            return self._mapping(kind, value, path)
        if isinstance(kind, inspect.ListType | inspect.VarTupleType):
            return self._list(kind, value, path)
        return _scalar(kind, value, lenient=self._lenient)

    def _record(self, kind: inspect.StructType, value: Any, path: _Path) -> Any:
        if not isinstance(value, dict):
            raise _Wrong("Input should be a mapping of keys")
        before = len(self.faults)
        given = {}
        for field in kind.fields:
            key = field.encode_name
            if key in value:
                given[field.name] = self.read(field.type, value[key], (*path, key))
            elif field.required:
                self.faults.append(Fault((*path, key), "missing", "Field required"))
        known = {field.encode_name for field in kind.fields}
        for key in (key for key in value if key not in known):
            self.faults.append(Fault((*path, key), "unknown", "there is no such key"))
        if len(self.faults) > before:
            return _BAD
        return _passed(lambda fields: kind.cls(**fields), given)

    def _mapping(self, kind: inspect.DictType, value: Any, path: _Path) -> Any:
        if not isinstance(value, dict):
            raise _Wrong("Input should be a mapping")
        _check_length("Mapping", ("entry", "entries"), kind, value)
        found = {}
        for key, inner in value.items():
            here = (*path, key)
            found[self.read(kind.key_type, key, here)] = self.read(kind.value_type, inner, here)
        return found

    def _list(
        self, kind: inspect.ListType | inspect.VarTupleType, value: Any, path: _Path
    ) -> Any:
        if not isinstance(value, list | tuple):
            raise _Wrong("Input should be a valid list")
        _check_length("List", ("item", "items"), kind, value)
        found = [
            self.read(kind.item_type, each, (*path, place)) for place, each in enumerate(value)
        ]
        return tuple(found) if isinstance(kind, inspect.VarTupleType) else found


def _passed(function: Callable[[Any], Any], value: Any) -> Any:
    try:
        return function(value)
    except ValueError as problem:
        raise _Wrong(str(problem)) from None


# --- one of several types -------------------------------------------------------------------------


def _chosen(types: Sequence[inspect.Type], value: Any) -> inspect.Type:
    """The type of the value's form; of several plain ones the value's own."""
    form = (
        "mapping" if isinstance(value, dict) else "list" if isinstance(value, list) else "plain"
    )
    alike = [each for each in types if _form(each) == form]
    if len(alike) == 1 or len(types) == 1:
        return (alike or types)[0]
    for each in alike:
        if type(value) is _PLAIN[type(each)]:
            return each
    if alike:
        raise _Wrong("Input should be a text, a number or a boolean")
    forms = dict.fromkeys(_FORMS[_form(each)] for each in types)
    raise _Wrong("Input should be " + " or ".join(forms))


_FORMS: Final = {
    "plain": "a single value",
    "list": "a list",
    "mapping": "a mapping",
}
_PLAIN: Final[dict[Any, type]] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
}


def _form(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return _form(kind.type)
    if isinstance(kind, inspect.StructType | inspect.DictType):
        return "mapping"
    return "list" if isinstance(kind, inspect.ListType | inspect.VarTupleType) else "plain"


# --- single values --------------------------------------------------------------------------------


def _scalar(kind: inspect.Type, value: Any, *, lenient: bool) -> Any:
    if isinstance(kind, inspect.StrType):
        return _text(kind, value)
    if isinstance(kind, inspect.LiteralType):
        return _literal(kind, value)
    if isinstance(kind, inspect.BoolType):
        return _boolean(value, lenient=lenient)
    if isinstance(kind, inspect.IntType):
        return _bounded(kind, _whole(value, lenient=lenient))
    if isinstance(kind, inspect.FloatType):
        return _bounded(kind, _number(value, lenient=lenient))
    if isinstance(kind, inspect.CustomType) and kind.cls is Path:
        return _file(value)
    assert isinstance(kind, inspect.AnyType), kind
    return value


def _text(kind: inspect.StrType, value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong("Input should be a valid string")
    _check_length("String", ("character", "characters"), kind, value)
    if kind.pattern is not None and not re.fullmatch(kind.pattern, value):
        raise _Wrong(f"String should match pattern '{kind.pattern}'")
    return value


def _literal(kind: inspect.LiteralType, value: Any) -> Any:
    if isinstance(value, str) and value in kind.values:
        return value
    *most, last = map(repr, kind.values)
    raise _Wrong(f"Input should be {', '.join(most)}{' or ' * bool(most)}{last}")


def _file(value: Any) -> Path:
    if not isinstance(value, str | Path):
        raise _Wrong("Input is not a valid path")
    if isinstance(value, str) and not value.strip():
        raise _Wrong("Input should be a path, found an empty text")
    return Path(value)


_BOOLEANS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


def _boolean(value: Any, *, lenient: bool) -> bool:
    if isinstance(value, bool):
        return value
    if not lenient:
        raise _Wrong("Input should be a valid boolean")
    found = _BOOLEANS.get(str(value).lower()) if isinstance(value, str | int) else None
    if found is None:
        raise _Wrong("Input should be a valid boolean, unable to interpret input")
    return found


def _whole(value: Any, *, lenient: bool) -> int:
    if lenient and isinstance(value, str | float):
        number = _number(value, lenient=True) if isinstance(value, float) else _parsed(value)
        if number != int(number):
            raise _Wrong("Input should be a valid integer, got a number with a fractional part")
        return int(number)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Wrong("Input should be a valid integer")
    return value


def _parsed(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return _finite(float(text))
    except ValueError:
        raise _Wrong(
            "Input should be a valid integer, unable to parse string as an integer"
        ) from None


def _number(value: Any, *, lenient: bool) -> float:
    if lenient and isinstance(value, str):
        try:
            return _finite(float(value))
        except ValueError:
            raise _Wrong(
                "Input should be a valid number, unable to parse string as a number"
            ) from None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _Wrong("Input should be a valid number")
    try:
        number = float(value)
    except OverflowError:
        raise _Wrong("Input should be a finite number") from None
    return _finite(number) if lenient else number


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise _Wrong("Input should be a finite number")
    return value


# --- bounds ---------------------------------------------------------------------------------------


def _bounded(kind: inspect.IntType | inspect.FloatType, value: Any) -> Any:
    """The number, if it is within bounds: what is no number (NaN) is not."""
    if kind.gt is not None and not value > kind.gt:
        raise _Wrong(f"Input should be greater than {kind.gt}")
    if kind.ge is not None and not value >= kind.ge:
        raise _Wrong(f"Input should be greater than or equal to {kind.ge}")
    if kind.lt is not None and not value < kind.lt:
        raise _Wrong(f"Input should be less than {kind.lt}")
    if kind.le is not None and not value <= kind.le:
        raise _Wrong(f"Input should be less than or equal to {kind.le}")
    return value


def _check_length(what: str, units: tuple[str, str], kind: Any, value: Any) -> None:
    least, most = kind.min_length, kind.max_length
    if least is not None and len(value) < least:
        raise _Wrong(f"{what} should have at least {least} {units[least != 1]}")
    if most is not None and len(value) > most:
        raise _Wrong(f"{what} should have at most {most} {units[most != 1]}")
