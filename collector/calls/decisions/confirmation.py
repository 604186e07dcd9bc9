"""Decided calls meet the spans that tell of them.

Idea: a decided call that is on its way is in no session, so its span's call is judged like any other. One of which its
client has said that it was made is in its session: it is *amended* to what its spans tell, in one step, so that the calls
behind it are never judged without it.

What a span of a call that was not made means depends on what is known (`_is_refusal`). It is that of the refused call if

- its client says that the call was skipped, or it was denied and the span encloses the decision and failed,
- and nothing shows that it was made: it returned nothing but the refusal. A span that was found by its arguments alone
  must not say that it went well either.

Otherwise the call was made anyway. It is judged; if it is harmful, the decision was *overruled*. A model's request for such
a call is not judged: the call was asked for, and is known not to have been made.

A span that is a decided call's own for certain (its id, or the model's id of the call) takes the place of one that was
found by its arguments alone: what followed from that one is undone, and it looks for another decided call. So the order
of arrival makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collector.calls.batch import EventBatch
from collector.calls.call.call import LogicalCall
from collector.calls.decisions.decided_calls import (
    UNMADE,
    DecidedCall,
    DecidedCalls,
    DecisionMatch,
    DecisionState,
)
from collector.calls.decisions.prevented_calls import PreventedCall, PreventedCalls
from collector.calls.tree.span_tree import SpanNode
from collector.calls.tree.trace import Trace
from collector.telemetry.counters import Stats
from monitor.records import Evidence, Kind, SessionKey, ToolCall, Verdict

__all__ = ["Confirmation"]

REFUSAL_CHARACTERS: Final = 40
"""Characters of a refusal's text that identify a result as the refusal."""


class Confirmation:
    """Finds the decided calls that spans tell of, and lets the spans' calls take their places.

    Args:
        table: the decided calls.
        records: what is shown of denied calls.
        batch: leads to the monitor.
        stats: counts spans of calls that were not made.
    """

    def __init__(
        self, table: DecidedCalls, records: PreventedCalls, batch: EventBatch, stats: Stats
    ) -> None:
        self.table = table
        self.records = records
        self._batch = batch
        self._stats = stats
        self._made_anyway: list[tuple[DecidedCall, ToolCall]] = []
        """Calls of this request that were denied before."""
        self._gave_way: list[DecisionMatch] = []
        """Calls that turned out to be others than the decided ones they met, and have not looked for theirs yet."""

    def first(self, call: LogicalCall, new: ToolCall, trace: Trace) -> bool:
        """The monitor does not know a call yet, and may have it from a decision.

        Returns:
            True if nothing is left to do: the monitor has it by now (`call.judged`), or is not to have it.
        """
        is_done = self._first(call, new, trace)
        self._look_again()
        return is_done

    def _first(self, call: LogicalCall, new: ToolCall, trace: Trace) -> bool:
        found = self._meet(call, new)
        if found is None:
            return False
        entry, is_strong = found
        if entry.state in UNMADE:
            return self._was_not_made(entry, call, new, trace, is_strong=is_strong)
        if is_strong and entry.call.result and not new.result:
            call.tell(entry.call.result)
            new = new._replace(result=entry.call.result)
        if not entry.known:
            self._confirm(entry, call, new, trace, is_strong=is_strong)
            return False
        old = entry.call
        if old.session != new.session:
            self._batch.retract(old)
            self._confirm(entry, call, new, trace, is_strong=is_strong)
            return False
        self._replace(old, new, trace)
        self.records.respan(old.session, old.span_id, new.span_id)
        call.judged = new
        self._confirm(entry, call, new, trace, is_strong=is_strong)
        return True

    def _meet(self, call: LogicalCall, new: ToolCall) -> tuple[DecidedCall, bool] | None:
        """The decided call that a call is; another call that had taken it by its arguments gives way."""
        found = self.table.meet(call, new, self._says_refusal)
        if found is not None and found[1] and found[0].met is not None:
            self._give_way(found[0])
        return found

    def _give_way(self, entry: DecidedCall) -> None:
        """The call that met an entry was another one."""
        met, entry.met = entry.met, None
        assert met is not None
        entry.state, other = met.state, met.call
        other.decided = False
        self._gave_way.append(met)
        if met.state not in UNMADE:
            return
        self.records.restore(entry.call.session, entry.number)
        if other.refused:
            other.refused = False
            trace = met.trace
            other.judged = met.told
            self._batch.observe(
                other, met.told, None if trace.split else trace.named, doubted=trace.doubted
            )

    def _look_again(self) -> None:
        """Calls that gave way may be other decided ones."""
        while self._gave_way:
            met = self._gave_way.pop()
            self._again(met.call, met.trace)

    def again(self, call: LogicalCall, trace: Trace) -> None:
        """More is known of a call that the monitor has: it may be one that was decided."""
        self._again(call, trace)
        self._look_again()

    def _again(self, call: LogicalCall, trace: Trace) -> None:
        known = call.judged
        if known is None or call.decided:
            return
        found = self._meet(call, known)
        if found is None:
            return
        entry, is_strong = found
        if entry.state in UNMADE:
            if self._was_not_made(entry, call, known, trace, is_strong=is_strong):
                self._batch.retract(known)
                call.judged = None
        else:
            if entry.known:
                self._batch.retract(entry.call)
            self._confirm(entry, call, known, trace, is_strong=is_strong)

    def moving(self, nodes: Sequence[SpanNode], trace: Trace, before: SessionKey) -> None:
        """The calls of a trace are about to move to its session: those that were decided there meet them now.

        The last call first: the calls before it do not depend on it.
        """
        key = trace.key
        for node in reversed(nodes):
            call = node.call
            known = call.judged if call is not None else None
            if call is None or known is None or known.session != before or call.decided:
                continue
            new = known._replace(session=key, session_from=trace.session_from)
            found = self._meet(call, new)
            if found is None:
                continue
            entry, is_strong = found
            if entry.state in UNMADE:
                if self._was_not_made(entry, call, new, trace, is_strong=is_strong):
                    self._batch.retract(known)
                    call.judged = None
            elif not entry.known:
                self._confirm(entry, call, new, trace, is_strong=is_strong)
            elif entry.call.session == key:
                self._batch.retract(known)
                self._replace(entry.call, new, trace)
                call.judged = new
                self._confirm(entry, call, new, trace, is_strong=is_strong)
        self._look_again()

    def moved(self, before: SessionKey, trace: Trace) -> None:
        """The session of a trace turned out to be another one."""
        self.table.rename(before, trace.key, trace.session_from)
        self.records.rename(before, trace.key)

    @property
    def has_news(self) -> bool:
        """True if calls of this request were denied before."""
        return bool(self._made_anyway)

    def overruled(self, verdicts: Sequence[Verdict]) -> list[PreventedCall]:
        """Calls of this request that were denied before, made anyway, and are harmful."""
        made, self._made_anyway = self._made_anyway, []
        harmful = {each.span_id for each in verdicts if each.kind is Kind.HARMFUL}
        found: list[PreventedCall] = []
        for entry, call in made:
            if call.span_id in harmful:
                denied = PreventedCall.of(entry, self.table.name(entry.number))
                found.append(self.records.overrule(denied, call.span_id, call.session))
                self._stats.count("decisions_overruled")
            else:  # it was right by the time it was made
                self.records.drop(entry.call.session, entry.number)
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

    def skipped(self, entry: DecidedCall) -> bool:
        """A client says of a denied call that it was skipped, and a span was taken to show that it was made.

        Returns:
            True if the span may as well be that of the refused call: it is not judged any more.
        """
        met = entry.met
        if met is None or not entry.is_denied or entry.state is not DecisionState.CONFIRMED:
            return False
        entry.state = DecisionState.SKIPPED
        if not self._is_refusal(entry, met.call, met.told, is_strong=not met.is_weak):
            entry.state = DecisionState.CONFIRMED
            return False
        known, met.call.judged = met.call.judged, None
        if known is not None:
            self._batch.retract(known)
        self.records.restore(entry.call.session, entry.number)
        self._hide(entry, met.call, met.told)
        return True

    def _confirm(
        self,
        entry: DecidedCall,
        call: LogicalCall,
        new: ToolCall,
        trace: Trace,
        *,
        is_strong: bool,
    ) -> None:
        entry.known = False
        call.decided = True
        if not is_strong or entry.is_denied:
            entry.met = DecisionMatch(call, new, trace, entry.state, not is_strong)
        self.table.settled(entry, DecisionState.CONFIRMED)

    def _was_not_made(
        self,
        entry: DecidedCall,
        call: LogicalCall,
        new: ToolCall,
        trace: Trace,
        *,
        is_strong: bool,
    ) -> bool:
        """True if a span does not show that the call was made after all."""
        if new.evidence is Evidence.REQUESTED:
            call.withdrawn = True
            return True
        if self._is_refusal(entry, call, new, is_strong=is_strong):
            if self._says_refusal(entry, call):
                self.table.pass_over(call, new)
            call.decided = True
            entry.met = DecisionMatch(call, new, trace, entry.state, not is_strong)
            self._hide(entry, call, new)
            return True
        self._confirm(entry, call, new, trace, is_strong=is_strong)
        self.made_anyway(entry, new)
        return False

    def _hide(self, entry: DecidedCall, call: LogicalCall, new: ToolCall) -> None:
        """A span is that of a refused call: it is shown beside its session, and not judged."""
        call.refused = True
        self.table.met(entry)
        self._stats.drop("prevented")
        if entry.decision.worst is not None:
            denied = PreventedCall.of(entry, self.table.name(entry.number))
            self.records.hide(denied, new.span_id)

    def _is_refusal(
        self, entry: DecidedCall, call: LogicalCall, new: ToolCall, *, is_strong: bool
    ) -> bool:
        """True if a span is that of the refused call."""
        is_told = self._says_refusal(entry, call)
        if not new.error and not is_told and any(each.result for each in call.pieces.values()):
            return False  # it returned something else
        if entry.state is DecisionState.SKIPPED:
            says_ok = any(each.says_ok for each in call.pieces.values())
            return is_strong or is_told or new.error or not says_ok
        decided_ns = entry.call.start_ns
        encloses = new.start_ns <= decided_ns <= new.end_ns
        return encloses and (new.error or is_told)

    def _says_refusal(self, entry: DecidedCall, call: LogicalCall) -> bool:
        """True if what a call returned has the words of the refusal."""
        results = [each.result for each in call.pieces.values() if each.result]
        refused = self._refusal(entry) if results else ""
        return bool(refused) and all(refused in each for each in results)

    def _refusal(self, entry: DecidedCall) -> str:
        """How the words begin that a model reads in place of a result; "" if there are none."""
        message = self._batch.monitor.explain(entry.call.tool, entry.decision)
        return message[:REFUSAL_CHARACTERS]
