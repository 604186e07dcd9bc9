"""Arguments as models write them: read where they are certain, else unknown with a reason; never an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.argument_texts import read
from monitor.partial import UNREAD, PartialArguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


@pytest.mark.parametrize(
    "text",
    [
        '{"q": 1}',
        ' {"q": 1}\n',
        '```json\n{"q": 1}\n```',
        '```\n{"q": 1}```\n',
        json.dumps('{"q": 1}'),
        json.dumps(json.dumps('{"q": 1}')),
        json.dumps('```json\n{"q": 1}\n```'),
    ],
)
def test_texts_that_are_certain_are_read(text: str) -> None:
    """One object, however often it was encoded, and in a fence."""
    assert read(text) == ({"q": 1}, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "an empty text"),
        (" \n", "an empty text"),
        ("``````", "an empty text"),
        ('{"q": 1', "no JSON: Expecting"),
        ('{"q": 1, "code": "from her', "no JSON: Unterminated string"),
        ('{"q": 1}<|im_end|>', "text behind the JSON, at character 9"),
        ('{"q": 1}{"q": 1}', "text behind the JSON, at character 9"),
        ('```json\n{"q": 1}\n``` done', "no JSON"),
        ('Sure: {"q": 1}', "no JSON"),
        ("{'q': 1}", "no JSON"),
        ("null", "no arguments by name, but null"),
        ("[]", "no arguments by name, but a list"),
        ("7", "no arguments by name, but a number"),
        ("true", "no arguments by name, but true"),
        ('"pay"', "no JSON"),
        ('{"q": ' + "[" * 100_000, "no JSON: nested too deeply"),
        ('{"q": ' + "1" * 5_000 + "}", "no JSON: Exceeds the limit"),
    ],
)
def test_texts_that_are_not_certain_are_unknown(text: str, why: str) -> None:
    """What the call was made with is not known, and the reason says why."""
    found = read(text)
    assert found.arguments is None
    assert found.why.startswith(why)
    assert len(found.why) < 120


@pytest.mark.parametrize("value", [[], [1], 5, 0.5, True])
def test_values_that_are_no_arguments_are_unknown(value: Any) -> None:
    """A file of runs may hold any JSON there."""
    arguments, why = read(value)
    assert arguments is None
    assert why.startswith("no arguments by name, but ")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "q": 0, "q": 2}',
        '{"a": 1, "q": [{"x": 0, "x": 1}]}',
        '{"q": {"x": 1, "x": 2}, "a": 1}',
    ],
)
def test_a_name_that_comes_twice_is_unread(text: str) -> None:
    """Readers differ in which one they take; the other arguments are known."""
    arguments, why = read(text)
    assert isinstance(arguments, PartialArguments)
    assert dict(arguments) == {"a": 1, "q": UNREAD}
    assert arguments.unread == {"q"}
    assert why == "a name comes twice: `q`"


@pytest.mark.parametrize("text", ['{"q": 1, "q": 1}', '{"q": {"x": [1]}, "q": {"x": [1]}}'])
def test_a_name_that_comes_twice_with_one_value_is_known(text: str) -> None:
    """Whichever one a reader takes, it is the same; spans are read so, too."""
    arguments, why = read(text)
    assert not isinstance(arguments, PartialArguments)
    assert (arguments, why) == (json.loads(text), "")


@given(OBJECTS, st.integers(0, 2), st.booleans())
def test_every_object_is_read_as_it_was_written(
    written: dict[str, Any], times: int, fenced: bool
) -> None:
    """Encoded and fenced, any object comes back equal."""
    text = json.dumps(written)
    for _ in range(times):
        text = json.dumps(text)
    assert read(f"```json\n{text}\n```" if fenced else text) == (written, "")


@given(OBJECTS.filter(bool), st.data())
def test_no_cut_of_a_text_is_read(written: dict[str, Any], data: st.DataObject) -> None:
    """A text that lost its end says nothing for certain."""
    text = json.dumps(written)
    arguments, why = read(text[: data.draw(st.integers(0, len(text) - 1))])
    assert arguments is None
    assert why


@given(st.text() | JSON)
def test_nothing_is_an_error(given_value: Any) -> None:
    """Whatever is written: a mapping or None, and None has a reason, unless nothing was written."""
    arguments, why = read(given_value)
    assert arguments is None or isinstance(arguments, dict)
    assert bool(why) or arguments is not None or given_value is None
