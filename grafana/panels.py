"""What a board is made of, and the JSON that Grafana reads, by the typed builders of its Foundation SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as enums
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

__all__ = ["Board", "Panel", "Row", "Target", "Variable", "board_json"]

Json = dict[str, Any]
Drawn = bargauge.Panel | heatmap.Panel | stat.Panel | table.Panel | timeseries.Panel

SOURCE: Final = models.DataSourceRef("prometheus", "${datasource}")

SCHEMA_VERSION: Final = 39
"""The shapes written here are those of this version; Grafana migrates boards of older ones."""

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
class Link:
    """Where a click on a column of a table leads."""

    column: str
    title: str
    url: str


@dataclass(frozen=True)
class Panel:
    """One panel: a title, the question it answers, its queries and how they are drawn."""

    title: str
    kind: Literal["bargauge", "heatmap", "stat", "table", "timeseries"]
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
    links: tuple[Link, ...] = ()
    """For a table: where clicks on a row lead."""


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


VIEW = "http://127.0.0.1:4319"


def board_json(board: Board) -> Json:
    """The dashboard as Grafana 10 and later read it."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["offrails"])
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .refresh("10s")
        .time(board.since, "now")
        .link(_link_to_others())
        .variables([_source_variable(), *map(_variable, board.variables), _view_variable()])
    )
    _lay_out(made, board.rows)
    built = made.build()
    built.annotations = models.AnnotationContainer(_annotations())
    built.schema_version = SCHEMA_VERSION
    found: Json = json.loads(JSONEncoder().encode(built))
    return found


def _link_to_others() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("offrails")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["offrails"])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
        .icon("external link")
        .tooltip("Other boards of offrails")
    )


def _source_variable() -> dashboard.DatasourceVariable:
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _view_variable() -> dashboard.TextBoxVariable:
    """Where people reach the session view; rows of tables link to it."""
    return (
        dashboard.TextBoxVariable("session_view")
        .label("Session view")
        .description("Address of the monitor's admin listener; its default is set in the file")
        .default_value(VIEW)
        .current(models.VariableOption(True, VIEW, VIEW))
    )


def _variable(variable: Variable) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(SOURCE)
        .query({"query": variable.query, "refId": f"variable-{variable.name}"})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(models.VariableOption(True, ["All"], ["$__all"]))
    )


class _Annotation(models.AnnotationQuery):
    """By a Prometheus query, whose title and step the SDK's model does not have."""

    def __init__(self, name: str, expr: str, colour: str, title: str) -> None:
        super().__init__(name, SOURCE, icon_color=colour, expr=expr)
        self._title = title

    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), "titleFormat": self._title, "step": "30s"}


def _annotations() -> list[models.AnnotationQuery]:
    where = '{job=~"$job",instance=~"$instance"}'
    reload = f"changes(offrails_spec_last_reload_success_timestamp_seconds{where}[$__rate_interval]) > 0"
    firing = (
        'ALERTS{alertname=~"Agent.*",alertname!="AgentMonitorWatchdog",alertstate="firing"}'
    )
    return [
        _Annotation("Specs read anew", reload, "blue", "{{instance}}"),
        _Annotation("Alerts", firing, "red", "{{alertname}} {{agent}} {{spec}}"),
    ]


def _lay_out(made: dashboard.Dashboard, rows: Sequence[Row]) -> None:
    """Numbers the panels and adds them; each row of them is as wide as the board."""
    number = 0
    for row in rows:
        if row.title:
            number += 1
            made.with_row(dashboard.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            made.with_panel(_panel(panel).id(number).height(row.height).span(panel.width))


def _panel(panel: Panel) -> Drawn:
    made = (
        _drawn(panel)
        .title(panel.title)
        .description(panel.description)
        .datasource(SOURCE)
        .targets([_target(each, place, panel) for place, each in enumerate(panel.targets)])
        .unit(panel.unit)
        .thresholds(_thresholds(panel.steps))
    )
    if panel.low is not None:
        made.min(panel.low)
    if panel.high is not None:
        made.max(panel.high)
    if panel.decimals is not None:
        made.decimals(panel.decimals)
    _override(made, panel)
    return made


def _target(target: Target, place: int, panel: Panel) -> prometheus.Dataquery:
    asked = (
        prometheus.Dataquery()
        .ref_id(chr(ord("A") + place))
        .datasource(SOURCE)
        .expr(target.expr)
        .legend_format(target.legend)
        .exemplar(target.exemplar)
    )
    if panel.columns:
        asked.format(PromQueryFormat.TABLE)
    elif target.heat:
        asked.format(PromQueryFormat.HEATMAP)
    else:
        asked.format(PromQueryFormat.TIME_SERIES)
    return asked.instant() if target.instant else asked.range()


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    made = [models.Threshold(value, colour) for value, colour in steps]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(made)


def _override(made: Drawn, panel: Panel) -> None:
    """Colours of series, and the columns of a table."""
    for name, colour in panel.colours.items():
        fixed = dashboard.FieldColor().mode(models.FieldColorModeId.FIXED).fixed_color(colour)
        made.override_by_name(name, _properties(color=fixed.build()))
    for name, (title, unit, steps) in panel.columns.items():
        shown: Json = {
            "displayName": title,
            "unit": unit,
            "thresholds": _thresholds(steps).build(),
        }
        if len(steps) > 1:
            shown["custom.cellOptions"] = enums.TableColorTextCellOptions()
        made.override_by_name(name, _properties(**shown))
    for column in dict.fromkeys(link.column for link in panel.links):
        there = [
            {"title": link.title, "url": link.url}
            for link in panel.links
            if link.column == column
        ]
        made.override_by_name(column, _properties(links=there))


def _properties(**values: object) -> list[models.DynamicConfigValue]:
    return [models.DynamicConfigValue(name, value) for name, value in values.items()]


# --- what each kind has of its own ----------------------------------------------------------------


def _drawn(panel: Panel) -> Drawn:
    if panel.kind == "timeseries":
        return _timeseries(panel)
    colour = dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS)
    if panel.kind == "stat":
        return _stat(panel).color_scheme(colour)
    if panel.kind == "bargauge":
        return _bargauge().color_scheme(colour)
    if panel.kind == "heatmap":
        return _heatmap(panel).color_scheme(colour)
    return _table(panel).color_scheme(colour)


def _timeseries(panel: Panel) -> timeseries.Panel:
    """Thresholds show as dashed lines where there are some."""
    stacked = enums.StackingMode.NORMAL if panel.stack else enums.StackingMode.NONE
    dashed = enums.GraphThresholdsStyleMode.DASHED
    lines = dashed if len(panel.steps) > 1 else enums.GraphThresholdsStyleMode.OFF
    return (
        timeseries.Panel()
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
        .draw_style(enums.GraphDrawStyle.LINE)
        .line_width(1 if panel.stack else 2)
        .fill_opacity(40 if panel.stack else 0)
        .show_points(enums.VisibilityMode.NEVER)
        .span_nulls(False)
        .stacking(common.StackingConfig().mode(stacked).group("A"))
        .thresholds_style(common.GraphThresholdsStyleConfig().mode(lines))
        .legend(
            common.VizLegendOptions()
            .display_mode(enums.LegendDisplayMode.LIST)
            .placement(enums.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(enums.TooltipDisplayMode.MULTI)
            .sort(enums.SortOrder.DESCENDING)
        )
    )


def _stat(panel: Panel) -> stat.Panel:
    made = (
        stat.Panel()
        .color_mode(enums.BigValueColorMode.VALUE)
        .graph_mode(enums.BigValueGraphMode.AREA)
        .text_mode(enums.BigValueTextMode.AUTO)
        .justify_mode(enums.BigValueJustifyMode.AUTO)
        .orientation(enums.VizOrientation.AUTO)
        .reduce_options(_last())
    )
    # The query stays as it is: no series is not the same as zero.
    return made.no_value("none") if panel.may_be_empty else made


def _bargauge() -> bargauge.Panel:
    return (
        bargauge.Panel()
        .display_mode(enums.BarGaugeDisplayMode.GRADIENT)
        .orientation(enums.VizOrientation.HORIZONTAL)
        .reduce_options(_last())
    )


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False)


def _heatmap(panel: Panel) -> heatmap.Panel:
    oranges = (
        heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64)
    )
    return (
        heatmap.Panel()
        .calculate(False)
        .color(oranges)
        .y_axis(heatmap.YAxisConfig().unit(panel.unit))
        .cell_gap(1)
        .mode(enums.TooltipDisplayMode.SINGLE)
    )


def _table(panel: Panel) -> table.Panel:
    """The queries of a table side by side, a row for each pair of agent and spec."""
    made = table.Panel().show_header(True).cell_height(enums.TableCellHeight.SM)
    if panel.columns:
        hidden = dict.fromkeys(("Time", "job", "instance", "__name__", "beta"), True)
        columns = models.DataTransformerConfig("organize", options={"excludeByName": hidden})
        made.with_transformation(models.DataTransformerConfig("merge", options={}))
        made.with_transformation(columns)
    return made
