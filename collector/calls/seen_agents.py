"""The inventory of agents: their tools, dialects, argument names and session ids, as a start for a spec."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from collector.telemetry.counters import Tally
from monitor.records import ToolCall
from monitor.tenants import Holdings
from monitor.weights import text_bytes

__all__ = ["AGENTS_MAX", "NAMES_MAX", "AgentRecord", "Inventory"]

AGENTS_MAX: Final = 1_000
"""Services remembered. At the bound, the one that was seen first is forgotten."""

NAMES_MAX: Final = 256
"""Tools, dialects and agents remembered for one service."""

SERVICE_MAX: Final = 1_024
"""Longer names of services are cut."""

BYTES_MAX: Final = 64 << 10
"""Bytes of the names remembered of one service. At the bound, no name is added."""

ENTRY_BYTES: Final = 128
"""Bytes of a name beside its characters."""

UNKNOWN: Final = "unknown"


class AgentRecord:
    """What one service's spans carry."""

    __slots__ = (
        "_dialect",
        "_session_from",
        "_switch",
        "agent",
        "agents",
        "arguments",
        "attributes",
        "bytes",
        "calls",
        "dialects",
        "first_ns",
        "last_ns",
        "namespace",
        "service",
        "switches",
        "tenant",
        "tools",
    )

    def __init__(
        self, namespace: str, service: str, now: int, attributes: Mapping[str, Any]
    ) -> None:
        self.namespace = namespace
        self.service = service
        self.attributes = attributes
        """Of the resource that its first call came with."""
        self.tenant = ""
        self.agents: dict[str, None] = {}
        self.dialects: dict[str, None] = {}
        self.tools: dict[str, set[str]] = {}
        """Tool -> names of its arguments."""
        self.bytes = 0
        """Approximate bytes of these names."""
        self._session_from = Tally(1)
        self.agent = ""
        """The last agent, dialect and setting: mostly the next call has the same."""
        self._dialect = ""
        self._switch = ""
        self.arguments = 0
        """Number of calls with arguments."""
        self.calls = 0
        self.switches: dict[str, None] = {}
        """Settings of the instrumentation that turn arguments on."""
        self.first_ns = now
        self.last_ns = now

    @property
    def session_from(self) -> dict[str, int]:
        """Attribute, or "trace" -> calls."""
        return self._session_from.counts

    def session_sources(self) -> dict[str, int]:
        """Where the session ids of its calls come from, as known by now: attribute or "trace" -> calls."""
        return {name: calls for name, calls in self.session_from.items() if calls}

    def record(self, call: ToolCall, switch: str, now: int) -> None:
        """Adds a call."""
        self.last_ns = now
        self.calls += 1
        if call.agent is not self.agent:
            self.record_agent(call.agent)
        source = call.source
        if source is not self._dialect:
            self._dialect = source
            self._keep(self.dialects, source)
        if switch is not self._switch and switch:
            self._switch = switch
            self._keep(self.switches, switch)
        self._session_from.add(1, call.session_from)
        self._tool(call.tool, call.arguments)

    def record_agent(self, agent: str) -> None:
        """Adds an agent's name, if it is not empty."""
        if agent:
            self.agent = agent
            self._keep(self.agents, agent)

    def record_move(self, before: str, now: str) -> None:
        """Corrects where a call's session id comes from: it became known late."""
        known = self.session_from
        if known.get(before):
            known[before] -= 1
            known[now] = known.get(now, 0) + 1

    def _tool(self, tool: str, arguments: Mapping[str, Any] | None) -> None:
        names = self.tools.get(tool)
        if names is None:
            if len(self.tools) >= NAMES_MAX or not self._has_room(tool):
                return
            names = self.tools[tool] = set()
        if arguments is not None:
            self.arguments += 1
            if len(names) < NAMES_MAX and not _holds(names, arguments):
                for name in list(arguments)[:NAMES_MAX]:
                    if name not in names and self._has_room(name):
                        names.add(name)

    def _keep(self, names: dict[str, None], name: str) -> None:
        if name not in names and len(names) < NAMES_MAX and self._has_room(name):
            names[name] = None

    def _has_room(self, name: str) -> bool:
        """True if there is room for one more name; its bytes are then counted."""
        size = ENTRY_BYTES + text_bytes(name)
        if self.bytes + size > BYTES_MAX:
            return False
        self.bytes += size
        return True

    def as_json(self) -> dict[str, Any]:
        """The record as plain data."""
        return {
            "namespace": self.namespace,
            "service": self.service,
            "agents": list(self.agents),
            "dialects": list(self.dialects),
            "tools": {tool: sorted(names) for tool, names in self.tools.items()},
            "session_from": self.session_sources(),
            "calls": self.calls,
            "calls_with_arguments": self.arguments,
            "switches": list(self.switches),
            "first": self.first_ns,
            "last": self.last_ns,
        }


class Inventory:
    """The services whose calls were read, at most `agents_max`."""

    def __init__(self, agents_max: int = AGENTS_MAX) -> None:
        self._agents_max = agents_max
        self._agents: OrderedDict[tuple[str, str], AgentRecord] = OrderedDict()
        self._counts = Holdings()
        """Services by tenant."""
        self._last: AgentRecord | None = None
        """The service of the last span, with the identity of its attributes, and its namespace."""
        self._attributes: Mapping[str, Any] = {}
        self._namespace = ""
        self.new: list[AgentRecord] = []
        """New services that are not logged yet: who logs them empties the list (at most AGENTS_MAX)."""

    def __iter__(self) -> Any:
        return iter(list(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    def record(self, call: ToolCall, switch: str, now: int) -> None:
        """Adds a call that is about to be judged."""
        namespace = call.session.namespace
        attributes = call.attributes
        found = self._last
        if found is None or attributes is not self._attributes or namespace != self._namespace:
            found = self._known(namespace, attributes)
            if found is None:
                found = self._open(_key(namespace, attributes), now, attributes)
                self._note(found, namespace, attributes)
        found.record(call, switch, now)

    def _known(self, namespace: str, attributes: Mapping[str, Any]) -> AgentRecord | None:
        """The service with these attributes, if known: the last one from now on."""
        found = self._agents.get(_key(namespace, attributes))
        if found is not None:
            self._note(found, namespace, attributes)
        return found

    def _note(self, last: AgentRecord, namespace: str, attributes: Mapping[str, Any]) -> None:
        self._last, self._namespace, self._attributes = last, namespace, attributes

    def _open(
        self, key: tuple[str, str], now: int, attributes: Mapping[str, Any]
    ) -> AgentRecord:
        found = self._agents[key] = AgentRecord(*key, now, attributes)
        found.tenant = self._counts.name(found.namespace)
        self._counts.add(found.tenant, 1)
        if len(self._agents) > self._agents_max:
            self._forget_one(found.tenant)
            self._last = None
        if len(self.new) < self._agents_max:
            self.new.append(found)
        return found

    def _forget_one(self, tenant: str) -> None:
        """Forgets the oldest service of the tenant that has too many."""
        name = self._counts.gives_way(tenant)
        for key, each in self._agents.items():
            if each.tenant == name:
                del self._agents[key]
                self._counts.add(name, -1)
                return

    def record_agent(self, namespace: str, attributes: Mapping[str, Any], agent: str) -> None:
        """Adds an agent's name that a span other than a call carries."""
        found = self._last
        if found is None or attributes is not self._attributes or namespace != self._namespace:
            found = self._known(namespace, attributes)
        if found is not None and agent is not found.agent:
            found.record_agent(agent)

    def record_move(self, call: ToolCall, session_from: str) -> None:
        """Corrects where a call's session id comes from: it became known late."""
        found = self._agents.get(_key(call.session.namespace, call.attributes))
        if found is not None:
            found.record_move(call.session_from, session_from)


def _key(namespace: str, attributes: Mapping[str, Any]) -> tuple[str, str]:
    service = attributes.get("service.name")
    known = service[:SERVICE_MAX] if isinstance(service, str) else ""
    return namespace, known or UNKNOWN


def _holds(names: set[str], others: Mapping[str, Any]) -> bool:
    """True if all are known. Compiled, `issuperset` costs four times as much."""
    if not isinstance(others, dict):
        return False
    for name in others:  # noqa: SIM110 - `all` makes a generator
        if name not in names:
            return False
    return True
