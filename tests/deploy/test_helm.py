"""The Helm chart: what its schema takes, and that it makes what deploy/kubernetes has."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.config.settings import ENVIRONMENT
from tests.deploy.test_deploy import KUBERNETES, ROOT, kustomized, monitor_of, tool, workload_of
from tests.end_to_end.deploy_tools import built

CHART = ROOT / "deploy" / "helm" / "offrails"
SCHEMA = CHART / "values.schema.json"
MANIFESTS = {
    "gateway": "gateway/deployment.yaml",
    "edge": "edge/daemonset.yaml",
    "sidecar": "sidecar/component/sidecar.yaml",
}
"""Mode -> the manifest that it agrees with."""
KINDS = {
    "gateway": {"Deployment", "Service", "ServiceAccount", "ConfigMap", "NetworkPolicy", "PodMonitor", "PodDisruptionBudget"},
    "edge": {"DaemonSet", "Service", "ServiceAccount", "ConfigMap", "NetworkPolicy", "PodMonitor"},
    "sidecar": {"Deployment", "ConfigMap", "PodMonitor"},
}  # fmt: skip
WRONG: dict[str, dict[str, Any]] = {
    "no such mode": {"mode": "cluster"},
    "an unknown key": {"replicas": 2},
    "no limit of memory": {"resources": {"limits": {}}},
    "a number for a variable": {"env": {"OFFRAILS_SESSIONS_MAX": 2000}},
    "a variable of nobody": {"env": {"sessions_max": "1"}},
    "a spec that is no YAML file": {"specs": {"shop.txt": "id: shop"}},
}


def values(mode: str) -> dict[str, Any]:
    """The chart's values in a mode, as Helm merges them."""
    first, second = (
        yaml.safe_load((CHART / name).read_text())
        for name in ("values.yaml", f"values-{mode}.yaml")
    )
    return merged(first, second)


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Mappings are merged at every depth; of anything else, the second's holds."""
    both = {
        key: merged(first[key], value)
        for key, value in second.items()
        if isinstance(first.get(key), dict) and isinstance(value, dict)
    }
    return {**first, **second, **both}


def manifest(mode: str) -> dict[str, Any]:
    """The monitor's container of the plain manifest."""
    return monitor_of(yaml.safe_load((KUBERNETES / MANIFESTS[mode]).read_text()))


# --- without Helm -----------------------------------------------------------------------------------


def keys(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any] | None:
    """The keys that a closed object may have; None for any other schema."""
    if "$ref" in schema:
        return keys(root["definitions"][schema["$ref"].rpartition("/")[2]], root)
    return schema.get("properties") if schema.get("additionalProperties") is False else None


def unknown(
    found: Any, schema: dict[str, Any], root: dict[str, Any], at: str = ""
) -> list[str]:
    """Paths of values that the schema does not name."""
    named = keys(schema, root)
    if named is None or not isinstance(found, dict):
        return []
    return [
        path
        for key, value in found.items()
        for path in (
            [f"{at}{key}"]
            if key not in named
            else unknown(value, named[key], root, f"{at}{key}.")
        )
    ]


@pytest.mark.parametrize("mode", MANIFESTS)
def test_values_are_those_of_the_schema(mode: str) -> None:
    """Each value of the chart is in its schema, each variable is a setting, and a wrong key is refused."""
    schema = json.loads(SCHEMA.read_text())
    found = values(mode)
    assert unknown(found, schema, schema) == []
    assert set(schema["required"]) <= set(found)
    assert found["mode"] in schema["properties"]["mode"]["enum"]
    assert set(found["env"]) <= set(ENVIRONMENT)
    found["image"]["digest"] = ""
    assert unknown({**found, "replicas": 2}, schema, schema) == ["image.digest", "replicas"]


@pytest.mark.parametrize("mode", MANIFESTS)
def test_values_agree_with_the_manifests(mode: str) -> None:
    """Limits, requests and variables are those of deploy/kubernetes."""
    plain, found = manifest(mode), values(mode)
    assert found["resources"] == plain["resources"]
    assert found["env"] == {each["name"]: each["value"] for each in plain.get("env", ())}


def test_templates_use_values_that_there_are() -> None:
    """Each `.Values.` of a template is in values.yaml; the chart's spec is the bundled one."""
    found = yaml.safe_load((CHART / "values.yaml").read_text())
    for file in (CHART / "templates").iterdir():
        for path in re.findall(r"\.Values\.([\w.]+)", file.read_text()):
            here = found
            for part in path.split("."):
                assert part in here, (file.name, path)
                here = here[part]
    ours = (CHART / "specs" / "farm_rover.yaml").read_text()
    assert ours == (ROOT / "dfa_specs" / "farm_rover.yaml").read_text()


def test_the_schema_refuses_wrong_values(tmp_path: Path) -> None:
    """check-jsonschema accepts the three modes and refuses each faulty value."""
    program = tool("check-jsonschema")

    def accepted(given: dict[str, Any]) -> bool:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(given))
        command = [program, "--schemafile", str(SCHEMA), str(file)]
        return (
            subprocess.run(command, capture_output=True, timeout=50, check=False).returncode
            == 0
        )

    assert all(accepted(values(mode)) for mode in MANIFESTS)
    assert [name for name, wrong in WRONG.items() if accepted(values("gateway") | wrong)] == []


# --- by Helm ----------------------------------------------------------------------------------------


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [built("helm"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def template(*files: Path) -> subprocess.CompletedProcess[str]:
    """`helm template`; built without its release's flags, Helm takes the cluster for an old one."""
    given = [part for file in files for part in ("-f", str(file))]
    return helm("template", "offrails", str(CHART), "--kube-version", "1.31.0", *given)


def rendered(mode: str, *more: Path) -> list[dict[str, Any]]:
    """The output of `helm template`."""
    done = template(CHART / f"values-{mode}.yaml", *more)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.mark.parametrize("mode", MANIFESTS)
def test_helm_lint_is_silent(mode: str) -> None:
    """No error and no warning in any mode."""
    done = helm("lint", "--strict", str(CHART), "-f", str(CHART / f"values-{mode}.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("mode", MANIFESTS)
def test_the_chart_makes_the_manifests(mode: str) -> None:
    """Chart and manifests have the same kinds, ports, probes, limits, variables and rights."""
    resources = rendered(mode)
    assert {each["kind"] for each in resources} == KINDS[mode]
    made, plain = monitor_of(workload_of(resources)), manifest(mode)
    for part in ("ports", "startupProbe", "readinessProbe", "livenessProbe", "resources"):
        assert made.get(part) == plain.get(part), part
    assert {each["name"]: each["value"] for each in made.get("env", ())} == {
        each["name"]: each["value"] for each in plain.get("env", ())
    }
    assert plain["securityContext"].items() <= made["securityContext"].items()
    assert made.get("restartPolicy") == plain.get("restartPolicy")
    assert made["pod"]["automountServiceAccountToken"] is False
    grace = "terminationGracePeriodSeconds"
    assert made["pod"][grace] == plain["pod"][grace]
    ((ours,), (theirs,)) = (each["pod"]["volumes"] for each in (made, plain))
    assert ours["configMap"].get("optional") == theirs["configMap"].get("optional")


@pytest.mark.parametrize("mode", MANIFESTS)
def test_rendered_selectors_find_their_pods(mode: str) -> None:
    """Whatever selects pods selects the chart's, and names ports that they have."""
    resources = rendered(mode)
    workload = workload_of(resources)
    labels = workload["spec"]["template"]["metadata"]["labels"]
    ports = {each["name"] for each in monitor_of(workload)["ports"]}
    assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for each in resources:
        spec = each.get("spec", {})
        if each["kind"] == "Service":
            assert spec["selector"].items() <= labels.items()
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        if each["kind"] in ("PodMonitor", "PodDisruptionBudget"):
            assert spec["selector"]["matchLabels"].items() <= labels.items()
        if each["kind"] == "NetworkPolicy":
            assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    volumes = monitor_of(workload)["pod"]["volumes"]
    (specs,) = [each for each in resources if each["kind"] == "ConfigMap"]
    assert [each["configMap"]["name"] for each in volumes] == [specs["metadata"]["name"]]
    assert yaml.safe_load(specs["data"]["farm_rover.yaml"])["id"] == "farm_rover"


def test_policies_are_those_of_the_manifests() -> None:
    """The chart allows the traffic that deploy/kubernetes/base allows, and that of the fleet's router."""
    (made,) = [each for each in rendered("gateway") if each["kind"] == "NetworkPolicy"]
    (plain,) = [each for each in kustomized("gateway") if each["kind"] == "NetworkPolicy"]
    senders = plain["spec"]["ingress"][0]["from"]
    senders[:] = [each for each in senders if "podSelector" not in each]
    for part in ("ingress", "egress", "policyTypes"):
        assert made["spec"][part] == plain["spec"][part]


@pytest.mark.parametrize("name", WRONG)
def test_helm_refuses_wrong_values(name: str, tmp_path: Path) -> None:
    """The schema is Helm's, too."""
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(WRONG[name]))
    done = template(file)
    if name == "no limit of memory":  # merged with the chart's own limit
        assert done.returncode == 0
    else:
        assert (done.returncode, "values" in done.stderr) == (1, True), done.stderr


def test_values_reach_the_pod(tmp_path: Path) -> None:
    """Specs, secrets, variables and the image of one's own are in what is made."""
    file = tmp_path / "own.yaml"
    own = {
        "image": {"repository": "registry/offrails", "tag": "1"},
        "env": {"OFFRAILS_ADMIN_AUTH_BEARER_TOKENS_FILE": "/etc/offrails/tokens/tokens"},
        "secrets": {"tokens": "offrails-tokens"},
        "specs": {"shop.yaml": "id: shop\n"},
    }
    file.write_text(yaml.safe_dump(own))
    resources = rendered("gateway", file)
    made = monitor_of(workload_of(resources))
    assert made["image"] == "registry/offrails:1"
    given = {each["name"]: each["value"] for each in made["env"]}
    assert given == {**values("gateway")["env"], **own["env"]}
    assert {"name": "offrails-tokens", "secret": {"secretName": "offrails-tokens"}} in made[
        "pod"
    ]["volumes"]
    assert "/etc/offrails/tokens" in {each["mountPath"] for each in made["volumeMounts"]}
    (specs,) = [each for each in resources if each["kind"] == "ConfigMap"]
    assert specs["data"] == {"shop.yaml": "id: shop\n"}
