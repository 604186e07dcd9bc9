"""Traces without tool calls: turns in which an agent only talked. No judgement object tells whose they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from collector.calls.sessions.session_ids import UNNAMED_RUNG, SessionIds
from collector.calls.tree.span_tree import SpanTree
from collector.decode.span import Span
from collector.dialects.choose import Plans
from collector.dialects.names.session_and_agent_keys import AGENT_KEYS, SESSION_KEYS
from collector.dialects.plan import ReadPlan
from collector.dialects.values.messages import conversation
from collector.transcripts.span_shares import SessionId

__all__ = ["is_talk", "quiet_traces"]

_Claim = tuple[int, int, SessionId]
"""Rung of the ladder of session ids, start of the span, and the session: the least one wins."""


def quiet_traces(
    spans: Sequence[Span], with_calls: Collection[bytes]
) -> Mapping[bytes, SessionId]:
    """Trace -> session, of traces without calls: the session that their spans name, or else one by the trace's id."""
    claims: dict[bytes, list[_Claim]] = defaultdict(list)
    plans = Plans(SESSION_KEYS, frozenset(), AGENT_KEYS)
    ids = SessionIds(SESSION_KEYS)
    for span in spans:
        if span.trace_id not in with_calls:
            claims[span.trace_id].append(_claim(span, plans.of(span), ids))
    return {trace: min(found)[-1] for trace, found in claims.items()}


def is_talk(spans: Sequence[Span]) -> bool:
    """Whether a model said something in these spans; others are a part of a session whose traces were torn apart, or no agent's."""
    return any(
        message.text
        for span in spans
        for message in conversation(span.attributes(), span.span_events()).outputs
    )


def _claim(span: Span, plan: ReadPlan, ids: SessionIds) -> _Claim:
    """The best claim of one span."""
    owner = ids.owner(span.resource)
    claim = ids.claim_of(span, plan, owner, SpanTree())
    if claim is None:
        return UNNAMED_RUNG, span.start_ns, (owner.namespace, span.trace_id.hex())
    return claim.rung, span.start_ns, claim.key
