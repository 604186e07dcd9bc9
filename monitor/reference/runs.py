"""Runs as learning takes them: plain data, with arguments reduced to digests."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from monitor.reference.calls import digest, seems_to_write
from monitor.reference.settings import SPLIT_DRAWS, SPLIT_RUNS_MAX
from monitor.scores.consistency import TraceCall, flatten

__all__ = ["SeenCall", "SeenRun", "halves", "sample", "seen_call", "writes_anew"]


Thing = TypeVar("Thing")


class SeenCall(NamedTuple):
    """One call of a run that was recorded."""

    tool: str
    digest: str
    """Digest of the arguments; "" if they are unknown."""
    failed: bool
    call: TraceCall
    """The call in the form of the consistency scores."""
    is_own: bool = False
    """True of a write whose values are known not to come from earlier results (`written_values`)."""


class SeenRun(NamedTuple):
    """One recorded run."""

    id: str
    agent: str
    calls: tuple[SeenCall, ...]
    success: bool | None = None
    """None if the outcome is unknown."""
    task: str = ""
    """What it was asked to do, by name; "" if that is unknown."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tools called, in order."""
        return tuple(call.tool for call in self.calls)


def seen_call(
    tool: str, arguments: Mapping[str, Any] | None, *, failed: bool, is_own: bool = False
) -> SeenCall:
    """A call from what was recorded of it."""
    found = "" if arguments is None else digest(arguments)
    return SeenCall(tool, found, failed, TraceCall(tool, flatten(arguments)), is_own)


def writes_anew(run: SeenRun, is_known: Callable[[str], bool], writes: Container[str]) -> bool:
    """Whether a run wrote, without failing, by a tool that is not known (`new_write_tool`).

    Args:
        run: the run.
        is_known: whether usual runs called a tool.
        writes: tools that write, beside those that do by their names.
    """
    return any(
        not call.failed
        and (call.tool in writes or seems_to_write(call.tool))
        and not is_known(call.tool)
        for call in run.calls
    )


def sample(runs: Iterable[SeenRun], most: int) -> list[SeenRun]:
    """At most so many of the runs: the same ones whatever the order they come in."""
    return sorted(runs, key=_shuffle_key)[:most]


def _shuffle_key(run: SeenRun) -> tuple[bytes, str]:
    """An order that has nothing to do with the runs' content or names, and is always the same."""
    text = "\0".join(f"{call.tool}\1{call.digest}" for call in run.calls)
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest(), run.id


def halves(
    runs: Sequence[SeenRun], is_usual: Callable[[SeenRun], bool]
) -> Iterator[tuple[list[SeenRun], list[SeenRun]]]:
    """Draws of runs that lend a reference and runs that are judged; the same ones whatever order the runs come in.

    Half of the agents lend. With one agent, or where that leaves one side without a usual run, half of the usual runs
    and half of the others do. There is no draw if there are fewer than two usual runs.
    """
    kept = sample(runs, SPLIT_RUNS_MAX)
    if sum(map(is_usual, kept)) < 2:
        return
    for number in range(SPLIT_DRAWS):
        chance = random.Random(number)  # noqa: S311 - statistics, not secrets
        lent, judged = _by_agent(kept, chance)
        if not any(map(is_usual, lent)) or not any(map(is_usual, judged)):
            lent, judged = _by_run(kept, is_usual, chance)
        yield lent, judged


def _by_agent(
    runs: Sequence[SeenRun], chance: random.Random
) -> tuple[list[SeenRun], list[SeenRun]]:
    agents = sorted({run.agent for run in runs})
    lenders = set(chance.sample(agents, len(agents) // 2))
    return _parted(runs, lambda run: run.agent in lenders)


def _by_run(
    runs: Sequence[SeenRun], is_usual: Callable[[SeenRun], bool], chance: random.Random
) -> tuple[list[SeenRun], list[SeenRun]]:
    lent: set[int] = set()
    for group in _parted(range(len(runs)), lambda place: is_usual(runs[place])):
        # Of an odd number the middle one is on either side: a single failed run is judged in half of the draws.
        lent.update(chance.sample(group, (len(group) + chance.randrange(2)) // 2))
    places = _parted(range(len(runs)), lent.__contains__)
    return [runs[place] for place in places[0]], [runs[place] for place in places[1]]


def _parted(
    things: Sequence[Thing], is_first: Callable[[Thing], bool]
) -> tuple[list[Thing], list[Thing]]:
    found: tuple[list[Thing], list[Thing]] = [], []
    for each in things:
        found[not is_first(each)].append(each)
    return found
