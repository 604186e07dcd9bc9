"""Words for panels: what a board is made of, and the JSON that Grafana reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["SOURCE", "Board", "Panel", "Row", "Target", "Variable", "board_json"]

Json = dict[str, Any]

SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
GRAFANA: Final[Json] = {"type": "grafana", "uid": "-- Grafana --"}

GREEN, AMBER, RED, GREY, BLUE = "green", "#EAB839", "red", "#8e8e8e", "blue"

Steps = Sequence[tuple[float | None, str]]
"""(from this value on, colour); the first value is None."""


@dataclass(frozen=True)
class Target:
    """One query."""

    expr: str
    legend: str = "__auto"
    instant: bool = False
    exemplar: bool = False
    heat: bool = False


@dataclass(frozen=True)
class Panel:
    """One panel: a title, the question it answers, its queries and how they are drawn."""

    title: str
    kind: str
    description: str
    unit: str
    targets: tuple[Target, ...]
    width: int = 12
    steps: Steps = ((None, GREEN),)
    colours: Mapping[str, str] = field(default_factory=dict)
    stack: bool = False
    low: float | None = None
    high: float | None = None
    decimals: int | None = None
    may_be_empty: bool = False
    """True where no result is good news, or needs traffic that a quiet system does not have."""
    columns: Mapping[str, tuple[str, str, Steps]] = field(default_factory=dict)
    """For a table: column -> title, unit, thresholds."""
    link: str = ""
    """For a table: where a click on a row leads."""


@dataclass(frozen=True)
class Row:
    """Panels side by side; a title makes it one that can be folded."""

    panels: tuple[Panel, ...]
    height: int = 8
    title: str = ""


@dataclass(frozen=True)
class Variable:
    """A choice at the top of a board, by a label's values."""

    name: str
    label: str
    query: str


@dataclass(frozen=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    since: str = "now-6h"


def board_json(board: Board) -> Json:
    """The dashboard as Grafana 10 and later read it."""
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.description,
        "tags": ["offrails"],
        "editable": False,
        "graphTooltip": 1,
        "refresh": "10s",
        "timezone": "browser",
        "schemaVersion": 39,
        "time": {"from": board.since, "to": "now"},
        "links": [_link_to_others()],
        "templating": {"list": [_source_variable(), *map(_variable, board.variables)]},
        "annotations": {"list": _annotations()},
        "panels": _laid_out(board.rows),
    }


def _link_to_others() -> Json:
    return {
        "type": "dashboards",
        "title": "offrails",
        "tags": ["offrails"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "Other boards of offrails",
        "url": "",
    }


def _source_variable() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
        "options": [],
        "regex": "",
        "includeAll": False,
        "multi": False,
        "skipUrlSync": False,
    }


def _variable(variable: Variable) -> Json:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": SOURCE,
        "definition": variable.query,
        "query": {"query": variable.query, "refId": f"variable-{variable.name}"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "options": [],
        "regex": "",
        "hide": 0,
        "skipUrlSync": False,
    }


def _annotations() -> list[Json]:
    where = '{job=~"$job",instance=~"$instance"}'
    reload = f"changes(offrails_spec_last_reload_success_timestamp_seconds{where}[$__rate_interval]) > 0"
    firing = (
        'ALERTS{alertname=~"Agent.*",alertname!="AgentMonitorWatchdog",alertstate="firing"}'
    )
    return [
        _annotation("Specs read anew", reload, "blue", "{{instance}}"),
        _annotation("Alerts", firing, "red", "{{alertname}} {{agent}} {{spec}}"),
    ]


def _annotation(name: str, expr: str, colour: str, title: str) -> Json:
    return {
        "name": name,
        "datasource": SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "expr": expr,
        "titleFormat": title,
        "step": "30s",
    }


def _laid_out(rows: Sequence[Row]) -> list[Json]:
    panels: list[Json] = []
    top = 0
    for row in rows:
        if row.title:
            place = {"h": 1, "w": 24, "x": 0, "y": top}
            panels.append(
                {
                    "id": len(panels) + 1,
                    "type": "row",
                    "title": row.title,
                    "collapsed": False,
                    "gridPos": place,
                    "panels": [],
                }
            )
            top += 1
        left = 0
        for panel in row.panels:
            place = {"h": row.height, "w": panel.width, "x": left, "y": top}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_panel(panel)})
            left += panel.width
        top += row.height
    return panels


def _panel(panel: Panel) -> Json:
    return {
        "title": panel.title,
        "type": panel.kind,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": [_target(each, place, panel) for place, each in enumerate(panel.targets)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
        **({"transformations": _joined()} if panel.columns else {}),
    }


def _target(target: Target, place: int, panel: Panel) -> Json:
    asks = "table" if panel.columns else "heatmap" if target.heat else "time_series"
    return {
        "refId": chr(ord("A") + place),
        "datasource": SOURCE,
        "expr": target.expr,
        "legendFormat": target.legend,
        "instant": target.instant,
        "range": not target.instant,
        "exemplar": target.exemplar,
        "format": asks,
    }


def _thresholds(steps: Steps) -> Json:
    return {
        "mode": "absolute",
        "steps": [{"value": value, "color": colour} for value, colour in steps],
    }


def _defaults(panel: Panel) -> Json:
    found: Json = {
        "unit": panel.unit,
        "thresholds": _thresholds(panel.steps),
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
    }
    for name, value in (("min", panel.low), ("max", panel.high), ("decimals", panel.decimals)):
        if value is not None:
            found[name] = value
    if panel.kind == "stat" and panel.may_be_empty:
        found["noValue"] = "none"  # the query stays as it is: no series is not the same as zero
    if panel.kind == "timeseries":
        found["custom"] = _drawn(panel)
    return found


def _drawn(panel: Panel) -> Json:
    """How lines are drawn; thresholds show as dashed lines where there are some."""
    return {
        "drawStyle": "line",
        "lineWidth": 1 if panel.stack else 2,
        "fillOpacity": 40 if panel.stack else 0,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stack else "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if len(panel.steps) > 1 else "off"},
    }


def _overrides(panel: Panel) -> list[Json]:
    found = [
        _override(name, color={"mode": "fixed", "fixedColor": colour})
        for name, colour in panel.colours.items()
    ]
    for name, (title, unit, steps) in panel.columns.items():
        cell = {"custom.cellOptions": {"type": "color-text"}} if len(steps) > 1 else {}
        found.append(
            _override(name, displayName=title, unit=unit, thresholds=_thresholds(steps), **cell)
        )
    if panel.link:
        there = [{"title": "Sessions of this agent", "url": panel.link}]
        found.append(_override("agent", links=there))
    return found


def _override(name: str, /, **properties: Any) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": id_, "value": value} for id_, value in properties.items()],
    }


def _options(panel: Panel) -> Json:
    last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if panel.kind == "stat":
        shown = {"colorMode": "value", "graphMode": "area", "textMode": "auto"}
        return {**shown, "reduceOptions": last, "justifyMode": "auto", "orientation": "auto"}
    if panel.kind == "bargauge":
        return {"displayMode": "gradient", "orientation": "horizontal", "reduceOptions": last}
    if panel.kind == "heatmap":
        return {
            "calculate": False,
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
            "yAxis": {"unit": panel.unit},
            "cellGap": 1,
            "tooltip": {"mode": "single"},
        }
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm"}
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def _joined() -> list[Json]:
    """The queries of a table side by side, a row for each pair of agent and spec."""
    hidden = dict.fromkeys(("Time", "job", "instance", "__name__", "beta"), True)
    return [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": hidden}},
    ]
