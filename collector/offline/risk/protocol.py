"""The honest protocol: how a risk and the pages do on runs of other agents and other tasks.

Some agents lend the references and the runs that teach; the others are judged. No weight sees the
task that it judges. All is drawn several times, and figures are means over the draws. With a single agent,
runs are split instead of agents.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Final, NamedTuple

from collector.offline.risk.agent_records import AgentRecords
from collector.offline.risk.figures import (
    ScorePair,
    area,
    area_within,
    calibration_error,
    interval,
    mean,
    precision_area,
    recall_at,
)
from collector.offline.risk.scored_runs import POINTS, ScoredRun, scored
from collector.offline.risk.task_references import (
    LEAST,
    REFERENCES,
    Example,
    by_task,
    draw,
    seen_under,
    taught_examples,
)
from collector.offline.risk.train_model import TooFewRuns, Weights, folds, train
from monitor.reference.learn import tells_origins
from monitor.reference.risk import record_risk, risk_with_record
from monitor.reference.runs import SeenRun
from monitor.reference.runs_needed import runs_needed, runs_needed_lines
from monitor.spec.risk_features import FEATURES

__all__ = [
    "DRAWS",
    "PageFigures",
    "TaskSplit",
    "evaluation",
    "page_figures",
    "scores_of",
    "split_of",
    "splits",
    "without_groups",
]

DRAWS: Final = 8
DRAWS_OF_GROUPS: Final = 3
"""Draws where feature groups are left out one after the other."""
TAUGHT_DRAWS: Final = 4
"""References that each run which teaches is seen under."""
FALSE_RATE: Final = 0.05


class TaskSplit(NamedTuple):
    """One draw: what teaches, and what is judged."""

    taught: list[Example]
    judged: list[Example]


class PageFigures(NamedTuple):
    """What an alarm is worth, on runs of other agents than those it was learnt from."""

    precision: float
    recall: float
    false_rate: float
    false_per_1000: float
    """False alarms in 1,000 successes."""
    raised: int
    runs: int


def splits(
    runs: Iterable[SeenRun], writes: Sequence[str] | None, draws: int = DRAWS
) -> list[TaskSplit]:
    """The draws; tasks with too few successes to refer to are left out."""
    tasks = by_task(runs)
    chances = [random.Random(number) for number in range(draws)]  # noqa: S311 - statistics, not secrets
    return [split_of(tasks, writes, chance) for chance in chances]


def split_of(
    tasks: dict[str, list[SeenRun]], writes: Sequence[str] | None, chance: random.Random
) -> TaskSplit:
    """One draw; tasks with too few successes to refer to are left out."""
    agents = sorted({run.agent for runs in tasks.values() for run in runs})
    lenders = set(chance.sample(agents, len(agents) // 2))
    lent: dict[str, list[SeenRun]] = {}
    judged: list[Example] = []
    for task, runs in tasks.items():
        # With one agent, half of its runs stand for it.
        lending = (
            [run for run in runs if run.agent in lenders]
            if lenders
            else chance.sample(runs, (len(runs) + 1) // 2)
        )
        references = draw(lending, REFERENCES, chance)
        if len(references) < (LEAST if lenders else 1):
            continue
        lent[task] = lending
        judged += seen_under([run for run in runs if run not in lending], references, writes)
    return TaskSplit(taught_examples(lent, writes, TAUGHT_DRAWS, chance), judged)


def scores_of(split: TaskSplit, weights: Weights) -> list[ScoredRun]:
    """The judged runs, each by a model of other agents and other tasks.

    Raises:
        TooFewRuns: the lent runs teach nothing.
    """
    found: list[ScoredRun] = []
    for part in folds(each.run.task for each in split.judged):
        judged = [each for each in split.judged if each.run.task in part]
        if judged:
            others = [each for each in split.taught if each.run.task not in part]
            model = train("", others, weights).model
            found += [scored(model, each) for each in judged]
    return found


# --- the report -------------------------------------------------------------------------------


def evaluation(
    runs: Sequence[SeenRun],
    writes: Sequence[str] | None,
    draws: int = DRAWS,
    records: AgentRecords | None = None,
) -> Iterator[str]:
    """The report of the protocol, line by line: the risk, what agents' records add to it, then the pages."""
    drawn = splits(runs, writes, draws)
    judged = sum(len(each.judged) for each in drawn)
    if not judged:
        yield f"no task has {LEAST} successes to refer to: nothing can be measured"
        return
    agents = {run.agent for run in runs}
    apart = "agents" if len(agents) > 1 else "runs of one agent"
    yield f"{draws} draws, references and judged runs of different {apart}, {judged} judged runs"
    try:
        scores = [scores_of(each, Weights()) for each in drawn]
    except TooFewRuns as problem:
        yield f"no risk: {problem}"
    else:
        yield from _risk_lines(scores)
        if records is not None:
            yield from _record_lines(scores, records)
    yield from _page_lines([each for split in drawn for each in split.judged])
    yield from runs_needed_lines(runs_needed(by_task(runs).values(), writes))


def _risk_lines(scores: Sequence[Sequence[ScoredRun]]) -> Iterator[str]:
    head = (
        "risk",
        "runs",
        "AUC (95 %)",
        "in tasks",
        "in agents",
        "AUPRC",
        "base",
        "recall 5 %",
        "error",
    )
    yield _row(head)
    for point in POINTS:
        yield _row([point, *_figures_at(point, scores)])
    yield from _ceiling_lines(scores)
    yield from _lead_lines([run for draw_ in scores for run in draw_])


def _record_lines(
    scores: Sequence[Sequence[ScoredRun]], records: AgentRecords
) -> Iterator[str]:
    """The areas of agents' success at other tasks, of the risk, and of both: pooled / within tasks."""
    elsewhere = {run.task: records.elsewhere(run.task) for draw_ in scores for run in draw_}
    known = [[run for run in draw_ if run.agent in elsewhere[run.task]] for draw_ in scores]
    ways: dict[str, Callable[[ScoredRun, float], float]] = {
        "record alone": lambda run, _: record_risk(elsewhere[run.task], run.agent),
        "risk alone": lambda _, risk: risk,
        "risk with record": lambda run, risk: risk_with_record(
            risk, elsewhere[run.task], run.agent
        ),
    }
    yield _row(("with records", *POINTS))
    for name, way in ways.items():
        draws = [
            [
                run._replace(risks={at: way(run, risk) for at, risk in run.risks.items()})
                for run in draw_
            ]
            for draw_ in known
        ]
        yield _row([name, *(_areas(point, draws) for point in POINTS)])


def _ceiling_lines(scores: Sequence[Sequence[ScoredRun]]) -> Iterator[str]:
    """What the whole run tells, and how much of it each earlier point tells."""
    pooled = {point: mean(map(area, _pairs_at(point, scores))) for point in POINTS}
    within = mean(map(area_within, _pairs_at("end", scores)))
    yield (
        f"ceiling: with the whole run the risk reaches {pooled['end']:.2f}, within tasks {within:.2f}; "
        "what it misses then cannot be seen in calls"
    )
    told = pooled["end"] - 0.5
    if told > 0:
        shares = (f"{point} {(pooled[point] - 0.5) / told:.0%}" for point in POINTS[:-1])
        yield f"of what it tells above chance then, it tells by {', '.join(shares)}"


def _pairs_at(point: str, scores: Sequence[Sequence[ScoredRun]]) -> list[list[ScorePair]]:
    return [
        [_pair(run, point, run.task) for run in draw_ if point in run.risks] for draw_ in scores
    ]


def _figures_at(point: str, scores: Sequence[Sequence[ScoredRun]]) -> list[str]:
    seen = [[run for run in draw_ if point in run.risks] for draw_ in scores]
    pairs = [[_pair(run, point, run.task) for run in runs] for runs in seen]
    agents = [[_pair(run, point, run.agent) for run in runs] for runs in seen]
    low, high = _bootstrap(pairs)
    return [
        f"{sum(map(len, pairs)) / len(pairs):.0f}",
        f"{mean(map(area, pairs)):.2f} ({low:.2f}-{high:.2f})",
        _figure(area_within, pairs),
        _figure(area_within, agents),
        _figure(precision_area, pairs),
        f"{mean(sum(pair.failed for pair in each) / max(1, len(each)) for each in pairs):.2f}",
        _figure(lambda each: recall_at(each, FALSE_RATE), pairs),
        _figure(calibration_error, pairs),
    ]


def _figure(
    of: Callable[[Sequence[ScorePair]], float], draws: Sequence[Sequence[ScorePair]]
) -> str:
    return _told(mean(of(each) for each in draws))


def _pair(run: ScoredRun, point: str, group: str) -> ScorePair:
    return ScorePair(run.risks[point], run.failed, group)


def _bootstrap(draws: Sequence[Sequence[ScorePair]]) -> tuple[float, float]:
    by_task_: list[dict[str, list[ScorePair]]] = []
    for pairs in draws:
        groups: dict[str, list[ScorePair]] = {}
        for pair in pairs:
            groups.setdefault(pair.group, []).append(pair)
        by_task_.append(groups)

    def figure(tasks: Sequence[str]) -> float:
        return mean(
            area([pair for task in tasks for pair in groups.get(task, ())])
            for groups in by_task_
        )

    return interval(sorted({task for groups in by_task_ for task in groups}), figure)


def _lead_lines(runs: Sequence[ScoredRun]) -> Iterator[str]:
    """How long before the first write of no usual run the risk raised its alarm."""
    bad = [run for run in runs if run.failed]
    good = len(runs) - len(bad)
    false = sum(bool(run.alarmed) for run in runs if not run.failed)
    hits = sum(bool(run.alarmed) for run in bad)
    yield (
        f"risk alarm: precision {_share(hits, hits + false)}, recall {_share(hits, len(bad))}, "
        f"false alarms per 1,000 successes {_per_1000(false, good)}"
    )
    firsts = [
        (run, min(filter(None, (run.new_write, run.new_arguments)), default=0)) for run in bad
    ]
    leads = [first - run.alarmed for run, first in firsts if first and run.alarmed]
    written = sum(bool(first) for _, first in firsts)
    if leads:
        ahead = sum(lead > 0 for lead in leads)
        yield (
            f"lead over the first write of no usual run: median {median(leads):+.0f} calls; "
            f"{ahead} of {written} such failed runs were told before it"
        )


def _page_lines(judged: Sequence[Example]) -> Iterator[str]:
    yield _row(("page", "precision", "recall", "FPR", "per 1,000", "raised", "runs"))
    rules: dict[str, Callable[[Example], int]] = {
        "new_write_tool": lambda each: each.new_write,
        "new_arguments": lambda each: each.new_arguments,
    }
    if tells_origins(each.run for each in judged):
        rules["carried write tool"] = lambda each: each.carried_write
    for name, raised in rules.items():
        found = page_figures([(bool(raised(each)), each.failed) for each in judged])
        yield _row([name, *_page_row(found)])
    yield "(against failure of the task; an attack is another measure)"


def page_figures(rows: Sequence[tuple[bool, bool]]) -> PageFigures:
    """The figures of (raised, bad) pairs."""
    raised = sum(each for each, _ in rows)
    bad = sum(each for _, each in rows)
    hits = sum(each and wrong for each, wrong in rows)
    good = len(rows) - bad
    false = raised - hits
    return PageFigures(
        hits / raised if raised else math.nan,
        hits / bad if bad else math.nan,
        false / good if good else math.nan,
        1000 * false / good if good else math.nan,
        raised,
        len(rows),
    )


def _page_row(found: PageFigures) -> list[str]:
    shares = [_told(each) for each in found[:3]]
    per_1000 = "-" if math.isnan(found.false_per_1000) else f"{found.false_per_1000:.0f}"
    return [*shares, per_1000, str(found.raised), str(found.runs)]


def without_groups(runs: Sequence[SeenRun], writes: Sequence[str] | None) -> Iterator[str]:
    """The areas with all features, and without each group of them: pooled / within tasks."""
    drawn = splits(runs, writes, DRAWS_OF_GROUPS)
    if not any(each.judged for each in drawn):
        return
    yield _row(("features", *POINTS))
    for group in ("", *dict.fromkeys(each.group for each in FEATURES.values())):
        weights = Weights(frozenset({group} - {""}), calibrated=False)
        try:
            scores = [scores_of(each, weights) for each in drawn]
        except TooFewRuns:
            return
        cells = [_areas(point, scores) for point in POINTS]
        yield _row([f"without {group}" if group else "all", *cells])


def _areas(point: str, scores: Sequence[Sequence[ScoredRun]]) -> str:
    pairs = _pairs_at(point, scores)
    return f"{_told(mean(map(area, pairs)))} / {_told(mean(map(area_within, pairs)))}"


def _told(figure: float) -> str:
    return "-" if math.isnan(figure) else f"{figure:.2f}"


def _row(cells: Iterable[str]) -> str:
    first, *others = cells
    return f"{first:<19}" + "".join(f"{cell:>17}" for cell in others)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def _per_1000(part: int, whole: int) -> str:
    return f"{1000 * part / whole:.0f}" if whole else "-"
