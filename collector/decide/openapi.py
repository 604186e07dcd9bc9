"""The OpenAPI document of the listener of decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from collector.calls.decisions.decided_calls import OUTCOMES
from collector.decide.request import CALLS_MAX, QUESTION_ID_MAX, VALUE_MAX
from collector.net.openapi import ERROR, ApiAnswer, ApiRoute, array, document, fields

__all__ = ["decide_document", "decide_routes"]

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
_SHORT: Final[Schema] = {"type": "string", "maxLength": VALUE_MAX}
_HEX: Final = {
    16: {"type": "string", "pattern": "^([0-9a-fA-F]{16})?$"},
    32: {"type": "string", "pattern": "^([0-9a-fA-F]{32})?$"},
}
_CALL: Final[dict[str, Any]] = {
    "tool": {"type": "string", "minLength": 1},
    "arguments": {},
    "unread": array(TEXT),
    "call_id": TEXT,
    "span_id": _HEX[16],
    "parent_span_id": _HEX[16],
}
_QUESTION: Final[dict[str, Any]] = {
    "session": _SHORT,
    "agent": TEXT,
    "service": _SHORT,
    "trace_id": _HEX[32],
    "attributes": {
        "type": "object",
        "additionalProperties": {"type": ["string", "integer", "number", "boolean"]},
    },
    "commit": {"type": "boolean"},
    "new_session": {"type": "boolean"},
    "question_id": {"type": "string", "maxLength": QUESTION_ID_MAX},
}


def _closed(given: dict[str, Any], *required: str) -> Schema:
    return {
        "type": "object",
        "properties": given,
        "required": [*required],
        "additionalProperties": False,
    }


QUESTION: Final[Schema] = {
    "oneOf": [
        _closed({**_QUESTION, **_CALL}, "tool"),
        _closed(
            {
                **_QUESTION,
                "parent_span_id": _HEX[16],
                "calls": {
                    "type": "array",
                    "items": _closed(_CALL, "tool"),
                    "minItems": 1,
                    "maxItems": CALLS_MAX,
                },
            },
            "calls",
        ),
    ],
}
OUTCOME: Final = _closed(
    {
        "decision_id": {"type": "string", "minLength": 1},
        "outcome": {"type": "string", "enum": [*OUTCOMES]},
        "result": {},
    },
    *("decision_id", "outcome"),
)
DECISION: Final = fields(
    {
        "decision_id": "text",
        "decision": "text",
        "would_deny": "truth",
        "answer": "text",
        "message": "text",
        "spec": "text?",
        "reason": "text?",
        "severity": "text?",
        "matched": "truth",
        "committed": "truth",
        "session": "any",
        "specs": "list",
    }
)
"""One decision; a question with `calls` is answered with `decisions`, a list of them."""


def decide_routes() -> Iterator[ApiRoute]:
    """All methods of all paths."""
    refused = {
        status: ApiAnswer(meaning, ERROR)
        for status, meaning in (
            (400, "the question cannot be read; `where` says where"),
            (401, "a token is needed"),
            (403, "the request is of another site"),
            (404, "no such path, or no such decision"),
            (405, "another method is needed"),
            (409, "the decision has another outcome"),
            (413, "the body is too large"),
            (415, "the body is no JSON"),
            (429, "this client asks too often"),
            (503, "there is no room"),
        )
    }
    decided: Schema = {"anyOf": [DECISION, fields({"decisions": array(DECISION)})]}
    for path, meaning, body, schema in (
        (
            "/api/v1/decide",
            "May this call, or may these parallel calls, be made?",
            QUESTION,
            decided,
        ),
        ("/api/v1/outcome", "What became of a call", OUTCOME, {"type": "object"}),
    ):
        yield ApiRoute(
            "POST", path, meaning, {200: ApiAnswer("done", schema), **refused}, (), body
        )
    alive = ApiAnswer("alive", TEXT, "text/plain; charset=utf-8")
    yield ApiRoute("GET", "/-/healthy", "Liveness", {200: alive})


def decide_document() -> Schema:
    """The document of the listener of decisions."""
    return document(
        "offrails: decisions",
        "Answers before a tool runs, and outcomes.",
        decide_routes(),
    )
