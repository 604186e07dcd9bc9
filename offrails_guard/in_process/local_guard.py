"""The guard of a monitor in this process, for those without a service.

Idea: a call that goes ahead is kept beside its session, so that later decisions count on it (`Monitor.decide`). The
session has it once its outcome says that it was made. So a session that is guarded is judged as if its calls had only
been observed, at any time.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from offrails_guard.in_process.extras import missing

try:
    from monitor import (
        CallDecision,
        Evidence,
        Monitor,
        Proof,
        SessionKey,
        SpecDecision,
        ToolCall,
        Verdict,
        tool_call,
    )
except ImportError as problem:
    raise missing("LocalGuard", "monitor", "local", problem) from problem
from offrails_guard.base import BaseGuard, Session
from offrails_guard.decision import NO_REASON, NOTHING, Decision, Outcome
from offrails_guard.forks import hold_at_fork
from offrails_guard.policies import NO_SPEC, UNKNOWN, Policy
from offrails_guard.question import Call, Question, QuestionContext

__all__ = ["CONFIRM_SECONDS", "HELD_MAX", "Deliver", "LocalGuard"]

Deliver = Callable[[Sequence[Verdict]], None]

HELD_MAX: Final = 4096
"""Calls whose outcome can still be said; beyond it the oldest that is not on its way is forgotten."""

BESIDE_MAX: Final = 256
"""Calls of one session that are on their way; at the bound the oldest that changes nothing counts no more."""

CONFIRM_SECONDS: Final = 60.0
"""Time in which a call is confirmed, as a service's `decide.confirm_seconds`."""

SECOND: Final = 1_000_000_000


class LocalGuard(BaseGuard):
    """Asks a `Monitor`, and has it judge the calls that go ahead.

        guard = LocalGuard(Monitor(load_specs(["dfa_specs"]), Limits(history_complete=True)), session="s1")

    The guard also lets the monitor's time pass, at most once a second, where it is asked or gets an outcome.

    Args:
        monitor: who decides. It is not safe for threads: leave it to this guard, or hold `lock`. Nobody else is to
            have it judge the same calls, such as a `MonitorSpanProcessor`: they would count twice.
        session: of the calls, where a check names no other; without one the current trace is it.
        agent: who makes the calls.
        service: the agent's service.name, which specs match on.
        attributes: more that specs match on.
        on_unavailable: what is done with a call where there is no decision: it has neither session nor trace, and
            what came before decides, or the monitor has a fault of its own.
        on_unknown: what is done with a call of which it is not known whether it is harmful.
        on_no_spec: what is done with a call of an agent that no spec matches.
        new_session: True says that the first call that this guard asks about is the first of its session.
        confirm_seconds: after this time a call whose outcome is not said does not count any more, until it is.
        lock: held while the monitor works, and while the process forks; for guards that share a monitor. Reentrant.
        deliver: takes verdicts, while `lock` is held.
        clock: Unix time in nanoseconds.

    Raises:
        ValueError: an attribute or a policy cannot be used.
    """

    def __init__(
        self,
        monitor: Monitor,
        *,
        session: Session = "",
        agent: str = "",
        service: str = "",
        attributes: Mapping[str, Any] = NOTHING,
        on_unavailable: Policy = "allow",
        on_unknown: Policy = "allow",
        on_no_spec: Policy = "allow",
        new_session: bool = False,
        confirm_seconds: float = CONFIRM_SECONDS,
        lock: AbstractContextManager[Any] | None = None,
        deliver: Deliver | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(
            session=session,
            agent=agent,
            service=service,
            attributes=attributes,
            on_unavailable=on_unavailable,
            on_unknown=on_unknown,
            on_no_spec=on_no_spec,
            new_session=new_session,
        )
        self.monitor: Final = monitor
        self.lock: Final = lock or threading.RLock()
        self._confirm_ns: Final = int(confirm_seconds * SECOND)
        self._deliver = deliver
        self._clock = clock
        self._held: OrderedDict[str, _Held] = OrderedDict()
        """Calls whose outcome is not said, by the ids of their decisions."""
        self._lost: Final = monitor.reservations.lost
        self._open: deque[_Held] = deque()
        """Calls that count beside their session, and some that are settled by now; the oldest
        first."""
        self._beside: Final[dict[SessionKey, dict[str, _Held]]] = monitor.reservations.beside
        """Calls that count, by session; the oldest first."""
        self._number = secrets.randbits(63)
        self._last_ns = 0
        self._ticked_ns = 0
        self._resource = {**attributes, **({"service.name": service} if service else {})}
        hold_at_fork(self)

    def counts(self) -> dict[str, int]:
        """What was decided, and what was not, since the start.

        Keys: `allow`, `deny`, `unknown`, `no_spec`, `would_deny`; why there was no decision: `no_session` (neither
        session nor trace, and what came before decides), `internal`; `unjudged`: all of these and `no_spec`; `unconfirmed` (calls without an
        outcome), `outcomes_lost` (of calls that were forgotten), `deliveries_lost`, `new_sessions_lost`.
        """
        return super().counts()

    def outcome(self, decision_id: str, outcome: Outcome, result: tuple[Any, ...] = ()) -> None:
        """Says what became of a call; "" as the id is nobody's call."""
        if not decision_id:
            return
        try:
            with self.lock:
                self._settle(decision_id, outcome, result)
        except Exception as problem:  # noqa: BLE001 - an agent does not fail for its guard
            self._lose("outcomes_lost", problem)

    def tick(self) -> None:
        """Lets time pass: verdicts become final, and idle sessions end. For times without calls."""
        with self.lock:
            self._pass_time(self._now())

    def close(self) -> None:
        """Forgets the calls whose outcome is not said. The monitor stays as it is."""
        with self.lock:
            for each in self._open:
                self._take_back(each)
            self._open.clear()
            self._held.clear()

    # --- deciding --------------------------------------------------------------------------------

    def _decide(self, question: Question) -> list[Decision]:
        try:
            with self.lock:
                found = self._decisions(question)
        except Exception as problem:  # noqa: BLE001 - an agent does not fail for its guard
            found = self._without(problem, len(question.calls))
        self._count(question, found)
        return found

    async def _adecide(self, question: Question) -> list[Decision]:
        return self._decide(question)  # it takes microseconds

    def _decisions(self, question: Question) -> list[Decision]:
        shared, asked = question.shared, question.calls
        is_named = bool(shared.session or shared.trace_id)
        now = self._now()
        self._pass_time(now)
        ends = now + 1 if len(asked) > 1 else now  # parallel calls overlap
        calls = [self._call(shared, each, now, ends) for each in asked]
        is_new = shared.new_session and is_named
        proof = self.monitor.beginning(calls[0].session, now) if is_new else None
        beside = [each.call for each in self._beside.get(calls[0].session, {}).values()]
        if len(calls) == 1:
            answers = [self.monitor.decide(calls[0], now, proof=proof, beside=beside)]
        else:
            answers = self.monitor.decide_together(calls, now, proof=proof, beside=beside)
        return self._placed(
            question,
            [
                self._decision(call, answer, proof, commit=shared.commit and is_named)
                for call, answer in zip(calls, answers, strict=True)
            ],
        )

    def _call(
        self, shared: QuestionContext, asked: Call, start_ns: int, end_ns: int
    ) -> ToolCall:
        self._number += 1
        return tool_call(
            asked.tool,
            asked.arguments if isinstance(asked.arguments, Mapping) else None,
            session=shared.session or shared.trace_id,
            start_ns=start_ns,
            end_ns=end_ns,
            agent=shared.agent,
            attributes=self._resource,
            call_id=asked.call_id,
            trace_id=bytes.fromhex(shared.trace_id),
            # Not the call's own span: a client may name one span for several calls.
            span_id=(self._number % 2**64).to_bytes(8, "big"),
            evidence=Evidence.DECIDED,
        )

    def _decision(
        self, call: ToolCall, found: CallDecision, proof: Proof | None, *, commit: bool
    ) -> Decision:
        """What the agent is to do; where it goes ahead, the call counts from now on."""
        found = self._lost.weigh(call.session, found, call.start_ns)
        matched = bool(found.specs) or self.monitor.matches(call)
        word = found.enforced.value if matched else NO_SPEC
        blocks = any(
            each.enforce == "block" and each.answer.value == UNKNOWN for each in found.specs
        )
        allowed = self.policies.allow(word, blocks=blocks)
        held = _Held(call, proof, found)
        id_ = self._hold(held, counts=allowed) if commit else ""
        if commit and allowed:
            until_ns = call.start_ns + self._confirm_ns
            self.monitor.reservations.reserve(call.session, found.claims, until_ns)
        message = self.monitor.explain(call.tool, found)
        return Decision(
            allowed,
            word,
            found.would_deny,
            message or ("" if allowed else NO_REASON[word]),
            id_,
            raw={
                **_raw(call, found, id_, message),
                "matched": matched,
                "committed": commit and allowed,
            },
        )

    # --- calls that are on their way ----------------------------------------------------------------

    def _hold(self, held: _Held, *, counts: bool) -> str:
        """Remembers a call until its outcome is said; later decisions count on it if it `counts`."""
        id_ = held.call.span_id.hex()
        if counts:
            held.counts = True
            self._open.append(held)
            mine = self._beside.setdefault(held.call.session, {})
            mine[id_] = held
            if len(mine) > BESIDE_MAX:
                self._lose_call(self._lost.least_needed(mine.values()))
        self._held[id_] = held
        if len(self._held) > HELD_MAX:
            gone = self._lost.least_needed(self._held.values())
            del self._held[gone.call.span_id.hex()]
            self._lose_call(gone)
        return id_

    def _settle(self, decision_id: str, outcome: Outcome, result: tuple[Any, ...]) -> None:
        held = self._held.pop(decision_id, None)
        if held is None:
            raise LookupError("the decision is not known, or forgotten")
        self._count_no_more(held)
        if outcome == "skipped":
            return
        now = self._now()
        made = held.call._replace(
            end_ns=now,
            error=outcome == "failed",
            evidence=Evidence.EXECUTED,
            result=result,
        )
        self._pass_on(self.monitor.observe(made, now, proof=held.proof))
        self._pass_time(now)

    def _lose_call(self, held: _Held) -> None:
        """A call is forgotten at a bound: it may still be on its way."""
        if held.counts:
            until_ns = held.call.start_ns + self._confirm_ns
            self._lost.note(held.call.session, held.claims, until_ns)
        self._take_back(held)

    def _take_back(self, held: _Held) -> None:
        """A call that nothing has confirmed does not count any more."""
        if held.counts:
            self._count_no_more(held)
            self._lose("unconfirmed", TimeoutError("no outcome was said"))

    def _count_no_more(self, held: _Held) -> None:
        if not held.counts:
            return
        held.counts = False
        self.monitor.reservations.release(held.call.span_id)
        mine = self._beside[held.call.session]
        del mine[held.call.span_id.hex()]
        if not mine:
            del self._beside[held.call.session]

    # --- time, and what is passed on -----------------------------------------------------------------

    def _pass_time(self, now: int) -> None:
        while self._open and (
            not self._open[0].counts or self._open[0].call.start_ns + self._confirm_ns <= now
        ):
            self._take_back(self._open.popleft())
        if abs(now - self._ticked_ns) >= SECOND:
            self._ticked_ns = now
            self._lost.forget(now)
            self.monitor.tick(now)
            self._pass_on(self.monitor.news())

    def _now(self) -> int:
        """Later than what was asked or said before, unless the clock was set back by more than a second."""
        now = self._clock()
        if now <= self._last_ns + 1 and self._last_ns - now < SECOND:
            now = self._last_ns + 2
        self._last_ns = now
        return now

    def _pass_on(self, verdicts: Sequence[Verdict]) -> None:
        if self._deliver is None or not verdicts:
            return
        try:
            self._deliver(verdicts)
        except Exception as problem:  # noqa: BLE001 - a fault of whoever takes them decides nothing
            self._lose("deliveries_lost", problem)


class _Held:
    """A call that was decided, and whose outcome is not said."""

    __slots__ = ("call", "claims", "counts", "moves_nothing", "proof")

    def __init__(self, call: ToolCall, proof: Proof | None, decision: CallDecision) -> None:
        self.call: Final = call
        self.claims: Final = decision.claims
        self.moves_nothing: Final = decision.moves_nothing
        """True if later calls hardly depend on it."""
        self.proof: Final = proof
        """What its question said of the session's beginning."""
        self.counts = False
        """True while later decisions count on it."""


def _raw(call: ToolCall, found: CallDecision, decision_id: str, message: str) -> dict[str, Any]:
    """The answer as a service gives it."""
    deciding = found.deciding
    return {
        **({} if deciding is None else _fields(deciding)),
        "decision_id": decision_id,
        "decision": found.enforced.value,
        "would_deny": found.would_deny,
        "answer": found.answer.value,
        "message": message,
        "session": call.session.id,
        "specs": [_of_spec(each) for each in found.specs],
    }


def _of_spec(found: SpecDecision) -> dict[str, Any]:
    return {**_fields(found), "decision": found.enforced.value}


def _fields(found: SpecDecision) -> dict[str, Any]:
    fields = found._asdict()
    thing = fields.pop("thing")
    return fields if thing is None else {**fields, "thing": thing.as_json()}
