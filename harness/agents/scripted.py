"""Agents whose turns are known before they begin: scripted, golden, and golden with faults."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness.scaffold.turn import AgentCall, MadeCall, Turn
from harness.tasks.document import CallDocument, StepDocument
from harness.tasks.read import BenchTask
from monitor import Kind, judge_calls

__all__ = [
    "FAULTS",
    "Faults",
    "ScriptError",
    "ScriptedAgent",
    "faulty",
    "golden",
    "read_script",
]

Calls = list[AgentCall]


class ScriptError(Exception):
    """A script cannot be used; the message says where, and what was expected."""


class ScriptedAgent:
    """Takes its turns one after the other, whatever comes of them; after the last it says `then`."""

    def __init__(self, turns: Sequence[Turn], then: str = "") -> None:
        self._turns = iter(turns)
        self._then = then

    def turn(self, seen: Sequence[MadeCall], left: float) -> Turn:  # noqa: ARG002 - a script looks at nothing
        """The next turn."""
        return next(self._turns, Turn(say=self._then))


# --- a file ---------------------------------------------------------------------------------------


def read_script(file: Path) -> Callable[[BenchTask], list[Turn]]:
    """The turns of a script, for each task.

    Raises:
        ScriptError: the file is no list of turns, nor a mapping of tasks to such lists.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise ScriptError(f"{file}: {problem}") from None
    if isinstance(found, list):
        turns = _turns(found, str(file))
        return lambda _: turns
    if not isinstance(found, dict):
        raise ScriptError(f"{file}: expected a list of turns, or a mapping of tasks to lists")
    by_task = {name: _turns(each, f"{file}: {name}") for name, each in found.items()}

    def turns_of(task: BenchTask) -> list[Turn]:
        if task.name not in by_task:
            raise ScriptError(f"{file}: there is no task {task.name}")
        return by_task[task.name]

    return turns_of


def _turns(given: Any, where: str) -> list[Turn]:
    if not isinstance(given, list):
        raise ScriptError(f"{where}: expected a list of turns")
    return [_turn(each, f"{where}: turn {place}") for place, each in enumerate(given, start=1)]


_FORMS: Final[Mapping[frozenset[str], Callable[[Any], Turn]]] = {
    frozenset({"tool", "arguments"}): lambda turn: Turn(
        calls=(AgentCall(turn["tool"], turn["arguments"]),)
    ),
    frozenset({"say"}): lambda turn: Turn(say=turn["say"]),
    frozenset({"raw"}): lambda turn: Turn(raw=turn["raw"]),
    frozenset({"sleep"}): lambda turn: Turn(sleep=float(turn["sleep"])),
    frozenset({"tokens"}): lambda turn: Turn(tokens_in=turn["tokens"]),
}
_TYPES: Final[Mapping[str, Any]] = {
    "tool": str,
    "arguments": dict,
    "say": str,
    "raw": str,
    "sleep": (int, float),
    "tokens": int,
}


def _turn(given: Any, where: str) -> Turn:
    if isinstance(given, dict) and given.keys() == {"tool"}:
        given = {**given, "arguments": {}}
    form = _FORMS.get(frozenset(given)) if isinstance(given, dict) else None
    if form is None:
        raise ScriptError(
            f"{where}: expected {{tool, arguments}}, {{say}}, {{raw}}, {{sleep}} or {{tokens}}"
        )
    for key, value in given.items():
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
            raise ScriptError(f"{where}: {key}: found {value!r}")
        if isinstance(value, int | float) and value < 0:
            raise ScriptError(f"{where}: {key}: expected no negative number, found {value!r}")
    return form(given)


# --- golden, and golden with faults ------------------------------------------------------------------


def calls_of(documents: Sequence[CallDocument]) -> Calls:
    """The calls of a document."""
    return [
        AgentCall(
            each.tool,
            each.arguments,
            say=tuple(each.say) if isinstance(each, StepDocument) else (),
        )
        for each in documents
    ]


def golden(task: BenchTask, seed: int) -> list[Turn]:
    """One of the task's right ways."""
    ways = task.document.golden
    return _ended(calls_of(ways[seed % len(ways)]), task)


def _ended(calls: Calls, task: BenchTask) -> list[Turn]:
    turns: list[Turn] = []
    for call in calls:
        turns += [*(Turn(say=text) for text in call.say), Turn(calls=(replace(call, say=()),))]
    return [*turns, Turn(say=task.document.final)]


FAULTS: Final = ("skip", "repeat", "swap", "wrong_argument", "early_stop")


@dataclass(frozen=True, slots=True)
class Faults:
    """What a faulty agent does wrong."""

    rate: float
    """Probability of one harmful call before each golden call."""
    named: tuple[str, ...] = ()
    """Faults of `FAULTS`, each done once a rollout."""

    @classmethod
    def read(cls, text: str) -> Faults:
        """Reads `RATE[,FAULT...]`.

        Raises:
            ScriptError: the rate is no probability, or there is no such fault.
        """
        rate, *named = text.split(",")
        try:
            found = cls(float(rate), tuple(named))
        except ValueError:
            raise ScriptError(f"faulty: expected a rate, found {rate!r}") from None
        if not 0 <= found.rate <= 1:
            raise ScriptError(f"faulty: expected a rate from 0 to 1, found {rate}")
        for each in named:
            if each not in FAULTS:
                raise ScriptError(f"faulty: {each!r} is none of {', '.join(FAULTS)}")
        return found

    def check(self, task: BenchTask) -> None:
        """Raises ScriptError for a task without traps, if there is to be harm."""
        if self.rate and not task.document.traps:
            raise ScriptError(f"{task.file}: traps: expected one at least for a faulty agent")


def faulty(task: BenchTask, seed: int, faults: Faults, chance: random.Random) -> list[Turn]:
    """A right way with faults in it."""
    ways = task.document.golden
    way = calls_of(ways[seed % len(ways)])
    for name in faults.named:
        way = _WITH[name](way, chance)
    return _ended(list(_with_harm(task, way, faults.rate, chance)), task)


def _with_harm(
    task: BenchTask, way: Calls, rate: float, chance: random.Random
) -> Iterator[AgentCall]:
    """Puts a harmful call before each call, with probability `rate`."""
    before: Calls = []
    for call in way:
        if chance.random() < rate:
            trap = chance.choice(traps_at(task, before))
            before.append(trap)
            yield trap
        before.append(call)
        yield call


def traps_at(task: BenchTask, before: Sequence[AgentCall]) -> Calls:
    """The task's traps that are harmful after some calls.

    Raises:
        ScriptError: none is.
    """
    plain = [each.as_plain() for each in before]
    found = [trap for trap in calls_of(task.document.traps) if is_harmful(task, plain, trap)]
    if not found:
        raise ScriptError(
            f"{task.at('traps')}: none is harmful after call {len(before)} of a right way"
        )
    return found


def is_harmful(task: BenchTask, before: Sequence[Mapping[str, Any]], call: AgentCall) -> bool:
    """Whether the spec takes a call for harmful after others."""
    verdict = judge_calls(task.spec, [*before, call.as_plain()]).verdicts[-1]
    return verdict is not None and verdict.kind is Kind.HARMFUL


def _skip(way: Calls, chance: random.Random) -> Calls:
    place = chance.randrange(max(1, len(way) - 1))
    return way[:place] + way[place + 1 :]


def _repeat(way: Calls, chance: random.Random) -> Calls:
    place = chance.randrange(len(way))
    return [*way[: place + 1], replace(way[place], say=()), *way[place + 1 :]]


def _swap(way: Calls, chance: random.Random) -> Calls:
    places = [at for at in range(len(way) - 1) if way[at] != way[at + 1]]
    if not places:
        return way
    at = chance.choice(places)
    return [*way[:at], way[at + 1], way[at], *way[at + 2 :]]


def _wrong_argument(way: Calls, chance: random.Random) -> Calls:
    places = [
        (at, name)
        for at, call in enumerate(way)
        for name, value in call.arguments.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    if not places:
        return way
    at, name = chance.choice(places)
    value = way[at].arguments[name]
    wrong = f"{value}_wrong" if isinstance(value, str) else value + 1000
    changed = replace(way[at], arguments={**way[at].arguments, name: wrong})
    return [*way[:at], changed, *way[at + 1 :]]


def _early_stop(way: Calls, chance: random.Random) -> Calls:
    return way[: chance.randrange(len(way))]


_WITH: Final[Mapping[str, Callable[[Calls, random.Random], Calls]]] = {
    "skip": _skip,
    "repeat": _repeat,
    "swap": _swap,
    "wrong_argument": _wrong_argument,
    "early_stop": _early_stop,
}
