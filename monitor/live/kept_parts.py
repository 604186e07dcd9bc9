"""What of a monitor outlives its process, or leaves it: counters, which sessions were known, and sessions themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from monitor.aggregate.kept_counters import set_totals_counters, totals_counters
from monitor.live.gaps import Gaps
from monitor.live.lifecycle import Lifecycle
from monitor.live.monitor_state import MonitorState
from monitor.records import SessionKey
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

if TYPE_CHECKING:
    from monitor.live.handover import Handover

__all__ = ["KeptParts"]

_LIFTED: Final = frozenset({Cause.SILENT_TOOL, Cause.UNPLACED})
"""Causes of gaps that a part of the process notes and lifts: model requests that wait, and orphans."""


class KeptParts:
    """What a restart goes on from, what is in memory, and the door to other processes."""

    def __init__(self, state: MonitorState, lifecycle: Lifecycle, gaps: Gaps) -> None:
        self.state = state
        """The record of which a snapshot is taken."""
        self._lifecycle = lifecycle
        self._gaps = gaps
        self._table = state.table
        self._names = state.names
        self._judging = state.judging_state
        self._ledger = state.judging_state.ledger
        self._clocks = state.judging_state.clocks

    def relieve(self) -> int:
        """Memory is scarce: half of the arguments that are kept to be shown go. Returns of how many calls."""
        return self._lifecycle.relieve()

    def counters(self) -> dict[str, Any]:
        """The counters that belong to no pair of agent and spec, as plain data."""
        return {
            "started_ns": self._judging.started_ns,
            "gaps": [list(gap) for gap in self._ledger],
            "doubts": dict(self._ledger.counts),
            "ended": dict(self.state.ended),
            "numbers": {
                **{name: getattr(of, field) for name, (of, field) in self._numbers().items()},
                **self._judging.counters(),
            },
            "totals": totals_counters(self.state.totals),
        }

    def set_counters(self, found: Mapping[str, Any], *, forgot_ns: int | None = None) -> None:
        """Sets the counters that `counters` gives; what a later version has added or dropped stays as it is.

        Gaps that a part of the process lifts are that part's to note anew.

        Args:
            found: the counters.
            forgot_ns: these parts have forgotten all that came before this time, in Unix nanoseconds, and lift nothing
                of it: their gaps stand, and end then. None if they have forgotten nothing.
        """
        numbers: dict[str, int] = {**self.counters()["numbers"], **found.get("numbers", {})}
        for cause, count in found.get("ended", {}).items():
            self.state.ended[cause] = count
        known = frozenset(Cause)
        for cause, *fields in found.get("gaps", ()):
            if cause not in known:
                continue
            gap = Gap(Cause(cause), *fields)
            if gap.cause not in _LIFTED:
                self._gaps.note(gap)
            elif forgot_ns is not None:
                self._gaps.note(gap._replace(until_ns=min(gap.until_ns, forgot_ns)))
        for cause, count in found.get("doubts", {}).items():
            if cause in known:
                self._ledger.counts[Cause(cause)] = count
        for name, (of, field) in self._numbers().items():
            setattr(of, field, numbers[name])
        self._judging.set_counters(numbers)
        set_totals_counters(self.state.totals, found.get("totals", {}))

    def _numbers(self) -> dict[str, tuple[object, str]]:
        """What stands in one place alone: name -> whose field it is."""
        state = self.state
        return {
            "without_spec": (state, "without_spec"),
            "without_calls": (state, "without_calls"),
            "timed_verdicts": (state, "timed_verdicts"),
            "resumed": (state, "resumed"),
            "arguments_given_up": (state, "arguments_given_up"),
            "sessions_lost": (self._table, "lost"),
            "tools_overflowed": (self._names, "overflowed"),
            "gaps_merged": (self._ledger, "merged"),
            "corrections": (self._clocks, "corrections"),
        }

    def known_keys(self) -> list[SessionKey]:
        """The keys of all sessions whose state is kept."""
        return self._table.keys()

    def known_marks(self, keys: Iterable[SessionKey]) -> Iterator[int]:
        """Marks of 64 bits: of these sessions, then of those whose state was dropped."""
        return self._table.marks(keys)

    def drop_marks(self, marks: Iterable[int]) -> None:
        """Sessions with these marks were known to an earlier process: those that go on are read as joined."""
        self._table.drop_marks(marks)

    def memory(self) -> dict[str, int]:
        """Bytes that are held, about, by what holds them. A session is weighed when its verdicts become final."""
        return {
            "sessions": self._table.bytes,
            "ended_sessions": self._table.ended_bytes,
            "waiting_calls": self._judging.held_bytes.total,
        }

    def handover(self, program: str) -> Handover:
        """The door through which sessions go to another process and come from it; it is made anew after `use`.

        Args:
            program: its version; both processes have the same one.
        """
        # Loaded when used: most services never need it.
        from monitor.live.handover import Handover
        from monitor.session.session_codec import SessionCodec

        codec = SessionCodec(program, self._judging.binder, self._judging.unbound, self._names)
        return Handover(
            codec,
            self._table,
            self.state.judging,
            self.state.accounting,
            self.state.deadline_timer,
            self.state.due,
            self._lifecycle.arrive,
        )
