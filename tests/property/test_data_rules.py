"""Laws of rules over data: they hold as a plain interpreter says that sees the whole run, in any order of arrival."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from monitor import Answer, Evidence, Kind, Limits, Monitor, ToolCall, tool_call
from monitor.records import SessionKey
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

CONDITIONS: Final = {
    "send": "{from: [search]}",
    "tell": "{from: [search, look]}",
    "post": "{not_from: [search]}",
    "order": "{from: [search, user]}",
    "hide": "{not_from: [user]}",
    "pay": "{max: {value: price}}",
    "bid": "{min: {value: price}}",
    "pick": "{one_of: {value: price}}",
    "drop": "{not_in: {value: price}}",
    "set": "{same_as: price}",
    "name": "{same_as: asked}",
}
"""Tool -> what it asks of its argument `v`."""


SAYING: Final = {"ask": "[x, '9']", "beg": "'5'"}
"""Tool -> texts of which the user is to have said one."""

ASKING_TOOLS: Final = (*CONDITIONS, *SAYING)


def spec(forbidden: str) -> Spec:
    """A policy that forbids the calls whose condition holds (`good`), or all others (`bad`)."""
    symbols = [
        line
        for tool, condition in CONDITIONS.items()
        for line in (
            f"  good_{tool}: {{tool: {tool}, arguments: {{v: {condition}}}}}",
            f"  bad_{tool}: {{tool: {tool}}}",
        )
    ]
    for tool, texts in SAYING.items():
        symbols.append(f"  good_{tool}: {{tool: {tool}, said: {texts}}}")
        symbols.append(f"  bad_{tool}: {{tool: {tool}}}")
    text = "\n".join(
        [
            f"id: {forbidden}",
            "kind: policy",
            "remember:",
            "  price: {at: look, result: 'prices[*]'}",
            "  asked: {at: [look, search], argument: q}",
            "alphabet:",
            *symbols,
            "constraints:",
            *(f"  - forbid: {forbidden}_{tool}" for tool in ASKING_TOOLS),
        ]
    )
    made, findings = compile_text(text, "data.yaml")
    assert made is not None, findings
    return made


SPECS: Final = [spec("good"), spec("bad")]

VALUES: Final = (1, 5, 9)
ATTRIBUTES: Final = {"service.name": "svc"}

LEAVES: Final = (*VALUES, "x")


class Step(NamedTuple):
    """One call of a run."""

    tool: str
    value: Any
    result: tuple[Any, ...]
    failed: bool
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


RESULTS: Final = st.one_of(
    st.just(()),
    st.lists(st.sampled_from(LEAVES), max_size=3).map(lambda each: ({"prices": each},)),
)
SOURCES: Final = st.builds(
    Step,
    st.sampled_from(["search", "look"]),
    st.sampled_from(VALUES),
    RESULTS,
    st.booleans(),
    st.integers(1, 60).map(lambda at: 2 * at),
    st.sampled_from([1, 1, 9]),
)
ASKING: Final = st.builds(
    Step,
    st.sampled_from(ASKING_TOOLS),
    st.one_of(
        st.sampled_from(VALUES), st.lists(st.sampled_from(LEAVES), min_size=1, max_size=2)
    ),
    st.just(()),
    st.just(False),
    st.integers(1, 60).map(lambda at: 2 * at + 1),
    st.just(0),
)
SAID: Final = st.builds(
    Step,
    st.just("user"),
    st.lists(st.sampled_from(LEAVES), max_size=2).map(lambda each: f"Take {each}, not 55 xx."),
    st.just(()),
    st.just(False),
    st.integers(1, 60).map(lambda at: 2 * at),
    st.just(0),
)
RUNS: Final = st.lists(
    st.one_of(SOURCES, ASKING, SAID), max_size=7, unique_by=lambda each: each.start
).map(lambda run: sorted(run, key=lambda each: each.start))


# --- the plain interpreter --------------------------------------------------------------------------


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    return (
        [leaf for each in value for leaf in leaves(each)]
        if isinstance(value, list)
        else [value]
    )


def unknown_results(step: Step) -> list[Any]:
    """What a call may have returned: all that the conditions can tell apart."""
    if step.result:
        return [step.result[0]]
    return [{"prices": list(each)} for each in ((), (1,), (5,), (9,), ("x",), (1, 9), LEAVES)]


def worlds(run: Sequence[Step], asked: Step) -> Iterator[list[tuple[Step, Any]]]:
    """The calls that may have ended before a call, in their order, each with a result: one list for each possible world."""
    sources = [each for each in run if each.tool in ("search", "look")]
    before = [each for each in sources if each.start < asked.start]
    choices: list[list[tuple[Step, Any] | None]] = []
    for each in before:
        found: list[tuple[Step, Any] | None] = [
            (each, result) for result in unknown_results(each)
        ]
        choices.append([*found, None] if each.end > asked.start else found)
    for chosen in product(*choices):
        yield [each for each in chosen if each is not None]


def sayings(run: Sequence[Step], asked: Step) -> list[list[Any]]:
    """What the user may have said before a call: unknown where no message is seen at all."""
    texts = [each for each in run if each.tool == "user"]
    if not texts:
        return [[], list(LEAVES)]
    said = [each.value for each in texts if each.start <= asked.start]
    return [[leaf for leaf in LEAVES if any(re.search(rf"\b{leaf}\b", text) for text in said)]]


def holds(asked: Step, seen: Sequence[tuple[Step, Any]], said: Sequence[Any]) -> bool:
    """Whether a condition holds in one world, by the words of the documentation."""
    if asked.tool in SAYING:
        return "x" in said or 9 in said if asked.tool == "ask" else 5 in said
    given = leaves(asked.value)
    if asked.tool in ("send", "tell", "post", "order", "hide"):
        tools = {"tell": ("search", "look"), "hide": ()}.get(asked.tool, ("search",))
        found = [leaf for step, result in seen if step.tool in tools for leaf in leaves(result)]
        if asked.tool in ("order", "hide"):
            found += said
        if asked.tool in ("post", "hide"):
            return not any(leaf in found for leaf in given)
        return all(leaf in found for leaf in given)
    latest: list[Any] = []
    for step, result in seen:
        value = [step.value] if asked.tool == "name" else result["prices"]
        if not step.failed and value and (asked.tool == "name" or step.tool == "look"):
            latest = value
    mine = asked.value
    if not latest:
        return False
    if asked.tool in ("pay", "bid"):
        if any(isinstance(each, str | list) for each in (mine, *latest)):
            return False
        return bool(mine <= min(latest)) if asked.tool == "pay" else bool(mine >= max(latest))
    if asked.tool == "pick":
        return mine in latest
    if asked.tool == "drop":
        return mine not in latest
    return all(each == mine for each in latest)


def plainly(run: Sequence[Step], asked: Step) -> bool | None:
    """Whether a condition holds in every world; None if it does in some."""
    found = {
        holds(asked, seen, said) for seen in worlds(run, asked) for said in sayings(run, asked)
    }
    return found.pop() if len(found) == 1 else None


# --- the monitor --------------------------------------------------------------------------------------


Event = ToolCall | Step
"""A call, or a message of the user."""


def calls(run: Sequence[Step]) -> list[ToolCall]:
    return [each for each in events(run) if isinstance(each, ToolCall)]


def events(run: Sequence[Step]) -> list[Event]:
    return [
        step
        if step.tool == "user"
        else tool_call(
            step.tool,
            {"q" if step.tool in ("search", "look") else "v": step.value},
            session="s",
            start_ns=step.start,
            end_ns=step.end,
            error=step.failed,
            attributes=ATTRIBUTES,
            result=step.result,
        )
        for step in run
    ]


def monitor() -> Monitor:
    return Monitor(SPECS, Limits(history_complete=True, fold=False))


def take(under: Monitor, event: Event) -> None:
    if isinstance(event, Step):
        under.corrections.hear(SessionKey("", "s"), [event.value], event.start, 10_000)
    else:
        under.observe(event, 10_000)


def read(under: Monitor, made: Sequence[Event]) -> dict[int, bool | None]:
    """Start of each call that asks -> whether its condition holds, as the monitor has it at the end."""
    harmful = {
        (spec, step["span_id"])
        for spec in ("good", "bad")
        for each in under.find("s")
        if each["spec"] == spec
        for step in each["steps"]
        if step["kind"] == "harmful"
    }
    return {
        call.start_ns: True
        if ("good", call.span_id.hex()) in harmful
        else False
        if ("bad", call.span_id.hex()) in harmful
        else None
        for call in made
        if isinstance(call, ToolCall) and call.tool in ASKING_TOOLS
    }


def observed(made: Sequence[Event]) -> dict[int, bool | None]:
    under = monitor()
    for each in made:
        take(under, each)
    return read(under, made)


def expected(run: Sequence[Step]) -> dict[int, bool | None]:
    return {each.start: plainly(run, each) for each in run if each.tool in ASKING_TOOLS}


def is_sharp(step: Step) -> bool:
    """False for values that no remembered one compares with: then unknown is said where no is certain."""
    origins = ("send", "tell", "post", "order", "hide", "name", *SAYING)
    return step.tool in origins or not isinstance(step.value, list)


@given(RUNS)
def test_conditions_hold_as_in_every_world(run: list[Step]) -> None:
    """True, false and unknown are those of a plain interpreter that tries every result and overlap."""
    wanted, found = expected(run), observed(events(run))
    for step in run:
        if step.tool in ASKING_TOOLS and (is_sharp(step) or found[step.start] is not None):
            assert found[step.start] is wanted[step.start], step


@given(RUNS, st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(run: list[Step], chance: Any) -> None:
    """Shuffled, the same calls and messages end in the same answers."""
    made = events(run)
    assert observed(chance.sample(made, len(made))) == observed(made)


@given(RUNS, st.randoms(use_true_random=False))
def test_what_is_amended_is_as_if_known_at_once(run: list[Step], chance: Any) -> None:
    """Calls that are first seen under way, or are withdrawn again, leave the answers of what they turn out to be."""
    made, under = events(run), monitor()
    extra = tool_call(
        "look",
        {"q": 5},
        session="s",
        start_ns=1,
        attributes=ATTRIBUTES,
        result=({"prices": [5]},),
    )
    waiting = []
    for call in chance.sample([*made, extra], len(made) + 1):
        if isinstance(call, Step):
            take(under, call)
            continue
        begun = call._replace(evidence=Evidence.PENDING, result=(), error=False)
        under.observe(begun, 10_000)
        waiting.append((begun, call))
    for begun, call in chance.sample(waiting, len(waiting)):
        under.corrections.amend(begun, call, 10_000)
    under.corrections.retract(extra)
    assert read(under, made) == observed(made)


@given(RUNS, ASKING, st.integers(0, 7))
def test_the_answer_before_a_call_is_its_verdict(
    run: list[Step], last: Step, flying: int
) -> None:
    """Deny exactly if the call turns out harmful, also beside calls that are under way."""
    under, made = monitor(), events(run)
    [asked] = calls([last._replace(start=1_001)])
    for place, each in enumerate(made):
        if place == flying and isinstance(each, ToolCall) and each.tool in ("search", "look"):
            take(under, each._replace(evidence=Evidence.PENDING, result=(), error=False))
        else:
            take(under, each)
    decided = under.decide(asked._replace(evidence=Evidence.DECIDED), 10_000)
    under.observe(asked, 10_000)
    harmful = read(under, [asked])[1_001] is not None
    assert (decided.answer is Answer.DENY) is harmful


@given(RUNS, st.integers(0, 7))
def test_a_session_that_moves_is_judged_as_one_that_stays(run: list[Step], moment: int) -> None:
    """Handed over between any two of its calls, a session ends in the same answers."""
    made, first, second = events(run), monitor(), monitor()
    for each in made[:moment]:
        take(first, each)
    if first.find("s"):
        moved = first.kept.handover("1").hand_over([SessionKey("", "s")])
        second.kept.handover("1").take_over(moved, 10_000)
    else:
        second = first
    for each in made[moment:]:
        take(second, each)
    assert read(second, made) == observed(made)


@given(RUNS, st.integers(0, 120))
def test_calls_that_may_be_missing_are_allowed_for(run: list[Step], until: int) -> None:
    """In a session that may have begun before the monitor, what a missing call could change is not claimed."""
    made = events(run)
    under = Monitor(SPECS, Limits(fold=False), started_ns=until)
    for each in made:
        take(under, each)
    whole = observed(made)
    for start, answer in read(under, made).items():
        assert answer is None or answer is whole[start]


def test_a_call_that_ended_and_had_the_value_decides() -> None:
    """What was found is found, whatever else is missing; what was not is unknown then."""
    run = [
        Step("search", 1, ({"prices": [5]},), failed=False, start=2, length=1),
        Step("search", 1, (), failed=False, start=4, length=1),
        Step("send", 5, (), failed=False, start=7, length=0),
        Step("send", 9, (), failed=False, start=9, length=0),
    ]
    assert observed(calls(run)) == {7: True, 9: None}


def test_without_a_call_of_the_tools_nothing_is_from_them() -> None:
    """No call made: `from` certainly fails, `not_from` certainly holds."""
    run = [
        Step("send", 5, (), failed=False, start=1, length=0),
        Step("post", 5, (), failed=False, start=3, length=0),
    ]
    assert observed(calls(run)) == {1: False, 3: True}


def test_kinds_are_those_of_calls() -> None:
    """The harmful calls that the laws read are verdicts of their own, with a reason."""
    [call] = calls([Step("send", 5, (), failed=False, start=1, length=0)])
    kinds = [each.kind for each in monitor().observe(call, 10_000) if each.spec == "bad"]
    assert kinds == [Kind.HARMFUL]


def test_a_call_that_overlaps_may_have_given_the_value_or_not() -> None:
    """A look-up under way when the call began decides nothing: whatever it returned, the answer is unknown."""
    before = Step("look", 1, ({"prices": [9]},), failed=False, start=2, length=1)
    beside = Step("look", 5, ({"prices": [1]},), failed=False, start=4, length=9)
    asked = [
        Step(tool, value, (), failed=False, start=at, length=0)
        for tool, value, at in (("tell", 1, 5), ("pay", 5, 7), ("pay", 1, 9), ("name", 5, 11))
    ]
    run = [before, beside, *asked]
    assert observed(calls(run)) == {5: None, 7: None, 9: True, 11: None}
    assert expected(run) == observed(calls(run))
