"""The Helm chart: what its schema takes, and that it makes what deploy/kubernetes has."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.config.environment import ENVIRONMENT
from collector.config.sources import load
from deploy.helm.files import copies
from tests.deploy.test_deploy import (
    KUBERNETES,
    ROOT,
    boards_of,
    kustomized,
    monitor_of,
    one,
    tool,
    workload_of,
)
from tests.end_to_end.deploy_tools import built

CHART = ROOT / "deploy" / "helm" / "offrails"
SCHEMA = CHART / "values.schema.json"
MANIFESTS = {
    "gateway": "gateway/deployment.yaml",
    "fleet": "fleet/statefulset.yaml",
    "edge": "edge/daemonset.yaml",
    "sidecar": "sidecar/component/sidecar.yaml",
}
"""Mode -> the manifest that it agrees with."""
KINDS = {
    "gateway": {"Deployment", "PersistentVolumeClaim", "Service", "ServiceAccount", "ConfigMap", "NetworkPolicy", "PodMonitor", "PrometheusRule", "PodDisruptionBudget"},
    "fleet": {"StatefulSet", "Deployment", "Service", "ServiceAccount", "ConfigMap", "NetworkPolicy", "PodMonitor", "PrometheusRule", "PodDisruptionBudget"},
    "edge": {"DaemonSet", "Service", "ServiceAccount", "ConfigMap", "NetworkPolicy", "PodMonitor", "PrometheusRule"},
    "sidecar": {"Deployment", "ConfigMap", "PodMonitor"},
}  # fmt: skip
ARCHIVE = {
    "gateway": {
        "OFFRAILS_ARCHIVE_DIR": "/var/lib/offrails/archive",
        "OFFRAILS_ARCHIVE_BYTES_MAX": str(3 << 29),
    }
}
"""Variables that follow from `archive`, whose claim has 2 GiB."""
ROUTED = ("fleet", "offrails")
"""Mode and name of the Service that leads to the router."""
SHIPPED_MONITORS = r"\n +- offrails-[0-9]+\.offrails-headless:4317"
"""What the chart replaces in the routes: the monitors of deploy/kubernetes/fleet."""
WRONG: dict[str, dict[str, Any]] = {
    "no such mode": {"mode": "cluster"},
    "an unknown key": {"replicas": 2},
    "no limit of memory": {"resources": {"limits": {}}},
    "a number for a variable": {"env": {"OFFRAILS_SESSIONS_MAX": 2000}},
    "a variable of nobody": {"env": {"sessions_max": "1"}},
    "a spec that is no YAML file": {"specs": {"shop.txt": "id: shop"}},
    "settings that are no text": {"config": {"forward": []}},
    "no monitors": {"fleet": {"replicas": 0}},
    "a secret in the place of the journal": {"secrets": {"state": "s"}},
    "a key of a judge as text": {"judges": {"key": "sk-1"}},
    "a size of nothing": {"state": {"enabled": True, "size": "much"}},
}


LINKS = {"OFFRAILS_PUBLIC_URL": "http://127.0.0.1:4319"}
"""What the templates add: it follows from the ingress, unless `env` says it."""


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
    env = {each["name"]: each["value"] for each in plain.get("env", ())}
    assert {**found["env"], **LINKS, **ARCHIVE.get(mode, {})} == env


def test_templates_use_values_that_there_are() -> None:
    """Each `.Values.` of a template is in values.yaml, and the routes name three monitors."""
    found = yaml.safe_load((CHART / "values.yaml").read_text())
    for file in (CHART / "templates").iterdir():
        for path in re.findall(r"\.Values\.([\w.]+)", file.read_text()):
            here = found
            for part in path.split("."):
                assert part in here, (file.name, path)
                here = here[part]
    routes = (CHART / "route-by-session.yaml").read_text()
    assert len(re.findall(SHIPPED_MONITORS, routes)) == 3


def test_copies_in_the_chart_are_those_that_are_shipped() -> None:
    """Rules, boards, the spec and the routes are what they are copies of, and there is no other file."""
    shipped = dict(copies())
    for copy, original in shipped.items():
        assert copy.read_text() == original.read_text(), "python -m deploy.helm.files"
    folders = {copy.parent for copy in shipped} - {CHART}
    assert {file for folder in folders for file in folder.iterdir()} == set(shipped) - {
        CHART / "route-by-session.yaml"
    }


def test_the_schema_refuses_wrong_values(tmp_path: Path) -> None:
    """check-jsonschema accepts each mode and refuses each faulty value."""
    right = {mode: values(mode) for mode in MANIFESTS}
    wrong = {name: values("gateway") | each for name, each in WRONG.items()}
    files = {}
    for number, (name, given) in enumerate((right | wrong).items()):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(given))
        files[str(file)] = name
    done = subprocess.run(
        [tool("check-jsonschema"), "-o", "json", "--schemafile", str(SCHEMA), *files],
        capture_output=True, timeout=50, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout)

    assert done.returncode == 1
    assert told["parse_errors"] == []
    assert {files[each["filename"]] for each in told["errors"]} == wrong.keys()
    assert len(files) == len(right) + len(wrong)


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


def specs_of(resources: list[dict[str, Any]]) -> dict[str, Any]:
    """The ConfigMap of the specs."""
    maps = [each for each in resources if each["kind"] == "ConfigMap"]
    (found,) = [each for each in maps if each["metadata"]["name"].endswith("-specs")]
    return found


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
    ours, theirs = (
        [
            {**each, "name": "", "configMap": ""}
            for each in pod["volumes"]
            if "configMap" not in each
        ]
        + [each["configMap"].get("optional") for each in pod["volumes"] if "configMap" in each]
        for pod in (made["pod"], plain["pod"])
    )
    assert ours == theirs


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
        if each["kind"] == "Service" and (mode, each["metadata"]["name"]) != ROUTED:
            assert spec["selector"].items() <= labels.items()
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        if each["kind"] in ("PodMonitor", "PodDisruptionBudget"):
            assert spec["selector"]["matchLabels"].items() <= labels.items()
        if each["kind"] == "NetworkPolicy":
            assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    volumes = monitor_of(workload)["pod"]["volumes"]
    specs = specs_of(resources)
    assert [each["configMap"]["name"] for each in volumes if "configMap" in each] == [
        specs["metadata"]["name"]
    ]
    assert yaml.safe_load(specs["data"]["farm_rover.yaml"])["id"] == "farm_rover"


@pytest.mark.parametrize("mode", MANIFESTS)
def test_the_chart_scrapes_as_the_manifests_do(mode: str) -> None:
    """The PodMonitor relabels as that of deploy/kubernetes."""
    ours = one(rendered(mode), "PodMonitor")["spec"]["podMetricsEndpoints"]
    folder = "sidecar/example" if mode == "sidecar" else mode
    assert ours == one(kustomized(folder), "PodMonitor")["spec"]["podMetricsEndpoints"]


@pytest.mark.parametrize("mode", ["gateway", "fleet", "edge"])
def test_the_chart_brings_rules_and_boards(mode: str, tmp_path: Path) -> None:
    """The rules and boards that are shipped; links of rules lead to where people reach the monitor."""
    own = given(
        tmp_path,
        env={"OFFRAILS_PUBLIC_URL": "https://o.example.com/"},
        prometheusRule={"enabled": True, "labels": {"release": "prometheus"}},
    )
    resources = rendered(mode, own)
    shipped = (ROOT / "deploy" / "prometheus" / "rules" / "offrails.yml").read_text()
    rules = one(resources, "PrometheusRule")
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    place = "https://o.example.com"
    assert rules["spec"] == yaml.safe_load(shipped.replace("http://127.0.0.1:4319", place))
    assert boards_of(resources) == boards_of(kustomized(mode))


TOKENS = {"OFFRAILS_ADMIN_AUTH_BEARER_TOKENS_FILE": "/etc/offrails/tokens/tokens"}


@pytest.mark.parametrize(
    ("own", "place"),
    [
        ({}, "http://127.0.0.1:4319"),
        (
            {"ingress": {"admin": {"host": "o.example.com"}}, "env": TOKENS},
            "http://o.example.com",
        ),
        (
            {
                "ingress": {"admin": {"host": "o.example.com"}},
                "env": {**TOKENS, "OFFRAILS_PUBLIC_URL": "https://proxy.example.com/monitor"},
            },
            "https://proxy.example.com/monitor",
        ),
        ({"config": "public_url: https://c.example.com"}, "https://c.example.com"),
    ],
    ids=["nothing", "an ingress", "env goes before it", "a settings file"],
)
def test_links_lead_to_where_people_reach_the_monitor(
    own: dict[str, Any], place: str, tmp_path: Path
) -> None:
    """Direct alerts and rules link to one place; what is said of it goes before what follows from the ingress."""
    resources = rendered("gateway", given(tmp_path, **own))
    [pod] = [each for each in resources if each["kind"] in ("Deployment", "StatefulSet")]
    [monitor] = pod["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in monitor["env"]}
    assert env["OFFRAILS_PUBLIC_URL"] == place
    rules = yaml.safe_dump(one(resources, "PrometheusRule"))
    assert place in rules
    assert (LINKS["OFFRAILS_PUBLIC_URL"] in rules) == (place == LINKS["OFFRAILS_PUBLIC_URL"])


def test_the_policy_knows_next_hops_sinks_and_telemetry(tmp_path: Path) -> None:
    """Ports of whatever the settings name are let out, in every form; without any, nothing more is."""
    plain = one(rendered("gateway"), "NetworkPolicy")["spec"]["egress"]
    config = {
        "forward": ["https://a.example.com", {"endpoint": "tempo:4317", "protocol": "grpc"}],
        "alerts": {
            "webhook": {"url": "https://user:secret@hooks:8443/x:1"},
            "otlp_endpoint": "http://logs:4318/v1",
            "alertmanager": ["http://am:9093"],
        },
        "telemetry": {"otlp_endpoint": "http://own:14318"},
        "judges": {
            "endpoint": "http://vllm:8000/v1",
            "second": {"endpoint": "http://other:8001/v1"},
        },
    }
    own = given(
        tmp_path,
        config=yaml.safe_dump(config),
        env={"OFFRAILS_FORWARD": "http://b:1111, http://c"},
        networkPolicy={
            "enabled": True,
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
    )
    made = one(rendered("gateway", own), "NetworkPolicy")["spec"]["egress"]
    ports, more = [rule for rule in made if rule not in plain]
    assert more == {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    assert {port["port"] for port in ports["ports"]} == {
        *(443, 4317, 8443, 4318, 9093, 14318, 1111, 80, 8000, 8001)
    }


def test_ingresses_lead_to_the_service(tmp_path: Path) -> None:
    """OTLP, and the session view with tokens alone, have a host each; the policy admits the controller to both."""
    hosts: dict[str, Any] = {
        "className": "nginx",
        "otlp": {"host": "otlp.example.com"},
        "admin": {"host": "o.example.com", "tlsSecret": "tls"},
    }
    refused = template(given(tmp_path, ingress=hosts))
    assert refused.returncode == 1
    assert "OFFRAILS_ADMIN_AUTH_BEARER_TOKENS_FILE" in refused.stderr

    tokens = {"OFFRAILS_ADMIN_AUTH_BEARER_TOKENS_FILE": "/etc/offrails/tokens/tokens"}
    resources = rendered("gateway", given(tmp_path, ingress=hosts, env=tokens))
    service = {port["name"] for port in one(resources, "Service")["spec"]["ports"]}
    made = {
        each["spec"]["rules"][0]["host"]: each["spec"]["rules"][0]["http"]["paths"][0]
        for each in resources
        if each["kind"] == "Ingress"
    }
    names = {host: path["backend"]["service"]["port"]["name"] for host, path in made.items()}
    assert names == {"otlp.example.com": "otlp-http", "o.example.com": "admin"}
    assert set(names.values()) <= service
    monitor = monitor_of(workload_of(resources))
    assert set(names.values()) <= {port["name"] for port in monitor["ports"]}
    settings = load(None, {each["name"]: each["value"] for each in monitor["env"]}, {})
    assert (settings.admin, settings.public_url) == ("0.0.0.0:4319", "https://o.example.com")
    (admits,) = [
        rule["ports"]
        for rule in one(resources, "NetworkPolicy")["spec"]["ingress"]
        if "offrails.dev/ingress" in str(rule)
    ]
    assert {port["port"] for port in admits} == set(names.values())
    wrong = template(CHART / "values-sidecar.yaml", given(tmp_path, ingress=hosts, env=tokens))
    assert "a sidecar has no Service" in wrong.stderr


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
    assert given == {**values("gateway")["env"], **LINKS, **ARCHIVE["gateway"], **own["env"]}
    assert {"name": "offrails-tokens", "secret": {"secretName": "offrails-tokens"}} in made[
        "pod"
    ]["volumes"]
    assert "/etc/offrails/tokens" in {each["mountPath"] for each in made["volumeMounts"]}
    assert specs_of(resources)["data"] == {"shop.yaml": "id: shop\n"}


def test_the_keys_of_judges_come_from_a_secret(tmp_path: Path) -> None:
    """The key of a models' endpoint is no text of the chart: variables take it from the Secret that is named, or there are none."""

    def taken(**own: Any) -> dict[str, Any]:
        made = monitor_of(workload_of(rendered("gateway", given(tmp_path, **own))))
        return {each["name"]: each.get("valueFrom") for each in made["env"]}

    found = taken(judges={"keySecret": "judge"})
    assert found["OPENAI_API_KEY"] == {
        "secretKeyRef": {"name": "judge", "key": "OPENAI_API_KEY"}
    }
    assert found["OPENAI_API_KEY_SECOND"]["secretKeyRef"]["optional"] is True
    assert not any(name.startswith("OPENAI") for name in taken())


def given(tmp_path: Path, **own: Any) -> Path:
    """A file with values of one's own."""
    file = tmp_path / "given.yaml"
    file.write_text(yaml.safe_dump(own))
    return file


@pytest.mark.parametrize("mode", MANIFESTS)
def test_settings_as_text_reach_the_pod(mode: str, tmp_path: Path) -> None:
    """A settings file, with next hops, is mounted and named; another text starts new pods."""
    text = "forward:\n  - endpoint: http://tempo:4318\n"
    made = [rendered(mode, given(tmp_path, config=each)) for each in (text, text + "\n\n# b\n")]
    monitor = monitor_of(workload_of(made[0]))
    env = {each["name"]: each["value"] for each in monitor["env"]}
    (mount,) = [each for each in monitor["volumeMounts"] if each["name"] == "offrails-config"]
    assert env["OFFRAILS_CONFIG"] == f"{mount['mountPath']}/offrails.yaml"
    assert values(mode)["env"].items() <= env.items()
    (volume,) = [each for each in monitor["pod"]["volumes"] if each["name"] == mount["name"]]
    (settings,) = [
        each
        for each in made[0]
        if each["kind"] == "ConfigMap"
        and each["metadata"]["name"] == volume["configMap"]["name"]
    ]
    file = tmp_path / "offrails.yaml"
    file.write_text(settings["data"]["offrails.yaml"])
    assert [hop.endpoint for hop in load(file, {}, {}).forward] == ["http://tempo:4318"]
    first, second = (
        workload_of(each)["spec"]["template"]["metadata"]["annotations"] for each in made
    )
    assert first != second


def test_the_journal_leaves_room_on_a_small_volume(tmp_path: Path) -> None:
    """It takes three quarters of a volume that is smaller than its own bound: a volume's limit is no disk that is full."""
    resources = rendered("sidecar", given(tmp_path, state={"enabled": True, "size": "256Mi"}))
    monitor = monitor_of(workload_of(resources))
    env = {each["name"]: each["value"] for each in monitor["env"]}
    assert int(env["OFFRAILS_STATE_BYTES_MAX"]) == 192 << 20


@pytest.mark.parametrize("mode", MANIFESTS)
def test_the_journal_has_a_volume(mode: str, tmp_path: Path) -> None:
    """`state` gives each monitor a volume that it may write to: a claim where it outlives the pod."""
    resources = rendered(mode, given(tmp_path, state={"enabled": True, "storageClass": "fast"}))
    workload = workload_of(resources)
    monitor = monitor_of(workload)
    env = {each["name"]: each["value"] for each in monitor["env"]}
    (mount,) = [each for each in monitor["volumeMounts"] if each["name"] == "offrails-state"]
    assert env["OFFRAILS_STATE_DIR"] == mount["mountPath"]
    assert not mount.get("readOnly")
    assert monitor["pod"]["securityContext"]["fsGroup"] == 10001
    volumes = [each for each in monitor["pod"]["volumes"] if each["name"] == mount["name"]]
    claims = [
        each
        for each in resources
        if each["kind"] == "PersistentVolumeClaim"
        and each["metadata"]["name"].endswith("-state")
    ]
    if mode == "gateway":
        (claim,) = claims
        assert volumes[0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        assert workload["spec"]["strategy"] == {"type": "Recreate"}
    elif mode == "fleet":
        (claim,) = workload["spec"]["volumeClaimTemplates"]
        assert (claim["metadata"]["name"], volumes, claims) == (mount["name"], [], [])
    else:
        assert (volumes[0]["emptyDir"], claims) == ({"sizeLimit": "1Gi"}, [])
        claim = None
    if claim is not None:
        assert claim["spec"] == {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        }
    assert int(env["OFFRAILS_STATE_BYTES_MAX"]) == 512 << 20  # no more than without the chart
    # Only a fleet knows its senders: the router tries again for 10 s.
    bridged = {"fleet": "8"}.get(mode)
    assert env.get("OFFRAILS_STATE_BRIDGED_SECONDS") == bridged
    if "startupProbe" in monitor:  # a long replay must not end the container
        assert monitor["startupProbe"]["httpGet"]["path"] == "/-/healthy"


@pytest.mark.parametrize("mode", MANIFESTS)
def test_past_sessions_have_a_claim_in_a_gateway(mode: str, tmp_path: Path) -> None:
    """A gateway keeps an archive in a claim of its own, three quarters of it; the other modes keep none, whatever is asked."""
    own = given(tmp_path, archive={"enabled": True, "size": "4Gi", "storageClass": "fast"})
    resources = rendered(mode, own)
    monitor = monitor_of(workload_of(resources))
    env = {each["name"]: each["value"] for each in monitor["env"]}
    claims = {
        each["metadata"]["name"]: each["spec"]
        for each in resources
        if each["kind"] == "PersistentVolumeClaim"
    }
    if mode != "gateway":
        assert ("OFFRAILS_ARCHIVE_DIR" in env, claims) == (False, {})
        return
    (mount,) = [each for each in monitor["volumeMounts"] if each["name"] == "offrails-archive"]
    assert env["OFFRAILS_ARCHIVE_DIR"] == mount["mountPath"]
    assert int(env["OFFRAILS_ARCHIVE_BYTES_MAX"]) == 3 << 30
    assert monitor["pod"]["securityContext"]["fsGroup"] == 10001
    ((name, claim),) = claims.items()
    volumes = [each for each in monitor["pod"]["volumes"] if each["name"] == mount["name"]]
    assert volumes[0]["persistentVolumeClaim"]["claimName"] == name
    assert claim["storageClassName"] == "fast"
    off = rendered(mode, given(tmp_path, archive={"enabled": False}))
    assert "PersistentVolumeClaim" not in {each["kind"] for each in off}


@pytest.mark.parametrize("mode", MANIFESTS)
def test_monitors_share_a_database_of_a_secret(mode: str, tmp_path: Path) -> None:
    """With `urlSecret` the address comes from the Secret, and there is no claim; a sidecar keeps nothing."""
    secret = {"name": "history", "key": "url"}
    own = given(tmp_path, archive={"enabled": True, "size": "4Gi", "urlSecret": secret})
    resources = rendered(mode, own)
    variables = {
        each["name"]: each for each in monitor_of(workload_of(resources)).get("env", [])
    }
    assert "OFFRAILS_ARCHIVE_DIR" not in variables
    assert "PersistentVolumeClaim" not in {each["kind"] for each in resources}
    address = variables.get("OFFRAILS_ARCHIVE_URL")
    if mode == "sidecar":
        assert address is None
    else:
        assert address is not None
        assert address["valueFrom"] == {"secretKeyRef": secret}
        assert variables["OFFRAILS_ARCHIVE_BYTES_MAX"]["value"] == str(3 << 30)


def test_decisions_have_a_port(tmp_path: Path) -> None:
    """`decide` opens port 4320 of the Service; in a sidecar it stays in the pod, and a fleet refuses it."""
    own = given(tmp_path, decide={"enabled": True})
    for mode in ("gateway", "edge", "sidecar"):
        resources = rendered(mode, own)
        monitor = monitor_of(workload_of(resources))
        env = {each["name"]: each["value"] for each in monitor["env"]}
        ports = {each["name"]: each["containerPort"] for each in monitor["ports"]}
        assert ports["decide"] == 4320
        host = "127.0.0.1" if mode == "sidecar" else "0.0.0.0"
        assert env["OFFRAILS_DECIDE"] == f"{host}:4320"
        if mode != "sidecar":
            (service,) = [each for each in resources if each["kind"] == "Service"]
            (port,) = [each for each in service["spec"]["ports"] if each["name"] == "decide"]
            assert (port["port"], port["targetPort"]) == (4320, "decide")
            (policy,) = [each for each in resources if each["kind"] == "NetworkPolicy"]
            allowed = policy["spec"]["ingress"][0]["ports"]
            assert {"port": "decide", "protocol": "TCP"} in allowed
    done = template(CHART / "values-fleet.yaml", own)
    assert (done.returncode, "ask a gateway or a sidecar" in done.stderr) == (1, True)


@pytest.mark.parametrize("replicas", [1, 3, 12])
def test_the_router_of_the_chart_knows_every_monitor(replicas: int, tmp_path: Path) -> None:
    """It names each pod of the StatefulSet by the headless Service; agents reach it by the release's name."""
    resources = rendered("fleet", given(tmp_path, fleet={"replicas": replicas}))
    monitors = workload_of(resources)
    services = {
        each["metadata"]["name"]: each["spec"]
        for each in resources
        if each["kind"] == "Service"
    }
    (router,) = [each for each in resources if each["kind"] == "Deployment"]
    (routes,) = [
        each
        for each in resources
        if each["metadata"]["name"] == "offrails-router" and each["kind"] == "ConfigMap"
    ]
    made = yaml.safe_load(routes["data"]["route-by-session.yaml"])
    shipped = yaml.safe_load((CHART / "route-by-session.yaml").read_text())
    resolver = made["exporters"]["load_balancing"].pop("resolver")
    shipped["exporters"]["load_balancing"].pop("resolver")
    headless = monitors["spec"]["serviceName"]
    assert made == shipped
    assert monitors["spec"]["replicas"] == replicas
    assert services[headless]["clusterIP"] == "None"
    assert resolver["static"]["hostnames"] == [
        f"{monitors['metadata']['name']}-{number}.{headless}:4317" for number in range(replicas)
    ]
    pod = router["spec"]["template"]
    assert services["offrails"]["selector"].items() <= pod["metadata"]["labels"].items()
    selected = monitors["spec"]["selector"]["matchLabels"].items()
    assert not selected <= pod["metadata"]["labels"].items()
    plain = yaml.safe_load((KUBERNETES / "fleet" / "router.yaml").read_text())["spec"][
        "template"
    ]
    ours, theirs = (each["spec"]["containers"][0] for each in (pod, plain))
    for part in ("image", "args", "ports", "readinessProbe", "resources", "volumeMounts"):
        assert ours[part] == theirs[part], part
    (policy,) = [each for each in resources if each["kind"] == "NetworkPolicy"]
    allowed = [
        each["podSelector"]["matchLabels"]
        for each in policy["spec"]["ingress"][0]["from"]
        if "podSelector" in each
    ]
    assert any(labels.items() <= pod["metadata"]["labels"].items() for labels in allowed)
