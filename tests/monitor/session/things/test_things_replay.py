"""One automaton a thing is the same spec run once for each value, over the calls of that value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from monitor.alphabet.things import CallThings
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.session.judge.judge import HARMFUL, PROGRESS, Judge
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.replay import Replay
from monitor.session.log.log import SessionLog
from monitor.session.log.rows import Texts
from monitor.session.things.things_replay import ThingsReplay
from monitor.session.things.things_run import ThingsRun
from monitor.spec.compiler.compile import compile_text

ALPHABET: Final = """
each: {order: {look_up: id, refund: id, close: "ids[*]"}}
alphabet:
  login: {tool: login}
  approve: {tool: approve}
  look_up: {tool: look_up}
  refund: {tool: refund}
  close: {tool: close}
"""
SPECS: Final = {
    "order": "kind: policy\nconstraints: [{precedence: [look_up, refund]}, {precedence: [login, look_up]}]",
    "new": "kind: policy\nconstraints: [{alternate_precedence: [look_up, refund]}]",
    "shared": "kind: policy\nconstraints: [{alternate_precedence: [approve, refund]}, {at_most: [close, 1]}]",
    "after": "kind: policy\nconstraints: [{not_coexistence: [refund, approve]}]",
    "lenient": "kind: policy\nconcurrent: any_order\nconstraints: [{alternate_precedence: [look_up, refund]}, {not_coexistence: [close, login]}]",
    "task": "kind: task\nmatch: {a: b}\ngolden: [[login, look_up, refund], [look_up, approve, refund, close]]\nreads: [login]",
    "strict task": "kind: task\nmatch: {a: b}\nconcurrent: strict\ngolden: [[look_up, approve, refund], [close]]",
}
TOOLS: Final = ("login", "approve", "look_up", "refund", "close")
VALUES: Final = ("A1", "B7", "C3")


def judge_of(text: str) -> Judge:
    spec, found = compile_text(f"id: s\n{text}\n{ALPHABET}", "s.yaml")
    assert spec is not None, found
    return Judge(spec)


JUDGES: Final = {name: judge_of(text) for name, text in SPECS.items()}


class Made(NamedTuple):
    """A made call: its tool, its values (None for one that is not known), and its times."""

    tool: str
    values: tuple[str | None, ...]
    start: int
    length: int
    failed: bool


CALLS: Final = st.lists(
    st.builds(
        Made,
        st.sampled_from(TOOLS),
        st.lists(st.sampled_from((*VALUES, *VALUES, None)), max_size=2).map(tuple),
        st.integers(1, 30),
        st.sampled_from((0, 0, 0, 1, 4)),
        st.sampled_from((False, False, False, True)),
    ),
    max_size=9,
)


def call_of(number: int, made: Made) -> ToolCall:
    arguments: dict[str, Any] | None = {}
    if made.tool == "close":
        arguments = {"ids": [{} if v is None else v for v in made.values]}
    elif made.tool in ("look_up", "refund") and made.values:
        value = made.values[0]
        arguments = None if value is None else {"id": value}
    return ToolCall(
        session=SessionKey("", "s"),
        agent="",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={},
        tool=made.tool,
        arguments=arguments,
        error=made.failed,
        start_ns=made.start * 10,
        end_ns=(made.start + made.length) * 10,
        trace_id=bytes(16),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"parent00",
    )


class Logged(NamedTuple):
    """A log of calls, with their tokens and things by span id."""

    log: SessionLog
    tokens: dict[bytes, int]
    things: dict[bytes, CallThings | None]


def logged(judge: Judge, calls: Sequence[ToolCall]) -> Logged:
    log = SessionLog(by_answer=not judge.strict)
    tokens: dict[bytes, int] = {}
    things: dict[bytes, CallThings | None] = {}
    assert judge.each is not None
    for call in calls:
        token = judge.spec.alphabet.match(call.tool, call.arguments, call.error)
        found = judge.each.of_call(call.tool, call.arguments, shown=True)
        if found is not None:
            log.keep(call.span_id, Texts("", None, things=found))
        log.insert(call, 0, token, call.start_ns, 0)
        tokens[call.span_id], things[call.span_id] = token, found
    return Logged(log, tokens, things)


def fresh(judge: Judge) -> ThingsRun:
    return ThingsRun(AutomatonRun(judge.stepper.start(), judge.tally()), judge.tally())


class Alone(NamedTuple):
    """What the spec says of the calls of one value."""

    codes: dict[bytes, int]
    run: AutomatonRun


def alone(judge: Judge, made: Logged, key: bytes | None) -> Alone:
    """The spec without `each`, over the calls of one value; None for the calls of unnamed tools alone."""
    log = SessionLog(by_answer=not judge.strict)
    for place in range(len(made.log)):
        span = made.log.span_id(place)
        things, token = made.things[span], made.tokens[span]
        if things is not None and key is None:
            continue
        if things is not None and key not in things.keys:
            if not things.is_open:
                continue
            token = judge.spec.alphabet.vanishing(token)
        log.take(made.log, place)
        found = log.find(span)
        assert found is not None
        log.set_token(found, token)
    run = AutomatonRun(judge.stepper.start(), judge.tally())
    steps = Replay(judge, log, wide=True).walk(run)
    return Alone({log.span_id(step.place): step.code for step in steps}, run)


def rank(code: int) -> int:
    return 2 if code >= HARMFUL else 1 if code == PROGRESS else 0


@given(st.sampled_from(sorted(JUDGES)), CALLS, st.randoms())
def test_each_thing_is_judged_as_the_spec_judges_its_calls_alone(
    name: str, made: list[Made], random: Any
) -> None:
    """Verdicts, counts and states are those of the spec run once for each value over that value's calls."""
    judge = JUDGES[name]
    calls = [call_of(number, each) for number, each in enumerate(made)]
    random.shuffle(calls)
    found = logged(judge, calls)
    run = fresh(judge)
    steps = ThingsReplay(Replay(judge, found.log, wide=True)).walk(run)
    keys = dict.fromkeys(
        key for things in found.things.values() if things for key in things.keys
    )
    each = {key: alone(judge, found, key) for key in keys}
    nothing = alone(judge, found, None)
    for step in steps:
        span = found.log.span_id(step.place)
        own, things = [each[key] for key in keys if span in each[key].codes], found.things[span]
        expected = max(
            (rank(one.codes[span]) for one in ([nothing] if things is None else []) + own),
            default=None,
        )
        if expected is not None and not (things and things.is_open and expected < 2):
            assert rank(step.code) == expected, (step, span)
        if step.code >= HARMFUL and step.thing is not None:
            assert each[step.thing].codes[span] >= HARMFUL
    states = {state.key: state for state in run.things()}
    assert states.keys() == each.keys()
    for key, one in each.items():
        tally = one.run.tally
        assert states[key].run.position == one.run.position
        assert states[key].counts.substantive == tally.substantive
        assert states[key].counts.harmful == tally.harmful_steps
        unsure = sum(
            t is not None and t.is_open and key not in t.keys for t in found.things.values()
        )
        assert states[key].counts.calls == tally.calls - unsure
    assert run.harms == sum(one.run.tally.harmful_steps for one in each.values())
    assert run.substantive == sum(one.run.tally.substantive for one in each.values())
    assert run.count == len(each)
    assert run.nothing.position == nothing.run.position
    assert run.accepts(judge) == all(
        judge.accepts(one.run.position) for one in (each.values() or [nothing])
    )
