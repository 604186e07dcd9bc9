"""Several tenants at one service: what one sends moves nothing of another's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.end_to_end.service import eventually
from tests.end_to_end.test_memory import PROTO, request

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service

SENT = {"gen_ai.conversation.id": "field"}


def send(service: Service, namespace: str, first: int, spans: int, **more: str) -> None:
    """Calls of one session in a namespace, or with `tools` of tools of their own."""
    resource = {"service.name": "farm-rover", "service.namespace": namespace}
    body = request(
        first,
        lambda k: {**SENT, **{key: f"{value}{k}" for key, value in more.items()}},
        lambda _: resource,
        spans,
    )
    assert service.post(body, PROTO).status == 200


def active(service: Service) -> dict[str | None, float]:
    """Live sessions by namespace; None is for series without the label."""
    return {
        dict(labels).get("namespace"): value
        for (name, labels), value in service.metrics().items()
        if name == "offrails_sessions_active"
    }


def test_a_second_namespace_gives_no_series_other_labels(serve: Serve) -> None:
    """A series keeps its labels, whatever namespaces come later: no counter is born with what was counted before."""
    service = serve(OFFRAILS_HISTORY="complete")
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for number, namespace in enumerate(("quiet", "loud", "third")):
        send(service, namespace, 100 * number, 3)
        found = {key for key in service.metrics() if key[0].startswith("offrails_calls")}
        assert seen <= found
        seen = found

    assert active(service) == {"quiet": 1.0, "loud": 1.0, "third": 1.0}


def test_a_label_that_was_asked_for_is_there_from_the_start(serve: Serve) -> None:
    """`always` has the namespace label from the first one on; `never` sums over all."""
    always = serve(OFFRAILS_METRICS_NAMESPACE_LABEL="always")
    send(always, "quiet", 0, 3)
    assert active(always) == {"quiet": 1.0}

    never = serve(OFFRAILS_METRICS_NAMESPACE_LABEL="never")
    for number, namespace in enumerate(("quiet", "loud")):
        send(never, namespace, 100 * number, 3)
    assert active(never) == {None: 2.0}


def test_invented_tools_agents_and_sessions_of_one_tenant(serve: Serve) -> None:
    """At small bounds a loud tenant evicts and folds only its own sessions and agents."""
    service = serve(
        OFFRAILS_HISTORY="complete",
        OFFRAILS_SESSIONS_MAX="20",
        OFFRAILS_METRICS_AGENTS_MAX="50",
    )
    send(service, "quiet", 0, 2)
    loud = {"gen_ai.tool.name": "tool", "gen_ai.agent.name": "a", "gen_ai.conversation.id": "s"}
    send(service, "loud", 1_000, 2_000, **loud)
    send(service, "quiet", 10, 2, **{"gen_ai.tool.name": "mine"})

    def found() -> list[str] | None:
        judged = service.judgements("field", namespace="quiet")
        return [step["tool"] for step in judged[0]["steps"]] if judged else None

    assert eventually(found) == ["tool", "tool", "mine10", "mine11"]
    assert service.metric("offrails_sessions_ended_total", cause="evicted") > 1_900
    assert service.metric("offrails_label_overflow_total", label="agent") > 0
    assert active(service)["quiet"] == 1.0
