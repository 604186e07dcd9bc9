"""Judges tool calls that models asked for, where the tools themselves leave no spans.

`model_requests` decides which requests those are. Here each one becomes a call: a piece below the model's span,
correlated like any other. An execution that comes later takes it back (`Correlation`).
"""

from __future__ import annotations

from collector.calls.correlation.correlation import Correlation
from collector.calls.correlation.session_moves import SessionMoves
from collector.calls.coverage import Coverage
from collector.calls.model_requests import ModelRequests, RequestPiece
from collector.calls.records import Requester
from collector.calls.tree.context import Context
from collector.calls.tree.trace import NEVER, Trace
from collector.calls.tree.trace_store import Traces
from collector.decode.span import Span
from collector.dialects.model_messages.given_results import given_results
from collector.dialects.model_messages.outputs import Outputs, goes_on

__all__ = ["RequestedCalls"]


class RequestedCalls:
    """Reads models' spans and judges the requests that are due.

    Args:
        requests: decides which requests are judged.
        correlation: judges them as calls.
        sessions: doubts sessions whose first calls may be missing.
        traces: the trees of the requests' traces.
        coverage: counts requests that were never executed, and those over a bound.
    """

    def __init__(
        self,
        requests: ModelRequests,
        correlation: Correlation,
        sessions: SessionMoves,
        traces: Traces,
        coverage: Coverage,
    ) -> None:
        self._requests = requests
        self._correlation = correlation
        self._sessions = sessions
        self._traces = traces
        self._coverage = coverage

    def read(
        self, span: Span, outputs: Outputs, requester: Requester, context: Context
    ) -> list[Exception]:
        """Reads a model's span and judges the requests that are due, perhaps of earlier spans too.

        Returns:
            Errors of ours, one for each request that could not be judged: it waits for the next answer.
        """
        trace = context.trace
        self._note_answers(span, outputs, trace)
        found = self._requests.read(requester, trace, span, outputs, context.agent, context.now)
        if self._requests.answered:
            answered, self._requests.answered = self._requests.answered, []
            self._correlation.answered(context, answered)
        if self._requests.overtaken:
            self._requests.overtaken = False
            self._correlation.overtook(context, span.start_ns)
        if trace.first is None and (trace.answered_ns < NEVER or trace.given or trace.doubted):
            self._sessions.doubt(trace)
        self._sessions.beginnings.note_request(trace, span, outputs, context.now)
        errors: list[Exception] = []
        if self._requests.outcomes:
            outcomes, self._requests.outcomes = self._requests.outcomes, []
            for (of, call), result in outcomes:
                if call.settle(result):
                    self._correlation.settled(of, call, context.now)
        if self._requests.shortened:
            shortened, self._requests.shortened = self._requests.shortened, []
            for each in shortened:
                self._correlation.settled(each.trace, each.call, context.now)
        for request in found:
            try:
                self._judge(requester, request, context.now)
            except Exception as error:  # noqa: BLE001 - the pipeline counts it
                errors.append(error)
                self._requests.keep(requester, request)
        if self._requests.gaps:
            self._correlation.tell_gaps()
        if self._requests.oversized:
            self._coverage.count_traces("over_bound", [(trace, self._requests.oversized)])
            self._requests.oversized = 0
        return errors

    def hear(self, span: Span, requester: Requester, context: Context) -> None:
        """Notes that a model was asked, where nothing of that is on the wire."""
        self._requests.hear(requester, context.trace, span, context.now)
        if self._requests.gaps:
            self._correlation.tell_gaps()

    def _note_answers(self, span: Span, outputs: Outputs, trace: Trace) -> None:
        """A model may have been given answers of tools that were called in other traces.

        Where its session has made calls before, they may be theirs, and the messages are not read.
        """
        start_ns = span.start_ns
        is_first = start_ns < trace.modelled_ns
        if is_first:
            trace.modelled_ns, trace.given = start_ns, 0
            trace.changed = True
        is_before = start_ns < trace.called_ns and start_ns < trace.answered_ns
        if not (is_first or is_before):
            return
        if trace.first is not None and self._sessions.has_calls(
            trace, min(start_ns, trace.called_ns)
        ):
            return
        if goes_on(span, outputs):
            if is_before:
                trace.answered_ns = start_ns
            if is_first:
                trace.given = len(given_results(span, outputs))

    def _judge(self, requester: Requester, request: RequestPiece, now: int) -> None:
        trace, piece = request
        tree = trace.tree
        if tree is None:  # it waited for longer than its trace's spans are remembered
            tree = self._traces.grow(trace, now)
            tree.put(piece.parent, b"")
        node = tree.node(piece.span_id)
        if node is None or not node.came:
            node = tree.put(piece.span_id, piece.parent)
        context = Context(trace, tree, node, now)
        self._correlation.place(context, piece)
        call = node.call
        if call is not None:
            call.withdrawn = False
        if call is not None and call.judged is None:
            self._requests.judged(requester, trace, call)
            tree.shared = True
        self._correlation.rise(context)
        self._traces.hold(tree, piece.arguments)

    def count_continued(self) -> None:
        """Counts results that models were given of calls that their sessions lack, of traces whose spans are forgotten.

        By now it is known whose sessions they are: earlier traces of these may have made the calls.
        """
        continued, self._traces.continued = self._traces.continued, []
        lacking = [
            (trace, count)
            for trace, count, begun_ns in continued
            if not self._sessions.has_calls(trace, begun_ns)
        ]
        self._coverage.count_traces("result_only", lacking)

    def expire(self, now: int) -> None:
        """Counts requests that were not executed in time."""
        expired = self._requests.expired(now)
        if expired:
            self._coverage.count_traces("requested_only", expired)

    def finish(self) -> None:
        """Counts all requests that were not executed: the input is over."""
        self._coverage.count_traces("requested_only", self._requests.rest())
