"""Both laws of certainty hold for worlds with every fault of the catalogue, one at a time and in pairs."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import pytest

from tests.simulation.worlds import table
from tests.simulation.worlds.catalogue import FAULTS
from tests.simulation.worlds.fault import Fault
from tests.simulation.worlds.laws import CANNOT_BE_TOLD, FALSE_CERTAIN
from tests.simulation.worlds.play import (
    Faults,
    Played,
    is_held,
    pairs,
    play,
    play_many,
    shown,
    shrunk,
    singles,
)
from tests.simulation.worlds.world import Plan

# Worlds of each entry, and pairs with one world each, in `make test`.
SAMPLE = 3
PAIRS = 60
# In `make test-long`: with the pairs, ten thousand worlds.
LONG = 100


def _check(faults: Faults, played: Played) -> None:
    """Entries that hold together break no law."""
    if is_held(faults):
        for plans in played.broken.values():
            pytest.fail(shown(shrunk(plans[0])))


@pytest.mark.parametrize("entry", FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_world_makes_no_harm_certain_and_hides_none(entry: Fault) -> None:
    """In worlds with this fault, no certain harm is false, and no true one is silent."""
    played = play_many((entry,), SAMPLE)
    _check((entry,), played)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("lost_with_parents", 982_393),
        ("clock_set_back", 478),
        ("calls_within_calls", 196_645),
        # A call whose span was not sent yet is named by those below it.
        ("clock_set_back + repeats_below_one_call", 383_865),
        # The other fault has its choice in the twin, too.
        ("lost_with_parents + crowded", 887_356),
        # By how much the clock of another host is ahead is the same in the twin.
        ("tools_on_another_host + lost_with_parents", 923_136),
        # What encloses equal calls may also be a tracer that nests what was asked for at once.
        ("repeats_below_one_call", 788_619),
        ("repeats_below_one_call + ids_by_turn", 325_778),
        ("repeats_below_one_call + calls_within_calls", 840_336),
    ],
)
def test_what_nobody_can_tell_is_proven_by_a_twin(name: str, seed: int) -> None:
    """A certain harm that is not true is excused by a twin of its world, and only by one."""
    faults = [FAULTS[each] for each in name.split(" + ")]
    plan = Plan(seed, tuple(faults))
    alone = Plan(seed, tuple([replace(each, twin=None, instead=None) for each in faults]))

    assert {each.law for each in play(plan)} == {CANNOT_BE_TOLD}
    assert {each.law for each in play(alone)} == {FALSE_CERTAIN}


def test_a_world_without_a_fault_is_judged_as_it_is() -> None:
    """Where nothing goes wrong, every harm is certain, and there is no other."""
    _check((), play_many((), 20))


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        # Tools' spans come after their requests were judged: calls of one answer overlap nevertheless.
        ("shuffled", 977_597),
        ("delayed", 412_569),
        # A call without a span stands among the spans of its answer, and before those of the next one.
        ("client_tool", 649_197),
        ("client_tool", 648_828),
        # A span that was open when its clock was set back shows it; a page may come before that span.
        ("clock_set_back", 449),
        ("clock_set_back", 910_420),
        # The sender's clock is behind by more than the process is old.
        ("clock_behind + started_just_before_first_requests", 758_777),
        # One entry's setting made the other one's conversations one session.
        ("better_name_above + worse_name_above", 512_062),
        # A call without times may be behind one whose clock is ahead by less than is corrected.
        ("clock_ahead + no_times", 482_230),
        # Calls of one answer are below workers' spans, each of which is a root of their one trace.
        ("a_trace_a_call + later_turns_without_id", 850_204),
        # One request to a server has two spans below different ones, with its id.
        ("told_twice + mcp_calls", 760_838),
        # Tools of a server have spans; one that is asked for has none, and its results are not on the wire.
        ("mcp_round_trips + client_tool_unanswered", 156_236),
        # A trace whose root names its session better than its other spans proves that this one is new.
        ("better_name_above + started_just_before_first_requests", 755_228),
        # Two executions of one request had two ids.
        ("executed_twice + ids_by_answer", 248_462),
        # A call without a span was asked for before a restart, and its result came after it.
        ("restarted_and_retried + parallel_tools_without_spans", 389_620),
        # Calls whose conversation is not known yet are hours old by their clock.
        ("clock_behind_the_start + id_on_parents_later", 445_302),
        # The harm that was counted at one call turns out to be at the call before it.
        ("odd_names + id_on_parents_later", 635_684),
        # Traces whose calls are moved back, since one clock is far ahead, turn out to be one session.
        ("clock_ahead + id_on_parents_soon", 936_349),
        # A server's span says that its tool has failed, whatever the framework writes.
        ("failures_in_results + mcp_calls", 38_710),
        ("failures_in_odd_results + mcp_calls", 830_083),
        # Ids count anew in each answer: two equal calls are written as one that is told again.
        ("ids_by_answer", 170_572),
        ("told_twice + ids_by_answer", 793_650),
        # Of equal calls, the one without times is told for certain, and the others are in doubt.
        ("equal_calls_without_parents + no_times", 267_324),
        # The later copy of a span was taken first, and the earlier one has another id then.
        ("told_again_with_a_later_start + restarted_and_retried", 737_185),
        # Calls without parents overlap calls of their answer that have one.
        ("equal_calls_without_parents", 556_633),
        ("equal_calls_without_parents + ids_by_answer", 209_169),
        ("equal_calls_without_parents + ids_by_turn", 919_063),
        # Two workers execute one request, beside other calls of its answer; no model's span tells of that.
        ("executed_twice", 388_000),
        ("executed_twice + no_model_spans", 592_486),
        ("executed_twice + ids_by_turn", 119_355),
        # A failed call without an id encloses its attempts.
        ("repeats_below_one_call", 788_155),
        # Of the calls before a start, only what models were given later tells.
        ("started_in_mid_session", 472_258),
        ("restarted_and_retried + client_tool", 316),
        ("started_in_mid_session + client_tool", 984_647),
        # Calls of which nothing has arrived use a limit up, or are where the next one begins.
        ("better_name_above + started_in_mid_session", 724_071),
        # The agent's span, which names the conversation, was sent while the process was down.
        ("id_on_parents_later + down_and_lost", 952_176),
        # A session that is read as joined is counted when it ends; its process was killed before.
        ("clock_behind_the_start + restarted_and_lost", 325_906),
        # A clock is set while a conversation rests, not in the middle of its spans.
        ("no_times + resumed_after_its_end", 309_625),
        # Calls without a parent, in a trace whose agent's span names the conversation later.
        ("id_on_parents_later + equal_calls_without_parents", 946_787),
        ("equal_calls_without_parents + id_on_parents_later", 532_616),
        ("equal_calls_without_parents + id_on_parents_soon", 687_969),
        # A trace without an id has ended, with its harm, before its conversation goes on.
        ("a_trace_a_call + resumed_after_its_end", 945_752),
        # One call of a server's tool has no span. The client's span of another one comes after the server's.
        ("lost_and_answered + mcp_calls", 688_821),
        ("parallel_tools_without_spans + mcp_calls", 712_064),
        # A span comes before its request, after the result of an earlier request was given.
        ("lost_and_answered + mcp_calls", 688_855),
        ("delayed + lost_and_answered", 214_327),
        # Two rounds of a call are no two calls, one of which had no span.
        ("lost_and_answered + mcp_round_trips", 821_977),
        # Results are not on the wire; the last request to a model has nothing but its name.
        ("lost_and_answered + client_tool_unanswered", 894_391),
        ("client_tool_unanswered + parallel_tools_without_spans", 765_604),
        # A request comes after the one that holds its result.
        ("shuffled + parallel_tools_without_spans", 510_104),
        ("shuffled + parallel_tools_without_spans", 510_173),
        ("shuffled + parallel_tools_without_spans", 510_259),
        # A span is received milliseconds before its end, and the clock of another host is ahead by seconds.
        ("tools_on_another_host + mcp_calls", 448_036),
        # A tool of a server makes calls, and has no span of the framework that these could be below.
        ("repeats_below_one_call + mcp_round_trips", 448_911),
        # A call that another call's tool makes has a span, or else nothing tells of it.
        ("client_tool_unanswered + calls_within_calls", 594_258),
        # A model's clock tells when a call was asked for that left no span; the tools' clock is ahead.
        ("lost_and_answered + tools_on_another_host", 661_834),
        # By the tools' clock, which is ahead, calls before the restart have times after it.
        ("tools_on_another_host + restarted_and_retried", 62_393),
        # Calls of one answer, without ids; one of them has no times either.
        ("no_times + answer_one_by_one_without_ids", 272_841),
        # A call in a trace of its own is no repetition of its request.
        ("tools_on_another_host + context_lost_with_ids", 926_532),
        # The name of a call that may be missing is nearly that of a tool.
        ("odd_names + id_on_parents_soon", 3_034_200),
        # All calls of an answer have one id, and the first one's span is above the others.
        ("one_id_for_an_answer + chained_without_models", 3_262_001),
        # A clock that is ahead already is set forward: only later calls are moved back.
        ("clock_set_forward + tools_on_another_host", 3_130_715),
        # A call runs while its clock is set forward.
        ("clock_set_forward + calls_within_calls", 645_085),
        ("clock_set_forward + made_again", 641_952),
        # A model asked for a call that left no span; its clock is right, and that of all tools is behind.
        ("tools_on_a_host_behind + lost_and_answered", 652_095),
        # Calls without ids come after later requests for their tool, in any order.
        ("shuffled + later_turns_without_id", 617_212),
        # A call that encloses others has not failed after all.
        ("repeats_below_one_call + provisional_then_final", 7_247_700),
        # A request that may be one sent again is in doubt also after its session has rested.
        ("mcp_round_trips + resumed_after_its_end", 506_778),
    ],
)
def test_worlds_that_broke_a_law_keep_it(name: str, seed: int) -> None:
    """What was mended stays so."""
    played = play_many(tuple([FAULTS[each] for each in name.split(" + ")]), 1, seed)

    assert played.worlds == 1
    assert not played.broken


@pytest.mark.parametrize("part", range(4))
def test_two_faults_make_no_harm_certain_and_hide_none(part: int) -> None:
    """The same of pairs that hold by themselves, each in one world."""
    for faults in _sampled_pairs()[part::4]:
        _check(faults, play_many(faults, 1))


def _sampled_pairs() -> list[Faults]:
    """The same pairs, whichever others hold."""
    return sorted((each for each in pairs() if is_held(each)), key=_place)[:PAIRS]


def _place(faults: Faults) -> int:
    return crc32(" ".join(each.name for each in faults).encode())


@pytest.mark.long
def test_ten_thousand_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    """Both laws hold over ten thousand worlds; the table says of what kinds."""
    chosen = [(faults, LONG) for faults in singles()]
    rest = pairs()
    each = -(-(10_000 - LONG * len(chosen)) // len(rest))
    results = [(f, play_many(f, worlds)) for f, worlds in [*chosen, *((f, each) for f in rest)]]
    with capsys.disabled():
        print("\n" + "\n".join(table.rows(results)))
    for faults, played in results:
        _check(faults, played)
