"""The deployment files, checked by their own tools if these are installed, and by further rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.config.environment import ENVIRONMENT
from collector.config.memory_limit import fitted
from collector.config.settings.settings import Settings
from collector.config.sources import load
from collector.dialects.names.session_and_agent_keys import NO_SESSION
from collector.dialects.values.arguments import HIDDEN
from collector.sinks.alert.alert_links import links_of
from deploy.otelcol.route_by_session import ROUTE, configuration
from tests.end_to_end.deploy_tools import TOOLS, built

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
BUILT = ("gateway", "edge", "sidecar/example", "fleet")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""In C, where it is there: a tenth of the time."""
SCRAPE_SECONDS = 15
"""How often the monitors that are shipped are scraped."""
YAML = sorted(
    file
    for folder in (DEPLOY, ROOT / "grafana")
    for file in folder.rglob("*.y*ml")
    # generated or held by promtool; Helm's templates are no YAML yet
    if not {"prometheus", "alertmanager", "templates", "rules"} & set(file.parts)
)
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
LINT = "{extends: default, rules: {line-length: {max: 160}, document-start: disable, braces: {min-spaces-inside: 0, max-spaces-inside: 1}, brackets: {max-spaces-inside: 1}, comments: {min-spaces-from-content: 1}, truthy: disable, indentation: {indent-sequences: whatever}}}"


def tool(name: str) -> str:
    """A program, or the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (make validate-deploy brings its own)")
    return found


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=50, check=False
    )


def kustomized(folder: str | Path) -> list[dict[str, Any]]:
    """The resources that kustomize makes of a folder."""
    return [each for each in yaml.load_all(_kustomized(folder), LOADER) if each]


@cache
def _kustomized(folder: str | Path) -> str:
    own = shutil.which("kustomize", path=TOOLS)
    command = (own, "build") if own else (tool("kubectl"), "kustomize")
    done = run(*command, KUBERNETES / folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def one(resources: list[dict[str, Any]], *kinds: str) -> dict[str, Any]:
    (found,) = [each for each in resources if each["kind"] in kinds]
    return found


def workload_of(resources: list[dict[str, Any]]) -> dict[str, Any]:
    """The resource whose pods have the monitor."""
    kinds = ("Deployment", "DaemonSet", "StatefulSet")
    found = [each for each in resources if each["kind"] in kinds]
    (workload,) = [each for each in found if each["metadata"]["name"] != "offrails-router"]
    return workload


def monitor_of(workload: dict[str, Any]) -> dict[str, Any]:
    """The monitor's container, wherever it is in the pod."""
    pod = workload["spec"]["template"]["spec"]
    found = [*pod.get("containers", []), *pod.get("initContainers", [])]
    (container,) = [each for each in found if each["name"] == "offrails"]
    return {**container, "pod": pod}


# --- images ---------------------------------------------------------------------------------------


def test_dockerfile_is_clean() -> None:
    """Hadolint has nothing to say."""
    done = run(tool("hadolint"), DOCKERFILE)
    assert (done.returncode, done.stdout) == (0, "")


def test_image_runs_as_a_number() -> None:
    """The last stage is small, has a numeric user, and knows settings that there are."""
    last = DOCKERFILE.read_text().rpartition("\nFROM ")[2]
    assert "USER 10001:10001" in last
    assert "HEALTHCHECK" not in last
    assert "pip" not in last
    assert set(re.findall(r"OFFRAILS_\w+", last)) <= set(ENVIRONMENT)
    settings = load(None, dict(re.findall(r"(OFFRAILS_\w+)=(\S+)", last)), {})
    assert settings.admin.startswith("127.0.0.1:")
    assert settings.receiver.grpc == "0.0.0.0:4317"


def test_image_has_all_it_copies() -> None:
    """Every path that is copied is there, and is let through by the ignore file."""
    ignored = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE.read_text(), re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}\n" in ignored, source


# --- compose --------------------------------------------------------------------------------------


def test_compose_is_closed_and_complete() -> None:
    """Ports are on the loopback, capabilities dropped, images pinned, and mounted files exist."""
    file = DEPLOY / "compose" / "compose.yaml"
    services = yaml.safe_load(file.read_text())["services"]
    for name, service in services.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert ":latest" not in service["image"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert not source.startswith(".") or (file.parent / source).exists(), mount
    given = set(services["offrails"]["environment"])
    assert given <= set(ENVIRONMENT), given - set(ENVIRONMENT)


def test_compose_hangs_together() -> None:
    """Volumes, services, build targets and addresses that are named are there."""
    folder = DEPLOY / "compose"
    made = yaml.safe_load((folder / "compose.yaml").read_text())
    services = made["services"]
    stages = set(re.findall(r"^FROM .* AS (\S+)$", DOCKERFILE.read_text(), re.MULTILINE))
    mounted = {
        mount.split(":")[0] for each in services.values() for mount in each.get("volumes", ())
    }
    assert {source for source in mounted if not source.startswith(".")} == set(made["volumes"])
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services), name
        if "build" in service:
            assert service["build"]["target"] in stages, name
            assert (folder / service["build"]["context"] / "pyproject.toml").exists(), name
        else:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name
    texts = [(folder / name).read_text() for name in ("compose.yaml", "prometheus.yml")]
    named = re.findall(r"(?:http://|\")([a-z]+):\d+", "\n".join(texts))
    assert set(named) - {"localhost"} <= set(services)
    grafana = (ROOT / "grafana" / "provisioning" / "datasources" / "offrails.yaml").read_text()
    assert set(re.findall(r"\$\{?([A-Z_]+)", grafana)) <= set(
        services["grafana"]["environment"]
    )


def test_alerts_of_compose_lead_to_session_and_board() -> None:
    """The links of a direct alert use published addresses and existing pages."""
    services = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())["services"]
    given = services["offrails"]["environment"]
    wanted = {k: v for k, v in given.items() if "_ALERTS_" in k or k == "OFFRAILS_PUBLIC_URL"}
    settings = load(None, wanted, {})
    alerts, links = settings.alerts, links_of(settings)
    targets = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())
    (scraped,) = targets["scrape_configs"][0]["static_configs"][0]["targets"]
    board = re.fullmatch(r"http://localhost:3000/d/([\w-]+)\?(.*)", alerts.dashboard_url)

    assert links.session == "http://localhost:4319/#/{namespace}/{session}"
    assert links.runbook == "http://localhost:4319/runbooks/{alert}"
    assert "127.0.0.1:4319:4319" in services["offrails"]["ports"]
    assert "127.0.0.1:3000:3000" in services["grafana"]["ports"]
    assert board is not None
    assert (ROOT / "grafana" / "dashboards" / f"{board[1]}.json").exists()
    assert board[2] == "var-agent={agent}&var-spec={spec}"
    assert alerts.labels == {"instance": scraped}


def test_every_deployment_links_its_alerts() -> None:
    """Wherever pages are sent, they lead to the session view, a runbook and a board."""
    paging = [
        file
        for file in DEPLOY.rglob("*.yaml")
        if re.search(r"ALERTS_ALERTMANAGER|alertmanager: \[", file.read_text())
    ]
    assert len(paging) >= 8
    for file in paging:
        text = file.read_text()
        assert re.search(r"OFFRAILS_PUBLIC_URL|^public_url: ", text, re.MULTILINE), file
        assert re.search(
            r"OFFRAILS_ALERTS_DASHBOARD_URL|^  dashboard_url: ", text, re.MULTILINE
        )


def test_compose_is_read_by_compose() -> None:
    """`docker compose config` accepts it."""
    docker = tool("docker")
    if run(docker, "compose", "version").returncode != 0:
        pytest.skip("docker has no compose here")
    done = run(docker, "compose", "-f", DEPLOY / "compose" / "compose.yaml", "config", "-q")
    assert done.returncode == 0, done.stderr


def test_prometheus_of_compose_is_valid() -> None:
    """Promtool accepts the configuration, with the rules beside it."""
    done = run(
        tool("promtool"),
        "check",
        "config",
        "--syntax-only",
        DEPLOY / "compose" / "prometheus.yml",
    )
    assert done.returncode == 0, done.stderr


# --- Kubernetes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", BUILT)
def test_pods_are_hardened(folder: str) -> None:
    """Pods run as a numeric non-root user, read-only, without capabilities or token, with limits and probes."""
    monitor = monitor_of(workload_of(kustomized(folder)))
    secure = {**monitor["pod"].get("securityContext", {}), **monitor["securityContext"]}
    assert secure["runAsNonRoot"] is True
    assert secure["runAsUser"] == 10001
    assert secure["readOnlyRootFilesystem"] is True
    assert secure["allowPrivilegeEscalation"] is False
    assert secure["capabilities"] == {"drop": ["ALL"]}
    assert secure["seccompProfile"] == {"type": "RuntimeDefault"}
    assert monitor["pod"]["automountServiceAccountToken"] is False
    assert monitor["resources"]["limits"]["memory"]
    # A sidecar's startup and readiness probes would gate the agent in its pod.
    gates = {"startupProbe", "readinessProbe"}
    assert gates & set(monitor) == (set() if "sidecar" in folder else gates)
    assert monitor["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert {each["name"] for each in monitor.get("env", ())} <= set(ENVIRONMENT)


def test_the_sidecar_fails_open() -> None:
    """The agent starts even with bad specs, bad settings or a missing ConfigMap."""
    workload = one(kustomized("sidecar/example"), "Deployment")
    given = {each["name"]: each["value"] for each in monitor_of(workload)["env"]}
    assert given["OFFRAILS_SPECS_ON_ERROR"] == "start"
    volumes = workload["spec"]["template"]["spec"]["volumes"]
    [specs] = [each for each in volumes if each["name"] == "offrails-specs"]
    assert specs["configMap"]["optional"] is True
    mounts = monitor_of(workload)["volumeMounts"]
    [kept] = [each for each in mounts if each["mountPath"] == given["OFFRAILS_SPECS_LAST_GOOD"]]
    assert not kept.get("readOnly")
    assert [each["emptyDir"] for each in volumes if each["name"] == kept["name"]]


@pytest.mark.parametrize("folder", BUILT)
def test_selectors_find_their_pods(folder: str) -> None:
    """Services, policies, budgets and monitors select the pods that are made; ports have names."""
    resources = kustomized(folder)
    workload = workload_of(resources)
    labels = workload["spec"]["template"]["metadata"]["labels"]
    ports = {each["name"] for each in monitor_of(workload)["ports"]}
    for each in resources:
        spec = each.get("spec", {})
        wanted = {
            "Service": lambda spec: spec["selector"],
            "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
            "PodMonitor": lambda spec: spec["selector"]["matchLabels"],
            "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
        }.get(each["kind"])
        if (
            each["kind"] == "Service"
            and folder == "fleet"
            and each["metadata"]["name"] == "offrails"
        ):
            continue  # the router's
        if wanted is not None:
            assert wanted(spec).items() <= labels.items(), each["kind"]
        if each["kind"] == "Service":
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        if each["kind"] == "PodMonitor":
            assert spec["podMetricsEndpoints"][0]["port"] in ports


def with_components(folder: Path, *components: str) -> list[dict[str, Any]]:
    """The gateway with components, as an overlay of one's own has them."""
    overlay = KUBERNETES / f"overlay-{folder.name}"
    shutil.rmtree(overlay, ignore_errors=True)
    overlay.mkdir()
    try:
        (overlay / "kustomization.yaml").write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kustomize.config.k8s.io/v1beta1",
                    "kind": "Kustomization",
                    "resources": ["../gateway"],
                    "components": [f"../{each}" for each in components],
                }
            )
        )
        return kustomized(overlay)
    finally:
        shutil.rmtree(overlay)


@pytest.mark.parametrize("folder", ["gateway", "fleet", "edge"])
def test_rules_and_boards_come_with_the_monitors(folder: str) -> None:
    """An overlay has the rules for the operator, and each board with the label that Grafana's sidecar looks for."""
    resources = kustomized(folder)
    rules = one(resources, "PrometheusRule")
    shipped = yaml.safe_load((DEPLOY / "prometheus" / "rules" / "offrails.yml").read_text())
    assert rules["spec"] == shipped
    assert boards_of(resources) == {
        file.name: json.loads(file.read_text())
        for file in (ROOT / "grafana" / "dashboards").glob("*.json")
    }


def boards_of(resources: list[dict[str, Any]]) -> dict[str, Any]:
    """What Grafana's sidecar finds, by file name."""
    return {
        file: json.loads(text)
        for each in resources
        if each["kind"] == "ConfigMap"
        and each["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
        for file, text in each["data"].items()
    }


def test_components_open_what_they_need(tmp_path: Path) -> None:
    """Next hops and sinks are let out; an Ingress leads to ports that the Service and the policy have."""
    plain = one(kustomized("gateway"), "NetworkPolicy")["spec"]
    resources = with_components(tmp_path, "egress", "ingress-otlp", "ingress-session-view")
    policy = one(resources, "NetworkPolicy")["spec"]
    let_out = [rule for rule in policy["egress"] if rule not in plain["egress"]]
    assert [{port["port"] for port in rule["ports"]} for rule in let_out] == [{4317, 4318, 443}]
    let_in = [rule for rule in policy["ingress"] if rule not in plain["ingress"]]
    assert [rule["ports"][0]["port"] for rule in let_in] == ["otlp-http", "admin"]

    service = one(resources, "Service")["spec"]["ports"]
    ports = {port["name"] for port in monitor_of(workload_of(resources))["ports"]}
    for ingress in (each for each in resources if each["kind"] == "Ingress"):
        (rule,) = ingress["spec"]["rules"]
        (path,) = rule["http"]["paths"]
        name = path["backend"]["service"]["port"]["name"]
        assert name in {port["name"] for port in service} & ports
        assert [each["hosts"] for each in ingress["spec"]["tls"]] == [[rule["host"]]]
    given = {each["name"]: each["value"] for each in monitor_of(workload_of(resources))["env"]}
    assert set(given) <= set(ENVIRONMENT)
    assert load(None, given, {}).admin_auth.bearer.tokens_file is not None


def target_labels(monitor: dict[str, Any]) -> dict[str, str]:
    """The labels of a target that the operator and the PodMonitor's relabelings give it."""
    labels = {"namespace": "farm", "pod": "p", "container": "offrails", "job": "farm/offrails"}
    for step in monitor["spec"]["podMetricsEndpoints"][0]["relabelings"]:
        if step.get("action") == "labeldrop":
            labels = {k: v for k, v in labels.items() if not re.fullmatch(step["regex"], k)}
        else:
            sources = [labels[each] for each in step.get("sourceLabels", ())]
            labels[step["targetLabel"]] = step.get("replacement", ";".join(sources))
    return labels


@pytest.mark.parametrize("folder", BUILT)
def test_a_pods_namespace_does_not_keep_alerts_apart(folder: str) -> None:
    """The rules' alerts have the namespace of the calls or none, as direct ones; the pod's is beside it."""
    labels = target_labels(one(kustomized(folder), "PodMonitor"))
    assert "namespace" not in labels
    assert (labels["kubernetes_namespace"], labels["job"]) == ("farm", "offrails")


@pytest.mark.parametrize("folder", BUILT)
def test_resources_follow_their_schemas(folder: str, tmp_path: Path) -> None:
    """Kubernetes' own schemas know every field."""
    validate = tool("kubernetes-validate")
    own = [each for each in kustomized(folder) if "coreos" not in each["apiVersion"]]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(own))
    done = run(validate, "--strict", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_sidecar_is_native() -> None:
    """It starts before the agent and ends after it, and only the pod can send to it."""
    monitor = monitor_of(one(kustomized("sidecar/example"), "Deployment"))
    assert monitor in [
        {**each, "pod": monitor["pod"]} for each in monitor["pod"]["initContainers"]
    ]
    assert monitor["restartPolicy"] == "Always"
    given = {each["name"]: each["value"] for each in monitor["env"]}
    assert given["OFFRAILS_GRPC"].startswith("127.0.0.1")


def test_specs_are_the_bundled_ones() -> None:
    """The ConfigMap's spec is the spec of `dfa_specs`."""
    ours = (KUBERNETES / "specs" / "farm_rover.yaml").read_text()
    assert ours == (ROOT / "dfa_specs" / "farm_rover.yaml").read_text()


# --- systemd --------------------------------------------------------------------------------------


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there."""
    text = (DEPLOY / "systemd" / "offrails.service").read_text()
    file = tmp_path / "offrails.service"
    file.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text))
    return file


def test_unit_is_understood(unit: Path) -> None:
    """systemd-analyze knows every key (it only warns, so silence is what counts)."""
    done = run(tool("systemd-analyze"), "verify", "--man=no", unit)
    ours = [line for line in done.stderr.splitlines() if "offrails" in line]
    assert (done.returncode, ours) == (0, [])


def test_unit_is_hardened(unit: Path) -> None:
    """systemd-analyze rates its exposure below 2.5 of 10."""
    done = run(
        tool("systemd-analyze"),
        "security",
        "--offline=true",
        "--threshold=25",
        "--no-pager",
        unit,
    )
    assert done.returncode == 0, done.stdout[-400:] + done.stderr


# --- settings and Collectors ------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["systemd/offrails.yaml", "edge/offrails.yaml"])
def test_settings_files_are_settings(file: str) -> None:
    """The settings that are installed are read without a word."""
    assert isinstance(load(DEPLOY / file, {}, {}), Settings)


@pytest.mark.parametrize("name", ["tee", "route-by-session"])
def test_collector_pipelines_are_wired(name: str) -> None:
    """Each component that a pipeline names is defined, and each defined one is used."""
    found = yaml.safe_load((DEPLOY / "otelcol" / f"{name}.yaml").read_text())
    kinds = ("receivers", "processors", "exporters")
    connectors = set(found.get("connectors", ()))
    pipelines = found["service"]["pipelines"].values()
    for kind in kinds:
        used = {part for pipeline in pipelines for part in pipeline.get(kind, ())}
        assert used - connectors == set(found[kind]), kind
    fed = {part for pipeline in pipelines for part in pipeline["exporters"]} & connectors
    read = {part for pipeline in pipelines for part in pipeline["receivers"]} & connectors
    assert fed == read == connectors


def test_sessions_are_routed_by_what_names_them() -> None:
    """The file is what its generator makes of the monitor's own keys, and is the router's, too."""
    text = (DEPLOY / "otelcol" / "route-by-session.yaml").read_text()
    keys = Settings().sessions.id_attributes
    assert text == configuration(keys)
    assert text == (KUBERNETES / "fleet" / "route-by-session.yaml").read_text()
    found = yaml.safe_load(text)
    exporter = found["exporters"]["load_balancing"]
    assert (exporter["routing_key"], exporter["routing_attributes"]) == ("attributes", [ROUTE])
    groups = found["processors"]["transform"]["trace_statements"]
    assert [re.findall(r'String\(span.attributes\["(.+?)"', group["statements"][0]) for group in groups[: len(keys)]] == [[key] for key in keys]  # fmt: skip


def test_hidden_ids_route_nothing() -> None:
    """The router and the monitor reject the same masked ids."""
    (found,) = set(re.findall(r'"(\^\(.*)"', configuration(["session.id"])))
    none = re.compile(found.replace("\\\\", "\\"))
    values = [*HIDDEN, f"{HIDDEN[1]}password]", NO_SESSION, ""]
    assert all(none.search(value) for value in values)
    assert not any(none.search(value) for value in ("s-1", "[mine]", "no_session_id", "7"))


def test_the_router_knows_every_monitor() -> None:
    """It names each pod of the StatefulSet by the headless Service, and agents reach it at the gateway's name."""
    fleet = kustomized("fleet")
    monitors, headless = one(fleet, "StatefulSet")["spec"], "offrails-headless"
    services = {
        each["metadata"]["name"]: each["spec"] for each in fleet if each["kind"] == "Service"
    }
    found = yaml.safe_load((KUBERNETES / "fleet" / "route-by-session.yaml").read_text())
    resolver = found["exporters"]["load_balancing"]["resolver"]
    assert monitors["serviceName"] == headless
    assert services[headless]["clusterIP"] == "None"
    assert resolver["static"]["hostnames"] == [
        f"offrails-{number}.{headless}:4317" for number in range(monitors["replicas"])
    ]
    router = one(fleet, "Deployment")["spec"]["template"]
    assert services["offrails"]["selector"].items() <= router["metadata"]["labels"].items()
    ports = [each["name"] for each in router["spec"]["containers"][0]["ports"]]
    assert [each["targetPort"] for each in services["offrails"]["ports"]] == ports
    (policy,) = [each for each in fleet if each["kind"] == "NetworkPolicy"]
    allowed = [
        each["podSelector"]["matchLabels"]
        for each in policy["spec"]["ingress"][0]["from"]
        if "podSelector" in each
    ]
    assert any(labels.items() <= router["metadata"]["labels"].items() for labels in allowed)


@pytest.mark.parametrize("name", ["tee", "route-by-session"])
def test_a_real_collector_takes_the_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`otelcol validate` knows every part and every key."""
    monkeypatch.setenv("TRACES_ENDPOINT", "127.0.0.1:4999")
    done = run(built("otelcol"), "validate", f"--config={DEPLOY / 'otelcol' / f'{name}.yaml'}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_monitor_is_before_sampling() -> None:
    """The monitor's copy is unsampled, has its own queue, and is never retried."""
    found = yaml.safe_load((DEPLOY / "otelcol" / "tee.yaml").read_text())
    to_monitor = found["service"]["pipelines"]["traces/monitor"]
    assert not [part for part in to_monitor["processors"] if "sampl" in part]
    exporter = found["exporters"]["otlp/offrails"]
    assert exporter["sending_queue"]["enabled"]
    assert exporter["retry_on_failure"] == {"enabled": False}


def test_scrapes_are_let_in_whole() -> None:
    """The scrape limit is above what a full monitor exports, or Prometheus would drop the whole scrape."""
    limits = [
        int(found)
        for file in DEPLOY.rglob("*.y*ml")
        for found in re.findall(r"sample_?[lL]imit: (\d+)", file.read_text())
    ]
    assert len(limits) == 5
    assert min(limits) > 150 * Settings().metrics_pairs_max + 10_000


# --- all of it ------------------------------------------------------------------------------------


def test_yaml_is_tidy() -> None:
    """Yamllint has nothing to say."""
    done = run(tool("yamllint"), "-s", "-d", LINT, *YAML)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "name", sorted(each.name for each in DEPLOY.iterdir() if each.is_dir())
)
def test_every_folder_says_when_to_choose_it(name: str) -> None:
    """Each folder has a README that says when to choose it and where to sample; its links resolve."""
    file = DEPLOY / name / "README.md"
    text = file.read_text()
    assert re.search(r"[Cc]hoose it", text)
    assert re.search(r"[Ss]ampling\*{0,2} goes after", text)
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert "://" in link or (file.parent / link).exists(), link


# --- what every manifest has ------------------------------------------------------------------------


@pytest.mark.parametrize("folder", BUILT)
def test_pods_deliver_pages_and_are_scraped_when_they_end(folder: str) -> None:
    """A direct sink, and a last scrape within the time that the pod has to end."""
    monitor = monitor_of(workload_of(kustomized(folder)))
    given = {each["name"]: each["value"] for each in monitor["env"]}
    assert given["OFFRAILS_ALERTS_ALERTMANAGER"]
    last, drain = float(given["OFFRAILS_LAST_SCRAPE_SECONDS"]), Settings().drain_seconds
    assert last > SCRAPE_SECONDS
    assert monitor["pod"]["terminationGracePeriodSeconds"] >= last + 4 * drain + 5


@pytest.mark.parametrize("folder", BUILT)
def test_bounds_follow_from_the_memory_of_the_pod(folder: str) -> None:
    """None is set beside the limit, and what follows has room for what exporters send (4 MiB)."""
    monitor = monitor_of(workload_of(kustomized(folder)))
    limit = int(monitor["resources"]["limits"]["memory"].removesuffix("Mi")) << 20
    bounds = fitted(Settings(), limit).settings
    assert bounds.receiver.max_request_bytes >= 4 << 20
    assert not [each for each in monitor["env"] if each["name"].endswith("_BYTES")]


@pytest.mark.parametrize("folder", ["systemd", "edge"])
def test_services_deliver_pages_and_are_scraped_when_they_end(folder: str) -> None:
    """The same of the settings files."""
    settings = load(DEPLOY / folder / "offrails.yaml", {}, {})
    assert settings.alerts.alertmanager
    assert settings.last_scrape_seconds > SCRAPE_SECONDS
    unit = (DEPLOY / "systemd" / "offrails.service").read_text()
    [kill] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(kill) >= settings.last_scrape_seconds + 4 * settings.drain_seconds + 5
