"""Small versions of the simulation; the long ones run with `make test-long`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from monitor import load_spec
from tests.simulation.exporter import Road, deliver
from tests.simulation.laws import (
    any_arrival,
    asked,
    beyond_the_window,
    moved,
    restart,
    sampled,
)
from tests.simulation.price import SPEC, measure
from tests.simulation.world import START, World

ROOT = Path(__file__).parents[2]
FEW = 4
"""Worlds of each law in `make test`; the others are for `make test-long`."""
MANY = [300, pytest.param(1_000, marks=pytest.mark.long)]
"""Sessions of the laws of whole services."""


def seeds(number: int) -> list[Any]:
    """That many worlds, of which a few are for every run."""
    return [
        *range(FEW),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(FEW, number)),
    ]


@pytest.mark.parametrize("seed", seeds(60))
def test_any_arrival_ends_in_one_truth(seed: int) -> None:
    """Overtaking, repeated and lost batches with skewed clocks give the naive result."""
    any_arrival(seed)


@pytest.mark.parametrize("seed", [*seeds(60), 700_949, 3_000_052])
def test_asking_before_calls_changes_no_result(seed: int) -> None:
    """Decided calls, committed or not, confirmed or not, end in the judgements of their spans alone."""
    asked(seed)


@pytest.mark.parametrize("seed", seeds(60))
def test_sessions_that_move_are_judged_as_if_they_had_stayed(seed: int) -> None:
    """Sessions go to another process at any moment, and come back: nothing differs."""
    moved(seed)


def test_sessions_do_move() -> None:
    """The law of moves is really tested."""
    assert sum(moved(seed) for seed in range(3)) > 10


@pytest.mark.parametrize("seed", [*seeds(20), 900_693])
def test_beyond_the_window_differences_are_counted(seed: int) -> None:
    """A judgement that differs from the truth has late calls."""
    beyond_the_window(seed)


def test_some_calls_do_come_too_late() -> None:
    """The generated worlds hold late calls, so the law of late calls is really tested."""
    assert sum(beyond_the_window(seed) for seed in range(3)) > 0


@pytest.mark.parametrize("sessions", MANY)
def test_a_restart_amid_many_sessions_pages_nobody(sessions: int) -> None:
    """No harmful verdict of good sessions, those that show it joined; then each certain harm."""
    live, joined = restart(1, sessions=sessions)

    assert live > 0.3 * sessions
    assert joined > 0.1 * sessions


@pytest.mark.parametrize("seed", seeds(30))
def test_a_restart_at_any_moment_pages_nobody(seed: int) -> None:
    """Few sessions, killed at many moments."""
    restart(seed)


@pytest.mark.parametrize("seed", seeds(30))
def test_sampled_sessions_page_nobody(seed: int) -> None:
    """Good sessions with marked head sampling or dropped attributes page nobody."""
    sampled(seed)


@pytest.mark.parametrize("sessions", MANY)
def test_a_share_of_many_sessions_pages_nobody(sessions: int) -> None:
    """The same holds for those that were sampled of very many."""
    assert sampled(1, sessions=sessions) > 0.5 * sessions


def test_a_seed_gives_one_world() -> None:
    """The same seed makes the same requests, so a broken law can be shown again."""
    made = []
    for _ in range(2):
        chance = Random(5)
        spans = World(chance).session("s", START).spans
        requests = deliver(spans, Road(), chance)
        made.append([(each.now, [span.span_id for span in each.spans]) for each in requests])
    assert made[0] == made[1]


def test_the_price_is_first_steps_alone() -> None:
    """After a start, only harms at the beginning of a run are missed."""
    prices = {price.fault: price for price in measure(load_spec(SPEC), runs=5)}

    assert prices["first 1 left out"].complete == 5
    assert prices["first 1 left out"].started == 0
    for fault in ("harm", "early_harm", "wrong_operation"):
        assert prices[fault].started == prices[fault].complete == 5


def test_the_program_says_its_seeds() -> None:
    """`python -m tests.simulation` plays rounds and prints their seeds."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", "3", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert "seeds 3 to 3: every law holds" in done.stdout


@pytest.mark.long
@pytest.mark.timeout(900)
def test_five_minutes_of_simulation() -> None:
    """Every law holds for all seeds that five minutes allow."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", "10000", "--minutes", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
