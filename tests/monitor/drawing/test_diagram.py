"""Pictures as text: whole golden texts, and names that try to break out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitor.automaton.dfa import build
from monitor.drawing.diagram import dot, mermaid
from monitor.spec.compiler.compile import compile_text
from monitor.spec.constraints import parse, side_by_side

ROVER = Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml"

TINY = build(
    ["start", "end"],
    ["go", "run", "look"],
    "start",
    ["end"],
    {
        ("start", "go"): "end",
        ("start", "run"): "end",
        ("start", "look"): "start",
        ("end", "look"): "end",
        ("end", "go"): "end",
    },
)


def test_mermaid_text() -> None:
    """Edges are merged, reads are one loop, accepting states lead to the end mark."""
    assert mermaid(TINY, "tiny") == (
        "---\n"
        'title: "tiny"\n'
        "---\n"
        "stateDiagram-v2\n"
        "    direction LR\n"
        '    state "start" as s0\n'
        '    state "end" as s1\n'
        "    [*] --> s0\n"
        "    s0 --> s1 : go, run\n"
        "    s0 --> s0 : reads#58; look\n"
        "    s1 --> s1 : reads#58; go, look\n"
        "    s1 --> [*]\n"
        "    classDef accepting stroke-width:4px\n"
        "    class s1 accepting\n"
    )


def test_dot_text() -> None:
    """The same diagram in Graphviz, with double borders on accepting states."""
    assert dot(TINY) == (
        "digraph spec {\n"
        "    rankdir=LR;\n"
        "    node [shape=circle];\n"
        "    start [shape=point];\n"
        '    s0 [label="start"];\n'
        '    s1 [label="end" shape=doublecircle];\n'
        "    start -> s0;\n"
        '    s0 -> s1 [label="go, run"];\n'
        '    s0 -> s0 [label="reads: look" style=dashed];\n'
        '    s1 -> s1 [label="reads: go, look" style=dashed];\n'
        "}\n"
    )


HOSTILE = 'x"; s0 -> s9 \\"\n#;%%{init}<b>--> [*]\x1b[31m\u202e`end'


def test_hostile_names_stay_in_their_labels() -> None:
    """No name can end its label, start a statement, or colour a terminal."""
    machine = build([HOSTILE, "b"], [HOSTILE], HOSTILE, ["b"], {(HOSTILE, HOSTILE): "b"})
    for drawn in (mermaid(machine, HOSTILE), dot(machine, HOSTILE)):
        assert "\x1b" not in drawn
        assert "\u202e" not in drawn
    assert "s9" not in re.sub(r'"(\\.|[^"\\])*"', "", dot(machine, HOSTILE))
    lines = mermaid(machine, HOSTILE).splitlines()
    assert len(lines) == len(mermaid(TINY, "t").splitlines()) - 2
    for line in lines:
        label = re.sub(r'^\s*(state|title:) "|" as s\d+$|"$|^    \S+ --> \S+( : )?', "", line)
        if "x#34;" in label:
            assert re.fullmatch(r"([\w .,'()/=*+\[\]-]|#\d+;)+", label), label


def test_a_constraint_is_a_diagram() -> None:
    """A policy is drawn one constraint at a time, under the text of the constraint."""
    text = (
        "id: p\nkind: policy\nalphabet: {a: {tool: a}, b: {tool: b}}\n"
        "constraints: [{precedence: [a, b]}, {init: a}]\n"
    )
    spec, _ = compile_text(text, "p.yaml")
    assert spec is not None
    titles = [title for title, _ in spec.diagrams()]
    assert titles == ["precedence: [a, b]", "init: a"]
    drawn = [mermaid(machine) for _, machine in spec.diagrams()]
    assert "before a" in drawn[0]
    assert "(other)" not in drawn[0]
    assert "(other)" in drawn[1]


def test_too_many_states_are_not_drawn() -> None:
    """A machine that cannot be listed is refused with a reason, not drawn in part."""
    symbols = tuple(f"s{index}" for index in range(30))
    raw = [{"precedence": [symbols[i], symbols[i + 1]]} for i in range(0, 30, 2)]
    machine = side_by_side(symbols, [each for one in raw for each in parse(one, symbols)])
    with pytest.raises(ValueError, match="too many states"):
        mermaid(machine)


def test_the_rover_is_drawn_whole() -> None:
    """Every state and progress edge of the bundled spec is in both pictures."""
    spec, _ = compile_text(ROVER.read_text(), str(ROVER))
    assert spec is not None
    [(_, machine)] = spec.diagrams()
    for drawn in (mermaid(machine), dot(machine)):
        for name in (
            "locked",
            "unlocked",
            "arrived",
            "scanned",
            "valve_open",
            "watered",
            "done",
        ):
            assert f'"{name}"' in drawn
        for symbol in machine.symbols:
            assert symbol in drawn
