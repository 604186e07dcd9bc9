"""Answers questions and takes outcomes: bodies in, bodies out. No sockets.

Questions of one client mostly carry the same attributes. What they become, a resource, is one object as long as it is
remembered: sessions and namespaces are looked up by it, as by the resources of spans.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, Final

from collector.calls.deciding import Made
from collector.calls.pipeline import Pipeline
from collector.decide.answer import as_json_object
from collector.decide.request import BadRequest, read_outcome, read_question
from collector.decode.retained import Retained
from collector.decode.span import Resource
from collector.receive.tenant_stamp import SENDER_KEY
from collector.telemetry.counters import VERDICT_LATENCY_SECONDS, Histogram, Reading, Tally
from collector.telemetry.json_text import as_json
from monitor.engine import Monitor

__all__ = ["DECISIONS", "DecideService", "new_seed"]

RESOURCES_MAX: Final = 4_096
"""Resources of clients that are remembered."""

SECOND_NS: Final = 1_000_000_000

DECISIONS: Final = ("allow", "deny", "unknown", "would_deny")
"""Values of the label `decision`. `would_deny`: allowed, though a spec advises to deny it."""

Response = tuple[int, bytes]
"""Status of HTTP, and a body."""


def new_seed() -> bytes:
    """Bytes that begin the ids of one process's decisions."""
    return secrets.token_bytes(8)


class DecideService:
    """Answers what clients ask.

    Args:
        pipeline: decides, commits and settles.
        monitor: whose specs name the tools.
        clock: Unix nanoseconds.
    """

    def __init__(self, pipeline: Pipeline, monitor: Monitor, clock: Callable[[], int]) -> None:
        self._pipeline = pipeline
        self._monitor = monitor
        self._clock = clock
        self._resources: OrderedDict[tuple[Any, ...], Resource] = OrderedDict()
        self._decisions = Tally(2)
        self.requests = Tally(1)
        """Answered requests, by HTTP status."""
        self.seconds = Histogram(VERDICT_LATENCY_SECONDS)
        """From the last byte of a question to its answer."""

    def decide(self, body: bytes, sender: str | None) -> Response:
        """Answers a question.

        Args:
            body: as it came.
            sender: the name of the client's token; None if no token is required.
        """
        began = self._clock()
        try:
            question = read_question(body)
        except BadRequest as problem:
            return _bad(problem)
        made = self._pipeline.decide(
            question.calls,
            self._resource(question.attributes, sender),
            sender,
            began,
            commit=question.commit,
        )
        found = [self._answer(each) for each in made]
        answer = as_json({"decisions": found} if question.is_batch else found[0])
        self.seconds.observe(max(0, self._clock() - began) / SECOND_NS)
        return 200, answer

    def settle(self, body: bytes, sender: str | None) -> Response:
        """Takes the outcome of a decided call."""
        try:
            decision_id, outcome = read_outcome(body)
        except BadRequest as problem:
            return _bad(problem)
        settled = self._pipeline.settle(decision_id, outcome, sender, self._clock())
        if settled.entry is None:
            return 404, as_json({"error": "no such decision; it may be forgotten by now"})
        if not settled.agrees:
            state = settled.entry.state.value
            return 409, as_json({"error": f"the call is {state} already"})
        return 200, as_json({"decision_id": decision_id, "outcome": outcome, "known": True})

    def readings(self) -> Iterator[Reading]:
        """What was decided, as metrics."""
        specs = {"", *self._monitor.binder.judges}
        counts = dict.fromkeys(product(DECISIONS, specs), 0) | self._decisions.counts
        yield Reading("decisions", sorted(counts.items()))
        yield Reading("decision_seconds", [((), self.seconds)])
        codes = {"200": 0, "503": 0} | self.requests.counts
        yield Reading("decision_requests", [((code,), n) for code, n in sorted(codes.items())])
        decided = self._pipeline.decided
        yield Reading("decided_calls", [((), len(decided))])
        yield Reading("decided_calls_capacity", [((), decided.entries_max)])
        yield Reading("decided_calls_overflowed", [((), decided.overflowed)])

    def _answer(self, made: Made) -> dict[str, Any]:
        worst = made.decision.worst
        decision = "would_deny" if made.would_deny and made.committed else made.answer.value
        self._decisions.add(1, decision, worst.spec if worst is not None else "")
        decision_id = self._pipeline.decided.name(made.number) if made.number else ""
        return as_json_object(
            made, decision_id, self._monitor.explain(made.tool, made.decision)
        )

    def _resource(self, attributes: Mapping[str, Any], sender: str | None) -> Resource:
        """The resource of a client, with the name of its token: nobody can claim another's."""
        key = (
            sender,
            *sorted((name, type(value), value) for name, value in attributes.items()),
        )
        found = self._resources.get(key)
        if found is None:
            own = {name: value for name, value in attributes.items() if name != SENDER_KEY}
            if sender is not None:
                own[SENDER_KEY] = sender
            found = self._resources[key] = Resource(Retained(own))
            if len(self._resources) > RESOURCES_MAX:
                self._resources.popitem(last=False)
        return found


def _bad(problem: BadRequest) -> Response:
    return 400, as_json({"error": problem.error, "where": problem.where})
