"""Finds the spans of one call among the spans of a trace, as they arrive, and merges their calls.

Idea: two ways lead from a piece to the others. Its call id, which the model gave (`place`); and its ancestors
(`rise`). A piece that meets a missing ancestor waits there, and rises on when that one arrives.

Invariant: whichever piece arrives first, the calls are the same in the end: merging does not depend on the order,
and a merge that later pieces contradict is undone (`_release`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from collector.calls.call import (
    PIECES_MAX,
    Call,
    Piece,
    differ,
    outward,
    overlaps,
    same_call,
)
from collector.calls.span_tree import DEPTH_MAX, Alike, Node, Tree
from collector.telemetry.counters import Stats
from monitor.records import Evidence, ToolCall

__all__ = ["LIKE_MAX", "CallMerge"]

LIKE_MAX: Final = 16
"""Calls of one trace with one call id and tool that a new one is compared with: the latest ones."""

Retract = Callable[[ToolCall], None]


class CallMerge:
    """Merges calls, and splits those that turn out to be several.

    Args:
        retract: has the monitor take back a call that was judged twice.
        stats: where merged spans are counted.
    """

    def __init__(self, retract: Retract, stats: Stats) -> None:
        self._retract = retract
        self._stats = stats
        self.released: list[Node] = []
        """Spans that turned out to be calls of their own, and are to be updated: `Correlation` empties the list."""

    def place(self, tree: Tree, node: Node, piece: Piece) -> None:
        """Adds a piece: to its span's call, to calls with the same id, or as a call of its own."""
        if node.failed:
            piece.error = True
        call = node.call
        if call is not None:
            call.add(piece)
            if not call.is_one:
                self._release(tree, call, call.against(Call(piece)))
            return
        call = node.call = Call(piece)
        if piece.evidence is Evidence.REQUESTED:
            call.sink(piece.span_id)
        if piece.call_id:
            try:
                self._join_by_id(tree, node, piece, piece.call_id)
            except Exception:
                if node.call is call:
                    node.call = (
                        None  # an error of ours: it is placed anew when its span is sent again
                    )
                raise

    def _join_by_id(self, tree: Tree, node: Node, piece: Piece, call_id: str) -> None:
        like = tree.like(call_id, piece.tool)
        if like.first is None:
            like.begin(call_id, piece.tool, node)
        else:
            self._join_alike(tree, node, piece, like)

    def _join_alike(self, tree: Tree, node: Node, piece: Piece, like: Alike) -> None:
        nodes = like.nodes()
        for each in nodes:
            call, other = node.call, each.call
            if call is None or other is None:
                continue
            known = other.piece(each.span_id)
            if overlaps(piece, known) and not differ(piece, known):
                self._merge(tree, other, call)
        nodes.append(node)
        like.keep(nodes[-LIKE_MAX:])

    def rise(self, tree: Tree, node: Node) -> None:
        """Looks at what is above a piece by now.

        The nearest call above, with no agent's or model's span between, may be the same call.
        """
        if node.call is None:
            return
        piece = node.call.piece(node.span_id)
        if tree.wrapped is not None and piece.around is None:
            self._enclose(tree, node, node.call, piece)
        above = tree.up(node)
        for _depth in range(DEPTH_MAX):
            if above is None:
                return
            if not above.place:
                if tree.parts is not None or not (
                    piece.apart and piece.agent and piece.session is not None
                ):
                    tree.wait(above, node.span_id)
                return
            if not piece.apart:
                piece.apart = self._meet(tree, node, piece, above)
            above = tree.up(above)

    def _enclose(self, tree: Tree, node: Node, call: Call, piece: Piece) -> None:
        """The span around a piece may list the call, with its id and the names of its arguments."""
        listed = tree.listed_around(piece.parent)
        around = piece.listed(listed) if listed else None
        if around is None:
            return
        call.enclose(piece, around)
        if around.call_id and not piece.call_id:
            self._join_by_id(tree, node, piece, around.call_id)

    def _meet(self, tree: Tree, node: Node, piece: Piece, above: Node) -> bool:
        """True if the span above settles which call the piece is part of."""
        call, other = node.call, above.call
        if call is None or other is None:
            return above.stops
        outer = other.piece(above.span_id)
        if outer.evidence is Evidence.REQUESTED:
            return above.stops
        if above is not node and same_call(outer, piece):
            call.sink(piece.span_id)
            self._merge(tree, other, call)
        return True

    def _merge(self, tree: Tree, one: Call, other: Call) -> None:
        """Makes two calls one; if both were judged, one is retracted.

        If some of their pieces contradict each other, the later call releases its contradicting pieces first, and
        nothing is merged if it has no others.
        """
        if one is other or len(one.pieces) + len(other.pieces) > PIECES_MAX:
            return
        against = one.against(other)
        if against:
            later, theirs = one, against
            earlier, others = other, other.against(one)
            if min(map(outward, theirs)) < min(map(outward, others)):
                later, theirs, earlier, others = earlier, others, later, theirs
            if len(theirs) == len(later.pieces):
                return
            self._release(tree, later, theirs)
        keep, gone = one, other
        if other.judged is not None and (
            one.judged is None
            or (other.given_up and not one.given_up and not one.has_arguments)
        ):
            keep, gone = other, one
        if gone.judged is not None:
            self._retract(gone.judged)
            gone.judged = None
        parts = tree.parts
        if parts is not None and one.session != other.session:
            tree.loosen(parts)  # one names the session of the other, and of all calls below it
        keep.absorb(gone)
        for span_id in gone.pieces:
            node = tree.node(span_id)
            if node is not None:
                node.call = keep
        if parts is not None and parts.loose.pop(id(gone), None) is not None:
            parts.loose[id(keep)] = keep
        self._stats.count("spans_merged")

    def _release(self, tree: Tree, call: Call, pieces: list[Piece]) -> None:
        """Removes pieces from a call: each becomes a call of its own."""
        if not pieces or len(pieces) == len(call.pieces):
            return
        for piece in call.release([each.span_id for each in pieces]):
            piece.apart = True
            node = tree.node(piece.span_id)
            if node is not None:
                node.call = Call(piece)
                self.released.append(node)
