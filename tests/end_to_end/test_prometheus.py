"""Rules, runbooks and configurations: checked by Prometheus' own tools, and against the program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from collector.api.session_view.runbooks import runbook
from collector.config.settings.settings import Settings
from collector.metrics.registry import runtime
from collector.metrics.service_table import TABLE
from collector.sinks.alert.page_alert import ALARMS
from deploy.prometheus import history_tests, loss_tests
from deploy.prometheus.prometheusrule import PLACE, resource

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "rules" / "offrails.yml"
HISTORIES = {"history_test.yml": "minutes", "slow_history_test.yml": "days"}
WRITTEN = ("rules_test.yml", "alerts_test.yml", "slow_test.yml", "silence_test.yml")
RULE_TESTS = (*WRITTEN, "loss_test.yml", *HISTORIES)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""In C, where it is there: a tenth of the time."""
BUDGET, FASTEST = 0.01, 14.4

_NAME = re.compile(r"\b(?:offrails|process)_[a-z0-9_]+\b")
_ENDINGS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


ENVIRONMENT = {**os.environ, "GOGC": "off", "GOMEMLIMIT": "700MiB"}
"""A third of the work of `promtool test rules` would be to look for garbage."""


def _check(*command: str, within: float = 50) -> None:
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=within, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@cache
def _groups() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.load(RULES.read_text(), LOADER)["groups"]
    return found


def _rules() -> Iterator[dict[str, Any]]:
    for group in _groups():
        yield from group["rules"]


ALERTS = [rule for rule in _rules() if "alert" in rule]


def exported() -> set[str]:
    """Every name that a sample of ours can have."""
    names = {
        f"offrails_{name}{ending}"
        for name, row in TABLE.items()
        for ending in _ENDINGS[row.kind]
    }
    return names | {sample.name for each in runtime().collect() for sample in each.samples}


def test_every_metric_of_every_rule_is_exported() -> None:
    """Each metric of each rule is exported; otherwise the rule would never fire."""
    named = {name for rule in _rules() for name in _NAME.findall(rule["expr"])}
    recorded = {rule["record"] for rule in _rules() if "record" in rule}
    plain = {name for name in named if not any(name in record for record in recorded)}

    assert plain
    assert plain <= exported()


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_has_all_that_a_person_needs(rule: dict[str, Any]) -> None:
    """Each alert has a severity, a summary, a description, and a complete runbook."""
    url = urlsplit(rule["annotations"]["runbook_url"])
    name = url.path.removeprefix("/runbooks/")
    page = runbook(name)

    assert rule["labels"]["severity"] in {"critical", "warning", "none"}
    assert {"summary", "description"} <= set(rule["annotations"])
    assert f"{url.scheme}://{url.netloc}" == f"http://{Settings().admin}" == PLACE
    assert page is not None
    assert name == rule["alert"]
    headings = re.findall(r"^## (.*)$", page.decode(), re.MULTILINE)
    assert headings == ["Meaning", "Impact", "Check", "Mitigate", "Silence"]


def test_every_runbook_has_its_alert() -> None:
    """No page is left over; the monitor's own pages have one as well."""
    names = {file.stem for file in (ROOT / "docs" / "runbooks").glob("*.md")}
    own = {"AgentHarmfulCall", "AgentSessionStuck", *ALARMS.values()}
    assert names == {rule["alert"] for rule in ALERTS} | own


def test_runbooks_name_metrics_that_exist() -> None:
    """Each metric that a runbook names is exported."""
    for file in (ROOT / "docs" / "runbooks").glob("*.md"):
        text = re.sub(r"agent_spec:\S+", "", file.read_text())
        families = {f"offrails_{name}" for name in TABLE}
        named = set(re.findall(r"\boffrails_[a-z_]+", text))
        assert named <= exported() | families, file.name


def test_the_fastest_burn_can_fire() -> None:
    """No factor times its budget is above one: such an alert would never fire."""
    assert FASTEST * BUDGET < 1
    fast = next(rule for rule in ALERTS if rule["alert"] == "AgentHarmBudgetBurnFast")
    assert f"> {FASTEST} * {BUDGET}" in fast["expr"]


def test_the_resource_is_fresh() -> None:
    """`prometheusrule.yaml` is generated from the rule file and holds the same groups."""
    made = (DEPLOY / "prometheus" / "prometheusrule.yaml").read_text()

    assert made == resource(RULES.read_text())
    assert yaml.safe_load(made)["spec"] == yaml.safe_load(RULES.read_text())


def test_rules_are_sound() -> None:
    """`promtool check rules`, with all its lints."""
    _check(_tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(RULES))


def test_the_tests_of_losses_are_fresh() -> None:
    """`loss_test.yml` equals its program's output."""
    assert (DEPLOY / "prometheus" / "loss_test.yml").read_text() == loss_tests.text()


@pytest.mark.parametrize("file", HISTORIES)
def test_the_tests_of_histories_are_fresh(file: str) -> None:
    """`history_test.yml` and `slow_history_test.yml` equal their program's output."""
    made = history_tests.text(HISTORIES[file])
    assert (DEPLOY / "prometheus" / file).read_text() == made


def test_every_alert_goes_through_six_histories() -> None:
    """Born at 1, born at 500, reset, gap, flood, silence: each alert is tested in each, or the table says why not."""
    assert {rule["alert"] for rule in ALERTS} == set(loss_tests.LOSSES) | set(
        history_tests.ALERTS
    )
    assert set(loss_tests.LOSSES).isdisjoint(history_tests.ALERTS)
    for six in ("born at 1", "born at 500", "reset with a loss", "gap", "flood", "silence"):
        assert six in loss_tests.CASES
    for name, alert in history_tests.ALERTS.items():
        assert set(history_tests.SIX) <= set(alert.histories), name
        tested = [each for each in alert.histories.values() if not isinstance(each, str)]
        assert any(each.fires for each in tested) == (name != "AgentMonitorWatchdog")
        assert all(each.fires or each.silent for each in tested)


_OF_ANY_ALERT = re.compile(r"ALERTS(?!\{[^}]*alertname)")
"""A query whose answer is of every alert that there is."""
_RANGE = re.compile(r"\[(\d+)([mhd])\]|_?rate(\d+)([mhd])\b|_(\d+)([mhd])\b")
_MINUTES = {"m": 1, "h": 60, "d": 1440}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_no_alert_waits_longer_than_it_looks_back(rule: dict[str, Any]) -> None:
    """`for` is at most the range, so a single event still fires; a missed scrape resolves nothing."""
    windows = [
        int(number) * _MINUTES[unit]
        for number, unit in (
            [part for part in found if part] for found in _RANGE.findall(rule["expr"])
        )
    ]
    waits = re.fullmatch(r"(\d+)([mhd])", rule.get("for", "0m"))
    assert waits
    if windows:
        assert int(waits[1]) * _MINUTES[waits[2]] <= min(windows)
    steady = {"AgentMonitorDown", "AgentMonitorWatchdog"}
    assert ("keep_firing_for" in rule) == (rule["alert"] not in steady)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("file", [each for each in RULE_TESTS if each not in HISTORIES])
def test_rules_fire_when_they_should(file: str, tmp_path: Path) -> None:
    """`promtool test rules` passes: firing, pending, not firing, and without series."""
    document = yaml.load((DEPLOY / "prometheus" / file).read_text(), LOADER)
    _test_rules(document, file, tmp_path)


EACH_HISTORY = pytest.param(1, marks=pytest.mark.long, id="each alert")
"""Half a minute of work."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("one_in", [pytest.param(4, id="a sample"), EACH_HISTORY])
@pytest.mark.parametrize("clock", HISTORIES.values())
def test_rules_keep_through_histories(clock: str, one_in: int, tmp_path: Path) -> None:
    """Each alert goes through one of four of its histories, in turn; in `make test-long` through each."""
    some = {
        name: alert._replace(
            histories=dict([*alert.histories.items()][place % one_in :: one_in])
        )
        for place, (name, alert) in enumerate(history_tests.ALERTS.items())
    }
    _test_rules(yaml.load(history_tests.text(clock, some), LOADER), "history.yml", tmp_path)


def _test_rules(document: dict[str, Any], file: str, tmp_path: Path) -> None:
    """Each test with the rules that it needs, all in one call: the time goes into rules that no answer is of."""
    program = _tool("promtool")
    assert document["rule_files"] == ["rules/offrails.yml"]
    files = []
    for number, test in enumerate(document["tests"]):
        rules, asked = tmp_path / f"rules-{number}.yml", tmp_path / f"{number}-{file}"
        groups = _groups_for(test)
        rules.write_text(yaml.dump({"groups": groups}, Dumper=DUMPER))
        alone = document | {"rule_files": [rules.name], "tests": [test]}
        if groups == _groups():
            alone["evaluation_interval"] = "1m"  # of what holds for long: a quarter of the work
        asked.write_text(yaml.dump(alone, Dumper=DUMPER, sort_keys=False))
        files.append(str(asked))
    _check(program, "test", "rules", *files, within=200)


def _groups_for(test: dict[str, Any]) -> list[dict[str, Any]]:
    """The groups with the rules that a test names, and those that these read: promtool evaluates all others, too."""
    groups, text = _groups(), yaml.dump(test, Dumper=DUMPER)
    if _OF_ANY_ALERT.search(text):
        return groups
    rules = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in _rules()]
    names, found = {name for name, _ in rules}, set[str]()
    while more := names.intersection(re.findall(r"[a-zA-Z_][\w:]*", text)) - found:
        found |= more
        text = " ".join(expr for name, expr in rules if name in more)
    needed = [
        each | {"rules": [r for r in each["rules"] if (r.get("alert") or r["record"]) in found]}
        for each in groups
    ]
    return [each for each in needed if each["rules"]]


@cache
def _written_tests() -> list[dict[str, Any]]:
    texts = ((DEPLOY / "prometheus" / file).read_text() for file in WRITTEN)
    return [test for text in texts for test in yaml.load(text, LOADER)["tests"]]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_is_tested(rule: dict[str, Any]) -> None:
    """Each alert is tested as pending (if it has a `for`), firing, not firing, and without series."""
    tests = _written_tests()
    name = rule["alert"]
    nothing = next(test for test in tests if not test["input_series"])
    silent = str(nothing["promql_expr_test"])
    if name == "AgentMonitorWatchdog":
        assert name in silent
        return
    assert (name in silent) == (name == "AgentMonitorDown")
    told = {
        state
        for test in tests
        if test["name"] == name
        for asked in test["promql_expr_test"]
        for sample in asked["exp_samples"]
        for state in ("pending", "firing")
        if f'alertstate="{state}"' in sample["labels"]
    }
    assert told == ({"pending", "firing"} if "for" in rule else {"firing"})
    series = [
        each["series"]
        for test in tests
        if name in test["name"]
        for each in test["input_series"]
    ]
    calm = '="good"' if name != "AgentMonitorVerdictLatencyHigh" else 'le="0.01"'
    assert any(calm in text for text in series)


def test_no_rule_alerts_for_a_spec_in_shadow() -> None:
    """Rules on agents alert only under a spec in `mode: page`."""
    for rule in ALERTS:
        of_spec = "spec" in rule["expr"] and not rule["alert"].startswith("AgentMonitor")
        if of_spec and rule["alert"] != "AgentSessionsUnmatched":
            asked = re.search(r'offrails_spec_info\{[^}]*mode="page"', rule["expr"])
            assert asked, rule["alert"]


def test_every_metric_named_anywhere_is_exported() -> None:
    """In documents, boards, deployments and code: no name is of a metric that there is not, but for the package's."""
    known = exported() | {f"offrails_{name}" for name in TABLE} | {"offrails_guard"}
    for folder in ("docs", "deploy", "grafana", "dfa_specs", "collector", "monitor"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".md", ".yml", ".yaml", ".json", ".py", ".html", ".js"}:
                text = file.read_text()
                named = set(re.findall(r"(?<![:\w])offrails_[a-z0-9_]+", text))
                lost = {name for name in named - known if not _begins(name, known)}
                assert lost == set(), file


def _begins(name: str, known: set[str]) -> bool:
    """`offrails_worst_session_` and a star stands for several."""
    return name.endswith("_") and any(each.startswith(name) for each in known)


def test_the_configurations_are_sound() -> None:
    """Prometheus' and Alertmanager's own checks pass, and a critical page goes to the pager."""
    _check(_tool("promtool"), "check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))
    config = str(DEPLOY / "alertmanager" / "alertmanager.yml")
    amtool = _tool("amtool")
    _check(amtool, "check-config", config)
    labels = ("alertname=AgentCriticalHarmfulCall", "severity=critical")
    route = (amtool, "config", "routes", "test", f"--config.file={config}")
    _check(*route, "--verify.receivers=page", *labels)
    _check(*route, "--verify.receivers=watchdog", "alertname=AgentMonitorWatchdog")


def test_the_metrics_are_sound() -> None:
    """`promtool check metrics` finds nothing to say of the golden text."""
    text = (ROOT / "tests" / "golden" / "metrics.txt").read_bytes()
    done = subprocess.run(
        [_tool("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
