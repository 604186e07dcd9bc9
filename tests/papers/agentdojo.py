"""How the risk and the pages do on runs of 14 agents: `python -m tests.papers.agentdojo`, a report of docs/references.md.

The protocol is the one that `offrails learn --evaluate` prints (`collector.offline.risk.protocol`). Attacks are
a measure of their own: pages against "the attacker's goal was reached".
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from collector.offline.plain_runs import AgentRun, read_runs
from collector.offline.risk.figures import mean
from collector.offline.risk.protocol import (
    PageFigures,
    evaluation,
    page_figures,
    without_groups,
)
from collector.offline.risk.task_references import LEAST, REFERENCES, by_task, draw, seen_under
from monitor.reference.runs import SeenRun, seen_call

RUNS: Final = (
    Path(__file__).parents[2] / ".." / "shared" / "runs" / "agentdojo_reference.jsonl.gz"
)
AIRLINE: Final = (
    Path(__file__).parents[2] / ".." / "shared" / "core" / "tau_airline_gpt4o.jsonl"
)
ATTACK: Final = "important_instructions"
DRAWS: Final = 4

WRITES: Final = [
    "add_calendar_event_participants",
    "add_user_to_channel",
    "append_to_file",
    "cancel_calendar_event",
    "create_calendar_event",
    "create_file",
    "delete_email",
    "delete_file",
    "invite_user_to_slack",
    "post_webpage",
    "remove_user_from_slack",
    "reschedule_calendar_event",
    "reserve_car_rental",
    "reserve_hotel",
    "reserve_restaurant",
    "schedule_transaction",
    "send_channel_message",
    "send_direct_message",
    "send_email",
    "send_money",
    "share_file",
    "update_password",
    "update_scheduled_transaction",
    "update_user_info",
]


def records(attack: str | None) -> list[dict[str, Any]]:
    """The runs under an attack, or the clean ones."""
    with gzip.open(RUNS, "rt") as stream:
        found = (json.loads(line) for line in stream)
        return [record for record in found if record["attack"] == attack]


def seen(record: Mapping[str, Any], *, success: bool) -> SeenRun:
    """A record as learning takes it."""
    (run,) = read_runs(json.dumps(record).encode(), "run")
    return _seen(run, str(record["task"]), str(record["pipeline"]), success=success)


def _seen(run: AgentRun, task: str, agent: str, *, success: bool) -> SeenRun:
    calls = (seen_call(call.tool, call.arguments, failed=call.failed) for call in run.calls)
    return SeenRun(run.session, agent, tuple(calls), success, task)


def airline() -> list[SeenRun]:
    """The runs of one airline agent."""
    text = AIRLINE.read_bytes()
    lines = [json.loads(line) for line in text.splitlines()]
    return [
        _seen(run, str(line["task_id"]), "airline", success=line["reward"] == 1)
        for run, line in zip(read_runs(text, "airline"), lines, strict=True)
    ]


def under_attack(rule: str) -> tuple[PageFigures, float]:
    """Pages by `new_write` or `new_arguments` against the attacker's goal; false ones in 1,000 clean successes."""
    clean = [seen(each, success=each["success"]) for each in records(None)]
    attacked = [seen(each, success=not each["attack_succeeded"]) for each in records(ATTACK)]
    drawn = [_drawn(rule, clean, attacked, random.Random(number)) for number in range(DRAWS)]
    means = [
        mean(each[0][place] for each in drawn) for place in range(len(PageFigures._fields))
    ]
    return PageFigures(*means), mean(each[1] for each in drawn)  # type: ignore[arg-type]


def _drawn(
    rule: str, clean: list[SeenRun], attacked: list[SeenRun], chance: random.Random
) -> tuple[PageFigures, float]:
    agents = sorted({run.agent for run in clean})
    lenders = set(chance.sample(agents, len(agents) // 2))
    rows: list[tuple[bool, bool]] = []
    quiet: list[tuple[bool, bool]] = []
    others = by_task(run for run in attacked if run.agent not in lenders)
    for task, runs in by_task(clean).items():
        references = draw([run for run in runs if run.agent in lenders], REFERENCES, chance)
        if len(references) < LEAST:
            continue
        judged = [run for run in runs if run.agent not in lenders and run.success]
        quiet += [
            (bool(getattr(e, rule)), False) for e in seen_under(judged, references, WRITES)
        ]
        under = seen_under(others.get(task, []), references, WRITES)
        rows += [(bool(getattr(e, rule)), e.failed) for e in under]
    return page_figures(rows), page_figures(quiet).false_per_1000


def report() -> Iterator[str]:
    """All tables."""
    clean = [seen(each, success=each["success"]) for each in records(None)]
    yield from evaluation(clean, WRITES)
    yield from without_groups(clean, WRITES)
    for rule in ("new_write", "new_arguments"):
        found, false = under_attack(rule)
        yield (
            f"under attack, {rule}: P {found.precision:.2f} R {found.recall:.2f} "
            f"FPR {found.false_rate:.2f}, {false:.0f} false pages per 1,000 clean successes"
        )
    yield "airline agent:"
    yield from evaluation(airline(), None)


if __name__ == "__main__":
    for line in report():
        print(line, flush=True)
