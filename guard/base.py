"""What every guard offers, whoever decides: checks, batches, outcomes, guarded functions, and counts."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypeVar, overload

from guard.decision import Decision, Outcome, Policy
from guard.question import Call, Question, Shared, current_span
from guard.wrapping import OnDenied, wrapped

__all__ = ["BATCH_MAX", "BaseGuard", "Session"]

Session = str | Callable[[], str]
"""The conversation's id, as its spans have it, or what gives the id of the current one."""

BATCH_MAX: Final = 64
"""Calls that are decided as one group; more are decided in several."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

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

    Raises:
        ValueError: an attribute or a policy cannot be used.
    """

    def __init__(
        self,
        *,
        session: Session = "",
        agent: str = "",
        service: str = "",
        attributes: Mapping[str, Any] = _NOTHING,
        on_unavailable: Policy = "allow",
        on_unknown: Policy = "allow",
    ) -> None:
        for key, value in attributes.items():
            if not isinstance(value, str | int | float | bool):
                raise ValueError(f"attributes.{key}: expected a text, a number or a boolean")  # noqa: TRY004
        for name, given in (("on_unavailable", on_unavailable), ("on_unknown", on_unknown)):
            if given not in ("allow", "deny"):
                raise ValueError(f"{name}: expected allow or deny, found {given!r}")
        self.session = session
        self.agent = agent
        self.service = service
        self.attributes = attributes
        self.on_unavailable: Final = on_unavailable
        self.on_unknown: Final = on_unknown
        self._counting = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._reported: set[str] = set()
        self._reported_session = False

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
        """
        call = Call(tool, arguments, call_id, span_id, parent_span_id)
        return self._decide(self._question([call], session, agent, trace_id, commit=commit))[0]

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
    ) -> Decision:
        """As `check`, in an asyncio event loop."""
        call = Call(tool, arguments, call_id, span_id, parent_span_id)
        return (
            await self._adecide(self._question([call], session, agent, trace_id, commit=commit))
        )[0]

    # --- a model's parallel calls ----------------------------------------------------------------

    def check_all(
        self,
        calls: Iterable[Call],
        *,
        session: str = "",
        agent: str = "",
        trace_id: str = "",
        commit: bool = True,
    ) -> list[Decision]:
        """Decides on calls that are made side by side, as one group; in their order."""
        questions = self._batches(calls, session, agent, trace_id, commit=commit)
        return [found for each in questions for found in self._decide(each)]

    async def acheck_all(
        self,
        calls: Iterable[Call],
        *,
        session: str = "",
        agent: str = "",
        trace_id: str = "",
        commit: bool = True,
    ) -> list[Decision]:
        """As `check_all`, in an asyncio event loop."""
        questions = self._batches(calls, session, agent, trace_id, commit=commit)
        return [found for each in questions for found in await self._adecide(each)]

    # --- what became of it -----------------------------------------------------------------------

    @abstractmethod
    def outcome(self, decision_id: str, outcome: Outcome) -> None:
        """Says what became of a call. Returns at once; "" as the id is nobody's call.

        Spans of the call say the same. A call that neither confirms is taken back after a while.
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

        Keys: `allow`, `deny`, `unknown`, `would_deny`, and why there was no decision, in one word.
        """
        with self._counting:
            return dict(self._counts)

    # --- functions -------------------------------------------------------------------------------

    def wrap(
        self, function: Function, *, name: str = "", denied: OnDenied = "raise"
    ) -> Function:
        """A function, plain or async, that is asked for before each call.

        Args:
            function: its parameters are the call's arguments, but for `self`.
            name: of the tool; without it the function's.
            denied: `raise` raises `Denied`; `message` returns the message in place of a result.
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
        self, calls: Iterable[Call], session: str, agent: str, trace_id: str, *, commit: bool
    ) -> list[Question]:
        found = list(calls)
        return [
            self._question(
                found[start : start + BATCH_MAX],
                session,
                agent,
                trace_id,
                commit=commit,
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
        shared = Shared(
            session or self._current_session(),
            agent or self.agent,
            self.service,
            trace_id,
            self.attributes,
            commit,
        )
        return Question(shared, calls, batch)

    def _count(self, decisions: Iterable[Decision]) -> None:
        with self._counting:
            for each in decisions:
                self._counts[each.unavailable or each.decision] += 1
                if each.would_deny:
                    self._counts["would_deny"] += 1

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

    def _report(self, why: str, problem: Exception) -> None:
        """Logs the first decision of each kind that is missing; `counts` has the rest."""
        if self._is_first(why):
            _log.warning(
                "offrails guard: no decision (%s): such calls are %s; more are counted only",
                why,
                "made" if self.on_unavailable == "allow" else "not made",
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
