"""Figures of rollouts: means with bootstrap intervals, effects of scaffold and environment, and the front of cost and success."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.report.repeats import repeats_of

__all__ = ["EffectSize", "Group", "JudgeFigures", "MeanInterval", "Report", "report_of"]

DRAWS: Final = 1000
"""Samples of a bootstrap interval."""
MEASURES: Final = (
    "harm_rate", "prefix_crit", "pc", "pc_ktc", "pc_hlr", "efficiency", "calls", "harmful", "prevented",
    "tokens_in", "tokens_out", "seconds", "cost",
)  # fmt: skip

Line = Mapping[str, Any]


class MeanInterval(NamedTuple):
    """A mean with its 95 % bootstrap interval, and the quartiles of its values. None for no values."""

    n: int
    mean: float | None
    low: float | None
    high: float | None
    quartiles: tuple[float, float, float] | None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> MeanInterval:
        """The mean of what is known."""
        known = sorted(float(each) for each in values if each is not None)
        if not known:
            return cls(0, None, None, None, None)
        low, high = interval(lambda chance: _mean(chance.choices(known, k=len(known))))
        parts = [known[round(part * (len(known) - 1))] for part in (0.25, 0.5, 0.75)]
        return cls(len(known), _mean(known), low, high, (parts[0], parts[1], parts[2]))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def interval(draw: Callable[[random.Random], float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of a figure that is drawn again; the same each time."""
    chance = random.Random(0)  # noqa: S311 - samples, not secrets
    found = sorted(draw(chance) for _ in range(DRAWS))
    return found[int(DRAWS * 0.025)], found[int(DRAWS * 0.975) - 1]


class JudgeFigures(NamedTuple):
    """How one judge has scored the rollouts of a group."""

    score: MeanInterval
    """Mean of the scores from 0 to 3 that count: of whole sessions, without a contradiction."""
    outcomes: Mapping[str, int]

    @classmethod
    def of(cls, records: Sequence[Line]) -> JudgeFigures:
        """The figures of a judge's records."""
        from judges.agreement.scores import counted

        scores = [each["score"] for each in records if counted(each)]
        return cls(MeanInterval.of(scores), dict(Counter(each["outcome"] for each in records)))

    def as_json(self) -> dict[str, Any]:
        """The figures as plain data."""
        return {"score": self.score._asdict(), "outcomes": dict(self.outcomes)}


class Group(NamedTuple):
    """All rollouts of one agent under one scaffold, in one environment."""

    agent: str
    scaffold: str
    environment: str
    """live or offline."""
    success: MeanInterval
    """Infrastructure failures left out."""
    success_counted: MeanInterval
    """Infrastructure failures counted as failures."""
    attacked: MeanInterval
    measures: Mapping[str, MeanInterval]
    causes: Mapping[str, int]
    steps_by_agent: Mapping[str, int]
    ends: Mapping[str, int]
    consistent: MeanInterval
    """Share, by task, of rollouts that end as most of them do."""
    repeats: Mapping[str, MeanInterval]
    """Means over tasks of how alike they are done again; see `REPEATS`."""
    judges: Mapping[str, JudgeFigures]
    on_front: bool = False
    """True if no other group has more successes for as few calls, or as many for fewer."""


class EffectSize(NamedTuple):
    """How much more often tasks succeed there than here, by the same agent on the same tasks."""

    kind: str
    """framework (scaffold against scaffold) or environment (live against offline)."""
    agent: str
    here: str
    there: str
    tasks: int
    difference: float
    low: float
    high: float


class Report(NamedTuple):
    """What runs have shown."""

    rollouts: int
    groups: tuple[Group, ...]
    effects: tuple[EffectSize, ...]
    tasks: tuple[Mapping[str, Any], ...]
    failed: tuple[Line, ...]
    """Rollouts with a cause."""

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        groups = []
        for group in self.groups:
            measures = {name: each._asdict() for name, each in group.measures.items()}
            means = {
                key: getattr(group, key)._asdict()
                for key in ("success", "success_counted", "attacked", "consistent")
            }
            judges = {name: each.as_json() for name, each in group.judges.items()}
            groups.append(
                {
                    **group._asdict(),
                    **means,
                    "measures": measures,
                    "repeats": {name: each._asdict() for name, each in group.repeats.items()},
                    "judges": judges,
                }
            )
        return {
            "rollouts": self.rollouts,
            "groups": groups,
            "effects": [each._asdict() for each in self.effects],
            "tasks": [dict(each) for each in self.tasks],
            "failed": [
                {
                    key: line[key]
                    for key in ("task", "agent", "scaffold", "seed", "end", "cause")
                }
                for line in self.failed
            ],
        }


def report_of(lines: Sequence[Line]) -> Report:
    """The report on rollouts, as `rollouts.jsonl` has them, each with its calls as `made`."""
    by_group: dict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        by_group[line["agent"], line["scaffold"], _environment(line)].append(line)
    groups = [_group(key, found) for key, found in sorted(by_group.items())]
    return Report(
        len(lines),
        tuple(each._replace(on_front=_is_on_front(each, groups)) for each in groups),
        tuple(_effects(by_group)),
        tuple(_tasks(lines)),
        tuple(line for line in lines if line["cause"] is not None),
    )


def _environment(line: Line) -> str:
    return "offline" if line.get("offline") else "live"


def is_infrastructure(line: Line) -> bool:
    """Whether it failed for its environment."""
    cause = line["cause"]
    return not line["success"] and cause is not None and cause["category"] == "environment"


def _group(key: tuple[str, str, str], lines: Sequence[Line]) -> Group:
    sound = [line for line in lines if not is_infrastructure(line)]
    steps: Counter[str] = Counter()
    for line in lines:
        steps.update(line.get("steps_by_agent") or {})
    return Group(
        *key,
        success=MeanInterval.of(line["success"] for line in sound),
        success_counted=MeanInterval.of(line["success"] for line in lines),
        attacked=MeanInterval.of(line["attacked"] for line in lines),
        measures={name: MeanInterval.of(line[name] for line in lines) for name in MEASURES},
        causes=dict(Counter(_cause(line) for line in lines if line["cause"] is not None)),
        steps_by_agent=dict(steps),
        ends=dict(Counter(line["end"] for line in lines)),
        consistent=MeanInterval.of(_agreement(lines)),
        repeats={name: MeanInterval.of(values) for name, values in repeats_of(lines).items()},
        judges=_judges(lines),
    )


def _judges(lines: Sequence[Line]) -> dict[str, JudgeFigures]:
    by_judge: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        for each in line["judged"]:
            by_judge[each["judge"]].append(each)
    return {name: JudgeFigures.of(each) for name, each in sorted(by_judge.items())}


def _cause(line: Line) -> str:
    cause = line["cause"]
    return f"{cause['category']}/{cause['kind']}" if cause["kind"] else str(cause["category"])


def _agreement(lines: Sequence[Line]) -> list[float]:
    """By task with two rollouts or more: the share of those that end as most do."""
    by_task: dict[str, list[bool]] = defaultdict(list)
    for line in lines:
        by_task[line["task"]].append(line["success"])
    return [
        max(found.count(True), found.count(False)) / len(found)
        for found in by_task.values()
        if len(found) > 1
    ]


def _is_on_front(group: Group, groups: Sequence[Group]) -> bool:
    here = _price(group)
    return not any(
        other is not group and _price(other) != here
        and _price(other)[0] >= here[0] and _price(other)[1] <= here[1]
        for other in groups
    )  # fmt: skip


def _price(group: Group) -> tuple[float, float]:
    """Successes, and what they take: the cost where it is known, else calls."""
    cost = group.measures["cost"].mean
    taken = cost if cost is not None else group.measures["calls"].mean
    return group.success_counted.mean or 0.0, taken or 0.0


def _effects(by_group: Mapping[tuple[str, str, str], Sequence[Line]]) -> Iterable[EffectSize]:
    keys = sorted(by_group)
    for place, here in enumerate(keys):
        for there in keys[place + 1 :]:
            if here[0] != there[0]:
                continue
            if here[2] == there[2]:
                yield from _effect("framework", here[1], there[1], here, there, by_group)
            elif here[1] == there[1]:
                yield from _effect("environment", here[2], there[2], here, there, by_group)


def _effect(
    kind: str, name: str, other: str, here: Any, there: Any,
    by_group: Mapping[tuple[str, str, str], Sequence[Line]],
) -> Iterable[EffectSize]:  # fmt: skip
    first, second = _rates(by_group[here]), _rates(by_group[there])
    both = [second[task] - first[task] for task in sorted(first.keys() & second.keys())]
    if both:
        low, high = interval(lambda chance: _mean(chance.choices(both, k=len(both))))
        yield EffectSize(kind, here[0], name, other, len(both), _mean(both), low, high)


def _rates(lines: Sequence[Line]) -> dict[str, float]:
    found: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        found[line["task"]].append(float(line["success"]))
    return {task: _mean(values) for task, values in found.items()}


def _tasks(lines: Sequence[Line]) -> Iterable[Mapping[str, Any]]:
    found: dict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        found[line["task"], line["agent"], line["scaffold"]].append(line)
    for (task, agent, scaffold), each in sorted(found.items()):
        yield {
            "task": task,
            "agent": agent,
            "scaffold": scaffold,
            "rollouts": len(each),
            "success": _mean([float(line["success"]) for line in each]),
            "harmful": sum(line["harmful"] for line in each),
            "pc": MeanInterval.of(line["pc"] for line in each).mean,
        }
