"""A deadline is one of silence: it does not run while the service answers others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offrails_guard.transport.deadline import PARTS, Silence

SECONDS = 1.0
PART = SECONDS / PARTS


class Asker:
    """Waits until it is answered, or until it is given up on."""

    def __init__(self) -> None:
        self.is_answered = False
        self.gave_up = False

    def is_over(self) -> bool:
        return self.is_answered or self.gave_up

    def give_up(self) -> None:
        self.gave_up = True


def added(silence: Silence, answers: int, now: float) -> Asker:
    asker = Asker()
    silence.add(asker.is_over, asker.give_up, answers, now)
    return asker


def test_a_silent_service_is_waited_for_so_long() -> None:
    """Nobody is answered: the asker is given up on after the deadline, within one look, and not before."""
    silence = Silence(SECONDS)
    asker = added(silence, 0, 0.0)
    looks = 0
    while silence.look(0, (looks + 1) * PART):
        looks += 1
        assert not asker.gave_up

    assert asker.gave_up
    assert PARTS - 1 <= looks + 1 <= PARTS + 1


def test_while_others_are_answered_nobody_is_given_up_on() -> None:
    """A hundred askers, one answer for each look: each is answered in its turn."""
    silence = Silence(SECONDS)
    askers = [added(silence, 0, 0.0) for _ in range(100)]
    for place, asker in enumerate(askers):
        asker.is_answered = True
        silence.look(place + 1, (place + 1) * PART)

    assert not any(each.gave_up for each in askers)


def test_time_in_which_this_process_does_not_run_counts_once() -> None:
    """A look that comes a minute late counts as one."""
    silence = Silence(SECONDS)
    asker = added(silence, 0, 0.0)
    silence.look(0, 60.0)
    assert not asker.gave_up


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0.5, 3.0)), max_size=60))
def test_nobody_waits_for_longer_than_the_silence(
    steps: list[tuple[bool, bool, float]],
) -> None:
    """Whoever comes when, and however late the looks are: all silence since one came is below the deadline, or it is
    given up on; within a look."""
    silence, now, answers = Silence(SECONDS), 0.0, 0
    waiting: list[tuple[Asker, float]] = []
    silent = 0.0
    for comes, is_answered, late in steps:
        if comes:
            waiting.append((added(silence, answers, now), silent))
        now += late * PART
        answers += is_answered
        silent += 0.0 if is_answered else min(PART, late * PART)
        silence.look(answers, now)
        for asker, before in waiting:
            if asker.gave_up:
                assert silent - before > SECONDS - 2 * PART
            else:
                assert silent - before < SECONDS + 2 * PART
