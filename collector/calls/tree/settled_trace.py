"""A trace whose tree was forgotten, in a quarter of the memory: most traces never get another span.

Idea: what is left of it are its session, the claim that won, and a few times. These are kept side by side in bytes; the
claim is made anew if a span arrives. What is rare is not packed: such a trace stays as it is (`settled`).

Invariant: `settled(trace).trace(...)` is equal to the trace, but for its tree, which has been forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from mypy_extensions import mypyc_attr

from collector.calls.records import Requester
from collector.calls.tree.session_claim import Claim
from collector.calls.tree.trace import Trace, TraceBeginning
from monitor.records import AgentName, SessionKey

__all__ = ["SettledTrace", "settled"]

_PACKED: Final = Struct("<QQQ8siB")
"""Three times, the id of the span that made the claim, the claim's rung, and what is true or false."""
_TIME_MAX: Final = (1 << 64) - 1
_ID: Final = 8

_CLAIMED, _HAS_TOOLS, _SAMPLED, _EARLY, _DOUBTED, _HAS_AGENT, _GIVEN = (
    1,
    2,
    4,
    8,
    16,
    32,
    64,
)


@mypyc_attr(acyclic=True)
class SettledTrace:
    """What is kept of such a trace."""

    __slots__ = (
        "_beginning",
        "_key",
        "_learnt",
        "_learnt_named",
        "_named",
        "_packed",
        "_requester",
        "_session_from",
    )

    def __init__(self, trace: Trace, key: SessionKey, packed: bytes) -> None:
        self._key = key
        self._session_from = trace.session_from
        self._named: AgentName | None = trace.named
        self._learnt_named: AgentName | None = trace.learnt_named
        self._learnt: Mapping[str, Any] | None = trace.learnt
        self._requester: Requester | None = trace.requester
        self._beginning: TraceBeginning | None = trace.beginning
        self._packed = packed

    def trace(self, namespace: str, trace_id: bytes) -> Trace:
        """The trace itself again: a span of it arrived."""
        trace, key = Trace(namespace, trace_id), self._key
        first_ns, called_ns, answered_ns, span_id, rung, flags = _PACKED.unpack(self._packed)
        trace.assign(key, self._session_from)
        if flags & _CLAIMED:
            trace.set_first(Claim(rung, key, self._session_from), span_id, first_ns)
        trace.called_ns, trace.answered_ns = called_ns, answered_ns
        trace.modelled_ns, trace.given = 0, int(bool(flags & _GIVEN))
        trace.has_tools, trace.sampled = bool(flags & _HAS_TOOLS), bool(flags & _SAMPLED)
        trace.has_agent, trace.changed = bool(flags & _HAS_AGENT), False
        trace.learnt_early, trace.doubted = bool(flags & _EARLY), bool(flags & _DOUBTED)
        trace.named, trace.learnt_named = self._named, self._learnt_named
        trace.learnt, trace.requester = self._learnt, self._requester
        trace.beginning = self._beginning
        return trace


def settled(trace: Trace) -> SettledTrace | None:
    """What is to be kept of a trace without a tree; None for one that has to stay as it is."""
    key, first, span_id = trace.known_key, trace.first, trace.first_by
    if key is None or not trace.is_plain:
        return None
    if first is not None and (
        first.key != key or first.name != trace.session_from or len(span_id) != _ID
    ):
        return None
    times = trace.first_ns, trace.called_ns, trace.answered_ns
    if min(times) < 0 or max(times) > _TIME_MAX:
        return None
    flags = (_CLAIMED if first is not None else 0) | (_HAS_TOOLS if trace.has_tools else 0)
    flags |= (_SAMPLED if trace.sampled else 0) | (_EARLY if trace.learnt_early else 0)
    flags |= (_DOUBTED if trace.doubted else 0) | (_HAS_AGENT if trace.has_agent else 0)
    flags |= _GIVEN if trace.given and trace.goes_on else 0
    rung = first.rung if first is not None else 0
    return SettledTrace(trace, key, _PACKED.pack(*times, span_id, rung, flags))
