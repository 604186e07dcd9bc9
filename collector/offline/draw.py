"""`offrails draw FILE --out PICTURE`: a spec or a reference, with the ways of sessions drawn in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector.config.settings.settings import Settings
from collector.offline.progress_bar import Progress
from collector.offline.replay import BadInput, recorded, replay, sessions
from monitor.automaton.dfa import Automaton
from monitor.drawing.reference_layout import LayoutCall
from monitor.drawing.reference_svg import RUNS_MAX
from monitor.drawing.reference_svg import svg as tree_svg
from monitor.drawing.svg import DrawnStep, svg
from monitor.reference.comparison import Comparison
from monitor.spec.learnt_reference import LearntReference
from monitor.spec.spec import Spec

__all__ = ["BadPicture", "picture"]


class BadPicture(Exception):  # noqa: N818 - it names the picture
    """There is nothing to draw; the message says why."""


def picture(spec: Spec, runs: Sequence[Path] = (), named: Sequence[str] = ()) -> str:
    """The spec as SVG; constraints one below the other, a learnt reference as its prefix tree.

    Args:
        spec: what is drawn.
        runs: recordings.
        named: the sessions of them whose ways are drawn in; a spec takes one. For a reference
            none are all.

    Raises:
        BadPicture: too many states, or no such session.
    """
    try:
        if spec.learnt is not None:
            return tree_svg(
                spec.learnt,
                _title(spec),
                _ways(spec.learnt, runs, named),
                _about(spec.learnt),
            )
        if len(named) > 1:
            raise BadPicture(f"{spec.file}: one --session goes with a spec")
        path = _path(spec, runs, named[0]) if named else ()
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


# --- references -------------------------------------------------------------------------------


def _title(spec: Spec) -> str:
    return f"{spec.id}, version {spec.version}"


def _about(learnt: LearntReference) -> str:
    caption = [f"learnt from {learnt.runs} runs"]
    if learnt.source.get("labelled"):
        caption[0] += f" that succeeded, {learnt.failures} that failed"
    if learnt.consistency is not None and learnt.runs > 1:
        caption.append(f"TSS {learnt.consistency['tss']:.2f}")
        caption.append(f"AC {learnt.consistency['ac_paper']:.2f}")
        caption.append(f"{learnt.consistency['unique_sequences']} sequences")
        if learnt.consistency["runs"] < learnt.runs:
            caption[-1] += f" (of {learnt.consistency['runs']} runs compared)"
    return " · ".join(caption)


def _ways(
    learnt: LearntReference, files: Sequence[Path], named: Sequence[str]
) -> list[tuple[str, list[LayoutCall]]]:
    """Name and calls of the runs to draw in."""
    comparison, progress = Comparison(learnt), Progress(list(files))
    found: dict[str, list[LayoutCall]] = {}
    try:
        for file in files:
            for name, calls in _recorded(file, progress):
                if not named or name in named:
                    found[name] = [
                        LayoutCall(tool, comparison.token(tool, arguments, failed))
                        for tool, arguments, failed in calls
                    ]
    except BadInput as problem:
        raise BadPicture(str(problem)) from None
    for name in named:
        if name not in found:
            raise BadPicture(f"there is no session {name!r} in these runs")
    if len(found) > RUNS_MAX:
        raise BadPicture(
            f"{len(found)} runs are too many for one picture: "
            f"name up to {RUNS_MAX} by --session"
        )
    return sorted(found.items(), key=lambda run: named.index(run[0]) if named else 0)


def _recorded(
    file: Path, progress: Progress
) -> Iterator[tuple[str, list[tuple[str, Mapping[str, Any] | None, bool]]]]:
    """The sessions of a file, whatever spec judges them."""
    found = recorded(file, progress)
    for run in found.runs:
        yield run.session, [(each.tool, each.arguments, each.failed) for each in run.calls]
    if found.requests:
        for session in sessions(found.requests):
            steps = session["steps"]
            yield (
                session["session"],
                [(step["tool"], step["arguments"], step["error"]) for step in steps],
            )
