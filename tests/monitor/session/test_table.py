"""The table of sessions: live ones, recently ended ones, and the next to be evicted."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from monitor.records import Evidence, SessionKey, ToolCall
from monitor.session.dropped_sessions import mark_of
from monitor.session.session import Session
from monitor.session.table import Table
from monitor.tenants import SharedValues

ATTRIBUTES: dict[str, object] = {}


def session(name: str, touched: int = 0, namespace: str = "") -> Session:
    key = SessionKey(namespace, name)
    call = ToolCall(
        session=key,
        agent="",
        tool="t",
        arguments=None,
        error=False,
        start_ns=0,
        end_ns=1,
        trace_id=b"t" * 16,
        span_id=b"s" * 8,
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes=ATTRIBUTES,
    )
    return Session(key, call, touched)


def filled(*names: str, most: int = 10) -> Table:
    table = Table(most)
    for number, name in enumerate(names):
        table.add(session(name, number))
    return table


def names(table: Table) -> list[str]:
    return [each.key.id for each in table]


def test_the_least_recently_active_goes_first() -> None:
    """Beyond the bound, the least recently active session is evicted; a new call protects it."""
    table = filled("a", "b", "c", most=2)
    touched = table.touch(SessionKey("", "a"))
    assert touched is table.live(SessionKey("", "a"))
    assert table.touch(SessionKey("", "d")) is None
    gone = table.excess()

    assert gone is not None
    assert gone.key.id == "b"
    table.bury(gone)
    assert table.excess() is None
    assert names(table) == ["c", "a", "b"]
    assert [each.key.id for each in table.recent()] == ["a", "c", "b"]


def test_idle_is_who_was_not_touched_since() -> None:
    """A session is idle at its time exactly, and not a nanosecond before."""
    table = filled("a", "b")

    assert table.idle(-1) is None
    first = table.idle(0)
    assert first is not None
    assert first.key.id == "a"


def test_an_ended_session_wakes_with_what_it_knew() -> None:
    """A tombstone is the session itself; once it is forgotten nothing wakes."""
    table = filled("a")
    ended = table.live(SessionKey("", "a"))
    assert ended is not None
    ended.ended = "idle"
    table.bury(ended)
    assert table.live(ended.key) is None
    assert table.find(ended.key) is ended

    assert table.wake(ended.key) is ended
    assert ended.ended is None
    table.bury(ended)
    table.forget(ended.touched_ns, ended.touched_ns)
    assert table.wake(ended.key) is None
    assert names(table) == []


def test_one_id_in_two_namespaces_is_two_sessions() -> None:
    """A lookup by id covers all tenants, live and ended."""
    table = filled("a")
    other = session("a")
    other.key = SessionKey("tenant", "a")
    table.add(other)
    table.bury(other)

    assert [each.key.namespace for each in table.named("a")] == ["", "tenant"]


def test_a_renamed_session_is_found_under_its_new_id_alone() -> None:
    """The key that a session carries is the one it is filed under."""
    table = filled("trace")
    table.rename(SessionKey("", "trace"), SessionKey("", "s"))

    assert table.live(SessionKey("", "trace")) is None
    found = table.live(SessionKey("", "s"))
    assert found is not None
    assert found.key.id == "s"


def test_a_renamed_session_is_remembered_by_its_new_id() -> None:
    """Its mark is that of the id it has, whenever it was asked for."""
    table = filled("trace")
    old, new = SessionKey("", "trace"), SessionKey("", "s")
    assert list(table.marks([old, new])) == [mark_of(old), mark_of(new)]
    table.rename(old, new)
    assert list(table.marks([old, new])) == [mark_of(old), mark_of(new)]


def test_who_is_asked_for_again_is_who_there_is_by_now() -> None:
    """A cached lookup by key object always gives the present session."""
    table, key = Table(10), SessionKey("", "a")
    assert table.live(key) is None
    table.add(session("a"))
    found = table.live(key)
    assert found is not None

    table.bury(found)
    assert table.live(key) is None
    assert table.wake(key) is found
    assert table.live(key) is found
    table.rename(key, SessionKey("", "b"))
    assert table.live(key) is None


class Tables(RuleBasedStateMachine):
    """The table equals a plain list under any operations, and keeps its bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table(3)
        self.live: list[str] = []
        self.ended: list[str] = []

    @rule(name=st.sampled_from("abcdef"))
    def call(self, name: str) -> None:
        key = SessionKey("", name)
        if self.table.live(key) is not None:
            self.table.touch(key)
            self.live.remove(name)
        elif self.table.wake(key) is not None:
            self.ended.remove(name)
        else:
            self.table.add(session(name))
        self.live.append(name)
        while (old := self.table.excess()) is not None:
            self.table.bury(old)
            self.live.remove(old.key.id)
            self.ended.append(old.key.id)

    @rule(name=st.sampled_from("abcdef"))
    def drop(self, name: str) -> None:
        if self.table.drop(SessionKey("", name)) is not None:
            self.live.remove(name)

    @invariant()
    def holds_the_same(self) -> None:
        assert names(self.table) == self.live + self.ended
        assert len(self.table) == len(self.live) <= 3


TestTables = Tables.TestCase
TestTables.settings = settings(stateful_step_count=30)


def test_tombstones_are_bounded() -> None:
    """The latest ended sessions are kept, up to the bound."""
    table = Table(10)
    for number in range(table.tombstones_max + 5):
        table.bury(session(str(number)))

    assert len(names(table)) == table.tombstones_max == 100
    assert names(table)[0] == "5"


def test_a_tenant_over_its_share_makes_room_for_itself() -> None:
    """However many sessions one tenant opens, another's that are fewer than its share all stay."""
    table = Table(10)
    for number in range(5):
        table.add(session(f"quiet{number}", number, "quiet"))
    for number in range(100):
        new = session(f"loud{number}", 10 + number, "loud/production")
        table.add(new)
        while (old := table.excess(new)) is not None:
            assert old.key.namespace == "loud/production"
            table.bury(old)

    assert len(table) == 10
    assert [each for each in names(table) if each.startswith("quiet")][:5] == [
        f"quiet{number}" for number in range(5)
    ]


def test_a_tenant_may_use_what_is_free_until_others_come() -> None:
    """The largest tenant gives way to one below its share, its oldest session first."""
    table = Table(10)
    for number in range(10):
        table.add(session(f"loud{number}", number, "loud"))
    gone: list[str] = []
    for number in range(8):
        new = session(f"quiet{number}", 100 + number, "quiet")
        table.add(new)
        while (old := table.excess(new)) is not None:
            gone.append(old.key.id)
            table.bury(old)

    assert gone == ["loud0", "loud1", "loud2", "loud3", "loud4", "quiet0", "quiet1", "quiet2"]


def test_ended_sessions_of_one_tenant_do_not_push_out_anothers() -> None:
    """Ended sessions are kept by tenants' shares, too."""
    table = Table(10)
    mine = session("mine", 0, "quiet")
    table.add(mine)
    mine.ended = "idle"
    table.bury(mine)
    for number in range(1_000):
        table.bury(session(str(number), number, "loud"))

    assert table.find(mine.key) is mine
    assert table.wake(mine.key) is mine


def test_long_ids_are_bounded_by_their_bytes() -> None:
    """Sessions with ids of a thousand wide characters are fewer than the bound on their number."""
    table = Table(10_000, bytes_max=1 << 20)
    for number in range(1_000):
        new = session(chr(0x4E00 + number) * 1_000, number)
        table.add(new)
        while (old := table.excess(new)) is not None:
            table.bury(old)

    assert 50 < len(table) < 300
    assert table.bytes <= 1 << 20


def test_what_is_shared_by_session_goes_by_tenant() -> None:
    """At the bound, the oldest of the largest tenant is dropped; a repeated put makes it the latest."""
    shared: SharedValues[int] = SharedValues(4)
    mine = SessionKey("quiet", "s")
    assert not shared.put(mine, 1)
    gone = [shared.put(SessionKey("loud", str(number)), number) for number in range(10)]

    assert gone == [False] * 3 + [True] * 7
    assert len(shared) == 4
    assert shared.get(mine) == 1
    assert shared.get(SessionKey("loud", "6")) is None
    assert shared.pop(mine) == 1
    assert shared.pop(mine) is None
    assert shared.first() == (SessionKey("loud", "7"), 7)
    shared.put(SessionKey("loud", "7"), 70)
    assert shared.first() == (SessionKey("loud", "8"), 8)
