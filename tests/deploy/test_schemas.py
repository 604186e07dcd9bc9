"""Compose and the operator's resources against their own schemas, with faults that they must find."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
"""The module that holds the definitions of PodMonitor and PrometheusRule."""

RULE = DEPLOY / "prometheus" / "prometheusrule.yaml"
MONITORS = (
    DEPLOY / "kubernetes" / "base" / "podmonitor.yaml",
    DEPLOY / "kubernetes" / "sidecar" / "component" / "podmonitor.yaml",
)


def tool(name: str) -> str:
    """A program, or the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (make validate-deploy brings check-jsonschema)")
    return found


def refusal(checked: Mapping[str, Any], folder: Path, *schema: str | Path) -> str:
    """The message of check-jsonschema; empty if it accepts."""
    file = folder / "checked.yaml"
    file.write_text(yaml.safe_dump(checked))
    command = [tool("check-jsonschema"), *map(str, schema), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_compose_follows_its_schema(tmp_path: Path) -> None:
    """The schema of the Compose specification accepts the file and refuses two faulty ones."""
    schema = ("--builtin-schema", "vendor.compose-spec")
    text = COMPOSE.read_text()
    assert refusal(yaml.safe_load(text), tmp_path, *schema) == ""
    for right, wrong in (
        ("read_only: true", "readonly: true"),
        ("cap_drop: [ALL]", "cap_drop: 1"),
    ):
        assert refusal(yaml.safe_load(text.replace(right, wrong)), tmp_path, *schema)


@pytest.fixture(scope="session")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of strict JSON schemas, by kind in lower case, from the operator's own module."""
    folder = tmp_path_factory.mktemp("definitions")
    (folder / "go.mod").write_text("module definitions\n\ngo 1.21\n")
    command = [tool("go"), "mod", "download", "-json", OPERATOR]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"the operator's definitions cannot be had: {done.stderr.strip()[-200:]}")
    found = Path(json.loads(done.stdout)["Dir"]) / "example" / "prometheus-operator-crd"
    for kind in ("podmonitor", "prometheusrule"):
        text = (found / f"monitoring.coreos.com_{kind}s.yaml").read_text()
        (version,) = yaml.safe_load(text)["spec"]["versions"]
        schema = strict(version["schema"]["openAPIV3Schema"])
        (folder / f"{kind}.json").write_text(json.dumps(schema))
    return folder


def strict(schema: Any) -> Any:
    """The same schema, refusing fields that it does not name, as `kubectl --validate=strict`."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if "(?i)" in str(schema.get("pattern")):
        del made["pattern"]  # Go's own; JSON schema's expressions have no such flag
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@pytest.mark.long
@pytest.mark.parametrize("file", MONITORS, ids=lambda file: file.parent.name)
def test_pod_monitors_follow_their_definition(
    file: Path, definitions: Path, tmp_path: Path
) -> None:
    """The operator's definition knows every field, and refuses a misspelt one."""
    schema = ("--schemafile", definitions / "podmonitor.json")
    text = file.read_text()
    assert refusal(yaml.safe_load(text), tmp_path, *schema) == ""
    wrong = yaml.safe_load(text.replace("relabelings:", "relabelConfigs:"))
    assert "relabelConfigs" in refusal(wrong, tmp_path, *schema)


@pytest.mark.long
def test_prometheus_rule_follows_its_definition(definitions: Path, tmp_path: Path) -> None:
    """The same for the rules."""
    schema = ("--schemafile", definitions / "prometheusrule.json")
    rule = yaml.safe_load(RULE.read_text())
    assert refusal(rule, tmp_path, *schema) == ""
    rule["spec"]["groups"][0]["rules"][0]["exprs"] = "1"
    assert "exprs" in refusal(rule, tmp_path, *schema)
