"""The log keeps rows in order, packed and unpacked, parts behind their wholes, siblings together."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor.records import Evidence, SessionKey, ToolCall
from monitor.session.log.log import SessionLog
from monitor.session.log.rows import NO_PARENT, Texts, origin_of
from monitor.session.tool_names import Names

TRACE, OTHER = b"t" * 16, b"u" * 16
MILLISECOND = 1_000_000
RECEIPT = 99 * MILLISECOND


def span(number: int) -> bytes:
    return number.to_bytes(8, "big")


def call(number: int, start: int, end: int = 0, **changes: Any) -> ToolCall:
    made = ToolCall(
        session=SessionKey("", "s"),
        agent="",
        tool="t",
        arguments=None,
        error=False,
        start_ns=start,
        end_ns=end or start + 1,
        trace_id=TRACE,
        span_id=span(number),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={},
    )
    return made._replace(**changes)


def add(log: SessionLog, made: ToolCall, *, token: int = 0, at: int | None = None) -> int:
    return log.insert(made, 7, token, made.start_ns if at is None else at, RECEIPT).place


def spans(log: SessionLog) -> list[int]:
    return [int.from_bytes(log.row(place).span_id, "big") for place in range(len(log))]


def starts(log: SessionLog) -> list[tuple[int, int]]:
    """(place in the order, start) of each step."""
    return [(log.row(place).at, log.row(place).start) for place in range(len(log))]


# --- rows -------------------------------------------------------------------------------------


def test_a_row_is_what_was_put_in() -> None:
    """Packing into bytes loses nothing."""
    log = SessionLog()
    made = call(5, 10, 20, error=True, evidence=Evidence.REQUESTED, parent_span_id=span(9))
    place = add(log, made, token=0xFFFF)
    log.set_mark(place, 0xC5)
    log.keep(made.span_id, Texts("call-5", {"a": 1}))
    row = log.row(place)

    assert (row.at, row.start, row.end, row.receipt, row.tool) == (10, 10, 20, RECEIPT, 7)
    assert (row.span_id, row.parent_span_id, row.trace_id) == (span(5), span(9), TRACE)
    assert (row.error, row.evidence) == (True, Evidence.REQUESTED)
    assert row.texts == Texts("call-5", {"a": 1})
    assert (log.token(place), log.mark(place), log.find(span(5))) == (0xFFFF, 0xC5, 0)


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.integers(0, 2**63), st.booleans())
def test_any_times_can_be_kept(at: int, end: int, receipt: int, appended: bool) -> None:
    """Ends to the nanosecond, receipts to the millisecond below, whatever the clocks say."""
    log, made = SessionLog(), call(1, at)._replace(end_ns=end)
    if appended:
        log.append(made, 7, 0, at, receipt)
    else:
        log.insert(made, 7, 0, at, receipt)
    row = log.row(0)

    assert (row.at, row.end) == (at, end)
    assert 0 <= receipt - row.receipt < MILLISECOND
    assert row.receipt == log.receipt(0)
    assert (log.row(0).at, log.row(0).end) == (at, end)
    log.remove(0)
    near = SessionLog()
    near.append(call(1, 1), 7, 0, 1, 1)
    near.remove(0)
    assert log.size() == near.size()


def test_calls_that_are_told_long_after_are_packed_like_others() -> None:
    """Receipts count from the first one; those that do not fit are kept aside."""
    log, hour, sizes = SessionLog(), 3_600_000 * MILLISECOND, list[int]()
    receipts = [
        9_000 * hour + 5,
        9_000 * hour - hour // 4,
        9_004 * hour,
        8_000 * hour,
        9_005 * hour,
    ]
    for number, receipt in enumerate(receipts, 1):
        assert log.append(call(number, number), 7, 0, number, receipt)
        sizes.append(log.size())

    assert [log.receipt(place) for place in range(5)] == [
        receipt // MILLISECOND * MILLISECOND for receipt in receipts
    ]
    near, *far = (after - before for before, after in pairwise(sizes))
    assert [each > near for each in far] == [False, True, True]
    for place, receipt in enumerate(receipts):
        assert origin_of(call(place + 1, 0), receipt) == log.origin(place)


def test_the_origin_of_odd_ids_is_the_logs_to_tell() -> None:
    """An id that a row would cut or pad is not known before it is in the log."""
    assert origin_of(call(1, 1, span_id=b"short"), RECEIPT) is None
    assert origin_of(call(1, 1, trace_id=b"short"), RECEIPT) is None


@pytest.mark.parametrize("parents", [1, 5, 16, 17, 40])
def test_a_parent_is_known_among_few_and_many(parents: int) -> None:
    """A call that earlier ones are parts of is not appended, however many parents there are."""
    log = SessionLog()
    for number in range(1, parents + 1):
        made = call(number, number, parent_span_id=span(1_000 + number))
        assert log.append(made, 0, 0, number, RECEIPT)
    for number in (1, parents):
        assert not log.append(call(1_000 + number, 100), 0, 0, 100, RECEIPT)
    assert log.append(call(2_000, 100), 0, 0, 100, RECEIPT)
    assert not log.append(call(3_000, 101, span_id=b""), 0, 0, 101, RECEIPT)


def test_appending_takes_only_what_comes_last() -> None:
    """A call that starts with or before the last, or beside a sibling, is left to be inserted."""
    log = SessionLog()
    assert log.append(call(1, 10, 20), 0, 0, 10, 0)
    assert not log.append(call(2, 10, 30), 0, 0, 10, 0)
    assert not log.append(call(3, 15, 30), 0, 0, 15, 0)
    assert log.append(call(4, 15, 30, parent_span_id=span(8)), 0, 0, 15, 0)
    assert not log.append(call(8, 40), 0, 0, 40, 0)

    assert spans(log) == [1, 4]


def test_nothing_is_appended_before_the_last() -> None:
    """A call with an earlier end is inserted, not appended, so the last step is the last."""
    log = SessionLog()
    assert log.append(call(1, 50, 10), 0, 0, 50, 0)
    assert log.groups(1) == []
    assert not log.append(call(2, 40), 0, 0, 40, 0)
    assert not log.append(call(3, 50), 0, 0, 50, 0)
    assert add(log, call(4, 60, 20)) == 1
    assert not log.append(call(5, 55), 0, 0, 55, 0)
    assert log.append(call(6, 61), 0, 0, 61, 0)

    assert spans(log) == [1, 4, 6]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5), st.integers(0, 6)), max_size=14),
    st.integers(0, 2**32),
)
def test_any_order_of_insertion_is_one_log(made: list[tuple[int, int, int]], seed: int) -> None:
    """Rows do not depend on the order of insertion, and parts at any depth follow their wholes."""
    calls = [
        call(
            number,
            start,
            start + length,
            parent_span_id=span(parent) if parent < number else b"",
        )
        for number, (start, length, parent) in enumerate(made, 1)
    ]
    shuffled = calls[:]
    Random(seed).shuffle(shuffled)
    logs = []
    for order in (calls, shuffled):
        log = SessionLog()
        for each in order:
            if not log.append(each, 7, 0, each.start_ns, RECEIPT):
                add(log, each)
        logs.append([log.row(place) for place in range(len(log))])
        at = {row.span_id: row.at for row in logs[-1]}
        assert all(row.at > at[row.parent_span_id] for row in logs[-1] if row.parent_span_id)

    assert logs[0] == logs[1]


def test_numbers_of_tools_are_bounded() -> None:
    """Tools beyond the bound share one number and are counted, and a known one keeps its own."""
    names = Names()
    numbers = {names.number(f"tool{number}") for number in range(names.NAMES_MAX + 10)}

    assert 30_000 < len(numbers) < names.NAMES_MAX
    assert names.text(names.number("tool3")) == "tool3"
    assert names.text(names.number("one more")) == names.OVERFLOW
    assert names.overflowed == names.NAMES_MAX + 10 - len(numbers) + 1 + 1


def test_invented_names_take_no_number_from_others() -> None:
    """Whatever one tenant invents, another's tools and those of a spec have numbers of their own."""
    names = Names()
    for number in range(names.NAMES_MAX + 10):
        names.number(f"tool{number}", "loud")
    names.reserve(["pay", "tool7"])

    assert names.text(names.number("pay", "loud")) == "pay"
    assert names.text(names.number("mine", "quiet")) == "mine"
    assert names.text(names.number("also mine", "quiet/production")) == "also mine"
    assert names.number("one more", "loud") == 0


def test_long_names_are_bounded_by_their_bytes() -> None:
    """A thousand wide characters a name leave room for few names, whose bytes are the bound."""
    names = Names(bytes_max=1 << 20)
    for number in range(2_000):
        names.number(chr(0x4E00 + number) * 1_000)

    assert len(names) * 4_000 <= 1 << 20


def test_names_that_no_step_has_are_forgotten() -> None:
    """Used names keep their number and text. The numbers of others are reused."""
    names = Names(bytes_max=10_000)
    names.reserve(["pay"])
    while names.number(f"tool{len(names)}"):
        pass
    kept = names.number("tool1")
    assert names.crowded

    known = len(names)
    assert names.forget({kept}) == known - 2
    assert not names.crowded
    assert names.text(kept) == "tool1"
    assert names.text(names.number("pay")) == "pay"
    fresh = names.number("fresh")
    assert fresh not in (0, kept)
    assert names.text(fresh) == "fresh"


# --- parents and children -------------------------------------------------------------------------


def test_a_chain_of_parts_moves_together() -> None:
    """A whole that comes last pushes its part, and the part of this part, behind itself."""
    log = SessionLog()
    add(log, call(3, 1, parent_span_id=span(2)))
    add(log, call(2, 2, parent_span_id=span(1)))
    placed = log.insert(call(1, 10), 7, 0, 10, RECEIPT)

    assert spans(log) == [1, 2, 3]
    assert starts(log) == [(10, 10), (11, 2), (12, 1)]
    assert (placed.place, placed.first, placed.moved) == (0, 0, 2)


def test_a_whole_that_is_gone_frees_its_parts() -> None:
    """When a whole is removed, its parts return to their own start times."""
    log = SessionLog()
    add(log, call(1, 10))
    add(log, call(2, 5, parent_span_id=span(1)))
    add(log, call(4, 7))
    assert spans(log) == [4, 1, 2]
    log.remove(1)
    log.settle(TRACE, span(1))

    assert spans(log) == [2, 4]
    assert starts(log) == [(5, 5), (7, 7)]


def test_a_whole_that_is_placed_by_its_end_leads_nobody() -> None:
    """A wrapper placed at its end does not move its parts behind that end."""
    log = SessionLog()
    add(log, call(2, 5, parent_span_id=span(1)))
    add(log, call(1, 1, 20), at=20)

    assert spans(log) == [2, 1]


@given(st.permutations(range(20)))
@example([*range(1, 20), 0])
def test_parts_of_parts_stand_alike_whatever_comes_first(arrived: list[int]) -> None:
    """Twenty calls, each made by the one before, whose hosts' clocks are each further behind: they stand as they were made."""
    log = SessionLog()
    for number in arrived:
        above = span(number) if number else b""
        add(log, call(number + 1, 100 - number, parent_span_id=above))

    assert spans(log) == list(range(1, 21))


def test_spans_in_a_circle_are_placed_all_the_same() -> None:
    """Two spans that claim to be parts of each other, or one of itself, end the search."""
    log = SessionLog()
    add(log, call(1, 10, parent_span_id=span(2)))
    add(log, call(2, 10, parent_span_id=span(1)))
    add(log, call(3, 10, parent_span_id=span(3)))

    assert sorted(spans(log)) == [1, 2, 3]


def test_a_part_is_of_its_own_trace() -> None:
    """A span id that is a parent in another trace moves nothing."""
    log = SessionLog()
    add(log, call(2, 5, parent_span_id=span(1), trace_id=OTHER))
    add(log, call(1, 10))

    assert starts(log) == [(5, 5), (10, 10)]


# --- receipts -------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 2, 3]),  # whose part it is, if that one is there
        st.integers(0, 40),  # start, in milliseconds
        st.sampled_from([0, 0, 3, -3]),  # how far its receipt is out of turn
        st.booleans(),  # it is marked
        st.integers(-9, 9),  # a place that is taken out then, and put back in
    ),
    max_size=14,
)


def _made(steps: list[tuple[int, int, int, bool, int]], *, hours: bool) -> SessionLog:
    """A log of steps that came in this order, each received a millisecond after the one before."""
    log = SessionLog()
    for number, (parent, start, ahead, marked, again) in enumerate(steps, 1):
        at = start * MILLISECOND
        receipt = (100 + number + ahead) * MILLISECOND * (3_600_000 if hours else 1)
        made = call(number, at, parent_span_id=span(parent) if parent else b"")
        if not log.append(made, 7, 0, at, receipt):
            log.insert(made, 7, 0, at, receipt)
        if marked:
            log.set_mark(log.find(span(number)) or 0, 0x80)
        if 0 <= again < len(log):
            row, mark = log.row(again), log.mark(again)
            log.remove(again)
            put = call(1, row.start, parent_span_id=row.parent_span_id, span_id=row.span_id)
            log.set_mark(log.insert(put, 7, 0, row.start, row.receipt).place, mark)
    return log


def _agree(log: SessionLog) -> None:
    """Checks that a search over the steps finds what a scan of each step finds."""
    places = range(len(log))
    waiting = {place: log.row(place).receipt for place in places if not log.mark(place) & 0x80}
    for before in {*waiting.values(), 0}:
        due = [place for place, receipt in waiting.items() if receipt <= before]
        rest = min((each for each in waiting.values() if each > before), default=None)
        assert log.received(before, 0x80) == (due, rest)
        for end in places:
            found, _ = log.received(before, 0x80, end)
            assert found == [place for place in due if place < end]


@example([(0, 1, 3, False, -1), (0, 2, -3, False, -1)], [], (False, False))
@example([(0, 2, 0, False, -1), (0, 1, 0, False, -1)], [], (False, False))
@example(
    [(0, 1, 3, False, -1), (0, 3, 0, False, -1), (0, 2, -3, False, -1)], [], (False, False)
)
@given(STEPS, STEPS, st.sampled_from([(False, False)] * 3 + [(True, False), (False, True)]))
def test_steps_are_found_by_their_receipt_in_whatever_order_they_came(
    steps: list[tuple[int, int, int, bool, int]],
    others: list[tuple[int, int, int, bool, int]],
    hours: tuple[bool, bool],
) -> None:
    """Late, moved, re-read and folded steps are all found by receipt."""
    log, other = _made(steps, hours=hours[0]), _made(others, hours=hours[1])
    _agree(log)
    for place in range(len(other)):
        log.take(other, place)
    log.settle_all()
    _agree(log)
    log.forget(len(log) // 2)
    _agree(log)


# --- siblings -------------------------------------------------------------------------------------


@given(
    made=st.lists(
        st.tuples(st.integers(1, 2), st.integers(0, 2), st.booleans(), st.integers(0, 9)),
        max_size=9,
    ),
    taken=st.lists(st.integers(0, 8), max_size=4),
)
def test_span_ids_of_two_traces_may_be_equal(
    made: list[tuple[int, int, bool, int]], taken: list[int]
) -> None:
    """Steps with equal span ids in two traces are both found, even after one is withdrawn."""
    log, count = SessionLog(), len(made)
    for place, (number, parent, other, hours) in enumerate(made):
        start = place * 7 % 5 * 3_600_000 * MILLISECOND
        add(
            log,
            call(
                number,
                start,
                start + hours * 3_600_000 * MILLISECOND,
                trace_id=OTHER if other else TRACE,
                parent_span_id=span(parent) if parent else b"",
            ),
            at=start + hours % 2,
        )
    for place in taken:
        if place < len(log):
            row = log.row(place)
            log.remove(place)
            log.settle(row.trace_id, row.span_id)
            count -= 1
    log.groups()
    merged = SessionLog()
    for place in range(len(log)):
        merged.take(log, place)
    merged.settle_all()

    assert len(spans(merged)) == len(log.marks()) == count


def test_siblings_overlap_by_time_and_parent() -> None:
    """Touching times are a sequence. A chain of overlaps is one group. Other parents have other groups."""
    log = SessionLog()
    for number, (start, end, parent) in enumerate(
        [(0, 10, 8), (10, 20, 8), (15, 30, 8), (25, 40, 8), (35, 50, 9), (36, 60, 9)], 1
    ):
        add(log, call(number, start, end, parent_span_id=span(parent)))

    assert log.groups() == [(1, 4), (4, 6)]
    assert log.groups(4) == [(4, 6)]
    assert log.tail_end == 60


def test_calls_without_a_parent_are_siblings_in_all_traces() -> None:
    """A call whose context was lost is a root: its trace says nothing of what it runs beside."""
    log = SessionLog()
    for number, (start, end) in enumerate([(0, 10), (5, 20), (20, 30)], 1):
        made = call(number, start, end, trace_id=bytes(15) + bytes([number]))
        assert log.append(made, 7, 0, start, RECEIPT) is (number != 2)
        if number == 2:
            add(log, made)
    add(log, call(4, 25, 40, parent_span_id=span(9)))

    assert log.groups() == [(0, 2)]
    assert log.running_at(1) == {NO_PARENT: 10}


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(8, 9)),
        min_size=1,
        max_size=12,
    )
)
def test_groups_before_a_place_are_those_of_all(made: list[tuple[int, int, int]]) -> None:
    """The groups from any step to any place are those of the whole log; a group across the place is whole."""
    log = SessionLog()
    for number, (start, length, parent) in enumerate(made, 10):
        add(log, call(number, start, start + length, parent_span_id=span(parent)))
    for first in range(len(log) + 1):
        every = log.groups(first)
        known, log.tail_end = log.tail_end, -1
        for end in range(first, len(log)):
            found = log.groups(first, end=end)
            assert found == [group for group in every if group[0] < end]
            assert log.tail_end in (-1, known)
            log.tail_end = -1


times = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 12), st.integers(7, 9)),
    min_size=1,
    max_size=12,
)
"""(start, duration, parent) of calls."""


def brute_groups(made: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """From the definition: runs of siblings that hang together by overlap, joined where they cross."""
    runs: list[list[int]] = []
    for parent in {parent for _, _, parent in made}:
        runs.append([])
        over = 0
        for place, (start, end, other) in enumerate(made):
            if other != parent:
                continue
            if start >= over:
                runs.append([])
            runs[-1].append(place)
            over = max(over, end)
    found: list[tuple[int, int]] = []
    for first, last in sorted((run[0], run[-1]) for run in runs if len(run) > 1):
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last + 1)
        else:
            found.append((first, last + 1))
    return found


@given(times)
def test_groups_are_not_cut_by_calls_of_other_parents(made: list[tuple[int, int, int]]) -> None:
    """Groups are the connected runs of siblings, from any place that cuts none."""
    made = sorted((start, start + length, parent) for start, length, parent in made)
    log = SessionLog()
    for number, (start, end, parent) in enumerate(made, 10):
        log.insert(call(number, start, end, parent_span_id=span(parent)), 7, 0, start, RECEIPT)
    every = brute_groups(made)

    assert log.groups() == every
    for first in range(1, len(log)):
        found = log.groups(first, running=log.running_at(first))
        if any(begin < first < end for begin, end in every):
            assert found[0][0] < first
        else:
            assert found == [group for group in every if group[0] >= first]
        half = first // 2
        assert log.running_at(first) == log.running_at(first, half, log.running_at(half))


# --- calls that have lost their context -------------------------------------------------------------

PARENTS = (b"", span(8), span(9), span(10))
"""The last one is the first call."""

lost = st.lists(
    st.tuples(
        st.integers(2, 12),
        st.integers(0, 9),
        st.sampled_from(PARENTS),
        st.sampled_from((TRACE, OTHER)),
    ),
    min_size=1,
    max_size=8,
)
"""(start, duration, parent, trace) of calls."""


def lost_calls(made: list[tuple[int, int, bytes, bytes]]) -> list[ToolCall]:
    calls = [
        call(number, start, start + length, parent_span_id=parent, trace_id=trace)
        for number, (start, length, parent, trace) in enumerate(made, 11)
    ]
    return sorted(
        [call(10, 1, 20, parent_span_id=span(8)), *calls],
        key=lambda each: (each.start_ns, each.end_ns, each.span_id),
    )


def brute_lost(calls: list[ToolCall]) -> set[tuple[int, int]]:
    """From the definition: which two calls overlap, and are siblings or may be."""
    return {
        (number, place)
        for place, later in enumerate(calls)
        for number, first in enumerate(calls[:place])
        if first.end_ns > later.start_ns and _may_be_beside(calls, first, later)
    }


def _may_be_beside(calls: list[ToolCall], first: ToolCall, later: ToolCall) -> bool:
    if not first.parent_span_id and not later.parent_span_id:
        return True
    if first.parent_span_id and later.parent_span_id:
        return (first.trace_id, first.parent_span_id) == (later.trace_id, later.parent_span_id)
    other = first if first.parent_span_id else later
    if other.parent_span_id == span(10):
        return False
    place = calls.index(later)
    roots = [
        each.trace_id
        for number, each in enumerate(calls[: place + 1])
        if not each.parent_span_id and (number == place or each.end_ns > later.start_ns)
    ]
    return len(roots) > 1 or roots[0] != other.trace_id


@given(lost, st.randoms(use_true_random=False))
def test_a_call_that_has_lost_its_context_may_be_beside_any_that_is_no_part_of_a_call(
    made: list[tuple[int, int, bytes, bytes]], random: Random
) -> None:
    """It has no parent, and another trace than the others, or runs beside another one without a parent; in any order of arrival."""
    calls = lost_calls(made)
    log, order = SessionLog(by_answer=True), list(calls)
    random.shuffle(order)
    for each in order:
        if not log.append(each, 7, 0, each.start_ns, RECEIPT):
            add(log, each)
            log.groups()
    calls = [
        calls[[int.from_bytes(c.span_id, "big") for c in calls].index(n)] for n in spans(log)
    ]
    pairs = brute_lost(calls)
    found = log.groups()

    inside = {
        (one, two) for one, two in pairs for first, end in found if first <= one < two < end
    }
    assert inside == pairs
    assert all(
        any((one, end - 1) in pairs for one in range(first, end)) for first, end in found
    )
    for first, end in found:
        times = log.group_times(first, end)
        beside = {number for pair in pairs for number in pair if first <= number < end}
        for number, (start, over) in enumerate(times, first):
            assert (start, over) == (
                (calls[number].start_ns, calls[number].end_ns)
                if number in beside
                else (start, start)
            )
    for first in range(1, len(log)):
        later = log.groups(first, running=log.running_at(first))
        if any(begin < first < end for begin, end in found):
            assert later[0][0] < first
        else:
            assert later == [group for group in found if group[0] >= first]


def test_where_the_worst_order_counts_a_lost_call_is_beside_no_other() -> None:
    """That they ran at once is not certain then: the call without a parent may be the agent's own, or below one of them."""
    calls = [call(1, 0, 10, parent_span_id=span(9)), call(2, 5, 20, trace_id=OTHER)]
    for is_best, groups in ((True, [(0, 2)]), (False, [])):
        log = SessionLog(by_answer=is_best)
        for each in calls:
            add(log, each)
        assert log.groups() == groups


def test_the_only_call_without_a_parent_may_be_the_root_of_its_trace() -> None:
    """What runs meanwhile in its trace may be below it; two of them are not both roots of one run."""
    log = SessionLog(by_answer=True)
    add(log, call(1, 0, 20))
    add(log, call(2, 5, 10, parent_span_id=span(9)))
    assert log.groups() == []

    add(log, call(3, 6, 8))
    assert log.groups() == [(0, 3)]


# --- answers ----------------------------------------------------------------------------------

ANSWERS = (b"", b"", b"answer A", b"answer B")

asked = st.lists(
    st.tuples(
        st.integers(1, 20), st.integers(0, 6), st.integers(8, 9), st.sampled_from(ANSWERS)
    ),
    min_size=1,
    max_size=9,
)
"""(start, duration, parent, answer) of calls."""


def asked_calls(made: list[tuple[int, int, int, bytes]]) -> list[ToolCall]:
    return [
        call(number, start, start + length, parent_span_id=span(parent), answer=answer)
        for number, (start, length, parent, answer) in enumerate(sorted(made), 10)
    ]


def brute_answers(calls: list[ToolCall]) -> list[tuple[int, int]]:
    """From the definition: groups by overlap, and from the first to the last call of an answer, joined where they cross."""
    found = brute_groups(
        [(each.start_ns, each.end_ns, int.from_bytes(each.parent_span_id)) for each in calls]
    )
    for answer in set(ANSWERS) - {b""}:
        places = [place for place, each in enumerate(calls) if each.answer == answer]
        if len(places) > 1:
            found.append((places[0], places[-1] + 1))
    joined: list[tuple[int, int]] = []
    for first, end in sorted(found):
        if joined and first < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((first, end))
    return joined


@given(asked, st.randoms(use_true_random=False))
def test_calls_of_one_answer_are_a_group(
    made: list[tuple[int, int, int, bytes]], random: Random
) -> None:
    """Whether they overlap or not, in any order of arrival; from and to any place."""
    calls = asked_calls(made)
    calls.sort(key=lambda each: (each.start_ns, each.end_ns, each.span_id))
    log, order = SessionLog(by_answer=True), list(calls)
    random.shuffle(order)
    for each in order:
        if not log.append(each, 7, 0, each.start_ns, RECEIPT):
            add(log, each)
            log.groups()
    every = brute_answers(calls)

    assert log.grouped or not every
    assert log.groups() == log.copy().groups() == every
    for place in range(1, len(log) + 1):
        assert log.groups(end=place) == [group for group in every if group[0] < place]
    for first in range(1, len(log)):
        found = log.groups(first, running=log.running_at(first))
        if any(begin < first < end for begin, end in every):
            assert found[0][0] < first
        else:
            assert found == [group for group in every if group[0] >= first]


@given(asked)
def test_calls_of_one_answer_overlap_in_the_search(
    made: list[tuple[int, int, int, bytes]],
) -> None:
    """Each two of them do; of all others, those that had ended before another started still have."""
    calls = asked_calls(made)
    log, plain = SessionLog(by_answer=True), SessionLog()
    for each in calls:
        add(log, each)
        add(plain, each)
    ordered = {span(number): place for place, number in enumerate(spans(log))}
    for first, end in log.groups():
        times, before = log.group_times(first, end), plain.group_times(first, end)
        assert [start for start, _ in times] == sorted(start for start, _ in times)
        for one in calls:
            for other in calls:
                at, behind = ordered[one.span_id] - first, ordered[other.span_id] - first
                if not (0 <= at < behind < end - first):
                    continue
                if one.answer and one.answer == other.answer:
                    assert times[at][1] > times[behind][0]
                elif not one.answer:
                    had_ended = before[at][1] <= before[behind][0]
                    assert (times[at][1] <= times[behind][0]) is had_ended


def test_a_log_that_is_not_by_answer_knows_none() -> None:
    """A strict policy orders calls by their times alone."""
    log = SessionLog()
    for number, start in ((1, 10), (2, 20)):
        assert log.append(call(number, start, answer=b"answer A"), 7, 0, start, RECEIPT)
    assert log.groups() == []


def test_answers_leave_with_their_calls() -> None:
    """What is forgotten, removed, or given another answer is in no group. Bytes are told."""
    calls = [call(number, number * 10, answer=b"answer A") for number in range(1, 4)]
    log = SessionLog(by_answer=True)
    for each in calls:
        add(log, each)
    plain = SessionLog()
    for each in calls:
        add(plain, each)
    assert log.groups() == [(0, 3)]
    assert log.size() > plain.size()
    log.forget(1)
    assert log.groups() == [(0, 2)]
    log.remove(1)
    assert log.groups() == []
    add(log, calls[2]._replace(answer=b""))
    assert log.groups() == []
    twin = SessionLog(by_answer=True)
    add(log, calls[0])
    for place in range(len(log)):
        twin.take(log, place)
    assert twin.groups() == log.groups() == [(0, 2)]


@given(times)
def test_what_is_appended_overlaps_no_sibling(made: list[tuple[int, int, int]]) -> None:
    """This holds with any number of calls of other parents in between."""
    made = sorted((start, start + length, parent) for start, length, parent in made)
    log = SessionLog()
    for number, (start, end, parent) in enumerate(made, 10):
        before = made[: number - 10]
        beside = any(other == parent and start < over for _, over, other in before)
        follows = not before or start > before[-1][0]
        step = call(number, start, end, parent_span_id=span(parent))
        appended = log.append(step, 7, 0, start, RECEIPT)
        assert appended == (follows and not beside)
        if not appended:
            log.insert(step, 7, 0, start, RECEIPT)
            log.groups()


def test_siblings_are_known_among_many_parents() -> None:
    """A parent that comes up again after many others is the same parent."""
    log = SessionLog()
    add(log, call(1, 100, 200, parent_span_id=span(50)))
    for number in range(2, 12):
        add(log, call(number, 1000 + number, parent_span_id=span(50 + number)))
    add(log, call(20, 150, 160, parent_span_id=span(50)))
    assert log.groups() == [(0, 2)]

    log.forget(2)
    add(log, call(30, 2_000, 3_000, parent_span_id=span(52)))
    assert log.groups() == []
    assert not log.append(call(31, 2_500, parent_span_id=span(52)), 7, 0, 2_500, RECEIPT)


# --- call ids ----------------------------------------------------------------------------------


def shown_ids(log: SessionLog) -> list[str]:
    texts = [log.row(place).texts for place in range(len(log))]
    return [each.call_id if each else "" for each in texts]


def test_a_log_shows_the_ids_of_the_steps_it_has() -> None:
    """Ids move with their steps: to the middle, to another log, and out."""
    log, long = SessionLog(), "x" * 300
    for number, call_id in [(1, "one"), (2, ""), (3, long), (5, "five")]:
        assert log.append(call(number, number, call_id=call_id), 0, 0, number, number)
    log.insert(call(4, 4, call_id="four"), 0, 0, 4, 9)
    assert shown_ids(log) == ["one", "", long, "four", "five"]

    other = SessionLog()
    for place in range(5):
        other.take(log, place)
    assert shown_ids(other) == ["one", "", long, "four", "five"]

    log.remove(3)
    assert shown_ids(log) == ["one", "", long, "five"]
    log.forget(2)
    assert shown_ids(log) == [long, "five"]
    log.forget(2)
    bare = SessionLog()
    for number in range(1, 6):
        bare.append(call(number, number), 0, 0, number, number)
    bare.remove(3)
    bare.forget(4)
    assert log.size() == bare.size()


def test_ids_outlive_the_hashes_of_arguments() -> None:
    """Hashes for comparison are dropped. Shown arguments and all ids stay."""
    log, long = SessionLog(), "x" * 300
    for number, call_id in [(1, "one"), (2, long), (3, "three"), (4, "")]:
        log.append(call(number, number, call_id=call_id), 0, 0, number, number)
        shown = {"a": 1} if number == 3 else None
        log.keep(span(number), Texts(call_id, shown, frozenset({number})))
    log.release()

    assert [log.row(place).texts for place in range(4)] == [
        Texts("one", None),
        Texts(long, None),
        Texts("three", {"a": 1}),
        None,
    ]
    kept = SessionLog()
    for number, call_id in [(1, "one"), (2, long), (3, "three"), (4, "")]:
        kept.append(call(number, number, call_id=call_id), 0, 0, number, number)
    kept.keep(span(3), Texts("three", {"a": 1}))
    assert log.size() == kept.size()


# --- folding and merging --------------------------------------------------------------------------


def test_what_is_folded_is_forgotten_whole() -> None:
    """Folding drops the rows, texts and moved places, and parents without children."""
    log = SessionLog()
    for number in range(1, 101):
        add(log, call(number, number * 10, parent_span_id=span(1_000 + number)), at=number * 11)
        log.keep(span(number), Texts("c", None))
    full = [log.row(place) for place in range(90, 100)]
    log.forget(90)

    assert [log.row(place) for place in range(10)] == full
    kept = SessionLog()
    for number in range(91, 101):
        add(
            kept, call(number, number * 10, parent_span_id=span(1_000 + number)), at=number * 11
        )
        kept.keep(span(number), Texts("c", None))
    assert log.size() == kept.size()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6), st.booleans()), max_size=12))
def test_two_logs_merge_into_one(made: list[tuple[int, int, bool]]) -> None:
    """Taking over another log's steps is as if all had come to one log."""
    logs, one = (SessionLog(), SessionLog()), SessionLog()
    for number, (start, parent, first) in enumerate(made, 1):
        each = call(number, start, parent_span_id=span(parent) if parent < number else b"")
        for log in (logs[first], one):
            add(log, each)
    for place in range(len(logs[1])):
        logs[0].take(logs[1], place)
    logs[0].settle_all()

    merged = [logs[0].row(place) for place in range(len(logs[0]))]
    assert merged == [one.row(place) for place in range(len(one))]
