"""Finds calls with the id of an earlier call, which other spans may have told again: none is certainly a call of its own.

Idea: spans with other span ids may tell of one call or of two, and nothing in them says which. So each stays a call of its
own, and the later ones get a doubt (`monitor.visibility.cause`): the judge then reads them both ways.

- `TOLD_TWICE`: calls with one call id, tool and arguments at the same time, under different parents; or requests to an MCP
  server with one id of the request.
- `REPLAYED`: such a call comes again after it had ended. A durable workflow that is replayed writes all its spans anew.
  Where spans of tools have no ids, the ids of the requests in the model's answer count, if that answer has come again, too.
- `ROUND_TRIP`: requests to an MCP server, one after the other. From protocol version 2026-07-28 on, a server may answer
  that it needs input, and the client sends the same call again. If it has failed then, so has the first one (`CONTRADICTED`).

Calls of two sessions are two, but for a call whose conversation is not known (`orphans`): it may be any session's of its
service, and so one that another session has.

Invariant: the doubts follow from the calls, whatever the order of their arrival. The first call, by its start, has none.

Example: `pay` with call id c1 runs from 1 to 2 s in one trace, and from 5 to 6 s in another one of its session. The
second has the doubt `REPLAYED`. Had the first failed and the second not, they would be two calls for certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import takewhile
from struct import Struct
from typing import Final, NamedTuple

from collector.calls.call.call import LogicalCall
from collector.calls.call.same_call import agree, digest_of, is_copy, overlaps
from collector.calls.tree.span_tree import SpanNode, SpanTree
from collector.calls.tree.trace import Trace
from collector.calls.tree.trace_store import Traces
from monitor.partial import PartialArguments
from monitor.records import SessionKey, ToolCall
from monitor.tenants import Holdings
from monitor.visibility.cause import Cause

__all__ = ["CALLS_MAX", "PERIOD_NS", "RepeatedCallIds", "Review", "doubts_of_span", "is_known"]

CALLS_MAX: Final = 100_000
"""Calls remembered. At the bound, the older calls of the tenant that holds most are forgotten."""

PERIOD_NS: Final = 3600 * 1_000_000_000
"""A call is remembered for one to two hours, if there is room."""

LIKE_MAX: Final = 16
"""Calls with one id, tool and session that are remembered: the latest ones that arrived."""

_ROW: Final = Struct("<16s8sqqq?")
"""Trace id, span id, start, end, a digest of the arguments (0 if they are unknown), and whether the call failed."""

_NAMED: Final = "\1"
"""A name in place of an id: requests to a server of which it is known who asked."""

ENTRY_BYTES: Final = 240
"""Approximate bytes of a call."""


class _Seen(NamedTuple):
    """A call that was told, as far as it is remembered."""

    start_ns: int
    end_ns: int
    span_id: bytes
    error: bool
    given: int
    place: tuple[Trace, SpanTree, SpanNode] | None
    call: LogicalCall | None
    """None if its spans are no longer remembered."""
    session: SessionKey | None
    """None if it is no longer remembered."""


class Review(NamedTuple):
    """A call whose doubts have changed, and where it is."""

    trace: Trace
    tree: SpanTree
    node: SpanNode
    call: LogicalCall


class _Calls:
    """The calls of one tenant, in two generations."""

    __slots__ = ("old", "old_count", "since", "young", "young_count")

    def __init__(self, now: int) -> None:
        self.young: dict[bytes, bytes] = {}
        self.old: dict[bytes, bytes] = {}
        """A digest of what equal calls have in common -> their rows, one behind the other."""
        self.young_count = self.old_count = 0
        self.since = now


class RepeatedCallIds:
    """Remembers calls, and decides which may be told again.

    Args:
        traces: where the spans of remembered calls are found.
    """

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._calls: dict[str, _Calls] = {}
        self._held = Holdings()
        """Calls of each tenant."""

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return self._held.total * ENTRY_BYTES

    def note(self, call: LogicalCall, new: ToolCall, now: int) -> bool:
        """Remembers a call under its session; True if equal ones are remembered, so that it needs a review."""
        keys = _noted_under(call, new.session, new.tool)
        call.noted = keys[0] if keys else b""
        if not keys:
            return False
        row = _ROW.pack(
            new.trace_id, new.span_id, new.start_ns, new.end_ns, _given(new), new.error
        )
        name = self._held.name(new.session.namespace)
        calls = self._calls.get(name)
        if calls is None:
            calls = self._calls[name] = _Calls(now)
        elif not calls.since <= now < calls.since + PERIOD_NS:
            if now >= calls.since + 2 * PERIOD_NS:
                self._age(name, calls, now)
            self._age(name, calls, now)
        alike = _looked_under(call, new.session, new.tool) if call.has_request else keys
        is_known = any(key in calls.young or key in calls.old for key in alike)
        for key in keys:
            known = calls.young.setdefault(key, row)
            if known is not row:
                calls.young[key] = (known + row)[-LIKE_MAX * _ROW.size :]
        self._held.add(name, len(keys))
        calls.young_count += len(keys)
        if calls.young_count >= CALLS_MAX // 2:
            self._age(name, calls, now)
        elif self._held.total >= CALLS_MAX:
            most = self._held.most()
            self._age(most, self._calls[most], now)
            if not self._held.of(most):
                del self._calls[most]
        return is_known

    def note_anew(
        self, call: LogicalCall, new: ToolCall, session: SessionKey, now: int
    ) -> list[Review]:
        """Remembers a call by what is known of it now.

        Returns:
            The calls of its former session whose doubts have changed, since they are not equal to it any more.
        """
        before = call.noted
        if self.note(call, new, now):
            call.shared = True
        if not before or before == call.noted:
            return []
        call.shared = True  # its own doubts may be over
        keys = [before]
        if call.has_request:
            keys += (_key(session, "", new.tool), _key(session, _NAMED, new.tool))
        return [each for key in keys for each in self._review(key, call, new, session)]

    def _age(self, name: str, calls: _Calls, now: int) -> None:
        """Forgets the older calls of a tenant."""
        self._held.add(name, -calls.old_count)
        calls.old, calls.old_count = calls.young, calls.young_count
        calls.young, calls.young_count, calls.since = {}, 0, now

    def review(self, call: LogicalCall, new: ToolCall, session: SessionKey) -> list[Review]:
        """Decides anew which calls of a session that are equal to one are in doubt.

        Args:
            call: the one.
            new: what is known of it by now.
            session: it is, or was, in this session.

        Returns:
            The calls whose doubts have changed.
        """
        changed: list[Review] = []
        for key in _looked_under(call, session, new.tool):
            changed += self._review(key, call, new, session)
        return changed

    def _review(
        self, key: bytes, call: LogicalCall, new: ToolCall, session: SessionKey
    ) -> list[Review]:
        """The same for the calls that are known by one key, also where the call is not known by it any more."""
        changed: list[Review] = []
        seen = self._seen(key, call, new, session)
        for each in seen:
            other, place = each.call, each.place
            if other is None or place is None or each.session is None or other.given_up:
                continue
            like = seen
            if other.has_request or other.service is not None:
                like = self._alike(other, each.session, call, new)
            other.shared = len(like) > 1
            doubts, twinned = _doubts(each, like), _twinned(each, like)
            if doubts != other.doubts or twinned != other.twinned:
                other.twinned = twinned
                other.doubt(doubts)
                changed.append(Review(*place, other))
        return changed

    def _alike(
        self, other: LogicalCall, session: SessionKey, call: LogicalCall, new: ToolCall
    ) -> list[_Seen]:
        """The calls that may be one with another call of a session, and itself, in the order of their starts."""
        found: set[_Seen] = set()
        for key in _looked_under(other, session, new.tool):
            found.update(self._seen(key, call, new, session))
        return sorted(found, key=_order)

    def _seen(
        self, key: bytes, call: LogicalCall, new: ToolCall, session: SessionKey
    ) -> list[_Seen]:
        """The calls under a key, in the order of their starts; each once. Those that are forgotten are the session's."""
        calls = self._calls.get(self._held.name(session.namespace))
        if calls is None:
            return []
        rows = calls.old.get(key, b"") + calls.young.get(key, b"")
        found: dict[int, _Seen] = {}
        for at in range(0, len(rows), _ROW.size):
            trace_id, span_id, start, end, given, error = _ROW.unpack_from(rows, at)
            place = self._place(session, trace_id, span_id)
            other = place[2].call if place is not None else None
            if other is None or place is None:
                owner = session if key != _key_of_service(call, session, new.tool) else None
                found[-at - 1] = _Seen(start, end, span_id, error, given, None, None, owner)
                continue
            known = new if other is call else other.judged
            if other.doubled or known is None:
                continue
            if key not in _noted_under(
                other, known.session, known.tool
            ):  # it has another by now
                continue
            node = place[1].node(known.span_id) or place[2]
            found[id(other)] = _Seen(
                known.start_ns,
                known.end_ns,
                known.span_id,
                known.error,
                _given(known),
                (place[0], place[1], node),
                other,
                known.session,
            )
        return sorted(found.values(), key=_order)

    def _place(
        self, session: SessionKey, trace_id: bytes, span_id: bytes
    ) -> tuple[Trace, SpanTree, SpanNode] | None:
        trace = self._traces.find(session.namespace, trace_id)
        tree = trace.tree if trace is not None else None
        node = tree.node(span_id) if tree is not None else None
        if trace is None or tree is None or node is None or node.call is None:
            return None
        return trace, tree, node


def _order(seen: _Seen) -> tuple[int, int, bytes]:
    return seen.start_ns, -seen.end_ns, seen.span_id


def _noted_under(call: LogicalCall, session: SessionKey, tool: str) -> tuple[bytes, ...]:
    """Digests of what calls that may be one have in common. The first is the call's own.

    A request to a server of which it is known who asked is found by those of which it is not, too. Two of which it is known
    are told apart by that, and never compared. They outlive the process, in snapshots: Python's own hashes are others in the next one.
    """
    name = _name(call)
    if not call.has_request:
        if not name:
            return ()
        own = _digest(session.namespace, session.id, name, tool)
        if call.service is None:
            return (own,)
        return own, _digest(session.namespace, f"\0{call.service}", name, tool)
    found = (_key(session, name, tool), _key(session, _NAMED, tool))
    if not name:
        return found[:1]
    return found if call.service is None else (*found, _key_of_service(call, session, tool))


def _looked_under(call: LogicalCall, session: SessionKey, tool: str) -> tuple[bytes, ...]:
    """Digests under which calls are found that may be one with a call."""
    noted = _noted_under(call, session, tool)
    if not call.has_request:
        return noted
    if len(noted) == 1:
        return (*noted, _key(session, _NAMED, tool))
    own, _, *rest = noted
    return (own, _key(session, "", tool), *rest)


def _key_of_service(call: LogicalCall, session: SessionKey, tool: str) -> bytes:
    """What a call is known by in all sessions of its service, whose calls may wait for their conversation; b"" if they do not."""
    if call.service is None:
        return b""
    return _digest(session.namespace, f"\0{call.service}", _name(call), tool)


def _name(call: LogicalCall) -> str:
    """Its id, or what stands for one; "" if nothing does."""
    return call.call_id or (f"\0{call.request.hex()}" if call.request else "")


def _key(session: SessionKey, call_id: str, tool: str) -> bytes:
    return _digest(session.namespace, session.id, call_id, tool)


def _digest(namespace: str, owner: str, call_id: str, tool: str) -> bytes:
    text = f"{namespace}\0{owner}\0{call_id}\0{tool}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _given(call: ToolCall) -> int:
    """A digest of the arguments; 0 if they are unknown."""
    arguments = call.arguments
    if arguments is None or type(arguments) is PartialArguments:
        return 0
    return int.from_bytes(digest_of(arguments)[:8], signed=True) or 1


def _doubts(seen: _Seen, like: Iterable[_Seen]) -> tuple[Cause, ...]:
    """Why a call may be one of those before it, or have failed as one of those behind it did, which may be the same."""
    causes = set[Cause]()
    for each in like:
        if _order(each) < _order(seen):
            cause = _doubt(each, seen)
        else:
            cause = Cause.CONTRADICTED if _may_fail_as(seen, each) else None
        if cause is not None:
            causes.add(cause)
    if seen.call is not None:
        causes.update(doubts_of_span(seen.call))
    return tuple([cause for cause in Cause if cause in causes]) if causes else ()


def _twinned(seen: _Seen, like: Iterable[_Seen]) -> bytes:
    """The nearest span above both a call and one that may be the same and runs meanwhile, below another span.

    b"" if there is none, or none is known yet: then the call is looked at again once more is known of what is above it.
    """
    place = seen.place
    if place is None:
        return b""
    for each in like:
        other = each.place
        if other is None or each is seen or other[1] is not place[1]:
            continue
        first, later = (each, seen) if _order(each) < _order(seen) else (seen, each)
        if other[2].above is place[2].above or _doubt(first, later) is not Cause.TOLD_TWICE:
            continue
        mine, others = _above(place[2], place[1]), _above(other[2], place[1])
        for node in mine:
            if node in others:
                return node.span_id
        if mine and not mine[-1].came:
            place[1].wait(mine[-1], place[2].span_id)
    return b""


def _above(node: SpanNode, tree: SpanTree) -> list[SpanNode]:
    """The spans above a call, nearest first, up to the first that has not come; none from another call on."""
    return list(takewhile(_is_no_call, tree.ancestors(node)))


def _is_no_call(node: SpanNode) -> bool:
    return node.call is None


def _may_fail_as(seen: _Seen, later: _Seen) -> bool:
    """True if a later call failed that a call may be: sent again, or written once more."""
    one, other = seen.call, later.call
    if seen.error or not later.error or one is None or other is None:
        return False
    cause = _doubt(seen, later)
    return cause is Cause.ROUND_TRIP or (
        cause is Cause.TOLD_TWICE and _is_copy(seen, later, one, other)
    )


def is_known(call: LogicalCall) -> bool:
    """True if something is known of a call by which equal ones are found."""
    return bool(call.call_id or call.request or call.has_request)


def doubts_of_span(call: LogicalCall) -> tuple[Cause, ...]:
    """Why a call may be one that was told under the ids of its span; if it has an id of its own, that says it."""
    return (Cause.REPLAYED,) if call.retold and not call.call_id else ()


def _doubt(first: _Seen, later: _Seen) -> Cause | None:
    """Why two calls may be one; None if they are two for certain."""
    one, other = first.call, later.call
    if first.session != later.session and not (_is_unplaced(one) or _is_unplaced(other)):
        return None
    if one is None or other is None:
        same = first.given == later.given or not (first.given and later.given)
        return Cause.REPLAYED if same and first.error is later.error else None
    if one.against(other):
        return Cause.TOLD_TWICE if _is_copy(first, later, one, other) else None
    if not other.call_id and not _is_asked_again(one, other):
        if first.given == later.given and _is_copy(first, later, one, other):
            return Cause.TOLD_TWICE
        if one.has_request and _is_same_request(one, other):
            return Cause.TOLD_TWICE
        rounds = one.may_be_round and other.may_be_round and _may_be_round(first, later)
        return Cause.ROUND_TRIP if rounds else None
    if overlaps(one.outer, other.outer):
        return Cause.TOLD_TWICE
    return Cause.REPLAYED if first.error is later.error else None


def _is_unplaced(call: LogicalCall | None) -> bool:
    return call is not None and call.unplaced


def _is_copy(first: _Seen, later: _Seen, one: LogicalCall, other: LogicalCall) -> bool:
    """True if the spans of two calls differ in their ids alone."""
    if one.retold or other.retold or one.begun_anew or other.begun_anew:
        return _is_copy_in_part(first, later, one, other)
    few, many = sorted((one.pieces.values(), other.pieces.values()), key=len)
    return (
        is_copy(one.outer, other.outer)
        # A server's span says what its client's may leave open.
        and (first.error is later.error or one.outer.error is other.outer.error)
        and all(any(is_copy(each, like) for like in many) for each in few)
    )


def _is_copy_in_part(first: _Seen, later: _Seen, one: LogicalCall, other: LogicalCall) -> bool:
    """The same where spans came again under their ids with a later start.

    The earlier one's end and status were provisional, and the later one's start is not that of the call.
    """
    is_open = one.begun_anew or other.begun_anew
    return (
        (first.start_ns == later.start_ns or one.retold or other.retold)
        and (is_open or (first.end_ns == later.end_ns and first.error is later.error))
        and agree(one.outer, other.outer)
    )


def _is_same_request(one: LogicalCall, other: LogicalCall) -> bool:
    """True if requests to a server that overlap, under different parents, have one id.

    It is one request that is told twice, or two of two connections, each of which counts its own.
    """
    mine, others = one.outer, other.outer
    return (
        not (mine.parent == others.parent != b"")
        and overlaps(mine, others)
        and one.request_id == other.request_id != ""
    )


def _is_asked_again(one: LogicalCall, other: LogicalCall) -> bool:
    """True if the answers that asked for two calls are one that came again."""
    same = bool(other.request) and one.request == other.request
    return same and one.request_span != other.request_span


def _may_be_round(first: _Seen, later: _Seen) -> bool:
    """True if a request to an MCP server may be the one before it, sent again.

    It is sent where the first one was: below the same span. While the span above a request has not come, that may be
    the client's span of the same request.
    """
    if first.error or first.place is None or later.place is None:
        return False
    if (
        first.start_ns > 0 and first.end_ns > later.start_ns
    ):  # without a start, its times say nothing
        return False
    one, other = first.place[2], later.place[2]
    if first.place[0] is later.place[0]:
        return one.above is other.above or not (_is_known(one) and _is_known(other))
    return one.above is None or other.above is None


def _is_known(node: SpanNode) -> bool:
    """True if what is above a span has come, or nothing is above it."""
    return node.above is None or node.above.came
