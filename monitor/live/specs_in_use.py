"""The specs that sessions are judged by from now on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from monitor.automaton.paths import forget_ways
from monitor.live.monitor_state import MonitorState
from monitor.session.spec_binding import SpecBinder
from monitor.spec.acceptance import day_of, expires_ns, in_force
from monitor.spec.spec import Acceptance, Spec

__all__ = ["SpecsInUse"]

NEVER: Final = 2**63


class SpecsInUse:
    """Takes other specs into use, and ends what was accepted for a time."""

    def __init__(self, state: MonitorState) -> None:
        self._state = state
        self._judging = state.judging_state
        self._reserve()
        self.expires_ns = self._next_expiry()
        """When the next accepted call of a spec is harmful again, Unix nanoseconds."""
        self.expired: list[tuple[Spec, Acceptance]] = []
        """Accepted calls that are harmful again, until somebody takes them out to report them."""

    def use(self, specs: Iterable[Spec]) -> bool:
        """Judges sessions that begin from now on under these specs; all others go on as they are.

        Returns:
            False if the specs are those in use: nothing changes then.
        """
        binder = SpecBinder(specs, self._judging.binder)
        if not binder.differs(self._judging.binder):
            return False
        self._judging.use(binder)
        forget_ways()
        self._reserve()
        self._state.deadline_timer.use(binder.judges.values())
        self.expires_ns = self._next_expiry()
        for pair in self._state.totals.pairs.values():
            judge = binder.judges.get(pair.spec)
            if judge is not None and judge.spec.kind != "reference":
                pair.severities = tuple(sorted({*pair.severities, *judge.severities}))
        return True

    def _reserve(self) -> None:
        """The names of tools that specs use have numbers, whatever agents invent."""
        for judge in self._judging.binder.judges.values():
            self._state.names.reserve(judge.spec.alphabet.tools)
            if judge.spec.learnt is not None:
                self._state.names.reserve((*judge.spec.learnt.tools, *judge.spec.learnt.writes))

    def _next_expiry(self) -> int:
        """When the next accepted call of a spec is harmful again."""
        specs = (judge.spec for judge in self._judging.binder.judges.values())
        return min(
            (expires_ns(each) for spec in specs for each in spec.accepted), default=NEVER
        )

    def expire(self, now: int) -> None:
        """Accepted calls whose last day is over are harmful, in sessions that begin from now on."""
        day = day_of(now)
        specs = [judge.spec for judge in self._judging.binder.judges.values()]
        self.expired += [
            (spec, each) for spec in specs for each in spec.accepted if each.until < day
        ]
        self.use([in_force(spec, day) for spec in specs])
