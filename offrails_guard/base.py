"""What every guard offers, whoever decides: checks, batches, outcomes, guarded functions, and counts."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from offrails_guard.decision import (
    NO_SESSION,
    NOTHING,
    Decision,
    Outcome,
    UnreadableDecisionError,
)
from offrails_guard.forks import renew_after_fork
from offrails_guard.policies import NO_SPEC, Policies, Policy
from offrails_guard.question import Call, Question, QuestionContext, current_span
from offrails_guard.transport.wire import Failure, ResultError, outcome_body
from offrails_guard.wrapped_function import OnDenied, wrapped

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BATCH_MAX", "BaseGuard", "Session"]

Session = str | Callable[[], str]
"""The conversation's id, as its spans have it, or what gives the id of the current one."""

BATCH_MAX: Final = 64
"""Calls that are decided as one group; more are decided in several."""

SESSIONS_MAX: Final = 65_536
"""Sessions that `new_session` can tell apart; of later ones it says nothing."""

HINTS: Final[Mapping[str, str]] = {
    NO_SESSION: ": they name neither a session nor a trace, and what came before decides; give a session"
}
"""What people do about a kind of missing decision."""

_log: Final = logging.getLogger("offrails.guard")

Function = TypeVar("Function", bound=Callable[..., Any])


class BaseGuard(ABC):
    """Decides on calls before they are made. Safe for threads; `check` and its kin never raise.

    Args:
        session: of the calls, where a check names no other; without one the current trace is it.
        agent: who makes the calls.
        service: the agent's service.name, which specs match on.
        attributes: more that specs match on, as the resource attributes of its spans.
        on_unavailable: what is done with a call where there is no decision.
        on_unknown: what is done with a call of which nobody knows whether it is harmful.
        on_no_spec: what is done with a call of an agent that no spec matches.
        new_session: True says that the first call that this guard asks about is the first of its session, so that
            nothing came before it that the monitor has not seen.

    Raises:
        ValueError: an attribute or a policy cannot be used.
    """

    def __init__(
        self,
        *,
        session: Session = "",
        agent: str = "",
        service: str = "",
        attributes: Mapping[str, Any] = NOTHING,
        on_unavailable: Policy = "allow",
        on_unknown: Policy = "allow",
        on_no_spec: Policy = "allow",
        new_session: bool = False,
    ) -> None:
        for key, value in attributes.items():
            if not isinstance(value, str | int | float | bool):
                raise ValueError(f"attributes.{key}: expected a text, a number or a boolean")  # noqa: TRY004
        policies = Policies(on_unavailable, on_unknown, on_no_spec)
        for name, given in policies._asdict().items():
            if given not in ("allow", "deny"):
                raise ValueError(f"{name}: expected allow or deny, found {given!r}")
        self.session = session
        self.agent = agent
        self.service = service
        self.attributes = attributes
        self.policies: Final = policies
        self._tells_new = new_session
        self._begun: set[str] = set()
        """Sessions of which a call was let through."""
        self._counting = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._reported: set[str] = set()
        self._reported_session = False
        renew_after_fork(self)

    def renew(self) -> None:
        """After a fork: the lock may be held by a thread that is not here."""
        self._counting = threading.Lock()

    # --- one call ------------------------------------------------------------------------------

    def check(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        call_id: str = "",
        session: str = "",
        agent: str = "",
        trace_id: str = "",
        span_id: str = "",
        parent_span_id: str = "",
        commit: bool = True,
        new_session: bool = False,
    ) -> Decision:
        """Decides on one call.

        Args:
            tool: its name, as the spans have it.
            arguments: None where they are not known, which is not the same as none: `{}`.
            call_id: the model's id of the call.
            session: in place of the guard's own.
            agent: likewise.
            trace_id: 32 hexadecimal digits; without it, those of the current OpenTelemetry span.
            span_id: of the call's own span, 16 hexadecimal digits.
            parent_span_id: of the span that it will be below.
            commit: False only asks: the call is not counted on by what is asked later.
            new_session: True says that no call of the session was made before this one.
        """
        call = Call(tool, arguments, call_id, span_id, parent_span_id)
        question = self._question(
            [call], session, agent, trace_id, commit=commit, new_session=new_session
        )
        return self._decide(question)[0]

    async def acheck(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        call_id: str = "",
        session: str = "",
        agent: str = "",
        trace_id: str = "",
        span_id: str = "",
        parent_span_id: str = "",
        commit: bool = True,
        new_session: bool = False,
    ) -> Decision:
        """As `check`, in an asyncio event loop."""
        call = Call(tool, arguments, call_id, span_id, parent_span_id)
        question = self._question(
            [call], session, agent, trace_id, commit=commit, new_session=new_session
        )
        return (await self._adecide(question))[0]

    # --- a model's parallel calls ----------------------------------------------------------------

    def check_all(
        self,
        calls: Iterable[Call],
        *,
        session: str = "",
        agent: str = "",
        trace_id: str = "",
        commit: bool = True,
        new_session: bool = False,
    ) -> list[Decision]:
        """Decides on calls that are made side by side, as one group; in their order."""
        questions = self._batches(
            calls, session, agent, trace_id, commit=commit, new_session=new_session
        )
        return [found for each in questions for found in self._decide(each)]

    async def acheck_all(
        self,
        calls: Iterable[Call],
        *,
        session: str = "",
        agent: str = "",
        trace_id: str = "",
        commit: bool = True,
        new_session: bool = False,
    ) -> list[Decision]:
        """As `check_all`, in an asyncio event loop."""
        questions = self._batches(
            calls, session, agent, trace_id, commit=commit, new_session=new_session
        )
        return [found for each in questions for found in await self._adecide(each)]

    # --- what became of it -----------------------------------------------------------------------

    @abstractmethod
    def outcome(self, decision_id: str, outcome: Outcome, result: tuple[Any, ...] = ()) -> None:
        """Says what became of a call. Returns at once; "" as the id is nobody's call.

        Spans of the call say the same. A call that neither confirms is taken back after a while.

        Args:
            decision_id: of the decision.
            outcome: what became of the call.
            result: what the tool returned, a JSON value, as the only item; () says nothing of it. Specs may ask
                for it, and a span that has it counts instead. One that a service does not read is left out: the
                outcome counts all the same.
        """

    def refused(self, decision: Decision) -> None:
        """Says that a call that was not allowed is not made. Returns at once.

        For whoever obeys a denial, as guarded functions and adapters do. Some frameworks write a span of the
        refused call all the same: without this it would be taken for a call that was made anyway.
        `check` cannot say it, since it does not know what its caller does.
        """
        if not decision.held:  # what is held was taken back when it was decided
            self.outcome(decision.decision_id, "skipped")

    def counts(self) -> dict[str, int]:
        """What was decided, and what was not, since the start.

        Keys: `allow`, `deny`, `unknown`, `no_spec`, `would_deny`, why there was no decision, in one word, and
        `unjudged`: all calls that no spec matched, or of which nobody could be asked.
        """
        with self._counting:
            return {key: count for key, count in self._counts.items() if count}

    # --- functions -------------------------------------------------------------------------------

    def wrap(
        self, function: Function, *, name: str = "", denied: OnDenied = "raise"
    ) -> Function:
        """A function, plain or async, that is asked for before each call.

        Args:
            function: its parameters are the call's arguments, but for `self`.
            name: of the tool; without it the function's.
            denied: `raise` raises `DeniedError`; `message` returns the message in place of a result.
        """
        return wrapped(self, function, name, denied)

    @overload
    def tool(self, function: Function, /) -> Function: ...
    @overload
    def tool(
        self, /, *, name: str = "", denied: OnDenied = "raise"
    ) -> Callable[[Function], Function]: ...
    def tool(
        self, function: Any = None, /, *, name: str = "", denied: OnDenied = "raise"
    ) -> Any:
        """`wrap` as a decorator: `@guard.tool`, or `@guard.tool(name="pay")`."""
        if function is not None:
            return self.wrap(function, name=name, denied=denied)
        return lambda each: self.wrap(each, name=name, denied=denied)

    # --- its life --------------------------------------------------------------------------------

    def close(self) -> None:  # noqa: B027 - not every guard holds something
        """Sends what waits, and frees what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False

    # --- by whoever decides ----------------------------------------------------------------------

    @abstractmethod
    def _decide(self, question: Question) -> list[Decision]:
        """One decision for each call of the question; never raises."""

    @abstractmethod
    async def _adecide(self, question: Question) -> list[Decision]:
        """As `_decide`, in an event loop."""

    def _batches(
        self,
        calls: Iterable[Call],
        session: str,
        agent: str,
        trace_id: str,
        *,
        commit: bool,
        new_session: bool,
    ) -> list[Question]:
        found = list(calls)
        return [
            self._question(
                found[start : start + BATCH_MAX],
                session,
                agent,
                trace_id,
                commit=commit,
                new_session=new_session,
                batch=True,
            )
            for start in range(0, len(found), BATCH_MAX)
        ]

    def _question(
        self,
        calls: Sequence[Call],
        session: str,
        agent: str,
        trace_id: str,
        *,
        commit: bool,
        new_session: bool,
        batch: bool = False,
    ) -> Question:
        if not trace_id:
            trace_id, span_id, parent = current_span()
            calls = [
                call
                if call.span_id or call.parent_span_id
                else call._replace(span_id="" if batch else span_id, parent_span_id=parent)
                for call in calls
            ]
        session = session or self._current_session()
        shared = QuestionContext(
            session,
            agent or self.agent,
            self.service,
            trace_id,
            self.attributes,
            commit,
            new_session or (self._tells_new and (session or trace_id) not in self._begun),
        )
        return Question(shared, calls, batch)

    def _placed(self, question: Question, decisions: list[Decision]) -> list[Decision]:
        """The decisions, by what is known of the session."""
        shared = question.shared
        if shared.session or shared.trace_id:
            return decisions
        found = [each.of_no_session(self.policies) for each in decisions]
        if any(each.unavailable == NO_SESSION for each in found):
            self._report(NO_SESSION, LookupError("there is neither a session nor a trace"))
        return found

    def _count(self, question: Question, decisions: Sequence[Decision]) -> None:
        with self._counting:
            for each in decisions:
                self._counts[each.unavailable or each.decision] += 1
                self._counts["would_deny"] += each.would_deny
                self._counts["unjudged"] += not each.judged
        if self._tells_new and any(each.allowed for each in decisions):
            self._begin(question.shared.session or question.shared.trace_id)
        for each in decisions:
            if each.decision == NO_SPEC and self._is_first(NO_SPEC):
                _log.warning(
                    "offrails guard: %s (it is %r now); more are counted only",
                    each.notice, self.service,
                )  # fmt: skip

    def _begin(self, session: str) -> None:
        """A call of the session goes ahead: it is new no more."""
        if len(self._begun) < SESSIONS_MAX:
            self._begun.add(session)
        elif session not in self._begun:
            self._tells_new = False
            self._lose("new_sessions_lost", OverflowError(f"{SESSIONS_MAX} sessions"))

    def _outcome_body(
        self, decision_id: str, outcome: Outcome, result: tuple[Any, ...]
    ) -> bytes:
        """The request that tells an outcome; alone, if the result cannot be told: that is counted."""
        try:
            return outcome_body(decision_id, outcome, result)
        except ResultError as problem:
            self._lose("results_lost", problem)
            return outcome_body(decision_id, outcome)

    def _lose(self, what: str, problem: Exception) -> None:
        """Counts what is lost beside a decision, and logs the first of each kind."""
        with self._counting:
            self._counts[what] += 1
        if self._is_first(what):
            _log.warning("offrails guard: %s: %s; more are counted only", what, problem)

    def _is_first(self, what: str) -> bool:
        with self._counting:
            first = what not in self._reported
            self._reported.add(what)
        return first

    def _without(self, problem: Exception, calls: int) -> list[Decision]:
        """What is done with calls of which nobody has decided, because of a problem."""
        if isinstance(problem, Failure):
            why = str(problem)
        else:
            why = "unreadable" if isinstance(problem, UnreadableDecisionError) else "internal"
        self._report(why, problem)
        return [Decision.without_answer(why, self.policies)] * calls

    def _report(self, why: str, problem: Exception) -> None:
        """Logs the first decision of each kind that is missing; `counts` has the rest."""
        if self._is_first(why):
            _log.warning(
                "offrails guard: no decision (%s): such calls are %s; more are counted only",
                why + HINTS.get(why, ""),
                "made" if self.policies.on_unavailable == "allow" else "not made",
                exc_info=problem if why == "internal" else None,
            )

    def _current_session(self) -> str:
        if isinstance(self.session, str):
            return self.session
        try:
            return str(self.session())
        except Exception:  # noqa: BLE001 - an agent does not fail for its guard
            if not self._reported_session:
                self._reported_session = True
                _log.warning("offrails guard: no session id; the trace is it", exc_info=True)
            return ""
