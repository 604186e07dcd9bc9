"""The OpenAPI documents against the running service: what they say is what is answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from collector.api.openapi import admin_document, admin_routes
from collector.decide.openapi import decide_document
from tests.end_to_end.service import Service, request
from tests.end_to_end.traffic import Rover, send

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
]
STREAMS = ("/api/v1/verdicts", "/api/v1/events")
"""Paths whose answers have no end."""
EXAMPLES = 12


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with an archive, and a session with a harm."""
    folder = str(tmp_path_factory.mktemp("archive"))
    found = Service(variables={"OFFRAILS_ARCHIVE_DIR": folder, "OFFRAILS_HISTORY": "complete"})
    try:
        found.wait_ready()
        send(found, Rover("s", 1).calls("water", "unlock_safety").spans)
        yield found
    finally:
        found.kill()


def operations(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (path, method)
        for path, found in document["paths"].items()
        if path not in STREAMS
        for method in found
    ]


def check(service: Service, document: dict[str, Any], path: str, method: str, at: str) -> None:
    """Asks what the document allows and what it does not, and compares the answers with it."""
    operation = schemathesis.openapi.from_dict(document)[path][method.upper()]
    base = f"http://{service.addresses[at]}"

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(list(schemathesis.GenerationMode)))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        case.call_and_validate(base_url=base, checks=CHECKS)

    ask()


@pytest.mark.parametrize(("path", "method"), operations(admin_document()))
def test_the_admin_listener_answers_as_its_document_says(
    service: Service, path: str, method: str
) -> None:
    """Statuses, media types and schemas hold, for questions that the document allows and for those that it does not."""
    check(service, admin_document(), path, method, "admin")


@pytest.mark.parametrize(("path", "method"), operations(decide_document()))
def test_the_listener_of_decisions_answers_as_its_document_says(
    service: Service, path: str, method: str
) -> None:
    """The same of decisions and outcomes."""
    check(service, decide_document(), path, method, "decide")


def test_documents_are_served(service: Service) -> None:
    """Both documents are at the admin listener, and are valid OpenAPI 3.1."""
    address = service.addresses["admin"]
    served = request(address, "GET", "/api/v1/openapi.json").json()
    assert served == admin_document()
    assert served["openapi"].startswith("3.1")
    other = request(address, "GET", "/api/v1/openapi.json?listener=decide").json()
    assert other == decide_document()
    for each in (served, other):
        schemathesis.openapi.from_dict(each).validate()


def test_documents_name_the_parameters_that_are_taken(service: Service) -> None:
    """Each path refuses a parameter that it does not have, and names those of the document."""
    for route in admin_routes():
        if not route.path.startswith("/api/") or route.path in STREAMS:
            continue
        path = route.path.replace("{session}", "s").replace("{spec}", "farm_rover")
        body = b'{"label": null}' if route.method == "POST" else None
        query = "nope=1&steps=0" if route.path == "/api/v1/sessions" else "nope=1"
        found = request(service.addresses["admin"], route.method, f"{path}?{query}", body)
        assert found.status == 400, path
        said = found.json()["error"].partition("This path takes ")[2]
        taken = {each.strip() for each in said.split(",") if each}
        assert taken == {each.name for each in route.parameters}, path


@pytest.mark.parametrize(
    "path",
    [
        "sessions?steps=0&since={}",
        "sessions?steps=0&until={}",
        "sessions?since={}",
        "sessions?until={}",
        "sessions/s?begun={}",
        "overview?since={0}&until={0}",
        "overview?until={}",
        "specs?until={}",
    ],
)
@pytest.mark.parametrize("number", ["9" * 19, "9" * 5_000, str((1 << 63) - 1), str(1 << 64)])
def test_numbers_have_no_end(service: Service, path: str, number: str) -> None:
    """A number that no database takes is read as the greatest one, and answered: later than every session."""
    asked = f"/api/v1/{path.format(number)}"
    found = request(service.addresses["admin"], "GET", asked)
    assert found.status == (404 if "begun" in path else 200)
    said = found.json()
    if "sessions?" in path:
        assert bool(said["sessions"]) is ("until" in path)


KNOWN: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("admin", "get", "/api/v1/sessions", {"query": {"steps": "0"}}),
    ("admin", "get", "/api/v1/sessions", {}),
    ("admin", "get", "/api/v1/sessions/{session}", {"path_parameters": {"session": "s"}}),
    ("admin", "get", "/api/v1/trails/{session}", {"path_parameters": {"session": "s"}}),
    ("admin", "get", "/api/v1/specs/{spec}", {"path_parameters": {"spec": "farm_rover"}}),
    ("admin", "get", "/api/v1/overview", {}),
    ("admin", "get", "/api/v1/versions", {"query": {"agent": "farm-rover"}}),
    ("admin", "get", "/runbooks/{alert}", {"path_parameters": {"alert": "AgentMonitorDown"}}),
    (
        "admin",
        "post",
        "/api/v1/sessions/{session}/label",
        {"path_parameters": {"session": "s"}, "body": {"label": "wrong"}},
    ),
    (
        "decide",
        "post",
        "/api/v1/decide",
        {"body": {"session": "s", "service": "farm-rover", "tool": "water", "arguments": {}}},
    ),
    (
        "decide",
        "post",
        "/api/v1/decide",
        {"body": {"session": "s", "calls": [{"tool": "water"}, {"tool": "move"}]}},
    ),
    ("admin", "post", "/api/v1/sessions/{session}/end", {"path_parameters": {"session": "s"}}),
)
"""Questions about what is there; chance finds none of it."""


def test_what_is_there_is_answered_as_the_documents_say(service: Service) -> None:
    """Sessions, specs, figures, labels and decisions have the fields that the documents promise."""
    documents = {"admin": admin_document(), "decide": decide_document()}
    for at, method, path, parts in KNOWN:
        operation = schemathesis.openapi.from_dict(documents[at])[path][method.upper()]
        media: dict[str, Any] = {"media_type": "application/json"} if "body" in parts else {}
        case = operation.Case(**parts, **media)
        answer = case.call_and_validate(
            base_url=f"http://{service.addresses[at]}", checks=CHECKS[:4]
        )
        assert answer.status_code == 200, (path, answer.text)
