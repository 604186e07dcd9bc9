"""JSON Schema of a tool's arguments: made of a function's annotations, and held against what a model gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["misfit", "schema_of"]

_NAMES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The schema of a function's parameters, without the first, which is the state.

    Raises:
        TypeError: an annotation is none of str, int, float, bool, list, dict.
    """
    properties, required = {}, []
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        properties[name] = _property(function, name, parameter.annotation)
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _property(function: Callable[..., Any], name: str, annotation: Any) -> dict[str, Any]:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    outer, _, inner = text.partition("[")
    if outer not in _NAMES:
        raise TypeError(
            f"{function.__name__}: {name}: expected one of {', '.join(_NAMES)} as its annotation, found {text or annotation!r}"
        )
    found: dict[str, Any] = {"type": _NAMES[outer]}
    if outer == "list" and inner[:-1] in _NAMES:
        found["items"] = {"type": _NAMES[inner[:-1]]}
    return found


def misfit(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """What is wrong with arguments, for a model to read; "" where they fit.

    Known are `type`, `enum`, `items`, `properties`, `required` and `additionalProperties`.
    """
    return _misfit(schema, arguments, "arguments")


def _misfit(schema: Mapping[str, Any], value: Any, where: str) -> str:
    kind = schema.get("type", "")
    if kind in _TYPES and not _TYPES[kind](value):
        return f"{where}: expected {kind}, found {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: expected one of {schema['enum']}, found {value!r}"
    if isinstance(value, dict):
        return _misfit_object(schema, value, where)
    if isinstance(value, list) and "items" in schema:
        found = (
            _misfit(schema["items"], each, f"{where}[{at}]") for at, each in enumerate(value)
        )
        return next(filter(None, found), "")
    return ""


def _misfit_object(schema: Mapping[str, Any], value: Mapping[str, Any], where: str) -> str:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where}: {name} is missing"
    for name, each in value.items():
        if name in properties:
            if wrong := _misfit(properties[name], each, f"{where}.{name}"):
                return wrong
        elif schema.get("additionalProperties") is False:
            return f"{where}: there is no {name}"
    return ""
