"""What one session has seen, for the rules of one spec over data: results by digests, remembered values, and who asks.

Idea: of each call that a rule takes values from, a record has the digests of them (`SourceCall`). Of each call that a rule
compares, a record has its own values, and all that is needed to find its token again (`AskingCall`). So when a source comes
late, or turns out otherwise, the calls behind it get their tokens anew, without their arguments.

Invariants:

- A record is made from its call alone. What the rules say follows from the set of records, so the order of arrival does
  not matter.
- Everything is bounded: beyond a bound the earliest records go, and what is not found among the others is unknown.

Example: `look_up_order` returned `{"id": "A1"}`. `refund(order="A1")` asks whether "A1" is from there: its digest is in the
index, under a record that ended before the refund began. So it is.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.alphabet.alphabet import OwnFacts
from monitor.alphabet.things import CallThings
from monitor.records import ToolCall
from monitor.session.data.comparisons import ComparedValue
from monitor.session.data.value_digests import DIGEST_BYTES
from monitor.weights import arguments_bytes

__all__ = [
    "ASKING_MAX",
    "LEAVES_MAX",
    "NEVER_NS",
    "SOURCES_MAX",
    "AskingCall",
    "Operand",
    "SeenValues",
    "Setting",
    "SourceCall",
    "UserText",
]

SOURCES_MAX: Final = 4_096
"""Records of calls that values are taken from, of one session under one spec."""

LEAVES_MAX: Final = 20_000
"""Leaves that they hold together."""

ASKING_MAX: Final = 1_024
"""Records of calls that ask, of one session under one spec: as many as a log has steps at most."""

NEVER_NS: Final = 1 << 62
"""End of a call that has not ended."""

_SOURCE_BYTES: Final = 400
_LEAF_BYTES: Final = 150
_ASKING_BYTES: Final = 1_200
"""Approximate bytes of a record, and of a leaf with its place in the index, or another value."""


class Setting(NamedTuple):
    """What a call sets a remembered value to."""

    name: str
    known: bool
    """False if that is not known."""
    values: tuple[ComparedValue, ...]
    sure: bool
    """False if it may as well set none: it may have failed, or not have been made."""
    things: CallThings | None = None
    """Things that it sets the value for, under a spec with `each`; None: for every thing."""


@mypyc_attr(acyclic=True)
class SourceCall:
    """A call that values are taken from. Times are Unix nanoseconds."""

    __slots__ = (
        "answer",
        "at",
        "begin_ns",
        "end_ns",
        "folded_words",
        "leaves",
        "received_ns",
        "settings",
        "span_id",
        "sure",
        "tool",
        "whole",
        "words",
    )

    def __init__(
        self,
        tool: str,
        span_id: bytes,
        times: tuple[int, int, int, int],
        answer: bytes,
        *,
        leaves: bytes,
        words: bytes,
        folded_words: bytes,
        whole: bool,
        sure: bool,
        settings: tuple[Setting, ...],
    ) -> None:
        self.tool = tool
        self.span_id = span_id
        self.at, self.begin_ns, self.end_ns, self.received_ns = times
        """`at` is its place in the order of calls; the end is `NEVER_NS` while it has not ended."""
        self.answer = answer
        self.leaves = leaves
        """Digests of the leaves of its result, packed."""
        self.words = words
        self.folded_words = folded_words
        self.whole = whole
        """False if its result may have had more leaves."""
        self.sure = sure
        """False if it may not have been made here."""
        self.settings = settings

    @property
    def order(self) -> tuple[int, int, bytes]:
        """Its place among the calls, as logs have it."""
        return self.at, self.end_ns, self.span_id

    def digests(self) -> Iterator[int]:
        """Digests of its leaves."""
        for place in range(0, len(self.leaves), DIGEST_BYTES):
            yield int.from_bytes(self.leaves[place : place + DIGEST_BYTES], "big")

    def size(self) -> int:
        """Approximate bytes."""
        leaves = _LEAF_BYTES * (len(self.leaves) // DIGEST_BYTES)
        values = sum(len(each.values) for each in self.settings)
        words = len(self.words) + len(self.folded_words)
        return _SOURCE_BYTES + leaves + words + _LEAF_BYTES * values


class Operand(NamedTuple):
    """What a call gives to one condition."""

    known: bool
    """False if the argument is not known, or too large to be compared."""
    absent: bool
    """True if there is no such argument; where it is not known, if there may be none."""
    values: tuple[ComparedValue, ...]


@mypyc_attr(acyclic=True)
class AskingCall:
    """A call that is compared with what was seen before it. Times are Unix nanoseconds."""

    __slots__ = (
        "at",
        "begin_ns",
        "call",
        "end_ns",
        "operands",
        "own",
        "received_ns",
        "things",
        "token",
    )

    def __init__(
        self,
        call: ToolCall,
        times: tuple[int, int, int, int],
        own: OwnFacts,
        operands: tuple[Operand, ...],
        things: CallThings | None = None,
    ) -> None:
        self.call = call
        """The call, without result, and without arguments but those that say which things it is about."""
        self.things = things
        """Things that it is about, under a spec with `each`; None: every thing."""
        self.at, self.begin_ns, self.end_ns, self.received_ns = times
        self.own = own
        self.operands = operands
        """One for each condition of its tool, in their order."""
        self.token: int | None = None
        """The token by which it was judged last; None if the spec does not name it."""

    def size(self) -> int:
        """Approximate bytes."""
        total = _ASKING_BYTES + arguments_bytes(self.call.arguments)
        for operand in self.operands:
            for each in operand.values:
                total += _LEAF_BYTES + len(each.words)
        return total

    @property
    def order(self) -> tuple[int, int, bytes]:
        """Its place among the calls, as logs have it."""
        return self.at, self.end_ns, self.call.span_id


class UserText(NamedTuple):
    """A message of the user."""

    key: int
    """Digest of it."""
    at_ns: int
    """Time by which it was said, Unix nanoseconds."""
    is_cut: bool
    """True if its end was too long to be read."""
    words: bytes
    folded_words: bytes
    readings: tuple[int, ...]
    """Digests of the numbers, dates and times in it."""


class SeenValues:
    """What is kept of one session for the rules of one spec."""

    __slots__ = (
        "_by_leaf",
        "_bytes",
        "_changed_ns",
        "_last_end_ns",
        "_leaves",
        "asking",
        "dropped",
        "partial",
        "setting",
        "sources",
    )

    def __init__(self) -> None:
        self.sources: dict[bytes, SourceCall] = {}
        """Calls whose results are kept, by span id."""
        self.partial: dict[bytes, SourceCall] = {}
        """Sources whose results may have had more leaves, or words."""
        self.setting: dict[str, list[SourceCall]] = {}
        """Calls that set a value, or may, by its name, in their order."""
        self.asking: dict[bytes, AskingCall] = {}
        """Calls whose symbol depends on values seen, by span id."""
        self.dropped = 0
        """Until when records were dropped for a bound, Unix nanoseconds; 0 if none was."""
        self._by_leaf: dict[int, list[SourceCall]] | None = None
        """Digest of a leaf -> the calls whose results had it; made when it is first asked for."""
        self._leaves = 0
        self._bytes: int | None = 0
        """Approximate bytes of all records; None until they are weighed: no snapshot keeps it."""
        self._changed_ns = NEVER_NS
        """The earliest begin of a source that has changed since the askers were looked at."""
        self._last_end_ns = -1
        """The latest end of an asker."""

    def copy(self) -> SeenValues:
        """The same, to be changed apart from now on. Records of sources never change."""
        twin = SeenValues()
        twin.sources, twin.partial = dict(self.sources), dict(self.partial)
        twin.setting = {name: list(found) for name, found in self.setting.items()}
        twin.asking = {span: _twin(each) for span, each in self.asking.items()}
        twin.dropped, twin._leaves, twin._bytes = self.dropped, self._leaves, self._bytes
        twin._changed_ns, twin._last_end_ns = self._changed_ns, self._last_end_ns
        return twin

    def size(self) -> int:
        """Approximate bytes."""
        if self._bytes is None:
            self._bytes = sum([each.size() for each in self.sources.values()])
            self._bytes += sum([each.size() for each in self.asking.values()])
        return self._bytes

    def _grow(self, size: int) -> None:
        if self._bytes is not None:
            self._bytes += size

    # --- sources ----------------------------------------------------------------------------------

    def add(self, source: SourceCall) -> int:
        """Takes the record of a call, in place of what was known of it; returns how many records went for a bound."""
        self.remove(source.span_id)
        self.sources[source.span_id] = source
        self._leaves += len(source.leaves) // DIGEST_BYTES
        self._grow(source.size())
        if not source.whole:
            self.partial[source.span_id] = source
        if self._by_leaf is not None:
            self._enter(self._by_leaf, source)
        for each in source.settings:
            insort(self.setting.setdefault(each.name, []), source, key=_order)
        self.touch(source.begin_ns)
        return self._make_room() if self._is_full() else 0

    def remove(self, span_id: bytes) -> None:
        """A call is none, or turns out otherwise."""
        source = self.sources.pop(span_id, None)
        if source is None:
            return
        self.touch(source.begin_ns)
        self._leaves -= len(source.leaves) // DIGEST_BYTES
        self._grow(-source.size())
        self.partial.pop(span_id, None)
        self._by_leaf = self._by_leaf if not source.leaves else self._without(source)
        for each in source.settings:
            found = [one for one in self.setting[each.name] if one is not source]
            self.setting[each.name] = found

    def _without(self, source: SourceCall) -> dict[int, list[SourceCall]] | None:
        index = self._by_leaf
        if index is not None:
            for digest in source.digests():
                found = index.get(digest)
                if found is not None and source in found:
                    found.remove(source)
        return index

    def _enter(self, index: dict[int, list[SourceCall]], source: SourceCall) -> None:
        for digest in source.digests():
            index.setdefault(digest, []).append(source)

    def with_leaf(self, digest: int) -> list[SourceCall]:
        """The calls whose results had a leaf."""
        index = self._by_leaf
        if index is None:
            index = self._by_leaf = {}
            for source in self.sources.values():
                self._enter(index, source)
        return index.get(digest) or []

    def _is_full(self) -> bool:
        return len(self.sources) > SOURCES_MAX or self._leaves > LEAVES_MAX

    def _make_room(self) -> int:
        """Drops the earliest records, a sixteenth at least."""
        least = max(1, len(self.sources) // 16)
        count = 0
        for source in sorted(self.sources.values(), key=_order):
            if count >= least and not self._is_full():
                break
            self.dropped = max(self.dropped, source.begin_ns + 1)
            self.remove(source.span_id)
            count += 1
        self.touch(0)
        return count

    def as_received(self, span_id: bytes, times: tuple[int, int, int]) -> tuple[int, int, int]:
        """Place, begin and receipt of a call; what is told again of a call was received when it was told first."""
        known = self.asking.get(span_id) or self.sources.get(span_id)
        return times if known is None else (*times[:2], known.received_ns)

    # --- those that ask -------------------------------------------------------------------------------

    def ask(self, asking: AskingCall) -> None:
        """Takes the record of a call that asks, in place of what was known of it."""
        self.forget((asking.call.span_id,))
        self.asking[asking.call.span_id] = asking
        self._grow(asking.size())
        self._last_end_ns = max(self._last_end_ns, asking.end_ns)
        if len(self.asking) > ASKING_MAX:
            earliest = min(self.asking.values(), key=_order_of_asking)
            self.forget((earliest.call.span_id,))

    def forget(self, span_ids: Iterable[bytes]) -> None:
        """Calls ask no more: their verdicts do not change any more."""
        for span_id in span_ids:
            asking = self.asking.pop(span_id, None)
            if asking is not None:
                self._grow(-asking.size())

    def touch(self, since_ns: int) -> None:
        """Something has changed that calls from a time on may depend on."""
        self._changed_ns = min(self._changed_ns, since_ns)

    def concerned(self) -> list[AskingCall]:
        """The calls whose tokens may have changed since it was asked last, in their order."""
        since, self._changed_ns = self._changed_ns, NEVER_NS
        if self._last_end_ns < since:
            return []
        found = [each for each in self.asking.values() if each.end_ns >= since]
        return sorted(found, key=_order_of_asking)

    def absorb(self, other: SeenValues) -> int:
        """Takes over what another session has seen; returns how many records went for a bound."""
        count = sum([self.add(each) for each in other.sources.values()])
        for each in other.asking.values():
            self.ask(each)
        self.dropped = max(self.dropped, other.dropped)
        self.touch(0)
        return count


def _twin(asking: AskingCall) -> AskingCall:
    times = (asking.at, asking.begin_ns, asking.end_ns, asking.received_ns)
    twin = AskingCall(asking.call, times, asking.own, asking.operands, asking.things)
    twin.token = asking.token
    return twin


def _order(source: SourceCall) -> tuple[int, int, bytes]:
    return source.order


def _order_of_asking(asking: AskingCall) -> tuple[int, int, bytes]:
    return asking.order
