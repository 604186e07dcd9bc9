"""Agents that ask before each call, from their own process: at scheduled times, whatever the answers.

    python -m tests.bench.decide_load PORT DECISIONS_A_SECOND SECONDS SEED

Each agent has a connection. It asks for a call, and half a period later tells that the call ran; then it asks for the
next one. What is due while the agent awaits an answer waits, and its time counts from when it was due. Every answer
must be what the spec's own table of transitions says. Prints one JSON object.
"""

from __future__ import annotations

import gc
import json
import random
import select
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from tests.bench.load import share
from tests.bench.sender import Sender, prepared
from tests.bench.traffic import RUNS, call_of, is_harmful

__all__ = ["AGENTS", "Asked"]

AGENTS: Final = 64
JSON: Final = "application/json"


class Asked(NamedTuple):
    """What was asked, and latencies in milliseconds from when each request was due."""

    decisions: int
    """Each one is committed, and told to have run."""
    harmful: int
    late_p50: float
    late_p99: float
    """How late the load itself was."""
    decision_p50: float
    decision_p99: float
    outcome_p50: float
    outcome_p99: float


class Answer(msgspec.Struct):
    """What is read of an answer."""

    decision_id: str
    decision: str
    kind: str
    would_deny: bool
    committed: bool


class Due(NamedTuple):
    """A request that an agent is to send."""

    at: float
    is_outcome: bool


class Agent:
    """One connection, and the session that it is in.

    Args:
        port: of decisions, on loopback.
        questions: each with whether the call is harmful.
    """

    def __init__(self, port: int, questions: Iterator[tuple[bytes, bool]]) -> None:
        self.sender = Sender(port)
        self.due: deque[Due] = deque()
        self.sent: Due | None = None
        self.harmful = 0
        self._questions = questions
        self._expects_harm = False
        self._decision_id = ""

    def fileno(self) -> int:
        """For a selector that waits for responses."""
        return self.sender.fileno()

    def send(self) -> None:
        """Sends what is due first."""
        self.sent = self.due.popleft()
        if self.sent.is_outcome:
            body = b'{"decision_id":"%b","outcome":"ran"}' % self._decision_id.encode()
            self.sender.send(prepared(body, "/api/v1/outcome", JSON))
        else:
            request, self._expects_harm = next(self._questions)
            self.sender.send(request)

    def take(self) -> Due:
        """Reads the answer, which must be right; returns what was sent."""
        sent, self.sent = self.sent, None
        body = self.sender.receive()
        assert sent is not None
        if not sent.is_outcome:
            found = msgspec.json.decode(body, type=Answer)
            assert found.committed, body
            assert (found.kind == "harmful") is found.would_deny is self._expects_harm, body
            assert found.decision == "allow", body  # the spec advises
            self._decision_id = found.decision_id
            self.harmful += self._expects_harm
        return sent


def questions(agent: str, count: int, chance: random.Random) -> Iterator[tuple[bytes, bool]]:
    """The requests of an agent, one session after the other, each with whether its call is harmful."""
    found: list[tuple[bytes, bool]] = []
    while len(found) < count:
        session, tools = f"{agent}-{len(found)}", chance.choice(RUNS)
        for place, tool in enumerate(tools):
            call = call_of(tool, chance)
            body = {
                "session": session,
                "agent": "rover",
                "service": "farm-rover",
                "tool": tool,
                "arguments": call.arguments,
                "call_id": call.call_id,
                "new_session": place == 0,  # else calls of the load may be its own
            }
            request = prepared(json.dumps(body).encode(), "/api/v1/decide", JSON)
            found.append((request, is_harmful(tools[:place], tool)))
    return iter(found[:count])


def _run(agents: list[Agent], a_second: float, decisions: int) -> tuple[list[float], ...]:
    """Seconds from when each was due: to being looked at, to a decision, to the answer to an outcome."""
    period = len(agents) / a_second
    late: list[float] = []
    decided: list[float] = []
    settled: list[float] = []
    asks = (Due(number / a_second, False) for number in range(decisions))
    tells = (Due(number / a_second + period / 2, True) for number in range(decisions))
    plan = sorted(
        (
            (each, number % len(agents))
            for due in (asks, tells)
            for number, each in enumerate(due)
        ),
        key=lambda each: each[0].at,
    )
    begin, place = time.perf_counter() + 0.05, 0
    busy: set[Agent] = set()
    while len(settled) < decisions:
        now = time.perf_counter() - begin
        while place < len(plan) and plan[place][0].at <= now:
            due, number = plan[place]
            agents[number].due.append(due)
            late.append(now - due.at)
            place += 1
            if agents[number].sent is None:
                agents[number].send()
                busy.add(agents[number])
        following = plan[place][0].at if place < len(plan) else now + 1
        wait = max(0.0, following - (time.perf_counter() - begin))
        for agent in select.select(list(busy), [], [], wait)[0]:
            sent = agent.take()
            took = time.perf_counter() - begin - sent.at
            (settled if sent.is_outcome else decided).append(took)
            if agent.due:
                agent.send()
            else:
                busy.discard(agent)
    return late, decided, settled


def main() -> None:
    """Makes the questions, asks them, and prints what came of them."""
    port, a_second, seconds, seed = map(int, sys.argv[1:])
    decisions, chance = a_second * seconds, random.Random(seed)
    count = -(-decisions // AGENTS)
    agents = [
        Agent(port, questions(f"asked-{seed}-{number}", count, chance))
        for number in range(AGENTS)
    ]
    gc.collect()
    gc.disable()
    found = _run(agents, a_second, decisions)
    shares = [share(each, part) for each in found for part in (0.5, 0.99)]
    asked = Asked(decisions, sum(agent.harmful for agent in agents), *shares)
    print(json.dumps(asked._asdict()))


if __name__ == "__main__":
    main()
