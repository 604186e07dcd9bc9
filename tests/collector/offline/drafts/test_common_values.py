"""`offrails init` proposes `each`: arguments that carry the same values in several tools."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from collector.offline.drafts.common_values import SeenArguments, proposed_each
from collector.offline.drafts.starter_spec import agents_of_runs, starter
from collector.offline.plain_runs import read_runs
from monitor.spec.compiler.compile import compile_text


def run(*calls: tuple[str, dict[str, Any] | None]) -> list[SeenArguments]:
    return [SeenArguments(*each) for each in calls]


def shop(order: Any) -> list[SeenArguments]:
    return run(
        ("look_up", {"order_id": order, "user": "ann"}),
        ("refund", {"order": order, "amount": 5}),
        ("close", {"ids": [order], "user": "ann"}),
    )


@pytest.mark.parametrize("orders", [("A1", "B7"), (1001, 1002, 1002.0)])
def test_arguments_that_share_values_are_proposed(orders: tuple[Any, ...]) -> None:
    """An order that three tools carry under three names is one kind of thing; a user that never differs is none."""
    [found] = proposed_each([shop(order) for order in orders])
    assert yaml.safe_load(found) == {
        "each": {"order": {"look_up": "order_id", "refund": "order", "close": "ids[*]"}}
    }


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [shop("A1")],
        [shop(1), shop(2)],
        [shop(True), shop(None)],
        [run(("a", None), ("b", {"x": "A1"})), run(("a", {}), ("b", {"x": "B7"}))],
        [run(("a", {"x": "A1", "y": "A1"})), run(("a", {"x": "B7", "y": "B7"}))],
        [run(("a", {"x": f"A{n}"}), ("b", {"x": f"A{n // 9}"})) for n in range(30)],
    ],
)
def test_chance_proposes_nothing(runs: list[list[SeenArguments]]) -> None:
    """One value, small numbers, one tool, unknown arguments and rare coincidences are no kind of thing."""
    assert proposed_each(runs) == []


def test_the_proposal_stands_in_the_starter_spec() -> None:
    """The starter spec with the proposal taken is a policy that `check` finds no fault with."""
    lines = [
        f'{{"run": "{order}", "calls": [{{"name": "look up", "arguments": {{"order_id": "{order}"}}}},'
        f' {{"name": "refund", "arguments": {{"order": "{order}"}}}}]}}'
        for order in ("A1", "B7")
    ]
    [agent] = agents_of_runs(read_runs("\n".join(lines).encode(), "x"))
    text = starter(agent)
    spec, found = compile_text(text, "x.yaml")
    assert spec is not None, found
    [line] = [line for line in text.splitlines() if line.startswith("# each:")]
    taken, found = compile_text(text.replace(line, line.removeprefix("# ")), "x.yaml")
    assert taken is not None, found
    assert taken.each is not None
    assert dict(taken.each.tools) == {
        tool: taken.each.tools[tool] for tool in ("look up", "refund")
    }
