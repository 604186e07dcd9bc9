"""All user configuration: a YAML file, `OFFRAILS_*` variables, and options, in rising order.

Unknown keys are refused, and every problem is told with its file, line and key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from collector.dialects.choose import SESSION_KEYS
from collector.receivers.address import parse_address
from collector.sessions import NAMESPACE_KEYS
from monitor.spec.document import Document, parse

__all__ = ["ENVIRONMENT", "Settings", "SettingsError", "load"]

OFF = "off"
PREFIX = "OFFRAILS_"


class SettingsError(Exception):
    """The configuration cannot be used; the message says where and what was expected."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _address(value: Any) -> Any:
    # YAML 1.2 leaves `off` a text; a boolean is what a JSON file may hold.
    if value is False or (isinstance(value, str) and value.lower() == OFF):
        return OFF
    if not isinstance(value, str):
        raise ValueError("expected HOST:PORT, unix:PATH or off")  # noqa: TRY004 - pydantic's way
    parse_address(value)
    return value


def _several(value: Any) -> Any:
    return [part for part in value.split(",") if part] if isinstance(value, str) else value


Address = Annotated[str, BeforeValidator(_address)]
Names = Annotated[tuple[str, ...], BeforeValidator(_several)]


class Receiver(_Section):
    """The OTLP listeners."""

    grpc: Address = Field(
        "127.0.0.1:4317", description="OTLP over gRPC: HOST:PORT, unix:PATH or off."
    )
    http: Address = Field(
        "127.0.0.1:4318", description="OTLP over HTTP: HOST:PORT, unix:PATH or off."
    )
    max_request_bytes: int = Field(
        64 * 1024 * 1024, ge=1024, description="Largest request, also after decompression."
    )


class Sessions(_Section):
    """What a session is, and how long it lives."""

    max: int = Field(
        100_000, ge=1, description="Live sessions; beyond it the least recent is evicted."
    )
    idle_seconds: float = Field(
        1800, gt=0, description="A session without calls for so long has ended."
    )
    window_seconds: float = Field(
        10, ge=0, description="A verdict is final this long after its call was received."
    )
    hold_seconds: float = Field(
        300, ge=0, description="A finished session counts in the gauges for so long."
    )
    id_attributes: Names = Field(
        SESSION_KEYS, description="Where a session's id may be, best first; else the trace id."
    )
    namespace_attributes: Names = Field(
        NAMESPACE_KEYS, description="Resource attributes that keep tenants' sessions apart."
    )


class Settings(_Section):
    """Everything a user can set."""

    specs: Annotated[tuple[Path, ...], BeforeValidator(_several)] = Field(
        (), description="Spec files and folders (read recursively)."
    )
    receiver: Receiver = Receiver()
    metrics: Address = Field(
        "127.0.0.1:9464", description="/metrics and health: HOST:PORT or off."
    )
    admin: Address = Field(
        "127.0.0.1:4319", description="The API: HOST:PORT or off; keep it on loopback."
    )
    sessions: Sessions = Sessions()
    history: Literal["auto", "complete"] = Field(
        "auto",
        description="complete: every session is seen from its first call, whatever its spans' times.",
    )
    show_arguments: bool = Field(
        default=False, description="Keep calls' arguments and show them in the API."
    )
    drain_seconds: float = Field(5, ge=0, description="Time for open requests when stopping.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged."
    )


def _leaves(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _leaves(inner, (*path, name))
        else:
            yield (*path, name)


ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    **{PREFIX + "_".join(path).upper(): path for path in _leaves(Settings)},
    f"{PREFIX}GRPC": ("receiver", "grpc"),
    f"{PREFIX}HTTP": ("receiver", "http"),
}
"""Variable -> the setting it sets. The two listeners also have the short names of the options."""


def load(
    file: Path | None, environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> Settings:
    """The settings of a file, overridden by variables, overridden by options.

    Raises:
        SettingsError: naming the file and line, the variable or the option, and the key.
    """
    document = _read(file) if file else Document({}, {}, {})
    data = document.data if document.data is not None else {}
    if not isinstance(data, dict):
        raise SettingsError(f"{file}:1:1: expected a mapping of settings")
    origin: dict[tuple[str, ...], str] = {}
    for name, path in ENVIRONMENT.items():
        if environ.get(name):
            value: Any = environ[name]
            if path == ("specs",):
                value = value.split(os.pathsep)
            _put(data, path, value)
            origin[path] = name
    for path, value in options.items():
        _put(data, path, value)
        origin[path] = "--" + path[-1].replace("_", "-")
    try:
        return Settings.model_validate(data)
    except ValidationError as problem:
        raise SettingsError(_told(problem, document, file, origin)) from None


def _read(file: Path) -> Document:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as problem:
        raise SettingsError(f"{file}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: expected UTF-8 text") from None
    document, findings = parse(text, str(file))
    if document is None or findings:
        raise SettingsError("\n".join(str(found) for found in findings))
    return document


def _put(data: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        inner = data.get(key)
        data[key] = inner if isinstance(inner, dict) else {}
        data = data[key]
    data[path[-1]] = value


def _told(
    problem: ValidationError,
    document: Document,
    file: Path | None,
    origin: Mapping[tuple[str, ...], str],
) -> str:
    """A line for each error: where, which key, what is wrong."""
    lines = []
    for error in problem.errors():
        path = tuple(part for part in error["loc"] if isinstance(part, str))
        where = next(
            (origin[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origin), None
        )
        if where is None:
            line, column = document.place(tuple(error["loc"]))
            where = f"{file}:{line}:{column}"
        lines.append(f"{where}: {'.'.join(path)}: {_wrong(error)}")
    return "\n".join(lines)


def _wrong(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return "there is no such setting"
    return error["msg"].removeprefix("Value error, ")
