"""The boards: checked in as built, by the rules of Grafana's linter, on metrics that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.metrics.service_table import TABLE
from grafana.boards import BOARDS
from grafana.build import FOLDER, files
from grafana.panels import Board, Panel, board_json

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules" / "offrails.yml"
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
PROMETHEUS_OWN = {"up", "scrape_samples_scraped", "ALERTS"}
PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
WORDS = re.compile(r"\b(?:offrails_\w+|process_\w+|agent_spec:[\w:]+|offrails:[\w:]+)")
COUNTER = re.compile(r"_(?:total|bucket|sum|count)$")
RATED = re.compile(r"\b(?:rate|irate|increase|changes|resets)\((\w+)\{")
SELECTORS = re.compile(r"[a-zA-Z_:][\w:]*(\{[^}]*\})")


def panels() -> list[tuple[Board, Panel]]:
    return [(board, panel) for board in BOARDS for row in board.rows for panel in row.panels]


def named(found: tuple[Board, Panel]) -> str:
    return f"{found[0].uid}-{found[1].title}".replace(" ", "_")


every_panel = pytest.mark.parametrize(
    ("board", "panel"), panels(), ids=[named(found) for found in panels()]
)
every_board = pytest.mark.parametrize("board", BOARDS, ids=[board.uid for board in BOARDS])


def exported() -> set[str]:
    names = {
        f"offrails_{name}{suffix}"
        for name, row in TABLE.items()
        for suffix in SUFFIXES[row.kind]
    }
    rules = yaml.safe_load(RULES.read_text())["groups"] if RULES.exists() else []
    recorded = {
        rule["record"] for group in rules for rule in group["rules"] if "record" in rule
    }
    return names | recorded | PROMETHEUS_OWN | PROCESS


def queries(board: Board) -> Iterator[str]:
    """Every expression of a board: panels, variables, annotations."""
    made = board_json(board)
    for panel in made["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (
        each["query"]["query"] for each in made["templating"]["list"] if each["type"] == "query"
    )
    yield from (each["expr"] for each in made["annotations"]["list"])


def test_checked_in_files_are_as_built() -> None:
    """The checked-in boards equal the output of `python -m grafana.build`."""
    built = files()
    assert {file.name for file in FOLDER.glob("*.json")} == {file.name for file in built}
    assert [file.name for file, text in built.items() if file.read_text() != text] == []


@every_board
def test_every_metric_exists(board: Board) -> None:
    """No query names a metric that nothing exports."""
    known = exported()
    found = {name for query in queries(board) for name in WORDS.findall(query)}
    assert found - known == set()
    assert not [query for query in queries(board) if "or vector(" in query]


@every_board
def test_board_has_what_the_linter_asks_for(board: Board) -> None:
    """Each board has a data source variable, job and instance, a fixed uid, links, and is not editable."""
    made = board_json(board)
    variables = {each["name"]: each for each in made["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    for name in ("job", "instance"):
        assert variables[name]["multi"]
        assert variables[name]["includeAll"]
        assert variables[name]["allValue"] == ".+"
    assert all(each["refresh"] == 2 for each in variables.values() if each["type"] == "query")
    assert made["uid"].startswith("offrails-")
    assert made["editable"] is False
    assert made["tags"] == ["offrails"]
    assert made["links"][0]["includeVars"]
    assert made["links"][0]["keepTime"]


@every_panel
def test_panel_explains_itself(board: Board, panel: Panel) -> None:
    """Title, description and unit; every query has its matchers and the right window."""
    assert panel.title
    assert panel.unit
    assert panel.description.endswith((".", "?"))
    for target in panel.targets:
        for selector in SELECTORS.findall(target.expr):
            if 'alertstate="firing"' in selector:
                # Rules over all processes have no job and no instance.
                assert 'alertname=~"Agent.+"' in selector
            elif "agent_spec:" in target.expr:
                assert 'agent=~"$agent"' in selector
            else:
                assert 'job=~"$job"' in selector
                assert 'instance=~"$instance"' in selector
        for window in re.findall(r"\b(?:rate|irate)\([^\[]*\[([^\]]+)\]", target.expr):
            assert window == "$__rate_interval"


def test_the_first_screen_shows_the_worst_agent_and_what_fires() -> None:
    """One bad agent of fifty is in no mean: it stands beside it, and so do alerts and direct pages."""
    overview = next(board for board in BOARDS if board.uid == "offrails-overview")
    first = {panel.title: panel for row in overview.rows[:2] for panel in row.panels}
    assert sum(row.height for row in overview.rows[:2]) <= 12
    for title, worst in (("HarmRate", "max"), ("PrefixCrit", "min")):
        mean, extreme = first[title].targets
        assert mean.expr.startswith("avg(offrails_")
        assert extreme.expr.startswith(f"{worst}(avg by (agent, spec, namespace) (")
        assert (mean.legend, extreme.legend) == ("mean", "worst agent")
    assert first["Worst agents"].targets[0].expr.startswith("topk(10, avg by (agent")
    (alerts,) = first["Alerts"].targets
    assert "ALERTS{" in alerts.expr
    assert "offrails_alerts_firing{" in alerts.expr


@every_panel
def test_panel_asks_the_chosen_source(board: Board, panel: Panel) -> None:
    """It has queries, and each goes to the data source that the variable names."""
    (made,) = [each for each in board_json(board)["panels"] if each["title"] == panel.title]
    assert panel.targets
    for asked in (made, *made["targets"]):
        assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len({target["refId"] for target in made["targets"]}) == len(panel.targets)


@every_panel
def test_counters_are_read_as_rates(board: Board, panel: Panel) -> None:
    """A counter's own value says how long a process has lived: it is never shown."""
    for target in panel.targets:
        counters = [name for name in WORDS.findall(target.expr) if COUNTER.search(name)]
        rated = RATED.findall(target.expr)
        assert sorted(counters) == sorted(rated), target.expr


@every_board
def test_annotations_tell_what_happened(board: Board) -> None:
    """Specs read anew and firing alerts are marked on every board."""
    asked = [each["expr"] for each in board_json(board)["annotations"]["list"]]
    assert any("spec_last_reload" in expr for expr in asked)
    assert any(expr.startswith("ALERTS{") and "firing" in expr for expr in asked)


def test_exemplars_lead_to_traces() -> None:
    """Calls are drawn with exemplars, and the data source knows where their traces are."""
    assert [panel.title for _, panel in panels() for each in panel.targets if each.exemplar]
    file = ROOT / "grafana" / "provisioning" / "datasources" / "offrails.yaml"
    (source,) = yaml.safe_load(file.read_text())["datasources"]
    assert source["jsonData"]["exemplarTraceIdDestinations"][0]["name"] == "trace_id"


@every_board
def test_panels_fill_their_rows(board: Board) -> None:
    """No panel lies on another, no row is wider than the board, titles and ids are unique."""
    made: list[dict[str, Any]] = board_json(board)["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in made:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in made}) == len(made)
    assert len({panel["title"] for panel in made}) == len(made)


def test_provisioning_names_what_is_there() -> None:
    """Both provisioning files are YAML that Grafana's readers know the shape of."""
    folder = ROOT / "grafana" / "provisioning"
    boards = yaml.safe_load((folder / "dashboards" / "offrails.yaml").read_text())
    assert boards["providers"][0]["type"] == "file"
    sources = yaml.safe_load((folder / "datasources" / "offrails.yaml").read_text())
    assert sources["datasources"][0]["type"] == "prometheus"


def test_boards_are_json() -> None:
    """Every file is JSON with the uid that its name says."""
    for file in FOLDER.glob("*.json"):
        assert json.loads(file.read_text())["uid"] == file.stem
