"""`offrails draw FILE --out PICTURE`: a spec, with the way of a session drawn in, or with its things below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector.client.verb_error import VerbError
from collector.offline.replay import replay
from monitor.automaton.dfa import Automaton
from monitor.drawing.svg import DrawnStep, svg
from monitor.drawing.thing_rows import DrawnThing, DrawnThings
from monitor.spec.spec import Spec

__all__ = ["BadPicture", "picture"]


class BadPicture(VerbError):  # noqa: N818 - it names the picture
    """There is nothing to draw; the message says why."""


def picture(spec: Spec, runs: Sequence[Path] = (), session: str | None = None) -> str:
    """The spec as SVG; constraints one below the other.

    Args:
        spec: what is drawn; no learnt reference.
        runs: recordings.
        session: the session of them whose way is drawn in; under `each`, whose things are.

    Raises:
        BadPicture: too many states, or no such session.
    """
    path: Sequence[DrawnStep] = ()
    things = None
    if session is not None and spec.each is not None:
        things = _things(_judged(spec, runs, session))
    elif session is not None:
        path = _path(spec, runs, session)
    try:
        return svg(spec.diagrams(), path, things)
    except ValueError as problem:
        raise BadPicture(f"{spec.file}: {problem}") from None


def _judged(spec: Spec, runs: Sequence[Path], session: str) -> Mapping[str, Any]:
    """The judgement object of one session of the recordings."""
    found = [
        judged
        for judged in replay(runs, [spec], unnamed=spec.id)
        if judged["session"] == session and judged["spec"] == spec.id
    ]
    if not found:
        raise BadPicture(f"{spec.id} judges no session {session!r} in these runs")
    return found[0]


def _things(judged: Mapping[str, Any]) -> DrawnThings:
    """The things of a session, those with harm first, as in the session view."""
    rows = [_thing(each) for each in judged["things"]]
    rows.sort(key=lambda row: -row.harmful)
    return DrawnThings(f"things of {judged['session']}", rows, judged["things_count"])


def _thing(shown: Mapping[str, Any]) -> DrawnThing:
    name = f"{shown['name']} {shown.get('digest') or shown['value']}"
    state = shown["state"] or "several"
    return DrawnThing(name, state, shown["accepting"], shown["calls"], shown["harmful"])


def _path(spec: Spec, runs: Sequence[Path], session: str) -> Sequence[DrawnStep]:
    if not isinstance(spec.machine, Automaton):
        raise BadPicture(f"{spec.file}: a session's path goes with transitions or golden")
    return tuple(_steps(_judged(spec, runs, session), spec.machine))


def _steps(judged: Mapping[str, Any], machine: Automaton) -> Iterator[DrawnStep]:
    number = {name: state for state, name in enumerate(machine.states)}
    before = machine.initial
    for step in judged["steps"]:
        after = number.get(step["state"], before)
        yield DrawnStep(
            before, after, step["symbol"] or step["tool"], step["kind"] == "harmful"
        )
        before = after
