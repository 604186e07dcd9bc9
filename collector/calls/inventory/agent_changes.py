"""What changes in a service that was seen before: another instrumentation, or arguments that stop.

Both make verdicts less certain while everything looks healthy: tools may have other names, and conditions on
arguments cannot be checked. A change is noticed where calls are recorded, and logged by the service's ticks.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from monitor.limits import SECOND

__all__ = ["CHANGES", "CHANGES_MAX", "STOPPED_AFTER_CALLS", "AgentChange", "ArgumentsRun"]

INSTRUMENTATION: Final = "instrumentation"
STOPPED: Final = "arguments_stopped"
RESUMED: Final = "arguments_resumed"
CHANGES: Final = (RESUMED, STOPPED, INSTRUMENTATION)
"""Kinds of changes: labels of the counter `agent_changes`."""

CHANGES_MAX: Final = 16
"""Changes kept of one service; the oldest gives way."""

STOPPED_AFTER_CALLS: Final = 10
"""Calls in a row without arguments, of tools that had some, after which arguments have stopped."""

STOPPED_AFTER_NS: Final = 10 * SECOND
"""Least age of such a run: arguments may arrive with a later span of the same call."""


class AgentChange(NamedTuple):
    """One change of a service."""

    kind: str
    """One of `CHANGES`."""
    agent: str
    """The agent whose call showed it; "" if it has no name."""
    tool: str
    """The tool of that call."""
    at_ns: int
    scope: str = ""
    """Name of the new instrumentation scope; "" if the spans have none."""
    dialect: str = ""
    """Dialect of the run."""
    earlier: tuple[str, ...] = ()
    """Instrumentation scopes that were seen before; dialects, if the dialect alone is new."""
    calls: int = 0
    """Calls in a row without arguments."""

    def as_json(self) -> dict[str, Any]:
        """The fields that the kind of change has."""
        common = {"change": self.kind, "agent": self.agent, "tool": self.tool}
        if self.kind == INSTRUMENTATION:
            return common | {
                "instrumentation": self.scope,
                "dialect": self.dialect,
                "earlier": list(self.earlier),
            }
        return common | ({"calls": self.calls} if self.kind == STOPPED else {})


class ArgumentsRun:
    """The calls of one agent in one dialect by their arguments, and the latest ones in a row that came without."""

    __slots__ = (
        "_missing",
        "_missing_most",
        "agent",
        "calls",
        "dialect",
        "is_due",
        "is_stopped",
        "known",
        "since_ns",
        "started",
        "tool",
    )

    def __init__(self, agent: str, dialect: str) -> None:
        self.agent = agent
        self.dialect = dialect
        self.tool = ""
        """Tool of the run's last call."""
        self.calls = 0
        self.since_ns = 0
        """Receipt of the run's first call."""
        self.started = False
        """True once such a call had arguments: before, they cannot stop."""
        self.is_due = False
        """True while somebody waits for the run to be old enough."""
        self.is_stopped = False
        """True once the run was reported."""
        self.known = 0
        """Calls with arguments, of tools that have some."""
        self._missing = 0
        """Calls without, of tools that had some before, whose arguments have not come with a later span."""
        self._missing_most = 0

    @property
    def missing(self) -> int:
        """Calls without arguments, of tools that had some before; it never falls.

        A call whose arguments come late counts until they do, and makes room for the next one.
        """
        self._missing_most = max(self._missing_most, self._missing)
        return self._missing_most

    def miss(self) -> None:
        """Counts a call without arguments."""
        self._missing += 1

    def find(self) -> None:
        """A call that may have been counted as missing has arguments after all."""
        self._missing = max(0, self._missing - 1)

    def lengthen(self, tool: str, now: int) -> bool:
        """Adds a call without arguments. True if the run is long enough from now on."""
        if not self.started:
            return False
        if not self.calls:
            self.since_ns = now
        self.calls += 1
        self.tool = tool
        if self.calls < STOPPED_AFTER_CALLS or self.is_due or self.is_stopped:
            return False
        self.is_due = True
        return True

    def end(self) -> bool:
        """A call had arguments. True if a report that they stopped is over with it."""
        self.started = True
        self.calls = 0
        was_stopped, self.is_stopped = self.is_stopped, False
        return was_stopped

    def stop(self, now: int) -> AgentChange | None:
        """The change, if the run lasts and is old enough by now."""
        if self.calls < STOPPED_AFTER_CALLS:
            self.is_due = False
        elif self.since_ns + STOPPED_AFTER_NS <= now:
            self.is_due, self.is_stopped = False, True
            return AgentChange(STOPPED, self.agent, self.tool, now, calls=self.calls)
        return None
