"""Finds the spans of one call among the spans of a trace, as they arrive, and merges their calls.

Idea: two ways lead from a piece to the others. Its call id, which the model gave (`place`); and its ancestors
(`rise`). A piece that meets a missing ancestor waits there, and rises on when that one arrives.

Invariant: whichever piece arrives first, the calls are the same in the end: merging does not depend on the order,
and a merge that later pieces contradict is undone (`_release`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from collector.calls.call.call import PIECES_MAX, LogicalCall
from collector.calls.call.piece import Piece, outward
from collector.calls.call.same_call import (
    are_apart,
    differ,
    is_again,
    is_within,
    overlaps,
    same_call,
)
from collector.calls.tree.span_tree import DEPTH_MAX, AlikeSpans, SpanNode, SpanTree
from collector.telemetry.counters import Stats
from monitor.records import Evidence

__all__ = ["LIKE_MAX", "CallMerge"]

LIKE_MAX: Final = 16
"""Calls of one trace with one call id and tool that a new one is compared with: the latest ones."""

Retract = Callable[[LogicalCall], None]


class CallMerge:
    """Merges calls, and splits those that turn out to be several.

    Args:
        retract: has the monitor take back a call that was judged twice.
        stats: where merged spans are counted.
    """

    def __init__(self, retract: Retract, stats: Stats) -> None:
        self._retract = retract
        self._stats = stats
        self.again: list[LogicalCall] = []
        """Calls within which another execution was reported; who counts them empties the list."""

    def place(self, tree: SpanTree, node: SpanNode, piece: Piece) -> None:
        """Adds a piece: to its span's call, to calls with the same id, or as a call of its own."""
        if node.failed:
            piece.error, piece.disputed = True, False
        call = node.call
        if call is not None:
            had_failed = call.piece(piece.span_id).error
            call.add(piece)
            if not call.is_one:
                if had_failed and not call.piece(piece.span_id).error:
                    self._note_again(call, piece.span_id)
                self._release(tree, call, piece.span_id, call.against(LogicalCall(piece)))
            return
        call = node.call = LogicalCall(piece)
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

    def _note_again(self, call: LogicalCall, span_id: bytes) -> None:
        """A span of a call has not failed after all: it and those below it may be calls that were made, not attempts."""
        told = call.piece(span_id)
        others = [each for each in call.pieces.values() if each is not told]
        inner = [each for each in others if each.parent == span_id and is_within(told, each)]
        is_one = any(
            is_within(each, told) if told.parent == each.span_id else is_again(each, told)
            for each in others
        )
        self.again += [call] * (len(inner) + is_one)

    def _join_by_id(self, tree: SpanTree, node: SpanNode, piece: Piece, call_id: str) -> None:
        like = tree.like(call_id, piece.tool)
        if like.answer and node.call is not None:
            node.call.ask(like.answer, several=like.several)
        if like.first is None:
            like.begin(call_id, piece.tool, node)
        else:
            self._join_alike(tree, node, piece, like)

    def _join_alike(
        self, tree: SpanTree, node: SpanNode, piece: Piece, like: AlikeSpans
    ) -> None:
        nodes = like.nodes()
        for each in nodes:
            call, other = node.call, each.call
            if call is None or other is None:
                continue
            known = other.piece(each.span_id)
            if (
                overlaps(piece, known)
                and not differ(piece, known)
                and not are_apart(piece, known)
                and not _is_executed_apart(call, other)
            ):
                self._merge(tree, each, node)
        nodes.append(node)
        like.keep(nodes[-LIKE_MAX:])

    def rise(self, tree: SpanTree, node: SpanNode) -> None:
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
                if (
                    tree.parts is not None
                    or node.call.chained
                    or not (piece.apart and piece.agent and piece.session is not None)
                ):
                    tree.wait(above, node.span_id)
                return
            if not piece.apart:
                piece.apart = self._meet(tree, node, piece, above)
            above = tree.up(above)

    def _enclose(self, tree: SpanTree, node: SpanNode, call: LogicalCall, piece: Piece) -> None:
        """The span around a piece may list the call, with its id and the names of its arguments."""
        listed = tree.listed_around(piece.parent)
        around = piece.listed(listed) if listed else None
        if around is None:
            return
        call.enclose(piece, around)
        if around.call_id and not piece.call_id:
            self._join_by_id(tree, node, piece, around.call_id)

    def _meet(self, tree: SpanTree, node: SpanNode, piece: Piece, above: SpanNode) -> bool:
        """True if the span above settles which call the piece is part of."""
        call, other = node.call, above.call
        if call is None or other is None:
            return above.stops
        outer = other.piece(above.span_id)
        if outer.evidence is Evidence.REQUESTED:
            return above.stops
        if above is not node and same_call(outer, piece):
            call.sink(piece.span_id)
            if other is not call and (is_within(outer, piece) or _is_repeated(other, call)):
                self.again.append(other)
            self._merge(tree, above, node)
        return True

    def _merge(self, tree: SpanTree, first: SpanNode, second: SpanNode) -> None:
        """Makes the calls of two spans one; if both were judged, one is retracted.

        If some of their pieces contradict each other, the later call releases its contradicting pieces first, with
        what they alone brought. If the span that joins the two calls is among these, nothing is merged.
        """
        one, other = first.call, second.call
        if one is None or other is None or one is other:
            return
        if len(one.pieces) + len(other.pieces) > PIECES_MAX:
            return
        against = one.against(other)
        if against:
            later, joint, theirs, others = one, first, against, other.against(one)
            if min(map(outward, theirs)) < min(map(outward, others)):
                later, joint, theirs = other, second, others
            if any(piece.span_id == joint.span_id for piece in theirs):
                return
            self._release(tree, later, joint.span_id, theirs)
        keep, gone = one, other
        if other.judged is not None and (
            one.judged is None
            or (other.given_up and not one.given_up and not one.has_arguments)
        ):
            keep, gone = other, one
        self._retract(gone)
        parts = tree.parts
        is_named = one.session != other.session
        keep.absorb(gone)
        for span_id in gone.pieces:
            node = tree.node(span_id)
            if node is not None:
                node.call = keep
        if parts is not None and gone in parts.loose:
            del parts.loose[gone]
            parts.loose[keep] = None
        if parts is not None and is_named:
            # One names the session of the other, and of all calls below it.
            tops = [node for each in keep.pieces if (node := tree.node(each)) is not None]
            parts.loosen([keep, *tree.calls_below(parts, *tops)])
        self._stats.count("spans_merged")

    def _release(
        self, tree: SpanTree, call: LogicalCall, joint: bytes, pieces: list[Piece]
    ) -> None:
        """Removes pieces from a call, and those that no other piece links to the span `joint`.

        What is still linked stays together: each such group becomes a call of its own.
        """
        if not pieces:
            return
        links = _links(tree, call)
        kept = _linked(links, joint, {piece.span_id for piece in pieces})
        gone = [span_id for span_id in call.pieces if span_id not in kept]
        for piece in call.release(gone):
            piece.apart = True
            node = tree.node(piece.span_id)
            if node is not None:
                node.call = LogicalCall(piece)
        settled = set(kept)
        for span_id in gone:
            if span_id not in settled:
                group = _linked(links, span_id, settled)
                settled |= group
                self._group(tree, [key for key in gone if key in group])

    def _group(self, tree: SpanTree, span_ids: list[bytes]) -> None:
        """Makes the calls of released spans one."""
        nodes = [node for key in span_ids if (node := tree.node(key)) is not None]
        if not nodes:
            return
        call = nodes[0].call
        for node in nodes[1:]:
            if call is not None and node.call is not None:
                call.absorb(node.call)
                node.call = call
        if call is not None and not call.is_one:
            for key in span_ids:
                if _above(tree, call, call.piece(key)):
                    call.sink(key)
        if tree.released is None:
            tree.released = []
        tree.released.append(nodes[0])


def _is_executed_apart(one: LogicalCall, other: LogicalCall) -> bool:
    """True if two calls have executions that only a model's request would join: it does not say that they are one."""
    if one.is_one and other.is_one:
        return False
    pieces = [*one.pieces.values(), *other.pieces.values()]
    if not any(each.evidence is Evidence.REQUESTED for each in pieces):
        return False
    return any(
        are_apart(mine, each) for mine in one.pieces.values() for each in other.pieces.values()
    )


def _is_repeated(call: LogicalCall, inner: LogicalCall) -> bool:
    """True if a call has a piece that was executed beside those of a call below it."""
    if call.is_one:
        return False
    return any(
        is_again(one, each) for one in call.pieces.values() for each in inner.pieces.values()
    )


def _links(tree: SpanTree, call: LogicalCall) -> dict[bytes, set[bytes]]:
    """Which pieces of a call belong together by themselves: by their call id, or one being above the other."""
    links: dict[bytes, set[bytes]] = {key: set() for key in call.pieces}
    pieces = list(call.pieces.values())
    for number, piece in enumerate(pieces):
        above = _above(tree, call, piece)
        beside = [other.span_id for other in pieces[:number] if _is_alike(piece, other)]
        for key in [above, *beside] if above else beside:
            links[piece.span_id].add(key)
            links[key].add(piece.span_id)
    return links


def _is_alike(piece: Piece, other: Piece) -> bool:
    """True if `place` joins two pieces by their call id."""
    call_id = _call_id(piece)
    return (
        call_id != ""
        and call_id == _call_id(other)
        and piece.tool == other.tool
        and overlaps(piece, other)
        and not differ(piece, other)
        and not are_apart(piece, other)
    )


def _call_id(piece: Piece) -> str:
    return piece.call_id or (piece.around.call_id if piece.around is not None else "")


def _above(tree: SpanTree, call: LogicalCall, piece: Piece) -> bytes:
    """The span id of the nearest piece of a call above one of its pieces, if `rise` joins the two; else empty."""
    node = tree.node(piece.span_id)
    for above in tree.ancestors(node) if node is not None else ():
        if above.call is call:
            return above.span_id if same_call(call.piece(above.span_id), piece) else b""
    return b""


def _linked(links: dict[bytes, set[bytes]], start: bytes, without: set[bytes]) -> set[bytes]:
    """What is linked to a span, directly or by others, but not by those that are left out."""
    found, ahead = {start}, [start]
    while ahead:
        for key in links[ahead.pop()]:
            if key not in found and key not in without:
                found.add(key)
                ahead.append(key)
    return found
