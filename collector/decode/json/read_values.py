"""Reads AnyValue and KeyValue lists of OTLP/JSON: checked and decoded at once."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from collector.decode.json.checked_fields import (
    INT64,
    NUMBER,
    FieldFault,
    object_at,
    objects,
    text,
    to_integer,
    wrong,
)
from monitor.partial import told_once

__all__ = ["attributes", "pairs"]

DEPTH_MAX: Final = 48
"""Arrays and lists inside each other: what protobuf's 100 levels of messages leave for them."""

SPECIAL_DOUBLES: Final = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}


def attributes(item: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the `attributes` of a message; of duplicate keys the last wins."""
    keys, values = pairs(item, "attributes", 0)
    return dict(zip(keys, values, strict=True))


def pairs(item: Mapping[str, Any], name: str, depth: int) -> tuple[tuple[str, ...], list[Any]]:
    """Read a list of KeyValues into its keys and their decoded values."""
    keys: list[str] = []
    values: list[Any] = []
    for index, pair in enumerate(objects(item, name)):
        key, value = pair.get("key"), pair.get("value")
        if type(key) is str and type(value) is dict and len(value) == 1:
            string = value.get("stringValue")
            if type(string) is str:  # the fast path: most attributes
                keys.append(key)
                values.append(string)
                continue
        try:
            keys.append(text(pair, "key"))
            values.append(any_value(object_at(pair, "value"), depth))
        except FieldFault as fault:
            raise fault.within(f"{name}[{index}]") from None
    return tuple(keys), values


def any_value(item: Mapping[str, Any], depth: int) -> Any:
    """Decode an AnyValue: the one known field that is set, None if there is none."""
    found: Any = None
    field = ""
    for name, raw in item.items():
        reader = _READERS.get(name)
        if reader is None or raw is None:
            continue
        if field:
            raise FieldFault(f"holds both {field} and {name}", "value")
        field = name
        try:
            found = reader(raw, depth)
        except FieldFault as fault:
            raise fault.within(name).within("value") from None
    return found


def _read_string(raw: Any, depth: int) -> str:
    del depth
    if isinstance(raw, str):
        return raw
    raise wrong(raw, "a string")


def _read_bool(raw: Any, depth: int) -> bool:
    del depth
    if isinstance(raw, bool):
        return raw
    raise wrong(raw, "true or false")


def _read_int(raw: Any, depth: int) -> int:
    del depth
    return to_integer(raw, INT64)


def _read_double(raw: Any, depth: int) -> float:
    del depth
    if isinstance(raw, str):
        if raw in SPECIAL_DOUBLES:
            return SPECIAL_DOUBLES[raw]
        if NUMBER.fullmatch(raw):
            return _finite(raw)
        raise wrong(raw, "a number")
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise wrong(raw, "a number")
    return _finite(raw)


def _finite(raw: str | float) -> float:
    try:
        number = float(raw)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise wrong(raw, "a double")
    return number


def _read_bytes(raw: Any, depth: int) -> bytes:
    del depth
    if not isinstance(raw, str):
        raise wrong(raw, "base64")
    digits = raw.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise wrong(raw, "base64") from None


def _read_array(raw: Any, depth: int) -> list[Any]:
    values = []
    for index, item in enumerate(objects(_container(raw, depth), "values")):
        try:
            values.append(any_value(item, depth + 1))
        except FieldFault as fault:
            raise fault.within(f"values[{index}]") from None
    return values


def _read_kvlist(raw: Any, depth: int) -> dict[str, Any]:
    keys, values = pairs(_container(raw, depth), "values", depth + 1)
    return told_once(list(zip(keys, values, strict=True)))


def _container(raw: Any, depth: int) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise wrong(raw, "an object")
    if depth >= DEPTH_MAX:
        raise FieldFault(f"values are nested more than {DEPTH_MAX} deep")
    return raw


_READERS: Final[dict[str, Callable[[Any, int], Any]]] = {
    "stringValue": _read_string,
    "boolValue": _read_bool,
    "intValue": _read_int,
    "doubleValue": _read_double,
    "bytesValue": _read_bytes,
    "arrayValue": _read_array,
    "kvlistValue": _read_kvlist,
}
_READERS.update({name.replace("V", "_v"): reader for name, reader in tuple(_READERS.items())})
