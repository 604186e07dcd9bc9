"""Every reader of YAML 1.2 reads what is bundled and what our tools write, as we do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from collector.offline.drafts.starter_spec import Agent, starter
from monitor.reference.draft import DraftAutomaton, draft_text
from monitor.spec.core_import.dataset import DatasetState, Edge, Symbol, Task, document
from monitor.spec.document.write import flow, name
from monitor.spec.document.yaml_text import parse
from monitor.spec.editing.add_acceptance import with_acceptance
from monitor.spec.spec import Acceptance
from tests.samples import sampled

ROOT = Path(__file__).parents[3]
FOLDERS = ("dfa_specs", "deploy", "grafana", "docs")
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    # Helm's templates are no YAML yet
    if path.suffix in (".yaml", ".yml") and "templates" not in path.parts
)
PAGES = sorted(
    path
    for path in (ROOT / "README.md", *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md")))
    if "```yaml" in path.read_text()
)
BLOCK = re.compile(r"^( *)```ya?ml\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SPECIAL = re.compile(r"[\[\]{},?]")
"""In a plain scalar between brackets: some readers end it there."""

Event = tuple[str, Any]


def _events(found: Any) -> Iterator[Event]:
    """The events of a document: structure, texts, and whether each text is plain."""
    for event in found:
        kind = type(event).__name__
        if kind in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent", "CommentEvent"):
            continue
        if kind == "ScalarEvent":
            plain = event.style in (None, "")
            yield kind, (event.value, plain and event.implicit[0])
        else:
            yield kind, getattr(event, "anchor", None)


def readings(text: str) -> list[list[Event]]:
    """The document as libyaml, PyYAML and ruamel read it."""
    return [
        list(_events(yaml.parse(text, Loader=yaml.CSafeLoader))),
        list(_events(yaml.parse(text, Loader=yaml.SafeLoader))),
        list(_events(YAML(typ="safe", pure=True).parse(text))),
    ]


def assert_alike(text: str) -> None:
    one, *others = readings(text)
    for other in others:
        assert other == one
    assert list(odd_scalars(text)) == []


def odd_scalars(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of plain scalars between brackets that a strict reader ends too soon."""
    depth = 0
    for token in yaml.scan(text, Loader=yaml.CSafeLoader):
        if isinstance(token, yaml.FlowSequenceStartToken | yaml.FlowMappingStartToken):
            depth += 1
        elif isinstance(token, yaml.FlowSequenceEndToken | yaml.FlowMappingEndToken):
            depth -= 1
        elif isinstance(token, yaml.ScalarToken) and depth and token.plain:
            yield from [(token.start_mark.line + 1, token.value)] * bool(
                SPECIAL.search(token.value)
            )


def blocks(page: Path) -> list[str]:
    found = []
    for indent, body in BLOCK.findall(page.read_text()):
        lines = (line.removeprefix(indent) for line in body.splitlines(keepends=True))
        found.append("".join(lines))
    return found


@pytest.mark.parametrize(
    "file", sampled(FILES, FILES[::4]), ids=lambda path: str(path.relative_to(ROOT))
)
def test_bundled_files_are_read_alike(file: Path) -> None:
    """By three readers, and by one that allows no special sign in a plain text in brackets."""
    assert_alike(file.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_are_read_alike(page: Path) -> None:
    """Both readers read the YAML examples of the pages alike."""
    for block in blocks(page):
        assert_alike(block)


def test_what_is_strict_is_noticed() -> None:
    """The case that was: an expression in braces without quotes."""
    assert list(odd_scalars("a: {regex: (?i)b}\n")) == [(1, "(?i)b")]
    assert list(odd_scalars("a: {regex: '(?i)b'}\nb: (?i)c\n")) == []
    with pytest.raises(yaml.YAMLError):
        readings("a: {regex: (?i)b}\n")


# --- what our tools write -------------------------------------------------------------------------

ANY = st.text(st.characters(), min_size=1, max_size=20)
ODD = st.sampled_from([
    "(?i)a", "a, b", "{a}", "[a]", "a: b", "a #b", "? a", "- a", "no", "~", "1e5", "0o17", "'a'",
    '"', "\\", "\x00", "\x85", "\u2028", "\ufeff", "\ud800", "a\nb", " a ", "x" * 1100, "2026-01-01",
])  # fmt: skip
TEXTS = ANY | ODD


def assert_read_back(text: str) -> Any:
    """All readers read the same document, which is one of ours."""
    assert_alike(text)
    found, findings = parse(text, "made.yaml")
    assert findings == []
    assert found is not None
    return found.data


def whole(text: str) -> str:
    """A text without halves of surrogate pairs, which YAML cannot write."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@given(
    st.recursive(
        TEXTS | st.integers() | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=8,
    )
)
def test_values_are_read_alike(value: Any) -> None:
    """Lists, mappings and texts of any characters, also with long keys."""
    assert_read_back(f"key: {flow(value)}\n")


@given(ANY | ODD.filter(lambda text: len(text) < 1000))
def test_names_are_read_alike(text: str) -> None:
    """Both readers read names alike, as keys and values, inside brackets and outside."""
    found = assert_read_back(f"{name(text)}: {{{name(text)}: [{name(text)}]}}\n")
    assert found == {whole(text): {whole(text): [whole(text)]}}


@given(
    st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2), min_size=1, max_size=3),
    TEXTS,
    st.data(),
)
def test_a_starter_is_read_alike(tools: dict[str, list[str]], service: str, data: Any) -> None:
    """`offrails init`: of an agent whose names are anything."""
    runs = data.draw(
        st.lists(st.lists(st.sampled_from(sorted(tools)), max_size=4).map(tuple), max_size=2)
    )
    agent = Agent(service, tools, [service], {service: 1}, False, [service], runs)
    found = assert_read_back(starter(agent))
    assert found["match"] == {"service.name": whole(service)}
    assert {each["tool"] for each in found["alphabet"].values()} == set(map(whole, tools))


SHORT = TEXTS.filter(lambda text: len(text) < 900)
"""Tools are keys here, at the beginning of a line."""


@given(st.lists(SHORT, min_size=1, max_size=4, unique_by=whole), SHORT)
def test_a_draft_is_read_alike(tools: list[str], id_: str) -> None:
    """`offrails learn --spec`: tools of any names."""
    edges = {(n, tool): n + 1 for n, tool in enumerate(tools)}
    model = DraftAutomaton({**edges, (0, tools[-1]): 0}, frozenset({len(tools)}))
    found = assert_read_back(draft_text(model, id_, {id_: tools[0]}, []))
    assert set(found["alphabet"]) == set(map(whole, tools))


@given(SHORT, SHORT, SHORT, st.dictionaries(SHORT, TEXTS, max_size=3))
def test_an_import_is_read_alike(
    tool: str, state: str, text: str, arguments: dict[str, str]
) -> None:
    """`offrails import core`: whatever the published file says."""
    last = f"{state}'"
    task = Task(
        id=text,
        description=text,
        world=text,
        initial=state,
        states=(
            DatasetState(
                state, False, (Edge((tool,), state, last), Edge((text,), state, state))
            ),
            DatasetState(last, True, ()),
        ),
        alphabet={tool: Symbol(tool, arguments), text: Symbol(text, None)},
    )
    found = assert_read_back(document(task))
    assert found["initial"] == whole(state)


@given(SHORT, SHORT, SHORT, SHORT)
def test_an_accepted_call_is_read_alike(symbol: str, state: str, who: str, why: str) -> None:
    """`offrails accept`: in a list of lines and in brackets."""
    entry = Acceptance(
        symbol=whole(symbol), state=whole(state), constraint=None, who=whole(who), why=whole(why),
        until=date(2027, 1, 31),
    )  # fmt: skip
    for text in ("id: a\nalphabet: {a: {tool: a}}\n", "id: a\naccept: []\n"):
        assert_read_back(with_acceptance(text, entry))
