"""Decides which texts from an MCP client go on to its server, for any transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from guard.base import BaseGuard
from guard.decision import NOT_ASKED, Decision, Policy
from guard.held import Held
from guard.mcp import messages

__all__ = ["Gate"]


class _Asked(NamedTuple):
    incoming: messages.Incoming
    names: dict[str, Any]
    """Of the question: session and trace."""


class Gate:
    """Asks for the calls of each text, and settles them by the server's answers.

    Args:
        guard: asked before each call of a tool.
        policy: what to do with a text that cannot be read.
        session: of calls that come without a session and a trace, unless the guard names one.
    """

    def __init__(self, guard: BaseGuard, policy: Policy, session: str = "") -> None:
        self._guard: Final = guard
        self._policy: Final = policy
        self._session: Final = session

    def ask(
        self, text: bytes, held: Held, session: str = "", trace_id: str = ""
    ) -> bytes | None:
        """The answer to the client, where a call of the text is denied; None if the text goes on.

        Args:
            text: one message, or a batch of them.
            held: keeps the decisions of calls that go on.
            session: that the transport knows.
            trace_id: likewise, for calls that name none.
        """
        asked = self._asked(text, session, trace_id)
        if not isinstance(asked, _Asked):
            return asked
        calls = [each.call for each in asked.incoming.calls]
        return self._answer(asked.incoming, self._guard.check_all(calls, **asked.names), held)

    async def aask(
        self, text: bytes, held: Held, session: str = "", trace_id: str = ""
    ) -> bytes | None:
        """As `ask`, in an event loop."""
        asked = self._asked(text, session, trace_id)
        if not isinstance(asked, _Asked):
            return asked
        calls = [each.call for each in asked.incoming.calls]
        found = await self._guard.acheck_all(calls, **asked.names)
        return self._answer(asked.incoming, found, held)

    def settle(self, text: bytes, held: Held) -> None:
        """Says what became of the calls that a text from the server answers."""
        if len(held):
            for id_, outcome in messages.outcomes(text):
                self._guard.outcome(held.take(repr(id_)), outcome)

    def fail(self, held: Held) -> None:
        """The server is gone: what it was to do has failed."""
        for decision_id in held.take_all():
            self._guard.outcome(decision_id, "failed")

    def _asked(self, text: bytes, session: str, trace_id: str) -> _Asked | bytes | None:
        try:
            incoming = messages.read(text)
        except messages.UnreadableMessageError:
            # The server says what is wrong with it, unless nothing may pass unseen.
            return messages.unreadable(NOT_ASKED) if self._policy == "deny" else None
        if not incoming.calls:
            return None
        trace_id = incoming.trace_id or trace_id
        own = session or ("" if trace_id else self._session)
        return _Asked(
            incoming, {"session": "" if self._guard.session else own, "trace_id": trace_id}
        )

    def _answer(
        self, incoming: messages.Incoming, decisions: Sequence[Decision], held: Held
    ) -> bytes | None:
        if all(each.allowed for each in decisions):
            for call, decision in zip(incoming.calls, decisions, strict=True):
                held.put(repr(call.id), decision.decision_id)
            return None
        for each in decisions:
            if each.allowed:  # nothing of the batch is made
                self._guard.outcome(each.decision_id, "skipped")
            else:
                self._guard.refused(each)
        return messages.answers(incoming, decisions)
