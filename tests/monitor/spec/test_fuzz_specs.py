"""Documents of strangers and of careless friends: findings, never a traceback, and in time."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.findings import CODES, Finding, has_errors
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.monitor.spec.garbage import only_its_garbage

ROOT = Path(__file__).parents[3]
BUNDLED = ROOT / "dfa_specs"
TEXTS = [path.read_text() for path in sorted(BUNDLED.rglob("*.yaml"))]
SLOW_SECONDS = 5.0
MEMORY_MAX = 200 * 1024 * 1024


def checked(text: str) -> Spec | None:
    """Compiles, and looks at what was said."""
    spec, findings = compile_text(text, "fuzz.yaml")
    assert (spec is None) == has_errors(findings)
    for each in findings:
        assert isinstance(each, Finding)
        assert each.code in CODES
        assert each.line >= 1
        assert each.column >= 1
        assert "\n" not in str(each)
    return spec


# --- near misses: bundled specs with one thing wrong --------------------------------------------

_SCRAPS = (
    "", " ", "\n", ":", "- ", "[", "]", "{", "}", "*a", "&a ", "!!str ", "~", "null", "true",
    "0", "-1", "1e400", ".nan", "'", '"', "#", "|", ">", "%", "@", "`", "\t", "\x00", "\x85",
    "\u2028", "\ud800", "é", "<<: *a", "---\n", "...\n", "regex: (", "one_of: []", "min: z",
)  # fmt: skip


def _mutate(chance: random.Random) -> str:
    """A bundled spec after a few careless edits."""
    text = chance.choice(TEXTS)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 0, 1, 2, 10, 60)))
        middle = chance.choice((*_SCRAPS, text[start:end] * 2, chance.choice(TEXTS)[start:end]))
        text = text[:start] + middle + text[end:]
    return text


@given(st.randoms(use_true_random=False))
@settings(suppress_health_check=list(HealthCheck))
def test_careless_edits_of_good_specs(chance: random.Random) -> None:
    """Any edit gives a spec, or findings with positions."""
    checked(_mutate(chance))


@pytest.mark.long
def test_very_many_careless_edits() -> None:
    """The same holds for 20,000 edits."""
    chance = random.Random(20_000)
    for _ in range(20_000):
        checked(_mutate(chance))


# --- well-formed nonsense: the right keys with any values ---------------------------------------

_LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10_001),
    st.floats(),
    st.sampled_from(["a", "b", "s", "regex", "any", "", "core", "task", "policy", "page"]),
    st.text(max_size=5),
)
_VALUE: st.SearchStrategy[Any] = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                ["a", "b", "s", "tool", "arguments", "regex", "min", "max", "one_of", "any",
                 "precedence", "at_most", "exactly", "init", "forbid", "default", "states",
                 "symbol", "state", "who", "why", "until", "from", "to", "within"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)  # fmt: skip
_KEYS = (
    "version", "description", "kind", "mode", "enforce", "severity", "match", "scope", "again", "alphabet",
    "initial", "accepting", "states", "transitions", "reads", "golden", "constraints",
    "conventions", "concurrent", "order", "undo", "accept", "deadlines", "idle",
)  # fmt: skip
_GOOD: dict[str, Any] = {
    "id": "x",
    "alphabet": {"a": {"tool": "a"}, "b": {"tool": "b", "arguments": {"n": {"max": 3}}}},
}


@given(st.dictionaries(st.sampled_from(_KEYS), _VALUE, min_size=1, max_size=4))
@settings(suppress_health_check=list(HealthCheck))
def test_right_keys_with_any_values(drawn: dict[str, Any]) -> None:
    """Values of any shape under the keys of the language."""
    text = yaml.safe_dump({**_GOOD, "golden": [["a", "b"]], **drawn}, allow_unicode=True)
    checked(text)


HUGE = "9" * 400
"""An integer that is no float."""


@pytest.mark.parametrize(
    "pattern",
    [HUGE, f"-{HUGE}", f"{{max: {HUGE}}}", f"{{min: {HUGE}}}", f"{{one_of: [{HUGE}, .nan]}}",
     f"{{not_in: [{HUGE}]}}", f"{{min: -{HUGE}, max: {HUGE}}}", "{min: .inf}", "{max: -.inf}",
     "9" * 5_000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_numbers_beyond_a_float(pattern: str) -> None:
    """Numbers beyond a float are compared with other patterns of the tool without an error."""
    others = ("{max: 3.5}", "{type: integer}", "{not_in: [1]}", "{one_of: [1, 2]}")
    listed = ", ".join(
        f"t{n}: {{tool: a, arguments: {{n: {each}}}}}"
        for n, each in enumerate((pattern, *others))
    )
    checked(f"id: x\nalphabet: {{{listed}}}\ngolden: [[t0, t1, t2, t3, t4]]\n")


# --- documents that want time or memory ---------------------------------------------------------


def _aliases() -> str:
    lines = ["id: x", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines)


def _alphabet(count: int, arguments: str = "") -> str:
    more = f", arguments: {{{arguments}}}" if arguments else ""
    lines = "".join(f"  t{n}: {{tool: t{more.replace('N', str(n))}}}\n" for n in range(count))
    return f"id: x\nalphabet:\n{lines}"


def _constraints(count: int, one: Callable[[int], str]) -> str:
    listed = "".join(f"  - {one(n)}\n" for n in range(count))
    return f"{_alphabet(count + 1)}kind: policy\nconstraints:\n{listed}"


def _grid(side: int) -> str:
    rows = "".join(
        f"  x{x}y{y}: {{t0: x{min(x + 1, side)}y{y}, t1: x{x}y{min(y + 1, side)}}}\n"
        for x in range(side)
        for y in range(side)
    )
    end = f"x{side - 1}y{side - 1}"
    return f"{_alphabet(2)}initial: x0y0\naccepting: [{end}]\ntransitions:\n{rows}"


BOMBS: dict[str, Callable[[], str]] = {
    "aliases": _aliases,
    "depth": lambda: "[" * 500_000,
    "depth of mappings": lambda: "{a: " * 100_000,
    "size": lambda: "# " + "x" * 2_000_000,
    "long line": lambda: "id: " + "x" * 1_000_000,
    "many keys": lambda: "".join(f"k{n}: 1\n" for n in range(90_000)),
    "same key": lambda: "id: x\n" * 90_000,
    "many symbols of one tool": lambda: _alphabet(999, "n: {min: N}") + "golden: [[t0]]",
    "many overlaps": lambda: _alphabet(900, "n: {one_of: [0, N]}") + "golden: [[t0]]",
    "huge alternation": lambda: (
        _alphabet(1, "n: {regex: '" + "|".join(f"{n}{n:x}" for n in range(60_000)) + "'}")
        + "golden: [[t0]]"
    ),
    "repeated regex": lambda: (
        _alphabet(200, "n: {regex: '((a{1,30}){1,30})N'}") + "golden: [[t0]]"
    ),
    "nested regex": lambda: _alphabet(1, "n: {regex: '" + "(" * 50_000 + "'}"),
    "huge one_of": lambda: (
        _alphabet(2, "n: {one_of: [" + ", ".join(map(str, range(40_000))) + "]}")
        + "golden: [[t0]]"
    ),
    "huge one_of of lists": lambda: (
        "id: x\nalphabet:\n"
        + "".join(
            f"  t{n}: {{tool: t, arguments: {{n: {{one_of: [{'[1], ' * 400}[{n}]]}}}}}}\n"
            for n in range(100)
        )
        + "golden: [[t0]]"
    ),
    "huge golden": lambda: _alphabet(3) + "golden:\n" + "  - [t0, t1, t2]\n" * 20_000,
    "long golden": lambda: _alphabet(1) + f"golden: [[{', '.join(['t0'] * 60_000)}]]",
    "many golden paths": lambda: _grid(60),
    "many deadlines": lambda: (
        _grid(99)
        + "deadlines:\n"
        + "  - {from: t0, to: t1, within: 1s}\n" * 64
        + "idle: {"
        + ", ".join(f"x{x}y{y}: 1h" for x in range(99) for y in range(99))
        + "}\n"
    ),
    "many acceptances": lambda: (
        _grid(99)
        + "accept:\n"
        + "  - {symbol: t0, state: x98y98, who: a, why: b, until: 2030-01-01}\n" * 256
    ),
    "too many acceptances": lambda: (
        _grid(3)
        + "accept:\n"
        + "  - {symbol: t0, state: x1y1, who: a, why: b, until: 2030-01-01}\n" * 6_000
    ),
    "many accepted constraints": lambda: (
        _constraints(250, lambda n: f"precedence: [t{n}, t{n + 1}]")
        + "accept:\n"
        + "".join(
            f'  - {{constraint: "precedence: [t{n}, t{n + 1}]", symbol: t{n + 1}, '
            f"state: before t{n}, who: a, why: b, until: 2030-01-01}}\n"
            for n in range(250)
        )
    ),
    "wide product": lambda: _constraints(250, lambda n: f"response: [t{n}, t{n + 1}]"),
    "large counts": lambda: _constraints(5, lambda n: f"exactly: [t{n}, 9999]"),
    "impossible product": lambda: _constraints(
        120, lambda n: f"succession: [t{n}, t{(n + 1) % 120}]"
    ),
    "contradiction": lambda: _constraints(
        60, lambda n: f"existence: t{n}" if n else "absence: t1"
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_hostile_document_is_answered_in_time(name: str) -> None:
    """Any document takes at most five seconds of this thread: one of half a second takes two on a busy, slow machine."""
    text = BOMBS[name]()
    with only_its_garbage():
        start = time.thread_time()
        checked(text)
        seconds = time.thread_time() - start
    assert seconds < SLOW_SECONDS


@pytest.mark.parametrize("name", ["aliases", "many golden paths"])
def test_a_hostile_document_takes_little_memory(name: str) -> None:
    """Two documents that ask for much take at most 200 MB at their peak."""
    text = BOMBS[name]()
    tracemalloc.start()
    try:
        checked(text)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.long
@pytest.mark.parametrize("name", BOMBS)
def test_no_hostile_document_takes_much_of_the_process(name: str) -> None:
    """With libraries included, the process stays within 200 MB above idle."""
    code = (
        "import resource; from tests.monitor.spec.test_fuzz_specs import BOMBS, compile_text;"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024;"
        f"text = BOMBS[{name!r}](); before = used(); compile_text(text, 'x.yaml');"
        "print(used() - before)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert int(said.stdout) < MEMORY_MAX
