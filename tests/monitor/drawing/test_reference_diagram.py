"""A reference as text shows its nodes with their runs, the medoid and the tools that write."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from monitor.drawing.reference_diagram import NODES_DRAWN, dot, mermaid
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.learnt_reference import LearntReference
from monitor.spec.read import load_spec


def learnt(*runs: str) -> LearntReference:
    return learn(
        [
            SeenRun(str(n), "", tuple(seen_call(t, {}, failed=False) for t in run.split()))
            for n, run in enumerate(runs)
        ]
    )


def nodes(text: str) -> list[str]:
    """Labels of a digraph's nodes."""
    lines = [line.strip() for line in text.splitlines()]
    return [line.split('"')[1] for line in lines if line.startswith("n") and "[label=" in line]


def test_counts_the_medoid_and_what_writes() -> None:
    """Each node has its tool and its runs; the medoid is marked, and so are tools that write."""
    found = learnt("find get refund", "find get refund", "find get", "find list")

    assert nodes(dot(found, "r")) == [
        "start: 4", "find: 4", "get: 3", "refund: 2", "list: 1",
    ]  # fmt: skip
    assert dot(found, "r").count("penwidth=3") == 4
    text = mermaid(found, "r")
    assert "    class n0,n1,n2,n3 medoid" in text.splitlines()
    assert "    class n3 writes" in text.splitlines()
    assert "n1 --> n4" in text


def test_names_are_hostile() -> None:
    """Tools and titles are escaped in both."""
    found = learnt("<script>&\x01 b")

    assert "n1 --> n2" in mermaid(found, "</svg>")
    assert "<script>" not in mermaid(found, "t")
    assert dot(found, '"').splitlines()[3] == '    label="\\"";'


def test_what_is_rare_is_left_out() -> None:
    """A large tree shows its most frequent nodes, and the medoid."""
    rare = [f"start only{n:03}" for n in range(3 * NODES_DRAWN)]

    assert len(nodes(dot(learnt(*["start usual"] * 5, *rare), "r"))) == NODES_DRAWN


RUNS = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "send"]), max_size=6).map(" ".join), min_size=1
)


@given(RUNS)
def test_every_node_has_its_parent(runs: list[str]) -> None:
    """Each node but the start hangs below one that is drawn, and equal input gives equal text."""
    text = dot(learnt(*runs), "r")
    lines = [line.strip(" ;").split(" -> ") for line in text.splitlines() if " -> " in line]

    assert len(lines) == len(nodes(text)) - 1
    assert len({below for _, below in lines}) == len(lines)
    assert text == dot(learnt(*runs), "r")


def test_the_text_of_a_document(tmp_path: Path) -> None:
    """A learnt reference and its document, read back, give the same text."""
    found = learnt("find get refund", "find list")
    file = tmp_path / "r.yaml"
    file.write_text(reference_text(found, "r"), encoding="utf-8")
    read = load_spec(file).learnt

    assert read is not None
    assert dot(read, "r") == dot(found, "r")
