"""Calls of an MCP server that runs in its agent's own process, which two kinds of spans tell.

The agent's program asks for them over a pipe that carries no trace's context: so the server's spans
stand beside the agent's, in the same trace or in others, under the tool's own name, where the agent's
have the server's name before it (`mcp__<server>__<tool>`). The agent's spans are the calls.

Which comes first does not matter: what was judged is taken back when an agent tells of the tool.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from collector.one_call import BETWEEN, PREFIX, Call, Piece
from collector.sessions import Asker

__all__ = ["AGENTS_MAX", "SERVED_MAX", "TOOLS_MAX", "Served"]

AGENTS_MAX: Final = 1_000
"""Agents remembered; the first is forgotten, and learnt anew."""

TOOLS_MAX: Final = 256
"""Tools of one agent."""

SERVED_MAX: Final = 64
"""Calls of one agent's servers that can still be taken back, and its failed calls."""


class _Agent:
    """What is known of one agent's calls."""

    __slots__ = ("failed", "served", "tools")

    def __init__(self) -> None:
        self.tools: set[str] = set()
        """Tools that its own spans have told of."""
        self.failed: deque[Piece] = deque(maxlen=SERVED_MAX)
        """Its spans of calls that failed: the tool may be none that anybody serves."""
        self.served: deque[Call] = deque(maxlen=SERVED_MAX)
        """Calls that only a server's spans have told of."""


class Served:
    """Decides which calls of MCP servers are an agent's, told again."""

    def __init__(self) -> None:
        self._agents: OrderedDict[Asker, _Agent] = OrderedDict()

    def serves(self, asker: Asker, call: Call) -> bool:
        """A server's span has come.

        Returns:
            True where the agent's own spans tell of the call.
        """
        agent, piece = self._agent(asker), call.outer
        if piece.tool in agent.tools or any(_is_around(each, piece) for each in agent.failed):
            return True
        agent.served.append(call)
        return False

    def asks(self, asker: Asker, piece: Piece) -> list[Call]:
        """An agent's span of a call to a server has come.

        Returns:
            Calls that are told of by such spans, and are to be taken back.
        """
        agent = self._agent(asker)
        if piece.error:
            agent.failed.append(piece)
            return [each for each in agent.served if _is_around(piece, each.outer)]
        names = _names(piece.tool)
        if agent.tools.issuperset(names):
            return []
        if len(agent.tools) < TOOLS_MAX:
            agent.tools.update(names)
        return [each for each in agent.served if each.outer.tool in names]

    def _agent(self, asker: Asker) -> _Agent:
        agent = self._agents.get(asker)
        if agent is None:
            agent = self._agents[asker] = _Agent()
            if len(self._agents) > AGENTS_MAX:
                self._agents.popitem(last=False)
        return agent


def _names(tool: str) -> list[str]:
    """What a server may call the tool: the names of servers may have what stands between, too."""
    _, *parts = tool.removeprefix(PREFIX).split(BETWEEN)
    return [BETWEEN.join(parts[index:]) for index in range(len(parts))]


def _is_around(asked: Piece, served: Piece) -> bool:
    """True where an agent's span may be the one that the server's is part of."""
    within = asked.start_ns <= served.start_ns and served.end_ns <= asked.end_ns
    return within and served.tool in _names(asked.tool)
