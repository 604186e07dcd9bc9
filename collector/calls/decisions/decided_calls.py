"""Calls that were decided before they were made, until they are settled.

Idea: a decided call that goes ahead is in no session yet. It stands here, beside its session: later decisions count on it
(`beside`), and nothing else does. Once a span tells of it (`meet`), the span's call is judged as if nobody had asked. If
no span tells of it, its client may (`settle`): then the session has it as the client says, until a span takes its place.
If nobody does, it is forgotten. So asking changes no session, no verdict, and no sum.

Which span is of which decided call (`_rank`), the best first:

1. The span has the id that the client gave for it.
2. Both have the same call id. Several calls may have one: some servers number calls anew in each turn, or give the
   tool's name. A refusal's own words, then what is known to have been made and the nearest time tell them apart.
3. Tool and arguments agree, one of them has no call id, and the decision is near: inside the span's time, or at most
   `confirm_ns` from its start. Of several the nearest counts.

They must be of one trace, or else of one session, and of one service. Each decided call is met by one call at most, so that
identical parallel calls meet one each. The first two are *strong*: a call that is met otherwise (3) gives way to them,
whichever span comes first.

A span may also be that of a call that was not made: frameworks write one of a call that was refused. Such a span meets a
decided call by its arguments alone only if these are known in both.

Invariant: an entry is in the indexes as long as a span may still meet it; `known` is True exactly while the monitor has
its call. All is bounded in number and bytes, and what is over a bound is of the tenant that holds most.

Example: `pay(5)` is decided at 10:00:00 and goes ahead: the next decision counts on it. Its span arrives at 10:00:05: it
began at 10:00:00.1 and ended at 10:00:04. It is the same call, so from now on the session has it, and the table does not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from collector.calls.call.call import LogicalCall
from collector.calls.call.piece import Piece
from collector.calls.call.same_call import agree
from collector.calls.sessions.session_ids import SERVICE
from collector.calls.tree.trace import Trace
from collector.dialects.read import SpanReading
from monitor.decision import CallDecision
from monitor.partial import PartialArguments
from monitor.records import FROM_DECISION, Evidence, Proof, SessionKey, ToolCall
from monitor.session.things.lost_calls import LOOKED_AT_MAX, LostCalls
from monitor.session.things.thing_reservations import CLAIM_KEY_BYTES, ThingReservations
from monitor.tenants import Holdings, SharedValues
from monitor.weights import arguments_bytes, text_bytes

__all__ = [
    "CONFIRM_NS",
    "OUTCOMES",
    "UNMADE",
    "DecidedCall",
    "DecidedCalls",
    "DecisionState",
    "Outcome",
    "QuestionCall",
]

Outcome = Literal["ran", "failed", "skipped"]

OUTCOMES: Final[tuple[Outcome, ...]] = ("ran", "failed", "skipped")
"""Outcomes that a client may report of a decided call: made, made and failed, not made."""

WEAK: Final = 2
"""The rank of a call that is found by its arguments alone."""

SECOND: Final = 1_000_000_000
CONFIRM_NS: Final = 60 * SECOND
"""Time after which a decided call counts no more, if nothing has confirmed it."""

REMEMBER_NS: Final = 600 * SECOND
"""Time for which a decided call is remembered after that: as long as ids of spans are (`duplicate_spans`)."""

ENTRIES_MAX: Final = 65_536
"""Decided calls that are remembered."""

BYTES_MAX: Final = 64 << 20
"""Approximate bytes of all decided calls."""

ENTRY_BYTES: Final = 1_536
"""Approximate bytes of one without its arguments: the call, its piece, its decision, and its places
in the indexes."""

DIGITS_MAX: Final = 16
"""Hexadecimal digits of a decision's number."""

BESIDE_MAX: Final = 256
"""Calls of one session that go ahead and are not confirmed; the least needed counts no more at the bound."""

BEGINNINGS_MAX: Final = 10_000
"""Sessions that clients have reported as new."""

BEGINNING_BYTES: Final = 512
"""Approximate bytes of one of them."""

SHORT_ID: Final = 32
"""Characters of a session's id that are remembered as they are."""

ALIKE_MAX: Final = 64
"""Calls of one tool in one session, or in one trace, that a span may meet, beside those on their way; the oldest is settled at
the bound."""


class QuestionCall(NamedTuple):
    """A call that a client asks about. Ids are raw bytes; "" and b"" if there is none."""

    session: str
    agent: str
    tool: str
    arguments: Mapping[str, Any] | None
    """None if they are not known."""
    call_id: str
    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    question_id: str = ""
    """The client's own id of its question; the same when it asks once more since it got no answer."""
    place: int = 0
    """Among the calls of its question."""


class DecisionState(StrEnum):
    """What is known of a decided call."""

    OPEN = "open"
    """The call goes ahead; nothing has confirmed it yet, and no session has it."""
    RAN = "ran"
    """The client reported that the call was made."""
    FAILED = "failed"
    """The client reported that the call was made and failed."""
    SKIPPED = "skipped"
    """The client reported that the call was not made."""
    DENIED = "denied"
    """The call was denied, and nothing shows that it was made."""
    EXPIRED = "expired"
    """Nothing confirmed it in time."""
    CONFIRMED = "confirmed"
    """A span has confirmed the call."""


UNMADE: Final = (DecisionState.SKIPPED, DecisionState.DENIED)
"""States of a call that was not made, as far as is known."""


class NewSession(NamedTuple):
    """A client says that a session begins."""

    proof: Proof
    expires_ns: int


class DecisionMatch(NamedTuple):
    """A call that met a decided one."""

    call: LogicalCall
    told: ToolCall
    """The call as its spans describe it."""
    trace: Trace
    state: DecisionState
    """State of the earlier decided call."""
    is_weak: bool
    """True if it was found by its arguments alone."""


class DecidedCall:
    """One decided call."""

    __slots__ = (
        "asked",
        "call",
        "decision",
        "expires_ns",
        "is_denied",
        "known",
        "met",
        "number",
        "own_bytes",
        "piece",
        "sender",
        "size",
        "state",
        "tenant",
    )

    def __init__(
        self,
        number: int,
        asked: QuestionCall,
        call: ToolCall,
        decision: CallDecision,
        sender: str | None,
        *,
        is_denied: bool,
        expires_ns: int,
    ) -> None:
        self.number = number
        self.asked = asked
        self.call = call
        """The call as the monitor has it, or would have it."""
        self.decision = decision
        self.sender = sender
        """The name of the client's token; None if no token is required."""
        self.is_denied = is_denied
        self.expires_ns = expires_ns
        self.known = False
        """True while the monitor has the call."""
        self.met: DecisionMatch | None = None
        """The call that met it, while that may turn out otherwise."""
        self.state = DecisionState.DENIED if is_denied else DecisionState.OPEN
        self.tenant = ""
        """Tenant under whose name the decision is held."""
        self.piece = Piece(
            call.span_id,
            call.parent_span_id,
            SpanReading(SOURCE, call.tool, call.arguments, call_id=call.call_id),
            call.start_ns,
            call.end_ns,
            Evidence.DECIDED,
            call.attributes,
        )
        """The question as a piece, for the comparison with spans."""
        self.own_bytes = ENTRY_BYTES + _texts(asked) + arguments_bytes(call.attributes)
        self.own_bytes += CLAIM_KEY_BYTES * sum(1 + len(each.keys) for each in decision.claims)
        """Approximate bytes without its arguments. Its attributes may be shared with other calls."""
        self.size = self.own_bytes + arguments_bytes(call.arguments)

    @property
    def counts(self) -> bool:
        """True while it is on its way: later decisions count on it."""
        return self.state is DecisionState.OPEN

    @property
    def moves_nothing(self) -> bool:
        """True if later calls hardly depend on it."""
        return self.decision.moves_nothing

    def free(self) -> int:
        """Frees its arguments, and keeps a digest; returns the bytes that they took, about."""
        if self.call.arguments is None:
            return 0
        freed = self.size - self.own_bytes
        self.piece.give_up()
        self.call = self.call._replace(arguments=None)
        self.asked = self.asked._replace(arguments=None)
        self.size = self.own_bytes
        return freed


def _short(key: SessionKey) -> SessionKey:
    """The session, with a digest in place of a long id, so that `BEGINNING_BYTES` bounds what it takes."""
    if len(key.id) <= SHORT_ID:
        return key
    return SessionKey(
        key.namespace,
        blake2b(key.id.encode(errors="surrogatepass"), digest_size=16).hexdigest(),
    )


SaysRefusal = Callable[[DecidedCall, LogicalCall], bool]


def _texts(asked: QuestionCall) -> int:
    texts = (asked.session, asked.agent, asked.tool, asked.call_id, asked.question_id)
    return sum(map(text_bytes, texts))


SOURCE: Final = FROM_DECISION
"""The source of decided calls, as a span's is its dialect."""

_Index = dict[Any, dict[str, list[DecidedCall]]]


class DecidedCalls:
    """All decided calls that are remembered, in the order of their decisions.

    Args:
        confirm_ns: time for a span or the client to confirm a call.
        seed: begins the ids of this process's decisions, so that another process's are unknown here.
        entries_max: bound on their number.
        bytes_max: bound on what they take.
    """

    def __init__(
        self,
        confirm_ns: int = CONFIRM_NS,
        seed: bytes = b"",
        entries_max: int = ENTRIES_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self.confirm_ns = confirm_ns
        self.seed = seed
        self.last_number = 0
        """Number of the latest decision."""
        self.size = 0
        """Calls that a span may meet."""
        self.overflowed = 0
        """Calls that were forgotten before their time, at a bound."""
        self.reservations = ThingReservations()
        """Open calls, as they count for questions of other sessions: those of the monitor that decides."""
        self.entries_max = entries_max
        """Greatest number of them."""
        self.bytes_max = bytes_max
        """What they take at most, about."""
        self._by_number: dict[int, DecidedCall] = {}
        self._by_tenant: dict[str, OrderedDict[int, DecidedCall]] = {}
        self._counts = Holdings()
        self._bytes = Holdings()
        self._open: OrderedDict[int, DecidedCall] = OrderedDict()
        """Calls that nothing has confirmed yet, in the order in which they expire."""
        self._beside: dict[SessionKey, dict[int, DecidedCall]] = {}
        """The same by session, in the order of their decisions."""
        self._passed_over: set[int] = set()
        """Numbers of open calls whose spans may have been taken for those of others that were refused."""
        self.beginnings: SharedValues[NewSession] = SharedValues(BEGINNINGS_MAX)
        """Reported beginnings of sessions that have made no call yet."""
        self._by_trace: _Index = {}
        """(namespace, trace id) -> tool -> calls."""
        self._by_session: _Index = {}
        """Session -> tool -> calls."""

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[DecidedCall]:
        return iter(self._by_number.values())

    @property
    def held_bytes(self) -> int:
        """What they take, about, with what was said of beginnings."""
        return self._bytes.total + BEGINNING_BYTES * len(self.beginnings)

    def name(self, number: int) -> str:
        """The id of a decision."""
        return f"{self.seed.hex()}-{number:x}"

    def named(self, decision_id: str) -> DecidedCall | None:
        """The call of a decision, by its id."""
        prefix = f"{self.seed.hex()}-"
        digits = decision_id[len(prefix) :]
        if not decision_id.startswith(prefix) or not 0 < len(digits) <= DIGITS_MAX:
            return None
        try:
            entry = self._by_number.get(int(digits, 16))
        except ValueError:
            return None
        return entry if entry is not None and self.name(entry.number) == decision_id else None

    def add(self, entry: DecidedCall) -> list[DecidedCall]:
        """Remembers a decided call.

        Returns:
            Calls that are forgotten for it, and that nothing has confirmed.
        """
        entry.tenant = self._counts.name(entry.call.session.namespace)
        self._by_number[entry.number] = entry
        self._by_tenant.setdefault(entry.tenant, OrderedDict())[entry.number] = entry
        self._counts.add(entry.tenant, 1)
        self._bytes.add(entry.tenant, entry.size)
        self._index(entry)
        gone = list[DecidedCall]()
        if entry.state is DecisionState.OPEN:
            self._open[entry.number] = entry
            mine = self._beside.setdefault(entry.call.session, {})
            mine[entry.number] = entry
            self.reservations.reserve(
                entry.call.session, entry.decision.claims, entry.expires_ns
            )
            if len(mine) > BESIDE_MAX:
                self.overflowed += 1
                gone += self._lost(LostCalls.least_needed(mine.values()))
        while len(self._by_number) > self.entries_max:
            gone += self._give_way(self._counts)
        while self._bytes.total > self.bytes_max and len(self._by_number) > 1:
            gone += self._make_room()
        return gone

    def beside(self, key: SessionKey) -> list[ToolCall]:
        """The calls of a session that go ahead and that nothing has confirmed, the earliest first."""
        found = self._beside.get(key)
        return [entry.call for entry in found.values()] if found is not None else []

    def begin(self, key: SessionKey, proof: Proof, now: int) -> None:
        """A client says that a session begins with the call that it asks about."""
        self.beginnings.put(_short(key), NewSession(proof, now + self.confirm_ns + REMEMBER_NS))

    def beginning(self, key: SessionKey, *, take: bool) -> Proof | None:
        """What a client has said of the beginning of a session; with `take`, the session has it from now on."""
        key = _short(key)
        found = self.beginnings.pop(key) if take else self.beginnings.get(key)
        return found.proof if found is not None else None

    def asked_before(
        self, asked: QuestionCall, key: SessionKey, sender: str | None
    ) -> DecidedCall | None:
        """The open or denied call that a client asks about once more, by its own id of the question.

        A client that did not get the answer asks again. Its call must not be judged as one that was made before.
        No other id says that: two calls may have one call id, which a model's server chooses.
        """
        if not asked.question_id:
            return None
        for entry in self._alike(key, asked.trace_id, asked.tool):
            is_undone = entry.state in (DecisionState.OPEN, DecisionState.DENIED)
            if is_undone and entry.asked == asked and entry.sender == sender:
                return entry
        return None

    # --- telemetry --------------------------------------------------------------------------------

    def meet(
        self, call: LogicalCall, told: ToolCall, says_refusal: SaysRefusal
    ) -> tuple[DecidedCall, bool] | None:
        """The decided call that spans tell of, if any, and whether that is certain.

        Its state is the caller's to change (`settled`).

        Args:
            call: the spans of the call.
            told: what they tell of it.
            says_refusal: True if a call returned the words of a decision's refusal.
        """
        best: DecidedCall | None = None
        rank: tuple[int, ...] = ()
        for entry in self._alike(told.session, told.trace_id, told.tool):
            found = self._rank(entry, call, told, says_refusal)
            if found is not None and (best is None or found < rank):
                best, rank = entry, found
        return None if best is None else (best, rank[0] < WEAK)

    def _alike(self, key: SessionKey, trace_id: bytes, tool: str) -> list[DecidedCall]:
        """Calls of the tool in the trace, and those in the session that are of no other trace."""
        by_trace = self._by_trace.get((key.namespace, trace_id)) if trace_id else None
        by_session = self._by_session.get(key)
        found = list(by_trace.get(tool, ())) if by_trace is not None else []
        for entry in by_session.get(tool, ()) if by_session is not None else ():
            if not (trace_id and entry.asked.trace_id):
                found.append(entry)
        return found

    def _rank(
        self, entry: DecidedCall, call: LogicalCall, told: ToolCall, says_refusal: SaysRefusal
    ) -> tuple[int, ...] | None:
        """How well an entry fits: the least fits best; None if it does not. Below `WEAK` it is the call for certain."""
        piece, made = entry.piece, entry.call
        near = _distance(made.start_ns, told)
        later = int(not (entry.known or entry.state is DecisionState.OPEN))
        if entry.state in UNMADE and says_refusal(entry, call):
            later = -1  # the words are of this decision, whatever call of an equal id was made
        if entry.asked.span_id and entry.asked.span_id in call.pieces:
            return 0, later, 0, near, entry.number
        agrees = all(agree(piece, each) for each in call.pieces.values())
        if made.call_id and told.call_id:
            if made.call_id != told.call_id:
                return None
            # What its client said had ended did not begin after that.
            later |= int(entry.known and made.end_ns < told.start_ns)
            return 1, later, int(not agrees), near, entry.number
        if entry.met is not None or not agrees or near > self.confirm_ns:
            return None
        if not _is_of_one_sender(made, told):
            return None
        is_inside = told.start_ns <= made.start_ns <= told.end_ns
        unsure = not _is_known(made.arguments, piece)
        if entry.state is DecisionState.SKIPPED and (
            unsure or not call.has_told or not is_inside
        ):
            return None  # it is another call, which was made after this one was not
        if entry.state is DecisionState.DENIED and told.end_ns < made.start_ns:
            return None
        differs = not piece.has_told(told.arguments)
        # Of equal calls that were refused, the last one is the one that was made after all.
        unmade = entry.state in UNMADE
        skipped = int(entry.state is DecisionState.SKIPPED and call.is_returned)
        number = -entry.number if unmade else entry.number
        return WEAK, later, skipped, int(differs), near, number

    def settled(self, entry: DecidedCall, state: DecisionState) -> None:
        """Something is known of the call by now."""
        entry.state = state
        self._passed_over.discard(entry.number)
        self._close(entry)
        if state is DecisionState.CONFIRMED and not self._may_be_met_again(entry):
            self._unindex(entry)
        self._bytes.add(entry.tenant, -entry.free())

    def met(self, entry: DecidedCall) -> None:
        """A span told of a call that was not made: no other span is to meet it, unless that one is its own for certain."""
        self.settled(entry, DecisionState.SKIPPED)
        if not self._may_be_met_again(entry):
            self._unindex(entry)

    def _may_be_met_again(self, entry: DecidedCall) -> bool:
        has_id = bool(entry.asked.span_id or entry.asked.call_id)
        return has_id and entry.met is not None and entry.met.is_weak

    def rename(self, old: SessionKey, new: SessionKey, session_from: str) -> None:
        """The calls of one session belong to another one from now on."""
        tools, beside = self._by_session.pop(old, None), self._beside.pop(old, None)
        if beside is not None:
            self._beside[new] = dict(sorted({**self._beside.get(new, {}), **beside}.items()))
        self.reservations.lost.move(old, new)
        said = self.beginnings.pop(_short(old))
        if said is not None:
            self.beginnings.put(_short(new), said)
        for entries in tools.values() if tools is not None else ():
            for entry in entries:
                entry.call = entry.call._replace(session=new, session_from=session_from)
                self.reservations.move(entry.call.span_id, new)
                self._by_session.setdefault(new, {}).setdefault(entry.call.tool, []).append(
                    entry
                )

    # --- time -------------------------------------------------------------------------------------

    def expired(self, now: int) -> list[DecidedCall]:
        """Calls that nothing has confirmed in time: each is returned once."""
        found: list[DecidedCall] = []
        while self._open:
            entry = next(iter(self._open.values()))
            if entry.expires_ns > now:
                break
            self._close(entry)
            entry.state = DecisionState.EXPIRED
            found.append(entry)
        while (first := self.beginnings.first()) is not None and first[1].expires_ns <= now:
            self.beginnings.pop(first[0])
        while self._by_number:
            entry = next(iter(self._by_number.values()))
            if entry.expires_ns + REMEMBER_NS > now:
                break
            self._forget(entry)
        self.reservations.lost.forget(now)
        return found

    def pass_over(self, call: LogicalCall, told: ToolCall) -> None:
        """A span was taken for that of a refused call, by the words of its result: it may be that of an open call, whose tool returned them."""
        for entry in self._alike(told.session, told.trace_id, told.tool):
            if entry.counts and self._rank(entry, call, told, _says_nothing) is not None:
                self._passed_over.add(entry.number)

    def is_passed_over(self, entry: DecidedCall) -> bool:
        """True, once, if the span of an open call may have been taken for another one's."""
        found = entry.number in self._passed_over
        self._passed_over.discard(entry.number)
        return found

    # --- places -----------------------------------------------------------------------------------

    def _index(self, entry: DecidedCall) -> None:
        """Makes a call one that spans may meet. Too many like it are forgotten, but none on its way: denied ones would push it out."""
        self.size += 1
        for index, key in self._places(entry):
            alike = index.setdefault(key, {}).setdefault(entry.call.tool, [])
            alike.append(entry)
            if len(alike) > ALIKE_MAX:
                settled = [each for each in alike if not each.counts]
                for each in settled[:-ALIKE_MAX]:
                    self.overflowed += 1
                    self._forget(each)

    def _unindex(self, entry: DecidedCall) -> None:
        found = False
        for index, key in self._places(entry):
            tools = index.get(key)
            alike = tools.get(entry.call.tool) if tools is not None else None
            if tools is None or alike is None or entry not in alike:
                continue
            found = True
            alike.remove(entry)
            if not alike:
                del tools[entry.call.tool]
                if not tools:
                    del index[key]
        self.size -= found

    def _places(self, entry: DecidedCall) -> Iterator[tuple[_Index, Any]]:
        call = entry.call
        yield self._by_session, call.session
        if entry.asked.trace_id:
            yield self._by_trace, (call.session.namespace, call.trace_id)

    def _give_way(self, held: Holdings) -> list[DecidedCall]:
        """The tenant that holds most loses a call."""
        self.overflowed += 1
        entries = self._by_tenant[held.most()]
        return self._lost(LostCalls.least_needed(entries.values()))

    def _make_room(self) -> list[DecidedCall]:
        """The tenant whose calls take most loses a settled one, or else the arguments of an open one, which are unknown from then on."""
        entries = self._by_tenant[self._bytes.most()].values()
        needed = LostCalls.least_needed(entries)
        heaviest = max(
            islice(entries, LOOKED_AT_MAX), key=lambda each: each.size - each.own_bytes
        )
        if not needed.counts or heaviest.size == heaviest.own_bytes:
            return self._give_way(self._bytes)
        self.overflowed += 1
        self._bytes.add(heaviest.tenant, -heaviest.free())
        return []

    def _lost(self, entry: DecidedCall) -> list[DecidedCall]:
        self._forget(entry)
        if not entry.counts:
            return []
        self.reservations.lost.note(entry.call.session, entry.decision.claims, entry.expires_ns)
        return [entry]

    def _close(self, entry: DecidedCall) -> None:
        """The call counts beside its session no more."""
        if self._open.pop(entry.number, None) is None:
            return
        self.reservations.release(entry.call.span_id)
        mine = self._beside[entry.call.session]
        del mine[entry.number]
        if not mine:
            del self._beside[entry.call.session]

    def _forget(self, entry: DecidedCall) -> None:
        self._passed_over.discard(entry.number)
        self._close(entry)
        self._unindex(entry)
        del self._by_number[entry.number]
        entries = self._by_tenant[entry.tenant]
        del entries[entry.number]
        if not entries:
            del self._by_tenant[entry.tenant]
        self._counts.add(entry.tenant, -1)
        self._bytes.add(entry.tenant, -entry.size)


def _says_nothing(_entry: DecidedCall, _call: LogicalCall) -> bool:
    return False


def _is_of_one_sender(made: ToolCall, told: ToolCall) -> bool:
    """False if a call and a span are of two services or two agents, as far as these are known."""
    one, other = made.attributes.get(SERVICE), told.attributes.get(SERVICE)
    if one is not None and other is not None and one != other:
        return False
    return not (made.agent and told.agent) or made.agent == told.agent


def _is_known(arguments: Mapping[str, Any] | None, piece: Piece) -> bool:
    """True if all arguments of a call that was asked about are known."""
    if arguments is not None:
        return type(arguments) is not PartialArguments
    return piece.freed is not None and piece.freed.whole


def _distance(decided_ns: int, told: ToolCall) -> int:
    """Nanoseconds between a decision and a call: 0 inside its time, else to its start."""
    if told.start_ns <= decided_ns <= told.end_ns:
        return 0
    return abs(told.start_ns - decided_ns)
