"""Which traces begin a session: proofs that no call of it came before those that are seen.

Idea: for a while after the start of the process, any session may have begun before it. What a trace shows may prove
that its session did not:

- its first model request holds no earlier turn of an assistant or a tool (`collector.dialects.model_messages.freshness`), or
- no session is claimed, so that the trace is the session, its root is no call and began after the process, and an agent or a
  model has a span in it. A tool span may be a root because its agent's context was lost on the way to it.

Invariants: requests that started after the trace's first call or request of a tool prove nothing and refute nothing, as
their history is the trace's own. Of those before it, each must be a first one: a guard, say, is given less than the
agent. A proof is taken back when a span shows otherwise, in any order of arrival.

Example: a trace has a model's span, whose request is a system's and a user's message, and `move`, which that model
asked for. The session begins with `move`. A second model's span arrives late, started before the first, and was
given results of tools: the proof is taken back.

Where several sessions are claimed, nothing is proven, unless the trace's one root has a better name than all spans below it
(`Trace.is_one`): then the session that it names is meant.

A trace may also show that its session *resumes* a conversation that other sessions have begun: before any call is made or
asked for in the trace, its model is given results of tools; or its first model is given more results than calls were made
before it; or the session's id is that of a model's earlier answer (OpenAI's Responses API). Calls that the session lacks came
before then, at any time after our start.

After `Limits.idle_ns` no proof is wanted, and only such a trace gets a `TraceBeginning`.
"""

from __future__ import annotations

from typing import Final

from collector.calls.batch import EventBatch
from collector.calls.tree.trace import NEVER, Trace, TraceBeginning
from collector.decode.span import Span
from collector.dialects.model_messages.outputs import Outputs
from monitor.engine import Monitor
from monitor.records import Proof

__all__ = ["Beginnings"]

FORGETFUL_MAX: Final = 1_000
"""Services remembered whose models are not given earlier turns; beyond it no request proves anything."""

ANSWERS: Final = ("resp_", "caresp_")
"""How ids of answers begin, at OpenAI and at Azure. Each answer has another one."""


class Beginnings:
    """Notes what proves that sessions are new, and tells the monitor.

    Args:
        batch: leads to the monitor.
        monitor: knows how long sessions may have begun before it.
    """

    def __init__(self, batch: EventBatch, monitor: Monitor) -> None:
        self._batch = batch
        self._monitor = monitor
        self._forgetful: set[tuple[str, str]] = set()
        """Namespaces and services whose later turns looked like first ones."""

    def note_request(self, trace: Trace, span: Span, outputs: Outputs, now: int) -> None:
        """A model's span has come: its request may be the first of its conversation."""
        found = trace.beginning
        start_ns = span.start_ns
        if found is None:
            is_early = start_ns < trace.called_ns and self._monitor.gaps.is_young(now)
            if not (is_early or _resumes(trace)):
                return
            found = trace.beginning = TraceBeginning()
        is_first = start_ns < found.fresh_ns and start_ns < found.earlier_ns
        if is_first or start_ns < min(found.earlier_ns, trace.called_ns):
            freshness = outputs.freshness
            if freshness is None or not freshness.is_fresh(span):
                found.earlier_ns = start_ns
            elif is_first:
                if self._is_forgetful(trace, span):
                    found.earlier_ns = start_ns
                else:
                    found.fresh_ns, found.service = start_ns, _service(span)
        self.review(trace)

    def _is_forgetful(self, trace: Trace, span: Span) -> bool:
        """True for a service whose models are not given earlier turns, as a later turn has shown.

        Its sessions have an id and several traces, each of which looks like the first.
        """
        service = trace.namespace, _service(span)
        if service in self._forgetful or len(self._forgetful) >= FORGETFUL_MAX:
            return True
        if not self._goes_on(trace, span.start_ns):
            return False
        self._forgetful.add(service)
        return True

    def _goes_on(self, trace: Trace, start_ns: int) -> bool:
        """True if a trace's session has made calls before a moment, and began in another trace."""
        reader = self._batch.monitor.reader
        return trace.first is not None and reader.goes_on(trace.key, trace.trace_id, start_ns)

    def note_agent(self, trace: Trace) -> None:
        """A span of an agent or a model has come: the trace is more than a tool without its context."""
        trace.has_agent = trace.changed = True
        if trace.beginning is not None:
            self.review(trace)

    def note_root(self, trace: Trace, span: Span, now: int) -> None:
        """The root of a trace has come, and is no call: without a session's id, the session began with it."""
        if not self._monitor.gaps.is_young(now):
            return
        found = trace.beginning
        if found is None:
            found = trace.beginning = TraceBeginning()
        if span.start_ns < found.root_ns:
            found.root_ns = span.start_ns
        self.review(trace)

    def note_claim(self, trace: Trace, *, is_another: bool) -> None:
        """A span may have named a trace's session, which may be one that resumes a conversation.

        `is_another`: another claim than before names it. If its session has made calls before, its models are not given
        earlier turns.
        """
        found = trace.beginning
        if found is None:
            if not _resumes(trace):
                return
            found = trace.beginning = TraceBeginning()
        if is_another and found.fresh_ns < NEVER and self._goes_on(trace, found.fresh_ns):
            found.earlier_ns = min(found.earlier_ns, found.fresh_ns)
            if len(self._forgetful) < FORGETFUL_MAX:
                self._forgetful.add((trace.namespace, found.service))
        if is_another and trace.split:
            found.proof = None  # the session that calls of a split trace go to was not given it
        self.review(trace)

    def review(self, trace: Trace) -> None:
        """More is known of the trace: tells the monitor if the proof is another one."""
        found = trace.beginning
        if found is None:
            return
        start_ns, holds = self._read(trace, found)
        resumed = _resumes(trace)
        if resumed:
            begun_ns = min(trace.answered_ns, trace.called_ns)
            start_ns, holds = 0 if _is_answer(trace) else begun_ns, False
        known = found.proof
        if known is not None and (known.start_ns, known.holds, known.resumed) == (
            start_ns,
            holds,
            resumed,
        ):
            return
        if known is None and start_ns == NEVER:
            return
        found.proof = Proof(start_ns, trace.trace_id, holds=holds, resumed=resumed)
        trace.changed = True
        self._batch.prove(trace.key, found.proof)

    def _read(self, trace: Trace, found: TraceBeginning) -> tuple[int, bool]:
        """When the trace's evidence begins, and whether it proves that a session begins there."""
        asked_ns = min(found.fresh_ns, found.earlier_ns)
        if trace.split and not trace.is_one:
            return asked_ns, False
        refuted = found.earlier_ns < trace.called_ns
        root = found.root_ns if trace.first is None else NEVER
        if root < NEVER and trace.has_agent and not refuted and not trace.is_rest:
            return min(root, asked_ns), root >= self._monitor.started_ns
        return asked_ns, found.fresh_ns < NEVER and not refuted


def _service(span: Span) -> str:
    return str(span.resource.attributes.get("service.name", ""))


def _resumes(trace: Trace) -> bool:
    """True if calls were made before the trace that a session with its id may lack."""
    if trace.first is None or (trace.split and not trace.is_one):
        return False
    return trace.goes_on or _is_answer(trace)


def _is_answer(trace: Trace) -> bool:
    """True if the trace's session has the id of a model's answer, which the trace goes on from."""
    first = trace.first
    if first is None or (trace.split and not trace.is_one):
        return False
    return first.key.id.startswith(ANSWERS)
