"""The inventory of agents: their tools, dialects, argument names and session ids, as a start for a spec."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sized
from typing import Any, Final

from collector.calls.inventory.agent_changes import (
    CHANGES_MAX,
    INSTRUMENTATION,
    RESUMED,
    AgentChange,
    ArgumentsRun,
)
from collector.dialects.names.name_bound import bounded
from collector.telemetry.counters import Tally
from monitor.records import ToolCall
from monitor.tenants import Holdings
from monitor.weights import text_bytes

__all__ = ["AGENTS_MAX", "NAMES_MAX", "UNKNOWN", "AgentRecord", "Inventory"]

AGENTS_MAX: Final = 1_000
"""Services remembered. At the bound, the one that was seen first is forgotten."""

NAMES_MAX: Final = 256
"""Tools, dialects, instrumentations and agents remembered for one service."""


BYTES_MAX: Final = 64 << 10
"""Bytes of the names remembered of one service. At the bound, no name is added."""

ENTRY_BYTES: Final = 128
"""Bytes of a name beside its characters."""

RUN_BYTES: Final = 128
"""Bytes of a run of calls without arguments, beside its agent's name."""

UNKNOWN: Final = "unknown"
"""Stands for a service without a name."""


class AgentRecord:
    """What one service's spans carry."""

    __slots__ = (
        "_dialect",
        "_run",
        "_runs",
        "_scope",
        "_session_from",
        "_switch",
        "agent",
        "agents",
        "arguments",
        "attributes",
        "bytes",
        "calls",
        "changes",
        "control_tools",
        "dialects",
        "due",
        "first_ns",
        "is_introduced",
        "last_ns",
        "namespace",
        "scopes",
        "service",
        "switches",
        "tenant",
        "tools",
        "unlogged",
    )

    def __init__(
        self, namespace: str, service: str, now: int, attributes: Mapping[str, Any]
    ) -> None:
        self.namespace = namespace
        self.service = service
        self.attributes = attributes
        """Resource attributes of the first call."""
        self.tenant = ""
        self.agents: dict[str, None] = {}
        self.scopes: dict[str, None] = {}
        """Names of instrumentation scopes."""
        self.dialects: dict[str, None] = {}
        self.tools: dict[str, set[str]] = {}
        """Tool -> names of its arguments."""
        self.control_tools: dict[str, None] = {}
        """Tools of the framework itself, such as `final_answer`: no spec needs to name them."""
        self.bytes = 0
        """Approximate bytes of these names."""
        self._session_from = Tally(1)
        self.agent = ""
        """The last agent, dialect and setting: mostly the next call has the same."""
        self._dialect = ""
        self._scope = ""
        self._switch = ""
        self._runs: dict[tuple[str, str], ArgumentsRun] = {}
        """Runs by agent ("" if it has no name and is not the only one) and dialect: each has its
        own setting."""
        self._run = ArgumentsRun("", "")
        """Run of the last call."""
        self.arguments = 0
        """Number of calls with arguments."""
        self.calls = 0
        self.switches: dict[str, None] = {}
        """Settings of the instrumentation that turn arguments on."""
        self.first_ns = now
        self.last_ns = now
        self.is_introduced = False
        """True once it is logged: from then on, what is new of it is a change."""
        self.changes: list[AgentChange] = []
        """The latest ones, at most CHANGES_MAX."""
        self.unlogged = 0
        """How many of these are not logged yet."""
        self.due: list[ArgumentsRun] = []
        """Runs that are long enough, and not old enough yet; at most one of each agent."""

    @property
    def session_from(self) -> dict[str, int]:
        """Attribute, or "trace" -> calls."""
        return self._session_from.counts

    def session_sources(self) -> dict[str, int]:
        """Where the session ids of its calls come from, as known by now: attribute or "trace" -> calls."""
        return {name: calls for name, calls in self.session_from.items() if calls}

    def record(self, call: ToolCall, switch: str, scope: str, now: int) -> None:
        """Adds a call."""
        self.last_ns = now
        self.calls += 1
        if call.agent is not self.agent:
            self.record_agent(call.agent)
        source = call.source
        if source is not self._dialect or scope is not self._scope:
            self._instrumented(call, scope)
        if switch is not self._switch and switch:
            self._switch = switch
            self._keep(self.switches, switch)
        self._session_from.add(1, call.session_from)
        if call.control:
            self._keep(self.control_tools, call.tool)
            if call.arguments is not None:
                self.arguments += 1
        else:
            self._tool(call)

    def record_agent(self, agent: str) -> None:
        """Adds an agent's name, if it is not empty."""
        if agent:
            if not self.agents:
                self._name_runs(agent)
            self.agent = agent
            self._keep(self.agents, agent)

    def _name_runs(self, agent: str) -> None:
        """The calls that came before the service's first agent had a name are that agent's."""
        runs, self._runs = self._runs, {}
        for (_, dialect), run in runs.items():
            run.agent = agent
            self._runs[agent, dialect] = run

    def record_arguments(self, call: ToolCall) -> None:
        """A later span has the arguments of a call that was added without."""
        if call.control:
            self.arguments += 1
        else:
            self._tool(call)
            self._run_of(call).find()

    def runs(self) -> Iterator[tuple[str, ArgumentsRun]]:
        """How the calls of each agent came, in each dialect; an agent without a name is called by its service."""
        for run in self._runs.values():
            yield self._agent_of(run.agent) or self.service, run

    def take_unlogged(self) -> list[AgentChange]:
        """The changes that are not logged yet; they count as logged from now on."""
        count, self.unlogged = self.unlogged, 0
        return self.changes[-count:] if count else []

    def tick(self, now: int) -> None:
        """Arguments have stopped where a run without them is old enough."""
        waiting = []
        for run in self.due:
            change = run.stop(now)
            if change is not None:
                self._change(change._replace(agent=self._agent_of(change.agent)))
            elif run.is_due:
                waiting.append(run)
        self.due = waiting

    def _instrumented(self, call: ToolCall, scope: str) -> None:
        """Notes the dialect and the instrumentation scope of a call, if they are not the last call's."""
        dialect = call.source
        self._dialect, self._scope = dialect, scope
        is_new = dialect not in self.dialects or (scope != "" and scope not in self.scopes)
        if not is_new:
            return
        earlier = self.scopes
        if not earlier or not scope or scope in earlier:  # the dialect alone is new
            earlier = self.dialects
        before = tuple(earlier)
        has_room = self._keep(self.dialects, dialect)
        if scope:
            has_room = self._keep(self.scopes, scope) and has_room
        if has_room and self.is_introduced:
            self._change(
                AgentChange(
                    INSTRUMENTATION,
                    self._agent_of(call.agent),
                    call.tool,
                    self.last_ns,
                    scope,
                    dialect,
                    before,
                )
            )

    def _change(self, change: AgentChange) -> None:
        self.changes.append(change)
        self.unlogged += 1
        if len(self.changes) > CHANGES_MAX:
            del self.changes[0]
            self.unlogged = min(self.unlogged, CHANGES_MAX)

    def record_move(self, before: str, now: str) -> None:
        """Corrects where a call's session id comes from: it became known late."""
        known = self.session_from
        if known.get(before):
            known[before] -= 1
            known[now] = known.get(now, 0) + 1

    def _tool(self, call: ToolCall) -> None:
        tool, arguments = call.tool, call.arguments
        names = self.tools.get(tool)
        if names is None:
            if not self._has_room(self.tools, tool):
                return
            names = self.tools[tool] = set()
        if arguments is not None:
            self.arguments += 1
            run = self._run_of(call)
            if names or arguments:
                run.known += 1
            if not run.started or run.calls:
                self._arguments_came(run, call)
            if len(names) < NAMES_MAX and not _holds(names, arguments):
                for name in list(arguments)[:NAMES_MAX]:
                    if name not in names and self._has_bytes(name):
                        names.add(name)
        elif names:
            run = self._run_of(call)
            run.miss()
            if run.lengthen(tool, self.last_ns):
                self.due.append(run)

    def _run_of(self, call: ToolCall) -> ArgumentsRun:
        """The run of the call's agent and dialect; a new one that is not kept, if there is no room for it."""
        run, agent, dialect = self._run, self._agent_of(call.agent), call.source
        if (run.agent is agent or run.agent == agent) and run.dialect == dialect:
            return run
        found = self._runs.get((agent, dialect))
        if found is None:
            found = ArgumentsRun(agent, dialect)
            if self._has_room(self._runs, agent, RUN_BYTES):
                self._runs[agent, dialect] = found
        self._run = found
        return found

    def _arguments_came(self, run: ArgumentsRun, call: ToolCall) -> None:
        if run.end():
            agent = self._agent_of(call.agent)
            self._change(AgentChange(RESUMED, agent, call.tool, self.last_ns))

    def _agent_of(self, agent: str) -> str:
        """The agent's name; of a call that comes before its agent's name, the only agent of the service."""
        if not agent and len(self.agents) == 1:
            return next(iter(self.agents))
        return agent

    def _keep(self, names: dict[str, None], name: str) -> bool:
        """Adds a name; False if there is no room for it."""
        if name not in names:
            if not self._has_room(names, name):
                return False
            names[name] = None
        return True

    def _has_room(self, names: Sized, name: str, more: int = 0) -> bool:
        """True if there is room for one more name, and so many bytes; they are then counted."""
        return len(names) < NAMES_MAX and self._has_bytes(name, more)

    def _has_bytes(self, name: str, more: int = 0) -> bool:
        size = ENTRY_BYTES + text_bytes(name) + more
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
            "instrumentations": list(self.scopes),
            "tools": {tool: sorted(names) for tool, names in self.tools.items()},
            "control_tools": list(self.control_tools),
            "session_from": self.session_sources(),
            "calls": self.calls,
            "calls_with_arguments": self.arguments,
            "switches": list(self.switches),
            "first": self.first_ns,
            "last": self.last_ns,
            "changes": [each.as_json() | {"at": each.at_ns} for each in self.changes],
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
        self._changed: dict[AgentRecord, None] = {}
        """Services with changes that are not logged yet, or with runs that may become one; at most AGENTS_MAX."""

    def __iter__(self) -> Any:
        return iter(list(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    def record(self, call: ToolCall, switch: str, scope: str, now: int) -> None:
        """Adds a call that is about to be judged.

        Args:
            call: as far as it is known.
            switch: the setting that turns its arguments on, where they are missing.
            scope: name of the instrumentation scope of its outermost span.
            now: its receipt.
        """
        namespace = call.session.namespace
        attributes = call.attributes
        found = self._last
        if found is None or attributes is not self._attributes or namespace != self._namespace:
            found = self._known(namespace, attributes)
            if found is None:
                found = self._open(_key(namespace, attributes), now, attributes)
                self._note(found, namespace, attributes)
        found.record(call, switch, scope, now)
        if found.unlogged or found.due:
            self._note_changed(found)

    def record_arguments(self, call: ToolCall) -> None:
        """A later span has the arguments of a call that was added without."""
        found = self._known(call.session.namespace, call.attributes)
        if found is not None:
            found.record_arguments(call)
            if found.unlogged:
                self._note_changed(found)

    def changed(self, now: int) -> list[AgentRecord]:
        """Services with changes that are not logged yet."""
        found = []
        for each in list(self._changed):
            each.tick(now)
            if each.unlogged:
                found.append(each)
            if not each.due:
                del self._changed[each]
        return found

    def _note_changed(self, found: AgentRecord) -> None:
        if len(self._changed) < self._agents_max:
            self._changed[found] = None

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
    known = bounded(service) if isinstance(service, str) else ""
    return namespace, known or UNKNOWN


def _holds(names: set[str], others: Mapping[str, Any]) -> bool:
    """True if all are known. Compiled, `issuperset` costs four times as much."""
    if not isinstance(others, dict):
        return False
    for name in others:  # noqa: SIM110 - `all` makes a generator
        if name not in names:
            return False
    return True
