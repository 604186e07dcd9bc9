"""Decided calls meet the spans that tell of them.

Idea: a decided call that is on its way is in no session, so its span's call is judged like any other. One of which its
client has said that it was made is in its session: it is *amended* to what its spans tell, in one step, so that the calls
behind it are never judged without it.

What a span of a call that was not made means depends on what is known:

- Its client says that the call was skipped: the span is that of the refused call. It is not judged.
- It was denied, and its span encloses the decision and failed: likewise.
- It was denied, and its span says otherwise: the call was made anyway. It is judged; if it is harmful, the decision was
  *overruled*.
- A model's request for such a call is not judged: the call was asked for, and is known not to have been made.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.calls.batch import Batch
from collector.calls.call import Call
from collector.calls.decided import DecidedCall, DecidedCalls, State
from collector.calls.decision_records import DecisionRecords, DeniedCall
from collector.calls.span_tree import Node
from collector.calls.trace import Trace
from collector.telemetry.counters import Stats
from monitor.records import Evidence, Kind, SessionKey, ToolCall, Verdict

__all__ = ["Confirmation"]

UNMADE = (State.SKIPPED, State.DENIED)


class Confirmation:
    """Finds the decided calls that spans tell of, and lets the spans' calls take their places.

    Args:
        table: the decided calls.
        records: what is shown of denied calls.
        batch: leads to the monitor.
        stats: counts spans of calls that were not made.
    """

    def __init__(
        self, table: DecidedCalls, records: DecisionRecords, batch: Batch, stats: Stats
    ) -> None:
        self.table = table
        self.records = records
        self._batch = batch
        self._stats = stats
        self._made_anyway: list[tuple[DecidedCall, ToolCall]] = []
        """Calls of this request that were denied before."""

    def first(self, call: Call, new: ToolCall, trace: Trace) -> bool:
        """The monitor does not know a call yet, and may have it from a decision.

        Returns:
            True if nothing is left to do: the monitor has it by now (`call.judged`), or is not to have it.
        """
        entry = self.table.meet(call, new)
        if entry is None:
            return False
        if entry.state in UNMADE:
            return self._was_not_made(entry, call, new)
        if not entry.known:
            self._confirm(entry, call)
            return False
        old = entry.call
        if old.session != new.session:
            self._batch.retract(old)
            self._confirm(entry, call)
            return False
        self._replace(old, new, trace)
        call.judged = new
        self._confirm(entry, call)
        return True

    def again(self, call: Call) -> None:
        """More is known of a call that the monitor has: it may be one that was decided."""
        known = call.judged
        if known is None or call.decided:
            return
        entry = self.table.meet(call, known)
        if entry is None:
            return
        if entry.state in UNMADE:
            if self._was_not_made(entry, call, known):
                self._batch.retract(known)
                call.judged = None
        else:
            if entry.known:
                self._batch.retract(entry.call)
            self._confirm(entry, call)

    def moving(self, nodes: Sequence[Node], trace: Trace, before: SessionKey) -> None:
        """The calls of a trace are about to move to its session: those that were decided there meet them now.

        The last call first: the calls before it do not depend on it.
        """
        table, key = self.table, trace.key
        for node in reversed(nodes):
            call = node.call
            known = call.judged if call is not None else None
            if call is None or known is None or known.session != before or call.decided:
                continue
            new = known._replace(session=key, session_from=trace.session_from)
            entry = table.meet(call, new)
            if entry is None:
                continue
            if entry.state is State.OPEN:
                self._confirm(entry, call)
                continue
            if not entry.known and entry.state not in UNMADE:
                continue
            if entry.state in UNMADE:
                if self._was_not_made(entry, call, new):
                    self._batch.retract(known)
                    call.judged = None
                continue
            if entry.call.session != key:
                continue
            self._batch.retract(known)
            self._replace(entry.call, new, trace)
            call.judged = new
            self._confirm(entry, call)

    def moved(self, before: SessionKey, trace: Trace) -> None:
        """The session of a trace turned out to be another one."""
        self.table.rename(before, trace.key, trace.session_from)
        self.records.rename(before, trace.key)

    @property
    def has_news(self) -> bool:
        """True if calls of this request were denied before."""
        return bool(self._made_anyway)

    def overruled(self, verdicts: Sequence[Verdict]) -> list[DeniedCall]:
        """Calls of this request that were denied before, made anyway, and are harmful."""
        made, self._made_anyway = self._made_anyway, []
        harmful = {each.span_id for each in verdicts if each.kind is Kind.HARMFUL}
        found: list[DeniedCall] = []
        for entry, call in made:
            if call.span_id in harmful:
                denied = DeniedCall.of(entry, self.table.name(entry.number))
                found.append(self.records.overrule(denied, call.span_id, call.session))
                self._stats.count("decisions_overruled")
        return found

    def made_anyway(self, entry: DecidedCall, call: ToolCall) -> None:
        """A call that was denied is made."""
        self._made_anyway.append((entry, call))

    def _replace(self, old: ToolCall, new: ToolCall, trace: Trace) -> None:
        """What spans tell of a call takes the place of what was decided."""
        batch, key = self._batch, new.session
        batch.amend(old, new, None if trace.split else trace.named)
        if old.attributes is not new.attributes:
            batch.learn(key, None, new.attributes, new.start_ns)
        if trace.doubted:
            batch.doubt(key, doubted=True)
        begun = trace.beginning
        if begun is not None and begun.proof is not None:
            batch.prove(key, begun.proof)

    def _confirm(self, entry: DecidedCall, call: Call) -> None:
        entry.known = False
        call.decided = True
        self.table.settled(entry, State.CONFIRMED)

    def _was_not_made(self, entry: DecidedCall, call: Call, new: ToolCall) -> bool:
        """True where a span does not show that the call was made after all."""
        if new.evidence is Evidence.REQUESTED:
            call.withdrawn = True
            return True
        decided_ns = entry.call.start_ns
        is_refusal = new.error and new.start_ns <= decided_ns <= new.end_ns
        call.decided = True
        if entry.state is State.SKIPPED or is_refusal:
            call.doubled = True
            self.table.met(entry)
            self._stats.drop("prevented")
            return True
        self.table.settled(entry, State.CONFIRMED)
        self.made_anyway(entry, new)
        return False
