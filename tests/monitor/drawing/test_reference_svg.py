"""A reference's picture fits its page, shows counts and the medoid, and distinguishes the runs."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.drawing.reference_diagram import dot, mermaid
from monitor.drawing.reference_layout import (
    COLUMNS_MAX,
    NODES_DRAWN,
    LayoutCall,
    medoid_nodes,
    plan,
)
from monitor.drawing.reference_svg import RUNS_MAX, svg
from monitor.reference.comparison import Comparison
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.learnt_reference import LearntReference
from monitor.spec.read import load_spec

SPACE = "{http://www.w3.org/2000/svg}"


def learnt(*runs: str) -> LearntReference:
    return learn(
        [
            SeenRun(str(n), "", tuple(seen_call(t, {}, failed=False) for t in run.split()))
            for n, run in enumerate(runs)
        ]
    )


def way(found: LearntReference, run: str) -> tuple[str, list[LayoutCall]]:
    comparison = Comparison(found)
    return run, [
        LayoutCall(tool, comparison.token(tool, {}, failed=False)) for tool in run.split()
    ]


def texts(picture: str, kind: str) -> list[str]:
    found = ElementTree.fromstring(picture).iter(f"{SPACE}text")
    return [str(each.text) for each in found if each.get("class") == kind]


def boxes(picture: str, kind: str) -> int:
    found = ElementTree.fromstring(picture).iter(f"{SPACE}rect")
    return sum(kind in (each.get("class") or "").split() for each in found)


def test_counts_ends_and_the_medoid() -> None:
    """Each node has its tool and its runs; the medoid has a border, writing tools a colour."""
    picture = svg(learnt("find get refund", "find get refund", "find get", "find list"), "r")

    assert texts(picture, "title") == ["r"]
    assert texts(picture, "tool") == ["find", "get", "list", "refund"]
    assert texts(picture, "count") == ["4", "4", "3", "1", "2"]
    assert texts(picture, "note") == ["1 end"]
    # The start, three calls, and the legend.
    assert boxes(picture, "medoid") == 5
    assert boxes(picture, "write") == 2


def test_a_run_is_drawn_in() -> None:
    """The run's calls are numbered. A call outside the tree is drawn where the run left it."""
    found = learnt("find get refund", "find get refund")
    picture = svg(found, "r", [way(found, "find delete get")])

    assert texts(picture, "number") == ["2", "1", "3"]
    assert texts(picture, "away") == ["✗ delete (unexpected write)", "■ ended; usual: refund"]


def test_skipped_calls_are_dotted() -> None:
    """The path leads through the skipped calls, dotted, to the next call."""
    found = learnt("find get refund", "find get refund")
    picture = svg(found, "r", [way(found, "find refund")])
    ways = [each for each in ElementTree.fromstring(picture).iter(f"{SPACE}path")
            if each.get("class") == "way"]  # fmt: skip

    assert texts(picture, "number") == ["1", "2"]
    # The last is the legend's.
    assert [bool(each.get("stroke-dasharray")) for each in ways] == [False, True, False, False]


def test_too_many_runs_are_no_picture() -> None:
    """More runs than colours are refused, since they could not be distinguished."""
    found = learnt("a", "a")
    runs = [way(found, "a")] * (RUNS_MAX + 1)
    with pytest.raises(ValueError, match="too many"):
        svg(found, "r", runs)


def test_names_are_hostile() -> None:
    """Tools, titles and sessions are escaped; the picture stays well-formed."""
    found = learnt("<script>&\x01 b")
    _, calls = way(found, "<script>&\x01 <x>")
    picture = svg(found, "</svg>\x02", [("<run>", calls)], about="&")

    assert texts(picture, "tool") == ["<script>& ", "b"]
    assert "<script>" not in picture
    assert "n1 --> n2" in mermaid(found, "</svg>")
    assert "<script>" not in mermaid(found, "t")
    assert dot(found, '"').splitlines()[3] == '    label="\\"";'


def test_what_is_rare_is_left_out_and_said() -> None:
    """A large tree shows its most frequent nodes, and how many ways are not drawn."""
    rare = [f"start only{n:03}" for n in range(3 * NODES_DRAWN)]
    picture = svg(learnt(*["start usual"] * 5, *rare), "r")

    assert boxes(picture, "node") <= NODES_DRAWN + 2
    left_out = 3 * NODES_DRAWN - (NODES_DRAWN - 3)
    assert f"+ {left_out} rare ways ({left_out})" in texts(picture, "note")


RUNS = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "send"]), max_size=6).map(" ".join), min_size=1
)


@given(RUNS, st.lists(st.sampled_from(["a", "b", "c", "send", "x", "delete"]), max_size=8))
def test_everything_has_a_place_of_its_own(runs: list[str], calls: list[str]) -> None:
    """No boxes overlap, steps go to the right, and equal input gives an equal picture."""
    found = learnt(*runs)
    drawn_in = [way(found, " ".join(calls))]
    placed = plan(found, Comparison(found), drawn_in)

    spots = [(each.depth, each.row) for each in placed.boxes.values()]
    assert len(set(spots)) == len(spots)
    for node, each in placed.boxes.items():
        parent = found.nodes[node].parent
        assert parent < 0 or placed.boxes[parent].x + placed.boxes[parent].width < each.x
    assert [found.tools[found.nodes[node].tool] for node in medoid_nodes(found)[1:]] == list(
        found.medoid
    )
    track = placed.tracks[0]
    told = [step for _, step in track.nodes]
    told += [note.step for _, note in track.notes if note.step]
    assert set(told) == set(range(1, len(calls) + 1))
    assert svg(found, "r", drawn_in) == svg(found, "r", drawn_in)
    ElementTree.fromstring(svg(found, "r", drawn_in))


def test_long_ways_are_cut() -> None:
    """A run that is longer than the picture is drawn up to the last column."""
    run = " ".join(["a"] * (2 * COLUMNS_MAX))
    found = learnt(run, run)
    placed = plan(found, Comparison(found), [way(found, run)])

    assert len(placed.columns) == COLUMNS_MAX + 1
    assert any(
        "more calls" in note.text for each in placed.boxes.values() for note in each.notes
    )
    ElementTree.fromstring(svg(found, "r", [way(found, run)]))


def test_the_picture_of_a_document(tmp_path: Path) -> None:
    """A learnt reference and its document, read back, give the same picture."""
    found = learnt("find get refund", "find list")
    file = tmp_path / "r.yaml"
    file.write_text(reference_text(found, "r"), encoding="utf-8")
    read = load_spec(file).learnt

    assert read is not None
    assert svg(read, "r") == svg(found, "r")
