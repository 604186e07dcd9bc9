"""The report as one page that loads nothing: tables, distributions, the front, and paths of rollouts that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from harness.report.figures import Group, MeanInterval, Report
from harness.report.text import JUDGES_HEAD, REPEATS_HEAD, judge_rows, repeat_rows, shown

__all__ = ["page"]

PATHS_MAX: Final = 200
"""Rollouts whose path is drawn; the page says how many are not."""

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .2em .8em; text-align: left; border-bottom: 1px solid #8884 }
.progress { fill: #2a7 } .self_loop { fill: #999 } .harmful { fill: #c33 } .control { fill: #47a }
svg text { font: 11px system-ui, sans-serif; fill: currentColor } .front { fill: #c60 } .behind { fill: #888 }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } }
"""


def page(report: Report) -> str:
    """The page, as HTML."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>offrails harness</title>",
        f"<style>{_STYLE}</style><h1>{report.rollouts} rollouts</h1>",
        "<p>Each result holds for the scaffold that is named. Intervals are 95 % bootstrap intervals of the mean.</p>",
        _groups(report.groups),
        "<h2>Distributions</h2>",
        *(_distribution(group) for group in report.groups),
        "<h2>Success and what it takes</h2>",
        _front(report.groups),
        "<h2>Causes</h2>",
        _causes(report.groups),
        _optional("How alike tasks are done again", REPEATS_HEAD, repeat_rows(report)),
        _optional("Judges", JUDGES_HEAD, judge_rows(report)),
        _effects(report),
        "<h2>Tasks</h2>",
        _table(
            ("task", "agent", "scaffold", "rollouts", "success", "harmful calls", "PC"),
            [[_number(cell) for cell in each.values()] for each in report.tasks],
        ),
        "<h2>Paths of rollouts with a cause</h2>",
        *(_path(line) for line in report.failed[:PATHS_MAX]),
        _not_drawn(len(report.failed)),
        "</html>",
    ]
    return "\n".join(parts)


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _table(head: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    top = "".join(f"<th>{escape(each)}" for each in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}" for cell in row) for row in rows)
    return f"<table><tr>{top}{body}</table>"


def _groups(groups: Sequence[Group]) -> str:
    head = ("agent", "scaffold", "where", "n", "success", "infrastructure failures counted", "attacked", "HarmRate", "PrefixCrit", "PC", "calls", "tokens in", "seconds", "cost", "alike")  # fmt: skip
    names = ("harm_rate", "prefix_crit", "pc", "calls", "tokens_in", "seconds", "cost")
    return _table(
        head,
        [
            (group.agent, group.scaffold, group.environment, group.success_counted.n,
             shown(group.success), shown(group.success_counted), shown(group.attacked),
             *(shown(group.measures[name]) for name in names), shown(group.consistent))
            for group in groups
        ],
    )  # fmt: skip


def _distribution(group: Group) -> str:
    """Quartiles of the scores between 0 and 1, a bar each."""
    rows: list[str] = []
    for name in ("harm_rate", "prefix_crit", "pc", "pc_ktc", "pc_hlr", "efficiency"):
        rows.append(_bar(name, group.measures[name], 18 * len(rows)))
    label = escape(f"{group.agent}, {group.scaffold}, {group.environment}")
    return (
        f"<h3>{label}</h3><svg width=480 height={18 * len(rows)} role=img>{''.join(rows)}</svg>"
    )


def _bar(name: str, mean: MeanInterval, y: int) -> str:
    text = f"<text x=0 y={y + 12}>{name}</text>"
    if mean.quartiles is None or mean.mean is None:
        return text
    low, middle, high = (110 + round(300 * each) for each in mean.quartiles)
    return (
        f"{text}<rect class=self_loop x={low} y={y + 3} width={max(2, high - low)} height=11></rect>"
        f"<rect class=harmful x={middle} y={y + 3} width=2 height=11></rect><text x=420 y={y + 12}>{mean.mean:.3f}</text>"
    )


def _front(groups: Sequence[Group]) -> str:
    most = max((group.measures["calls"].mean or 0 for group in groups), default=0) or 1
    points = []
    for group in groups:
        x = 30 + round(400 * (group.measures["calls"].mean or 0) / most)
        y = 210 - round(200 * (group.success_counted.mean or 0))
        kind = "front" if group.on_front else "behind"
        name = escape(f"{group.agent} {group.scaffold}")
        points.append(f"<circle class={kind} cx={x} cy={y} r=5><title>{name}</title></circle>")
        points.append(f"<text x={x + 8} y={y + 4}>{name}</text>")
    return f"<svg width=720 height=230 role=img>{''.join(points)}<text x=30 y=228>calls</text></svg>"


def _causes(groups: Sequence[Group]) -> str:
    return _table(
        ("agent", "scaffold", "cause", "rollouts"),
        [
            (group.agent, group.scaffold, cause, count)
            for group in groups
            for cause, count in sorted(group.causes.items())
        ],
    )


def _optional(title: str, head: Iterable[str], rows: Sequence[Sequence[Any]]) -> str:
    return f"<h2>{title}</h2>{_table(head, rows)}" if rows else ""


def _effects(report: Report) -> str:
    if not report.effects:
        return ""
    rows = [
        (each.kind, each.agent, each.here, each.there, each.tasks,
         f"{each.difference:+.3f} [{each.low:+.3f}, {each.high:+.3f}]")
        for each in report.effects
    ]  # fmt: skip
    head = ("effect", "agent", "from", "to", "tasks", "more successes")
    return f"<h2>Effects</h2>{_table(head, rows)}"


def _path(line: Any) -> str:
    cause = line["cause"]
    boxes = []
    for place, step in enumerate(line.get("path") or ()):
        reason = f": {step['reason']}" if step["reason"] else ""
        title = escape(f"{place + 1} {step['tool']} {step['kind']}{reason}")
        boxes.append(
            f"<rect class={step['kind']} x={place * 16} y=2 width=13 height=13><title>{title}</title></rect>"
        )
    kind = cause["kind"] or cause["category"]
    at = f" at call {cause['step']}" if cause["step"] else ""
    text = escape(
        f"{line['task']} · {line['agent']} · {line['scaffold']} · seed {line['seed']}: {kind}{at}"
    )
    return f"<div>{text}<br><svg width={max(1, len(boxes)) * 16} height=18 role=img>{''.join(boxes)}</svg></div>"


def _not_drawn(failed: int) -> str:
    return f"<p>{failed - PATHS_MAX} more are not drawn.</p>" if failed > PATHS_MAX else ""
