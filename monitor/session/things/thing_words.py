"""How people read what a verdict says of a thing.

Example: "`refund` of order A1 needs `look_up_order` of order A1; this session has `look_up_order` of order B7".
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from monitor.alphabet.pattern_words import quoted, shortened
from monitor.alphabet.things import NO_VALUE
from monitor.automaton.position import Position
from monitor.records import NamedThing
from monitor.session.judge.judge import Judge
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import JudgedStep
from monitor.session.things.things_run import ThingsRun, ThingState

__all__ = ["named_thing", "thing_explanation", "thing_of_state"]

_OTHERS_MAX: Final = 2
"""Other things that a sentence names."""

_DIGEST_BYTES: Final = 6
_KEY_BYTES_MAX: Final = 64
_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")
"""Digests without digits: no rule of redaction for numbers matches them."""


def named_thing(judgement: Judgement, key: bytes) -> NamedThing:
    """A thing of a judgement as it is shown: with its value, or a digest of it."""
    run = judgement.head
    assert isinstance(run, ThingsRun)
    state = run.thing(key)
    return _named(judgement.judge, key, state.value if state is not None else None)


def thing_of_state(judge: Judge, state: ThingState) -> NamedThing:
    """The same, from a thing's state."""
    return _named(judge, state.key, state.value)


def _named(judge: Judge, key: bytes, value: object) -> NamedThing:
    assert judge.each is not None
    name = judge.each.name
    if key == NO_VALUE:
        return NamedThing(name)
    if value is not None:
        return NamedThing(name, value)
    secret = judge.digest_key[:_KEY_BYTES_MAX]
    digest = blake2b(key, digest_size=_DIGEST_BYTES, key=secret)
    return NamedThing(name, None, digest.hexdigest().translate(_LETTERS))


def thing_explanation(judgement: Judgement, step: JudgedStep, why: str) -> str:
    """Why a step is harmful for its thing, in one sentence.

    Args:
        judgement: of the step.
        step: that is harmful, for a thing.
        why: the sentence without the thing.
    """
    assert step.thing is not None
    thing = named_thing(judgement, step.thing)
    judge, token = judgement.judge, judgement.token(step.place)
    symbol, skipped = judge.symbol(token), judge.skipped(step.before, token)
    if symbol is None or not skipped:
        return shortened(f"{thing}: {why}")
    needs = " and ".join(_of(judge, each, thing) for each in skipped)
    found = f"{_of(judge, symbol, thing)} needs {needs}"
    others = _others(judgement, step.thing, skipped[0], step.before)
    if others:
        assert judge.each is not None
        who = "some session has" if judge.each.across != "session" else "this session has"
        found += f"; {who} {quoted(skipped[0])} of {' and '.join(others)}"
    return shortened(f"{found} ({why})")


def _of(judge: Judge, symbol: str, thing: NamedThing) -> str:
    """A symbol, with the thing if it is of things."""
    assert judge.each is not None
    tool = judge.spec.alphabet.tools[judge.spec.machine.symbols.index(symbol)]
    return f"{quoted(symbol)} of {thing}" if tool in judge.each.tools else quoted(symbol)


def _others(judgement: Judgement, key: bytes, symbol: str, before: Position) -> Sequence[str]:
    """Other things that have made a step which this one lacks."""
    judge, run = judgement.judge, judgement.head
    assert isinstance(run, ThingsRun)
    assert judge.each is not None
    number = judge.spec.machine.symbols.index(symbol)
    if judge.spec.alphabet.tools[number] not in judge.each.tools:
        return ()
    found: list[str] = []
    for cell in run.cells.values():
        other = cell.run
        if len(found) < _OTHERS_MAX and other.progressed >> number & 1:
            name = run.first_of(cell)
            if other.position != before and name not in (key, NO_VALUE):
                found.append(str(named_thing(judgement, name)))
    return found
