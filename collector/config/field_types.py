"""Types of settings: how a value is read, and what is said if it is wrong.

A text may stand for a number, a switch or a list, as variables of the environment hold only texts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, Strict
from pydantic_core import PydanticKnownError

from collector.receive.address import parse_address

__all__ = [
    "OFF",
    "Address",
    "AlertLink",
    "BoardLink",
    "Expressions",
    "File",
    "Headers",
    "Labels",
    "Names",
    "Number",
    "Paths",
    "Positive",
    "Proxy",
    "SessionLink",
    "Switch",
    "TraceLink",
    "Url",
    "Urls",
    "Whole",
]

OFF: Final = "off"


def _whole(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    if isinstance(value, str):
        with suppress(ValueError):
            return int(value)
        with suppress(ValueError):
            return float(value)
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticKnownError("float_type")
    if isinstance(value, str | int):
        try:
            return float(value)
        except OverflowError:
            raise PydanticKnownError("finite_number") from None
        except ValueError:
            return value
    return value


def _switch(value: Any) -> Any:
    if isinstance(value, float):
        raise PydanticKnownError("bool_parsing")
    return value


def _file(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("Input should be a path, found an empty text")
    return Path(value)


def _address(value: Any) -> Any:
    # YAML 1.2 leaves `off` a text; a boolean is what a JSON file may hold.
    if value is False or (isinstance(value, str) and value.lower() == OFF):
        return OFF
    if not isinstance(value, str):
        raise ValueError("expected HOST:PORT, unix:PATH or off")  # noqa: TRY004 - told to users
    parse_address(value)
    return value


def _several(value: Any) -> Any:
    """A list; in a variable, values separated by commas."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, str):
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if value.strip() and not parts:
        raise ValueError("expected values separated by commas, found only commas")
    return tuple(parts)


def _paths(value: Any) -> Any:
    if isinstance(value, str) and value.strip() and not value.strip(f" ,{os.pathsep}"):
        raise ValueError(f"expected paths separated by {os.pathsep!r}, found only separators")
    return _several(value)


def _link(value: Any) -> Any:
    if isinstance(value, str) and value and not value.startswith(("https://", "http://", "/")):
        raise ValueError("expected a link that begins with https://, http:// or /")
    return value


def _link_with(*names: str) -> Callable[[Any], Any]:
    """Checks a link in which only these names may stand in braces."""
    known = ", ".join(f"{{{name}}}" for name in names)

    def checked(value: Any) -> Any:
        for name in re.findall(r"\{(\w+)\}", value) if isinstance(value, str) else ():
            if name not in names:
                raise ValueError(f"nothing is put in for {{{name}}}: expected {known}")
        return _link(value)

    return checked


def _url(value: Any) -> Any:
    if isinstance(value, str) and value:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or not value.isascii():
            raise ValueError("expected a URL that begins with http:// or https://")
        try:
            parts.port  # noqa: B018 - it is read to be checked
        except ValueError:
            raise ValueError("expected a URL with a port from 0 to 65535") from None
        if any(char.isspace() for char in value):
            raise ValueError("expected a URL without spaces")
    return value


def _proxy(value: Any) -> Any:
    # YAML 1.2 leaves `off` a text; a boolean is what a JSON file may hold.
    if value is False or (isinstance(value, str) and value.lower() == OFF):
        return OFF
    return _url(value)


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_HEADERS_OF_OURS = frozenset(
    {"host", "connection", "content-length", "content-type", "transfer-encoding"}
)


def _headers(value: Any) -> Any:
    """Headers as a mapping; in a variable `name=value`, separated by commas."""
    if isinstance(value, str):
        parts = [part.partition("=") for part in value.split(",") if part.strip()]
        value = {name.strip(): inner.strip() for name, _, inner in parts}
    for name, inner in value.items() if isinstance(value, dict) else ():
        if not _HEADER.fullmatch(str(name)) or str(name).lower() in _HEADERS_OF_OURS:
            raise ValueError(f"{name!r} is no name of a header that can be set")
        if not isinstance(inner, str) or not _HEADER_VALUE.fullmatch(inner):
            raise ValueError(f"{name}: expected a value in printable ASCII")
    return value


_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_LABELS_OF_OURS = frozenset(
    {"alertname", "agent", "spec", "reason", "severity", "session", "source"}
)


def _labels(value: Any) -> Any:
    """Labels of alerts as a mapping; in a variable `name=value`, separated by commas."""
    if isinstance(value, str):
        parts = [part.partition("=") for part in value.split(",") if part.strip()]
        value = {name.strip(): inner.strip() for name, _, inner in parts}
    for name, inner in value.items() if isinstance(value, dict) else ():
        if not _LABEL.fullmatch(str(name)):
            raise ValueError(f"{name!r} is no name of a label")
        if name in _LABELS_OF_OURS:
            raise ValueError(f"{name}: every alert has a label of that name already")
        if not isinstance(inner, str) or not inner or not inner.isprintable():
            raise ValueError(f"{name}: expected a text of printable characters")
    return value


def _silent() -> Any:
    """RE2 options that keep RE2 from logging errors itself."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return options


def _expressions(value: Any) -> Any:
    value = _several(value)
    for pattern in value if isinstance(value, tuple) else ():
        import re2  # only who has something to hide pays for it

        try:
            if isinstance(pattern, str):
                re2.compile(pattern, _silent())
        except re2.error:
            raise ValueError(f"{pattern!r} is no RE2 expression") from None
    return value


Whole = Annotated[int, Strict(False), BeforeValidator(_whole)]
Number = Annotated[float, Strict(False), BeforeValidator(_number)]
Positive = Annotated[Number, Field(gt=0)]
Switch = Annotated[bool, Strict(False), BeforeValidator(_switch)]
File = Annotated[Path, Strict(False), BeforeValidator(_file)]
Paths = Annotated[tuple[File, ...], BeforeValidator(_paths)]
Names = Annotated[tuple[str, ...], BeforeValidator(_several)]
Expressions = Annotated[tuple[str, ...], BeforeValidator(_expressions)]
Headers = Annotated[dict[str, str], BeforeValidator(_headers)]
Labels = Annotated[dict[str, str], BeforeValidator(_labels)]
Address = Annotated[str, BeforeValidator(_address)]
Proxy = Annotated[str, BeforeValidator(_proxy)]
Url = Annotated[str, BeforeValidator(_url)]
Urls = Annotated[tuple[Url, ...], BeforeValidator(_several)]
SessionLink = Annotated[str, BeforeValidator(_link_with("session", "namespace"))]
BoardLink = Annotated[str, BeforeValidator(_link_with("agent", "spec"))]
AlertLink = Annotated[str, BeforeValidator(_link_with("alert"))]
TraceLink = Annotated[str, BeforeValidator(_link_with("trace_id", "span_id", "session"))]
