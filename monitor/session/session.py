"""One session: the conversation its calls belong to, with a judgement for each spec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from mypy_extensions import mypyc_attr

from monitor.records import FROM_DECISION, FROM_TRACE, AgentName, Proof, SessionKey, ToolCall
from monitor.session.data.seen_values import UserText
from monitor.session.data.session_data import SessionData
from monitor.session.dropped_sessions import mark_of
from monitor.session.hosts import has_one_clock
from monitor.session.judge.judge import Judge
from monitor.session.judgement.fold_log import condense
from monitor.session.judgement.judgement import Judgement
from monitor.session.outside_calls import OutsideCalls
from monitor.session.proofs import of_both
from monitor.session.spec_binding import SpecBinder
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap, with_own
from monitor.weights import call_bytes, text_bytes

__all__ = [
    "ATTRIBUTES_MAX",
    "UNKNOWN_AGENT",
    "Ended",
    "Session",
    "TenantSessions",
    "without_spec",
]

Ended = Literal["idle", "explicit", "operator", "evicted", "input_end"]
"""`operator`: somebody ended it at the service, so that what goes on under its id is another session."""

UNKNOWN_AGENT: Final = "unknown"

_NO_ATTRIBUTE: Final = ("", FROM_TRACE, FROM_DECISION)
"""Sources of a session's id while no attribute names it."""

ATTRIBUTES_MAX: Final = 8
"""Sets of attributes that are remembered of one session; services of one are fewer."""

BYTES: Final = 640
"""Approximate bytes of a session without a call; `SessionLog.size` counts each judgement."""

THING_BYTES: Final = 300
"""Approximate bytes of a thing, under a spec with `each`."""

LOOKED_THROUGH_MAX: Final = 4
"""Up to this many judgements are searched one by one; more are found by a dictionary."""

Binding = tuple[Mapping[str, Any] | None, str, tuple[Mapping[str, Any], ...]]


@mypyc_attr(acyclic=True)
class Session:
    """One session: its facts and its judgements. Times are Unix nanoseconds.

    While it is live, it and its neighbours refer to each other. `Table` breaks this cycle.
    """

    __slots__ = (
        "_index",
        "_mark",
        "_named_by",
        "_named_ns",
        "_others",
        "_outside",
        "_source",
        "_sources",
        "agent",
        "answer",
        "binder",
        "bound_as",
        "bound_late",
        "bound_on",
        "caller",
        "carried",
        "causes",
        "chain",
        "data",
        "ended",
        "foreign",
        "fresh",
        "gaps",
        "held",
        "judged",
        "judgements",
        "judges",
        "key",
        "last_ns",
        "late",
        "ledger_version",
        "newer",
        "not_judged",
        "of_clocks",
        "older",
        "opened_ns",
        "owed",
        "proof",
        "queued",
        "seen",
        "session_from",
        "spans",
        "started_ns",
        "touched_ns",
        "weight",
    )

    def __init__(self, key: SessionKey, call: ToolCall, now: int) -> None:
        # Fields that each call needs come first, to share cache lines. Compiled bools that stand together
        # take a byte each.
        self.key = key
        self.older: Session | None = None
        self.newer: Session | None = None
        """Neighbours in the chain of the tenant, by last activity (`monitor.session.table`)."""
        self.chain: TenantSessions | None = None
        """The table's chains; None once the session is not live."""
        self.touched_ns = now
        self.started_ns = call.start_ns
        self.last_ns = call.end_ns
        self.caller: Mapping[str, Any] | None = call.attributes
        """The attributes of its last call; None where it is not known."""
        self._source = call.source
        self._sources: Counter[str] | None = None
        """Calls by the dialect that read them, if there is more than one."""
        self.session_from = call.session_from
        self.agent = _service(call)
        self._named_ns = 0
        self._named_by = b""
        """(start, id) of the span that named the agent; an empty id while none has."""
        self.bound_on: Mapping[str, Any] | None = None
        self.bound_as = ""
        """The attributes (by identity) and the agent of the last binding of specs."""
        self.judges: tuple[Judge, ...] = ()
        self.judgements: tuple[Judgement, ...] = ()
        self._index: dict[tuple[Judge, str], Judgement] | None = None
        """Judgements by spec and part, if they are too many to search one by one."""
        self.held: list[ToolCall] | None = None
        """The calls so far, with their arguments, while another spec may bind; else None."""
        self.owed: list[tuple[ToolCall, tuple[Judge, ...]]] | None = None
        """Held calls whose judging raised an error, each with the specs that owe it a verdict."""
        self.seen = 0
        """The number of calls so far. It equals the number of held calls if none was dropped."""
        self.judged = 0
        self.of_clocks = False
        """True once calls of several hosts were seen: each may have a clock of its own."""
        self.bound_late = False
        """True if a spec was bound after verdicts had become final."""
        self.fresh = False
        """True if it provably begins with its first call."""
        self.causes: tuple[Cause, ...] = ()
        """Why calls may be missing in this session alone."""
        self.gaps: tuple[Gap, ...] = ()
        """The gaps of the ledger that reach it, its own ones, and those that it brought."""
        self.carried: tuple[Gap, ...] = ()
        """Gaps of the ledger of another process, where the session was: this one's does not know them, so they stay."""
        self.ledger_version = -1
        """Version of the ledger when the gaps were set."""
        self.opened_ns = now
        """When its first call was received."""
        self.queued = False
        self.spans = 0
        """The number of its spans of any kind."""
        self.foreign = 0
        """The number of its spans that no dialect reads."""
        self.binder: SpecBinder | None = None
        """The binder that chose its specs. It stays for the life of the session."""
        self._outside: OutsideCalls | None = None
        """The times of its calls that are in no log."""
        self._others: tuple[Mapping[str, Any], ...] = ()
        """Earlier attributes that specs were bound on: each service of the session has its own."""
        self.late: dict[Judge, int] | None = None
        """Spec -> when it was bound, if calls had been dropped before."""
        self.not_judged: Counter[str] | None = None
        self.proof: Proof | None = None
        """Evidence of its earliest trace on the beginning of the session."""
        self.answer: tuple[bool, int, int, int] | None = None
        """The last output of its agent: a hash, after the fields by which outputs are ordered."""
        self.ended: Ended | None = None
        self.data: SessionData | None = None
        """What it has seen of values; None while no rule asks for any."""
        self._mark = 0
        """Mark by which its key is remembered; 0 until it is used."""
        self.weight = self.size()
        """Approximate bytes when the session was last weighed."""

    def copy(self, call: ToolCall) -> Session:
        """The same session, to be changed apart from now on; in no table. `call` is any call of it."""
        twin = Session(self.key, call, self.touched_ns)
        twin.started_ns, twin.last_ns = self.started_ns, self.last_ns
        twin._source = self._source
        twin._sources = self._sources.copy() if self._sources is not None else None
        twin.session_from, twin.agent = self.session_from, self.agent
        twin._named_ns, twin._named_by = self._named_ns, self._named_by
        twin.bound_on, twin.bound_as = self.bound_on, self.bound_as
        twin._others, twin.binder, twin.judges = self._others, self.binder, self.judges
        for judgement in self.judgements:
            twin.add(judgement.copy())
        twin.held = list(self.held) if self.held is not None else None
        twin.owed = list(self.owed) if self.owed is not None else None
        twin.seen, twin.judged = self.seen, self.judged
        twin.caller, twin.of_clocks = self.caller, self.of_clocks
        twin.bound_late, twin.fresh, twin.opened_ns = (
            self.bound_late,
            self.fresh,
            self.opened_ns,
        )
        twin.causes, twin.gaps, twin.carried = self.causes, self.gaps, self.carried
        twin.ledger_version = self.ledger_version
        twin._outside = self._outside.copy() if self._outside is not None else None
        twin.late = dict(self.late) if self.late is not None else None
        twin.not_judged = self.not_judged.copy() if self.not_judged is not None else None
        twin.proof, twin.answer = self.proof, self.answer
        twin.data = self.data.copy() if self.data is not None else None
        return twin

    def size(self) -> int:
        """Approximate bytes of the session, from its texts and calls."""
        total = BYTES + 2 * (text_bytes(self.key.id) + text_bytes(self.agent))
        for each in self.judgements:
            total += (
                each.log.size() + text_bytes(each.part) + THING_BYTES * each.head.things_count
            )
        if self.held is not None:
            for call in self.held:
                total += call_bytes(call)
        return total if self.data is None else total + self.data.size()

    def mark(self) -> int:
        """What its key is remembered by once its state is dropped (`mark_of`): each file of a journal has it."""
        if not self._mark:
            self._mark = mark_of(self.key)
        return self._mark

    def rename(self, key: SessionKey) -> None:
        """Gives the session its real id."""
        self.key, self._mark = key, 0

    def see(self, call: ToolCall, now: int) -> None:
        """Takes note of a call's times and source."""
        self.touched_ns = now
        if call.attributes is not self.caller:
            self.of_clocks = self.has_clock_beside(call.attributes)
            self.caller = call.attributes
        start_ns, end_ns = call.start_ns, call.end_ns
        # If all calls so far were withdrawn, their times do not count.
        if start_ns < self.started_ns or not self.seen:
            self.started_ns = start_ns
        if end_ns > self.last_ns or not self.seen:
            self.last_ns = end_ns
        if call.source != self._source or self._sources is not None:
            self._count_source(call.source, 1)
        if call.session_from != self.session_from:
            self.note_source(call.session_from)

    def has_clock_beside(self, attributes: Mapping[str, Any]) -> bool:
        """Whether its calls, with one that has these attributes, are of several hosts."""
        known = self.caller
        return self.of_clocks or (known is not None and not has_one_clock(known, attributes))

    def see_again(self, old: ToolCall, call: ToolCall) -> None:
        """Takes note of a fuller reading of a call."""
        if call.start_ns < self.started_ns:
            self.started_ns = call.start_ns
        if call.end_ns > self.last_ns:
            self.last_ns = call.end_ns
        if call.source != old.source:
            self._count_source(old.source, -1)
            self._count_source(call.source, 1)
        if call.session_from != self.session_from:
            self.note_source(call.session_from)

    def unsee(self, call: ToolCall) -> None:
        """Forgets a span that turned out not to be a call."""
        if self._sources is not None:
            self._sources[call.source] -= 1
        self.seen -= 1

    def set_aside(self, call: ToolCall) -> None:
        """Keeps the times of a call that is in no log."""
        self._outside = self._outside or OutsideCalls()
        self._outside.add(call)

    def take_in(self, call: ToolCall) -> None:
        """Drops the times of a call that is now in a log, or is not a call."""
        if self._outside is not None:
            self._outside.remove(call.span_id)

    def leave_behind(self, span: tuple[int, int]) -> None:
        """Keeps (first start, last end) of calls that left the logs and cannot be withdrawn."""
        self._outside = self._outside or OutsideCalls()
        self._outside.keep(span)

    def set_times(self, gone: ToolCall) -> None:
        """Sets the session's times from its calls after one was withdrawn or read anew."""
        if gone.start_ns <= self.started_ns or gone.end_ns >= self.last_ns:
            self.set_times_anew()

    def set_times_anew(self) -> None:
        """Sets the session's times from all of its calls."""
        spans = [span for each in self.judgements if (span := each.span()) is not None]
        if self._outside is not None and (span := self._outside.span()) is not None:
            spans.append(span)
        if len(spans) == 1:
            self.started_ns, self.last_ns = spans[0]
        elif spans:
            self.started_ns = min(start for start, _ in spans)
            self.last_ns = max(end for _, end in spans)

    def _count_source(self, source: str, count: int) -> None:
        if self._sources is None:
            self._sources = Counter({self._source: self.seen})
        self._sources[source] += count

    @property
    def sources(self) -> str:
        """The dialects its calls were read by."""
        return self._source if self._sources is None else ", ".join(sorted(+self._sources))

    def note_source(self, session_from: str) -> None:
        """Notes the source of the id. Of several sources, the choice does not depend on their order."""
        if session_from and session_from != self.session_from:
            known = self.session_from
            better = known in _NO_ATTRIBUTE or session_from < known
            if better and session_from not in _NO_ATTRIBUTE:
                self.session_from = session_from

    def name(self, named: AgentName) -> bool:
        """Takes an agent's name from a span. The earliest span counts, in any order of arrival.

        Returns:
            True if the name has changed.
        """
        known, start_ns = self._named_by, named.start_ns
        if known:
            if start_ns > self._named_ns:
                return False
            if start_ns == self._named_ns and named.span_id >= known:
                return False
        self._named_ns, self._named_by = start_ns, named.span_id
        changed = named.agent != self.agent
        self.agent = named.agent
        return changed

    def named_as(self, other: Session) -> None:
        """Takes the name of a session whose calls move here, if its span is earlier."""
        if other._named_by:
            self.name(AgentName(other._named_ns, other._named_by, other.agent))

    def under(self, judge: Judge) -> list[Judgement]:
        """The session's judgements under one spec."""
        return [each for each in self.judgements if each.judge is judge]

    def judgement(self, judge: Judge, part: str) -> Judgement | None:
        """The judgement under a spec; `part` is the agent or turn if the spec's scope asks for it."""
        if self._index is not None:
            return self._index.get((judge, part))
        for each in self.judgements:
            if each.judge is judge and each.part == part:
                return each
        return None

    def add(self, judgement: Judgement) -> None:
        self.judgements += (judgement,)
        if len(self.judgements) > LOOKED_THROUGH_MAX:
            self._index = {(each.judge, each.part): each for each in self.judgements}

    def remove(self, judgement: Judgement) -> None:
        self.judgements = tuple(each for each in self.judgements if each is not judgement)
        if self._index is not None:
            del self._index[judgement.judge, judgement.part]

    def condense(self) -> None:
        """Reduces an ended session to what it needs to go on: positions and numbers, no steps."""
        self.held = None
        for judgement in self.judgements:
            condense(judgement)
        for seen in self.data.seen.values() if self.data is not None else ():
            seen.forget(list(seen.asking))

    def absorb(self, other: Session) -> None:
        """Takes over the state of a session whose calls move here."""
        if not self.seen:  # its calls were withdrawn
            self.started_ns, self.last_ns = other.started_ns, other.last_ns
        elif other.seen:
            self.started_ns = min(self.started_ns, other.started_ns)
            self.last_ns = max(self.last_ns, other.last_ns)
        self.touched_ns = max(self.touched_ns, other.touched_ns)
        if other._outside is not None:
            self._outside = self._outside or OutsideCalls()
            self._outside.absorb(other._outside)
        if other._sources is not None or other._source != self._source:
            found = other._sources or Counter({other._source: other.seen})
            for source, count in found.items():
                self._count_source(source, count)
        if other.caller is not None:
            self.of_clocks = other.of_clocks or self.has_clock_beside(other.caller)
        self.named_as(other)
        for attributes in other.attributes:
            if not self.is_bound_on(attributes):
                self._others = (*self._others, attributes)[:ATTRIBUTES_MAX]
        self.note_source(other.session_from)
        self.judged += other.judged
        self.seen += other.seen
        self.spans += other.spans
        if other.answer is not None and (self.answer is None or other.answer > self.answer):
            self.answer = other.answer
        self.foreign += other.foreign
        for judge, now in (other.late or {}).items():
            self.bind_late((judge,), now)
        self.bound_late = self.bound_late or other.bound_late
        for reason, count in (other.not_judged or {}).items():
            self.miss(reason, count)
        self.proof = of_both(self.proof, other.proof)
        self.opened_ns = min(self.opened_ns, other.opened_ns)
        self.gaps = tuple(dict.fromkeys((*self.gaps, *other.gaps)))
        self.carry((*self.carried, *other.carried))
        for cause in other.causes:
            if cause not in (Cause.EARLIER_TURN, Cause.RESUMED):
                self.note_cause(cause)

    def carry(self, gaps: Iterable[Gap]) -> None:
        """Sets which gaps it brought. They are bounded as its own ones are, and it is to look at the ledger."""
        self.carried = ()
        for gap in dict.fromkeys(gaps):
            self.carried = with_own(self.carried, gap)
        self.gaps = tuple(dict.fromkeys((*self.gaps, *self.carried)))
        self.ledger_version = -1

    def note_cause(self, cause: Cause) -> None:
        """Notes why calls may be missing in this session."""
        if cause not in self.causes:
            self.causes = (*self.causes, cause)

    def is_named_by(self, named: AgentName) -> bool:
        """True if `name` would take the agent's name from this span."""
        known = self._named_by
        if not known or named.start_ns != self._named_ns:
            return not known or named.start_ns < self._named_ns
        return named.span_id < known

    @property
    def known_agent(self) -> str:
        """The agent's name as spans give it; "" while none has."""
        return self.agent if self._named_by else ""

    def bind_on(self, attributes: Mapping[str, Any], agent: str) -> None:
        """Notes the attributes and the agent of a binding of specs."""
        last = self.bound_on
        if last is not None and last is not attributes:
            kept = (each for each in self._others if each is not attributes)
            self._others = (last, *kept)[:ATTRIBUTES_MAX]
        self.bound_on, self.bound_as = attributes, agent

    @property
    def binding(self) -> Binding:
        """What specs were bound on so far. It is set again if a binding fails."""
        return self.bound_on, self.bound_as, self._others

    @binding.setter
    def binding(self, before: Binding) -> None:
        self.bound_on, self.bound_as, self._others = before

    def hear(self, texts: Iterable[UserText]) -> None:
        """Takes messages of the user."""
        for each in texts:
            self.data = self.data or SessionData()
            self.data.hear(each)

    def owe(self, call: ToolCall, judges: tuple[Judge, ...]) -> None:
        """Notes a held call that is still to be judged under some specs."""
        if self.owed is None:
            self.owed = []
        self.owed.append((call, judges))

    def owe_no_more(self, call: ToolCall) -> None:
        """Removes an owed call that was withdrawn or read anew."""
        if self.owed is not None:
            kept = [each for each in self.owed if each[0].span_id != call.span_id]
            self.owed = kept or None

    @property
    def attributes(self) -> tuple[Mapping[str, Any], ...]:
        """All attributes that specs were bound on, the latest first."""
        return self._others if self.bound_on is None else (self.bound_on, *self._others)

    def is_bound_on(self, attributes: Mapping[str, Any]) -> bool:
        """True if specs were bound on these very attributes, now or earlier."""
        if self.bound_on is attributes:
            return True
        for each in self._others:  # noqa: SIM110 - `any` makes a generator
            if each is attributes:
                return True
        return False

    def is_of(self, service: str) -> bool:
        """True if some of its calls came from a service of this name."""
        for each in self.attributes:  # noqa: SIM110 - `any` makes a generator
            if each.get("service.name") == service:
                return True
        return False

    def bind_late(self, judges: Iterable[Judge], now: int) -> None:
        """Marks specs that were bound after calls had been dropped: those calls are missing for them."""
        self.late = self.late or {}
        for judge in judges:
            self.bound_late = True
            self.late[judge] = max(now, self.late.get(judge, 0))

    def miss(self, reason: str, count: int = 1) -> None:
        """Counts calls that were not judged, by reason."""
        if self.not_judged is None:
            self.not_judged = Counter()
        self.not_judged[reason] += count


class TenantSessions:
    """The live sessions of one tenant, by last activity.

    A linked list: an `OrderedDict` would cost each session 80 bytes more.
    """

    __slots__ = ("name", "newest", "oldest")

    def __init__(self, name: str) -> None:
        self.name = name
        self.oldest: Session | None = None
        self.newest: Session | None = None

    def link(self, session: Session) -> None:
        """Adds a session at the end."""
        last = self.newest
        session.older = last
        if last is None:
            self.oldest = session
        else:
            last.newer = session
        self.newest = session
        session.chain = self

    def unlink(self, session: Session) -> None:
        """Removes a session."""
        older, newer = session.older, session.newer
        if older is None:
            self.oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self.newest = older
        else:
            newer.older = older
        session.older = session.newer = None

    def latest(self) -> Iterator[Session]:
        """The sessions, most recently active first. The caller must not await in between."""
        session = self.newest
        while session is not None:
            yield session
            session = session.older


def _service(call: ToolCall) -> str:
    service = call.attributes.get("service.name")
    return service if isinstance(service, str) and service else UNKNOWN_AGENT


def without_spec(session: Session) -> int:
    """The number of calls of a session that no spec has judged."""
    if not session.judges:
        return session.seen
    return session.not_judged["no_spec"] if session.not_judged else 0
