"""Calls of an MCP server that runs in its agent's own process, which two kinds of spans tell.

The agent calls the server over a pipe that carries no trace context. So the server's spans stand beside the
agent's, in the same trace or in others, under the tool's own name; the agent's spans have the server's name before
it (`mcp__<server>__<tool>`). The agent's span is the call. A server's span that lies within it in time, and whose
name fits, repeats it. Either may arrive first.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, NamedTuple

from collector.calls.call.call import LogicalCall
from collector.calls.call.piece import Piece
from collector.calls.records import Requester
from collector.dialects.names.session_and_agent_keys import is_served

__all__ = ["AGENTS_MAX", "CALLS_MAX", "McpEcho"]

AGENTS_MAX: Final = 1_000
"""Agents remembered. At the bound, the least recently active one is forgotten."""

CALLS_MAX: Final = 64
"""Calls remembered of one agent, and of its servers."""


class _AgentCall(NamedTuple):
    """A call as the agent's span tells it, without its arguments."""

    tool: str
    start_ns: int
    end_ns: int


class _Agent:
    """The latest calls of one agent."""

    __slots__ = ("own", "served")

    def __init__(self) -> None:
        self.own: deque[_AgentCall] = deque(maxlen=CALLS_MAX)
        """Calls from the agent's spans."""
        self.served: deque[LogicalCall] = deque(maxlen=CALLS_MAX)
        """Calls that only a server's spans describe."""


class McpEcho:
    """Decides which calls of MCP servers repeat a call of their agent."""

    def __init__(self) -> None:
        self._agents: OrderedDict[Requester, _Agent] = OrderedDict()

    def of_server(self, requester: Requester, call: LogicalCall) -> bool:
        """Takes a call that a server's span tells.

        Returns:
            True if the agent's span of the same call arrived before: the call is a repetition.
        """
        agent, piece = self._agent(requester), call.outer
        if any(_is_around(each, piece) for each in agent.own):
            return True
        agent.served.append(call)
        return False

    def of_agent(self, requester: Requester, piece: Piece) -> list[LogicalCall]:
        """Takes a call to a server that the agent's span tells.

        Returns:
            Calls of servers that repeat it, and are to be retracted.
        """
        agent = self._agent(requester)
        call = _AgentCall(piece.tool, piece.start_ns, piece.end_ns)
        agent.own.append(call)
        return [each for each in agent.served if _is_around(call, each.outer)]

    def _agent(self, requester: Requester) -> _Agent:
        agent = self._agents.get(requester)
        if agent is None:
            agent = self._agents[requester] = _Agent()
            if len(self._agents) > AGENTS_MAX:
                self._agents.popitem(last=False)
        else:
            self._agents.move_to_end(requester)
        return agent


def _is_around(call: _AgentCall, served: Piece) -> bool:
    """True if the server's span lies within the agent's in time, and its name fits."""
    within = call.start_ns <= served.start_ns and served.end_ns <= call.end_ns
    return within and is_served(call.tool, served.tool)
