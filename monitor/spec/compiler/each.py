"""A document's `each`: the kind of thing, and where calls carry its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from monitor.alphabet.things import ACROSS, Across, EachRule, ThingPath
from monitor.limits import SECOND
from monitor.spec.document.faults import Notes
from monitor.spec.document.schema import SpecDocument, ThingPathDocument, seconds
from monitor.spec.suggestions import closest
from monitor.value_paths import PathError, path_of

__all__ = ["read_each"]

SETTINGS: Final = ("across", "within")
"""Keys that stand beside `each`, or in it."""

WITHIN_SECONDS: Final = 86_400
"""How long a thing of several sessions is known after its last call, if the spec does not say so."""


def read_each(model: SpecDocument, notes: Notes) -> EachRule | None:
    """The rule of a document; None if it has none, or a wrong one, which is a finding."""
    each = model.each
    if each is None:
        _check_alone(model, notes)
        return None
    names = [name for name in each if name not in SETTINGS]
    if len(names) != 1:
        found = "none" if not names else f"{len(names)}: {', '.join(map(repr, names[:8]))}"
        message = f"each names exactly one kind of thing, and here are {found}; two kinds are two specs"
        notes.add("invalid_each", message, "each")
        return None
    name = names[0]
    tools = _tools(model, name, each[name], notes)
    across, within = _across(model, each, notes), _within(model, each, notes)
    _check_fit(model, across, within, notes)
    within_ns = 0 if across == "session" else int((within or WITHIN_SECONDS) * SECOND)
    return EachRule(name, tools, across, within_ns) if tools else None


def _across(model: SpecDocument, each: Mapping[str, Any], notes: Notes) -> Across:
    found: Across | None = ACROSS.get(str(each.get("across", model.across)))
    if found is None:
        message = f"across is one of {', '.join(ACROSS)}"
        notes.add("invalid_each", message, "each", "across")
    return found or "session"


def _within(model: SpecDocument, each: Mapping[str, Any], notes: Notes) -> float | None:
    """In seconds; None if it is left out."""
    try:
        return seconds(each["within"]) if "within" in each else model.within
    except ValueError as problem:
        notes.add("invalid_each", f"within: {problem}", "each", "within")
        return None


def _check_alone(model: SpecDocument, notes: Notes) -> None:
    """Finds what says something of things where there are none."""
    for key, given in (("across", model.across != "session"), ("within", model.within)):
        if given:
            notes.add("invalid_each", f"{key} is of things: write each beside it", key)


def _tools(
    model: SpecDocument, name: str, given: Any, notes: Notes
) -> dict[str, list[ThingPath]]:
    if not isinstance(given, dict):
        message = f"{name!r} must be a mapping from tools to paths, as {{refund: order_id}}"
        notes.add("invalid_each", message, "each", name)
        return {}
    known = {symbol.tool for symbol in model.alphabet.values()}
    found: dict[str, list[ThingPath]] = {}
    for tool, paths in given.items():
        if tool not in known:
            close = closest(tool, known, 0.8) if len(known) < 200 else ""
            hint = f"; did you mean {close!r}?" if close else ""
            message = f"no symbol has the tool {tool!r}{hint}"
            notes.add("undeclared_tool", message, "each", name, tool)
        is_list = isinstance(paths, list)
        for place, raw in enumerate(paths if is_list else [paths]):
            path = _path(raw, notes, "each", name, tool, *([place] if is_list else []))
            if path is not None:
                found.setdefault(tool, []).append(path)
    return found


def _path(raw: str | ThingPathDocument, notes: Notes, *where: str | int) -> ThingPath | None:
    text = raw if isinstance(raw, str) else raw.path
    try:
        return ThingPath(path_of(text), not isinstance(raw, str) and raw.as_ == "text")
    except PathError as problem:
        notes.add("invalid_path", str(problem), *where)
        return None


def _check_fit(model: SpecDocument, across: Across, within: float | None, notes: Notes) -> None:
    """Finds what a spec with things cannot have beside them."""
    if model.kind == "reference":
        notes.add("invalid_each", "a reference compares whole runs: it has no things", "each")
    if across == "session" and within is not None:
        message = "a thing of one session is known as long as it: within goes with across: agent or namespace"
        notes.add("invalid_each", message, "within")
    if across != "session" and model.scope != "session":
        message = f"with across: {across}, the scope is session"
        notes.add("invalid_each", message, "scope")
    for key in ("deadlines", "idle", "undo"):
        if getattr(model, key):
            message = f"{key} is of the whole session: write it in a spec without each"
            notes.add("invalid_each", message, key)
