"""Where settings come from. Options override `OFFRAILS_*` variables, and variables override the YAML file.

Unknown keys are refused. Each message names the file, line and key, or the variable or option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from collector.config.environment import ENVIRONMENT, misspelt
from collector.config.field_types import OFF
from collector.config.settings.settings import Settings
from monitor.spec.document.validation import DocumentFault, StrictModel, validated
from monitor.spec.document.yaml_text import Document, parse
from monitor.spec.suggestions import closest

__all__ = ["SettingsError", "load", "place", "standby"]


class SettingsError(Exception):
    """The configuration cannot be used; the message says where and what was expected."""


_OPTIONS: Mapping[tuple[str, ...], str] = {
    ("record", "folder"): "--record",
    ("decide", "listen"): "--decide",
    ("state", "dir"): "--state",
}
"""Setting -> its option, where the option is not named after the last part of the key."""


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
    wrong = _override(data, environ, options)
    if wrong:
        line, column = document.place(wrong)
        key = ".".join(wrong)
        raise SettingsError(f"{file}:{line}:{column}: {key}: expected a mapping of keys")
    settings, faults = validated(Settings, data)
    told = (
        [_told(faults, document, file, _origin(environ, options))] if settings is None else []
    )
    told += misspelt(environ)
    if settings is None or told:
        raise SettingsError("\n".join(told))
    return settings


_STANDBY: Final = ("metrics", "metrics_names", "metrics_tls", "log_level")
"""Settings used by a service that only reports why it cannot start."""


def standby(
    file: Path | None, environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> Settings | None:
    """The settings of a service that only reports why it could not start; None if it must exit.

    It exits unless `specs_on_error` is `start`. Of the other settings, only the valid ones of the metrics
    listener and the log are used. Nothing is received, so nothing can be disclosed.

    Args:
        file: as for `load`, which refused it.
        environ: as for `load`.
        options: as for `load`.
    """
    try:
        data = _read(file).data if file else {}
    except SettingsError:
        data = {}
    if not isinstance(data, dict):
        data = {}
    _override(data, environ, options)
    if data.get("specs_on_error") != "start":
        return None
    off = {
        "receiver": {"grpc": OFF, "http": OFF},
        "decide": {"listen": OFF},
        "admin": OFF,
        "specs_on_error": "start",
    }
    for key in _STANDBY:
        if key in data and validated(Settings, {**off, key: data[key]})[0] is not None:
            off[key] = data[key]
    return validated(Settings, off)[0]


def _override(
    data: dict[str, Any], environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> tuple[str, ...]:
    """Writes variables and options over a file's data; returns the first path that is not a section, or ()."""
    given: dict[tuple[str, ...], Any] = {
        path: environ[name] for name, path in ENVIRONMENT.items() if environ.get(name)
    }
    if ("specs",) in given:
        # An empty part would be the working directory, with every spec below it.
        parts = [part for part in given["specs",].split(os.pathsep) if part.strip()]
        given["specs",] = parts or given["specs",]
    for path, value in {**given, **options}.items():
        wrong = _put(data, path, value)
        if wrong:
            return wrong
    return ()


def place(
    key: str,
    file: Path | None,
    environ: Mapping[str, str],
    options: Mapping[tuple[str, ...], Any],
) -> str:
    """Where a setting was given: the file with line and column, the variable, or the option.

    Args:
        key: the setting or its section, such as `receiver.tls.cert` or `forward[0].endpoint`.
        file: as for `load`, which read it.
        environ: as for `load`.
        options: as for `load`.
    """
    document = _read(file) if file else Document({}, {}, {})
    path = tuple(int(each) if each.isdigit() else each for each in re.findall(r"[^.[\]]+", key))
    return _where(path, document, file, _origin(environ, options))


def _origin(
    environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> dict[tuple[str, ...], str]:
    """Setting -> the variable or the option that gave it."""
    found = {path: name for name, path in ENVIRONMENT.items() if environ.get(name)}
    return found | {
        path: _OPTIONS.get(path, "--" + path[-1].replace("_", "-")) for path in options
    }


def _read(file: Path) -> Document:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise SettingsError(f"{file}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: expected UTF-8 text") from None
    if all(not line or line[0] == "#" for line in map(str.strip, text.splitlines())):
        return Document({}, {}, {})  # an empty file sets nothing, and is valid
    document, findings = parse(text, str(file))
    if document is None or findings:
        raise SettingsError("\n".join(str(found) for found in findings))
    return document


def _put(data: dict[str, Any], path: tuple[str, ...], value: Any) -> tuple[str, ...]:
    """Puts a value into its section; returns the first path that is not a section, or ()."""
    for count, key in enumerate(path[:-1], 1):
        inner = {} if data.get(key) is None else data[key]
        if not isinstance(inner, dict):
            return path[:count]
        data[key] = inner
        data = inner
    data[path[-1]] = value
    return ()


def _told(
    faults: Iterable[DocumentFault],
    document: Document,
    file: Path | None,
    origin: Mapping[tuple[str, ...], str],
) -> str:
    """One line for each fault: place, key, problem."""
    lines = []
    for fault in faults:
        path = tuple(part for part in fault.path if isinstance(part, str))
        where = _where(fault.path, document, file, origin)
        told = [where, ".".join(path), _wrong(fault)]
        lines.append(": ".join(part for part in told if part))
    return "\n".join(lines)


def _where(
    at: tuple[str | int, ...],
    document: Document,
    file: Path | None,
    origin: Mapping[tuple[str, ...], str],
) -> str:
    path = tuple(part for part in at if isinstance(part, str))
    if not path:  # about several settings, perhaps from several places
        return str(file) if file else "the settings"
    for length in range(len(path), 0, -1):
        if path[:length] in origin:
            return origin[path[:length]]
    for given, name in origin.items():  # about a section: any of its parts
        if given[: len(path)] == path:
            return name
    if file is None:  # a default, which does not go with what was given
        return "the settings"
    line, column = document.place(at)
    return f"{file}:{line}:{column}"


def _wrong(fault: DocumentFault) -> str:
    if fault.kind != "unknown":
        return fault.said
    *section, key = map(str, fault.path)
    meant = closest(key, _keys(section))
    return "there is no such setting" + (f"; did you mean {meant}?" if meant else "")


def _keys(section: Iterable[str]) -> Iterable[str]:
    """The keys that a section has."""
    model: type[StrictModel] = Settings
    for key in section:
        if not key.isdigit():  # else a place in a list of sections
            model = _section_of(model.model_fields[key].annotation)
    return model.model_fields


def _section_of(kind: Any) -> type[StrictModel]:
    """The model of a section, or of a list of sections."""
    found = (
        kind if isinstance(kind, type) and issubclass(kind, StrictModel) else get_args(kind)[0]
    )
    assert issubclass(found, StrictModel)
    return found
