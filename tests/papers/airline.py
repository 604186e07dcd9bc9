"""How references do on real runs: `python -m tests.papers.airline`, the report of docs/references.md.

Each run is judged strictly online, by the monitor, under a reference made of the other runs of
its task. The ways to score the risk are compared by leaving a whole task out, and by leaving one
run of a task out; intervals are bootstrapped over tasks, since runs of one task are alike.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from collector.offline.plain_runs import AgentRun, judge_run, read_runs
from monitor.limits import Limits
from monitor.reference.calls import digest, seems_to_write
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text

RUNS: Final = Path(__file__).parents[2] / ".." / "shared" / "core" / "tau_airline_gpt4o.jsonl"
RESAMPLES: Final = 1_000
DRAWS: Final = 8
"""Draws of runs that lend a reference, where others are judged."""
SEED: Final = 2_026
POINTS: Final = ("step 2", "step 4", "half", "end")
LIMITS: Final = replace(Limits(), history_complete=True, fold=False)


class Tried(NamedTuple):
    """A recorded run, its task, and how it ended."""

    task: str
    run: AgentRun
    failed: bool

    @property
    def names(self) -> list[str]:
        return [call.tool for call in self.run.calls]


class Judged(NamedTuple):
    """A run and what the watch said of it."""

    tried: Tried
    references: int
    object: Mapping[str, Any]


def tried(file: Path = RUNS) -> list[Tried]:
    """The recorded runs."""
    text = file.read_bytes()
    records = [json.loads(line) for line in text.splitlines()]
    runs = read_runs(text, "airline")
    return [
        Tried(str(record["task_id"]), run, record["reward"] != 1)
        for record, run in zip(records, runs, strict=True)
    ]


def judged(runs: Sequence[Tried]) -> list[Judged]:
    """Each run with calls, under a reference learnt from the other runs of its task with outcomes."""
    found = []
    for one in runs:
        others = [each for each in runs if each.task == one.task and each is not one]
        if one.run.calls:
            found.append(_under(others, one))
    return found


def _under(others: Sequence[Tried], one: Tried) -> Judged:
    """A run under a reference of others."""
    text = reference_text(learn([seen(each) for each in others]), "r")
    spec, findings = compile_text(text, "r.yaml")
    assert spec is not None, findings
    (told,) = judge_run(replace(one.run, spec="r"), [spec], LIMITS)
    return Judged(one, sum(not each.failed for each in others), told)


def judged_apart(runs: Sequence[Tried], draws: int = DRAWS) -> list[Judged]:
    """The split twin of `judged`: runs under a reference of half of their task's runs, in several draws."""
    found = []
    for number in range(draws):
        chance = random.Random(number)
        for task in sorted({one.task for one in runs}):
            of_task = [one for one in runs if one.task == task]
            lent = chance.sample(of_task, len(of_task) // 2)
            found += [_under(lent, one) for one in of_task if one not in lent and one.run.calls]
    return found


def seen(one: Tried) -> SeenRun:
    """A run as learning takes it."""
    calls = (seen_call(each.tool, each.arguments, failed=each.failed) for each in one.run.calls)
    return SeenRun(one.run.session, "", tuple(calls), not one.failed)


# --- figures ----------------------------------------------------------------------------------


class Alarm(NamedTuple):
    """Precision, recall and false-positive rate."""

    precision: float
    recall: float
    false_rate: float


def alarm(found: Sequence[Judged], name: str) -> Alarm:
    """The figures of one alarm, over runs with another success of their task."""
    rows = [(bool(each.object[name]), each.tried.failed) for each in found if each.references]
    hits = sum(raised and failed for raised, failed in rows)
    raised = sum(each for each, _ in rows)
    failed = sum(each for _, each in rows)
    return Alarm(
        hits / raised if raised else math.nan,
        hits / failed if failed else math.nan,
        (raised - hits) / (len(rows) - failed) if len(rows) > failed else math.nan,
    )


def at_points(length: int) -> tuple[int, ...]:
    """Calls made at the four points."""
    return min(2, length), min(4, length), (length + 1) // 2, length


def aucs(scores: Sequence[tuple[Tried, Sequence[float]]]) -> list[float]:
    """AUC at each point; a score for each point and run."""
    return [
        auc([(values[point], one.failed) for one, values in scores])
        for point in range(len(POINTS))
    ]


def auc(pairs: Sequence[tuple[float, bool]]) -> float:
    """The chance that a failed run scores above a successful one, ties half."""
    bad = [score for score, failed in pairs if failed]
    good = [score for score, failed in pairs if not failed]
    wins = sum((a > b) + (a == b) / 2 for a in bad for b in good)
    return wins / (len(bad) * len(good)) if bad and good else math.nan


def watched_risks(found: Sequence[Judged]) -> list[tuple[Tried, list[float]]]:
    """The shipped risk at the four points."""
    scores = []
    for each in found:
        risks = [step["risk"] for step in each.object["steps"]]
        scores.append((each.tried, [risks[count - 1] for count in at_points(len(risks))]))
    return scores


Figures = Callable[[Sequence[Any]], Sequence[float]]


def intervals(
    rows: Sequence[Any], task: Callable[[Any], str], figures: Figures
) -> list[tuple[float, float, float]]:
    """Each figure with its 95 % interval, by resampling tasks."""
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(task(row), []).append(row)
    chance, names = random.Random(SEED), sorted(groups)
    drawn = [
        figures([row for name in chance.choices(names, k=len(names)) for row in groups[name]])
        for _ in range(RESAMPLES)
    ]
    found = []
    for place, value in enumerate(figures(rows)):
        known = sorted(each[place] for each in drawn if not math.isnan(each[place]))
        low, high = known[int(0.025 * len(known))], known[int(0.975 * len(known)) - 1]
        found.append((value, low, high))
    return found


# --- other ways to score the risk -------------------------------------------------------------

Scorer = Callable[[Sequence[str]], float]
Trainer = Callable[[Sequence[Tried]], Scorer]


def calls_made(_: Sequence[Tried]) -> Scorer:
    """Baseline: how many calls."""
    return len


def share_of_failures(train: Sequence[Tried]) -> Scorer:
    """Baseline: nothing but how often the learning runs failed."""
    rate = (sum(each.failed for each in train) + 1) / (len(train) + 2)
    return lambda _: rate


def bigrams(alpha: float) -> Trainer:
    """Log-likelihood ratio of two bigram models, with additive smoothing."""

    def train(runs: Sequence[Tried]) -> Scorer:
        vocabulary = len({name for each in runs for name in each.names}) + 1
        pairs: dict[bool, Counter[tuple[str, str]]] = {True: Counter(), False: Counter()}
        firsts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for each in runs:
            for one, other in _bigrams(each.names):
                pairs[each.failed][one, other] += 1
                firsts[each.failed][one] += 1

        def log(failed: bool, one: str, other: str) -> float:
            above = pairs[failed][one, other] + alpha
            return math.log(above / (firsts[failed][one] + alpha * vocabulary))

        return lambda names: sum(
            log(True, *pair) - log(False, *pair) for pair in _bigrams(names)
        )

    return train


def _bigrams(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(["^", *names], names, strict=False)


def presence(alpha: float) -> Trainer:
    """Naive Bayes over the set of tools called so far: what is shipped, without prior and write."""

    def train(runs: Sequence[Tried]) -> Scorer:
        called: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for each in runs:
            called[each.failed].update(set(each.names))
        failed = sum(each.failed for each in runs)
        sizes = {True: failed, False: len(runs) - failed}

        def log(outcome: bool, name: str) -> float:
            return math.log((called[outcome][name] + alpha) / (sizes[outcome] + 2 * alpha))

        return lambda names: sum(log(True, name) - log(False, name) for name in set(names))

    return train


def prefix_tree(alpha: float) -> Trainer:
    """The share of failures among the runs that share the longest known prefix."""

    def train(runs: Sequence[Tried]) -> Scorer:
        seen: dict[tuple[str, ...], list[int]] = {}
        for each in runs:
            for length in range(len(each.names) + 1):
                counts = seen.setdefault(tuple(each.names[:length]), [0, 0])
                counts[each.failed] += 1

        def score(names: Sequence[str]) -> float:
            prefix = tuple(names)
            while prefix not in seen:
                prefix = prefix[:-1]
            good, bad = seen[prefix]
            return (bad + alpha) / (good + bad + 2 * alpha)

        return score

    return train


def alergia(confidence: float) -> Trainer:
    """Log-likelihood ratio of two automata learnt by ALERGIA (Carrasco and Oncina 1994)."""

    def train(runs: Sequence[Tried]) -> Scorer:
        # One set of tools for both: a model of no runs would else spread its odds over fewer.
        tools = {name for each in runs for name in each.names}
        models = {
            outcome: _Alergia(
                [each.names for each in runs if each.failed is outcome], confidence, tools
            )
            for outcome in (True, False)
        }
        return lambda names: models[True].log(names) - models[False].log(names)

    return train


class _Alergia:
    """A probabilistic automaton: a prefix tree whose alike states are merged, breadth first."""

    def __init__(
        self, words: Sequence[Sequence[str]], confidence: float, tools: Set[str]
    ) -> None:
        self._bound = math.sqrt(0.5 * math.log(2 / confidence))
        self._next: list[dict[str, int]] = [{}]
        self._count: list[Counter[str]] = [Counter()]
        self._kinds = len(tools) + 2
        """Known tools, the end, and one unknown tool."""
        for word in words:
            self._add(word)
        self._merge()

    def _add(self, word: Sequence[str]) -> None:
        node = 0
        for name in word:
            self._count[node][name] += 1
            if name not in self._next[node]:
                self._next[node][name] = len(self._next)
                self._next.append({})
                self._count.append(Counter())
            node = self._next[node][name]
        self._count[node][""] += 1

    def _merge(self) -> None:
        red, blue = [0], [self._next[0][name] for name in sorted(self._next[0])]
        while blue:
            node = blue.pop(0)
            alike = next((each for each in red if self._alike(each, node)), None)
            if alike is None:
                red.append(node)
                blue += [self._next[node][name] for name in sorted(self._next[node])]
                continue
            for state in red:
                for name, child in self._next[state].items():
                    if child == node:
                        self._next[state][name] = alike
            self._fold(alike, node, red, blue)

    def _fold(self, into: int, node: int, red: list[int], blue: list[int]) -> None:
        self._count[into].update(self._count[node])
        for name, child in sorted(self._next[node].items()):
            if name in self._next[into]:
                self._fold(self._next[into][name], child, red, blue)
            else:
                self._next[into][name] = child
                if into in red and child not in red and child not in blue:
                    blue.append(child)

    def _alike(self, one: int, other: int) -> bool:
        totals = sum(self._count[one].values()), sum(self._count[other].values())
        bound = self._bound * sum(1 / math.sqrt(total) for total in totals)
        for name in {*self._count[one], *self._count[other]}:
            shares = (
                self._count[node][name] / total
                for node, total in zip((one, other), totals, strict=True)
            )
            if abs(next(shares) - next(shares)) > bound:
                return False
        return all(
            self._alike(self._next[one][name], self._next[other][name])
            for name in self._next[one].keys() & self._next[other].keys()
            if self._next[one][name] != self._next[other][name]
        )

    def log(self, names: Sequence[str]) -> float:
        """Log-probability of a prefix, with one imagined call of each kind."""
        node: int | None = 0
        total = 0.0
        kinds = self._kinds
        for name in names:
            counts = self._count[node] if node is not None else Counter[str]()
            total += math.log((counts[name] + 1) / (sum(counts.values()) + kinds))
            node = self._next[node].get(name) if node is not None else None
        return total


WAYS: Final[Mapping[str, Trainer]] = {
    "calls made": calls_made,
    "share of failures": share_of_failures,
    "prefix tree": prefix_tree(1),
    "bigram ratio": bigrams(1),
    "ALERGIA ratio": alergia(0.05),
    "tools called": presence(4),
}


def compared(
    runs: Sequence[Tried], train: Trainer, *, within: bool
) -> list[tuple[Tried, list[float]]]:
    """Scores of a way at the four points; learnt from the run's task, or from all others."""
    scores = []
    for one in runs:
        if not one.run.calls:
            continue
        learning = [
            each for each in runs if (each.task == one.task) is within and each is not one
        ]
        scorer = train(learning)
        points = at_points(len(one.names))
        scores.append((one, [scorer(one.names[:count]) for count in points]))
    return scores


# --- what choosing the settings on these runs is worth ----------------------------------------

Setting = tuple[float, int, float, float]
"""Imagined runs of the prior, its most runs, imagined runs of a tool, weight of a write."""

GRID: Final[tuple[Setting, ...]] = tuple(
    product((1.0, 2.0, 4.0), (2, 4, 1_000), (1.0, 2.0, 4.0), (0.0, 1.0, 2.0))
)


def tuned(runs: Sequence[Tried]) -> tuple[list[float], list[float], list[float]]:
    """AUCs of the grid: the best setting, the worst at each point, and nested.

    Nested: each task is scored with the setting that is best on the other tasks.
    """
    having = [one for one in runs if one.run.calls]
    scores = {
        setting: [(one, _scores(runs, one, setting)) for one in having] for setting in GRID
    }
    figures = {setting: aucs(rows) for setting, rows in scores.items()}
    nested = []
    for task in {one.task for one in having}:
        rest = {s: [row for row in rows if row[0].task != task] for s, rows in scores.items()}
        best = max(GRID, key=lambda setting: sum(aucs(rest[setting])))
        nested += [row for row in scores[best] if row[0].task == task]
    worst = [min(each[point] for each in figures.values()) for point in range(len(POINTS))]
    return max(figures.values(), key=sum), worst, aucs(nested)


def _scores(runs: Sequence[Tried], one: Tried, setting: Setting) -> list[float]:
    imagined, most, of_tool, wrote = setting
    others = [each for each in runs if each.task == one.task and each is not one]
    failed = sum(each.failed for each in others)
    scale = min(most, len(others)) / len(others)
    bad, good = failed * scale + imagined, (len(others) - failed) * scale + imagined
    tools = presence(of_tool)(others)
    seen = {call for each in others if not each.failed for call in _writes(each)}
    writes = _writes(one)
    return [
        math.log(bad / good)
        + tools(one.names[:count])
        + wrote * any(each is not None and each not in seen for each in writes[:count])
        for count in at_points(len(one.names))
    ]


def _writes(one: Tried) -> list[tuple[str, str] | None]:
    """For each call its tool and arguments, None where the tool does not write."""
    return [
        (each.tool, digest(each.arguments or {})) if seems_to_write(each.tool) else None
        for each in one.run.calls
    ]


# --- the report -------------------------------------------------------------------------------


def report() -> Iterator[str]:
    """The tables of docs/references.md."""
    runs = tried()
    found = judged(runs)
    apart = judged_apart(runs)
    compared_runs = sum(1 for each in found if each.references)
    yield f"{len(found)} runs with calls; {compared_runs} with another success of their task"
    yield "\n| alarm | precision | recall | false-positive rate |\n|---|---|---|---|"
    for name in ("unexpected_write", "first_two_diverged"):

        def of_alarm(rows: Sequence[Any], name: str = name) -> Sequence[float]:
            return alarm(rows, name)

        for title, rows in ((name, found), (f"{name}, split", apart)):
            yield _line(title, intervals(rows, lambda each: each.tried.task, of_alarm))
    yield f"\n| risk | {' | '.join(POINTS)} |\n|---|---|---|---|---|"
    for title, judged_runs in (("other runs", found), ("split: half of the runs", apart)):
        yield _line(
            f"shipped, {title} of the task", intervals(watched_risks(judged_runs), _task, aucs)
        )
    for within in (True, False):
        for name, way in WAYS.items():
            scores = compared(runs, way, within=within)
            title = f"{name}, {'other runs of the task' if within else 'the other tasks'}"
            yield _line(title, intervals(scores, _task, aucs))
    best, worst, nested = tuned(runs)
    yield f"\n| {len(GRID)} settings | {' | '.join(POINTS)} |\n|---|---|---|---|---|"
    for name, values in (("best", best), ("worst at the point", worst), ("nested", nested)):
        yield f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} |"


def _task(row: tuple[Tried, Sequence[float]]) -> str:
    return row[0].task


def _line(title: str, figures: Sequence[tuple[float, float, float]]) -> str:
    cells = (f"{value:.2f} ({low:.2f}-{high:.2f})" for value, low, high in figures)
    return f"| {title} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in report())
