"""Finds the pieces of one call among the spans of a trace, as they come.

Two ways lead to a piece: a call id that the model gave, and the parents of a span. Each piece
waits at the nearest ancestor that has not come, and looks on from there when it does, so the order
of arrival does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from collector.one_call import PIECES_MAX, Call, Piece, overlaps, same_call
from collector.stats import Stats
from collector.traces import DEPTH_MAX, Tree
from monitor.records import Evidence, ToolCall, Verdict

__all__ = ["LIKE_MAX", "Joiner"]

LIKE_MAX: Final = 16
"""Calls of one trace with one call id and tool that a new one is compared with: the latest."""

Retract = Callable[[ToolCall], list[Verdict]]


class Joiner:
    """Merges calls.

    Args:
        retract: takes back what was judged twice.
        stats: where merged spans are counted.
    """

    def __init__(self, retract: Retract, stats: Stats) -> None:
        self._retract = retract
        self._stats = stats

    def place(self, tree: Tree, piece: Piece, verdicts: list[Verdict]) -> None:
        """A piece has come: it joins the calls it is known to be part of, or is one."""
        call = tree.calls.get(piece.span_id)
        if call is not None:
            call.add(piece)
            return
        call = tree.calls[piece.span_id] = Call(piece)
        if piece.evidence is Evidence.REQUESTED:
            call.sink(piece.span_id)
        if piece.call_id:
            key = (piece.call_id, piece.tool)
            like = tree.by_id.get(key)
            if like is None:
                tree.by_id[key] = [piece.span_id]
            else:
                self._join_by_id(tree, piece, like, verdicts)

    def _join_by_id(
        self, tree: Tree, piece: Piece, like: list[bytes], verdicts: list[Verdict]
    ) -> None:
        for span_id in like:
            call, other = tree.calls[piece.span_id], tree.calls.get(span_id)
            if other is not None and overlaps(piece, other.piece(span_id)):
                self._merge(tree, other, call, verdicts)
        like.append(piece.span_id)
        del like[:-LIKE_MAX]

    def rise(self, tree: Tree, span_ids: list[bytes], verdicts: list[Verdict]) -> list[Call]:
        """Pieces look at what is above them by now; returns the calls they are part of."""
        calls = tree.calls
        if len(span_ids) == 1:  # as mostly
            span_id = span_ids[0]
            if span_id not in calls:
                return []
            self._rise(tree, span_id, verdicts)
            return [calls[span_id]]
        known = [span_id for span_id in span_ids if span_id in calls]
        for span_id in known:
            self._rise(tree, span_id, verdicts)
        found: list[Call] = []
        for span_id in known:
            call = calls[span_id]
            if call.is_one or call not in found:
                found.append(call)
        return found

    def _rise(self, tree: Tree, span_id: bytes, verdicts: list[Verdict]) -> None:
        """One piece: the nearest call above it, with no agent or model between, may be the same."""
        piece = tree.calls[span_id].piece(span_id)
        parents = tree.parents
        above = parents.get(span_id)
        for _ in range(DEPTH_MAX):
            if not above:
                return
            beyond = parents.get(above)
            if beyond is None:
                if tree.split or not (
                    piece.apart and piece.agent and piece.session is not None
                ):
                    tree.wait(above, span_id)
                return
            if not piece.apart:
                piece.apart = self._meet(tree, piece, above, verdicts)
            above = beyond

    def _meet(self, tree: Tree, piece: Piece, above: bytes, verdicts: list[Verdict]) -> bool:
        """True where the span above settles what the piece is part of."""
        other = tree.calls.get(above)
        if other is None or other.piece(above).evidence is Evidence.REQUESTED:
            return above in tree.stops
        if above != piece.span_id and same_call(other.piece(above), piece):
            tree.calls[piece.span_id].sink(piece.span_id)
            self._merge(tree, other, tree.calls[piece.span_id], verdicts)
        return True

    def _merge(self, tree: Tree, one: Call, other: Call, verdicts: list[Verdict]) -> None:
        """Two calls are one; what was judged twice is taken back once."""
        if one is other or len(one.pieces) + len(other.pieces) > PIECES_MAX:
            return
        keep, gone = one, other
        if one.judged is None and other.judged is not None:
            keep, gone = other, one
        if gone.judged is not None:
            verdicts += self._retract(gone.judged)
            gone.judged = None
        if tree.split and one.session != other.session:
            tree.loosen()  # one has told whose the other is, and all that is below it
        keep.absorb(gone)
        for span_id in gone.pieces:
            tree.calls[span_id] = keep
        if tree.loose.pop(id(gone), None) is not None:
            tree.loose[id(keep)] = keep
        self._stats.count("spans_merged")
