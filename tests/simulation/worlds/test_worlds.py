"""Both laws of certainty hold for worlds with every fault of the catalogue, one at a time and in pairs."""

from __future__ import annotations

from zlib import crc32

import pytest

from tests.simulation.worlds import table
from tests.simulation.worlds.catalogue import FAULTS
from tests.simulation.worlds.fault import Fault
from tests.simulation.worlds.play import (
    Faults,
    Played,
    is_held,
    pairs,
    play_many,
    shown,
    shrunk,
    singles,
)

# Worlds of each entry, and pairs with one world each, in `make test`.
SAMPLE = 3
PAIRS = 60
# In `make test-long`: with the pairs, ten thousand worlds.
LONG = 100


def _check(faults: Faults, played: Played) -> None:
    """An entry that holds breaks no law; one that is known to fail still does."""
    if is_held(faults):
        for plans in played.broken.values():
            pytest.fail(shown(shrunk(plans[0])))
    elif len(faults) == 1:
        shows = played.broken or play_many(faults, 1, faults[0].shown_by).broken
        assert shows, f"{faults[0].name} seems to hold now: play more worlds of it, and set it"


@pytest.mark.parametrize("entry", FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_world_makes_no_harm_certain_and_hides_none(entry: Fault) -> None:
    """In worlds with this fault, no certain harm is false, and no true one is silent."""
    played = play_many((entry,), SAMPLE)
    _check((entry,), played)


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
    ],
)
def test_worlds_that_broke_a_law_keep_it(name: str, seed: int) -> None:
    """What was mended stays so."""
    played = play_many((FAULTS[name],), 1, seed)

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
