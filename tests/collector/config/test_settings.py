"""Settings: a file, variables and options, and what is said when they are wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from collector.config.environment import ENVIRONMENT, unknown
from collector.config.masking import as_yaml
from collector.config.section import leaves
from collector.config.settings.forward import NextHopSettings
from collector.config.settings.settings import Settings
from collector.config.sources import SettingsError, load, place


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes a settings file and returns its path."""

    def write(text: str) -> Path:
        file = tmp_path / "offrails.yaml"
        file.write_text(text)
        return file

    return write


def problem(
    file: Path | None = None,
    environ: dict[str, str] | None = None,
    options: dict[tuple[str, ...], Any] | None = None,
) -> str:
    with pytest.raises(SettingsError) as caught:
        load(file, environ or {}, options or {})
    return str(caught.value)


def test_the_defaults_are_on_loopback() -> None:
    """By default, no port is reachable from other hosts."""
    settings = load(None, {}, {})

    assert settings == Settings()
    places = (
        settings.receiver.grpc,
        settings.receiver.http,
        settings.metrics,
        settings.admin,
    )
    assert places == ("127.0.0.1:4317", "127.0.0.1:4318", "127.0.0.1:9464", "127.0.0.1:4319")
    assert (settings.history, settings.show_arguments) == ("auto", False)


@pytest.mark.parametrize(
    ("text", "environ", "options", "told"),
    [
        (
            "alerts:\n  webhook: http://a:1/hook\n",
            {"OFFRAILS_ALERTS_WEBHOOK_SECRET": "s"},
            {},
            ":2:3: alerts.webhook: expected a mapping of keys",
        ),
        ("receiver: [1]\n", {}, {("receiver", "grpc"): "off"}, ":1:1: receiver: expected"),
    ],
)
def test_what_is_no_section_is_not_overridden(
    written: Any, text: str, environ: Any, options: Any, told: str
) -> None:
    """If the file has no section there, a variable or option for one of its keys is refused."""
    assert told in problem(written(text), environ, options)


def test_the_place_of_a_setting_is_told_wherever_it_was_given(tmp_path: Path) -> None:
    """An entry of a list has its line in the file, or its option; a default has no place."""
    file = tmp_path / "c.yaml"
    file.write_text("forward:\n  - endpoint: http://a:1\n  - endpoint: http://b:2\n")
    key = "forward[1].endpoint"
    assert place(key, file, {}, {}) == f"{file}:3:5"
    assert place(key, None, {}, {("forward",): ["http://a:1"]}) == "--forward"
    assert place(key, None, {"OFFRAILS_FORWARD": "http://a:1"}, {}) == "OFFRAILS_FORWARD"
    assert place("receiver.tls.cert", None, {}, {}) == "the settings"


def test_a_section_without_keys_is_filled(written: Any) -> None:
    """Variables fill an empty section as if it were missing."""
    settings = load(written("receiver:\n"), {"OFFRAILS_GRPC": "a:1"}, {})
    assert settings.receiver.grpc == "a:1"


def test_blanks_around_the_names_of_a_list_are_none_of_theirs() -> None:
    """A space behind a comma is how people write."""
    environ = {
        "OFFRAILS_SESSIONS_ID_ATTRIBUTES": "x.id, session.id ,",
        "OFFRAILS_ALERTS_ALERTMANAGER": "http://a:1, http://b:1",
    }
    settings = load(None, environ, {})
    assert settings.sessions.id_attributes == ("x.id", "session.id")
    assert settings.alerts.alertmanager == ("http://a:1", "http://b:1")


@pytest.mark.parametrize("text", ["a.yaml:", ":a.yaml", "a.yaml::", "::a.yaml: :"])
def test_an_empty_path_is_not_the_working_directory(text: str) -> None:
    """An empty part of a list of paths is left out, wherever it stands."""
    environ = {"OFFRAILS_SPECS": text.replace(":", os.pathsep)}
    assert load(None, environ, {}).specs == (Path("a.yaml"),)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OFFRAILS_SPECS", os.pathsep),
        ("OFFRAILS_SPECS", f" {os.pathsep}{os.pathsep} "),
        ("OFFRAILS_ALERTS_ALERTMANAGER", ","),
        ("OFFRAILS_SESSIONS_ID_ATTRIBUTES", " , "),
        ("OFFRAILS_RECORD_REDACT", ","),
        ("OFFRAILS_RECORD_FOLDER", " "),
        ("OFFRAILS_RECEIVER_TLS_CLIENT_CA", " "),
    ],
)
def test_a_variable_of_separators_alone_is_refused(name: str, text: str) -> None:
    """A list variable without any item is refused."""
    assert problem(environ={name: text}).startswith(f"{name}: ")


@pytest.mark.parametrize(
    "text", ["specs: ['']\n", "specs: [a, ' ']\n", "record: {folder: ''}\n"]
)
def test_an_empty_path_in_a_file_is_refused(written: Any, text: str) -> None:
    """An empty path is refused: it must not mean the working directory."""
    assert "expected" in problem(written(text)) or "found an empty text" in problem(
        written(text)
    )


def test_later_sources_win(written: Any) -> None:
    """A file is overridden by variables, and they by options, key by key."""
    file = written("receiver: {grpc: 'a:1', http: 'a:2'}\nmetrics: a:3\nadmin: a:4\n")
    environ = {"OFFRAILS_HTTP": "b:2", "OFFRAILS_METRICS": "b:3", "OFFRAILS_ADMIN": "b:4"}
    options = {("metrics",): "c:3", ("receiver", "grpc"): "off"}

    settings = load(file, environ, options)

    assert (settings.receiver.grpc, settings.receiver.http) == ("off", "b:2")
    assert (settings.metrics, settings.admin) == ("c:3", "b:4")


def test_every_setting_has_a_variable() -> None:
    """OFFRAILS_ and the setting's path; the listeners also by the names of their options."""
    values = {
        "OFFRAILS_SPECS": f"a{os.pathsep}b",
        "OFFRAILS_RELOAD_WATCH": "false",
        "OFFRAILS_RECEIVER_GRPC": "off",
        "OFFRAILS_RECEIVER_GRPC_SERVER": "grpcio",
        "OFFRAILS_RECEIVER_HTTP": "off",
        "OFFRAILS_RECEIVER_MAX_ATTRIBUTE_BYTES": "20000",
        "OFFRAILS_RECEIVER_MAX_REQUEST_BYTES": "2048",
        "OFFRAILS_RECEIVER_MAX_INFLIGHT_BYTES": "2048",
        "OFFRAILS_RECEIVER_MAX_INFLIGHT_REQUESTS": "7",
        "OFFRAILS_RECEIVER_MAX_CONNECTIONS": "7",
        "OFFRAILS_RECEIVER_HEAD_SECONDS": "1",
        "OFFRAILS_RECEIVER_BODY_SECONDS": "1",
        "OFFRAILS_RECEIVER_TLS_CERT": "cert.pem",
        "OFFRAILS_RECEIVER_TLS_KEY": "key.pem",
        "OFFRAILS_RECEIVER_TLS_CLIENT_CA": "ca.pem",
        "OFFRAILS_RECEIVER_AUTH_BEARER_TOKENS_FILE": "tokens",
        "OFFRAILS_RECEIVER_CORS_ORIGINS": "https://a.example,https://b.example",
        "OFFRAILS_RECEIVER_KEEPALIVE_PING_SECONDS": "1",
        "OFFRAILS_RECEIVER_KEEPALIVE_PING_TIMEOUT_SECONDS": "1",
        "OFFRAILS_RECEIVER_KEEPALIVE_PING_MIN_SECONDS": "1",
        "OFFRAILS_RECEIVER_KEEPALIVE_MAX_IDLE_SECONDS": "1",
        "OFFRAILS_RECEIVER_KEEPALIVE_MAX_AGE_SECONDS": "1",
        "OFFRAILS_RECEIVER_KEEPALIVE_MAX_AGE_GRACE_SECONDS": "1",
        "OFFRAILS_RECEIVER_REFLECTION": "true",
        "OFFRAILS_METRICS": "off",
        "OFFRAILS_METRICS_PAIRS_MAX": "7",
        "OFFRAILS_METRICS_AGENTS_MAX": "9",
        "OFFRAILS_ADMIN_AUTH_ROLES": "ada=viewer",
        "OFFRAILS_ADMIN_AUTH_NAMESPACES": "ada=team-a,ada=team-b",
        "OFFRAILS_ADMIN_AUTH_PROXY_HEADER": "X-Auth-Request-User",
        "OFFRAILS_ADMIN_AUTH_PROXY_ROLES_HEADER": "X-Auth-Request-Groups",
        "OFFRAILS_ADMIN_AUTH_PROXY_FROM": "10.0.3.0/24,::1",
        "OFFRAILS_METRICS_NAMESPACE_LABEL": "never",
        "OFFRAILS_SESSIONS_MAX_BYTES": "10000000",
        "OFFRAILS_SESSIONS_THINGS_MAX": "7000",
        "OFFRAILS_SESSIONS_SHARED_THINGS_MAX": "8000",
        "OFFRAILS_SESSIONS_MAX_SHARED_THINGS_BYTES": "9000000",
        "OFFRAILS_SESSIONS_MAX_ARGUMENT_BYTES": "1000000",
        "OFFRAILS_SESSIONS_MAX_SPAN_BYTES": "100000000",
        "OFFRAILS_ALERTS_JOINED": "silent",
        "OFFRAILS_ADMIN": "off",
        "OFFRAILS_DECIDE_LISTEN": "off",
        "OFFRAILS_DECIDE_CONFIRM_SECONDS": "7",
        "OFFRAILS_DECIDE_MAX_REQUEST_BYTES": "2000",
        "OFFRAILS_DECIDE_MAX_CALL_BYTES": "2000000",
        "OFFRAILS_DECIDE_NAMES": "ours.example",
        "OFFRAILS_DECIDE_TLS_CERT": "cert",
        "OFFRAILS_DECIDE_TLS_KEY": "key",
        "OFFRAILS_DECIDE_TLS_CLIENT_CA": "client_ca",
        "OFFRAILS_DECIDE_AUTH_BEARER_TOKENS_FILE": "tokens",
        "OFFRAILS_DECIDE_AUTH_BEARER_LIMITS_REQUESTS_PER_SECOND": "1",
        "OFFRAILS_DECIDE_AUTH_BEARER_LIMITS_BYTES_PER_SECOND": "1",
        "OFFRAILS_DECIDE_AUTH_BEARER_LIMITS_INFLIGHT_BYTES": "2000",
        "OFFRAILS_SESSIONS_MAX": "7",
        "OFFRAILS_SESSIONS_REMEMBER_SECONDS": "60",
        "OFFRAILS_SESSIONS_IDLE_SECONDS": "7.5",
        "OFFRAILS_SESSIONS_WINDOW_SECONDS": "0.5",
        "OFFRAILS_SESSIONS_HOLD_SECONDS": "1",
        "OFFRAILS_SESSIONS_ID_ATTRIBUTES": "my.id,session.id",
        "OFFRAILS_SESSIONS_NAMESPACE_ATTRIBUTES": "team",
        "OFFRAILS_SESSIONS_SPAN_ATTRIBUTES_BIND": "team",
        "OFFRAILS_SESSIONS_AGENT_ATTRIBUTES": "my.agent",
        "OFFRAILS_SESSIONS_REQUESTED": "never",
        "OFFRAILS_SESSIONS_GROUP_BY_ANSWER": "false",
        "OFFRAILS_HISTORY": "complete",
        "OFFRAILS_ADMIN_NAMES": "monitor.example",
        "OFFRAILS_TRACE_URL": "https://traces.example/{trace_id}",
        "OFFRAILS_ALERTS_ALERTMANAGER": "http://a:9093,http://b:9093",
        "OFFRAILS_ALERTS_WEBHOOK_URL": "https://hook.example/x",
        "OFFRAILS_ALERTS_WEBHOOK_SECRET": "key",
        "OFFRAILS_ALERTS_JSONL": "verdicts.jsonl",
        "OFFRAILS_ALERTS_OTLP_ENDPOINT": "http://c:4318",
        "OFFRAILS_ALERTS_SETTLE_SECONDS": "1",
        "OFFRAILS_ALERTS_REPEAT_SECONDS": "1",
        "OFFRAILS_ALERTS_PAGES_PER_MINUTE": "7",
        "OFFRAILS_ALERTS_QUEUE": "7",
        "OFFRAILS_ALERTS_TIMEOUT_SECONDS": "1",
        "OFFRAILS_ALERTS_SESSION_URL": "https://a.example/{session}",
        "OFFRAILS_ALERTS_RUNBOOK_URL": "https://a.example/{alert}",
        "OFFRAILS_RECORD_FOLDER": "spans",
        "OFFRAILS_RECORD_FILE_BYTES": "7",
        "OFFRAILS_RECORD_AGE_SECONDS": "7",
        "OFFRAILS_RECORD_TOTAL_BYTES": "7",
        "OFFRAILS_RECORD_REDACT": "a,b",
        "OFFRAILS_STATE_DIR": "state",
        "OFFRAILS_ARCHIVE_DIR": "archive",
        "OFFRAILS_ARCHIVE_KEEP": "12h",
        "OFFRAILS_ARCHIVE_KEEP_HARMFUL": "2w",
        "OFFRAILS_ARCHIVE_SESSIONS_MAX": "1000",
        "OFFRAILS_ARCHIVE_BYTES_MAX": "9000000",
        "OFFRAILS_JUDGES_ENDPOINT": "http://judge.example/v1",
        "OFFRAILS_JUDGES_MODEL": "m",
        "OFFRAILS_JUDGES_JUDGES": "LC,EE",
        "OFFRAILS_JUDGES_RUBRICS": "rubrics",
        "OFFRAILS_JUDGES_INSTRUCTIONS": "agents.md",
        "OFFRAILS_JUDGES_HARMFUL": "false",
        "OFFRAILS_JUDGES_DIVERGED": "false",
        "OFFRAILS_JUDGES_RISK": "0.5",
        "OFFRAILS_JUDGES_SHARE": "0.1",
        "OFFRAILS_JUDGES_EVIDENCE": "false",
        "OFFRAILS_JUDGES_KEEP_SECONDS": "1h",
        "OFFRAILS_JUDGES_KEEP_BYTES": "9000000",
        "OFFRAILS_JUDGES_TRANSCRIPT_TOKENS": "8000",
        "OFFRAILS_JUDGES_SEEN_SHARE": "0.5",
        "OFFRAILS_JUDGES_ENUM_IDS": "0",
        "OFFRAILS_JUDGES_ANSWER_TOKENS": "1000",
        "OFFRAILS_JUDGES_TEMPERATURE": "0",
        "OFFRAILS_JUDGES_SEED": "7",
        "OFFRAILS_JUDGES_TIMEOUT_SECONDS": "30",
        "OFFRAILS_JUDGES_BUDGET_TOKENS": "1000000",
        "OFFRAILS_JUDGES_BUDGET_MONEY": "5",
        "OFFRAILS_JUDGES_BUDGET_SECONDS": "2d",
        "OFFRAILS_JUDGES_PRICES": "prices.yaml",
        "OFFRAILS_JUDGES_CANARIES": "10",
        "OFFRAILS_JUDGES_SECOND_MODEL": "n",
        "OFFRAILS_JUDGES_SECOND_ENDPOINT": "http://other.example/v1",
        "OFFRAILS_JUDGES_AT_ONCE": "3",
        "OFFRAILS_JUDGES_QUEUE": "50",
        "OFFRAILS_STATE_DURABILITY": "power",
        "OFFRAILS_STATE_BYTES_MAX": "2000000",
        "OFFRAILS_STATE_KEEP_SECONDS": "60",
        "OFFRAILS_STATE_ON_ERROR": "continue",
        "OFFRAILS_STATE_SNAPSHOT_SECONDS": "30",
        "OFFRAILS_STATE_STRICT": "true",
        "OFFRAILS_STATE_BRIDGED_SECONDS": "60",
        "OFFRAILS_SHOW_ARGUMENTS": "true",
        "OFFRAILS_RECEIVER_AUTH_BEARER_LIMITS_REQUESTS_PER_SECOND": "1",
        "OFFRAILS_RECEIVER_AUTH_BEARER_LIMITS_BYTES_PER_SECOND": "1",
        "OFFRAILS_RECEIVER_AUTH_BEARER_LIMITS_INFLIGHT_BYTES": "2000",
        "OFFRAILS_RECEIVER_NAMES": "ours.example",
        "OFFRAILS_METRICS_NAMES": "ours.example",
        "OFFRAILS_METRICS_TLS_CERT": "cert",
        "OFFRAILS_METRICS_TLS_KEY": "key",
        "OFFRAILS_METRICS_TLS_CLIENT_CA": "client_ca",
        "OFFRAILS_ADMIN_AUTH_BEARER_TOKENS_FILE": "tokens",
        "OFFRAILS_ADMIN_TLS_CERT": "cert",
        "OFFRAILS_ADMIN_TLS_KEY": "key",
        "OFFRAILS_ADMIN_TLS_CLIENT_CA": "client_ca",
        "OFFRAILS_REDACT_REPLACE": "a,b",
        "OFFRAILS_REDACT_HASH": "c",
        "OFFRAILS_REDACT_KEY_FILE": "key",
        "OFFRAILS_READY_FULL_SECONDS": "4",
        "OFFRAILS_READY_FAILING_SINKS": "true",
        "OFFRAILS_DRAIN_SECONDS": "1",
        "OFFRAILS_LOG_LEVEL": "debug",
        "OFFRAILS_LOG_VERDICT_LINES_PER_SECOND": "2",
        "OFFRAILS_LOG_SESSION_LINES_PER_SECOND": "3",
        "OFFRAILS_LOG_NAMESPACE_LINES_PER_SECOND": "4",
        "OFFRAILS_LOG_BURST_SECONDS": "5",
        "OFFRAILS_TELEMETRY_OTLP_ENDPOINT": "http://d:4318",
        "OFFRAILS_TELEMETRY_INTERVAL_SECONDS": "7",
        "OFFRAILS_TELEMETRY_PAIRS": "true",
        "OFFRAILS_TELEMETRY_TRACES": "true",
        "OFFRAILS_TELEMETRY_TRACES_RATIO": "0.5",
        "OFFRAILS_TELEMETRY_TRACES_PER_SECOND": "3",
        "OFFRAILS_ALERTS_GROUP_BY": "session",
        "OFFRAILS_ALERTS_LABELS": "cluster=far,instance=farm:9464",
        "OFFRAILS_ALERTS_RESOLVE_SECONDS": "7",
        "OFFRAILS_ALERTS_DASHBOARD_URL": "https://g.example/?agent={agent}",
        "OFFRAILS_SPECS_ON_ERROR": "start",
        "OFFRAILS_SPECS_LAST_GOOD": "kept",
        "OFFRAILS_PUBLIC_URL": "https://offrails.example",
        "OFFRAILS_LAST_SCRAPE_SECONDS": "20",
        "OFFRAILS_MEMORY_LIMIT": "1000000000",
        "OFFRAILS_FORWARD": "http://tempo:4318,http://other:4318",
    }
    for sink in ("ALERTMANAGER", "WEBHOOK", "OTLP"):
        here = f"OFFRAILS_ALERTS_{sink}_HTTP"
        values[f"{here}_CA_FILE"] = "ca.pem"
        values[f"{here}_CLIENT_CERT_FILE"] = "cert.pem"
        values[f"{here}_CLIENT_KEY_FILE"] = "key.pem"
        values[f"{here}_PROXY"] = "http://proxy.example:3128"
        values[f"{here}_HEADERS"] = "x-tenant=farm,x-other=a=b"
        if sink == "OTLP":
            values[f"{here}_BEARER_TOKEN_FILE"] = "token"
        else:
            values[f"{here}_USERNAME"], values[f"{here}_PASSWORD_FILE"] = "rover", "password"
    values["OFFRAILS_HISTORY_MARK"] = "marks"
    settings = load(None, values, {})
    assert settings.alerts.webhook_http.plain_headers == {"x-tenant": "farm", "x-other": "a=b"}
    left_out = {"OFFRAILS_GRPC", "OFFRAILS_HTTP", "OFFRAILS_DECIDE", "OFFRAILS_ARCHIVE_URL"}
    for sink, names in (
        ("ALERTMANAGER", ("BEARER_TOKEN_FILE",)),
        ("WEBHOOK", ("BEARER_TOKEN_FILE",)),
        ("OTLP", ("USERNAME", "PASSWORD_FILE")),
    ):  # a user and a token exclude each other
        left_out |= {f"OFFRAILS_ALERTS_{sink}_HTTP_{name}" for name in names}

    assert set(ENVIRONMENT) - set(values) == left_out
    changed = settings.model_dump(mode="json")
    given = {*values, "OFFRAILS_GRPC", "OFFRAILS_HTTP"}
    for path in (path for name, path in ENVIRONMENT.items() if name in given):
        value: Any = changed
        default: Any = Settings().model_dump(mode="json")
        for key in path:
            value, default = value[key], default[key]
        assert value != default, path
    assert settings.specs == (Path("a"), Path("b"))
    assert settings.sessions.id_attributes == ("my.id", "session.id")


def test_next_hops_are_a_list_of_sections(written: Any) -> None:
    """A text stands for a section with this endpoint; a fault is at its place in the list."""
    text = "forward: [http://tempo:4318, {endpoint: https://u:p@b, protocol: grpc}]\n"
    first, second = load(written(text), {}, {}).forward

    assert first == NextHopSettings(endpoint="http://tempo:4318")
    assert (second.protocol, second.label) == ("grpc", "b")


@pytest.mark.parametrize(
    ("hop", "said"),
    [
        ("{endpont: a}", ":1:12: forward.endpont: there is no such setting; did you mean endpoint?"),
        ("{name: a}", ":1:11: forward.endpoint: Field required"),
        ("tempo:4318", ":1:11: forward: expected a URL that begins with http"),
        ("'http://a/?key=b'", "forward: expected a URL without query"),
        ("{endpoint: http://a, signals: [tracs]}", "forward.signals: Input should be 'traces',"),
        ("{endpoint: http://a, signals: []}", "forward.signals: "),
        ("{endpoint: http://a, headers_from_sender: [host]}", "host: each hop has its own"),
        ("{endpoint: http://a, headers_from_sender: [a b]}", "'a b' is no name of a header"),
        ("{endpoint: http://a, queue_bytes: 1}", "forward.queue_bytes: Input should be greater"),
        (
            "{endpoint: http://u@a, headers_from_sender: [Authorization]}",
            "authorization: expected it in headers or in headers_from_sender",
        ),
        ("{endpoint: http://a/b, protocol: grpc}", "expected an endpoint without a path"),
        ("{endpoint: http://u@a, bearer_token_file: t}", "expected the user in the endpoint or"),
        ("{endpoint: http://a, sync: true, on_full: drop}", "expected on_full: refuse"),
        ("{endpoint: http://a}, http://a", "two next hops of forward are a: give one a name"),
    ],
)  # fmt: skip
def test_bad_next_hops(written: Any, hop: str, said: str) -> None:
    """Each fault of a next hop is a sentence with its place."""
    with pytest.raises(SettingsError) as told:
        load(written(f"forward: [{hop}]\n"), {}, {})

    assert said in str(told.value)


def test_an_empty_variable_is_no_setting() -> None:
    """A deployment may leave a variable empty."""
    assert load(None, {"OFFRAILS_HISTORY": ""}, {}) == Settings()


def test_foreign_variables_are_left_alone() -> None:
    """An orchestrator sets variables named after services: OFFRAILS_PORT is not ours."""
    environ = {"OFFRAILS_SERVICE_HOST": "10.0.0.1", "OFFRAILS_PORT": "tcp://10.0.0.1:4317"}

    assert load(None, environ, {}) == Settings()


@pytest.mark.parametrize("word", ["off", "OFF", "Off", "false"])
def test_off_is_off(written: Any, word: str) -> None:
    """`off` is read alike, whether YAML takes it for a text or a boolean."""
    assert load(written(f"metrics: {word}\n"), {}, {}).metrics == "off"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "histroy: complete\n",
            ":1:1: histroy: there is no such setting; did you mean history?",
        ),
        (
            "receiver: {tls: {crt: a}}\n",
            ":1:18: receiver.tls.crt: there is no such setting; did you mean cert?",
        ),
        ("sessions:\n  idle: 5\n", ":2:3: sessions.idle: there is no such setting"),
        ("sessions:\n  max: 0\n", ":2:3: sessions.max: Input should be greater"),
        ("sessions: {window_seconds: -1}\n", "sessions.window_seconds: "),
        ("sessions: {idle_seconds: .inf}\n", "sessions.idle_seconds: "),
        ("sessions: {idle_seconds: .nan}\n", "sessions.idle_seconds: "),
        ("receiver:\n", ":1:1: receiver: "),
        ("receiver: {tls: {cert: a}}\n", "receiver.tls: expected both cert and key"),
        (
            "alerts: {webhook_http: {username: a}}\n",
            "alerts.webhook_http: expected both username and",
        ),
        (
            "alerts: {webhook_http: {client_key_file: a}}\n",
            "client_key_file needs client_cert_file",
        ),
        (
            "alerts: {webhook_http: {proxy: 'socks5://a'}}\n",
            ".proxy: expected a URL that begins with http",
        ),
        (
            "alerts: {webhook_http: {headers: {host: a}}}\n",
            "'host' is no name of a header that can be set",
        ),
        (
            "alerts: {webhook_http: {headers: {x: é}}}\n",
            "x: expected a value in printable ASCII",
        ),
        (
            "alerts: {webhook: {url: 'http://a:b'}}\n",
            "expected a URL with a port from 0 to 65535",
        ),
        (
            "alerts: {alertmanager: ['http://me:pw@a'], alertmanager_http: {bearer_token_file: a}}\n",
            "alerts: expected the user in the URL or in alertmanager_http, not both",
        ),
        ("receiver: {tls: {client_ca: a}}\n", "receiver.tls: client_ca needs cert and key"),
        ("metrics: 9464\n", ":1:1: metrics: expected HOST:PORT"),
        ("admin: here\n", ":1:1: admin: expected HOST:PORT"),
        ("- a\n", ":1:1: expected a mapping of settings"),
        ("history: auto\nhistory: complete\n", ":2:1: "),
        ("a: [\n", ":2:"),
    ],
)
def test_wrong_files_name_line_and_key(written: Any, text: str, said: str) -> None:
    """The sentence begins with file, line and column, then the key."""
    file = written(text)

    assert f"{file}" in problem(file)
    assert said in problem(file)


def test_all_problems_of_settings_are_reported_at_once(written: Any) -> None:
    """A line each, whatever their source."""
    file = written("metrics: x\n")

    said = problem(file, {"OFFRAILS_HISTORY": "x"}, {("admin",): "x"}).splitlines()

    assert [line.split(": ")[0] for line in said] == [
        f"{file}:1:1",
        "--admin",
        "OFFRAILS_HISTORY",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sessions: {max: x}", "a valid integer, unable to parse string as an integer"),
        ("sessions: {max: 1.5}", "a valid integer, got a number with a fractional part"),
        ("sessions: {max: true}", "a valid integer"),
        ("sessions: {idle_seconds: x}", "a valid number, unable to parse string as a number"),
        ("sessions: {idle_seconds: true}", "a valid number"),
        (f"sessions: {{idle_seconds: 1{400 * '0'}.0}}", "a finite number"),
        (f"sessions: {{idle_seconds: 1{350 * '0'}}}", "a finite number"),
        ("show_arguments: perhaps", "a valid boolean, unable to interpret input"),
        ("show_arguments: 1.0", "a valid boolean, unable to interpret input"),
        ("specs: {a: 1}", "a valid list"),
        ("metrics_names: [1]", "a valid string"),
        ("sessions: 1", "a mapping of keys"),
        ("alerts: {otlp_http: {headers: 1}}", "a mapping"),
        ("alerts: {webhook: {secret: 1}}", "a valid string"),
        ("log_level: loud", "'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_the_message_says_what_was_expected(written: Any, text: str, said: str) -> None:
    """The message uses the terms of a settings file."""
    assert problem(written(text)).endswith(f": Input should be {said}")


@pytest.mark.parametrize(
    ("text", "value"), [("'7'", 7), ("7.0", 7), ("'7.0'", 7), ("' 7 '", 7)]
)
def test_a_text_may_stand_for_a_number(written: Any, text: str, value: int) -> None:
    """A file may write a number as text, like a variable."""
    found = load(written(f"sessions: {{max: {text}}}"), {}, {}).sessions.max
    assert (found, type(found)) == (value, int)


def test_every_fault_of_every_section_is_told(written: Any) -> None:
    """Every error is reported with its line and column, in the order of the settings."""
    file = written(
        "log: {burst_seconds: 0}\nreceiver:\n  head_seconds: x\n  grcp: a:1\nmax: 1\n"
    )
    assert [line.partition(f"{file}:")[2][:4] for line in problem(file).splitlines()] == [
        "3:3:",
        "4:3:",
        "1:7:",
        "5:1:",
    ]


def test_an_option_is_named_as_it_was_given() -> None:
    """--show-arguments, not show_arguments."""
    assert problem(options={("show_arguments",): "perhaps"}).startswith("--show-arguments: ")


@pytest.mark.parametrize(
    "text", ["", "\n \n", "# history: complete\n\n  # more\n", "---\n", "\ufeff#\n"]
)
def test_a_file_without_settings_sets_nothing(written: Any, text: str) -> None:
    """All of an example commented out, or a file yet to be written, is no fault."""
    file = written(text)

    assert load(file, {}, {}) == Settings()
    assert problem(file, {"OFFRAILS_HISTORY": "x"}).startswith("OFFRAILS_HISTORY: ")


def test_a_byte_order_mark_is_no_part_of_the_settings(written: Any) -> None:
    """Some editors write one."""
    assert load(written("\ufeffhistory: complete\n"), {}, {}).history == "complete"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a folder, not UTF-8: each is a sentence."""
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe")

    assert "No such file" in problem(tmp_path / "missing.yaml")
    assert "Is a directory" in problem(tmp_path)
    assert "expected UTF-8 text" in problem(binary)


def test_every_setting_says_what_it_is() -> None:
    """Every setting has a description, from which its reference page is made."""
    assert {leaf.path for leaf in leaves(Settings) if not leaf.description} == set()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("RECIEVER_GRPC", "OFFRAILS_RECIEVER_GRPC: unknown variable; did you mean OFFRAILS_RECEIVER_GRPC?"),
        ("GRCP", "OFFRAILS_GRCP: unknown variable; did you mean OFFRAILS_GRPC?"),
        ("CONFIGS", "OFFRAILS_CONFIGS: unknown variable; did you mean OFFRAILS_CONFIG?"),
        ("SPEC", "OFFRAILS_SPEC: unknown variable; did you mean OFFRAILS_SPECS?"),
        ("RECEIVER_COLOUR", "OFFRAILS_RECEIVER_COLOUR: unknown variable"),
    ],
)  # fmt: skip
def test_a_misspelt_variable_is_refused(name: str, told: str) -> None:
    """A variable that names no setting is an error, beside other errors, too."""
    assert problem(environ={f"OFFRAILS_{name}": "x"}) == told
    both = problem(environ={f"OFFRAILS_{name}": "x", "OFFRAILS_HISTORY": "some"})
    assert "OFFRAILS_HISTORY: history" in both
    assert told in both


@pytest.mark.parametrize(
    "name",
    [
        "PORT",
        "PORT_4317_TCP",
        "PORT_4317_TCP_ADDR",
        "SERVICE_HOST",
        "SERVICE_PORT_OTLP_GRPC",
        "METRICS_PORT",
        "RECEIVER_SERVICE_HOST",
        "RECEIVER_PORT_9464_TCP_PROTO",
    ],
)
def test_variables_of_kubernetes_are_not_ours(name: str) -> None:
    """Kubernetes sets variables named after services, perhaps with our prefix. They are ignored."""
    load(None, {f"OFFRAILS_{name}": "tcp://10.0.0.1:4317"}, {})
    assert unknown({f"OFFRAILS_{name}": "x"}) == []


def test_unknown_variables_with_our_prefix_are_reported() -> None:
    """They do not keep us from starting; empty ones are as good as unset."""
    environ = {
        "OFFRAILS_FAVOURITE": "x",
        "OFFRAILS_EMPTY": "",
        "PATH": "x",
        "OFFRAILS_SPECS": "x",
    }
    load(None, {**environ, "OFFRAILS_CONFIG": "x"}, {})
    assert unknown(environ) == ["OFFRAILS_FAVOURITE"]


def test_the_settings_in_use_are_a_settings_file(tmp_path: Path) -> None:
    """The output of `serve --print-config` reads back as the same settings."""
    settings = load(None, {"OFFRAILS_TRACE_URL": "https://a/{trace_id}"}, {("metrics",): "off"})
    file = tmp_path / "settings.yaml"
    file.write_text(as_yaml(settings))
    assert load(file, {}, {}) == settings


def test_a_trace_link_is_a_link(tmp_path: Path) -> None:
    """A link that a browser would run as a script is refused."""
    with pytest.raises(SettingsError, match="expected a link"):
        load(None, {"OFFRAILS_TRACE_URL": "javascript:alert(1)"}, {})


def test_labels_of_alerts_are_labels(written: Any) -> None:
    """Label names that Alertmanager refuses, or that the alert uses itself, are refused."""
    for text, said in (
        ("{a-b: c}", "'a-b' is no name of a label"),
        ("{session: s}", "session: every alert has a label of that name already"),
        ("{cluster: ''}", "cluster: expected a text of printable characters"),
        ("{cluster: 7}", "cluster: expected a text of printable characters"),
    ):
        assert f"alerts.labels: {said}" in problem(written(f"alerts: {{labels: {text}}}"))
    settings = load(written("alerts: {labels: {cluster: far}}"), {}, {})
    assert settings.alerts.labels == {"cluster": "far"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trace_url: 'https://x/{trace}'", ":1:1: trace_url: nothing is put in for {trace}: expected {trace_id}"),
        (
            "alerts:\n  session_url: /{sesion}",
            ":2:3: alerts.session_url: nothing is put in for {sesion}: expected {session}",
        ),
        (
            "alerts: {runbook_url: '/{name}'}",
            ":1:10: alerts.runbook_url: nothing is put in for {name}: expected {alert}",
        ),
    ],
)  # fmt: skip
def test_a_link_names_what_is_put_in(written: Any, text: str, said: str) -> None:
    """An unknown placeholder is refused. Braces of a query's JSON are no placeholders."""
    assert said in problem(written(text))
    file = written("""trace_url: '/explore?left={"query":"{trace_id}","a":{}}'""")
    assert load(file, {}, {}).trace_url.endswith('{"query":"{trace_id}","a":{}}')


def test_two_listeners_have_two_addresses(written: Any) -> None:
    """Two listeners on one address are refused. Port 0 and listeners that are off never clash."""
    file = written("metrics: 127.0.0.1:4319")
    assert problem(file) == f"{file}: metrics and admin are both 127.0.0.1:4319"
    said = problem(None, {"OFFRAILS_GRPC": "unix:/a", "OFFRAILS_HTTP": "unix:/a"})
    assert said == "the settings: receiver.grpc and receiver.http are both unix:/a"
    free = dict.fromkeys(("OFFRAILS_GRPC", "OFFRAILS_HTTP"), "127.0.0.1:0")
    load(None, free | {"OFFRAILS_METRICS": "off", "OFFRAILS_ADMIN": "off"}, {})


@pytest.mark.parametrize("wrong", ["db.example", "mysql://db/x", "postgres:/db"])
def test_an_archive_has_one_place(wrong: str) -> None:
    """A folder or the address of a PostgreSQL database: another address, or both, is refused without being told."""
    with pytest.raises(SettingsError, match="OFFRAILS_ARCHIVE_URL"):
        load(None, {"OFFRAILS_ARCHIVE_URL": wrong}, {})
    both = {"OFFRAILS_ARCHIVE_URL": "postgresql://a:geheim@b/c", "OFFRAILS_ARCHIVE_DIR": "d"}
    with pytest.raises(SettingsError, match="one of dir and url") as found:
        load(None, both, {})
    assert "geheim" not in str(found.value)
