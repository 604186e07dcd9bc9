"""True runs: what tools really executed, in which conversation, when, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.worlds.specs import LIMIT

# Right calls, in the order in which most specs want them; then what no spec allows.
_RIGHT = ("look_up", "check", "pay", "send")
_WRONG = ("wipe", "guess")

# Parts of a second that times are whole numbers of.
_PARTS = 2**20


@dataclass
class Call:
    """One execution of a tool. Times are seconds since the world began.

    Args:
        number: of the call in its world.
        failed: whether the tool raised.
        id: the id that the model gave it.
        within: the call whose tool made this one; None for a call that a model asked for.
    """

    number: int
    tool: str
    arguments: dict[str, Any]
    failed: bool = False
    start: float = 0.0
    end: float = 0.0
    id: str = ""

    def __str__(self) -> str:
        text = ", ".join(f"{key}={value}" for key, value in self.arguments.items())
        failed = " FAILED" if self.failed else ""
        return f"#{self.number} {self.tool}({text}) {self.start:.2f}-{self.end:.2f}{failed}"


@dataclass
class Answer:
    """What a model answered at once: calls that were made in parallel, or one call."""

    calls: list[Call]


@dataclass
class Turn:
    """One run of an agent: what a user asks, until the agent has answered."""

    answers: list[Answer]
    start: float = 0.0
    end: float = 0.0
    number: int = 0


@dataclass
class Conversation:
    """All turns of one user with one agent."""

    id: str
    turns: list[Turn] = field(default_factory=list)
    start: float = 0.0

    def answers(self) -> list[Answer]:
        return [answer for turn in self.turns for answer in turn.answers]

    def calls(self) -> Iterator[Call]:
        return (call for answer in self.answers() for call in answer.calls)


def conversations(random: Random, document: Mapping[str, Any]) -> list[Conversation]:
    """One to three conversations; half of the runs are right, the others have a harm or two."""
    found = []
    for number in range(random.choice([1, 1, 2, 3])):
        tools = _right_run(random, document)
        if random.random() < 0.5:
            tools = _spoilt(random, tools)
        found.append(_in_turns(random, f"conversation-{number}", tools))
    renumber(found)
    schedule(random, found)
    return found


def _right_run(random: Random, document: Mapping[str, Any]) -> list[Call]:
    alphabet = document["alphabet"]
    path = _path(random, document)
    if document["again"] and random.random() < 0.5:
        path += _path(random, document)
    for _ in range(random.choice([0, 0, 1, 2])):
        path.insert(random.randrange(len(path) + 1), "note")
    return [_call(random, alphabet[symbol]["tool"], alphabet[symbol]) for symbol in path]


def _path(random: Random, document: Mapping[str, Any]) -> list[str]:
    """A way of progress from the start to the end."""
    if "golden" in document:
        return list(random.choice(document["golden"]))
    state, path = document["initial"], list[str]()
    while (
        state not in document["accepting"] and document["transitions"][state] and len(path) < 8
    ):
        symbol, state = random.choice(list(document["transitions"][state].items()))
        path.append(symbol)
    return path


def _call(random: Random, tool: str, symbol: Mapping[str, Any] | None = None) -> Call:
    """A call of a tool, as a symbol wants it."""
    exact = {k: v for k, v in (symbol or {}).get("arguments", {}).items() if isinstance(v, int)}
    arguments = exact or {"n": random.randrange(1, LIMIT)}
    return Call(0, tool, {**arguments, "to": random.choice(["ann", "bob"])})


def _spoilt(random: Random, calls: list[Call]) -> list[Call]:
    """The run with one or two faults of the agent: skipped, repeated, out of order, forbidden, too much."""
    calls = list(calls)
    for _ in range(random.choice([1, 1, 2])):
        place = random.randrange(len(calls))
        fault = random.choice(("skip", "repeat", "swap", "wrong tool", "too much", "fail"))
        if fault == "skip" and len(calls) > 1:
            del calls[place]
        elif fault == "repeat":
            again = calls[place]
            calls.insert(
                random.randrange(place, len(calls)) + 1,
                Call(0, again.tool, dict(again.arguments)),
            )
        elif fault == "swap" and place:
            calls[place - 1], calls[place] = calls[place], calls[place - 1]
        elif fault == "wrong tool":
            calls.insert(place, _call(random, random.choice(_WRONG)))
        elif fault == "too much":
            call = random.choice(
                [("pay", "n", LIMIT * 5), ("switch", "k", 0), ("switch", "k", 9)]
            )
            calls.insert(place, Call(0, call[0], {call[1]: call[2], "to": "bob"}))
        else:
            calls[place].failed = True
    return calls


def _in_turns(random: Random, id_: str, calls: list[Call]) -> Conversation:
    """The calls, some of them asked for at once, in one to three turns."""
    answers: list[Answer] = []
    rest = list(calls)
    while rest:
        size = random.choice([1, 1, 1, 1, 2, 3])
        answers.append(Answer(rest[:size]))
        rest = rest[size:]
    conversation = Conversation(id_)
    while answers:
        size = random.choice([1, 2, len(answers), len(answers)])
        conversation.turns.append(Turn(answers[:size]))
        answers = answers[size:]
    return conversation


def renumber(conversations: list[Conversation]) -> None:
    """Gives each call its number in the world, and the id that its model gave it."""
    number = 0
    for conversation in conversations:
        for place, turn in enumerate(conversation.turns):
            turn.number = place
        for call in conversation.calls():
            number += 1
            call.number, call.id = number, f"call_{conversation.id[-1]}_{number}"


def schedule(random: Random, conversations: list[Conversation]) -> None:
    """Sets all times: a model thinks before each answer, and the calls of one answer overlap."""
    for conversation in conversations:
        time = conversation.start = random.uniform(0, 2)
        for turn in conversation.turns:
            turn.start = instant(time)
            for answer in turn.answers:
                time += random.uniform(0.05, 0.3)
                time = _run_together(random, answer.calls, time)
            turn.end = instant(time + 0.05)
            time += random.uniform(0.3, 2)


def _run_together(random: Random, calls: list[Call], begun: float) -> float:
    """All calls begin before the first one ends."""
    for place, call in enumerate(calls):
        call.start = instant(begun + place * 0.002)
        call.end = instant(begun + 0.02 + random.uniform(0, 0.1))
    return max(call.end for call in calls) + 0.002


def instant(seconds: float) -> float:
    """The nearest time of which a sum with whole seconds is exact: so a world and its twin have the same times."""
    return round(seconds * _PARTS) / _PARTS
