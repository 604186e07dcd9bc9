"""Two published rule books as specs, judged on published runs: what the table of examples/tau/README.md says."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from monitor import judge_calls, load_specs
from monitor.findings import has_errors
from tests.samples import sampled

ROOT: Final = Path(__file__).parents[2]
TAU: Final = ROOT / "examples" / "tau"
RUNS: Final = ROOT.parent / "shared" / "tau"

Broken = dict[tuple[str, str], list[int]]
"""Spec and symbol -> failed and right runs that break a rule by it."""


def reader() -> ModuleType:
    """The example's own reader of runs."""
    found = importlib.util.spec_from_file_location("plain_runs", TAU / "plain_runs.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@cache
def judged(domain: str) -> tuple[Counter[tuple[bool, bool]], Broken]:
    """Runs by (right, breaks a rule), and what is broken."""
    file = RUNS / f"{domain}_runs.jsonl.gz"
    if not file.exists():
        pytest.skip(f"the runs are not here: {file}")
    loaded, plain = load_specs([TAU / domain]), reader()
    runs: Counter[tuple[bool, bool]] = Counter()
    broken: Broken = {}
    for run in plain.runs_of(file):
        calls, right = list(plain.entries(run)), run["reward"] == 1
        harmful = {
            (spec.id, each.symbol or "")
            for spec in loaded.specs
            for each in judge_calls(spec, calls).harmful
        }
        runs[right, bool(harmful)] += 1
        for each in harmful:
            broken.setdefault(each, [0, 0])[right] += 1
    return runs, broken


def table(pattern: str) -> list[tuple[str, ...]]:
    """The rows of the page that match."""
    return re.findall(pattern, (TAU / "README.md").read_text(), re.MULTILINE)


def test_the_specs_are_fine() -> None:
    """The eighteen files have no fault and no doubt, and each is named on the page."""
    loaded = load_specs([TAU / "airline", TAU / "retail"])
    assert len(loaded.specs) == 18
    assert not has_errors(loaded.findings)
    assert loaded.findings == ()
    page = (TAU / "README.md").read_text()
    for spec in loaded.specs:
        assert str(Path(spec.file).relative_to(TAU)) in page


@pytest.mark.parametrize("domain", sampled(["airline", "retail"], ["retail"]))
def test_the_table_of_runs_is_reproduced(domain: str) -> None:
    """As many failed and right runs break a rule as the page says."""
    runs, _ = judged(domain)
    [row] = table(rf"^\| {domain} \| (\d+) of (\d+) \| (\d+) of (\d+) \|$")
    failed, right = runs[False, True], runs[True, True]
    every = (failed, failed + runs[False, False], right, right + runs[True, False])
    assert tuple(map(int, row)) == every


def test_the_table_of_rules_is_reproduced() -> None:
    """Each rule is broken by as many failed and right runs as the page says, and no other is."""
    found = judged("airline")[1] | judged("retail")[1]
    rows = table(r"^\| `(\w+)` `(\w+)` \| (\d+) \| (\d+) \|$")
    assert {(spec, symbol): [int(a), int(b)] for spec, symbol, a, b in rows} == found


def test_runs_that_break_a_rule_mostly_failed() -> None:
    """Nine in ten of them; a third of the failed runs is found."""
    broken = judged("airline")[0] + judged("retail")[0]
    assert broken[False, True] >= 9 * broken[True, True]
    assert 3 * broken[False, True] >= broken[False, True] + broken[False, False]


FREE: Final = {
    "regular": {"basic_economy": 0, "economy": 1, "business": 2},
    "silver": {"basic_economy": 1, "economy": 2, "business": 3},
    "gold": {"basic_economy": 2, "economy": 3, "business": 3},
}
"""Free bags of a passenger, by membership and cabin, as the rule book has them."""


@pytest.mark.long
def test_bags_are_judged_as_the_book_counts_them() -> None:
    """No right booking breaks a rule; those do that charge for free bags, or give one passenger too many."""
    files = sorted((TAU / "airline").glob("free_bags*.yaml"))
    specs = load_specs(files).specs
    for member, cabin, people, bags in product(
        FREE, FREE["gold"], (1, 2, 4), (0, 1, 2, 3, 4, 7)
    ):
        free = people * FREE[member][cabin]
        for paid in {0, 1, max(0, bags - free)} & set(range(bags + 1)):
            booked = {
                "cabin": cabin,
                "passengers": [{"first_name": "Ann"}] * people,
                "total_baggages": bags,
                "nonfree_baggages": paid,
            }
            calls: list[dict[str, Any]] = [
                {"name": "get_user_details", "arguments": {}, "result": {"membership": member}},
                {"name": "book_reservation", "arguments": {}, "result": booked},
            ]
            found = any(judge_calls(spec, calls).harmful for spec in specs)
            is_wrong = paid != max(0, bags - free)
            is_seen = bags <= min(people, 3) * FREE[member][cabin] if paid else people == 1
            assert found is (is_wrong and is_seen), (member, booked)


def cancelled(insurance: str, said: str) -> bool:
    """Whether a cancellation of an old economy booking breaks a rule, after a message."""
    answer = {
        "reservation_id": "R",
        "cabin": "economy",
        "insurance": insurance,
        "created_at": "2024-05-02T09:08:54",
    }
    calls: list[dict[str, Any]] = [
        {"user": said},
        {"name": "cancel_reservation", "arguments": {"reservation_id": "R"}, "result": answer},
    ]
    [spec] = load_specs([TAU / "airline" / "cancellations.yaml"]).specs
    return bool(judge_calls(spec, calls).harmful)


def test_an_insured_flight_is_cancelled_for_health_or_weather() -> None:
    """What the user says decides, and who has no insurance needs an airline that cancelled."""
    assert cancelled("yes", "I changed my plans.")
    assert not cancelled("yes", "My daughter is in hospital.")
    assert not cancelled("yes", "The flight was cancelled.")
    assert cancelled("no", "My daughter is in hospital.")
    assert not cancelled("no", "The flight was cancelled.")
