"""Calls of which only a model's request tells: whether they failed stands in what a model is given next.

Idea: such a call is judged as one that goes well, and *waits* for its result. The next requests to models of its
conversation hold it: those of its trace, and the first one of a later trace, as where a person answers. Once the result
was given, it waits no more.

Invariant: the status of a call's own span wins (`LogicalCall`).

Example: an answer asks for `check` (`c1`), whose tool leaves no spans. The next request to the model holds
`{"type": "tool_result", "tool_use_id": "c1", "is_error": true}`. So `check` has failed, and its verdict is made anew.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from collector.calls.call.call import LogicalCall
from collector.calls.tree.trace import Trace
from collector.dialects.model_messages.given_results import GivenResult, SpanResults

__all__ = ["AWAITED_MAX", "AwaitedOutcomes", "JudgedRequest"]

AWAITED_MAX: Final = 256
"""Calls of one requester that wait. At the bound, those of the oldest trace wait no more: they went well, as far as is known.
They are counted."""


class JudgedRequest(NamedTuple):
    """A request that was judged."""

    trace: Trace
    call: LogicalCall


@mypyc_attr(acyclic=True)
class AwaitedOutcomes:
    """The calls of one requester that wait for their results, by trace."""

    __slots__ = ("_calls", "_count")

    def __init__(self) -> None:
        self._calls: dict[bytes, list[JudgedRequest]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def wait(self, request: JudgedRequest) -> int:
        """A judged request waits for its result. Returns how many others wait no more, at the bound."""
        self._calls.setdefault(request.trace.trace_id, []).append(request)
        before = self._count = self._count + 1
        while self._count > AWAITED_MAX:
            self._count -= len(self._calls.pop(next(iter(self._calls))))
        return before - self._count

    def told(
        self, trace: Trace, results: SpanResults, *, begins: bool
    ) -> list[tuple[JudgedRequest, GivenResult]]:
        """The calls whose results a model was given, and what these say.

        `begins`: the model's span is the first one of its trace, so it may hold results of earlier traces.
        """
        if not self._count:
            return []
        waiting = list(self._calls.get(trace.trace_id, ()))
        if begins and trace.first is not None:
            waiting += self._of_session(trace)
        waiting = [
            each for each in waiting if each.call.outer.start_ns <= results.span.start_ns
        ]
        ids = [each.call.call_id for each in waiting]
        if not ids or not results.may_answer(ids):
            return []
        found = []
        for each, result in zip(waiting, _each(ids, results.of(ids)), strict=True):
            if result is not None:
                self._end(each)
                if not each.call.is_executed:
                    found.append((each, result))
        return found

    def _of_session(self, trace: Trace) -> list[JudgedRequest]:
        """Those of other traces of the session."""
        key = trace.key
        return [
            each
            for calls in self._calls.values()
            if calls[0].trace is not trace and calls[0].trace.key == key
            for each in calls
        ]

    def _end(self, request: JudgedRequest) -> None:
        """A request waits no more."""
        trace_id = request.trace.trace_id
        rest = [each for each in self._calls[trace_id] if each is not request]
        self._count -= 1
        if rest:
            self._calls[trace_id] = rest
        else:
            del self._calls[trace_id]


def _each(ids: list[str], given: dict[str, GivenResult]) -> list[GivenResult | None]:
    """The result of each request; where several have one id, which of them has failed is open."""
    counts = Counter(ids)
    found: list[GivenResult | None] = []
    for call_id in ids:
        result = given.get(call_id)
        shared = result is GivenResult.FAILED and counts[call_id] > 1
        found.append(GivenResult.DISPUTED if shared else result)
    return found
