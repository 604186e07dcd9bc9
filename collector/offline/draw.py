"""`offrails draw FILE --out PICTURE`: a spec, with the way of a session drawn in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector.config.settings.settings import Settings
from collector.offline.progress_bar import Progress
from collector.offline.replay import BadInput, replay
from monitor.automaton.dfa import Automaton
from monitor.drawing.svg import DrawnStep, svg
from monitor.spec.spec import Spec

__all__ = ["BadPicture", "picture"]


class BadPicture(Exception):  # noqa: N818 - it names the picture
    """There is nothing to draw; the message says why."""


def picture(spec: Spec, runs: Sequence[Path] = (), session: str | None = None) -> str:
    """The spec as SVG; constraints one below the other.

    Args:
        spec: what is drawn; no learnt reference.
        runs: recordings.
        session: the session of them whose way is drawn in.

    Raises:
        BadPicture: too many states, or no such session.
    """
    try:
        path = () if session is None else _path(spec, runs, session)
        return svg(spec.diagrams(), tuple(path))
    except ValueError as problem:
        raise BadPicture(f"{spec.file}: {problem}") from None


def _path(spec: Spec, runs: Sequence[Path], session: str) -> Sequence[DrawnStep]:
    if not isinstance(spec.machine, Automaton):
        raise BadPicture(f"{spec.file}: a session's path goes with transitions or golden")
    try:
        found = [
            judged
            for judged in replay(
                runs,
                [spec],
                Settings(),
                together=False,
                progress=Progress(list(runs)),
                unnamed=spec.id,
            )
            if judged["session"] == session and judged["spec"] == spec.id
        ]
    except BadInput as problem:
        raise BadPicture(str(problem)) from None
    if not found:
        raise BadPicture(f"{spec.id} judges no session {session!r} in these runs")
    return tuple(_steps(found[0], spec.machine))


def _steps(judged: Mapping[str, Any], machine: Automaton) -> Iterator[DrawnStep]:
    number = {name: state for state, name in enumerate(machine.states)}
    before = machine.initial
    for step in judged["steps"]:
        after = number.get(step["state"], before)
        yield DrawnStep(
            before, after, step["symbol"] or step["tool"], step["kind"] == "harmful"
        )
        before = after
