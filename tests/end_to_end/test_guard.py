"""Guards of the real service: what they prevent, and what they do where it is killed, stopped, or not theirs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Tracer

from monitor import Limits, Monitor, load_spec
from offrails_guard import BaseGuard, Call, Decision, DeniedError, Guard, LocalGuard
from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import Service, eventually
from tests.monitor.test_engine import specs

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

SPEC = """
id: shop
version: "1"
enforce: block
match: {service.name: shop}
alphabet: {approve: {tool: approve}, pay: {tool: pay}, look: {tool: look}}
golden: [[approve, pay]]
reads: [look]
"""
REFUSED = "refused: `pay` needs `approve` first. Allowed now: `approve`, `look`."
PATIENT = 20.0
"""Seconds of a deadline that no test reaches."""

SOON = 0.05
"""Seconds of a deadline that a test reaches."""

SETTINGS = pytest.mark.parametrize(("setting", "allowed"), [("allow", True), ("deny", False)])
ASKERS = 4


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "shop.yaml"
    file.write_text(SPEC)
    return str(file)


@pytest.fixture
def service(serve: Serve, spec: str) -> Service:
    return serve("--specs", spec, OFFRAILS_HISTORY="complete")


def url(service: Service) -> str:
    return f"http://{service.addresses['decide']}"


def guard_of(service: Service, **options: Any) -> Guard:
    options = {"session": "s1", "agent": "till", "deadline_seconds": PATIENT, **options}
    return Guard(url(service), service="shop", **options)


def plain(guard: Guard, tool: str, **options: Any) -> Decision:
    return guard.check(tool, {}, **options)


def awaited(guard: Guard, tool: str, **options: Any) -> Decision:
    return asyncio.run(guard.acheck(tool, {}, **options))


BOTH = pytest.mark.parametrize("check", [plain, awaited])
Check = Callable[..., Decision]


# --- what is prevented ---------------------------------------------------------------------------


def test_functions_are_guarded(service: Service) -> None:
    """A decorated function is not run until it is right, plain and async; the session has no harm."""
    ran: list[str] = []
    with guard_of(service) as guard:

        @guard.tool
        async def pay() -> None:
            ran.append("pay")

        @guard.tool
        def approve() -> None:
            ran.append("approve")

        with pytest.raises(DeniedError) as denied:
            asyncio.run(pay())
        approve()
        asyncio.run(pay())

    assert (str(denied.value), ran) == (REFUSED, ["approve", "pay"])
    found = service.get("/api/v1/sessions/s1").json()
    [judgement] = found["sessions"]
    assert (judgement["calls"], judgement["harmful"], judgement["accepting"]) == (2, 0, True)
    assert [each["tool"] for each in found["prevented"]] == ["pay"]
    assert {each["evidence"] for each in judgement["steps"]} == {"executed"}


def test_a_session_that_the_guard_says_is_new_has_no_gap(serve: Serve, spec: str) -> None:
    """Right after a start without `history: complete`, a skipped step is denied where the guard was there from the
    first call, alone and in a group; it says so until a call is let through, and is not believed of a session that
    has made calls."""
    service = serve("--specs", spec)
    first, second = Call("pay", {}, "c1"), Call("pay", {}, "c2")
    with guard_of(service, session="old") as guard:
        guard.outcome(guard.check("look", {}).decision_id, "ran")
        assert guard.check("pay", {}, commit=False).decision == "unknown"
    with guard_of(service, new_session=True) as new:
        assert new.check("pay", {}, session="old").decision == "unknown"
        assert [each.decision for each in new.check_all([first, second])] == ["deny", "deny"]
        assert [new.check("pay", {}).decision for _ in range(2)] == ["deny", "deny"]
        approved = new.check("approve", {})
        new.outcome(approved.decision_id, "ran")
        assert new.check("pay", {}, session="other").decision == "deny"
    [judgement] = service.judgements("s1")
    assert (judgement["joined"], judgement["harmful"]) == (False, 0)


def test_an_agent_that_no_spec_matches_is_told(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """Under another service's name each call is `no_spec`: counted, said once here and once in the service's log, and
    made or not as it is set; a tool that a policy does not name is no such call."""
    policy = "id: p\nkind: policy\nenforce: block\nalphabet: {wipe: {tool: wipe}}\nconstraints: [{forbid: wipe}]\n"
    local = LocalGuard(Monitor(specs(policy)), session="s1")
    assert local.check("scan", {}).decision == "allow"
    for setting in ("allow", "deny"):
        options: dict[str, Any] = {
            "session": f"s-{setting}",
            "deadline_seconds": PATIENT,
            "service": "shopp",
        }
        guard = Guard(url(service), on_no_spec=setting, **options)
        monitor = Monitor([], Limits(history_complete=True))
        for asked in (guard, LocalGuard(monitor, session="s1", on_no_spec=setting)):
            caplog.clear()
            with asked:
                found = [asked.check("pay", {}) for _ in range(2)]
                assert asked.counts() == {"no_spec": 2, "unjudged": 2}
            assert [(each.decision, each.allowed) for each in found] == [
                ("no_spec", setting == "allow")
            ] * 2
            assert (
                len([each for each in caplog.records if "no spec matches" in each.message]) == 1
            )
    lines = service.logged("question_without_spec")
    assert [(each["service"], each["specs"][0]["match"]) for each in lines] == [
        ("shopp", {"service.name": "shop"})
    ]
    assert [each["spec"] for each in service.logged("specs_match")[0]["specs"]] == ["shop"]


@BOTH
def test_parallel_calls_are_decided_together(service: Service, check: Check) -> None:
    """A call that is right in one order of its group only is not denied, but unknown; alone it is denied."""
    calls = [Call("pay", {}, "c1"), Call("approve", {}, "c2")]
    with guard_of(service) as guard:
        alone = check(guard, "pay", commit=False)
        if check is plain:
            together = guard.check_all(calls)
        else:
            together = asyncio.run(guard.acheck_all(calls))
        for each in together:
            guard.outcome(each.decision_id, "ran")

    assert alone.decision == "deny"
    assert [(each.decision, each.allowed) for each in together] == [
        ("unknown", True),
        ("allow", True),
    ]
    assert "the order of calls that overlap" in together[0].message
    [judgement] = service.judgements("s1")
    assert (judgement["calls"], judgement["harmful"]) == (2, 0)


def test_a_guard_in_process_says_the_same(service: Service, spec: str) -> None:
    """The same questions get the same answers, words and specs from a service and from a monitor in this process."""
    monitor = Monitor([load_spec(spec)], Limits(history_complete=True))
    local = LocalGuard(monitor, session="s1", agent="till", service="shop")
    decisions = []
    for tool in ("pay", "look", "fly", "approve", "pay", "pay", "look"):
        with guard_of(service) as remote:  # at its end, the outcome has arrived
            found = _said(remote, tool)
        assert found == _said(local, tool)
        decisions.append(found["decision"])

    assert decisions == ["deny", "allow", "deny", "allow", "allow", "deny", "allow"]


def _said(guard: BaseGuard, tool: str) -> Any:
    """The whole answer, but for its id; an allowed call is made."""
    decision = guard.check(tool, {})
    guard.outcome(decision.decision_id, "ran" if decision.allowed else "skipped")
    raw = json.loads(json.dumps({**decision.raw, "decision_id": ""}))
    return {**raw, "allowed": decision.allowed, "message": decision.message}


# --- spans of refused calls ----------------------------------------------------------------------


@pytest.fixture
def tracer(service: Service) -> Iterator[Tracer]:
    """Each span is exported when it ends."""
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    exporter = OTLPSpanExporter(f"http://{service.addresses['http']}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test")
    provider.shutdown()


@pytest.mark.parametrize("obeys", [True, False])
def test_a_span_of_a_denied_call_is_what_its_agent_says(
    service: Service, tracer: Tracer, obeys: bool
) -> None:
    """A framework's span around the question has not failed: a refused call only if the guard says so."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.arguments": "{}",
        "gen_ai.conversation.id": "s1",
    }
    with (
        guard_of(service) as guard,
        tracer.start_as_current_span("execute_tool pay", attributes=attributes),
    ):
        decision = guard.check("pay", {})
        if obeys:
            guard.refused(decision)
            guard.close()  # the word has arrived
    assert decision.decision == "deny"

    found = service.get("/api/v1/sessions/s1").json()
    steps = [each for judgement in found["sessions"] for each in judgement["steps"]]
    assert [each["overruled"] for each in steps] == ([] if obeys else [True])
    assert len(found["prevented"]) == obeys
    assert service.metric("offrails_decisions_overruled_total") == (not obeys)


# --- a service that is killed --------------------------------------------------------------------


class Asker(threading.Thread):
    """Asks again and again, from a loop of its own, until it is told to stop."""

    def __init__(self, guard: Guard, check: Check, name: str) -> None:
        super().__init__()
        self._guard = guard
        self._check = check
        self._session = name
        self._over = threading.Event()
        self.found: list[Decision] = []

    def run(self) -> None:
        while not self._over.is_set():
            self.found.append(self._check(self._guard, "pay", session=self._session))

    def stop(self) -> list[Decision]:
        self._over.set()
        self.join(60)
        assert not self.is_alive()
        return self.found

    def gets(self, decision: str) -> None:
        """Waits until a question that is asked from now on has this answer."""
        asked = len(self.found)
        eventually(
            lambda: any(each.decision == decision for each in self.found[asked + 1 :]), 30
        )


@SETTINGS
def test_a_service_that_is_killed_in_the_middle_stops_no_agent(
    spec: str, setting: str, allowed: bool
) -> None:
    """With kill -9 each answer is right, or by the setting; once the service is back they are right again."""
    place = f"127.0.0.1:{free_port()}"

    def start() -> Service:
        return Service(
            ("--specs", spec, "--decide", place), {"OFFRAILS_HISTORY": "complete"}
        ).wait_ready()

    service = start()
    try:
        with guard_of(service, on_unavailable=setting) as guard:
            askers = [
                Asker(guard, (plain, awaited)[number % 2], f"s{number}")
                for number in range(ASKERS)
            ]
            for each in askers:
                each.start()
            for each in askers:
                each.gets("deny")
            service.kill()
            for each in askers:
                each.gets("unavailable")
            service = start()
            for each in askers:
                each.gets("deny")
            found = [decision for each in askers for decision in each.stop()]
            counts = guard.counts()
        assert service.stop() == 0
    finally:
        service.kill()

    assert {(each.decision, each.allowed, each.unavailable) for each in found} == {
        ("deny", False, ""),
        ("unavailable", allowed, "connection"),
    }
    assert (counts["deny"], counts["connection"]) == (
        sum(each.decision == "deny" for each in found),
        sum(each.decision == "unavailable" for each in found),
    )


# --- a service that does not answer --------------------------------------------------------------


@pytest.fixture
def stopped(service: Service) -> Iterator[Service]:
    """A service with connections that it does not serve."""
    yield service
    os.kill(service.process.pid, signal.SIGCONT)


@BOTH
@SETTINGS
def test_a_service_that_hangs_is_waited_for_until_the_deadline(
    stopped: Service, check: Check, setting: str, allowed: bool
) -> None:
    """The check returns while the service is stopped; the service learns afterwards what became of the call."""
    with guard_of(stopped, on_unavailable=setting, deadline_seconds=SOON) as guard:
        stopped.process.send_signal(signal.SIGSTOP)
        decision = check(guard, "pay")
        stopped.process.send_signal(signal.SIGCONT)
        assert (decision.unavailable, decision.allowed) == ("deadline", allowed)

        def settled() -> bool:
            found = stopped.get("/api/v1/sessions/s1").json()
            steps = [each for one in found.get("sessions", ()) for each in one["steps"]]
            if allowed:
                return [each["overruled"] for each in steps] == [True]
            return [each["tool"] for each in found.get("prevented", ())] == ["pay"]

        eventually(settled)
    assert stopped.metric("offrails_decisions_overruled_total") == allowed


# --- a service that is not ours ------------------------------------------------------------------


@SETTINGS
def test_a_wrong_token_is_no_answer(
    serve: Serve, spec: str, tmp_path: Path, setting: str, allowed: bool
) -> None:
    """Without the right token it is the setting; it is said in one word, and opens no session."""
    tokens = tmp_path / "tokens"
    tokens.write_text("till: right\n")
    service = serve(
        "--specs",
        spec,
        OFFRAILS_HISTORY="complete",
        OFFRAILS_DECIDE_AUTH_BEARER_TOKENS_FILE=str(tokens),
    )
    for token in ("wrong", None):
        with guard_of(service, token=token, on_unavailable=setting) as guard:
            decision = guard.check("approve", {})
        assert (decision.unavailable, decision.allowed) == ("unauthorized", allowed)
    assert service.judgements("s1") == []

    with guard_of(service, token="right", on_unavailable=setting) as guard:
        assert guard.check("pay", {}).message == REFUSED
