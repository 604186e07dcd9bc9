"""Learning a reference from recorded runs: deterministic, whatever the order of the runs.

If outcomes are known, the reference is learnt from the successes; the failures serve the risk score and
the figures of the alarms. Each alarm is evaluated on every run by a reference of the other runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from monitor.reference.calls import digest_of_text, seems_to_write
from monitor.reference.medoid import Medoids
from monitor.reference.path_distribution import PathDistribution, quantiles
from monitor.reference.risk import Risk
from monitor.reference.runs import SeenRun, sample, writes_anew
from monitor.reference.settings import (
    AGREED_FROM,
    COMPARED_MAX,
    RISK_ALARM,
    SURPRISED_MAX,
    WRITES_MAX,
)
from monitor.reference.tree import PrefixTree
from monitor.scores.consistency import Consistency, consistency
from monitor.spec.learnt_reference import Alarm, LearntReference
from monitor.spec.risk_model import RiskModel

__all__ = ["ALARMS", "learn", "usual"]

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

`unexpected_write` is any of the three below it; `agreed_arguments` are those of `new_arguments` that may page.
"""

Pair = tuple[str, str]


def learn(
    runs: Sequence[SeenRun],
    writes: Iterable[str] | None = None,
    source: Mapping[str, Any] | None = None,
) -> LearntReference:
    """A reference of some runs.

    Args:
        runs: recorded runs; where one has an outcome, those without are taken for failures.
        writes: tools that change something; None: inferred from their names.
        source: what the runs come from, for the document.

    Raises:
        ValueError: there are no runs.
    """
    if not runs:
        raise ValueError("there are no runs to learn from")
    found = _Learning(runs, None if writes is None else frozenset(writes))
    return found.learnt(dict(source or {}))


def usual(
    runs: Sequence[SeenRun], writes: Iterable[str] | None, model: RiskModel | None
) -> LearntReference:
    """A reference of usual runs for a model that was learnt on other tasks; no alarm is measured.

    Raises:
        ValueError: there are no runs.
    """
    if not runs:
        raise ValueError("there are no runs to learn from")
    found = _Learning(runs, None if writes is None else frozenset(writes))
    return found.bare(model)


class _Counts(NamedTuple):
    """In how many seen runs something occurs."""

    writes: Counter[Pair]
    wrote: Counter[str]
    """Tools that wrote without failing."""
    full: int
    """Number of seen runs with calls."""


class _Agreement:
    """On which arguments of writing tools usual runs agree."""

    def __init__(self, seen: Iterable[SeenRun], writes: frozenset[str]) -> None:
        self.writes = writes
        self.runs: Counter[str] = Counter()
        """Runs that wrote by a tool, without failing."""
        self.values: dict[str, dict[str, Counter[str]]] = {}
        """Tool -> argument -> in how many runs it had a text."""
        self.given: dict[str, Counter[str]] = {}
        """Tool -> argument -> in how many runs each call gave it."""
        for run in seen:
            for tool, values in self._of(run).items():
                self.runs[tool] += 1
                texts = self.values.setdefault(tool, {})
                for name, (found, always) in values.items():
                    texts.setdefault(name, Counter()).update(found)
                    self.given.setdefault(tool, Counter())[name] += always

    def _of(self, run: SeenRun) -> dict[str, dict[str, tuple[set[str], bool]]]:
        """Tool -> argument -> (its texts in this run, whether each call gave it)."""
        calls: dict[str, list[dict[str, str]]] = {}
        for call in run.calls:
            if call.tool in self.writes and call.digest and not call.failed:
                calls.setdefault(call.tool, []).append(dict(call.call.pairs))
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

    def is_agreed(self, tool: str, name: str) -> bool:
        """Whether every call of the tool by a usual run gave the argument one and the same value."""
        one = len(self.values[tool][name]) == 1
        return one and self.given[tool][name] == self.runs[tool]

    def is_broken(self, run: SeenRun, *, own: bool) -> bool:
        """Whether a run has another value where enough others agree; its `own` values do not count."""
        return any(
            self.runs[tool] - own >= AGREED_FROM
            and any(
                self._breaks(tool, name, values.get(name, (set(), False)), own=own)
                for name in self.values.get(tool, ())
            )
            for tool, values in self._of(run).items()
        )

    def _breaks(self, tool: str, name: str, mine: tuple[set[str], bool], *, own: bool) -> bool:
        texts, always = mine
        left = Counter(self.values[tool][name])
        if own:
            left.subtract(texts)
        others = {text for text, runs in left.items() if runs > 0}
        agreed = len(others) == 1 and (
            self.given[tool][name] - (own and always) == self.runs[tool] - own
        )
        return agreed and (not always or texts != others)


class _Learning:
    def __init__(self, runs: Sequence[SeenRun], writes: frozenset[str] | None) -> None:
        self.labelled = any(run.success is not None for run in runs)
        self.runs = runs
        self.seen = [run for run in runs if self._is_seen(run)]
        self.failures = len(runs) - len(self.seen)
        self.tools = sorted({call.tool for run in runs for call in run.calls})
        self.given = writes is not None
        self.writes = writes if writes is not None else frozenset(
            tool for tool in self.tools if seems_to_write(tool)
        )  # fmt: skip
        self.medoids = Medoids(run.names for run in self.seen)
        self.tree = PrefixTree(self.seen)
        self.counts = self._count()
        self.called_by = self._called_by()
        self.agreement = _Agreement(self.seen, self.writes)

    def _is_seen(self, run: SeenRun) -> bool:
        return bool(run.success) if self.labelled else True

    def _count(self) -> _Counts:
        writes, wrote = Counter[Pair](), Counter[str]()
        for run in self.seen:
            writes.update(self._write_calls(run))
            wrote.update(self._wrote(run))
        return _Counts(writes, wrote, sum(1 for run in self.seen if run.calls))

    def _write_calls(self, run: SeenRun) -> set[Pair]:
        return {(each.tool, each.digest) for each in run.calls if each.tool in self.writes}

    def _wrote(self, run: SeenRun) -> set[str]:
        return {each.tool for each in run.calls if each.tool in self.writes and not each.failed}

    def _called_by(self) -> dict[str, tuple[int, int]]:
        by_outcome = (Counter[str](), Counter[str]())
        for run in self.runs:
            by_outcome[not self._is_seen(run)].update(set(run.names))
        return {tool: (by_outcome[0][tool], by_outcome[1][tool]) for tool in self.tools}

    # --- the reference --------------------------------------------------------------------------

    def learnt(self, source: dict[str, Any]) -> LearntReference:
        """All of it."""
        scores = self._consistency()._asdict()
        bare = self.bare(None, source)
        return replace(
            bare, alarms=self._alarms(), consistency=scores, surprise=self._surprise(bare)
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
            expected_writes=self._expected(self.counts.wrote, self.counts.full),
            nodes=self.tree.nodes(numbers),
            write_calls=self._seen_writes(),
            agreed_arguments=self._agreed(),
            alarms={},
            successes=len(self.seen),
            failures=self.failures,
            called_by=self.called_by,
            runs=len(self.seen),
            source=source,
            consistency=None,
            writes_from="given" if self.given else "inferred",
            model=model,
        )

    def _expected(self, wrote: Counter[str], full: int) -> tuple[str, ...]:
        return tuple(sorted(tool for tool, count in wrote.items() if full and count == full))

    def _seen_writes(self) -> dict[str, frozenset[str]]:
        ranked = sorted(self.counts.writes, key=lambda pair: (-self.counts.writes[pair], pair))
        found: dict[str, set[str]] = {}
        for tool, digest in ranked[:WRITES_MAX]:
            if digest:
                found.setdefault(tool, set()).add(digest)
        return {tool: frozenset(found[tool]) for tool in sorted(found)}

    def _agreed(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for tool, values in sorted(self.agreement.values.items()):
            agreed = {
                name: digest_of_text(next(iter(texts)))
                for name, texts in sorted(values.items())
                if self.agreement.is_agreed(tool, name)
            }
            if agreed and self.agreement.runs[tool] >= AGREED_FROM:
                found[tool] = agreed
        return found

    def _consistency(self) -> Consistency:
        compared = sample(self.seen, COMPARED_MAX)
        return consistency([call.call for call in run.calls] for run in compared)

    # --- each run judged by the others ----------------------------------------------------------

    def _alarms(self) -> dict[str, Alarm]:
        tests: dict[str, Callable[[SeenRun], bool | None]] = {
            "unexpected_write": self._writes_unexpected,
            "new_write_tool": self._writes_by_new_tool,
            "new_arguments": self._writes_new_arguments,
            "agreed_arguments": self._writes_against_agreement,
            "first_two": self._first_two_differ,
            "divergence": self._diverges,
            "missing_write": self._misses_write,
            "risk": self._is_risky,
        }
        return {name: self._alarm(tests[name]) for name in ALARMS}

    def _alarm(self, test: Callable[[SeenRun], bool | None]) -> Alarm:
        outcomes = [(test(run), self._is_seen(run)) for run in self.runs if run.calls]
        judged = [(raised, good) for raised, good in outcomes if raised is not None]
        raised = sum(1 for each, _ in judged if each)
        false = sum(1 for each, good in judged if each and good)
        good = sum(1 for _, each in judged if each)
        bad = len(judged) - good
        return Alarm(
            precision=(raised - false) / raised if raised and self.labelled else None,
            recall=(raised - false) / bad if bad and self.labelled else None,
            false_per_1000=1000 * false / len(judged) if judged else 0.0,
            raised=raised,
            runs=len(judged),
        )

    def _others(self, run: SeenRun) -> int:
        return len(self.seen) - self._is_seen(run)

    def _writes_unexpected(self, run: SeenRun) -> bool | None:
        own = self._is_seen(run)
        if not self._others(run):
            return None
        return any(
            digest and self.counts.writes[tool, digest] <= own
            for tool, digest in self._write_calls(run)
        ) or any(
            seems_to_write(tool) and self.called_by[tool][0] <= own for tool in set(run.names)
        )

    def _writes_by_new_tool(self, run: SeenRun) -> bool | None:
        if not self._others(run):
            return None
        own = self._is_seen(run)
        return writes_anew(run, lambda tool: self.called_by[tool][0] > own, self.writes)

    def _writes_new_arguments(self, run: SeenRun) -> bool | None:
        if not self._others(run):
            return None
        own = self._is_seen(run)
        return any(
            digest and self.counts.writes[tool, digest] <= own and self.called_by[tool][0] > own
            for tool, digest in self._write_calls(run)
        )

    def _writes_against_agreement(self, run: SeenRun) -> bool | None:
        if not self._others(run):
            return None
        return self.agreement.is_broken(run, own=self._is_seen(run))

    def _first_two_differ(self, run: SeenRun) -> bool | None:
        if not self._others(run):
            return None
        names = run.names
        known = self.medoids.without(names) if self._is_seen(run) else self.medoids.of_all()
        return known is not None and names[:2] != known[: min(2, len(names))]

    def _diverges(self, run: SeenRun) -> bool | None:
        if not self._others(run):
            return None
        return self.tree.leaves_others(run) if self._is_seen(run) else self.tree.leaves(run)

    def _misses_write(self, run: SeenRun) -> bool | None:
        if not self._others(run):
            return None
        wrote, full = self.counts.wrote, self.counts.full
        if self._is_seen(run):
            wrote, full = wrote - Counter(self._wrote(run)), full - 1
        return not self._wrote(run).issuperset(self._expected(wrote, full))

    def _is_risky(self, run: SeenRun) -> bool | None:
        good = self._is_seen(run)
        if len(self.runs) < 2:
            return None
        tools = sorted(set(run.names))
        less = {
            tool: (self.called_by[tool][0] - good, self.called_by[tool][1] - (not good))
            for tool in tools
        }
        risk = Risk(
            tools,
            less,
            len(self.seen) - good,
            self.failures - (not good),
            labelled=self.labelled,
        )
        # One that no other run called is unknown to them: its rates are those of no run.
        called = sum(2 << number for number in range(len(tools)))
        unexpected = bool(self._writes_unexpected(run))
        return risk.of(called, unexpected_write=unexpected) >= RISK_ALARM
