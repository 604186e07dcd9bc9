"""How the risk and the pages do on runs of 14 agents: `python -m tests.papers.agentdojo`, a report of docs/references.md.

The protocol is the one that `offrails learn --evaluate` prints (`collector.offline.risk.protocol`). Attacks are
a measure of their own: pages against "the attacker's goal was reached".
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from collector.offline.plain_runs import AgentRun, judge_run, read_runs
from collector.offline.risk.figures import mean
from collector.offline.risk.protocol import (
    PageFigures,
    evaluation,
    page_figures,
    without_groups,
)
from collector.offline.risk.task_references import LEAST, REFERENCES, by_task, draw, seen_under
from collector.offline.value_origins import own_values, value_watch
from monitor.limits import Limits
from monitor.reference.document import reference_text
from monitor.reference.learn import SplitFigures, learn, split_figures, tells_origins
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

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


def read(record: Mapping[str, Any]) -> AgentRun:
    """A record as `replay` reads it."""
    (run,) = read_runs(json.dumps(record).encode(), "run")
    return run


def seen(record: Mapping[str, Any], *, success: bool) -> SeenRun:
    """A record as learning takes it."""
    return _seen(read(record), str(record["task"]), str(record["pipeline"]), success=success)


WATCH: Final = value_watch(WRITES)


def _seen(run: AgentRun, task: str, agent: str, *, success: bool) -> SeenRun:
    calls = (
        seen_call(call.tool, call.arguments, failed=call.failed, is_own=is_own)
        for call, is_own in zip(run.calls, own_values(run, WATCH), strict=True)
    )
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
    """Pages by one field of `Example` against the attacker's goal; false ones in 1,000 clean successes."""
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


# --- pages, as the verbs raise them -------------------------------------------------------------


NEW_WRITES: Final = {"new_write_tool", "new_arguments"}


class JudgedRun(NamedTuple):
    """A run of an agent that lends nothing."""

    run: AgentRun
    task: str
    agent: str
    bad: bool
    """Whether the attacker reached his goal; of a clean run, whether it failed."""


def pages(run: AgentRun, spec: Spec) -> set[str]:
    """The alarms of a run that page under a reference, as `replay` shows it."""
    (judged,) = judge_run(
        replace(run, spec=spec.id), [spec], replace(Limits(), history_complete=True)
    )
    return {each["alarm"] for each in judged["alarms"] if each["level"] == "page"}


def references(
    runs: Iterable[SeenRun], writes: Sequence[str] | None, figures: SplitFigures | None = None
) -> dict[str, Spec]:
    """The references of tasks as `learn --risk` makes them, by task: with what the split over all tasks measured."""
    tasks = by_task(runs)
    told = tells_origins(run for found in tasks.values() for run in found)
    split = split_figures(tasks.values(), writes) if figures is None else figures
    made: dict[str, Spec] = {}
    for task, found in tasks.items():
        spec, findings = compile_text(
            reference_text(learn(found, writes, {}, split, provenance=told), task), "r.yaml"
        )
        assert spec is not None, findings
        made[task] = spec
    return made


def paged(draws: int = DRAWS) -> tuple[PageFigures, float]:
    """Pages under references of half of the agents, on attacked runs of the others; false ones in 1,000 clean successes."""
    clean = [(seen(each, success=each["success"]), _judged(each)) for each in records(None)]
    attacked = [_judged(each) for each in records(ATTACK)]
    found = [_paged(clean, attacked, random.Random(number)) for number in range(draws)]
    means = [mean(each[0][n] for each in found) for n in range(len(PageFigures._fields))]
    return PageFigures(*means), mean(each[1] for each in found)  # type: ignore[arg-type]


def _judged(record: Mapping[str, Any]) -> JudgedRun:
    bad = record["attack_succeeded"] if record["attack"] else not record["success"]
    return JudgedRun(read(record), str(record["task"]), str(record["pipeline"]), bool(bad))


def _paged(
    clean: list[tuple[SeenRun, JudgedRun]], attacked: list[JudgedRun], chance: random.Random
) -> tuple[PageFigures, float]:
    agents = sorted({run.agent for run, _ in clean})
    lenders = set(chance.sample(agents, len(agents) // 2))
    made = references((run for run, _ in clean if run.agent in lenders), WRITES)
    made = {task: spec for task, spec in made.items() if _runs(spec) >= LEAST}

    def rows(runs: Iterable[JudgedRun]) -> list[tuple[bool, bool]]:
        found = (each for each in runs if each.agent not in lenders and each.task in made)
        return [
            (bool(pages(each.run, made[each.task]) & NEW_WRITES), each.bad) for each in found
        ]

    quiet = rows(each for _, each in clean if not each.bad)
    return page_figures(rows(attacked)), page_figures(quiet).false_per_1000


def _runs(spec: Spec) -> int:
    assert spec.learnt is not None
    return spec.learnt.runs


def airline_pages() -> PageFigures:
    """Pages of all kinds on airline runs: each under the other runs of its task, by what other tasks measured.

    Under a reference of one usual run nothing pages: such runs are left out.
    """
    tasks = by_task(airline())
    lines = AIRLINE.read_bytes()
    whole = {run.session: run for run in read_runs(lines, "airline")}
    rows: list[tuple[bool, bool]] = []
    for task, runs in tasks.items():
        figures = split_figures((each for name, each in tasks.items() if name != task), None)
        for run in runs:
            others = [each for each in runs if each is not run]
            if run.calls and sum(bool(each.success) for each in others) > 1:
                spec = references(others, None, figures)[task]
                rows.append((bool(pages(whole[run.id], spec)), not run.success))
    return page_figures(rows)


def report() -> Iterator[str]:
    """All tables."""
    clean = [seen(each, success=each["success"]) for each in records(None)]
    yield from evaluation(clean, WRITES)
    yield from without_groups(clean, WRITES)
    for rule in ("new_write", "carried_write", "new_arguments"):
        found, false = under_attack(rule)
        yield _page_line(f"under attack, {rule}", found, false)
    found, false = paged()
    yield _page_line("pages as the verbs raise them, under attack", found, false)
    found = airline_pages()
    yield _page_line("pages on airline runs, against failure", found, found.false_per_1000)
    yield "airline agent:"
    yield from evaluation(airline(), None)


def _page_line(what: str, found: PageFigures, false: float) -> str:
    return (
        f"{what}: P {found.precision:.2f} R {found.recall:.2f} FPR {found.false_rate:.2f}, "
        f"{false:.0f} false pages per 1,000 clean successes"
    )


if __name__ == "__main__":
    for line in report():
        print(line, flush=True)
