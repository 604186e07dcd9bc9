"""Shortened readings and caches give the same result as a full reading."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.calls.tree.session_claim import Claim, SpanClaim
from collector.dialects.base import Dialect
from collector.dialects.names import span_name
from collector.dialects.names.session_and_agent_keys import AGENT_SPANS
from collector.dialects.names.span_name import SpanName
from collector.dialects.registry import DIALECTS
from collector.dialects.values.arguments import BareValue, CarriedArguments, callback_form
from collector.dialects.wrappers import WRAPPERS
from monitor.records import SessionKey

PATTERNS = sorted(
    {each.span_name for each in DIALECTS if each.span_name}
    | {each.span_name for each in AGENT_SPANS}
    | {each.span_name for each in WRAPPERS}
)
NAMES = st.from_regex(
    re.compile(r"(execute_tool |tools/call |invoke_agent )?[a-z.\n]{0,6}(\.tool|\.run)?"),
    fullmatch=True,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "input_str"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["a", "tool_call_id", "input_str"]), inner, max_size=2
        )
    ),
    max_leaves=5,
)
INPUTS = st.dictionaries(
    st.sampled_from(
        ["input_str", "inputs", "kwargs", "args", "tool_name", "arguments", "tags"]
    ),
    VALUES,
)


def plain(found: Any) -> Any:
    """The result of `callback_form`, as comparable values."""
    if isinstance(found, CarriedArguments):
        return "carried", plain(found.arguments), found.call_id
    return ("bare", found.value) if isinstance(found, BareValue) else found


@given(given_input=INPUTS)
def test_an_callback_form_says_the_same_as_text_and_as_a_mapping(
    given_input: dict[str, Any],
) -> None:
    """A text with LangChain's callback form in it is read in part, a mapping as a whole."""
    assert plain(callback_form(json.dumps(given_input))) == plain(callback_form(given_input))


@given(broken=st.sampled_from(['{"input_str": "a"', '["input_str"]', '"\\"input_str\\""']))
def test_a_text_that_is_no_callback_is_read_in_full(broken: str) -> None:
    """A text that the short reading cannot handle gives what the full reading gives."""
    assert not isinstance(callback_form(broken), CarriedArguments | dict)


@given(pattern=st.sampled_from(PATTERNS), names=st.lists(NAMES, max_size=8))
def test_a_remembered_name_is_the_one_that_was_found(pattern: str, names: list[str]) -> None:
    """A cached name gives what the pattern's group gives."""
    known = SpanName(pattern)
    for name in [*names, *names]:
        match = re.fullmatch(pattern, name, re.DOTALL)
        named = [group for group in match.groups() if group is not None] if match else []
        expected = None if match is None else named[0] if named else ""

        assert known.find(name) == expected


def test_names_beyond_the_bound_are_found_all_the_same() -> None:
    """More names than are remembered, and longer ones than are."""
    known = SpanName("execute_tool (?P<tool>.+)")
    tools = [f"tool {number}" for number in range(span_name.NAMES_MAX * 2)]
    tools.append("long" * span_name.LENGTH_MAX)

    assert [known.find(f"execute_tool {tool}") for tool in tools] == tools
    assert [known.find(tool) for tool in tools] == [None] * len(tools)


def test_a_pattern_has_at_most_one_group_in_a_match() -> None:
    """A match has at most one group, so its last group is the name."""
    named: list[Dialect] = [each for each in DIALECTS if each.span_name]
    assert named
    for dialect in named:
        assert set(re.compile(dialect.span_name).groupindex) == {"tool"}
        assert re.compile(dialect.span_name).groups == 1


TOLD = st.builds(
    SpanClaim,
    st.builds(
        Claim,
        st.integers(0, 2),
        st.builds(SessionKey, st.sampled_from(["", "t"]), st.sampled_from(["a", "b"])),
        st.sampled_from(["session.id", "thread_id"]),
    ),
    st.sampled_from([b"1", b"2"]),
    st.integers(0, 2),
)


@given(one=TOLD, other=TOLD)
def test_the_best_rung_of_the_earliest_span_counts(one: SpanClaim, other: SpanClaim) -> None:
    """The id is chosen by rung, then by start, then by a tie-break that ignores arrival."""
    order = [
        (each.claim.rung, each.start_ns, each.span_id, *each.whose) for each in (one, other)
    ]
    assert one.counts_before(other) is (order[0] < order[1])
