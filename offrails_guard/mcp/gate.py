"""Decides which texts from an MCP client go on to its server, for any transport."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from offrails_guard.awaiting_outcome.decision_ids import DecisionIds
from offrails_guard.base import BaseGuard
from offrails_guard.decision import NOT_ASKED, Decision
from offrails_guard.mcp import messages
from offrails_guard.mcp.messages import ClientMessages
from offrails_guard.policies import Policy

__all__ = ["ASKED_MAX", "Gate"]

ASKED_MAX: Final = 64
"""Texts that are asked about at once; others wait for them. A service that hangs keeps each for its deadline."""

NEW_MAX: Final = 4_096
"""Sessions without a call that are remembered as new; beyond it the oldest is one like any other."""

_log: Final = logging.getLogger("offrails.guard")


class Gate:
    """Asks for the calls of each text, and settles them by the server's answers.

    Args:
        guard: asked before each call of a tool.
        policy: what to do with a text that cannot be read, and calls no tool as far as can be seen.
        session: of calls that come without a session and a trace, unless the guard names one. It begins with the
            first of them.
    """

    def __init__(self, guard: BaseGuard, policy: Policy, session: str = "") -> None:
        self._guard: Final = guard
        self._policy: Final = policy
        self._session: Final = session
        self._new: OrderedDict[str, None] = OrderedDict()
        """Sessions of which no call has gone on yet."""
        if session:
            self.begin(session)
        self._asked = asyncio.Semaphore(ASKED_MAX)
        self._refused = 0

    def begin(self, session: str) -> None:
        """A session begins: nothing was called in it before."""
        self._new[session] = None
        if len(self._new) > NEW_MAX:
            self._new.popitem(last=False)

    def read(self, text: bytes) -> ClientMessages | bytes:
        """What a text holds; or the answer to the client, if it is not to go on.

        What may be a call goes on only if it names its tool. Other texts that cannot be read are the server's to
        refuse, unless nothing may pass unseen.
        """
        incoming = messages.read_incoming(text)
        if incoming.may_call:
            self._tell_refused()
            return messages.refusal(incoming, messages.UNREADABLE)
        if not incoming.is_read and not incoming.calls and self._policy == "deny":
            return messages.refusal(incoming, NOT_ASKED)
        return incoming

    async def ask(
        self,
        incoming: ClientMessages,
        awaiting: DecisionIds,
        session: str = "",
        trace_id: str = "",
    ) -> bytes | None:
        """The answer to the client, where a call of a text is denied; None if the text goes on.

        Args:
            incoming: what the text holds: one message, or a batch of them.
            awaiting: keeps the decisions of calls that go on.
            session: that the transport knows.
            trace_id: likewise, for calls that name none.
        """
        if not incoming.calls:
            return None
        names = self._names(incoming, session, trace_id)
        names["new_session"] = names["session"] in self._new
        calls = [each.call for each in incoming.calls]
        async with self._asked:
            decisions = await self._guard.acheck_all(calls, **names)
        if all(each.allowed for each in decisions):
            self._new.pop(names["session"], None)
            for call, decision in zip(incoming.calls, decisions, strict=True):
                awaiting.put(call.key, decision.decision_id)
            return None
        self._take_back(decisions)
        return messages.answers(incoming, decisions)

    def withdraw(self, incoming: ClientMessages, awaiting: DecisionIds) -> None:
        """The calls of a text that was to go on are not made: their client gives them up."""
        for each in incoming.calls:
            self._guard.outcome(awaiting.take(each.key), "skipped")

    def settle(self, text: bytes, awaiting: DecisionIds) -> None:
        """Says what became of the calls that a text from the server answers."""
        if len(awaiting):
            for key, outcome in messages.outcomes(text):
                self._guard.outcome(awaiting.take(key), outcome)

    def fail(self, awaiting: DecisionIds) -> None:
        """The server is gone: what it was to do has failed."""
        for decision_id in awaiting.take_all():
            self._guard.outcome(decision_id, "failed")

    def _names(self, incoming: ClientMessages, session: str, trace_id: str) -> dict[str, Any]:
        """Whose calls they are."""
        trace_id = incoming.trace_id or trace_id
        own = "" if session or trace_id or self._guard.session else self._session
        return {
            "session": "" if self._guard.session else session or own,
            "trace_id": trace_id,
        }

    def _take_back(self, decisions: Sequence[Decision]) -> None:
        """Nothing of a batch is made of which a call is denied."""
        for each in decisions:
            if each.allowed:
                self._guard.outcome(each.decision_id, "skipped")
            else:
                self._guard.refused(each)

    def _tell_refused(self) -> None:
        self._refused += 1
        if self._refused == 1:
            _log.warning(
                "offrails guard: a message that may call a tool cannot be read: it is not passed on; "
                "more are refused without a word"
            )
