"""Decisions before calls: the real service, real sockets, the real exporter."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.end_to_end.service import Reply, Service, request

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

SPEC = """
id: shop
version: "1"
enforce: block
match: {service.name: shop}
alphabet: {approve: {tool: approve}, pay: {tool: pay}}
initial: start
accepting: [paid]
transitions: {start: {approve: approved}, approved: {pay: paid}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "shop.yaml"
    file.write_text(SPEC)
    return str(file)


def post(service: Service, path: str, body: Any, **headers: str) -> Reply:
    return request(
        service.addresses["decide"],
        "POST",
        path,
        json.dumps(body).encode(),
        {"content-type": "application/json", **headers},
    )


def ask(service: Service, tool: str, session: str = "s", **more: str) -> dict[str, Any]:
    body = {"session": session, "service": "shop", "tool": tool, "arguments": {}}
    reply = post(service, "/api/v1/decide", {**body, "call_id": f"c-{tool}"}, **more)
    assert reply.status == 200, reply
    found: dict[str, Any] = reply.json()
    return found


def ran(service: Service, tool: str, session: str = "s", **headers: str) -> None:
    """A call runs, and the SDK exports its span."""
    exporter = OTLPSpanExporter(
        f"http://{service.addresses['http']}/v1/traces", headers=headers or None
    )
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": f"c-{tool}",
        "gen_ai.tool.call.arguments": "{}",
        "gen_ai.conversation.id": session,
    }
    with provider.get_tracer("test").start_as_current_span(
        f"execute_tool {tool}", attributes=attributes
    ):
        pass
    provider.shutdown()


def test_a_harmful_call_is_prevented_and_the_task_goes_on(serve: Serve, spec: str) -> None:
    """Denied, then approved, then allowed: two calls, no harm, one prevented call in API and log."""
    service = serve("--specs", spec, OFFRAILS_HISTORY="complete")
    denied = ask(service, "pay")
    assert (denied["decision"], denied["skipped"]) == ("deny", ["approve"])
    told = {"decision_id": denied["decision_id"], "outcome": "skipped"}
    assert post(service, "/api/v1/outcome", told).status == 200

    assert ask(service, "approve")["decision"] == "allow"
    ran(service, "approve")
    body = {"session": "s", "service": "shop", "tool": "pay", "call_id": "c-pay-2"}
    allowed = post(service, "/api/v1/decide", body).json()
    told = {"decision_id": allowed["decision_id"], "outcome": "ran"}
    assert (allowed["decision"], post(service, "/api/v1/outcome", told).status) == (
        "allow",
        200,
    )

    found = service.get("/api/v1/sessions/s").json()
    (judgement,) = found["sessions"]
    assert (judgement["calls"], judgement["harmful"], judgement["position"]) == (2, 0, ["paid"])
    assert [each["tool"] for each in found["prevented"]] == ["pay"]
    assert [each["tool"] for each in service.logged("call_prevented")] == ["pay"]
    assert service.metric("offrails_decisions_total", decision="deny", spec="shop") == 1


def test_a_denied_call_that_is_made_says_so(serve: Serve, spec: str) -> None:
    """Its step is marked, it is counted, logged, and no longer listed as prevented."""
    service = serve("--specs", spec, OFFRAILS_HISTORY="complete")
    assert ask(service, "pay")["decision"] == "deny"
    ran(service, "pay")

    found = service.get("/api/v1/sessions/s").json()
    (step,) = found["sessions"][0]["steps"]
    assert (step["kind"], step["overruled"], found["prevented"]) == ("harmful", True, [])
    assert service.metric("offrails_decisions_overruled_total") == 1
    assert len(service.logged("call_overruled")) == 1


def test_tenants_are_apart_by_the_receivers_tokens(
    serve: Serve, spec: str, tmp_path: Path
) -> None:
    """Without tokens of its own the listener asks for the receivers', and spans meet decisions by them."""
    tokens = tmp_path / "tokens"
    tokens.write_text("a: first\nb: second\n")
    service = serve(
        "--specs",
        spec,
        OFFRAILS_HISTORY="complete",
        OFFRAILS_RECEIVER_AUTH_BEARER_TOKENS_FILE=str(tokens),
    )
    first = {"authorization": "Bearer first"}
    assert post(service, "/api/v1/decide", {"session": "s", "tool": "pay"}).status == 401

    ask(service, "approve", **first)
    ran(service, "approve", **first)
    (judgement,) = service.judgements("s")
    assert (judgement["namespace"], judgement["calls"]) == ("a", 1)
    assert ask(service, "pay", **first)["decision"] == "allow"
    assert ask(service, "pay", authorization="Bearer second")["decision"] == "deny"


def test_a_unix_socket_is_private_and_outlives_no_kill(
    serve: Serve, spec: str, tmp_path: Path
) -> None:
    """Its mode is 0600; one that a killed service left is replaced, and old decisions are unknown."""
    path = tmp_path / "decide"
    listen = ("--specs", spec, "--decide", f"unix:{path}")
    killed = Service(listen, {"OFFRAILS_HISTORY": "complete"})
    try:
        decision_id = ask(killed.wait_ready(), "approve")["decision_id"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        killed.kill()
    assert path.exists()

    service = serve(*listen, OFFRAILS_HISTORY="complete")
    told = {"decision_id": decision_id, "outcome": "ran"}
    assert post(service, "/api/v1/outcome", told).status == 404
    assert ask(service, "pay")["decision"] == "deny"
    assert service.stop() == 0
    assert not path.exists()
