"""Start, configuration, time and end of the process."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.end_to_end.service import OFFRAILS, ROOT, Service, eventually, request, run
from tests.end_to_end.traffic import (
    GOLDEN,
    Rover,
    as_json,
    as_proto,
    export,
    send,
)
from tests.samples import sampled

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve


Rovers = Callable[..., Rover]
Begin = Callable[["Service", int, bytes], http.client.HTTPConnection]

CAPTURES = ROOT / ".." / "shared" / "captures"


# --- the start -------------------------------------------------------------------------------------


def refused(*arguments: str, **variables: str) -> str:
    """The standard error of an `offrails serve` that refuses to start."""
    ended = run("serve", *arguments, **variables)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_a_bad_setting_names_file_line_and_key(tmp_path: Path) -> None:
    """All wrong keys and values of a file are reported at once, with their positions."""
    file = tmp_path / "offrails.yaml"
    file.write_text(
        "history: complete\nsessions:\n  idle_secs: 5\n  max: many\nmetrics: here\n"
    )

    said = refused("--config", str(file))

    assert f"{file}:3:3: sessions.idle_secs: " in said
    assert f"{file}:4:3: sessions.max: " in said
    assert f"{file}:5:1: metrics: expected HOST:PORT" in said


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        ((), {"OFFRAILS_HISTORY": "none"}, "OFFRAILS_HISTORY: history: "),
        ((), {"OFFRAILS_SESSIONS_MAX": "0"}, "OFFRAILS_SESSIONS_MAX: sessions.max: "),
        ((), {"OFFRAILS_GRPC": "4317"}, "OFFRAILS_GRPC: receiver.grpc: expected HOST:PORT"),
        (("--http", "x:y"), {}, "--http: receiver.http: expected HOST:PORT"),
        (("--config", "/no/such/file"), {}, "/no/such/file: No such file"),
        ((), {"OFFRAILS_CONFIG": "/no/such/file"}, "/no/such/file: No such file"),
        (("--specs", "/no/such/folder"), {}, "/no/such/folder"),
    ],
)
def test_wrong_options_and_variables(
    arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    """Exit 2 and a sentence that names the option or the variable."""
    assert said in refused(*arguments, **variables)


def test_an_unknown_option_is_usage() -> None:
    """Exit 2, and how it is used."""
    assert "usage: offrails" in refused("--no-such-option")


def test_a_refused_spec_stops_the_start(tmp_path: Path) -> None:
    """Exit 2, with file, line, column and code of each finding, in nested folders, too."""
    folder = tmp_path / "deep" / "deeper"
    folder.mkdir(parents=True)
    file = folder / "bad.yaml"
    file.write_text(
        "id: bad\nalphabet:\n  a: {tool: a}\ninitial: s\naccepting: [s]\n"
        "transitions:\n  s:\n    b: s\n"
    )

    said = refused("--specs", str(tmp_path))

    assert f"{file}:8:" in said
    assert "undeclared_symbol" in said


def test_a_folder_without_specs_is_told_at_the_start(serve: Serve, tmp_path: Path) -> None:
    """An empty folder is logged, as at a reload. A service set to have no specs logs nothing."""
    service = serve("--specs", str(tmp_path))
    (found,) = service.logged("spec_finding")
    assert (found["code"], found["file"], found["level"]) == (
        "no_specs",
        str(tmp_path),
        "warning",
    )

    without = serve("--history", "complete")
    without.stop()
    assert without.events("spec_finding") == []


ON_LINUX = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")


@pytest.mark.parametrize("closed", ["<&- 2>&-", pytest.param("2>/dev/full", marks=ON_LINUX)])
def test_a_log_that_nobody_takes_costs_no_call(serve: Serve, closed: str) -> None:
    """Without standard streams it serves and ends as with them, and leaks no descriptor."""
    program = ("sh", "-c", f'exec "$@" {closed}', "sh", *OFFRAILS)
    service = serve(program=program, OFFRAILS_HISTORY="complete")

    send(service, Rover("s").calls("unlock_safety", "water").spans)

    assert service.judgement("s")["steps"][1]["kind"] == "harmful"
    assert service.stop() == 0


def test_every_option_is_a_variable_too(serve: Serve, tmp_path: Path) -> None:
    """Options, variables and a file set the same things; options win, then variables."""
    file = tmp_path / "offrails.yaml"
    file.write_text(
        f"specs: [{ROOT / 'dfa_specs' / 'farm_rover.yaml'}]\nshow_arguments: true\nhistory: complete\n"
        "receiver: {grpc: off, http: off}\nmetrics: off\nadmin: off\n"
    )
    http, admin = tmp_path / "http", tmp_path / "admin"

    service = serve(
        "--http",
        f"unix:{http}",
        OFFRAILS_CONFIG=str(file),
        OFFRAILS_HTTP="off",
        OFFRAILS_ADMIN=f"unix:{admin}",
        OFFRAILS_GRPC="off",
        OFFRAILS_METRICS="",
        OFFRAILS_DECIDE="off",
    )
    session = Rover("s").call("unlock_safety", {"n": 1})
    send(service, session.spans)

    assert service.out[0] == (
        f"offrails ready grpc=off http=unix:{http} metrics=off admin=unix:{admin} decide=off specs=1"
    )
    assert service.judgement("s")["steps"][0]["arguments"] == {"n": 1}


def test_nothing_else_on_standard_output(serve: Serve) -> None:
    """One line when ready; the log is on standard error."""
    service = serve(OFFRAILS_HISTORY="complete")

    send(service, Rover("s").calls("water").spans)
    service.stop()

    assert len(service.out) == 1
    assert all(json.loads(line)["event"] for line in service.err)


BLOCKED = "grpc opentelemetry google prometheus_client httptools uvloop"

LIBRARY = f"""
import sys
for name in {BLOCKED.split()!r}:
    sys.modules[name] = None
import monitor
assert not any(name.startswith("pydantic") for name in sys.modules)
from pathlib import Path
loaded = monitor.load_specs([Path("dfa_specs")])
judge = monitor.Monitor(loaded.specs, monitor.Limits(history_complete=True))
from monitor.records import Evidence
call = monitor.ToolCall(monitor.SessionKey("", "s"), "", "water", {{}}, False, 1, 2, b"t" * 16,
    b"s" * 8, b"", "", Evidence.EXECUTED, attributes={{"service.name": "farm-rover"}})
verdict = judge.observe(call, 3)[0]
print(verdict.kind, verdict.reason)
"""


def test_the_library_needs_no_network_stack() -> None:
    """`import monitor` judges calls where grpc and its friends cannot be imported."""
    ended = subprocess.run(
        [sys.executable, "-c", LIBRARY], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (ended.stdout, ended.stderr) == ("harmful out_of_order\n", "")


# --- time --------------------------------------------------------------------------------------------


def test_an_idle_session_ends(serve: Serve) -> None:
    """After the idle time it has final verdicts, an outcome and one event, and stays in the API."""
    service = serve(
        "--specs",
        "dfa_specs/farm_rover.yaml",
        OFFRAILS_HISTORY="complete",
        OFFRAILS_SESSIONS_IDLE_SECONDS="3",
    )
    send(service, Rover("good", 1).calls(*GOLDEN).spans)
    send(service, Rover("bad", 2).calls("unlock_safety", "water").spans)

    eventually(lambda: len(service.events("session_finished")) == 2)
    good, bad = service.judgement("good"), service.judgement("bad")

    assert (good["ended"], bad["ended"]) == ("idle", "idle")
    assert all(step["final"] for step in bad["steps"])
    labels = {"agent": "farm-rover", "spec": "farm_rover"}
    assert service.metric("offrails_sessions_active", **labels) == 0
    outcomes = {
        outcome: service.metric("offrails_sessions_finished_total", outcome=outcome, **labels)
        for outcome in ("accepted", "not_accepted")
    }
    assert outcomes == {"accepted": 1, "not_accepted": 1}
    assert service.metric("offrails_harmful_calls_total", reason="out_of_order", **labels) == 1
    assert service.metric("offrails_path_correctness", **labels) == pytest.approx(
        (1 + bad["pc"]) / 2, abs=1e-12
    )
    (event,) = [e for e in service.events("session_finished") if e["session"] == "good"]
    assert (event["outcome"], event["calls"], event["harm_rate"]) == ("accepted", 6, 0)


def test_a_returning_session_goes_on(serve: Serve) -> None:
    """A call after the idle end finds the session as it was left."""
    service = serve(
        "--specs",
        "dfa_specs/farm_rover.yaml",
        OFFRAILS_HISTORY="complete",
        OFFRAILS_SESSIONS_IDLE_SECONDS="2",
    )
    session = Rover("again").calls(*GOLDEN)

    send(service, session.spans[:3])
    eventually(lambda: service.judgement("again")["ended"] == "idle")
    send(service, session.spans[3:])
    found = service.judgement("again")

    assert (found["ended"], found["calls"], found["harmful"]) == (None, 6, 0)
    assert found["accepting"] is True


def test_old_spans_are_joined_sessions(serve: Serve) -> None:
    """If calls before the start may be missing, only certain harm is reported, without scores."""
    service = serve(
        "--specs", "dfa_specs/farm_rover.yaml", OFFRAILS_SESSIONS_WINDOW_SECONDS="2"
    )
    spans = Rover("old").calls("water", "fly", "log", "water").spans

    send(service, spans)
    found = service.judgement("old")

    assert (found["joined"], found["exact"]) == (True, False)
    assert [(step["tool"], step["reason"]) for step in found["steps"]] == [
        ("water", None),
        ("fly", "unknown_tool"),
        ("log", None),
        ("water", "after_final"),  # no call that is missing between them leads on from the end
    ]
    assert (found["calls"], found["harmful"]) == (4, 2)
    scores = ("harm_rate", "prefix_crit", "pc", "pc_ktc", "pc_hlr", "efficiency")
    assert {found[score] for score in scores} == {None}
    assert service.metric("offrails_session_score_window_sessions", spec="farm_rover") == 0
    assert not any(name == "offrails_harm_rate" for name, _ in service.metrics())
    assert service.metric("offrails_calls_total", verdict="harmful") == 2
    assert eventually(lambda: service.metric("offrails_sessions_joined_total")) == 1


def test_fresh_spans_are_judged_in_full(serve: Serve) -> None:
    """A session that begins after the service did, and at its beginning, is exact."""
    service = serve("--specs", "dfa_specs/farm_rover.yaml")
    spans = (
        Rover("fresh", start_ns=time.time_ns()).calls("unlock_safety", "move", "water").spans
    )

    send(service, spans)
    found = service.judgement("fresh")

    assert (found["joined"], found["exact"], found["harmful"]) == (False, True, 1)
    assert found["harm_rate"] == pytest.approx(1 / 3, abs=1e-12)


def test_a_complete_history_ignores_old_times(serve: Serve) -> None:
    """The setting says that no session began before us: the same old spans are exact."""
    service = serve("--specs", "dfa_specs/farm_rover.yaml", OFFRAILS_HISTORY="complete")

    send(service, Rover("old").calls("water", "fly").spans)
    found = service.judgement("old")

    assert (found["joined"], found["exact"], found["harmful"]) == (False, True, 2)
    assert found["harm_rate"] == 1


# --- the end -----------------------------------------------------------------------------------------


def test_an_interrupt_is_an_end_like_any_other(serve: Serve) -> None:
    """Ctrl-C stops it as SIGTERM does: exit 0, no traceback."""
    service = serve()

    service.process.send_signal(signal.SIGINT)

    assert service.wait() == 0
    assert [json.loads(line)["event"] for line in service.err] == ["started", "stopped"]


class _Sender(threading.Thread):
    """Sends sessions of one harmful call until the service is gone; counts what was taken."""

    def __init__(self, service: Service, transport: str, number: int) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._transport = transport
        self._number = number
        self.taken = 0
        self.ended_by: Any = None

    def run(self) -> None:
        for number in range(self._number * 1_000_000, (self._number + 1) * 1_000_000):
            spans = Rover(f"s{number}", number).call("fly", {"n": "x" * 2_000}).spans
            try:
                self._send(as_proto(spans))
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.ended_by = error
                return
            self.taken += 1

    def _send(self, body: bytes) -> None:
        if self._transport == "grpc":
            export(self._service.addresses["grpc"], body)
            return
        headers = {"content-type": "application/x-protobuf"}
        reply = request(self._service.addresses["http"], "POST", "/v1/traces", body, headers)
        assert reply.status == 200, reply


GONE = (ConnectionError, http.client.RemoteDisconnected, http.client.IncompleteRead)


def test_sigterm_drains_under_load(serve: Serve) -> None:
    """Exit 0: every request was accepted or refused, and the accepted ones were judged."""
    service = serve(
        "--specs",
        "dfa_specs/farm_rover.yaml",
        OFFRAILS_HISTORY="complete",
        OFFRAILS_SHOW_ARGUMENTS="true",
    )
    senders = [
        _Sender(service, transport, number)
        for number, transport in enumerate(("grpc", "http") * 3)
    ]
    for sender in senders:
        sender.start()
    eventually(lambda: all(sender.taken > 5 for sender in senders))

    code = service.stop()
    for sender in senders:
        sender.join(20)

    assert code == 0
    for sender in senders:
        error = sender.ended_by
        if isinstance(error, grpc.RpcError):
            assert error.code() is grpc.StatusCode.UNAVAILABLE
        else:
            assert isinstance(error, GONE), error
    taken = sum(sender.taken for sender in senders)
    left_out = sum(each["count"] for each in service.events("harmful_calls_suppressed"))
    assert len(service.events("harmful_call")) + left_out >= taken > 30


@pytest.fixture
def begun() -> Iterator[Begin]:
    """Sends the head of a request and a part of its body."""
    with ExitStack() as stack:

        def begin(service: Service, length: int, part: bytes) -> http.client.HTTPConnection:
            connection = http.client.HTTPConnection(service.addresses["http"], timeout=20)
            stack.callback(connection.close)
            connection.putrequest("POST", "/v1/traces")
            connection.putheader("content-type", "application/json")
            connection.putheader("content-length", str(length))
            connection.endheaders(part)
            return connection

        yield begin


def test_a_request_under_way_is_answered(serve: Serve, begun: Begin) -> None:
    """After SIGTERM in the middle of a body, the rest is read, judged and answered."""
    service = serve("--specs", "dfa_specs/farm_rover.yaml", OFFRAILS_HISTORY="complete")
    body = as_json(Rover("slow").calls("fly").spans)
    connection = begun(service, len(body), body[:100])
    assert service.get("/-/ready").status == 200

    service.terminate()
    eventually(lambda: service.get("/-/ready").status == 503)
    connection.send(body[100:])
    answer = connection.getresponse()

    assert (answer.status, answer.read()) == (200, b"{}")
    assert service.wait() == 0
    assert len(service.events("harmful_call")) == 1


def test_a_sender_that_stalls_does_not_hold_up_the_end(serve: Serve, begun: Begin) -> None:
    """After the grace time it is cut off, and the service ends all the same."""
    service = serve("--specs", "dfa_specs/farm_rover.yaml", OFFRAILS_DRAIN_SECONDS="0.3")
    begun(service, 1000, b"{")
    assert service.get("/-/ready").status == 200

    began = time.monotonic()
    assert service.stop() == 0

    assert time.monotonic() - began < 5


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a receiver that accepts each connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("journal", sampled([False, True], [True]))
def test_receivers_that_never_answer_do_not_hold_up_the_end(
    serve: Serve, silent: str, tmp_path: Path, *, journal: bool
) -> None:
    """Requests to a sink, to next hops and of telemetry are on their way for ten minutes; the process ends without them."""
    config = tmp_path / "offrails.yaml"
    config.write_text(
        "history: complete\ndrain_seconds: 0.5\n"
        f"alerts: {{otlp_endpoint: '{silent}', alertmanager: ['{silent}'], timeout_seconds: 600}}\n"
        f"telemetry: {{otlp_endpoint: '{silent}', interval_seconds: 1}}\n"
        f"forward: [{{endpoint: '{silent}', timeout_seconds: 600}}]\n"
        + (f"state: {{dir: {tmp_path / 'state'}}}\n" if journal else "")
    )
    service = serve("--config", str(config), "--specs", "dfa_specs/farm_rover.yaml")
    send(service, Rover("s").calls("unlock_safety", "water").spans)
    eventually(lambda: service.metric("offrails_harmful_calls_total") == 1)

    assert service.stop() == 0


OPENING = ("wait_for_partner", "fifo_open")
"""Where kernels say that one waits who opens a pipe."""


def test_a_write_that_hangs_does_not_hold_up_the_end(serve: Serve, tmp_path: Path) -> None:
    """A file of harmful calls that turns into a pipe without a reader stops one thread for ever, and not the end."""
    lines = tmp_path / "harm.jsonl"
    service = serve(
        "--specs", "dfa_specs/farm_rover.yaml", OFFRAILS_HISTORY="complete", OFFRAILS_ALERTS_JSONL=str(lines), OFFRAILS_SESSIONS_WINDOW_SECONDS="0.2", OFFRAILS_DRAIN_SECONDS="0.5"
    )  # fmt: skip
    lines.unlink(missing_ok=True)
    os.mkfifo(lines)
    send(service, Rover("s").calls("unlock_safety", "water").spans)
    eventually(lambda: service.metric("offrails_harmful_calls_total") == 1)
    eventually(lambda: _waits_for_a_reader(service.process.pid))

    assert service.stop() == 0
    assert '"stopped"' in service.err[-1]


def _waits_for_a_reader(pid: int) -> bool:
    """True if a thread stands in the opening of a pipe."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return any((task / "wchan").read_text() in OPENING for task in tasks)


# --- stored spans --------------------------------------------------------------------------------------

LIVE_ONLY = ("ended", "coverage")
"""In a replay the end of the input ends a session, and duplicates count alike."""


def _objects(found: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = []
    for each in found:
        for key in LIVE_ONLY:
            del each[key]
        for step in each["steps"]:
            del step["final"]
        shown.append(each)
    return sorted(shown, key=lambda each: (each["session"], each["spec"] or ""))


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="the captures are not here")
@pytest.mark.parametrize("folder", ["otel-genai-semconv", "langchain-openinference"])
def test_replay_gives_what_is_served(serve: Serve, folder: str) -> None:
    """Stored spans replayed as one stream, and the same lines sent live: equal objects.

    Left out are `ended` (there the end of the input ends a session) and each step's `final` (a
    replay's verdicts are final at once).
    """
    files = sorted((CAPTURES / folder).glob("*.otlp.jsonl"))
    service = serve(OFFRAILS_HISTORY="complete", OFFRAILS_SHOW_ARGUMENTS="true")
    lines = [line for file in files for line in file.read_bytes().splitlines() if line.strip()]

    for number, line in enumerate(lines):
        packed = number % 2 == 1
        body = gzip.compress(line) if packed else line
        headers = {"content-encoding": "gzip"} if packed else {}
        assert service.post(body, **headers).status == 200
    paths = [str(file) for file in files]
    replayed = run("replay", *paths, "--specs", "dfa_specs", "--json", "--together")

    assert replayed.returncode == 0, replayed.stderr
    stored = _objects(map(json.loads, replayed.stdout.splitlines()))
    assert len(stored) >= len(files)
    assert _objects(iter(service.judgements())) == stored


def test_a_killed_recording_is_replayed_and_named_at_the_restart(
    serve: Serve, tmp_path: Path
) -> None:
    """After SIGKILL, a replay judges what was recorded, and the next start logs the file."""
    folder = tmp_path / "spans"
    first = Service(
        ("--specs", "dfa_specs/farm_rover.yaml", "--record", str(folder)),
        {"OFFRAILS_HISTORY": "complete"},
    )
    try:
        first.wait_ready()
        send(first, Rover("killed").calls("fly", "water").spans)
        eventually(
            lambda: first.metric("offrails_record_requests_total", result="written") == 1
        )
        (file,) = folder.iterdir()
        eventually(lambda: file.stat().st_size > 100)
    finally:
        first.kill()

    replayed = run("replay", str(folder), "--specs", "dfa_specs/farm_rover.yaml", "--json")
    assert replayed.returncode == 0
    assert json.loads(replayed.stdout)["session"] == "killed"
    assert f"{file}:2: " in replayed.stderr
    again = serve("--specs", "dfa_specs/farm_rover.yaml", "--record", str(folder))
    (event,) = again.logged("recording_unfinished")
    assert event["file"] == str(file)


def test_a_folder_that_cannot_be_recorded_to_stops_the_start(tmp_path: Path) -> None:
    """Exit code 2, and which option and folder it is."""
    file = tmp_path / "file"
    file.write_text("x")
    for folder in (file, file / "below", Path("/proc/spans")):
        said = refused("--record", str(folder))
        assert said.startswith("offrails: --record: ")
        assert str(folder) in said
