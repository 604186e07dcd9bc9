"""Calls of an MCP server that runs in its agent's own process, which two kinds of spans tell.

The agent's program asks for them over a pipe that carries no trace's context: so the server's spans
stand beside the agent's, in the same trace or in others, under the tool's own name, where the agent's
have the server's name before it (`mcp__<server>__<tool>`). The agent's spans are the calls: a server's
span is a part of one that is around it in time. Which comes first does not matter.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, NamedTuple

from collector.calls.call import Call, Piece
from collector.calls.records import Requester
from collector.dialects.names import is_served

__all__ = ["AGENTS_MAX", "CALLS_MAX", "McpEcho"]

AGENTS_MAX: Final = 1_000
"""Agents remembered; the one that was heard of least recently is forgotten."""

CALLS_MAX: Final = 64
"""Calls of one agent that are remembered, and of its servers."""


class _AgentCall(NamedTuple):
    """A call as its agent's own span tells it, without what it was given."""

    tool: str
    start_ns: int
    end_ns: int


class _Agent:
    """The latest calls of one agent."""

    __slots__ = ("asked", "served")

    def __init__(self) -> None:
        self.asked: deque[_AgentCall] = deque(maxlen=CALLS_MAX)
        """As its own spans tell them."""
        self.served: deque[Call] = deque(maxlen=CALLS_MAX)
        """What only a server's spans have told."""


class McpEcho:
    """Decides which calls of MCP servers are an agent's, told again."""

    def __init__(self) -> None:
        self._agents: OrderedDict[Requester, _Agent] = OrderedDict()

    def of_server(self, requester: Requester, call: Call) -> bool:
        """A server's span has come.

        Returns:
            True where a span of the agent tells of the call.
        """
        agent, piece = self._agent(requester), call.outer
        if any(_is_around(each, piece) for each in agent.asked):
            return True
        agent.served.append(call)
        return False

    def of_agent(self, requester: Requester, piece: Piece) -> list[Call]:
        """An agent's span of a call to a server has come.

        Returns:
            Calls that are parts of it, and are to be taken back.
        """
        agent = self._agent(requester)
        told = _AgentCall(piece.tool, piece.start_ns, piece.end_ns)
        agent.asked.append(told)
        return [each for each in agent.served if _is_around(told, each.outer)]

    def _agent(self, requester: Requester) -> _Agent:
        agent = self._agents.get(requester)
        if agent is None:
            agent = self._agents[requester] = _Agent()
            if len(self._agents) > AGENTS_MAX:
                self._agents.popitem(last=False)
        else:
            self._agents.move_to_end(requester)
        return agent


def _is_around(asked: _AgentCall, served: Piece) -> bool:
    """True where an agent's span may be the one that the server's is part of."""
    within = asked.start_ns <= served.start_ns and served.end_ns <= asked.end_ns
    return within and is_served(asked.tool, served.tool)
