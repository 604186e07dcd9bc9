"""Which spans are one call, and which show that they are several.

- Of two spans, one below the other, with no other call between: `same_call`.
- Of two spans with one call id, wherever they stand: not `differ`, not `are_apart`, and `overlaps`.
- A second span under a span id that is known: `is_another`.

Invariant: known arguments that contradict each other always make two calls (`agree`). Unknown ones contradict nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from collector.calls.call.piece import SERVER, Piece
from collector.dialects.names.session_and_agent_keys import BETWEEN, PREFIX, is_served
from collector.dialects.values.rivals import is_alike, is_equal
from monitor.partial import PartialArguments
from monitor.records import Evidence

__all__ = [
    "agree",
    "are_apart",
    "are_chained",
    "differ",
    "digest_of",
    "is_again",
    "is_another",
    "is_copy",
    "is_lone",
    "is_told_again",
    "is_unnamed",
    "is_within",
    "overlaps",
    "same_call",
]

_ACTIONS: Final = "openhands"

_UNNAMED: Final = "MCPToolAction"
"""The dialect that gives one name to the tools of all MCP servers, and that name."""

_SENDER: Final = "fast_agent"
"""The dialect whose spans are the agent's side of MCP only."""

_LONE: Final = frozenset({"__arg1", "input"})
"""LangChain's names for the single argument of a tool whose argument names it does not know."""


def same_call(outer: Piece, inner: Piece) -> bool:
    """True if a piece below another one, with no other call between them, is the same call.

    The client's and the server's part may be timed by two clocks, so times are compared only within one
    instrumentation: a span that begins after its ancestor ended is another call, made in a context that leaked.
    """
    if outer.source == inner.source != SERVER and not overlaps(outer, inner):
        return False
    if not agree(outer, inner):
        return False
    if outer.call_id and inner.call_id:
        if outer.call_id != inner.call_id:
            return False
        if inner.source == SERVER and outer.tool.startswith(PREFIX):
            return True  # the ids agree, and the name says that a server executes the tool
    return outer.tool == inner.tool or (
        inner.source == SERVER
        and (is_served(outer.tool, inner.tool) or is_unnamed(outer) or _is_sent(outer, inner))
    )


def is_unnamed(piece: Piece) -> bool:
    """True for a piece that does not say which server's tool it calls."""
    return piece.tool == _UNNAMED and piece.source == _ACTIONS


def _is_sent(outer: Piece, inner: Piece) -> bool:
    """True for a tool that fast-agent names with its server's name before it."""
    return outer.source == _SENDER and outer.tool.endswith(BETWEEN + inner.tool)


def differ(one: Piece, other: Piece) -> bool:
    """True if two pieces with one call id are two calls: models may repeat an id.

    Either their arguments differ, or one instrumentation wrote both, overlapping, below one span.
    """
    return not agree(one, other) or _are_beside(one, other)


def _are_beside(one: Piece, other: Piece) -> bool:
    return (
        one.parent == other.parent != b""
        and one.parent not in (one.span_id, other.span_id)
        and one.span_id != other.span_id
        and one.call_id == other.call_id != ""
        and (one.source, one.scope) == (other.source, other.scope)
        and Evidence.REQUESTED not in (one.evidence, other.evidence)
        and overlaps(one, other)
    )


def are_apart(one: Piece, other: Piece) -> bool:
    """True if one instrumentation wrote both pieces alike, and neither is below the other as far as is known.

    With one call id they may be one call, told twice, or two: their id does not make them one. A piece without
    arguments and one with them complete each other, and are one call.
    """
    return (
        (one.source, one.scope) == (other.source, other.scope)
        and one.is_told is other.is_told
        and one.span_id != other.span_id
        and one.parent != other.span_id
        and other.parent != one.span_id
        and Evidence.REQUESTED not in (one.evidence, other.evidence)
    )


def are_chained(outer: Piece, inner: Piece) -> bool:
    """True if a call below another one may not be made by it: one model may have asked for both.

    Some tracers keep the first tool's span current while the next one starts. Both have ids that a model gave, and
    one instrumentation wrote both, overlapping. Some models give all calls of an answer one id.
    """
    is_one = outer.call_id == inner.call_id and outer.tool == inner.tool
    return (
        not (is_one and agree(outer, inner))
        and outer.call_id != ""
        and inner.call_id != ""
        and (outer.source, outer.scope) == (inner.source, inner.scope)
        and not (outer.control or inner.control)
        and Evidence.REQUESTED not in (outer.evidence, inner.evidence)
        and overlaps(outer, inner)
    )


def is_again(one: Piece, other: Piece) -> bool:
    """True if two pieces of one call may be two executions within it: side by side, or one after the other.

    A failed attempt and the next one are not.
    """
    return (
        are_apart(one, other)
        and (one.parent == other.parent or not overlaps(one, other))
        and not (one.error or other.error)
    )


def is_within(outer: Piece, inner: Piece) -> bool:
    """True if a piece below another one may be a call that the other one makes, of the same tool with the same arguments.

    One instrumentation wrote both in full, and no id says that they are one call.
    """
    return (
        (outer.source, outer.scope) == (inner.source, inner.scope)
        and outer.is_told
        and inner.is_told
        and not (outer.call_id or inner.call_id)
        and not (outer.error or inner.error)
        and inner.source != SERVER
    )


def is_another(known: Piece, piece: Piece) -> bool:
    """True if a second span with a known id is neither a copy nor a fuller copy, but another call."""
    if Evidence.REQUESTED in (known.evidence, piece.evidence):
        return False
    return (
        known.tool != piece.tool or known.start_ns != piece.start_ns or not agree(known, piece)
    )


def is_copy(one: Piece, other: Piece) -> bool:
    """True if two spans differ in their ids alone: two executions hardly begin and end at the same instants.

    A span without times differs in none.
    """
    if one.start_ns and other.start_ns:
        same = one.start_ns == other.start_ns < one.end_ns == other.end_ns
        return same and agree(one, other)
    return agree(one, other)


def is_told_again(one: Piece, other: Piece) -> bool:
    """True if two spans that came under the same ids may be one call, exported twice with other starts."""
    return one.tool == other.tool and one.start_ns != other.start_ns and agree(one, other)


def agree(one: Piece, other: Piece) -> bool:
    """False if the known arguments of two pieces show that they are two calls.

    One instrumentation writes the arguments of a call the same way each time. Of two instrumentations, one may
    add arguments, or write values as text. Unknown and unreadable arguments contradict nothing.
    """
    if not (one.is_given and other.is_given):
        return _agree_freed(one, other)
    mine, others = one.arguments, other.arguments
    if mine is None or others is None:
        return _agree_bare(one, other)
    if mine is others:
        return True
    alike = is_equal if one.source == other.source else is_alike
    unread = _unread(mine) | _unread(others)
    common = mine.keys() & others.keys()
    if not all(name in unread or alike(mine[name], others[name]) for name in common):
        return False
    if len(common) == len(mine) == len(others) or unread:
        return True
    if one.source == other.source:
        return False
    if is_lone(mine) is not is_lone(others) and len(mine) == len(others) == 1:
        return is_alike(next(iter(mine.values())), next(iter(others.values())))
    return 0 < len(common) == min(len(mine), len(others))


def _agree_freed(one: Piece, other: Piece) -> bool:
    """`agree` for a piece whose arguments were freed, and one that has arguments."""
    if other.is_given:
        one, other = other, one
    kept = other.freed
    if kept is None:
        return True
    return kept.agrees(one.arguments, one.bare, one_source=one.source == other.source)


def is_lone(arguments: Mapping[str, Any]) -> bool:
    """True for a single argument whose name is not known."""
    return len(arguments) == 1 and not _LONE.isdisjoint(arguments)


def _unread(arguments: Mapping[str, Any]) -> frozenset[str]:
    return arguments.unread if isinstance(arguments, PartialArguments) else frozenset()


def _agree_bare(one: Piece, other: Piece) -> bool:
    """`agree` for pieces of which at least one has values without names."""
    if one.bare is None:
        one, other = other, one
    bare, given = one.bare.value, other.arguments
    if given is None:
        return is_alike(bare, other.bare.value)
    values = list(given.values())
    return is_alike(bare, given) or (
        is_alike(bare, values)
        if isinstance(bare, list)
        else any(is_alike(bare, value) for value in values) or bool(_unread(given))
    )


def overlaps(one: Piece, other: Piece) -> bool:
    """True if the pieces overlap in time. Requests have no time, and overlap with everything."""
    if Evidence.REQUESTED in (one.evidence, other.evidence):
        return True
    if one.start_ns == other.start_ns:
        return True
    first, second = (one, other) if one.start_ns < other.start_ns else (other, one)
    return first.end_ns > second.start_ns or first.evidence is Evidence.PENDING


def digest_of(arguments: Mapping[str, Any]) -> bytes:
    """16 bytes, the same for equal arguments in any order and in any process."""
    try:
        text = msgspec.json.encode(arguments, order="sorted")
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = repr(arguments).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).digest()
