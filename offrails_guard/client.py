"""The guard of a service: asks over HTTP, within a deadline, and never fails the agent."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Any, Final

from offrails_guard.base import BaseGuard, Session
from offrails_guard.decision import NOTHING, Decision, Outcome
from offrails_guard.policies import Policy
from offrails_guard.question import Question
from offrails_guard.transport.connection import Loop, ServiceConnection, Waiter
from offrails_guard.transport.deadline import TURNS_MAX
from offrails_guard.transport.wire import (
    DECIDE,
    OUTCOME,
    TOO_MUCH,
    URL,
    Failure,
    ResultError,
    outcome_body,
    read_answer,
    read_outcome,
)

__all__ = ["CLOSE_SECONDS", "DEADLINE_SECONDS", "URL", "Guard"]

DEADLINE_SECONDS: Final = 0.05
CLOSE_SECONDS: Final = 1.0
"""How long `close`, and the end of the process, wait for outcomes that are on their way."""


class Guard(BaseGuard):
    """Asks a running service.

        guard = Guard("http://127.0.0.1:4320", session="s1", agent="rover")
        decision = guard.check("water", {"field": 3})
        if not decision.allowed:
            return decision.message  # the model reads what is wrong, and what is allowed now

    It connects when it is made, which takes half a second at most.

    Args:
        url: `http://HOST:PORT`, `https://...`, or `unix:/path` of a socket.
        session: of the calls, where a check names no other; without one the current trace is it.
        agent: who makes the calls.
        service: the agent's service.name, which specs match on.
        attributes: more that specs match on, as the resource attributes of its spans.
        on_unavailable: what is done with a call where nobody could be asked in time.
        on_unknown: what is done with a call of which nobody knows whether it is harmful.
        on_no_spec: what is done with a call of an agent that no spec matches.
        new_session: True says that the first call that this guard asks about is the first of its session, so that
            nothing came before it that the service has not seen.
        deadline_seconds: how long a check waits for a service that answers nobody. While it answers other checks
            of this guard, a check waits its turn, at most a hundred times as long.
        token: of the service's `decide` listener.
        ca: file with the trusted authorities, PEM; the system's where it is not given.

    Raises:
        ValueError: the URL or an attribute cannot be used.
        OSError: the file of authorities cannot be read.
    """

    def __init__(
        self,
        url: str = URL,
        *,
        session: Session = "",
        agent: str = "",
        service: str = "",
        attributes: Mapping[str, Any] = NOTHING,
        on_unavailable: Policy = "allow",
        on_unknown: Policy = "allow",
        on_no_spec: Policy = "allow",
        new_session: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
        token: str | None = None,
        ca: str | None = None,
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
        self.deadline_seconds: Final = deadline_seconds
        self._patience: Final = TURNS_MAX * deadline_seconds
        self._connection = ServiceConnection(url, token, ca, deadline_seconds)
        self._end = weakref.finalize(self, self._connection.close, CLOSE_SECONDS)

    def counts(self) -> dict[str, int]:
        """What was decided, and what was not, since the start.

        Keys: `allow`, `deny`, `unknown`, `no_spec`, `would_deny`; why nobody could be asked: `deadline`,
        `no_session` (neither session nor trace, and what came before decides), `connection`, `busy` (too much is on its way), `overloaded` (429, 503), `unauthorized` (401,
        403), `refused` (another 4xx), `error` (5xx), `unreadable`, `internal`; `unjudged`: all of these and
        `no_spec`; `outcomes_lost`, `results_lost` (their outcomes are sent), `new_sessions_lost`.
        """
        return super().counts()

    def outcome(self, decision_id: str, outcome: Outcome, result: tuple[Any, ...] = ()) -> None:
        """Says what became of a call. Returns at once; "" as the id is nobody's call."""
        if not decision_id:
            return
        try:
            self._connection.run(partial(self._send_outcome, decision_id, outcome, result))
        except Exception as problem:  # noqa: BLE001 - an agent does not fail for its guard
            self._lose("outcomes_lost", problem)

    def close(self) -> None:
        """Waits for outcomes that are on their way, `CLOSE_SECONDS` at most, and closes the connections."""
        self._end()

    # --- asking --------------------------------------------------------------------------------

    def _decide(self, question: Question) -> list[Decision]:
        asked = self._ask(question)
        try:
            found = asked.found.result(self._patience)
        except FutureTimeoutError:  # another one than the built-in before Python 3.11
            self._give_up(asked)
            found = asked.found.result()
        except BaseException:
            self._drop(asked)
            raise
        self._count(question, found)
        return found

    async def _adecide(self, question: Question) -> list[Decision]:
        asked = self._ask(question)
        try:
            answer = asyncio.wrap_future(asked.found)
            await asyncio.wait((answer,), timeout=self._patience)
        except BaseException:
            self._drop(asked)
            raise
        self._give_up(asked)
        found = asked.found.result()
        self._count(question, found)
        return found

    def _ask(self, question: Question) -> _Asked:
        question = question.named()
        asked = _Asked(len(question.calls))
        try:
            body = question.body()
            work = partial(self._exchange, question, body, asked)
            self._connection.run(
                work, len(body), Waiter(asked.found.done, partial(self._give_up, asked))
            )
        except Exception as problem:  # noqa: BLE001 - an agent does not fail for its guard
            asked.settle(self._without(problem, asked.calls))
        return asked

    def _give_up(self, asked: _Asked) -> None:
        """The time is up, unless the answer is there."""
        if not asked.found.done():
            decisions = self._without(Failure("deadline"), asked.calls)
            asked.give_up(decisions, made=decisions[0].allowed)

    def _drop(self, asked: _Asked) -> None:
        """Whoever asked was cancelled: nothing of it is made."""
        if not asked.give_up([], made=False):
            for each in asked.found.result():
                self.outcome(each.decision_id, "skipped")

    async def _exchange(
        self, question: Question, body: bytes, asked: _Asked, loop: Loop
    ) -> None:
        """Runs on the loop: one question and its answer, in time or late."""
        try:
            answer = await loop.post(DECIDE, body)
            if answer.status in TOO_MUCH and any(each.arguments for each in question.calls):
                answer = await loop.post(DECIDE, question.body(arguments=False))
            decisions = self._placed(question, read_answer(answer, question, self.policies))
        except Exception as problem:  # noqa: BLE001 - an agent does not fail for its guard
            asked.settle(self._without(problem, asked.calls))
            return
        if not asked.settle(decisions):
            for each in decisions:  # nobody else can speak of them: who asked has no ids
                self.outcome(each.decision_id, "ran" if asked.made else "skipped")
            return
        for each in decisions:
            if each.held and not each.allowed:
                self.outcome(each.decision_id, "skipped")

    # --- outcomes --------------------------------------------------------------------------------

    async def _send_outcome(
        self, decision_id: str, outcome: Outcome, result: tuple[Any, ...], loop: Loop
    ) -> None:
        try:
            body = self._outcome_body(decision_id, outcome, result)
            answer = await loop.post(OUTCOME, body)
            if result and answer.status in TOO_MUCH:
                self._lose("results_lost", ResultError("the service does not read it"))
                answer = await loop.post(OUTCOME, outcome_body(decision_id, outcome))
            read_outcome(answer)
        except Exception as problem:  # noqa: BLE001 - an agent does not fail for its guard
            self._lose("outcomes_lost", problem)


class _Asked:
    """A question on its way. Either the answer comes first, or who asked leaves first."""

    def __init__(self, calls: int) -> None:
        self.calls: Final = calls
        self.found: Future[list[Decision]] = Future()
        self.found.set_running_or_notify_cancel()  # from now on it cannot be cancelled
        self.made = False
        """True where the calls are made without an answer."""
        self._left = False
        self._lock = threading.Lock()

    def settle(self, decisions: list[Decision]) -> bool:
        """Hands over the decisions; False where nobody waits for them any more."""
        with self._lock:
            if self._left or self.found.done():
                return False
            self.found.set_result(decisions)
            return True

    def give_up(self, decisions: list[Decision], *, made: bool) -> bool:
        """Stops waiting; False where the decisions are there."""
        with self._lock:
            if self.found.done():
                return False
            self._left, self.made = True, made
            self.found.set_result(decisions)
            return True
