"""`offrails replay RUNS --specs NEW --against OLD`: what a change of specs would have changed.

Both are replayed over the same recordings; sessions are compared spec by spec, call by call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.offline.tables import aligned, printable
from monitor.records import Obstacle, Reason
from monitor.spec.spec import Spec

__all__ = ["ChangedCall", "ChangedSession", "SpecChange", "SpecDiff", "compare", "lines"]

PER = 1_000
"""Pages are counted per so many sessions."""

Judged = Mapping[str, Any]
"""A judgement object."""


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """One call that is judged otherwise; a word is `progress`, `harmful: repeated`, `not judged`."""

    index: int
    """Place of the call in the session, from 1."""
    tool: str
    old: str
    new: str

    def as_json(self) -> dict[str, Any]:
        return {"call": self.index, "tool": self.tool, "old": self.old, "new": self.new}


@dataclass(frozen=True, slots=True)
class ChangedSession:
    """One session under one spec that is judged otherwise."""

    session: str
    namespace: str
    agent: str
    spec: str
    calls: tuple[ChangedCall, ...]
    accepting: tuple[bool | None, bool | None]
    """Whether it ends well, under the old and the new; None if it is not judged."""

    def as_json(self) -> dict[str, Any]:
        return {
            "session": self.session,
            "namespace": self.namespace,
            "agent": self.agent,
            "spec": self.spec,
            "accepting": {"old": self.accepting[0], "new": self.accepting[1]},
            "changed": [call.as_json() for call in self.calls],
        }


@dataclass(slots=True)
class Side:
    """What one version of a spec says of all sessions."""

    version: str | None = None
    mode: str | None = None
    sessions: int = 0
    harmful: int = 0
    pages: int = 0
    """Harmful calls and missed limits that would page: mode `page`, a severity above `info`."""
    paged_sessions: int = 0

    def as_json(self, sessions: int) -> dict[str, Any]:
        return {
            "version": self.version,
            "mode": self.mode,
            "sessions": self.sessions,
            "harmful": self.harmful,
            "pages": self.pages,
            "paged_sessions": self.paged_sessions,
            "pages_per_1000_sessions": _share(self.pages, sessions),
        }


@dataclass(slots=True)
class SpecChange:
    """One spec, before and after."""

    spec: str
    old: Side = field(default_factory=Side)
    new: Side = field(default_factory=Side)
    changed_sessions: int = 0
    changed_calls: int = 0

    def as_json(self, sessions: int) -> dict[str, Any]:
        return {
            "spec": self.spec,
            "changed_sessions": self.changed_sessions,
            "changed_calls": self.changed_calls,
            "old": self.old.as_json(sessions),
            "new": self.new.as_json(sessions),
        }


@dataclass(frozen=True, slots=True)
class SpecDiff:
    """All that changed."""

    sessions: int
    """Sessions in the recordings, judged or not."""
    changed: tuple[ChangedSession, ...]
    specs: tuple[SpecChange, ...]

    def as_json(self) -> dict[str, Any]:
        """The summary; changed sessions are listed one by one."""
        return {
            "sessions": self.sessions,
            "changed_sessions": len({_name(each) for each in self.changed}),
            "specs": [each.as_json(self.sessions) for each in self.specs],
        }


def compare(
    old: Iterable[Judged],
    new: Iterable[Judged],
    old_specs: Sequence[Spec],
    new_specs: Sequence[Spec],
) -> SpecDiff:
    """Compares judgement objects of the same recordings under two sets of specs."""
    before, after = _by_key(old), _by_key(new)
    specs: dict[str, SpecChange] = {}
    changed: list[ChangedSession] = []
    old_by_id = {spec.id: spec for spec in old_specs}
    new_by_id = {spec.id: spec for spec in new_specs}
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        known = was if was is not None else now
        if known is None or known["spec"] is None:
            continue
        name = known["spec"]
        change = specs.setdefault(name, SpecChange(name))
        _add(change.old, was, old_by_id.get(name))
        _add(change.new, now, new_by_id.get(name))
        found = _changed(known, was, now)
        if found is not None:
            changed.append(found)
            change.changed_sessions += 1
            change.changed_calls += len(found.calls)
    sessions = {key[:3] for key in (*before, *after)}
    return SpecDiff(len(sessions), tuple(changed), tuple(specs[name] for name in sorted(specs)))


Key = tuple[str, str, int, str | None, str, str | None]


def _by_key(judgements: Iterable[Judged]) -> dict[Key, Judged]:
    """By session and spec; a session id that comes again, in another file, is another session."""
    found: dict[Key, Judged] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for each in judgements:
        part = (each["namespace"], each["session"], each["spec"], each["agent"], each["turn"])
        key = (each["namespace"], each["session"], seen[part], *part[2:])
        seen[part] += 1
        found[key] = each
    return found


def _add(side: Side, judged: Judged | None, spec: Spec | None) -> None:
    if spec is not None:
        side.version, side.mode = spec.version, spec.mode
    if judged is None or spec is None:
        return
    harms = [step for step in judged["steps"] if step["kind"] == "harmful"]
    pages = sum(_pages(step, spec) for step in harms)
    pages += sum(_pages_missed(each, judged, spec) for each in judged["missed"])
    side.sessions += 1
    side.harmful += len(harms)
    side.pages += pages
    side.paged_sessions += bool(pages)


def _pages(step: Mapping[str, Any], spec: Spec) -> bool:
    # A harmful call changes nothing, so the state after it is the one it was made in.
    severity = spec.severity.of(step["tool"], step["state"], Reason(step["reason"]))
    return spec.mode == "page" and severity != "info"


def _pages_missed(missed: Mapping[str, Any], judged: Judged, spec: Spec) -> bool:
    tool, obstacle = _tool(missed, judged), Obstacle(missed["reason"])
    severity = spec.severity.of(tool, judged["state"], obstacle)
    return spec.mode == "page" and severity != "info"


def _tool(missed: Mapping[str, Any], judged: Judged) -> str:
    """The tool of the call that a missed limit hangs on."""
    steps = (each for each in judged["steps"] if each["span_id"] == missed["span_id"])
    return next((str(each["tool"]) for each in steps), "")


def _changed(known: Judged, was: Judged | None, now: Judged | None) -> ChangedSession | None:
    calls = (*_changed_calls(was, now), *_changed_limits(was, now))
    accepting = (
        None if was is None else was["accepting"],
        None if now is None else now["accepting"],
    )
    if not calls and accepting[0] == accepting[1]:
        return None
    return ChangedSession(
        known["session"], known["namespace"], known["agent"], known["spec"], calls, accepting
    )


def _changed_calls(was: Judged | None, now: Judged | None) -> Iterator[ChangedCall]:
    before, after = _steps(was), _steps(now)
    for span in dict.fromkeys((*before, *after)):
        old, new = before.get(span), after.get(span)
        step = old if old is not None else new
        if step is not None and _word(old) != _word(new):
            yield ChangedCall(step["index"], step["tool"], _word(old), _word(new))


def _changed_limits(was: Judged | None, now: Judged | None) -> Iterator[ChangedCall]:
    """Limits that one side finds missed and the other does not, by the calls they hang on."""
    before, after = _limits(was), _limits(now)
    for key in dict.fromkeys((*before, *after)):
        missed, judged = before.get(key) or after[key]
        old, new = (
            "not judged" if side is None else _sentence(missed) if key in known else "in time"
            for side, known in ((was, before), (now, after))
        )
        if old != new:
            yield ChangedCall(missed["step"], _tool(missed, judged), old, new)


def _limits(
    judged: Judged | None,
) -> dict[tuple[str, str | None, str], tuple[Mapping[str, Any], Judged]]:
    if judged is None:
        return {}
    return {
        (each["reason"], each["rule"], each["span_id"]): (each, judged)
        for each in judged["missed"]
    }


def _sentence(missed: Mapping[str, Any]) -> str:
    rule = f" ({missed['rule']})" if missed["rule"] else ""
    return f"{missed['kind']}: {missed['reason']}{rule}"


def _steps(judged: Judged | None) -> dict[tuple[str, str], Mapping[str, Any]]:
    steps = judged["steps"] if judged is not None else ()
    return {(step["trace_id"], step["span_id"]): step for step in steps}


def _word(step: Mapping[str, Any] | None) -> str:
    if step is None:
        return "not judged"
    kind = step["kind"] or "seen"
    return f"{kind}: {step['reason']}" if step["reason"] else kind


def _name(changed: ChangedSession) -> tuple[str, str]:
    return changed.namespace, changed.session


def _share(pages: int, sessions: int) -> float:
    return round(PER * pages / sessions, 3) if sessions else 0.0


# --- for people -------------------------------------------------------------------------------


def lines(found: SpecDiff) -> Iterator[str]:
    """A line per spec, then each session that is judged otherwise."""
    titles = [
        "spec",
        "version",
        "mode",
        "sessions",
        "changed",
        "calls",
        "harmful",
        "pages/1000",
    ]
    rows = [_row(each, found.sessions) for each in found.specs]
    yield from aligned([titles, *rows])
    if not found.changed:
        yield ""
        yield f"No verdict changes in {found.sessions} sessions."
        return
    yield ""
    yield "judged otherwise:"
    for each in found.changed:
        yield f"  {printable(each.session)} / {printable(each.spec)}{_ends(each)}"
        for call in each.calls:
            tool = printable(call.tool)
            yield f"    call {call.index} {tool}: {call.old} -> {call.new}"


def _row(each: SpecChange, sessions: int) -> list[str]:
    def both(old: Any, new: Any) -> str:
        old, new = ("-" if value is None else str(value) for value in (old, new))
        return printable(new if old == new else f"{old} -> {new}")

    was, now = each.old, each.new
    pages = (_share(was.pages, sessions), _share(now.pages, sessions))
    return [
        printable(each.spec), both(was.version, now.version), both(was.mode, now.mode),
        both(was.sessions, now.sessions), str(each.changed_sessions),
        str(each.changed_calls), both(was.harmful, now.harmful), both(*pages),
    ]  # fmt: skip


def _ends(each: ChangedSession) -> str:
    words = {True: "accepted", False: "not accepted", None: "not judged"}
    old, new = (words[value] for value in each.accepting)
    return "" if old == new else f": {old} -> {new}"
