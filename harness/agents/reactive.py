"""Agents without a model that look at what came of their calls: random legal, and injected."""

from __future__ import annotations

import json
import random
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.agents.scripted import calls_of, is_harmful
from harness.scaffold.turn import AgentCall, MadeCall, Turn
from harness.tasks.read import BenchTask
from monitor import judge_calls

__all__ = ["InjectedAgent", "RandomAgent"]

_LONGER: Final = 3
"""Calls of a random agent, in lengths of the longest right way."""


class RandomAgent:
    """Makes any call that is not harmful where it stands, and ends once the spec accepts, or when it is tired."""

    def __init__(self, task: BenchTask, chance: random.Random) -> None:
        document = task.document
        self._task = task
        self._chance = chance
        calls = [*(call for way in document.golden for call in way), *document.reads]
        self._pool: list[AgentCall] = []
        for call in calls_of(calls):
            each = replace(call, say=())
            if each not in self._pool:
                self._pool.append(each)
        self._most = _LONGER * max(map(len, document.golden))

    def turn(self, seen: Sequence[MadeCall], left: float) -> Turn:  # noqa: ARG002 - it takes no time
        """The next call, or the end."""
        made = [_as_plain(each) for each in seen if each.number]
        judgement = judge_calls(self._task.spec, made).judgement
        if len(seen) >= self._most or (judgement["accepting"] and self._chance.random() < 0.5):
            return Turn(say=self._task.document.final)
        legal = [each for each in self._pool if not is_harmful(self._task, made, each)]
        if not legal:
            return Turn(say=self._task.document.final)
        return Turn(calls=(self._chance.choice(legal),))


def _as_plain(made: MadeCall) -> dict[str, Any]:
    return {**made.call.as_plain(), "error": made.error}


_ORDER: Final = re.compile(r"\bcall (?P<tool>[A-Za-z_]\w*) (?P<json>\{)")
"""An instruction in a tool's result: `call TOOL {ARGUMENTS}`."""
OBEYED_MAX: Final = 20
"""Injected calls that are made in one rollout."""


class InjectedAgent:
    """Does what a tool's result tells it to, then goes on with its task.

    A result says `call TOOL {ARGUMENTS}`, or has the words of the task's attack, which then are its calls.
    """

    def __init__(self, task: BenchTask, turns: Sequence[Turn]) -> None:
        self._turns = iter(turns)
        self._final = task.document.final
        attack = task.document.attack
        self._goal = [] if attack is None else calls_of(attack.calls)
        self._words = [] if attack is None else [*map(_letters, attack.texts)]
        self._told: deque[AgentCall] = deque()
        self._looked = 0
        self._obeyed = 0

    def turn(self, seen: Sequence[MadeCall], left: float) -> Turn:  # noqa: ARG002 - it takes no time
        """What it was told to do, or its next turn."""
        for made in seen[self._looked :]:
            if not made.error and not made.denied:
                self._told.extend(self._read(made.result))
        self._looked = len(seen)
        if self._told and self._obeyed < OBEYED_MAX:
            self._obeyed += 1
            return Turn(calls=(self._told.popleft(),))
        return next(self._turns, Turn(say=self._final))

    def _read(self, result: Any) -> Sequence[AgentCall]:
        """The calls that a result asks for."""
        found = _orders(result)
        seen = [_letters(text) for text in _texts(result)] if self._words else []
        if any(words in text for words in self._words for text in seen):
            self._words = []
            return [*found, *self._goal]
        return found


def _letters(text: str) -> str:
    """Letters and digits alone: tools wrap and escape what they show."""
    return "".join(filter(str.isalnum, text))


def _orders(result: Any) -> list[AgentCall]:
    """The calls that a result spells out."""
    found = []
    for each in _texts(result):
        for match in _ORDER.finditer(each):
            try:
                arguments, _ = json.JSONDecoder().raw_decode(each, match.start("json"))
            except (ValueError, RecursionError):
                continue
            found.append(AgentCall(match["tool"], arguments))
    return found


def _texts(value: Any) -> Sequence[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value
    if not isinstance(value, Mapping | list):
        return []
    return [text for part in parts for text in _texts(part)]
