"""Sessions that go from one monitor to another."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor, SessionKey, ToolCall, Verdict
from monitor.limits import SECOND
from monitor.plain_records.kinds import KindChange, UnkeptError
from monitor.session import session_codec
from monitor.visibility.cause import Cause
from monitor.visibility.gap import OWN_MAX, Gap
from tests.costly import COSTLY
from tests.monitor.judging.test_reference_alarms import ATTRIBUTES as REFERRED
from tests.monitor.judging.test_reference_alarms import USUALLY
from tests.monitor.test_engine import NOW, POLICY, ROVER, call, specs

DEADLINE = """
id: timed
match: {service.name: rover}
alphabet: {move: {tool: move}, log: {tool: log}, sing: {tool: sing}}
golden: [[move, log]]
reads: [sing]
deadlines:
  - {from: move, to: log, within: 20s}
"""
SPECS = (ROVER, POLICY, DEADLINE)
TOOLS = (
    "\ud800",
    "unlock",
    "move",
    "water",
    "log",
    "dance",
    "sing",
    "list_d",
    "delete_all",
    "wipe",
)
SHARDS = 3


def shard(number: int = 0, *texts: str) -> Monitor:
    """A monitor under all specs; each has seen other tools before, so each has numbers of its own."""
    made = Monitor([], Limits(history_complete=True))
    for each in range(number):
        made.observe(call(each, f"own {each}", session=SessionKey("", "before")), NOW)
    made.end(SessionKey("", "before"), NOW)
    made.use([*specs(*(texts or SPECS)), USUALLY])
    for each in range(3 * number):
        key = SessionKey("", f"own {number}")
        tool = f"delete {number} {each}"
        made.observe(call(each, tool, session=key, attributes=REFERRED), NOW)
    return made


def move(session: SessionKey, source: Monitor, target: Monitor, now: int = NOW) -> None:
    target.kept.handover("1").take_over(source.kept.handover("1").hand_over([session]), now)


def key(number: int) -> SessionKey:
    return SessionKey("", f"s{number}")


def shown(monitor: Monitor, session: SessionKey) -> list[Any]:
    """The judgements of a session."""
    return [each for each in monitor.judgements() if each["session"] == session.id]


def counted(*monitors: Monitor) -> Counter[Any]:
    """Counters of pairs, over all monitors, but for the sessions of their own."""
    found: Counter[Any] = Counter()
    for pair in (pair for each in monitors for pair in each.totals.pairs.values()):
        if pair.spec == "r":
            continue
        name = pair.agent, pair.spec
        for field in (
            "active",
            "started",
            "progress",
            "loops",
            "harms",
            "possible",
            "sessions",
        ):
            found[*name, field] += getattr(pair, field)
        for field in ("final", "provisional", "revisions", "session_verdicts", "outcomes"):
            for label, count in getattr(pair, field).items():
                found[*name, field, label] += count
        found[*name, "harm_rate"] += pair.harm_rate
    return +found


def random_calls(chance: Random) -> list[ToolCall]:
    return [
        call(
            number,
            chance.choice(TOOLS),
            session=key(chance.randrange(3)),
            attributes=chance.choice(({"service.name": "rover"}, REFERRED)),
            error=chance.random() < 0.1,
        )
        for number in range(chance.randint(1, 40))
    ]


@COSTLY
@given(st.integers(0, 2**32))
def test_shards_count_together_what_one_would(seed: int) -> None:
    """Sessions that wander between shards have the judgements, and the shards the counters, of one monitor."""
    chance = Random(seed)
    one, shards = shard(), [shard(number) for number in range(SHARDS)]
    alone, told = list[Verdict](), list[Verdict]()
    one.on_final(alone.append)
    for each in shards:
        each.on_final(told.append)
    home = {key(number): chance.randrange(SHARDS) for number in range(3)}
    now = NOW
    for made in random_calls(chance):
        now += SECOND
        for each in (one, *shards):
            each.tick(now)
        one.observe(made, now)
        shards[home[made.session]].observe(made, now)
        if chance.random() < 0.4:
            session, there = chance.choice(list(home)), chance.randrange(SHARDS)
            if there != home[session]:
                move(session, shards[home[session]], shards[there], now)
                home[session] = there
    for session, there in home.items():
        assert shown(shards[there], session) == shown(one, session)
    for end in (now + 40 * SECOND, now + 80 * SECOND):
        for each in (one, *shards):
            each.tick(end)
    for each in (one, *shards):
        each.close(now + 80 * SECOND)
    assert counted(*shards) == counted(one) + counted(*(shard(n) for n in range(SHARDS)))
    assert sorted(map(repr, told)) == sorted(map(repr, alone))


def test_a_deadline_runs_on_where_the_session_went() -> None:
    """It is missed once its time is over, and says which call it ran from."""
    first, second = shard(1), shard(2)
    first.observe(call(1, "move", session=key(1)), NOW)
    move(key(1), first, second)
    assert first.tick(NOW + 60 * SECOND) == []
    assert not [each for each in first.news() if each.spec == "timed"]
    second.tick(NOW + 60 * SECOND)
    [missed] = [each for each in second.news() if each.spec == "timed"]
    assert missed.tool == "move"
    move(key(1), second, first, NOW + 60 * SECOND)
    first.tick(NOW + 61 * SECOND)
    assert not [each for each in first.news() if each.spec == "timed"]


def timed(verdicts: list[Verdict]) -> list[tuple[str, str]]:
    """Tool and kind of the verdicts on sessions."""
    return [(each.tool, each.kind.value) for each in verdicts if each.spec == "timed"]


def test_a_deadline_of_a_folded_call_runs_on() -> None:
    """The call that it runs from has left the log, and its tool has another number there."""
    first, second = shard(1), shard(2)
    start = NOW - SECOND
    first.observe(call(1, "move", session=key(1), start_ns=start, end_ns=start), NOW)
    for number in range(2, 100):
        at = start + number
        first.observe(call(number, "sing", session=key(1), start_ns=at, end_ns=at), NOW)
    first.tick(NOW + 12 * SECOND)
    [found] = [each for each in shown(first, key(1)) if each["spec"] == "timed"]
    assert found["steps_folded"]
    move(key(1), first, second, NOW + 12 * SECOND)
    second.tick(NOW + 13 * SECOND)
    assert timed(second.news()) == []
    second.tick(NOW + 40 * SECOND)
    assert timed(second.news()) == [("move", "cannot_finish")]


def test_a_verdict_on_a_session_is_withdrawn_where_it_went() -> None:
    """The call that was missed comes late: what was said elsewhere is taken back, of the same call."""
    first, second = shard(1), shard(2)
    start = NOW - SECOND
    first.observe(call(1, "move", session=key(1), start_ns=start, end_ns=start), NOW)
    first.tick(NOW + 40 * SECOND)
    assert timed(first.news()) == [("move", "cannot_finish")]
    move(key(1), first, second, NOW + 41 * SECOND)
    late = NOW + SECOND
    told = second.observe(
        call(2, "log", session=key(1), start_ns=late, end_ns=late), NOW + 42 * SECOND
    )
    assert ("move", "self_loop") in timed(told)


def test_held_calls_wait_where_the_session_went() -> None:
    """A spec that binds there judges the calls that came here."""
    first, second = shard(1), shard(2)
    made = [call(number, "water", session=key(1), attributes={}) for number in (1, 2)]
    first.observe(made[0], NOW)
    both = sum(each.kept.memory()["waiting_calls"] for each in (first, second))
    assert second.kept.memory()["waiting_calls"] < both
    move(key(1), first, second)
    assert sum(each.kept.memory()["waiting_calls"] for each in (first, second)) == both
    assert first.kept.memory()["waiting_calls"] == shard(1).kept.memory()["waiting_calls"]
    told = second.observe(made[1]._replace(attributes={"service.name": "rover"}), NOW + SECOND)
    assert {each.span_id for each in told if each.spec == "rover"} == {
        each.span_id for each in made
    }


def test_an_ended_session_may_go_on_elsewhere() -> None:
    """It wakes there with all it knew; its end is counted once."""
    first, second = shard(1), shard(2)
    first.observe(call(1, "unlock", session=key(1)), NOW)
    first.end(key(1), NOW)
    move(key(1), first, second)
    second.observe(call(2, "move", session=key(1)), NOW + SECOND)
    second.close(NOW + SECOND)
    [found] = [each for each in shown(second, key(1)) if each["spec"] == "rover"]
    assert found["calls"] == 2
    assert not found["joined"]
    ends = counted(first, second)
    assert sum(count for name, count in ends.items() if name[1:3] == ("rover", "outcomes")) == 1


def test_a_call_that_comes_after_its_session_left_passes_for_no_new_one() -> None:
    """It is read as joined: it pages for nothing that the session's earlier calls allow."""
    first, second = shard(1), shard(2)
    first.observe(call(1, "unlock", session=key(1)), NOW)
    move(key(1), first, second)
    first.observe(call(2, "water", session=key(1)), NOW + SECOND)
    assert all(each["joined"] for each in shown(first, key(1)))


def test_a_clock_that_is_ahead_is_known_where_the_session_went() -> None:
    """Calls are moved back by what was found here."""
    first, second = shard(1), shard(2)
    ahead = 1_000 * SECOND
    first.observe(
        call(61, "unlock", session=key(1), start_ns=NOW + ahead, end_ns=NOW + ahead), NOW
    )
    lead = first.state.judging_state.clocks.lead_of(key(1))
    move(key(1), first, second)
    assert second.state.judging_state.clocks.lead_of(key(1)) == lead != None  # noqa: E711
    assert first.state.judging_state.clocks.lead_of(key(1)) is None


# --- what is known to be missing ------------------------------------------------------------------


def shard_with_gaps(*gaps: int, number: int = 0) -> Monitor:
    """A shard that was down for a second at each of these seconds."""
    made = shard(number)
    for at in gaps:
        made.gaps.missed(NOW + at * SECOND, NOW + (at + 1) * SECOND)
    return made


def harms(monitor: Monitor, session: SessionKey) -> tuple[int, int]:
    """Certain and possible harms among the calls of a session under the rover's spec."""
    [found] = [each for each in shown(monitor, session) if each["spec"] == "rover"]
    possible = sum("possible" in step for step in found["steps"])
    return sum(step["kind"] == "harmful" for step in found["steps"]), possible


def test_a_gap_of_where_a_session_was_reaches_it_where_it_goes() -> None:
    """What may have been missed there makes a harm here possible, however often it looks at the ledger here."""
    first, second = shard(1), shard(2)
    first.observe(call(60, "unlock", session=key(1)), NOW)
    first.gaps.missed(NOW + SECOND, NOW + 2 * SECOND)
    move(key(1), first, second, NOW + 3 * SECOND)
    second.gaps.missed(NOW - 1_000 * SECOND, NOW - 999 * SECOND)
    second.observe(call(64, "water", arguments={"liters": 5}, session=key(1)), NOW + 4 * SECOND)
    assert harms(second, key(1)) == (0, 1)
    second.clock_moved(5 * SECOND, NOW + 9 * SECOND)
    second.gaps.missed(NOW - 900 * SECOND, NOW - 899 * SECOND)
    second.tick(NOW + 30 * SECOND)
    assert harms(second, key(1)) == (0, 1)


def test_a_gap_of_where_a_session_goes_reaches_it_at_once() -> None:
    """Both ledgers are of one version, with other gaps: what is told as certain there is taken back here."""
    first, second = shard_with_gaps(-1_000, number=1), shard_with_gaps(1, number=2)
    first.observe(call(60, "unlock", session=key(1)), NOW)
    told = first.observe(
        call(64, "water", arguments={"liters": 5}, session=key(1)), NOW + 4 * SECOND
    )
    assert [each.possible for each in told if each.spec == "rover"] == [False]
    move(key(1), first, second, NOW + 5 * SECOND)
    assert harms(second, key(1)) == (0, 1)
    assert [each.possible for each in second.news() if each.spec == "rover"] == [True]


def test_gaps_that_both_places_know_reach_a_session_once() -> None:
    """They are other objects in each process, and so many that they are looked up, not compared one by one."""
    at = range(-40, 0)
    first, second = shard_with_gaps(*at, number=1), shard_with_gaps(*at, number=2)
    first.observe(call(60, "unlock", session=key(1)), NOW)
    move(key(1), first, second, NOW + SECOND)
    second.gaps.missed(NOW + 2 * SECOND, NOW + 3 * SECOND)
    second.tick(NOW + 30 * SECOND)

    session = second.state.table.live(key(1))
    assert session is not None
    assert len(session.gaps) == len(at) + 1
    assert set(session.gaps) == set(second.state.judging_state.ledger)


def test_calls_before_the_start_of_where_a_session_was_stay_unknown() -> None:
    """Another process that has run for longer has not seen them either."""
    first, second = (
        Monitor(specs(ROVER), Limits(), started_ns=NOW - after * SECOND) for after in (0, 900)
    )
    first.observe(call(50, "unlock", session=key(1)), NOW + SECOND)
    move(key(1), first, second, NOW + SECOND)
    second.gaps.missed(NOW - 800 * SECOND, NOW - 799 * SECOND)
    second.observe(call(58, "water", arguments={"liters": 5}, session=key(1)), NOW + SECOND)
    assert harms(second, key(1))[0] == 0


@COSTLY
@given(st.integers(0, 2**32))
def test_a_session_that_wanders_allows_for_what_was_missed_on_its_way(seed: int) -> None:
    """It is judged as by one monitor that missed all of that; a gap that is lifted at its home is lifted there, too."""
    chance = Random(seed)
    one, shards = shard(), [shard(number) for number in range(SHARDS)]
    home, now = 0, NOW
    here = list[Gap]()
    for number in range(chance.randint(4, 30)):
        now += SECOND
        made = call(60 + number, chance.choice(TOOLS), session=key(1))
        for each in (one, shards[home]):
            each.observe(made, now)
        if chance.random() < 0.2:
            here.append(Gap(Cause.REFUSED, now, now + SECOND, chance.choice(("", *TOOLS))))
            for each in (one, shards[home]):
                each.gaps.note(here[-1])
        elif here and chance.random() < 0.2:
            lifted = here.pop()
            for each in (one, shards[home]):
                each.gaps.lift(lifted)
        if chance.random() < 0.3:
            there = chance.randrange(SHARDS)
            if there != home:
                move(key(1), shards[home], shards[there], now)
                home, here = there, []
        for each in (one, *shards):
            each.tick(now)
        assert shown(shards[home], key(1)) == shown(one, key(1))


def test_an_ended_session_brings_what_may_be_missing() -> None:
    """It goes on where it is now, and allows for what was missed where it ended."""
    first, second = shard(1), shard(2)
    first.observe(call(60, "unlock", session=key(1)), NOW)
    first.gaps.missed(NOW + SECOND, NOW + 2 * SECOND)
    first.end(key(1), NOW + 3 * SECOND)
    move(key(1), first, second, NOW + 3 * SECOND)
    second.observe(call(64, "water", arguments={"liters": 5}, session=key(1)), NOW + 4 * SECOND)
    assert harms(second, key(1)) == (0, 1)


def test_gaps_that_a_session_brings_are_bounded() -> None:
    """Of too many of one cause the earliest become one, which reaches whatever they did."""
    first, second = shard(1), shard(2)
    first.observe(call(60, "unlock", session=key(1)), NOW)
    for number in range(200):
        first.gaps.missed(NOW + number * SECOND, NOW + number * SECOND + 1)
    move(key(1), first, second, NOW + 200 * SECOND)
    second.gaps.missed(NOW - 900 * SECOND, NOW - 899 * SECOND)
    made = call(262, "water", arguments={"liters": 5}, session=key(1))
    second.observe(made, NOW + 202 * SECOND)
    assert harms(second, key(1)) == (0, 1)
    found = second.state.table.find(key(1))
    assert found is not None
    assert len(found.carried) <= OWN_MAX
    assert len(found.gaps) == len(found.carried) + 1


def test_a_session_that_is_named_twice_moves_once() -> None:
    """It is one session there, and goes on."""
    first, second = shard(1), shard(2)
    first.observe(call(1, "unlock", session=key(1)), NOW)
    before = second.sessions
    data = first.kept.handover("1").hand_over([key(1), key(1)])
    assert second.kept.handover("1").take_over(data, NOW) == [key(1)]
    assert second.sessions == before + 1


def test_only_tools_of_the_sessions_that_move_take_numbers() -> None:
    """Numbers of tools that no learning run called are few: what others called here takes none there."""
    first, second = shard(9), shard(0)
    unknown = "delete nothing"
    first.observe(call(1, unknown, session=key(1), attributes=REFERRED), NOW)
    move(key(1), first, second)
    comparison = second.binder.judges["r"].comparison
    assert comparison is not None
    assert comparison.numbers_of({7: unknown, 8: "seen by nobody"}) == {7: 0, 8: 1}


def test_what_cannot_be_taken_over_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other records, other specs, a session that is known, anything else: refused, and nothing changes."""
    first, second, other = shard(1), shard(2), shard(0, ROVER)
    first.observe(call(1, "unlock", session=key(1)), NOW)
    data = first.kept.handover("1").hand_over([key(1), SessionKey("", "nobody")])
    with monkeypatch.context() as patch:
        session = session_codec.KINDS.by_name["session"]
        refused = KindChange(refused="it was another thing")
        later = session._replace(changes=(*session.changes, refused))
        patch.setattr(session_codec, "KINDS", session_codec.KINDS.replaced(later))
        with pytest.raises(
            UnkeptError, match=r"version 1 of the program.*it was another thing"
        ):
            second.kept.handover("2").take_over(data, NOW)
    with pytest.raises(UnkeptError, match="under other specs"):
        other.kept.handover("1").take_over(data, NOW)
    for bad in (b"", b"\x95\x01", data[:-1]):
        with pytest.raises(UnkeptError):
            second.kept.handover("1").take_over(bad, NOW)
    assert second.sessions == shard(2).sessions
    assert second.kept.handover("1").take_over(data, NOW) == [key(1)]
    with pytest.raises(UnkeptError, match="s1 is known here"):
        second.kept.handover("1").take_over(data, NOW)


def test_another_version_takes_over_what_fits() -> None:
    """While a fleet is upgraded, sessions go between versions whose records are the same."""
    first, second = shard(1), shard(2)
    first.observe(call(1, "unlock", session=key(1)), NOW)
    true = shown(first, key(1))
    data = first.kept.handover("1").hand_over([key(1)])
    assert second.kept.handover("2").take_over(data, NOW) == [key(1)]
    assert shown(second, key(1)) == true


def test_a_session_under_earlier_specs_stays() -> None:
    """It ends where it began: nobody else has its version."""
    first = shard(1)
    first.observe(call(1, "unlock", session=key(1)), NOW)
    first.use(specs(ROVER.replace("version: 1", "version: 2"), POLICY))
    with pytest.raises(UnkeptError, match="s1 is under earlier specs"):
        first.kept.handover("1").hand_over([key(1)])
    assert shown(first, key(1))


@given(st.data())
def test_damaged_bytes_raise_nothing_else(data: st.DataObject) -> None:
    """Whatever bit is another one, they are refused."""
    first, second = shard(1), shard(2)
    first.observe(call(1, "unlock", session=key(1)), NOW)
    raw = bytearray(first.kept.handover("1").hand_over([key(1)]))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(UnkeptError):
        second.kept.handover("1").take_over(bytes(raw), NOW)
