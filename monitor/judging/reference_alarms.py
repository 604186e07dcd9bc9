"""Raises alarms against references, withdraws them, and counts them when they are final.

Idea: an unexpected write concerns one call, whatever the order. Its alarm is raised at once, and
withdrawn only if the call is read anew or removed. Divergence, first two calls, missing writes and
risk concern the session so far. `Judgement.declared` holds those that are raised, as bits. After each
call the bits that hold now are computed, and the difference is reported.

Invariant: counters count only final alarms, so they do not depend on the order of arrival within the window.

Example: a session diverges at call 3, so a divergence is raised. A late call is inserted at place 2
and the session diverges at call 2 instead. The old alarm is withdrawn and the new one raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from monitor.aggregate.drift import Drift, DriftSample, Way
from monitor.aggregate.score_histogram import Exemplar
from monitor.aggregate.totals import NO_SHARE, Share
from monitor.records import ReferenceAlarm
from monitor.reference.comparison import (
    Comparison,
    ComparisonState,
    Divergence,
    NewWrite,
    packed,
    unpacked,
)
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import JudgedStep, is_final
from monitor.session.report.reference_report import PAGE, explained, level_of, measured
from monitor.session.session import Ended, Session
from monitor.session.tool_names import Names

__all__ = ["Alarms"]

_FIRST_TWO: Final = 2
_RISK: Final = 4
_MISSING: Final = 8
"""Bits of the alarms of a session that are raised. `_FIRST_TWO` is the same bit of `ComparisonState.flags`."""

_COUNTED_DIVERGENCE: Final = 16
_COUNTED_FIRST_TWO: Final = 32
_COUNTED: Final = _COUNTED_DIVERGENCE | _COUNTED_FIRST_TWO
_FIRST_SHIFT: Final = 8
"""Shift of the first raised divergence in `Judgement.declared`, above the flags: packed, plus 1."""

_FLAGS: Final = {_FIRST_TWO: "first_two", _RISK: "risk", _MISSING: "missing_write"}
_SHARES_MAX: Final = 4_096
_COMPARED_MAX: Final = 512
"""Limit of the calls of a finished session that is compared with the medoid."""


class _Call(NamedTuple):
    """One call of a judgement, as an alarm names it."""

    step: int
    tool: str
    trace_id: bytes
    span_id: bytes


class Alarms:
    """The alarms of live sessions against their references.

    Args:
        names: tool names by number.
    """

    def __init__(self, names: Names) -> None:
        self.on_alarm: Callable[[ReferenceAlarm], None] | None = None
        """Called with each alarm that is raised or withdrawn."""
        self._names = names
        self._shares: dict[float, Share] = {}

    # --- a judgement's place in the sums ---------------------------------------------------------

    def enter(self, judgement: Judgement) -> None:
        """Prepares the counters of the judgement's agent and reference."""
        if judgement.pair is not None and judgement.pair.drift is None:
            judgement.pair.drift = Drift()

    def absorb(self, session: Session, judgement: Judgement, into: Judgement) -> None:
        """Withdraws the alarms of a judgement whose calls move to `into`; `into` raises its own."""
        self._report(session, judgement, 0, declared=judgement.declared)
        into.declared |= judgement.declared & _COUNTED

    # --- calls ---------------------------------------------------------------------------------

    def take(
        self, session: Session, judgement: Judgement, token: int, place: int | None
    ) -> None:
        """Updates the alarms after a call, which stands at `place`; None means at the end."""
        comparison, at = judgement.judge.comparison, judgement.head.watched
        if comparison is None or at is None:
            return
        new = comparison.new_write(token)
        if new is not None:
            place = len(judgement.log) - 1 if place is None else place
            self._write(session, judgement, self._call(judgement, place), new, withdrawn=False)
        if judgement.joined:
            self.compare(session, judgement)
            return
        risk, declared = comparison.risk_of(at), judgement.declared & ~_COUNTED
        wanted = _live(at, risky=comparison.is_risky(risk))
        # Most calls change no alarm.
        if risk != judgement.share.risk or declared != wanted:
            self._hold(session, judgement, risk, wanted)

    def amended(self, session: Session, judgement: Judgement, place: int, token: int) -> None:
        """Updates the alarm on the call at `place` before it is read anew as `token`."""
        comparison, log = judgement.judge.comparison, judgement.log
        if comparison is None:
            return
        before, after = comparison.new_write(log.token(place)), comparison.new_write(token)
        if before == after:
            return
        for new, withdrawn in ((before, True), (after, False)):
            if new is not None:
                call = self._call(judgement, place)
                self._write(session, judgement, call, new, withdrawn=withdrawn)

    def removed(self, session: Session, judgement: Judgement, place: int) -> None:
        """Withdraws the alarm on the call at `place` before it is removed."""
        comparison = judgement.judge.comparison
        new = (
            comparison.new_write(judgement.log.token(place)) if comparison is not None else None
        )
        if new is not None:
            self._write(session, judgement, self._call(judgement, place), new, withdrawn=True)

    def compare(self, session: Session, judgement: Judgement, *, ended: bool = False) -> None:
        """Raises the alarms that now hold for the session as a whole, and withdraws those that do not."""
        comparison, at = judgement.judge.comparison, judgement.head.watched
        if comparison is None or at is None:
            return
        if judgement.joined:
            # In a joined session, the position in the reference and the first calls are unknown.
            self._hold(session, judgement, 0.0, 0)
            return
        risk = comparison.risk_of(at, ended=ended)
        wanted = (
            _at_end(comparison, at, risk)
            if ended
            else _live(at, risky=comparison.is_risky(risk))
        )
        self._hold(session, judgement, risk, wanted)

    def _hold(self, session: Session, judgement: Judgement, risk: float, wanted: int) -> None:
        """Sets the alarms that hold now, and reports the difference."""
        declared = judgement.declared
        if wanted != declared & ~_COUNTED:
            judgement.declared = wanted | declared & _COUNTED
            self._report(session, judgement, wanted, declared=declared)
        if risk != judgement.share.risk:
            self._rank(judgement, risk)

    def rank(self, judgement: Judgement) -> None:
        """Adds the risk of a live judgement to those of its new agent."""
        comparison, at = judgement.judge.comparison, judgement.head.watched
        if comparison is not None and at is not None and not judgement.joined:
            self._rank(judgement, comparison.risk_of(at))

    def _rank(self, judgement: Judgement, risk: float) -> None:
        pair = judgement.pair
        if pair is not None and pair.drift is not None:
            judgement.share = self._share(risk) if risk else NO_SHARE
            if risk:
                pair.drift.riskiest.push(judgement)

    def _share(self, risk: float) -> Share:
        """The share of a risk: risks have few values, so shares are cached."""
        found = self._shares.get(risk)
        if found is None:
            if len(self._shares) >= _SHARES_MAX:
                self._shares.clear()
            found = self._shares[risk] = Share(0, 0, 0, 0, risk)
        return found

    # --- what is final -----------------------------------------------------------------------

    def settle(self, judgement: Judgement, final: Iterable[JudgedStep]) -> None:
        """Counts final unexpected writes, and final divergences of the session."""
        pair, at = judgement.pair, judgement.head.watched
        drift = pair.drift if pair is not None else None
        if drift is None or at is None:
            return
        for step in final:
            self._count_write(judgement, drift, step)
        if judgement.joined or judgement.declared & _COUNTED == _COUNTED:
            return
        if at.divergence is not None and _is_final(judgement, at.divergence.step):
            self._count_divergence(judgement, drift, at.divergence)
        if at.first_two_diverged and _is_final(judgement, min(2, at.calls)):
            self._count_first_two(judgement, drift)

    def _count_write(self, judgement: Judgement, drift: Drift, step: JudgedStep) -> None:
        comparison = judgement.judge.comparison
        assert comparison is not None
        drift.unexpected_writes += 1
        exemplar = drift.exemplars["unexpected_writes"] = judgement.log.origin(step.place)
        new = comparison.new_write(judgement.log.token(step.place))
        if new is not None and level_of(judgement, new.alarm, is_sure=new.is_sure) == PAGE:
            drift.paging_writes += 1
            drift.exemplars["paging_writes"] = exemplar

    def _count_divergence(self, judgement: Judgement, drift: Drift, found: Divergence) -> None:
        comparison = judgement.judge.comparison
        if comparison is None or judgement.declared & _COUNTED_DIVERGENCE:
            return
        judgement.declared |= _COUNTED_DIVERGENCE
        way = _way(comparison, found)
        drift.divergences[way] += 1
        exemplar = _near(judgement, found.step)
        drift.steps.observe(found.step, exemplar)
        if exemplar is not None:
            drift.exemplars[way] = exemplar

    def _count_first_two(self, judgement: Judgement, drift: Drift) -> None:
        if not judgement.declared & _COUNTED_FIRST_TWO:
            judgement.declared |= _COUNTED_FIRST_TWO
            drift.first_two += 1

    def finish(self, session: Session, judgement: Judgement, ended: Ended) -> None:
        """Counts the alarms of an ended session; calls that did not come are missing.

        An evicted session may go on unseen, so no call counts as missing.
        """
        comparison, at, pair = (
            judgement.judge.comparison,
            judgement.head.watched,
            judgement.pair,
        )
        drift = pair.drift if pair is not None else None
        if comparison is None or at is None or drift is None or judgement.joined:
            return
        over = ended != "evicted"
        self.compare(session, judgement, ended=over)
        if judgement.ending:
            return
        first = _first(comparison, at, ended=over)
        if first is not None:
            self._count_divergence(judgement, drift, first)
        if comparison.first_two_at_end(at) if over else at.first_two_diverged:
            self._count_first_two(judgement, drift)
        if over and comparison.missing_writes(at):
            drift.missing_writes += 1
        drift.risks.observe(comparison.risk_of(at, ended=over), _near(judgement, at.calls))
        if over:
            drift.add(_seen(judgement, comparison, at, first))

    # --- reports -------------------------------------------------------------------------------

    def _report(
        self, session: Session, judgement: Judgement, wanted: int, *, declared: int
    ) -> None:
        """Withdraws the alarms that no longer hold, then raises the new ones."""
        if self.on_alarm is None:
            return
        for raised in self._differences(session, judgement, wanted, declared):
            self.on_alarm(raised)

    def _differences(
        self, session: Session, judgement: Judgement, wanted: int, declared: int
    ) -> Iterator[ReferenceAlarm]:
        old, new = declared >> _FIRST_SHIFT, wanted >> _FIRST_SHIFT
        for first, withdrawn in ((old, True), (new, False)):
            if old != new and first:
                found = unpacked(first - 1)
                yield self._of_divergence(session, judgement, found, withdrawn=withdrawn)
        for flag, alarm in _FLAGS.items():
            if (declared ^ wanted) & flag:
                withdrawn = not wanted & flag
                yield self._of_session(session, judgement, alarm, withdrawn=withdrawn)

    def _of_divergence(
        self, session: Session, judgement: Judgement, found: Divergence, *, withdrawn: bool
    ) -> ReferenceAlarm:
        comparison = judgement.judge.comparison
        assert comparison is not None
        explanation = explained(comparison, judgement.judge.spec.id, found)
        place = found.step - 1 - judgement.folded
        call = None
        if not withdrawn and 0 <= place < len(judgement.log):
            call = self._call(judgement, place)
        return self._raised(
            session,
            judgement,
            "divergence",
            withdrawn=withdrawn,
            call=call,
            step=found.step,
            kind=explanation["kind"],
            phase=explanation["phase"],
            write=found.write,
            expected=tuple(explanation["expected"]),
            explanation=explanation,
        )

    def _of_session(
        self, session: Session, judgement: Judgement, alarm: str, *, withdrawn: bool
    ) -> ReferenceAlarm:
        comparison, at = judgement.judge.comparison, judgement.head.watched
        assert comparison is not None
        assert at is not None
        calls, two = judgement.head.tally.calls, alarm == "first_two"
        missing = comparison.missing_writes(at) if alarm == "missing_write" else ()
        call = None
        if not withdrawn and not judgement.folded and len(judgement.log):
            call = self._call(judgement, (min(2, calls) if two else len(judgement.log)) - 1)
        return self._raised(
            session,
            judgement,
            alarm,
            withdrawn=withdrawn,
            call=call,
            step=min(2, calls) if two else calls,
            kind="missing" if missing else None,
            phase="first_two" if two else None,
            write=alarm == "missing_write",
            expected=comparison.learnt.medoid[:2] if two else missing,
        )

    def _write(
        self,
        session: Session,
        judgement: Judgement,
        call: _Call,
        new: NewWrite,
        *,
        withdrawn: bool,
    ) -> None:
        """Raises or withdraws the alarm on one call that made a write of no recorded run."""
        comparison = judgement.judge.comparison
        if self.on_alarm is None or comparison is None:
            return
        raised = self._raised(
            session,
            judgement,
            new.alarm,
            withdrawn=withdrawn,
            call=call,
            step=call.step,
            kind="wrong_arguments" if new.alarm == "new_arguments" else "wrong_tool",
            phase=comparison.phase(call.step),
            write=True,
            is_sure=new.is_sure,
        )
        self.on_alarm(raised)

    def _raised(
        self,
        session: Session,
        judgement: Judgement,
        alarm: str,
        *,
        withdrawn: bool,
        call: _Call | None,
        step: int,
        write: bool,
        kind: str | None = None,
        phase: str | None = None,
        expected: tuple[str, ...] = (),
        explanation: Mapping[str, Any] | None = None,
        is_sure: bool = True,
    ) -> ReferenceAlarm:
        spec, comparison, at = (
            judgement.judge.spec,
            judgement.judge.comparison,
            judgement.head.watched,
        )
        assert comparison is not None
        assert at is not None
        worth = measured(comparison.learnt, alarm, is_sure=is_sure)
        runs = comparison.learnt.runs
        level = level_of(judgement, alarm, is_sure=is_sure)
        return ReferenceAlarm(
            session=session.key,
            agent=(judgement.part if spec.scope == "agent" else "") or session.agent,
            spec=spec.id,
            spec_version=spec.version,
            mode=spec.mode,
            alarm=alarm,
            level=level,
            severity="critical" if level == PAGE else "info",
            withdrawn=withdrawn,
            step=step,
            tool=call.tool if call is not None else "",
            kind=kind,
            phase=phase,
            write=write,
            expected=expected,
            support=runs if explanation is None else explanation["support"],
            precision=explanation["precision"]
            if explanation
            else worth.precision
            if worth
            else None,
            false_per_1000=worth.false_per_1000 if worth is not None else None,
            risk=None if judgement.joined else comparison.risk_of(at),
            trace_id=call.trace_id if call is not None else b"",
            span_id=call.span_id if call is not None else b"",
        )

    def _call(self, judgement: Judgement, place: int) -> _Call:
        row = judgement.log.row(place)
        step = judgement.folded + place + 1
        return _Call(step, self._names.text(row.tool), row.trace_id, row.span_id)


def _first(comparison: Comparison, at: ComparisonState, *, ended: bool) -> Divergence | None:
    """The first divergence; for an ended session this may be a missing call."""
    return at.divergence or (comparison.at_end(at) if ended else None)


def _live(at: ComparisonState, *, risky: bool) -> int:
    """The alarms that hold for a live session, in the form of `Judgement.declared`."""
    return at.first + 1 << _FIRST_SHIFT | at.flags & _FIRST_TWO | (_RISK if risky else 0)


def _at_end(comparison: Comparison, at: ComparisonState, risk: float) -> int:
    """The alarms that hold for an ended session: calls that did not come are missing."""
    return (
        packed(_first(comparison, at, ended=True)) + 1 << _FIRST_SHIFT
        | (_FIRST_TWO if comparison.first_two_at_end(at) else 0)
        | (_RISK if comparison.is_risky(risk) else 0)
        | (_MISSING if comparison.missing_writes(at) else 0)
    )


def _way(comparison: Comparison, found: Divergence) -> Way:
    return comparison.phase(found.step), found.kind.name.lower()


def _is_final(judgement: Judgement, step: int) -> bool:
    """True if the call with this number (from 1) has its final place, as folded calls have."""
    place = step - 1 - judgement.folded
    return place < 0 or (place < len(judgement.log) and is_final(judgement.log.mark(place)))


def _near(judgement: Judgement, step: int) -> Exemplar | None:
    """The call with this number, or the last one; None if it is folded."""
    place = min(step - 1 - judgement.folded, len(judgement.log) - 1)
    return judgement.log.origin(place) if place >= 0 else None


def _seen(
    judgement: Judgement, comparison: Comparison, at: ComparisonState, first: Divergence | None
) -> DriftSample:
    log = judgement.log
    whole = not judgement.folded and len(log) <= _COMPARED_MAX
    tokens = (log.token(place) for place in range(len(log)))
    return DriftSample(
        way=_way(comparison, first) if first is not None else None,
        similarity=comparison.similarity(tokens) if whole else None,
        new_tools=at.new_tools,
        new_arguments=at.new_arguments,
    )
