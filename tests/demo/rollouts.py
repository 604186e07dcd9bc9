"""What a run of `offrails harness` has left, sent to the service as its agents did, and the verdicts on it.

The run's own figures are known: a session that the service judges otherwise is said.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.demo.processes import Service, say, serving, stay
from tests.demo.words import Paint, heading, places, report, step_lines

__all__ = ["SHOWN_MAX", "faults", "show"]

SHOWN_MAX: Final = 20
"""Sessions whose calls are shown one by one."""
POLL_SECONDS: Final = 0.05
LAST_SECONDS: Final = 30.0
"""How long a session is waited for."""
GAUGES: Final = ("offrails_harm_rate{", "offrails_prefix_crit{")
FIGURES: Final = ("calls", "harmful", "harm_rate", "prefix_crit", "pc")
"""What the service and the run have to say alike."""


def show(run: Path, tasks: Sequence[str], paint: Paint, *, staying: bool) -> int:
    """Runs the demo; 0 when the service judges each rollout as the run did.

    Args:
        run: folder of a run.
        tasks: where its tasks are; none for bundled ones.
        paint: how to colour.
        staying: whether the service is kept.
    """
    rollouts = _rollouts(run)
    with (
        TemporaryDirectory() as folder,
        serving(_specs(rollouts, tasks, Path(folder))) as service,
    ):
        say(f"{len(rollouts)} rollouts of {run}: offrails judges their spans as they come.")
        for line in places(service.places):
            say(line)
        judgements = [*_judged(service, run, rollouts, paint)]
        for line in report(judgements, service.samples(*GAUGES), paint):
            say(line)
        found = faults(rollouts, judgements)
        for line in found:
            say(f"NOT as in the run: {line}")
        if staying:
            stay(service)
    return service.process.returncode or int(bool(found))


def faults(
    rollouts: Sequence[Mapping[str, Any]], judgements: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Rollouts that the service judges otherwise, in words. One without a call is no session."""
    by_session = {each["session"]: each for each in judgements}
    found = []
    for each in rollouts:
        here = by_session.get(each["session"])
        if here is None and each["calls"]:
            found.append(f"{each['session']} is not judged")
        elif here is not None:
            found += [
                f"{each['session']} has {name} {here[name]}, not {each[name]}"
                for name in FIGURES
                if here[name] != each[name]
            ]
    return found


def _rollouts(run: Path) -> list[dict[str, Any]]:
    from harness.bench.results_folder import ResultsError, read_rollouts

    try:
        return read_rollouts(run)
    except ResultsError as problem:
        sys.exit(str(problem))


def _specs(rollouts: Sequence[Mapping[str, Any]], tasks: Sequence[str], folder: Path) -> Path:
    """A folder with the specs of a run's tasks."""
    from harness.tasks.catalogue import find_tasks
    from harness.tasks.read import TaskError

    wanted = {each["task"] for each in rollouts}
    try:
        known = {task.name: task for task in find_tasks(tasks)}
    except TaskError as problem:
        sys.exit(str(problem))
    if missing := sorted(wanted - known.keys()):
        sys.exit(f"There is no task {missing[0]}: name its file or folder behind the run.")
    for name in wanted:
        shutil.copyfile(known[name].spec_file, folder / f"{name.replace('/', '.')}.yaml")
    return folder


def _judged(
    service: Service, run: Path, rollouts: Sequence[Mapping[str, Any]], paint: Paint
) -> Iterator[dict[str, Any]]:
    """Sends the spans of a run, and gives the judgement of each rollout, in its order."""
    from harness.bench.results_folder import SPANS

    with (run / SPANS).open("rb") as lines:
        for line in lines:
            service.send(line)
    for place, rollout in enumerate(rollouts):
        judgement = _judgement(service, rollout)
        if judgement is None:
            continue
        yield judgement
        if place < SHOWN_MAX:
            _say_steps(judgement, paint)
        elif place == SHOWN_MAX:
            say(
                f"\n{len(rollouts) - SHOWN_MAX} more sessions follow; their calls are on the page."
            )


def _say_steps(judgement: Mapping[str, Any], paint: Paint) -> None:
    say(heading(judgement, paint))
    for step in judgement["steps"]:
        for line in step_lines(step, None, None, paint):
            say(line)


def _judgement(service: Service, rollout: Mapping[str, Any]) -> dict[str, Any] | None:
    """The service's judgement once it has all calls, or what it has after a while."""
    last = time.monotonic() + LAST_SECONDS * bool(rollout["calls"])
    while True:
        found = next(iter(service.judgements_of(rollout["session"])), None)
        if (found and found["calls"] == rollout["calls"]) or time.monotonic() > last:
            return found
        time.sleep(POLL_SECONDS)
