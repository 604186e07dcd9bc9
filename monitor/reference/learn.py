"""Learning a reference from recorded runs: deterministic, whatever the order of the runs.

If outcomes are known, the reference is learnt from the successes; the failures serve the risk score and
the figures of the alarms. Each alarm is evaluated on every run by a reference of the other runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from monitor.reference.calls import digest_of_text, seems_to_write
from monitor.reference.medoid import Medoids
from monitor.reference.path_distribution import PathDistribution, quantiles
from monitor.reference.risk import Risk
from monitor.reference.runs import SeenCall, SeenRun, halves, sample, writes_anew
from monitor.reference.settings import (
    AGREED_FROM,
    COMPARED_MAX,
    RISK_FALSE_PER_1000,
    SURPRISED_MAX,
    USUAL_CALLS_MAX,
    WRITES_MAX,
)
from monitor.reference.tree import PrefixTree
from monitor.scores.conformal import conformal
from monitor.scores.consistency import consistency
from monitor.scores.roc_area import roc_area
from monitor.spec.document.reference import USUAL_RUNS_MAX
from monitor.spec.learnt_reference import Alarm, AlarmCounts, LearntReference, RiskCeiling
from monitor.spec.risk_model import RiskModel

__all__ = [
    "ALARMS",
    "LearntRuns",
    "SplitFigures",
    "learn",
    "split_figures",
    "tells_origins",
    "usual",
]

ALARMS = (
    "unexpected_write",
    "new_write_tool",
    "new_arguments",
    "agreed_arguments",
    "first_two",
    "divergence",
    "missing_write",
    "risk",
)
"""Alarms of a reference; `divergence` is any departure in the tools' names.

`unexpected_write` is any of the three below it; `agreed_arguments` are those of `new_arguments` that may page. Where the
values of a call come from is not looked at: of the calls that usual runs make, that leaves none to measure.
"""

Pair = tuple[str, str]


class SplitFigures(NamedTuple):
    """What was found by references of half of the runs."""

    alarms: Mapping[str, Alarm]
    ceiling: RiskCeiling | None
    """Ceiling of the risk of the tools called, over all runs."""
    ceilings: Mapping[str, RiskCeiling]
    """The same by task."""
    risk_alarm: float
    """Risk of the tools called that a bounded share of usual runs reaches; 1: they are too few to tell."""


def learn(
    runs: Sequence[SeenRun],
    writes: Iterable[str] | None = None,
    source: Mapping[str, Any] | None = None,
    split: SplitFigures | None = None,
    *,
    provenance: bool | None = None,
) -> LearntReference:
    """A reference of some runs.

    Args:
        runs: recorded runs; where one has an outcome, those without are taken for failures.
        writes: tools that change something; None: inferred from their names.
        source: what the runs come from, for the document.
        split: what `split_figures` found over many tasks; None: it is found for these runs.
        provenance: whether writes are asked where their values come from; None: if the runs tell it.

    Raises:
        ValueError: there are no runs.
    """
    if not runs:
        raise ValueError("there are no runs to learn from")
    found = LearntRuns(runs, None if writes is None else frozenset(writes))
    split = split_figures([runs], writes) if split is None else split
    learnt = found.learnt(dict(source or {}), split.risk_alarm)
    if provenance is None:
        provenance = tells_origins(runs)
    return replace(
        learnt,
        split_alarms=split.alarms,
        ceiling=split.ceiling,
        provenance=provenance,
        risk_alarm=split.risk_alarm,
    )


def tells_origins(runs: Iterable[SeenRun]) -> bool:
    """Whether runs tell where the values of writes come from: of one write at least."""
    return any(call.is_own for run in runs for call in run.calls)


def split_figures(
    tasks: Iterable[Sequence[SeenRun]], writes: Iterable[str] | None
) -> SplitFigures:
    """How the alarms do on runs of other agents, or at least other runs, than those they are learnt from.

    Half of the runs of each task lend the reference, and the others are judged; several draws. Figures are over all
    tasks and draws.

    Args:
        tasks: the runs of each task.
        writes: tools that change something; None: inferred from their names.

    Returns:
        The figures by alarm, and the ceiling; none if no task has two usual runs.
    """
    given = None if writes is None else frozenset(writes)
    counts: dict[str, AlarmCounts] = {}
    areas: dict[str, list[float]] = {}
    seen: dict[str, dict[int, bool]] = {}
    risks: list[_Worst] = []
    for runs in tasks:
        labelled = any(run.success is not None for run in runs)
        for lent, judged in halves(runs, partial(_is_usual, labelled=labelled)):
            lenders = LearntRuns(lent, given, judges_others=True)
            made = [run for run in judged if run.calls]
            for run in made:
                _count(counts, lenders, run)
                risks.append(lenders.worst(run))
            task = runs[0].task
            seen.setdefault(task, {}).update({id(run): lenders.is_usual(run) for run in made})
            areas.setdefault(task, []).append(lenders.area(made))
    bar = _risk_bar(risks)
    for each in risks:
        worth = counts.setdefault("risk", AlarmCounts())
        worth.add_from(each.run, raised=each.risk >= bar, good=each.good)
    alarms = {name: each.alarm(labelled=each.bad > 0) for name, each in counts.items()}
    known = {task: _ceiling(areas[task], list(seen[task].values())) for task in seen}
    ceilings = {task: ceiling for task, ceiling in known.items() if ceiling is not None}
    every = _ceiling(
        [area for found in areas.values() for area in found],
        [usual for found in seen.values() for usual in found.values()],
    )
    return SplitFigures(alarms, every, ceilings, bar)


class _Worst(NamedTuple):
    """The highest risk of a judged run."""

    run: str
    risk: float
    good: bool


def _risk_bar(risks: Iterable[_Worst]) -> float:
    """The risk that at most so many usual runs reach, under any reference that judged them (`RISK_FALSE_PER_1000`)."""
    worst: dict[str, float] = {}
    for each in risks:
        if each.good:
            worst[each.run] = max(each.risk, worst.get(each.run, 0.0))
    bar = conformal(list(worst.values()), RISK_FALSE_PER_1000)
    return 1.0 if bar is None else min(bar, 1.0)


def _ceiling(areas: Sequence[float], usual: Sequence[bool]) -> RiskCeiling | None:
    known = [area for area in areas if not math.isnan(area)]
    area = sum(known) / len(known) if known else None
    return RiskCeiling(area, len(usual), len(usual) - sum(usual)) if usual else None


def _count(found: dict[str, AlarmCounts], lenders: LearntRuns, run: SeenRun) -> None:
    good = lenders.is_usual(run)
    for name, raised in lenders.raised(run).items():
        if raised is not None:
            counts = found.setdefault(name, AlarmCounts())
            counts.add_from(_key(run), raised=raised, good=good)


def _key(run: SeenRun) -> str:
    return f"{run.task}\0{run.id}"


def _is_usual(run: SeenRun, *, labelled: bool) -> bool:
    return bool(run.success) if labelled else True


def usual(
    runs: Sequence[SeenRun], writes: Iterable[str] | None, model: RiskModel | None
) -> LearntReference:
    """A reference of usual runs for a model that was learnt on other tasks; no alarm is measured.

    Raises:
        ValueError: there are no runs.
    """
    if not runs:
        raise ValueError("there are no runs to learn from")
    found = LearntRuns(runs, None if writes is None else frozenset(writes))
    return found.bare(model)


class _Agreement:
    """On which arguments of writing tools usual runs agree."""

    def __init__(self, seen: Iterable[SeenRun], writes: frozenset[str]) -> None:
        self.writes = writes
        self.runs: Counter[str] = Counter()
        """Runs that wrote by a tool, without failing."""
        self.values: dict[str, dict[str, Counter[str]]] = {}
        """Tool -> argument -> in how many runs it had a value, by its digest."""
        self.prose: set[str] = set()
        """Digests of values of several words."""
        self.given: dict[str, Counter[str]] = {}
        """Tool -> argument -> in how many runs each call gave it."""
        for run in seen:
            self.prose |= {
                digest_of_text(text)
                for call in run.calls
                if call.tool in writes
                for _, text in call.call.pairs
                if " " in text.strip()
            }
            for tool, values in self._of(run).items():
                self.runs[tool] += 1
                texts = self.values.setdefault(tool, {})
                for name, (found, always) in values.items():
                    texts.setdefault(name, Counter()).update(found)
                    self.given.setdefault(tool, Counter())[name] += always

    def _of(self, run: SeenRun) -> dict[str, dict[str, tuple[set[str], bool]]]:
        """Tool -> argument -> (its digests in this run, whether each call gave it)."""
        calls: dict[str, list[dict[str, str]]] = {}
        for call in run.calls:
            if call.tool in self.writes and call.digest and not call.failed:
                calls.setdefault(call.tool, []).append(_digests(call))
        return {
            tool: {
                name: (
                    {each[name] for each in made if name in each},
                    all(name in m for m in made),
                )
                for name in {name for each in made for name in each}
            }
            for tool, made in calls.items()
        }

    def agreed(self) -> dict[str, dict[str, str]]:
        """Tool -> argument -> digest of the value that enough usual runs gave it, if each gave the same."""
        found = {
            tool: dict(sorted(self._agreed(tool, {}, runs)))
            for tool, runs in sorted(self.runs.items())
            if runs >= AGREED_FROM
        }
        return {tool: values for tool, values in found.items() if values}

    def is_broken(self, run: SeenRun, *, own: bool) -> bool:
        """Whether a call is otherwise in all on which enough others agree; the `own` values of the run do not count."""
        found = self._of(run)
        agreed = {
            tool: self._agreed(tool, found[tool] if own else {}, self.runs[tool] - own)
            for tool in found
            if self.runs[tool] - own >= AGREED_FROM
        }
        return any(
            bool(agreed.get(call.tool)) and agreed[call.tool].isdisjoint(_digests(call).items())
            for call in run.calls
            if call.digest and not call.failed
        )

    def _agreed(
        self, tool: str, own: Mapping[str, tuple[set[str], bool]], runs: int
    ) -> set[Pair]:
        """Arguments of a tool with the one value that all of so many runs gave them, but for a run's own."""
        found: set[Pair] = set()
        for name, values in self.values.get(tool, {}).items():
            texts, always = own.get(name, (set(), False))
            left = [text for text, count in values.items() if count > (text in texts)]
            if len(left) == 1 and self.given[tool][name] - always == runs:
                found.add((name, left[0]))
        # Texts of several words agree by chance: they count where nothing else is agreed on.
        return {pair for pair in found if pair[1] not in self.prose} or found


def _digests(call: SeenCall) -> dict[str, str]:
    """Digests of a call's arguments by their names."""
    return {name: digest_of_text(text) for name, text in call.call.pairs}


class LearntRuns:
    """What is learnt from some runs.

    Args:
        runs: the runs.
        writes: tools that change something; None: inferred from their names.
        judges_others: whether the runs that it judges are not among its own.
    """

    def __init__(
        self,
        runs: Sequence[SeenRun],
        writes: frozenset[str] | None,
        *,
        judges_others: bool = False,
    ) -> None:
        self.labelled = any(run.success is not None for run in runs)
        self.judges_others = judges_others
        self.runs = runs
        self.seen = [run for run in runs if self.is_usual(run)]
        self.failures = len(runs) - len(self.seen)
        self.tools = sorted({call.tool for run in runs for call in run.calls})
        self.given = writes is not None
        self.writes = writes if writes is not None else frozenset(
            tool for tool in self.tools if seems_to_write(tool)
        )  # fmt: skip
        self.medoids = Medoids(run.names for run in self.seen)
        self.tree = PrefixTree(self.seen)
        self._written = Counter(pair for run in self.seen for pair in self._write_calls(run))
        """Number of seen runs in which a tool wrote so."""
        self._wrote_by = Counter(tool for run in self.seen for tool in self._wrote(run))
        """Number of seen runs in which a tool wrote without failing."""
        self._full = sum(1 for run in self.seen if run.calls)
        """Number of seen runs with calls."""
        self.called_by = self._called_by()
        self.agreement = _Agreement(self.seen, self.writes)

    def is_usual(self, run: SeenRun) -> bool:
        """Whether it is a run that a reference is made of."""
        return _is_usual(run, labelled=self.labelled)

    def _write_calls(self, run: SeenRun) -> set[Pair]:
        return {(each.tool, each.digest) for each in run.calls if each.tool in self.writes}

    def _wrote(self, run: SeenRun) -> set[str]:
        return {each.tool for each in run.calls if each.tool in self.writes and not each.failed}

    def _called_by(self) -> dict[str, tuple[int, int]]:
        by_outcome = (Counter[str](), Counter[str]())
        for run in self.runs:
            by_outcome[not self.is_usual(run)].update(set(run.names))
        return {tool: (by_outcome[0][tool], by_outcome[1][tool]) for tool in self.tools}

    # --- the reference --------------------------------------------------------------------------

    def learnt(self, source: dict[str, Any], risk_alarm: float) -> LearntReference:
        """All of it; the risk raises its alarm from `risk_alarm`."""
        compared = sample(self.seen, COMPARED_MAX)
        scores = consistency([call.call for call in run.calls] for run in compared)
        bare = self.bare(None, source)
        return replace(
            bare,
            alarms=self._alarms(risk_alarm),
            consistency=scores._asdict(),
            surprise=self._surprise(bare),
        )

    def _surprise(self, bare: LearntReference) -> tuple[float, ...] | None:
        if not self.seen:
            return None
        paths = PathDistribution(bare.nodes, len(bare.tools))
        numbers = {tool: number for number, tool in enumerate(bare.tools)}
        return quantiles(
            paths.surprise_without([numbers[name] for name in run.names])
            for run in sample(self.seen, SURPRISED_MAX)
        )

    def bare(
        self, model: RiskModel | None, source: dict[str, Any] | None = None
    ) -> LearntReference:
        """It without what is measured on its own runs."""
        # Calls of failed runs count for the risk, but the watch has not seen them.
        numbers = {tool: number for number, tool in enumerate(self.tools)}
        agents = sorted({run.agent for run in self.runs if run.agent})
        source = (source or {}) | {
            "runs": len(self.seen),
            "failures": self.failures,
            "labelled": self.labelled,
            "agents": agents,
        }
        return LearntReference(
            tools=tuple(self.tools),
            writes=self.writes,
            medoid=self.medoids.of_all(),
            expected_writes=self._expected(self._wrote_by, self._full),
            nodes=self.tree.nodes(numbers),
            write_calls=self._seen_writes(),
            agreed_arguments=self.agreement.agreed(),
            alarms={},
            successes=len(self.seen),
            failures=self.failures,
            called_by=self.called_by,
            runs=len(self.seen),
            source=source,
            consistency=None,
            writes_from="given" if self.given else "inferred",
            usual_calls=self._usual_calls(numbers),
            model=model,
            provenance=tells_origins(self.runs),
        )

    def _usual_calls(
        self, numbers: Mapping[str, int]
    ) -> tuple[tuple[int, tuple[tuple[int, str], ...]], ...]:
        """Calls of the usual runs, those that most runs made first; of long runs the first calls."""
        ways = Counter(
            tuple((numbers[call.tool], call.digest) for call in run.calls[:USUAL_CALLS_MAX])
            for run in self.seen
        )
        ranked = sorted(ways, key=lambda way: (-ways[way], way))
        return tuple((ways[way], way) for way in ranked[:USUAL_RUNS_MAX])

    def _expected(self, wrote: Counter[str], full: int) -> tuple[str, ...]:
        return tuple(sorted(tool for tool, count in wrote.items() if full and count == full))

    def _seen_writes(self) -> dict[str, frozenset[str]]:
        ranked = sorted(self._written, key=lambda pair: (-self._written[pair], pair))
        found: dict[str, set[str]] = {}
        for tool, digest in ranked[:WRITES_MAX]:
            if digest:
                found.setdefault(tool, set()).add(digest)
        return {tool: frozenset(found[tool]) for tool in sorted(found)}

    # --- each run judged by the others ----------------------------------------------------------

    def _alarms(self, risk_alarm: float) -> dict[str, Alarm]:
        counts = {name: AlarmCounts() for name in ALARMS}
        for run in self.runs if len(self.runs) > 1 else ():
            raised = self.raised(run) if run.calls else {}
            for name, holds in raised.items():
                if holds is not None:
                    counts[name].add(raised=holds, good=self.is_usual(run))
            if run.calls:
                risky = self.risk_of(run) >= risk_alarm
                counts["risk"].add(raised=risky, good=self.is_usual(run))
        return {name: each.alarm(labelled=self.labelled) for name, each in counts.items()}

    def raised(self, run: SeenRun) -> dict[str, bool | None]:
        """Which alarms but the risk's a run raises under the runs but itself; None: they cannot judge it."""
        if not self._others(run):
            return {}
        return {
            "unexpected_write": self._writes_unexpected(run),
            "new_write_tool": writes_anew(
                run, lambda tool: self._is_called(tool, run), self.writes
            ),
            "new_arguments": self._writes_new_arguments(run),
            "agreed_arguments": self.agreement.is_broken(run, own=self._is_own(run)),
            "first_two": self._first_two_differ(run),
            "divergence": (
                self.tree.leaves_others(run) if self._is_own(run) else self.tree.leaves(run)
            ),
            "missing_write": self._misses_write(run),
        }

    def _is_own(self, run: SeenRun) -> bool:
        """Whether the run is one of those that it is compared with, and so does not count."""
        return self.is_usual(run) and not self.judges_others

    def _others(self, run: SeenRun) -> int:
        return len(self.seen) - self._is_own(run)

    def _is_called(self, tool: str, run: SeenRun) -> bool:
        """Whether another usual run called a tool."""
        return self.called_by.get(tool, (0, 0))[0] > self._is_own(run)

    def _is_new(self, pair: Pair, run: SeenRun) -> bool:
        """Whether no other usual run wrote so."""
        return bool(pair[1]) and self._written[pair] <= self._is_own(run)

    def _writes_unexpected(self, run: SeenRun) -> bool:
        return any(self._is_new(pair, run) for pair in self._write_calls(run)) or any(
            seems_to_write(tool) and not self._is_called(tool, run) for tool in set(run.names)
        )

    def _writes_new_arguments(self, run: SeenRun) -> bool:
        return any(
            self._is_new(pair, run) and self._is_called(pair[0], run)
            for pair in self._write_calls(run)
        )

    def _first_two_differ(self, run: SeenRun) -> bool | None:
        names = run.names
        known = self.medoids.without(names) if self._is_own(run) else self.medoids.of_all()
        return known is not None and names[:2] != known[: min(2, len(names))]

    def _misses_write(self, run: SeenRun) -> bool:
        wrote, full = self._wrote_by, self._full
        if self._is_own(run):
            wrote, full = wrote - Counter(self._wrote(run)), full - 1
        return not self._wrote(run).issuperset(self._expected(wrote, full))

    def area(self, runs: Iterable[SeenRun]) -> float:
        """Under the ROC curve of the risk of some ended runs."""
        return roc_area((self.risk_of(run), not self.is_usual(run)) for run in runs)

    def risk_of(self, run: SeenRun) -> float:
        """The risk of a run that has ended, by the tools called, under the runs but itself."""
        tools = sorted(set(run.names))
        # One that no other run called is unknown to them: its rates are those of no run.
        called = sum(2 << number for number in range(len(tools)))
        unexpected = bool(self._others(run)) and self._writes_unexpected(run)
        return self._risk(run, tools).of(called, unexpected_write=unexpected)

    def worst(self, run: SeenRun) -> _Worst:
        """The highest risk of a run after one of its calls, under the runs but itself."""
        tools = sorted(set(run.names))
        risk, numbers = self._risk(run, tools), {tool: n for n, tool in enumerate(tools)}
        called, unexpected, worst = 0, False, 0.0
        for call in run.calls:
            before = called, unexpected
            called |= 2 << numbers[call.tool]
            unexpected = unexpected or (
                bool(self._others(run)) and self._writes_unexpected(run._replace(calls=(call,)))
            )
            if (called, unexpected) != before:
                worst = max(worst, risk.of(called, unexpected_write=unexpected))
        return _Worst(_key(run), worst, self.is_usual(run))

    def _risk(self, run: SeenRun, tools: Sequence[str]) -> Risk:
        """The risk of some tools, under the runs but this one."""
        good = self._is_own(run)
        bad = not self.is_usual(run) and not self.judges_others
        less = {
            tool: (counts[0] - good, counts[1] - bad)
            for tool, counts in ((tool, self.called_by.get(tool, (0, 0))) for tool in tools)
        }
        return Risk(
            tools, less, len(self.seen) - good, self.failures - bad, labelled=self.labelled
        )
