"""What judging calls goes by, and what it counts: one record that its parts share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from monitor.alphabet.pattern_words import Show
from monitor.judging.accounting import Accounting
from monitor.judging.clocks.clocks_ahead import SenderClocks
from monitor.judging.shared_gaps import SharedGaps
from monitor.judging.thing_spaces import ThingSpaces
from monitor.limits import Limits
from monitor.session.data.data_reader import DataReader
from monitor.session.judge.judge import Judge
from monitor.session.session import Session
from monitor.session.spec_binding import SpecBinder
from monitor.session.things.thing_reservations import ThingReservations
from monitor.session.tool_names import Names
from monitor.spec.spec import Spec
from monitor.tenants import Holdings
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from monitor.visibility.ledger import Ledger
from monitor.visibility.sights import Sights

__all__ = ["JudgingState"]


class JudgingState:
    """The specs in use, what is not known, the calls that are held, and what was counted.

    Args:
        binder: the loaded specs.
        accounting: takes the changes.
        names: of tools.
        limits: bounds and times.
        started_ns: start of the process, Unix nanoseconds.
        show: gives what may be shown of an argument's value; None shows no values.
        unbound: judges sessions without specs; None makes one.
        ledger: where calls may be missing; None makes one.
        digest_key: of the digests of things whose values are not shown.
    """

    def __init__(
        self,
        binder: SpecBinder,
        accounting: Accounting,
        names: Names,
        limits: Limits,
        started_ns: int,
        show: Show | None,
        unbound: Judge | None = None,
        ledger: Ledger | None = None,
        digest_key: bytes = b"",
    ) -> None:
        self.digest_key = digest_key
        since_ns = 0 if limits.history_complete else started_ns
        self.spaces = ThingSpaces(
            since_ns, limits.shared_things_max, limits.shared_things_bytes_max
        )
        accounting.spaces = self.spaces
        self.reservations = ThingReservations()
        """Calls that go ahead on things of several sessions, and that no session has yet."""
        self.binder = binder
        self.accounting = accounting
        self.names = names
        self.limits = limits
        self._prepare(in_the_middle=False)
        self.show = show
        self.started_ns = started_ns
        """Start of the process, corrected for jumps of the clock back."""
        self.folded_young = 0
        """Steps folded before they were final, in a burst of one session."""
        self.out_of_order = 0
        """Calls that could not be appended in order, counted once per spec."""
        self.skewed_before = 0
        self.left_out_before = 0
        """`skewed` and `orders_left_out` of specs that are no longer in use."""
        self.sights = Sights()
        if ledger is None:
            ledger = Ledger(limits.idle_ns)
            if not limits.history_complete:
                ledger.note(Gap(Cause.STARTED, 0, started_ns))
        self.ledger = ledger
        self.shared_gaps = SharedGaps()
        self.clocks = SenderClocks()
        self.data = DataReader()
        self.unbound = unbound or Judge(Spec.observer())
        self.held = 0
        """Calls that all sessions hold."""
        self.held_bytes = Holdings()
        """Tenant -> bytes of the calls that its sessions hold."""
        self.holders: dict[str, OrderedDict[Session, int]] = {}
        """Tenant -> its sessions that hold calls, the earliest first, with their bytes."""
        self.held_under: dict[Session, str] = {}
        """Session -> tenant that its bytes are counted for, even if it would be another by now."""
        self.held_given_up = 0
        """Sessions whose held calls were dropped to make room."""
        self.shown_bytes = 0
        """Bytes of arguments kept to be shown, since the number was last taken out."""
        self.errors: list[Exception] = []
        """The first internal errors that kept held calls from being judged."""

    @property
    def skewed(self) -> int:
        """Calls placed behind their parent call, counted once per spec."""
        judges = (*self.binder.judges.values(), self.unbound)
        return self.skewed_before + sum(judge.skewed for judge in judges)

    @property
    def values_dropped(self) -> int:
        """Calls whose values rules over data do not know any more, because there were too many of their session."""
        return self.data.dropped

    @property
    def orders_left_out(self) -> int:
        """How often overlapping calls were judged by only some of their possible orders."""
        judges = self.binder.judges.values()
        return self.left_out_before + sum(judge.left_out for judge in judges)

    def twin(self, accounting: Accounting, names: Names) -> JudgingState:
        """What judges alike goes by. It never folds, and counts for itself but in `Judge`s."""
        limits = replace(self.limits, fold=False)
        twin = JudgingState(
            self.binder,
            accounting,
            names,
            limits,
            self.started_ns,
            self.show,
            self.unbound,
            self.ledger,
            self.digest_key,
        )
        twin.held, twin.sights = self.held, self.sights
        twin.spaces = accounting.spaces = self.spaces
        twin.shared_gaps, twin.reservations = self.shared_gaps, self.reservations
        twin.clocks = self.clocks.twin()
        return twin

    def follow_gaps(self, now: int) -> None:
        """Keeps what the ledger knows of gaps for the things of several sessions."""
        if self.spaces.within_ns:
            self.shared_gaps.follow(self.ledger, now - self.spaces.within_ns)

    def judges(self, session: Session) -> set[Judge]:
        """The judges that judging calls of a session may step."""
        bound = (session.binder or self.binder).judges.values()
        return {self.unbound, *bound, *self.binder.judges.values(), *session.judges}

    def use(self, binder: SpecBinder) -> None:
        """Sets the binder of sessions that begin from now on."""
        kept = set(map(id, binder.judges.values()))
        gone = [judge for judge in self.binder.judges.values() if id(judge) not in kept]
        self.skewed_before += sum(judge.skewed for judge in gone)
        self.left_out_before += sum(judge.left_out for judge in gone)
        self.binder = binder
        self._prepare(in_the_middle=True)

    def _prepare(self, *, in_the_middle: bool) -> None:
        """Says to the specs in use how things are shown."""
        self.spaces.expect(self.binder.judges.values(), in_the_middle=in_the_middle)
        for judge in self.binder.judges.values():
            judge.digest_key = self.digest_key
            judge.shows_things = self.limits.keep_arguments
            judge.things_max = self.limits.things_max

    def counters(self) -> dict[str, int]:
        """What was counted so far."""
        return {
            "folded_young": self.folded_young,
            "out_of_order": self.out_of_order,
            "held_given_up": self.held_given_up,
            "skewed": self.skewed,
            "orders_left_out": self.orders_left_out,
        }

    def set_counters(self, found: Mapping[str, int]) -> None:
        """Sets what was counted so far."""
        self.folded_young = found["folded_young"]
        self.out_of_order = found["out_of_order"]
        self.held_given_up = found["held_given_up"]
        self.skewed_before += found["skewed"] - self.skewed
        self.left_out_before += found["orders_left_out"] - self.orders_left_out

    def clock_moved(self, by: int) -> None:
        """Adapts to a jump of the clock of receipts, in nanoseconds."""
        self.clocks.clock_moved(by)
        self.ledger.shift(by)
        self.shared_gaps.shift(by)
        if by < 0 and self.started_ns:
            self.started_ns += by
