"""What is remembered of names that no tool has, which models can invent without end."""

from __future__ import annotations

import tracemalloc

import pytest

from monitor import Limits, Monitor
from monitor.alphabet.alphabet import build_alphabet
from monitor.alphabet.near_names import NAMES_BYTES_MAX, NearNames, ToolsAlike
from monitor.limits import SECOND
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from tests.monitor.test_engine import START, call, specs

PAY = ToolsAlike(("pay",), 7)

RULES = """
id: rules
kind: policy
alphabet: {check: {tool: check}, pay: {tool: pay}}
constraints: [{precedence: [check, pay]}]
"""


def wide(number: int) -> str:
    return f"{number}-".ljust(1_000, "\U0001f600")


def test_names_without_end_take_no_more_than_the_bound() -> None:
    """The bound is in bytes, so a thousand wide names of 4 KB leave no more than as many short ones do."""
    made = build_alphabet({"pay": ("pay", {})})
    tracemalloc.start()
    try:
        for number in range(1_000):
            made.match(wide(number), {}, failed=False)
            made.match(f"short {number}", {}, failed=False)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1.5 * NAMES_BYTES_MAX


def test_a_name_is_found_alike_before_and_after_the_memory_is_full() -> None:
    """A name that is forgotten is compared anew."""
    names = NearNames({"pay": PAY})
    asked = ("Pay", "functions.pay", "mcp__bank__pay", "payment", wide(0))
    first = [names.tools_of(each) for each in asked]
    for number in range(500):
        names.tools_of(wide(number))
    assert [names.tools_of(each) for each in asked] == first == [PAY, PAY, PAY, None, None]


@pytest.mark.parametrize("name", ["check", "shop.check", "Check", "other"])
def test_a_call_that_is_missing_may_be_of_the_tool_that_its_name_is_nearly_the_name_of(
    name: str,
) -> None:
    """`shop.check` may be missing before `pay`, which needs `check`: that `pay` is harmful is possible."""
    monitor = Monitor(specs(RULES), Limits(), started_ns=START - 7_200 * SECOND)
    monitor.gaps.note(Gap(Cause.UNPLACED, START - SECOND, START, name))
    monitor.observe(call(1, "pay", start_ns=START, end_ns=START + 1), START + SECOND)
    [found] = monitor.judgements()

    assert found["harmful"] == (name == "other")
