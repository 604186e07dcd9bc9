"""Where a span stands: its trace, the trace's tree, its node there, and when it was received."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from collector.calls.tree.session_claim import Claim
from collector.calls.tree.span_tree import SpanNode, SpanTree
from collector.calls.tree.trace import Trace

__all__ = ["Context"]


@mypyc_attr(acyclic=True, free_list_len=1)
class Context:
    """One span at its place. The steps of a request hand it on; nobody keeps it."""

    __slots__ = ("agent", "claim", "node", "now", "trace", "tree")

    def __init__(self, trace: Trace, tree: SpanTree, node: SpanNode, now: int) -> None:
        self.trace = trace
        self.tree = tree
        self.node = node
        self.now = now
        """Time of receipt, Unix nanoseconds."""
        self.claim: Claim | None = None
        """The session that the span names, by itself or by its resource."""
        self.agent = ""
        """The agent that the span names."""
