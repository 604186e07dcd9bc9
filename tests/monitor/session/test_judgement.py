"""One session under one spec: steps, rewinding, folding, doubt and finality."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.records import Evidence, SessionKey, ToolCall
from monitor.session.judge.judge import CODES, HARMFUL, PROGRESS, Judge
from monitor.session.judgement.calls_asked_about import widest
from monitor.session.judgement.finality import finalise
from monitor.session.judgement.fold_log import (
    FOLD_AFTER,
    FOLD_LUMP,
    LOG_MAX,
    fold,
    fold_first,
    is_crowded,
)
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.possible_harms import possible_harms
from monitor.session.judgement.resume_points import RESUME_EVERY
from monitor.session.judgement.step_marks import is_final
from monitor.spec.compiler.compile import compile_text
from monitor.visibility.cause import Cause
from monitor.visibility.gap import EVER, Gap
from monitor.visibility.sight import CLEAR, sight_of

SPEC = """
id: round
kind: task
alphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}, r: {tool: r}}
initial: s
accepting: [t]
transitions: {s: {a: t}, t: {b: u}, u: {c: s}}
reads: [r]
"""
SECOND = 1_000_000_000


def judge() -> Judge:
    spec, findings = compile_text(SPEC, "round.yaml")
    assert spec is not None, findings
    return Judge(spec)


JUDGE = judge()


JOINED = sight_of([Gap(Cause.SEEN_BEFORE, 0, 0)])
DOUBTFUL = sight_of([Gap(Cause.STARTED, 0, 0)])


def judgement(*, joined: bool = False, doubtful: bool = False) -> Judgement:
    return Judgement(JUDGE, "", JOINED if joined else DOUBTFUL if doubtful else CLEAR)


def call(number: int, tool: str, start: int | None = None, length: int = 1) -> ToolCall:
    start = number if start is None else start
    return ToolCall(
        session=SessionKey("", "s"),
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=start * SECOND,
        end_ns=start * SECOND + length,
        trace_id=b"t" * 16,
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"parents!",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={},
    )


def take(found: Judgement, made: ToolCall, now: int = 0) -> None:
    token = JUDGE.spec.alphabet.match(made.tool, made.arguments, made.error)
    if found.append(made, 0, token, made.start_ns, now) is None:
        found.insert(made, 0, token, made.start_ns, now)


def played(tools: str, *, doubtful: bool = False) -> Judgement:
    found = judgement(doubtful=doubtful)
    for number, tool in enumerate(tools):
        take(found, call(number, tool))
    return found


def told(found: Judgement) -> tuple[object, ...]:
    """The whole state of a judgement, to compare with one that is stepped anew."""
    steps = found.walk()
    marks = [found.log.mark(step.place) & 0x0F for step in steps]
    assert marks == [step.code for step in steps]
    tally = found.head.tally
    counts = (tally.calls, tally.substantive, tally.harmful_steps, tally.prefix_crit)
    return steps, counts, found.head.position, found.head.progressed, found.joined


def codes(found: Judgement) -> list[int]:
    return [step.code for step in sorted(found.walk())]


# --- any order of arrival -------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from("abcrx"), st.integers(1, 3)), max_size=150),
    st.integers(0, 2**32),
    st.integers(0, 40),
    st.booleans(),
)
def test_any_order_of_arrival_is_one_judgement(
    made: list[tuple[str, int]], seed: int, far: int, doubtful: bool
) -> None:
    """Late calls step the log again from a stop: as if all had come in order, and as if anew."""
    calls = [
        call(number, tool, number, length * SECOND)
        for number, (tool, length) in enumerate(made)
    ]
    chance = Random(seed)
    arrived = sorted(calls, key=lambda each: each.start_ns + chance.randint(0, far) * SECOND)
    ordered, other = judgement(doubtful=doubtful), judgement(doubtful=doubtful)
    for each in calls:
        take(ordered, each)
    for each in arrived:
        take(other, each)

    assert told(other) == told(ordered)


GAPS = st.lists(
    st.builds(
        lambda since, length, tool, ever: Gap(
            Cause.UNPLACED, since * SECOND, EVER if ever else (since + length) * SECOND, tool
        ),
        st.integers(0, 30),
        st.integers(1, 12),
        st.sampled_from(("a", "b", "c", "r", "")),
        st.booleans(),
    ),
    max_size=4,
)


@given(
    st.lists(
        st.one_of(st.tuples(st.sampled_from("abcrx"), st.integers(-3, 2)), GAPS), max_size=30
    )
)
def test_gaps_that_come_and_go_between_calls_leave_what_is_missing_in_the_end(
    events: list[tuple[str, int] | list[Gap]],
) -> None:
    """Gaps behind the last call, amid the calls and before them: the judgement is one that knew the last ones from the start."""
    found, made = judgement(), list[ToolCall]()
    for number, event in enumerate(events):
        if isinstance(event, list):
            found.see(sight_of(event))
        else:
            made.append(call(number, event[0], max(number + event[1], 0)))
            take(found, made[-1])
    anew = Judgement(JUDGE, "", found.sight)
    anew.hold_back()
    for each in made:
        take(anew, each)
    anew.catch_up()

    assert told(found) == told(anew)
    assert widest(found).position == widest(anew).position
    assert len(found.readings) == len(anew.readings)
    assert [each.position for each in found.readings] == [
        each.position for each in anew.readings
    ]


def test_a_call_between_two_gaps_finds_what_the_first_may_have_hidden() -> None:
    """Every three tools, with any tool missing before the second call and any behind it: as if all were known at once."""
    for tools, missing in product(product("abcr", repeat=3), product("abcr", repeat=2)):
        gaps = [
            Gap(Cause.UNPLACED, since * SECOND, until * SECOND, tool)
            for tool, since, until in zip(missing, (2, 7), (3, 9), strict=True)
        ]
        made = [
            call(number, tool, start)
            for number, (tool, start) in enumerate(zip(tools, (1, 5, 12), strict=True))
        ]
        found, anew = judgement(), judgement()
        for each in (found, anew):
            each.see(sight_of(gaps))
        anew.hold_back()
        for one in made:
            take(found, one)
            take(anew, one)
        anew.catch_up()

        assert (told(found), widest(found).position) == (told(anew), widest(anew).position), (
            tools,
            missing,
        )


@given(
    st.text("abcrx", min_size=40, max_size=120),
    st.lists(
        st.tuples(st.integers(0, 119), st.sampled_from("abcr"), st.booleans()), max_size=12
    ),
    st.booleans(),
)
def test_amended_and_retracted_calls_leave_no_trace(
    tools: str, corrections: list[tuple[int, str, bool]], doubtful: bool
) -> None:
    """After corrections anywhere the judgement is that of the calls as they are known in the end."""
    found = played(tools, doubtful=doubtful)
    left = dict(enumerate(tools))
    for number, tool, gone in corrections:
        place = found.log.find(call(number, tool).span_id)
        if place is None:
            continue
        if gone:
            found.retract(place)
            del left[number]
        else:
            left[number] = tool
            made = call(number, tool)
            token = JUDGE.spec.alphabet.match(tool, {}, False)
            found.amend(place, made, 0, token, made.start_ns)
    other = judgement(doubtful=doubtful)
    for number, tool in left.items():
        take(other, call(number, tool))

    assert told(found) == told(other)


@pytest.mark.plain
def test_a_late_call_is_stepped_from_the_last_stop() -> None:
    """In a long log a late call near its end costs the steps behind the stop, not the whole log."""
    found = played("r" * 500)
    take(found, call(1_000, "r", 100))
    assert found.resume_points is not None
    assert len(found.resume_points) > 10
    stepped = _counting(found, call(1_001, "a", 480))

    assert stepped <= 20 + 2 * RESUME_EVERY
    assert found.head.tally.calls == 502


@pytest.mark.plain
def test_a_call_of_the_last_group_is_stepped_with_its_group_alone() -> None:
    """Steps before the last group are not stepped again."""
    found = played("r" * 20)
    for number in range(20, 23):
        take(found, call(number, "abc"[number - 20], number, 10 * SECOND))
    stepped = _counting(found, call(23, "a", 23, 10 * SECOND))

    assert stepped <= 3 * 4
    assert found.head.tally.calls == 24


@pytest.mark.plain
def test_the_runs_before_the_last_group_go_once_it_is_final() -> None:
    """They are kept only while a call of the group may still arrive; the verdicts are the same without them."""
    found = played("r" * 20)
    for number in range(20, 23):
        take(found, call(number, "abc"[number - 20], number, 10 * SECOND), now=number * SECOND)
    assert found.resume_points is not None
    assert found.resume_points.before(22) is not None
    finalise(found, 21 * SECOND)
    assert found.resume_points.before(22) is not None

    finalise(found, 30 * SECOND)

    assert found.resume_points.before(22) is None
    before = codes(found)
    take(found, call(23, "r", 40))
    assert codes(found)[:-1] == before


overlapping = st.lists(
    st.tuples(st.sampled_from("abcrx"), st.integers(0, 2), st.integers(0, 3)), max_size=40
)
"""(tool, seconds behind the start of the one before, seconds that it takes)."""


@given(overlapping, st.booleans(), st.integers(0, 2**32))
def testresume_points_change_nothing(
    made: list[tuple[str, int, int]], doubtful: bool, seed: int
) -> None:
    """Groups of overlapping calls, some of them late, are judged as when all is stepped again."""
    chance, start, calls = Random(seed), 0, []
    for number, (tool, gap, seconds) in enumerate(made):
        start += gap
        calls.append(call(number, tool, start, seconds * SECOND))
    calls.sort(key=lambda each: each.start_ns + chance.choice([0, 0, 0, 4]) * SECOND)
    found, again = judgement(doubtful=doubtful), judgement(doubtful=doubtful)
    for each in calls:
        again.resume_points = None
        take(found, each)
        take(again, each)
        assert codes(found) == codes(again)
        assert found.head.position == again.head.position
    assert [step.code for step in found.walk()] == [step.code for step in again.walk()]


def _counting(found: Judgement, made: ToolCall) -> int:
    """How many steps of the log are unpacked to judge one more call."""
    log, count = found.log, 0
    unpacked = type(log).unpacked

    class Counting(type(log)):  # type: ignore[misc]
        __slots__ = ()

        def unpacked(self, first: int, end: int):  # type: ignore[no-untyped-def]
            nonlocal count
            count += end - first
            return unpacked(self, first, end)

    log.__class__ = Counting
    take(found, made)
    return count


# --- changes --------------------------------------------------------------------------------------


def test_a_late_call_revises_what_follows() -> None:
    """The call's own verdict comes first, then those it revises; harm is raised once."""
    found = judgement()
    take(found, call(1, "a"))
    take(found, call(3, "c"))
    token = JUDGE.spec.alphabet.match("b", {}, False)
    changes = found.insert(call(2, "b"), 0, token, 2 * SECOND, 0)

    shown = [(change.old, change.new, change.raised) for change in changes]
    assert [(old is None, new, raised) for old, new, raised in shown] == [
        (True, PROGRESS, False),
        (False, PROGRESS, False),
    ]
    assert CODES[shown[1][0] or 0][0].value == "harmful"


def test_final_verdicts_are_given_once() -> None:
    """Final verdicts are returned once, with the receipts up to then."""
    found, early, late = judgement(), 5 * SECOND, 9 * SECOND
    take(found, call(0, "x", 0), now=early)
    take(found, call(1, "x", 1), now=late)
    assert finalise(found, 0) == ([], early)
    first = finalise(found, early)

    assert [(step.place, step.code >= HARMFUL) for step in first.reported] == [(0, True)]
    assert (is_final(found.log.mark(0)), is_final(found.log.mark(1))) == (True, False)
    assert first.open == late
    assert finalise(found, early) == ([], late)
    last = finalise(found, late)
    assert ([step.place for step in last.reported], last.open) == ([1], None)


# --- folding --------------------------------------------------------------------------------------


def test_only_old_steps_far_back_are_folded() -> None:
    """Sixty-four steps stay, and whatever was received after the time given."""
    found = judgement()
    for number in range(FOLD_AFTER + 3 * FOLD_LUMP):
        take(found, call(number, "r"), now=number * SECOND)
    fold(found, (FOLD_LUMP - 2) * SECOND)
    assert found.folded == 0
    fold(found, (2 * FOLD_LUMP - 1) * SECOND)
    assert found.folded == 2 * FOLD_LUMP
    fold(found, 10**6 * SECOND)

    assert (found.folded, len(found.log)) == (3 * FOLD_LUMP, FOLD_AFTER)
    assert found.head.tally.calls == FOLD_AFTER + 3 * FOLD_LUMP


def test_a_group_is_folded_whole() -> None:
    """Overlapping siblings leave the log together, or stay together."""
    found = judgement()
    for number in range(FOLD_AFTER + 4 * FOLD_LUMP):
        beside = number in (40, 41, 42, 43)
        length = 5 * SECOND if beside else 1
        take(found, call(number, "r", number, length), now=number * SECOND)
    assert found.log.groups() == [(40, 48)]
    fold(found, 43 * SECOND)
    assert found.folded == 40
    fold(found, 10**6 * SECOND)

    assert (found.folded, found.log.groups()) == (4 * FOLD_LUMP, [])


@given(st.text("abcrx", min_size=120, max_size=200), st.integers(0, 2**32))
def testresume_points_survive_folding(tools: str, seed: int) -> None:
    """Late calls are judged alike in a log that is folded repeatedly and in one that is not."""
    chance = Random(seed)
    found, kept = judgement(), judgement()
    held: list[ToolCall] = []
    for number, tool in enumerate(tools):
        if chance.random() < 0.2:
            held.append(call(number, tool))
            continue
        for made in [call(number, tool), *held[: chance.randint(0, 1)]]:
            held = [each for each in held if each is not made]
            take(found, made)
            take(kept, made)
        if found.folded == 0 or chance.random() < 0.1:
            fold(found, 10**6 * SECOND)
    late = found.late
    assert found.head.tally.calls == kept.head.tally.calls
    if not late:
        assert found.head.position == kept.head.position
        assert found.head.tally.harmful_steps == kept.head.tally.harmful_steps
        assert codes(found) == codes(kept)[found.folded :]


def test_a_full_log_says_so() -> None:
    """Beyond its bound a log is crowded, until its first steps are folded."""
    found = judgement()
    for number in range(LOG_MAX + FOLD_LUMP):
        assert not is_crowded(found.log)
        take(found, call(number, "r"))
    assert is_crowded(found.log)
    fold_first(found, FOLD_LUMP)

    assert (is_crowded(found.log), found.folded, found.head.tally.calls) == (
        False,
        FOLD_LUMP,
        LOG_MAX + FOLD_LUMP,
    )


# --- doubt ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tools", "joined"), [("bca", True), ("abca", False), ("xx", False)])
def test_a_doubtful_session_is_read_with_fewer_harms(tools: str, joined: bool) -> None:
    """It was joined in the middle where that needs fewer harms; while they are equal it was not."""
    found = played(tools, doubtful=True)

    assert found.joined is joined
    assert found.head.exact is not joined


def test_a_late_call_may_end_the_doubt_either_way() -> None:
    """Read as joined until the first call comes, then from its beginning, and the verdicts with it."""
    found = played("bc", doubtful=True)
    assert found.joined
    take(found, call(50, "x", 60))
    token = JUDGE.spec.alphabet.match("a", {}, False)
    first = call(60, "a", 0)._replace(start_ns=0)
    found.insert(first, 0, token, 0, 0)

    assert not found.joined
    assert told(found)[1] == (4, 4, 1, pytest.approx(1 - 0.125 / 1.875))


@given(
    st.lists(st.sampled_from("abcrx+-"), max_size=60),
    st.booleans(),
)
def test_a_doubt_that_comes_or_goes_leaves_what_it_would_have_been(
    made: list[str], young: bool
) -> None:
    """Between any two calls: in the end it is judged as if it had been known from the beginning."""
    found, doubtful = judgement(doubtful=young), young
    calls = [call(number, tool) for number, tool in enumerate(made) if tool in "abcrx"]
    for number, tool in enumerate(made):
        if tool in "abcrx":
            take(found, call(number, tool))
        else:
            doubtful = tool == "+"
            found.see(DOUBTFUL if doubtful else CLEAR)
    other = judgement(doubtful=doubtful)
    for each in calls:
        take(other, each)

    assert told(found) == told(other)


def test_what_is_certainly_missing_is_allowed_for_in_the_plain_reading_too() -> None:
    """A session whose first calls are certainly missing is joined, has no scores, and no possible harm."""
    found = played("ab", doubtful=True)
    assert found.see(JOINED) == []
    take(found, call(5, "a"))

    assert (found.joined, found.head.exact, codes(found)[2] >= HARMFUL) == (True, False, True)
    assert found.readings == (found.head,)
    assert not found.see(JOINED)
    assert not possible_harms(found)
