"""How alike sessions are, as gauges: the batch definition on a bounded sample."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.metrics.text_format import lines
from monitor.aggregate.consistency_sample import (
    CALLS_MAX,
    EVERY_NS,
    KEPT,
    LIVE_MAX,
    SAMPLED_MAX,
    ConsistencySample,
    digest_of,
    hashed,
)
from monitor.aggregate.totals import Pair
from monitor.engine import Monitor
from monitor.exposition.metric_samples import monitor_families
from monitor.limits import SECOND, Limits
from monitor.records import AgentName, Evidence, SessionKey, ToolCall
from monitor.scores.consistency import TraceCall, consistency, flatten, output_agreement
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.written import written

Made = tuple[str, dict[str, Any] | None]
ATTRIBUTES = {"service.name": "x"}
LIMITS = Limits(history_complete=True)


def task(kind: str = "task") -> Spec:
    text = "id: t\nmatch: {service.name: x}\nalphabet:\n  a: {tool: a}\n  b: {tool: b}\n"
    rules = "golden: [[a, b]]\n" if kind == "task" else "constraints: [{precedence: [a, b]}]\n"
    found, findings = compile_text(f"kind: {kind}\n{text}{rules}", "t.yaml")
    assert found is not None, findings
    return found


def call(session: int, number: int, made: Made, call_id: str = "") -> ToolCall:
    start = SECOND * (1_000 * session + number + 1)
    return ToolCall(
        SessionKey("", f"s{session}"), "agent", *made, False, start, start + 5,
        (session + 1).to_bytes(16, "big"), (session * 100 + number + 1).to_bytes(8, "big"),
        b"", call_id, Evidence.EXECUTED, attributes=ATTRIBUTES,
    )  # fmt: skip


def play(monitor: Monitor, session: int, made: list[Made], *, end: bool = True) -> None:
    """Plays one session, each call at its own time."""
    now = SECOND * 1_000 * (session + 1)
    for number, each in enumerate(made):
        monitor.observe(call(session, number, each), now, quiet=True)
    if end:
        monitor.end(SessionKey("", f"s{session}"), now)


def pair(monitor: Monitor) -> Pair:
    (found,) = [each for each in monitor.totals.pairs.values() if each.spec == "t"]
    return found


RUNS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.dictionaries(st.sampled_from("xy"), st.integers(0, 2), max_size=2),
        ),
        min_size=1,
        max_size=5,
    ),
    min_size=2,
    max_size=14,
)


@given(RUNS)
def test_rolling_is_batch(runs: list[list[Made]]) -> None:
    """The gauges are the definitions on the last sessions, arguments and all."""
    monitor = Monitor([task()], LIMITS)
    for session, made in enumerate(runs):
        play(monitor, session, made)

    last = [[TraceCall(tool, flatten(given)) for tool, given in made] for made in runs[-KEPT:]]
    assert pair(monitor).repeats.value == consistency(last)


def test_a_sample_is_bounded() -> None:
    """Only a fixed number of live sessions per pair keeps hashes, until they end."""
    monitor = Monitor([task()], LIMITS)
    for session in range(LIVE_MAX + 5):
        play(monitor, session, [("a", {"x": 1})], end=False)
    assert pair(monitor).repeats.live == monitor.totals.sampled == LIVE_MAX
    judgements = [each for _, each in monitor.reader.open_judgements()]
    assert sum(each.log.row(0).texts is not None for each in judgements) == LIVE_MAX

    monitor.close(10**15)
    assert pair(monitor).repeats.live == monitor.totals.sampled == 0
    judgements = [each for _, each in monitor.reader.open_judgements()]
    assert all(each.log.row(0).texts is None for each in judgements)


def test_a_late_name_does_not_widen_the_sample() -> None:
    """Sessions that began under the service's name count under the agent's once it is known."""
    monitor = Monitor([task()], LIMITS)
    for session in range(LIVE_MAX + 5):
        unnamed = call(session, 0, ("a", {"x": 1}))._replace(agent="")
        monitor.observe(unnamed, SECOND)
        named = AgentName(unnamed.start_ns - 1, b"agent---", "told")
        monitor.corrections.learn(
            unnamed.session, SECOND, attributes=ATTRIBUTES, start_ns=1, named=named
        )

    found = monitor.totals.pairs["told", "t"]
    assert found.repeats.live == monitor.totals.sampled == LIVE_MAX
    judgements = [each for _, each in monitor.reader.open_judgements()]
    assert sum(each.sampled for each in judgements) == LIVE_MAX


def test_a_full_sample_is_renewed_slowly() -> None:
    """Once there are enough, a session is taken now and then: comparing it is not free."""
    sample = ConsistencySample()
    for _ in range(KEPT):
        assert sample.wants(SECOND)
        sample.add([("a", frozenset())])

    assert not sample.wants(SECOND)
    assert sample.wants(SECOND + EVERY_NS)
    assert not sample.wants(SECOND + EVERY_NS + 1)


@pytest.mark.parametrize(
    ("made", "compared"),
    [([("a", {})] * 3, True), ([("a", {})] * (CALLS_MAX + 1), False)],
    ids=["short", "long"],
)
def test_long_sessions_leave_the_sample(made: list[Made], compared: bool) -> None:
    """A session beyond the maximum length is left out of the sample."""
    monitor = Monitor([task()], LIMITS)
    for session in range(2):
        play(monitor, session, made)

    assert (pair(monitor).repeats.value is not None) is compared


def test_without_arguments_only_tools_are_compared() -> None:
    """Unknown arguments count neither as equal nor as different."""
    monitor = Monitor([task()], LIMITS)
    for session in range(2):
        play(monitor, session, [("a", None), ("b", {})])
    families = monitor_families(monitor.totals, monitor.binder, {})
    text = "".join(lines(families, open_metrics=False))

    assert 'offrails_consistency_tss{agent="agent",spec="t"} 1.0' in text
    assert "offrails_consistency_ac{" not in text
    assert "offrails_consistency_divergence_point{" not in text


def test_policies_repeat_nothing() -> None:
    """Sessions under a policy are of any task: they are not compared."""
    monitor = Monitor([task("policy")], LIMITS)
    for session in range(3):
        play(monitor, session, [("a", {})])

    assert pair(monitor).repeats.value is None


def test_call_ids_outlive_the_sample() -> None:
    """When hashes are freed, the other facts of a call stay."""
    monitor = Monitor([task()], LIMITS)
    monitor.observe(call(0, 0, ("a", {"x": 1}), "id-1"), SECOND)
    monitor.end(SessionKey("", "s0"), SECOND)

    (found,) = monitor.find("s0")
    assert found["steps"][0]["call_id"] == "id-1"


def test_hashes_are_as_good_as_what_they_are_of() -> None:
    """Equal arguments have equal hashes, different ones different hashes, unknown ones none."""
    assert hashed({"a": 1, "b": [2, 1]}) == hashed({"b": [1, 2], "a": 1})
    assert hashed({"a": 1}) != hashed({"a": 2})
    assert hashed(None) is None
    assert hashed({}) == frozenset()


@pytest.mark.parametrize("both", [True, False])
def test_a_session_put_together(both: bool) -> None:
    """A session of two traces is compared where the arguments of both were kept."""
    monitor = Monitor([task()], LIMITS)
    if not both:
        pair_of = monitor.totals.pair("agent", "t", 0.5, ())
        pair_of.repeats.live = LIVE_MAX - 1
    for session in range(2):
        monitor.observe(call(session, session, ("a", {"x": 1})), SECOND, quiet=True)
    monitor.corrections.rekey(SessionKey("", "s1"), SessionKey("", "s0"), "x", SECOND)
    ((_, judgement),) = monitor.reader.open_judgements()

    assert judgement.sampled is both
    assert [judgement.log.row(place).texts is not None for place in (0, 1)] == [both] * 2
    monitor.end(SessionKey("", "s0"), SECOND)
    assert monitor.totals.sampled == 0


@given(st.lists(st.sampled_from(["yes", "no", None]), max_size=KEPT + 4))
def test_answers_are_compared_where_they_are_told(told: list[str | None]) -> None:
    """The answers' agreement is the batch definition, over the sessions that have an answer."""
    sample = ConsistencySample()
    for answer in told:
        sample.add([("a", None)], None if answer is None else hash(answer))
    known = [answer for answer in told[-KEPT:] if answer is not None]
    expected = output_agreement(known) if len(known) > 1 else None
    assert sample.output_agreement == expected


def test_the_last_answer_of_a_session_counts() -> None:
    """In any order of arrival the last answer counts, for compared sessions only."""
    monitor = Monitor([task()], LIMITS)
    for session, answers in enumerate([[(1, 7), (2, 8)], [(2, 8), (1, 9)], [(5, 7)]]):
        play(monitor, session, [("a", {})], end=False)
        key = SessionKey("", f"s{session}")
        assert monitor.reader.is_compared(key)
        for end_ns, text in answers:
            monitor.corrections.answered(key, (True, end_ns, 0, text))
        monitor.end(key, SECOND * 1_000 * (session + 1))
        assert not monitor.reader.is_compared(key)
    assert pair(monitor).repeats.output_agreement == pytest.approx(1 / 3)
    assert 'offrails_consistency_output_agreement{agent="agent",spec="t"}' in "".join(
        lines(
            monitor_families(monitor.totals, monitor.binder, monitor.counters.ended),
            open_metrics=False,
        )
    )


@pytest.mark.parametrize(
    "arguments", [{}, {"a": 1, "b": "1"}, {"a": ["y", "x"], "b": ("x", 2), "c": None}]
)
def test_hashes_are_those_of_the_flat_set(arguments: dict[str, Any]) -> None:
    """The kept hashes are those of the pairs that Definition 4 compares."""
    pairs = ["\0".join(pair) for pair in flatten(arguments)]
    assert hashed(arguments) == frozenset(map(digest_of, pairs))
    assert hashed(None) is None


def test_the_sample_is_shared_among_tenants() -> None:
    """One tenant that fills the sample gives up places to another, up to a fair share."""
    monitor = Monitor([task()], LIMITS)
    made = [
        (f"{tenant}/{number}", f"agent {number}")
        for tenant in ("loud", "quiet")
        for number in range(SAMPLED_MAX + 100 if tenant == "loud" else 30)
    ]
    for number, (namespace, agent) in enumerate(made):
        made_call = ToolCall(
            SessionKey(namespace, str(number)), agent, "a", {"x": 1}, False, number, number + 1,
            b"t" * 16, number.to_bytes(8, "big"), b"", "", Evidence.EXECUTED, attributes=ATTRIBUTES,
        )  # fmt: skip
        monitor.observe(made_call, SECOND)

    compared = Counter(
        namespace.split("/")[0]
        for number, (namespace, _) in enumerate(made)
        if monitor.reader.is_compared(SessionKey(namespace, str(number)))
    )
    assert monitor.totals.sampled == compared.total() == SAMPLED_MAX
    assert compared["quiet"] == 30
    monitor.close(10**18)
    assert monitor.totals.sampled == 0
    left = written(monitor.state.accounting)
    assert b"loud" not in left
    assert b"quiet" not in left
