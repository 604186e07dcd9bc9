"""Notices that the clock of a service was set back, where spans show it: their order is not that of their times then.

Idea: two things cannot be while a clock runs on. A span ends before it began: the clock was set while it was open. Or a
model is given the result of a call that was asked for later, by the times. Then nothing follows from one call of the service
to the next around these times (`Cause.MISTIMED`): calls after the setting have times before those that came before it.

Not noticed: a setting that no span contradicts. What is sent then is what other runs send, whose calls were made as their
times say, and are sent late.

Example: an agent's span began at 12:00:30 and ended at 12:00:02. `check` at 12:00:31, `pay` at 12:00:01: which of them was
first is not known, so `pay` without `check` before it is possible harm.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from collector.calls.records import Requester
from collector.dialects.model_messages.given_results import SpanResults
from collector.dialects.model_messages.outputs import RequestedCall
from monitor.judging.clocks.clocks_ahead import AHEAD_MAX_NS
from monitor.limits import SECOND
from monitor.records import SessionKey
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = ["STEP_NS", "LatestRequests", "set_back"]

STEP_NS: Final = SECOND
"""Hosts of one service, and clocks that begin and end spans, may differ by so much."""

OPEN_NS: Final = 600 * SECOND
"""What was open while the clock was set had begun at most so long before: 600 s."""

SLOT_NS: Final = 10 * SECOND
"""Settings whose times fall into the same 10 s are one gap: a service that writes only such spans has few."""

SESSIONS_MAX: Final = 4_096


def set_back(requester: Requester, early_ns: int, late_ns: int, now: int) -> Gap:
    """What follows from a setting of a service's clock: which times of its calls say nothing of their order.

    Args:
        requester: the service.
        early_ns: a time by its clock after the setting, Unix nanoseconds.
        late_ns: a time by its clock before the setting, which is later than `early_ns`.
        now: the time of receipt.
    """
    since_ns = max(1, early_ns - OPEN_NS)
    until_ns = max(late_ns, min(late_ns + OPEN_NS, now + AHEAD_MAX_NS)) + SLOT_NS
    return Gap(
        Cause.MISTIMED,
        since_ns - since_ns % SLOT_NS,
        until_ns - until_ns % SLOT_NS,
        namespace=requester.namespace,
        service=requester.service,
    )


class LatestRequests:
    """The latest call that a model asked for in each session, by the times of its spans."""

    def __init__(self) -> None:
        self._latest: OrderedDict[SessionKey, tuple[int, str]] = OrderedDict()

    def note(self, key: SessionKey, found: list[RequestedCall], start_ns: int) -> None:
        """A model has asked for calls."""
        if not found or not found[0].call_id:
            return
        known = self._latest.get(key)
        if known is None or known[0] < start_ns:
            self._latest[key] = start_ns, found[0].call_id
            self._latest.move_to_end(key)
            if len(self._latest) > SESSIONS_MAX:
                self._latest.popitem(last=False)

    def asked_later(self, key: SessionKey, results: SpanResults) -> int:
        """When the call was asked for whose result a model was given before that, by the times; 0 for nearly all."""
        known = self._latest.get(key)
        if known is None or known[0] <= results.span.start_ns + STEP_NS:
            return 0
        asked_ns, call_id = known
        return asked_ns if results.may_answer([call_id]) and call_id in results.all() else 0
