"""The prefix tree of a learnt reference as it is drawn, with the way one session took in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from monitor.session.judgement.judgement import Judgement
from monitor.session.report.reference_report import places
from monitor.spec.learnt_reference import LearntReference

__all__ = ["NODES_MAX", "tree"]

NODES_MAX: Final = 48
"""The most frequent nodes are drawn, and those that the session came by."""


def tree(learnt: LearntReference, judgement: Judgement) -> dict[str, Any]:
    """Nodes with their runs, and by call where the session stood after it.

    Returns:
        `nodes`, parents before children, each with `parent` (its place among them, -1 for the
        root), `tool`, `runs` and `ends`; `more`, the nodes left out; `risk_alarm`, from where the
        risk raises an alarm (1: it raises none); `way`, for each call that is kept its `index`, its `node` (a place
        among `nodes`) and the `kind` of its departure or None. A session that was joined in the
        middle has no way: where it began is not known.
    """
    comparison = judgement.judge.comparison
    way = [] if judgement.joined else list(places(judgement))
    kept = sorted(
        {*range(min(NODES_MAX, len(learnt.nodes))), *_up(learnt, (at for _, at, _ in way))}
    )
    place = {node: number for number, node in enumerate(kept)}
    return {
        "nodes": [
            {
                "parent": place.get(node.parent, -1),
                "tool": "" if node.tool < 0 else learnt.tools[node.tool],
                "runs": node.runs,
                "ends": node.ends,
            }
            for node in (learnt.nodes[number] for number in kept)
        ],
        "risk_alarm": comparison.risk_alarm if comparison is not None else 1.0,
        "more": len(learnt.nodes) - len(kept),
        "way": [
            {
                "index": index,
                "node": place[at],
                "kind": None if kind is None else kind.name.lower(),
            }
            for index, at, kind in way
        ],
    }


def _up(learnt: LearntReference, nodes: Iterable[int]) -> Iterator[int]:
    """The nodes and all above them."""
    for node in nodes:
        at = node
        while at >= 0:
            yield at
            at = learnt.nodes[at].parent
