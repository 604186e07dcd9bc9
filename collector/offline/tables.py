"""Judgement objects as lines for people. What agents say is hostile text: it is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from collector.offline.compare_agents import VECTOR, AgentScores, Mean, Spread
from monitor.scores.score_records import SCORES

if TYPE_CHECKING:
    from collector.offline.consistency import AgentMeans, TaskConsistency
    from collector.offline.summary import AgentSummary

__all__ = [
    "agents",
    "aligned",
    "distributions",
    "means",
    "printable",
    "summary",
    "table",
    "tasks",
]

_SHORT = {"efficiency": "Eff"}
"""Titles that are shorter in a table."""

_COLUMNS: tuple[tuple[str, str], ...] = (
    ("session", "session"),
    ("agent", "agent"),
    ("spec", "spec"),
    ("calls", "calls"),
    ("substantive", "N"),
    ("harmful", "H"),
    *((name, _SHORT.get(name, score.title)) for name, score in SCORES.items()),
    ("accepting", "accepted"),
    ("exact", "exact"),
)
_TITLES = dict(_COLUMNS) | {"harm_free": "HarmFree"}
_TEXT_MAX = 40
_TEXTS = 3
"""Columns of text, set to the left; numbers go to the right."""


def printable(value: str) -> str:
    """The text without anything a terminal would act on."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def table(judgements: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A line per judgement under a heading, then harmful calls and missed limits."""
    objects = list(judgements)
    rows = [[_cell(found[key]) for key, _ in _COLUMNS] for found in objects]
    yield from aligned([[title for _, title in _COLUMNS], *rows])
    harms = [line for found in objects for line in _harms(found)]
    if harms:
        yield ""
        yield "harmful calls:"
        yield from harms
    missed = [line for found in objects for line in _missed(found)]
    if missed:
        yield ""
        yield "sessions that missed a limit:"
        yield from missed
    yield from _compared([found for found in objects if "alarms" in found])


def _compared(objects: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How each session did against its reference, where there is one."""
    if not objects:
        return
    rows = [
        [_cell(found["session"]), _cell(found["spec"]), _left(found["divergence"]),
         _cell(found["risk"]), *_unlikely(found), _raised(found["alarms"])]
        for found in objects
    ]  # fmt: skip
    yield ""
    raised = sum(bool(found["alarms"]) for found in objects)
    yield f"against references: {raised} of {len(objects)} raise an alarm"
    titles = [
        "session",
        "reference",
        "first divergence",
        "risk",
        "surprise",
        "percentile",
        "alarms",
    ]
    yield from aligned([titles, *rows], texts=len(titles))


def _unlikely(found: dict[str, Any]) -> Iterator[str]:
    """Bits a call and their percentile; a dash where the reference does not tell them."""
    for key in ("surprise", "surprise_percentile"):
        value = found.get(key)
        yield "-" if value is None else f"{value:.4g}"


def _left(divergence: dict[str, Any] | None) -> str:
    if divergence is None:
        return "-"
    text = f"call {divergence['step']} {divergence['kind']}"
    if divergence["expected"] and divergence["kind"] != "wrong_arguments":
        text += f", usual: {printable(divergence['expected'][0])}"
    return text


def _raised(alarms: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{each['alarm']} ({each['level']})" for each in alarms) or "-"


def means(found: dict[str, Mean]) -> Iterator[str]:
    """The mean of each score, with the number of runs it is defined in."""
    rows = [
        [_TITLES[name], "-" if mean.value is None else f"{mean.value:.6f}", str(mean.runs)]
        for name, mean in found.items()
    ]
    yield ""
    yield "means over runs:"
    yield from aligned([["score", "mean", "runs"], *rows], texts=1)


def summary(found: Sequence[AgentSummary]) -> Iterator[str]:
    """A line per agent and spec: each mean with the number of sessions it is over."""
    titles = [
        *("agent", "spec", "sessions", "calls", "harmful"),
        *(_TITLES[name] for name in SCORES),
    ]
    rows = [[*map(_cell, each[:-1]), *map(_counted, each.scores.values())] for each in found]
    yield from aligned([titles, *rows], texts=2)


def _counted(mean: Mean) -> str:
    return "-" if mean.value is None else f"{_cell(mean.value)} ({mean.runs})"


def distributions(found: Sequence[Spread]) -> Iterator[str]:
    """A line per task, agent and score, for tasks that were run more than once."""
    titles = ["spec", "agent", "score", "runs", "mean", "95% from", "to", "q1", "median", "q3"]
    rows = [
        [_cell(each.spec), _cell(each.agent), _TITLES[each.score], str(each.runs),
         *map(_cell, (each.mean, each.low, each.high, each.quartile, each.median, each.upper,
                      each.worst))]
        for each in found
    ]  # fmt: skip
    yield ""
    yield "repeated runs (95 % bootstrap interval of the mean):"
    yield from aligned([[*titles, "worst"], *rows])


def agents(found: Sequence[AgentScores]) -> Iterator[str]:
    """A line per agent: the vector of five, whether it is on the Pareto front, the scalar."""
    weighted = any(each.scalar is not None for each in found)
    titles = ["agent", "runs", "tasks", *(_TITLES[name] for name in VECTOR), "front"]
    rows = [
        [_cell(each.agent), str(each.runs), str(each.tasks),
         *(_cell(mean.value) for mean in each.vector.values()), _cell(each.front),
         *([_cell(each.scalar)] if weighted else [])]
        for each in found
    ]  # fmt: skip
    yield ""
    yield "by agent:"
    yield from aligned([titles + ["weighted"] * weighted, *rows], texts=1)
    if len({each.tasks for each in found}) > 1:
        yield "The agents ran different numbers of tasks: compare with care."


def tasks(found: Sequence[TaskConsistency], overall: Sequence[AgentMeans]) -> Iterator[str]:
    """A line per agent and task: how alike its runs are. Then each agent's means over tasks."""
    titles = ["agent", "task", "runs", "TSS", "AC paper", "AC repo", "sequences", "diverge at",
              "first two", "answers"]  # fmt: skip
    rows = [
        [_cell(each.agent), _cell(each.task or None), str(each.runs),
         *map(_cell, each.values().values())]
        for each in found
    ]  # fmt: skip
    rows += [
        [_cell(each.agent), f"mean of {each.tasks}", str(each.runs),
         *map(_cell, each.means.values())]
        for each in overall if each.tasks > 1
    ]  # fmt: skip
    yield ""
    yield "consistency by task (papers/002), over pairs of runs:"
    yield from aligned([titles, *rows], texts=2)
    yield (
        "Where two runs call different tools at a step it counts 0 for the paper's AC; published "
        "code compares the arguments all the same."
    )
    if any(each.compared < each.runs for each in found):
        most = max(each.compared for each in found)
        yield f"Of tasks with more than {most} runs, {most} are compared."
    if not any(each.task for each in found):
        yield "No run names its task: give --task ATTR, or --specs with a spec per task."


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    text = printable(str(value))
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def aligned(rows: Sequence[Sequence[str]], texts: int = _TEXTS) -> Iterator[str]:
    """Rows with columns of equal width: `texts` of them set to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if index < texts else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _harms(found: dict[str, Any]) -> Iterator[str]:
    for step in found["steps"]:
        if step["kind"] == "harmful":
            yield "  " + harm_line(found["session"], found["spec"], step)


def _missed(found: dict[str, Any]) -> Iterator[str]:
    for each in found["missed"]:
        yield (
            f"  {printable(found['session'])} / {printable(found['spec'])}  {each['kind']} "
            f"since call {each['step']}: {each['reason']}{_why(each)}"
        )


def _why(found: dict[str, Any]) -> str:
    """The sentence behind a reason."""
    return f": {printable(found['detail'])}" if found.get("detail") else ""


def harm_line(session: str, spec: str, step: dict[str, Any]) -> str:
    """One harmful call in a sentence."""
    text = (
        f"{printable(session)} / {printable(spec)}  call {step['index']} "
        f"{printable(step['tool'])}: {step['reason']}"
    )
    text += _why(step)
    if step["skipped"]:
        text += f"; skipped {', '.join(map(printable, step['skipped']))}"
    if step["allowed"]:
        text += f"; allowed were {', '.join(map(printable, step['allowed']))}"
    if step.get("certain_call") is False:
        text += "; this call or an earlier one"
    return text
