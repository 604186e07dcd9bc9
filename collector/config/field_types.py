"""Types of settings: how a value is read, and what is said if it is wrong.

A text may stand for a number, a switch or a list, as variables of the environment hold only texts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, PlainSerializer, SecretStr, Strict
from pydantic_core import PydanticKnownError

from collector.config.duration import seconds_of
from collector.receive.listener.address import parse_address

__all__ = [
    "OFF",
    "Address",
    "AlertLink",
    "BoardLink",
    "Duration",
    "Endpoint",
    "Expressions",
    "File",
    "HeaderName",
    "HeaderNames",
    "Headers",
    "Labels",
    "Names",
    "NamesByName",
    "Networks",
    "NextHops",
    "Number",
    "Paths",
    "Positive",
    "Proxy",
    "Roles",
    "SessionLink",
    "Signals",
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


def _duration(value: Any) -> Any:
    """Seconds; a text may have a unit."""
    found = seconds_of(value) if isinstance(value, str) else None
    if found is not None:
        return found
    number = _number(value)
    if isinstance(number, str):
        raise ValueError("expected seconds, or a number with a unit: 30s, 10m, 12h, 7d or 2w")  # noqa: TRY004
    return number


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
        text = inner.get_secret_value() if isinstance(inner, SecretStr) else inner
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
            raise ValueError(f"{name}: expected a value in printable ASCII")
    return value


_HEADERS_OF_HOPS = _HEADERS_OF_OURS | {
    "content-encoding",
    "accept-encoding",
    "te",
    "trailer",
    "upgrade",
    "keep-alive",
    "user-agent",
    "expect",
}
"""Headers that describe one connection or one body: each hop has its own."""


def _header_names(value: Any) -> Any:
    """Names of headers, in lower case."""
    value = _several(value)
    if not isinstance(value, tuple):
        return value
    for name in value:
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header")
        if name.lower() in _HEADERS_OF_HOPS or name.lower().startswith(("grpc-", "proxy-")):
            raise ValueError(f"{name}: each hop has its own")
    return tuple(dict.fromkeys(name.lower() for name in value))


def _header_name(value: Any) -> Any:
    """The name of one header, or an empty text."""
    if isinstance(value, str) and value and not _HEADER.fullmatch(value):
        raise ValueError(f"{value!r} is no name of a header")
    return value


def _networks(value: Any) -> Any:
    """Networks in CIDR notation; an address is a network of one."""
    value = _several(value)
    if not isinstance(value, tuple):
        return value
    try:
        return tuple(ip_network(each) for each in value)
    except (ValueError, TypeError) as problem:
        raise ValueError(f"expected addresses as in 10.0.3.0/24: {problem}") from None


def _by_name(value: Any) -> Any:
    """A mapping; in a variable `name=value`, separated by commas."""
    if not isinstance(value, str):
        return value
    return {name: values[-1] for name, values in _pairs(value).items()}


def _several_by_name(value: Any) -> Any:
    """A mapping of names to lists; in a variable `name=value`, one for each value."""
    if isinstance(value, str):
        return {name: tuple(values) for name, values in _pairs(value).items()}
    if not isinstance(value, dict):
        return value
    return {name: _several(inner) for name, inner in value.items()}


def _pairs(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in text.split(","):
        name, equals, inner = part.partition("=")
        if part.strip() and not (equals and name.strip()):
            raise ValueError(f"{part.strip()!r}: expected name=value")
        if part.strip():
            found.setdefault(name.strip(), []).append(inner.strip())
    return found


def _endpoint(value: Any) -> Any:
    if isinstance(value, str):
        parts = urlsplit(value)
        if not value or parts.query or parts.fragment:
            raise ValueError("expected a URL without query and fragment")
    return _url(value)


def _next_hops(value: Any) -> Any:
    """A list of sections; a text stands for one with this endpoint. In a variable, several texts."""
    if isinstance(value, str):
        value = _several(value)
    if isinstance(value, list | tuple):
        return tuple({"endpoint": each} if isinstance(each, str) else each for each in value)
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
Duration = Annotated[float, Strict(False), BeforeValidator(_duration)]
Positive = Annotated[Number, Field(gt=0)]
Switch = Annotated[bool, Strict(False), BeforeValidator(_switch)]
File = Annotated[Path, Strict(False), BeforeValidator(_file)]
Paths = Annotated[tuple[File, ...], BeforeValidator(_paths)]
Names = Annotated[tuple[str, ...], BeforeValidator(_several)]
Expressions = Annotated[tuple[str, ...], BeforeValidator(_expressions)]
_Section = TypeVar("_Section")
HeaderNames = Annotated[tuple[str, ...], BeforeValidator(_header_names)]
HeaderName = Annotated[str, BeforeValidator(_header_name)]
Network = Annotated[
    IPv4Network | IPv6Network,
    Field(union_mode="left_to_right"),
    PlainSerializer(str),
]
Networks = Annotated[tuple[Network, ...], BeforeValidator(_networks)]
Roles = Annotated[dict[str, Literal["viewer", "operator"]], BeforeValidator(_by_name)]
NamesByName = Annotated[
    dict[str, Annotated[tuple[str, ...], Field(min_length=1)]],
    BeforeValidator(_several_by_name),
]
Headers = Annotated[dict[str, SecretStr], BeforeValidator(_headers)]
Labels = Annotated[dict[str, str], BeforeValidator(_labels)]
Address = Annotated[str, BeforeValidator(_address)]
Proxy = Annotated[str, BeforeValidator(_proxy)]
Url = Annotated[str, BeforeValidator(_url)]
Urls = Annotated[tuple[Url, ...], BeforeValidator(_several)]
Endpoint = Annotated[str, BeforeValidator(_endpoint)]
NextHops = Annotated[tuple[_Section, ...], BeforeValidator(_next_hops)]
Signals = Annotated[
    tuple[Literal["traces", "metrics", "logs"], ...],
    BeforeValidator(_several),
    Field(min_length=1),
]
SessionLink = Annotated[str, BeforeValidator(_link_with("session", "namespace"))]
BoardLink = Annotated[str, BeforeValidator(_link_with("agent", "spec"))]
AlertLink = Annotated[str, BeforeValidator(_link_with("alert"))]
TraceLink = Annotated[str, BeforeValidator(_link_with("trace_id", "span_id", "session"))]
