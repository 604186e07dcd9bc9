"""Learning: the same in any order, honest about itself, written and read without loss."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.reference.calls import digest, seems_to_write
from monitor.reference.comparison import Comparison
from monitor.reference.document import reference_text
from monitor.reference.learn import LearntRuns, learn, usual
from monitor.reference.medoid import Medoids
from monitor.reference.runs import SeenRun, seen_call
from monitor.reference.settings import NODES_MAX
from monitor.scores.consistency import similarity
from monitor.spec.compiler.compile import compile_text
from monitor.spec.learnt_reference import LearntReference, RiskCeiling

SOURCE = {"version": "0.1.0", "settings": "1"}
NAMES = st.lists(st.sampled_from(["get_a", "find_b", "book_c", "send_d"]), max_size=5)


def run(id_: str, *names: str, success: bool | None = None, **arguments: Any) -> SeenRun:
    """A run whose calls all have the same arguments."""
    calls = tuple(seen_call(name, arguments, failed=False) for name in names)
    return SeenRun(id_, "", calls, success)


def read_back(learnt: LearntReference) -> LearntReference:
    """The reference, as read from its document."""
    spec, findings = compile_text(reference_text(learnt, "r"), "r.yaml")
    assert spec is not None, findings
    assert spec.learnt is not None
    return spec.learnt


@given(st.lists(st.tuples(NAMES, st.booleans(), st.integers(0, 1)), min_size=1, max_size=7))
def test_order_does_not_matter(told: list[tuple[list[str], bool, int]]) -> None:
    """Runs in any order give the same document, to the letter; it reads back as it was."""
    runs = [
        run(str(n), *names, success=good, x=value)
        for n, (names, good, value) in enumerate(told)
    ]
    shuffled = list(runs)
    random.Random(len(runs)).shuffle(shuffled)

    learnt = learn(runs, source=SOURCE)
    text = reference_text(learnt, "r")

    assert reference_text(learn(shuffled, source=SOURCE), "r") == text
    assert reference_text(read_back(learnt), "r") == text


@given(st.lists(st.tuples(NAMES, st.booleans()), min_size=2, max_size=40), st.integers(0, 99))
def test_the_risk_alarm_is_false_in_a_bounded_share_of_usual_runs(
    told: list[tuple[list[str], bool]], seed: int
) -> None:
    """At most 50 of 1,000 usual runs of the split reach it; fewer than 19 of them promise nothing: no alarm."""
    runs = [run(str(n), *names, success=good) for n, (names, good) in enumerate(told)]
    random.Random(seed).shuffle(runs)
    learnt = learn(runs)
    assert learnt.risk_alarm is not None
    usual_runs = sum(good and bool(names) for names, good in told)
    if usual_runs < 19:
        assert learnt.risk_alarm == 1.0
    worth = learnt.split_alarms.get("risk")
    if worth is not None and worth.at_most_per_1000 is not None and learnt.risk_alarm < 1:
        assert worth.at_most_per_1000 <= 50
    assert Comparison(read_back(learnt)).risk_alarm == learnt.risk_alarm


def test_the_risk_alarm_tells_bad_runs_from_many_usual_ones() -> None:
    """With usual runs enough, an alarm is raised for what they never do; a document from before keeps its bar."""
    good = [run(f"g{n}", "get_a", "book_c", success=True) for n in range(40)]
    bad = [run(f"b{n}", "get_a", "send_d", success=False) for n in range(10)]
    learnt = learn([*good, *bad])
    assert learnt.split_alarms["risk"].recall == 1.0
    assert learnt.split_alarms["risk"].precision == 1.0
    assert learn(good[:10]).risk_alarm == 1.0
    text = reference_text(learnt, "r")
    old = "\n".join(line for line in text.splitlines() if not line.startswith("  alarm: "))
    spec, _ = compile_text(old, "r.yaml")
    assert spec is not None
    assert spec.learnt is not None
    assert Comparison(spec.learnt).risk_alarm == 0.6


@given(st.lists(NAMES, min_size=1, max_size=6))
def test_medoid(sequences: list[list[str]]) -> None:
    """The medoid is as near to all runs as any run is, also where one run is left out."""
    names = [tuple(each) for each in sequences]
    medoids = Medoids(names)

    def nearness(one: tuple[str, ...], among: list[tuple[str, ...]]) -> float:
        return sum(similarity(one, other) for other in among)

    best = max(nearness(each, names) for each in names)
    assert nearness(medoids.of_all(), names) == pytest.approx(best)
    for place, left in enumerate(names):
        others = names[:place] + names[place + 1 :]
        found = medoids.without(left)
        if others:
            assert found is not None
            best = max(nearness(each, others) for each in others)
            assert nearness(found, others) == pytest.approx(best)


def test_alarms_are_judged_by_the_other_runs() -> None:
    """A write that a single good run made is a false alarm there, and a hit in a failed run."""
    runs = [
        run("1", "get_a", "book_c", success=True),
        run("2", "get_a", "book_c", success=True),
        run("3", "get_a", "book_c", success=True, other=1),
        run("4", "find_b", "send_d", success=False),
    ]

    alarms = learn(runs).alarms

    assert alarms["unexpected_write"].precision == 0.5
    assert alarms["unexpected_write"].recall == 1
    assert alarms["unexpected_write"].false_per_1000 == 250
    assert alarms["new_write_tool"].precision == 1
    assert alarms["new_arguments"].precision == 0
    assert alarms["first_two"].precision == 1
    assert alarms["missing_write"].recall == 1


def test_only_successes_are_seen() -> None:
    """With outcomes the tree holds only successes; failures count for the risk."""
    learnt = learn([run("1", "get_a", success=True), run("2", "find_b", success=False)])

    assert learnt.runs == 1
    assert learnt.failures == 1
    assert [learnt.tools[node.tool] for node in learnt.nodes[1:]] == ["get_a"]
    assert learnt.called_by == {"find_b": (0, 1), "get_a": (1, 0)}


def test_only_failures() -> None:
    """Where no run succeeded there is nothing to compare with, and still a risk."""
    learnt = read_back(learn([run("1", "get_a", success=False)]))

    assert learnt.runs == 0
    assert learnt.medoid == ()
    assert learnt.failures == 1


def test_no_runs() -> None:
    """Learning from no runs is an error with a message."""
    with pytest.raises(ValueError, match="no runs"):
        learn([])


def test_size_is_bounded() -> None:
    """A tree of very different runs keeps the nodes that most runs share, parents first."""
    runs = [run(str(n), "get_a", *(f"find_{n}_{k}" for k in range(180))) for n in range(30)]

    nodes = learn(runs).nodes

    assert len(nodes) == NODES_MAX
    assert nodes[1].runs == 30
    assert all(node.parent < place for place, node in enumerate(nodes))


@pytest.mark.parametrize(
    ("tool", "writes"),
    [
        ("book_reservation", True),
        ("updateUser", True),
        ("get_update", False),
        ("transfer_to_human_agents", False),
        ("transfer_money", True),
        ("think", False),
        ("calculate", False),
        ("crm.delete_contact", True),
        ("HTTPPost", True),
        ("weather", False),
    ],
)
def test_writes_by_name(tool: str, writes: bool) -> None:
    """The first known verb of a name decides whether a tool writes. A hand-off never writes."""
    assert seems_to_write(tool) is writes


def test_digest() -> None:
    """Equal arguments have one digest in any order. True, 1 and "1" differ."""
    assert digest({"a": 1, "b": [2.0]}) == digest({"b": [2], "a": 1.0})
    assert len({digest({"a": value}) for value in (1, True, "1", None, 1.5)}) == 5


@pytest.mark.parametrize(
    "node",
    ["0 0 1", "5 0 1 1", "0 9 1 1", "-1 -1 1 1", "0 0 1 1 xyz"],
)
def test_bad_trees_are_refused(node: str) -> None:
    """A tree that was edited into nonsense refuses the document, with a finding."""
    text = reference_text(learn([run("1", "get_a")]), "r")
    head, _, _ = text.rpartition("  - ")

    spec, findings = compile_text(f'{head}  - "{node}"\n', "r.yaml")

    assert spec is None
    assert [found.code for found in findings] == ["broken_tree"]


@given(st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=7))
def test_what_was_learnt_is_sound(told: list[tuple[list[str], bool]]) -> None:
    """No learnt document contradicts itself: only its worth is ever warned of."""
    runs = [run(str(n), *names, success=good) for n, (names, good) in enumerate(told)]
    spec, findings = compile_text(reference_text(learn(runs), "r"), "r.yaml")

    assert spec is not None
    assert {each.code for each in findings} <= {
        "few_runs",
        "no_writes",
        "noisy_alarm",
    }
    assert spec.findings == findings


@given(
    st.lists(st.tuples(NAMES, st.booleans(), st.integers(0, 1)), min_size=1, max_size=5),
    st.lists(st.tuples(NAMES, st.integers(0, 1)), min_size=1, max_size=3),
)
def test_other_runs_are_judged_as_the_monitor_judges_them(
    lent: list[tuple[list[str], bool, int]], judged: list[tuple[list[str], int]]
) -> None:
    """What the split counts of a run is what a comparison with a reference of the lent runs raises online."""
    lenders = [
        run(f"a{n}", *names, success=good, x=value)
        for n, (names, good, value) in enumerate([*lent, (["get_a"], True, 0)])
    ]
    others = [
        run(f"b{n}", *names, success=False, x=value)
        for n, (names, value) in enumerate(judged)
        if names
    ]
    comparison = Comparison(usual(lenders, None, None))
    apart = LearntRuns(lenders, None, judges_others=True)
    for each in others:
        at = comparison.start()
        for call in each.calls:
            comparison.step(at, comparison.token_of(call))
        found = apart.raised(each)
        assert found["new_write_tool"] is at.new_write_tool
        assert found["unexpected_write"] is at.unexpected_write
        assert found["missing_write"] is bool(comparison.missing_writes(at))
        assert apart.risk_of(each) == pytest.approx(comparison.risk_of(at, ended=True))


def test_a_split_has_runs_of_other_agents() -> None:
    """An alarm that only other agents' runs disprove is as wrong as it is for them, not as each run by the others says."""
    runs = [
        SeenRun(f"{agent}{n}", agent, (seen_call(f"book_{agent}", {}, failed=False),), True)
        for agent in "abcd"
        for n in range(5)
    ]
    learnt = read_back(learn(runs))

    assert learnt.alarms["new_write_tool"].false_per_1000 == 0
    assert learnt.split_alarms["new_write_tool"].false_per_1000 == 1000
    assert learnt.split_alarms["new_write_tool"].precision is None


def test_one_usual_run_is_not_split() -> None:
    """Without a half to judge by there are no figures of one, and no ceiling."""
    learnt = learn([run("1", "get_a", success=True), run("2", "find_b", success=False)])

    assert learnt.split_alarms == {}
    assert learnt.ceiling is None


def test_the_ceiling_is_that_of_whole_runs() -> None:
    """Failures that can be told by their tools are all found, and those that look like successes none."""
    good = [run(f"g{n}", "get_a", "book_c", success=True) for n in range(4)]
    told = [run(f"b{n}", "find_b", success=False) for n in range(4)]
    same = [run(f"b{n}", "get_a", "book_c", success=False) for n in range(4)]

    seen, unseen = read_back(learn(good + told)).ceiling, learn(good + same).ceiling
    assert (seen, unseen) == (RiskCeiling(1.0, 8, 4), RiskCeiling(0.5, 8, 4))
