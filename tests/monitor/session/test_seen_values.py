"""What a session keeps for rules over data: digests, words, and bounds."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import Kind, Limits, Monitor, SessionKey, judge_calls, tool_call
from monitor.alphabet.alphabet import OwnFacts
from monitor.alphabet.pattern import same
from monitor.session.data import seen_values
from monitor.session.data.comparisons import ComparedValue
from monitor.session.data.seen_values import (
    AskingCall,
    Operand,
    SeenValues,
    SourceCall,
)
from monitor.session.data.session_data import (
    FIRST_TEXTS_MAX,
    FIRST_WORDS_BYTES_MAX,
    SessionData,
    earliest,
    news_of,
)
from monitor.session.data.value_digests import (
    digest_of,
    has_part,
    leaves_of,
    numbers_in,
    text_digest,
    words_of,
)
from monitor.session.judge.judge import Judge
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)


def spec(arguments: str, remember: str = "{}") -> Spec:
    text = (
        f"id: x\nkind: policy\nremember: {remember}\nalphabet:\n"
        f"  good: {{tool: do, arguments: {arguments}}}\n  bad: {{tool: do}}\n"
        "constraints: [{forbid: bad}]"
    )
    made, findings = compile_text(text, "x.yaml")
    assert made is not None, findings
    return made


def harmful(judged: Spec, *entries: dict[str, Any]) -> bool:
    """Whether the last call is harmful."""
    last = judge_calls(judged, entries).verdicts[-1]
    return last is not None and last.kind is Kind.HARMFUL


def found(*values: Any) -> dict[str, Any]:
    return {"name": "find", "arguments": {}, "result": list(values)}


def done(**arguments: Any) -> dict[str, Any]:
    return {"name": "do", "arguments": arguments}


@given(JSON, JSON)
def test_equal_values_have_one_digest(one: Any, other: Any) -> None:
    """Digests are equal exactly where patterns call the values equal."""
    assert (digest_of(one) == digest_of(other)) is same(one, other)


def test_texts_are_folded() -> None:
    """Read as texts, values are equal whatever their case and outer space; 5 is "5"."""
    assert text_digest(" Ann@X ") == text_digest("ann@x")
    assert text_digest(5) == text_digest("5") == text_digest(5.0)
    assert digest_of(5) != digest_of("5")


def test_leaves_are_scalars_that_say_something() -> None:
    """Null, booleans and the empty text are no leaves, nor are keys."""
    value = {"key": [1, None, True, "", {"x": "a"}], "b": 2.5}
    assert sorted(map(str, leaves_of(value))) == ["1", "2.5", "a"]


@given(st.lists(st.sampled_from(["ab", "c", "@", "ab@c", "déjà"]), max_size=6), st.data())
def test_a_part_is_a_run_of_whole_words(words: list[str], data: Any) -> None:
    """A text has each run of its words as a part, and no other text that is not such a run."""
    first = data.draw(st.integers(0, len(words)))
    part = " ".join(words[first:])
    assert has_part(words_of(" ".join(words)), words_of(part)) is bool(part)
    assert not has_part(words_of(" ".join(words)), words_of("abc"))


def test_numbers_in_sentences_are_read() -> None:
    """As people write them: with signs of thousands, fractions, and behind a currency."""
    assert numbers_in("Pay $1,250.50, not 7; see A1.") == [digest_of(1250.5), digest_of(7)]


SPELLINGS: Final = [
    ("Book it for May 1, 2024.", "2024-05-01", True),
    ("From 01/05/2024 on, please", "2024-05-01", True),
    ("From 01/05/2024 on, please", "2024-01-05", True),
    ("due 25/12/2024", "December 25th, 2024", True),
    ("on 2024-05-01", "May 1", True),
    ("the 1st of May", "2024-05-01", True),
    ("the 1st of May at 10 am", "2024-05-01T10:00:00Z", True),
    ("at 12:15 AM", "00:15", True),
    ("pay $1,000.00 now", 1000, True),
    ("pay 1000 now", "$1,000", True),
    ("the 1st of May", "2024-05-01 10:00", False),
    ("Book it for May 1, 2023.", "2024-05-01", False),
    ("Book it for May 2, 2024.", "2024-05-01", False),
    ("on 2024-13-01", "2024-01-13", False),
    ("at 10 am", "22:00", False),
    ("pay 100 now", "$1,000", False),
    ("May 1, 2024", "room of 2024-05-01", False),
]
"""What the user says, a value, and whether he said it."""


@pytest.mark.parametrize(("said", "value", "is_from"), SPELLINGS)
def test_dates_and_amounts_are_the_same_however_they_are_written(
    said: str, value: Any, is_from: bool
) -> None:
    """What is ambiguous has both readings, and a day without a year is the day of any."""
    asked = spec("{to: {from: [user]}}")
    assert harmful(asked, {"user": said}, done(to=value)) is not is_from


def test_leaves_of_results_are_the_same_however_they_are_written() -> None:
    """Where values are read as texts, and only there."""
    as_text, exact = spec("{to: {from: [find], as: text}}"), spec("{to: {from: [find]}}")
    for leaf, value in (
        ("May 1, 2024", "2024-05-01"),
        ("01/05/2024 10:00", "1 May 2024, 10 am"),
        ("$1,000", 1000),
    ):
        assert not harmful(as_text, found(leaf), done(to=value))
        assert harmful(exact, found(leaf), done(to=value))
    assert harmful(as_text, found("May 2, 2024"), done(to="2024-05-01"))


def test_parts_of_results_count_where_it_is_asked_for() -> None:
    """`parts: true` takes word-bounded parts of six and more characters of a result's texts."""
    text = found("Mail to ann@example.com or bob, urgently")
    for parts, to, bad in (
        ("true", "ann@example.com", False),
        ("false", "ann@example.com", True),
        ("true", "nn@example.com", True),
        ("true", "bob", True),
    ):
        judged = spec(f"{{to: {{from: [find], parts: {parts}}}}}")
        assert harmful(judged, text, done(to=to)) is bad


def test_as_text_compares_texts() -> None:
    """`as: text` folds case and outer space, beside `from` and beside a remembered value's path."""
    origin = spec("{to: {from: [find], as: text}}")
    assert not harmful(origin, found("Ann@X", 7), done(to=[" ann@x", "7"]))
    remember = "{who: {at: find, result: '[0]', as: text}}"
    assert not harmful(spec("{to: {same_as: who}}", remember), found("ANN"), done(to="ann "))
    exact = remember.replace(", as: text", "")
    assert harmful(spec("{to: {same_as: who}}", exact), found("ANN"), done(to="ann "))


def test_a_result_as_text_is_read_once() -> None:
    """A text that is JSON has leaves; another text is one leaf, also that of a failed call."""
    judged = spec("{to: {from: [find]}}")
    told = {"name": "find", "arguments": {}, "result": '{"id": "A1"}'}
    assert not harmful(judged, told, done(to="A1"))
    failed = {"name": "find", "arguments": {}, "result": "no such order", "error": True}
    assert not harmful(judged, failed, done(to="no such order"))
    assert harmful(judged, failed, done(to="order"))


def test_a_failed_call_is_not_remembered() -> None:
    """The latest value stays, whatever a later call that failed, or found nothing, returned."""
    judged = spec("{n: {same_as: price}}", "{price: {at: find, result: '[0]'}}")
    failed = {**found(9), "error": True}
    assert not harmful(judged, found(5), failed, found(), done(n=5))
    assert harmful(judged, found(5), found(6), done(n=5))
    assert harmful(judged, done(n=5))


def test_arguments_are_remembered_and_paths_are_followed() -> None:
    """`argument:` remembers what was asked for; an argument's path compares each value there."""
    judged = spec(
        "{'items[*].id': {one_of: {value: ids}}}", "{ids: {at: find, argument: 'ids[*]'}}"
    )
    asked = {"name": "find", "arguments": {"ids": [1, 2]}, "result": None}
    assert not harmful(judged, asked, done(items=[{"id": 1}, {"id": 2}]))
    assert harmful(judged, asked, done(items=[{"id": 1}, {"id": 3}]))
    assert harmful(judged, asked, done(items=[]))


def test_what_the_user_said_stands_among_plain_calls() -> None:
    """An entry with `user` is a message: what is said behind a call was not said before it."""
    judged = spec("{n: {from: [user]}}")
    assert not harmful(judged, {"user": "refund 1,000 please"}, done(n=1000))
    assert harmful(judged, {"user": "refund it"}, done(n=1000))
    assert not harmful(judged, done(n=1000))
    late = judge_calls(judged, [{"user": "hi"}, done(n=1000), {"user": "1000?"}])
    assert late.verdicts[0] is not None
    assert late.verdicts[0].kind is Kind.HARMFUL


def test_what_is_told_again_is_no_news_unless_it_was_said_earlier() -> None:
    """A request that repeats the conversation brings its new messages alone; an earlier one dates the known ones."""
    first = news_of(["hello Ann", "pay 5"], 10, {})
    known = {each.key: each for each in first}
    assert [each.at_ns for each in first] == [10, 10]
    assert news_of(["hello Ann", "pay 5"], 10, known) == []
    assert news_of(["hello Ann", "bye"], 20, known) == news_of(["bye"], 20, {})
    assert news_of(["hello Ann"], 5, known) == news_of(["hello Ann"], 5, {})


def test_a_name_that_is_nearly_a_source_may_be_it() -> None:
    """A look-up under a namespace may be one of the tool's: what it returned is not claimed to come from nowhere."""
    judged = spec("{to: {from: [find]}}")
    near = {**found("A1"), "name": "functions.find"}
    assert not harmful(judged, near, done(to="A1"))
    assert harmful(judged, near, done(to="B1"))


def test_beyond_the_bound_origins_are_unknown_and_counted() -> None:
    """The earliest records go: what only they had is no harm, what is among the others is found still."""
    monitor = Monitor([spec("{to: {from: [find]}}")], Limits(history_complete=True))
    count = seen_values.SOURCES_MAX + 10
    for number in range(count):
        call = tool_call("find", {}, session="s", start_ns=number + 1, result=(f"v{number}",))
        monitor.observe(call, number + 1)
    kinds = {}
    for place, value in enumerate(("v0", f"v{count - 1}", "other"), start=count + 1):
        asked = tool_call("do", {"to": value}, session="s", start_ns=place)
        kinds[value] = {each.kind for each in monitor.observe(asked, place)}
    assert Kind.HARMFUL not in set().union(*kinds.values())
    assert monitor.counters.values_dropped > 0


def source(number: int, *leaves: str, words: str = "") -> SourceCall:
    packed = b"".join(digest_of(each).to_bytes(8, "big") for each in leaves)
    return SourceCall(
        "find",
        bytes([number]),
        (number, number, number, number),
        b"",
        leaves=packed,
        words=words_of(words),
        folded_words=b"",
        whole=True,
        sure=True,
        settings=(),
    )


def asking(number: int, *values: str) -> AskingCall:
    call = tool_call("do", {}, session="s", start_ns=number)
    compared = tuple(ComparedValue(digest_of(each), None, words_of(each)) for each in values)
    own = OwnFacts((1,), (1,), failed=False)
    times = (number, number, number, number)
    return AskingCall(call, times, own, (Operand(known=True, absent=False, values=compared),))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.text("ab ", max_size=9))))
def test_a_session_weighs_what_its_records_weigh(events: list[tuple[int, int, str]]) -> None:
    """Whatever comes again, is withdrawn or forgotten, the running sum is the sum over what is kept, copied or not."""
    seen = SeenValues()
    for kind, number, text in events:
        if kind == 0:
            seen.add(source(number, *text.split(), words=text))
        elif kind == 1:
            seen.ask(asking(number, *text.split()))
        elif kind == 2:
            seen.remove(bytes([number]))
        else:
            seen.forget((asking(number).call.span_id,))
        seen = seen.copy() if text else seen
    sources = sum(each.size() for each in seen.sources.values())
    assert seen.size() == sources + sum(each.size() for each in seen.asking.values())


def test_what_is_compared_counts_to_a_session() -> None:
    """A call with a long argument that is looked for in texts weighs more than one with a short argument."""
    assert asking(1, "word " * 1_000).size() - asking(1, "word").size() > 999 * 8 - 1


def test_a_later_message_leaves_earlier_calls_alone() -> None:
    """Calls that began before a message need not be looked at again, unless it is the first, or others go for a bound."""
    heard = SessionData()
    seen = heard.of(Judge(spec("{to: {from: [user]}}")))
    early, late = asking(5), asking(15)
    seen.ask(early)
    seen.ask(late)
    concerned = []
    for text, at in (("hi", 10), ("pay", 12), ("pay", 14), ("pay", 3), ("x" * 70_000, 20)):
        for each in news_of([text], at, heard.texts):
            heard.hear(each)
        concerned.append(seen.concerned())
    assert concerned == [[early, late], [late], [], [early, late], [early, late]]
    assert heard.dropped


def test_what_a_session_without_calls_keeps_of_its_user_is_bounded() -> None:
    """The first messages are kept as far as they fit, one at least; the last of them says that others are not known."""
    long = [" ".join(f"w{n}_{each}" for each in range(3_000)) for n in range(20)]
    said = news_of(long, 1, {})
    kept = earliest(said)
    assert 1 < len(kept) < FIRST_TEXTS_MAX
    assert (
        sum(len(each.words) + len(each.folded_words) for each in kept) <= FIRST_WORDS_BYTES_MAX
    )
    assert [each.is_cut for each in kept] == [False] * (len(kept) - 1) + [True]
    assert not earliest(said[:2])[-1].is_cut
    [alone] = earliest(news_of([" ".join(f"v{each}" for each in range(60_000))], 1, {}))
    assert alone.words


def test_calls_whose_verdicts_stay_ask_no_more() -> None:
    """Once something changes for all calls, those whose steps are folded are forgotten, and the others ask on."""
    limits = Limits(history_complete=True)
    monitor = Monitor([spec("{to: {from: [find]}}")], limits)
    for number in range(1, 301):
        now = number * limits.window_ns
        monitor.observe(tool_call("do", {"to": "x"}, session="s", start_ns=now), now)
        monitor.tick(now)
    late = tool_call("find", {}, session="s", start_ns=1, result=("y",))
    assert not monitor.observe(late, now)
    [(session, judgement)] = monitor.reader.open_judgements()
    assert session.data is not None
    [seen] = session.data.seen.values()
    assert len(seen.asking) == len(judgement.log) < 300


def test_what_the_user_said_counts_to_a_session_without_further_calls() -> None:
    """Messages that come behind the last call are weighed as its calls are, once the window has passed."""
    limits = Limits(history_complete=True)
    monitor = Monitor([spec("{to: {from: [user]}}")], limits)
    monitor.observe(tool_call("do", {"to": "x"}, session="s", start_ns=1), 1)
    monitor.tick(2 * limits.window_ns)
    before = monitor.kept.memory()["sessions"]
    key = SessionKey("", "s")
    monitor.corrections.hear(key, ["word " * 1_000], 2, 2 * limits.window_ns)
    monitor.tick(4 * limits.window_ns)
    assert monitor.kept.memory()["sessions"] - before > 1_000 * 8


EACH: Final = """
id: x
kind: policy
each: {order: {find: id, do: "ids[*]"}}
remember: {price: {at: [find, rate], result: $}}
alphabet:
  look: {tool: find}
  good: {tool: do, arguments: {n: {max: {value: price}}}}
  bad: {tool: do}
constraints: [{forbid: bad}]
"""


def looked(order: str, price: Any) -> dict[str, Any]:
    return {"name": "find", "arguments": {"id": order}, "result": price}


def test_under_each_every_thing_has_a_value_of_its_own() -> None:
    """A call is compared with what was seen of its own order, or of no order; of several orders, all have to agree."""
    judged, findings = compile_text(EACH, "x.yaml")
    assert judged is not None, findings
    seen = [looked("A", 40), looked("B", 900)]
    assert harmful(judged, *seen, done(n=500, ids=["A"]))
    assert not harmful(judged, *seen, done(n=500, ids=["B"]))
    assert not harmful(judged, *seen, done(n=30, ids=["A", "B"]))
    assert harmful(judged, *seen, done(n=999, ids=["A", "B"]))
    assert not harmful(judged, *seen, done(n=500, ids=["A", "B"]))
    assert harmful(judged, *seen, done(n=1, ids=["C"]))
    rate = {"name": "rate", "arguments": {}, "result": 10}
    assert not harmful(judged, *seen, rate, done(n=10, ids=["C"]))
    assert harmful(judged, *seen, rate, done(n=30, ids=["A"]))


@given(st.randoms(use_true_random=False))
def test_under_each_calls_may_come_in_any_order(chance: Any) -> None:
    """Look-ups of two orders and what is done with them end alike, whichever comes first."""
    judged, _ = compile_text(EACH, "x.yaml")
    assert judged is not None
    entries = [looked("A", 40), done(n=40, ids=["A"]), looked("B", 9), done(n=20, ids=["B"])]
    made = [
        tool_call(
            each["name"],
            each["arguments"],
            session="s",
            start_ns=at,
            attributes={"a": 1},
            result=(each["result"],) if "result" in each else (),
        )
        for at, each in enumerate(entries, start=1)
    ]
    monitor = Monitor([judged], Limits(history_complete=True, fold=False))
    for call in chance.sample(made, len(made)):
        monitor.observe(call, 100)
    [found] = monitor.find("s")
    assert [step["kind"] == "harmful" for step in found["steps"]] == [False, False, False, True]
