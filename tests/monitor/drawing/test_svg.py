"""Pictures of machines: every state and call is there, nothing overlaps, any text is safe."""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.cli.main import main
from monitor.automaton.dfa import Automaton, build
from monitor.drawing.layers import Size, layout
from monitor.drawing.svg import STATES_MAX, DrawnStep, svg
from monitor.spec.read import load_specs

BUNDLED = load_specs([Path(__file__).parents[3] / "dfa_specs"]).specs
SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str, kind: str = "") -> list[str]:
    return [
        each.text or ""
        for each in ET.fromstring(picture).iter(f"{SVG}text")
        if kind in (each.get("class") or "").split() or not kind
    ]


def door() -> Automaton:
    return build(
        ["shut", "open"],
        ["push", "look", "pull"],
        "shut",
        ["open"],
        {("shut", "push"): "open", ("shut", "look"): "shut", ("open", "pull"): "shut"},
    )


@pytest.mark.parametrize("spec", BUNDLED, ids=lambda spec: spec.id)
def test_every_bundled_spec_is_drawn(spec: object) -> None:
    """Each state once by name, accepting ones doubled, in a picture that is well-formed XML."""
    [found] = [each for each in BUNDLED if each is spec]
    picture = svg(found.diagrams())
    names = [m.name(state) for _, m in found.diagrams() for state in m.everywhere()]
    accepting = [m.accepts(state) for _, m in found.diagrams() for state in m.everywhere()]
    shown = [name if len(name) <= 32 else f"{name[:31]}…" for name in names]
    assert sorted(texts(picture, "name")) == sorted(shown)
    assert picture.count(" inner") == sum(accepting)


def test_reads_and_edges_are_told_apart() -> None:
    """A read is written at its state, a step at its arrow; one that leads back is dashed."""
    picture = svg([("door", door())])
    assert texts(picture, "title") == ["door"]
    assert texts(picture, "reads") == ["↻ look"]
    assert sorted(texts(picture, "label")) == ["pull", "push"]
    assert 'class="edge back"' in picture


def test_the_path_of_a_session_is_drawn_in() -> None:
    """Steps by their numbers at the arrows, harmful calls at the state they were made in."""
    path = [
        DrawnStep(0, 0, "look", False),
        DrawnStep(0, 0, "kick", True),
        DrawnStep(0, 1, "push", False),
    ]
    picture = svg([("door", door())], path)
    assert texts(picture, "harm") == ["✗ (2) kick"]
    assert texts(picture, "number") == ["(3)"]
    assert picture.count('class="edge taken"') == 1
    assert picture.count('class="state visited"') == 1


def test_names_are_escaped_and_shortened() -> None:
    """Names are text of strangers: they end no element, and long ones keep the picture small."""
    evil = '</text><script>alert("x")</script>\x07' + "y" * 200
    machine = build([evil, "b"], [evil], evil, ["b"], {(evil, evil): "b"})
    picture = svg([(evil, machine)])
    assert "<script" not in picture
    assert max(len(name) for name in texts(picture, "name")) <= 32
    assert evil.replace("\x07", " ") in [
        each.text for each in ET.fromstring(picture).iter(f"{SVG}title")
    ]


def test_too_many_states_are_no_picture() -> None:
    """Too many states give an error and no picture."""
    names = [str(n) for n in range(STATES_MAX + 1)]
    edges = {(a, "x"): b for a, b in itertools.pairwise(names)}
    with pytest.raises(ValueError, match="too many states"):
        svg([("", build(names, ["x"], "0", names, edges))])


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30),
        )
    )
)
def test_nothing_overlaps(drawn: tuple[int, set[tuple[int, int]]]) -> None:
    """Boxes are apart, forward steps go to the right, and the layout is deterministic."""
    count, pairs = drawn
    edges = {(0, n): 20.0 for n in range(1, count)}
    edges |= {pair: 30.0 for pair in pairs if pair[0] != pair[1] and pair[1] != 0}
    sizes = {n: Size(50.0 + n, 30.0) for n in range(count)}
    found = layout(range(count), edges, 0, sizes)
    assert found == layout(range(count), edges, 0, sizes)
    assert set(found.places) == set(range(count))
    assert set(found.routes) == set(edges)
    for (source, target), route in found.routes.items():
        if not route.backward:
            assert found.places[source][0] < found.places[target][0]
            assert route.points[0] == found.places[source]
            assert route.points[-1] == found.places[target]
    for one in range(count):
        for other in range(one):
            (ax, ay), (bx, by) = found.places[one], found.places[other]
            apart_x = abs(ax - bx) >= (sizes[one].width + sizes[other].width) / 2
            assert apart_x or abs(ay - by) >= 30.0


def test_the_verb_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`draw --out` with a session of a file of runs; otherwise a one-line error."""
    spec, runs, out = tmp_path / "s.yaml", tmp_path / "r.jsonl", tmp_path / "s.svg"
    spec.write_text("id: s\nalphabet: {a: {tool: a}, b: {tool: b}}\ngolden: [[a, b]]\n")
    runs.write_text('{"run": "r", "calls": [{"name": "b"}, {"name": "a"}]}\n')
    given = ["draw", str(spec), "--out", str(out)]

    assert main(given) == 0
    assert texts(out.read_text(), "title") == ["s"]
    assert main([*given, "--runs", str(runs), "--session", "r"]) == 0
    assert texts(out.read_text(), "harm") == ["✗ (1) b"]
    assert main([*given, "--runs", str(runs), "--session", "none"]) == 1
    assert "judges no session 'none'" in capsys.readouterr().err
    for unusable in (tmp_path / "no" / "x.svg", tmp_path / "x.gif"):
        with pytest.raises(SystemExit, match="2"):
            main([*given[:-1], str(unusable)])
