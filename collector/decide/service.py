"""Answers questions and takes outcomes: bodies in, bodies out. No sockets."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final, Protocol

from collector.calls.pipeline import Pipeline
from collector.calls.question_handler import DecisionResult
from collector.decide.answer import as_json_object
from collector.decide.client_resources import ClientResources
from collector.decide.request import BadRequest, QuestionRequest, read_outcome, read_question
from collector.telemetry.counters import MetricReading, Tally
from collector.telemetry.duration_histogram import VERDICT_LATENCY_SECONDS, DurationHistogram
from collector.telemetry.json_text import as_json
from monitor.engine import Monitor
from monitor.spec.spec import Spec

__all__ = ["DECISIONS", "DecideService", "QuestionJournal", "new_seed"]

WITHOUT_MAX: Final = 256
"""Services and agents without a spec that are reported; `offrails_decisions_total` with no spec
counts the calls of all."""

SECOND_NS: Final = 1_000_000_000

DECISIONS: Final = ("allow", "deny", "unknown", "would_deny")
"""Values of the label `decision`. `would_deny`: allowed, though a spec advises to deny it."""

Response = tuple[int, bytes]
"""Status of HTTP, and a body."""


def new_seed() -> bytes:
    """Bytes that begin the ids of one process's decisions."""
    return secrets.token_bytes(8)


class QuestionJournal(Protocol):
    """Where questions that commit calls, and outcomes, are kept before they take effect: a journal."""

    def keep_question(self, now_ns: int, body: bytes, sender: str | None) -> None:
        """Keeps a question that was received at `now_ns`."""
        ...

    def keep_outcome(self, now_ns: int, body: bytes, sender: str | None) -> None:
        """Keeps an outcome that was received at `now_ns`."""
        ...


class DecideService:
    """Answers what clients ask.

    Args:
        pipeline: decides, commits and settles.
        monitor: whose specs name the tools.
        clock: Unix nanoseconds.
        keep: keeps what changes sessions; None for no journal.
        without_spec: is told of each service and agent whose calls no spec judges, once.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        monitor: Monitor,
        clock: Callable[[], int],
        keep: QuestionJournal | None = None,
        without_spec: Callable[[str, str, Iterable[Spec]], None] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._monitor = monitor
        self._clock = clock
        self._keep = keep
        self._without_spec = without_spec
        self._without: set[tuple[str | None, str, str]] = set()
        """Clients, services and agents that `without_spec` has reported."""
        self._resources = ClientResources(pipeline.resource_keys)
        self._decisions = Tally(2)
        self.requests = Tally(1)
        """Answered requests, by HTTP status."""
        self.seconds = DurationHistogram(VERDICT_LATENCY_SECONDS)
        """Time from the last byte of a question to its answer."""

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
        if self._keep is not None and question.commit:
            self._keep.keep_question(began, body, sender)
        made = self._pipeline.decide(
            question.calls,
            self._resources.of(question.attributes, sender, began),
            sender,
            began,
            commit=question.commit,
            new_session=question.new_session,
        )
        if not all(each.matched for each in made):
            self._tell_unmatched(question, sender)
        found = [self._answer(each) for each in made]
        answer = as_json({"decisions": found} if question.is_batch else found[0])
        self.seconds.observe(max(0, self._clock() - began) / SECOND_NS)
        return 200, answer

    def settle(self, body: bytes, sender: str | None) -> Response:
        """Takes the outcome of a decided call."""
        try:
            decision_id, outcome, result = read_outcome(body)
        except BadRequest as problem:
            return _bad(problem)
        now = self._clock()
        if self._keep is not None and self._pipeline.decided.named(decision_id) is not None:
            self._keep.keep_outcome(now, body, sender)
        settled = self._pipeline.settle(decision_id, outcome, sender, now, result)
        if settled.entry is None:
            return 404, as_json({"error": "no such decision; it may be forgotten by now"})
        if not settled.agrees:
            state = settled.entry.state.value
            return 409, as_json({"error": f"the call is {state} already"})
        return 200, as_json({"decision_id": decision_id, "outcome": outcome, "known": True})

    def may_settle_late(self, body: bytes) -> bool:
        """True for an outcome of a call that does not stand behind all others of its session.

        These are then judged once more, which may take as long as the answer to a large question.
        """
        try:
            decision_id, _, _ = read_outcome(body)
        except BadRequest:
            return False
        entry = self._pipeline.decided.named(decision_id)
        return entry is not None and not self._monitor.reader.is_behind(entry.call)

    def tick(self, now: int) -> None:
        """Time has passed: what clients have not used for long is forgotten."""
        self._resources.forget(now)

    def relieve(self) -> None:
        """Memory is scarce: the attributes of clients are forgotten. The next question of each brings them again."""
        self._resources.clear()

    def memory(self) -> dict[str, int]:
        """Bytes that are held, about, by what holds them."""
        return {"decide_clients": self._resources.held_bytes}

    # --- what outlives the process ----------------------------------------------------------------

    def again(self, take: Callable[[bytes, str | None], Response], *asked: Any) -> None:
        """Takes what an earlier process has answered: it is neither kept again nor timed.

        Args:
            take: `decide` or `settle`.
            asked: its arguments of then.
        """
        keep, seconds = self._keep, self.seconds
        self._keep, self.seconds = None, DurationHistogram(VERDICT_LATENCY_SECONDS)
        try:
            status, _ = take(*asked)
        finally:
            self._keep, self.seconds = keep, seconds
        self.requests.add(1, str(status))

    def kept(self) -> dict[str, Any]:
        """Counters, and what ids of decisions are made of, as plain data."""
        decided = self._pipeline.decided
        return {
            "seed": decided.seed,
            "last_number": decided.last_number,
            "decisions": [[*labels, n] for labels, n in self._decisions.counts.items()],
            "requests": dict(self.requests.counts),
            "seconds": [list(self.seconds.counts), self.seconds.sum_seconds],
        }

    def set_kept(self, found: Mapping[str, Any]) -> None:
        """Sets them. What an earlier version did not have stays as it is."""
        decided = self._pipeline.decided
        decided.seed = found.get("seed", decided.seed)
        decided.last_number = found.get("last_number", decided.last_number)
        self._decisions.set({tuple(labels): n for *labels, n in found.get("decisions", ())})
        self.requests.set(found.get("requests", {}))
        if "seconds" in found:
            self.seconds.set(*found["seconds"])

    def readings(self) -> Iterator[MetricReading]:
        """What was decided, as metrics."""
        specs = {"", *self._monitor.binder.judges}
        counts = dict.fromkeys(product(DECISIONS, specs), 0) | self._decisions.counts
        yield MetricReading("decisions", sorted(counts.items()))
        yield MetricReading("decision_seconds", [((), self.seconds)])
        codes = {"200": 0, "503": 0} | self.requests.counts
        yield MetricReading(
            "decision_requests", [((code,), n) for code, n in sorted(codes.items())]
        )
        decided = self._pipeline.decided
        yield MetricReading("decided_calls", [((), len(decided))])
        yield MetricReading("decided_calls_capacity", [((), decided.entries_max)])
        yield MetricReading("decided_calls_overflowed", [((), decided.overflowed)])

    def _answer(self, made: DecisionResult) -> dict[str, Any]:
        found, worst = made.decision, made.decision.worst
        decision = "would_deny" if found.would_deny and made.committed else found.enforced.value
        self._decisions.add(1, decision, worst.spec if worst is not None else "")
        decision_id = self._pipeline.decided.name(made.number) if made.number else ""
        return as_json_object(made, decision_id, self._monitor.explain(made.tool, found))

    def _tell_unmatched(self, question: QuestionRequest, sender: str | None) -> None:
        """No spec judges the calls of a question: its client may have the wrong name of a service."""
        service = str(question.attributes.get("service.name", ""))
        client = (sender, service, question.calls[0].agent)
        if self._without_spec is None or client in self._without:
            return
        if len(self._without) < WITHOUT_MAX:
            self._without.add(client)
            specs = (judge.spec for judge in self._monitor.binder.judges.values())
            self._without_spec(service, client[2], specs)


def _bad(problem: BadRequest) -> Response:
    return 400, as_json({"error": problem.error, "where": problem.where})
