"""What was seen of each agent: enough to start with before any spec is written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from monitor.records import ToolCall

__all__ = ["AGENTS_MAX", "NAMES_MAX", "SeenAgent", "SeenAgents"]

AGENTS_MAX: Final = 1_000
"""Services remembered; the one that was seen first is forgotten."""

NAMES_MAX: Final = 256
"""Tools, dialects and agents remembered for one service."""

UNKNOWN: Final = "unknown"


class SeenAgent:
    """One service, and what its spans carry."""

    __slots__ = (
        "agents",
        "arguments",
        "calls",
        "dialects",
        "first_ns",
        "last_ns",
        "namespace",
        "service",
        "session_from",
        "switches",
        "tools",
    )

    def __init__(self, namespace: str, service: str, now: int) -> None:
        self.namespace = namespace
        self.service = service
        self.agents: dict[str, None] = {}
        self.dialects: dict[str, None] = {}
        self.tools: dict[str, set[str]] = {}
        """Tool -> names of arguments seen."""
        self.session_from: dict[str, int] = {}
        """Attribute, or "trace" -> calls."""
        self.arguments = 0
        """Calls whose arguments were on the wire."""
        self.calls = 0
        self.switches: dict[str, None] = {}
        """Settings of the dialects that turn arguments on."""
        self.first_ns = now
        self.last_ns = now

    def told_by(self) -> dict[str, int]:
        """Where the session ids of its calls come from, as far as is known by now."""
        return {name: calls for name, calls in self.session_from.items() if calls}

    def as_json(self) -> dict[str, Any]:
        """The record as plain data."""
        return {
            "namespace": self.namespace,
            "service": self.service,
            "agents": list(self.agents),
            "dialects": list(self.dialects),
            "tools": {tool: sorted(names) for tool, names in self.tools.items()},
            "session_from": self.told_by(),
            "calls": self.calls,
            "calls_with_arguments": self.arguments,
            "switches": list(self.switches),
            "first": self.first_ns,
            "last": self.last_ns,
        }


class SeenAgents:
    """Every service whose calls were read, bounded."""

    def __init__(self, agents_max: int = AGENTS_MAX) -> None:
        self._agents_max = agents_max
        self._agents: OrderedDict[tuple[str, str], SeenAgent] = OrderedDict()
        self._last: tuple[Any, str, SeenAgent] | None = None
        """The last span's attributes (by identity) and namespace, and whose they were."""
        self.new: list[SeenAgent] = []
        """Seen for the first time since somebody last emptied this list (at most AGENTS_MAX)."""

    def __iter__(self) -> Any:
        return iter(list(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    def see(self, call: ToolCall, switch: str, now: int) -> None:
        """Takes note of a call that is about to be judged."""
        namespace = call.session.namespace
        found = self._known(namespace, call.attributes)
        if found is None:
            found = self._open(_key(namespace, call.attributes), now)
            self._last = call.attributes, namespace, found
        found.last_ns = now
        found.calls += 1
        if call.agent and call.agent not in found.agents:
            _keep(found.agents, call.agent)
        if call.source not in found.dialects:
            _keep(found.dialects, call.source)
        if switch and switch not in found.switches:
            _keep(found.switches, switch)
        sources = found.session_from
        sources[call.session_from] = sources.get(call.session_from, 0) + 1
        self._tool(found, call)

    def _known(self, namespace: str, attributes: Mapping[str, Any]) -> SeenAgent | None:
        """The service with these attributes, if it was seen; mostly it is the last one."""
        last = self._last
        if last is not None and last[0] is attributes and last[1] == namespace:
            return last[2]
        found = self._agents.get(_key(namespace, attributes))
        if found is not None:
            self._last = attributes, namespace, found
        return found

    def _open(self, key: tuple[str, str], now: int) -> SeenAgent:
        found = self._agents[key] = SeenAgent(*key, now)
        if len(self._agents) > self._agents_max:
            self._agents.popitem(last=False)
            self._last = None
        if len(self.new) < self._agents_max:
            self.new.append(found)
        return found

    def _tool(self, found: SeenAgent, call: ToolCall) -> None:
        names = found.tools.get(call.tool)
        if names is None:
            if len(found.tools) >= NAMES_MAX:
                return
            names = found.tools[call.tool] = set()
        if call.arguments is not None:
            found.arguments += 1
            if len(names) < NAMES_MAX and not _holds(names, call.arguments):
                names.update(list(call.arguments)[:NAMES_MAX])

    def named(self, namespace: str, attributes: Mapping[str, Any], agent: str) -> None:
        """A span that is no call names an agent of the service with these attributes."""
        found = self._known(namespace, attributes)
        if found is not None and agent not in found.agents:
            _keep(found.agents, agent)

    def moved(self, call: ToolCall, session_from: str) -> None:
        """The call's session became known late."""
        found = self._agents.get(_key(call.session.namespace, call.attributes))
        if found is None or not found.session_from.get(call.session_from):
            return
        found.session_from[call.session_from] -= 1
        found.session_from[session_from] = found.session_from.get(session_from, 0) + 1


def _key(namespace: str, attributes: Mapping[str, Any]) -> tuple[str, str]:
    service = attributes.get("service.name")
    return namespace, service if isinstance(service, str) and service else UNKNOWN


def _holds(names: set[str], others: Iterable[str]) -> bool:
    """True where no other is new; compiled, `issuperset` costs four times as much."""
    for name in others:  # noqa: SIM110 - `all` makes a generator
        if name not in names:
            return False
    return True


def _keep(names: dict[str, None], name: str) -> None:
    if name not in names and len(names) < NAMES_MAX:
        names[name] = None
