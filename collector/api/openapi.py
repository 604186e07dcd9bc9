"""The OpenAPI document of the admin listener: its paths, with the parameters that the code takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from collector.api.archive.label_endpoint import LabelRequest
from collector.api.overview.overview_query import NAMES, STEPS
from collector.api.session_query import CHOICES, LISTED_MAX, OFFSET_MAX, RANKED
from collector.net.openapi import (
    ERROR,
    ApiAnswer,
    ApiParameter,
    ApiRoute,
    array,
    document,
    fields,
)

__all__ = ["PARAMETERS", "admin_document", "admin_routes"]

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer", "minimum": 0}
PLAIN: Final = "text/plain; charset=utf-8"

MEANINGS: Final[Mapping[str, str]] = {
    "steps": "0: summaries without steps, and only with it `offset`",
    "limit": f"sessions, at most {LISTED_MAX}",
    "offset": f"sessions that are skipped, at most {OFFSET_MAX}; 400 where too many would have to be looked at: go on by `cursor`",
    "cursor": "`next` of the page before",
    "q": "part of a session id, an agent, a spec, a tool or a reason; or the whole id of a trace",
    "tool": "part of a tool's name",
    "trace_id": "32 hexadecimal digits",
    "span_id": "16 hexadecimal digits",
    "since": "Unix nanoseconds",
    "until": "Unix nanoseconds",
    "begun": "`started` of one of several sessions of this id",
    "service_version": "`service.version` of the resource",
    "thing": "value or digest of a thing under a spec with `each`, alone or behind the name of its kind: `A1`, `order A1`",
    "step": "of the timeline; without it as long as the time asks for",
}


def _words(*words: str) -> Schema:
    return {"type": "string", "enum": [*words]}


PARAMETERS: Final[Mapping[str, Schema]] = {
    **{name: _words(*words) for name, words in CHOICES.items()},
    "steps": _words("0", "1"),
    "step": _words(*STEPS),
    "limit": WHOLE,
    "offset": {**WHOLE, "maximum": OFFSET_MAX},
    "since": WHOLE,
    "until": WHOLE,
    "begun": WHOLE,
    "listener": _words("admin", "decide"),
    "sessions": _words("keep", "rejudge"),
    "trace_id": {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"},
    "span_id": {"type": "string", "pattern": "^[0-9a-fA-F]{16}$"},
}
"""Schemas of parameters by name; others are texts."""

HARM: Final = {
    **fields(
        {
            "step": "whole",
            "tool": "text",
            "reason": "text",
            "severity": "text",
            "detail": "text?",
        }
    ),
    "type": ["object", "null"],
}
_JUDGED: Final[Mapping[str, str]] = {
    "session": "text",
    "namespace": "text",
    "agent": "text",
    "spec": "text?",
    "spec_version": "text?",
    "spec_kind": "text?",
    "mode": "text?",
    "turn": "text?",
    "joined": "truth",
    "calls": "whole",
    "substantive": "whole?",
    "harmful": "whole?",
    "harm_rate": "number?",
    "prefix_crit": "number?",
    "accepting": "truth?",
    "state": "text?",
    "can_finish": "truth?",
    "exact": "truth",
    "started": "whole",
    "last": "whole",
    "ended": "text?",
}
SUMMARY: Final = fields({**_JUDGED, "last_harm": HARM, "worst_harm": HARM, "risk": "number?"})
STEP: Final = fields(
    {
        "tool": "text",
        "error": "any",
        "evidence": "text",
        "call_id": "text?",
        "start_ns": "whole",
        "end_ns": "whole",
        "trace_id": "text",
        "span_id": "text",
        "symbol": "text?",
        "kind": "text?",
        "reason": "text?",
        "state": "text?",
        "detail": "text?",
        "index": "whole",
        "final": "truth",
    },
    ("symbol", "kind", "reason", "state", "detail"),
)
JUDGEMENT: Final = fields(
    {**_JUDGED, "steps": array(STEP), "steps_folded": "whole", "coverage": "object"}
)
LABEL: Final = fields(
    {
        **dict.fromkeys(("namespace", "session", "note", "who"), "text"),
        **dict.fromkeys(("begun", "at"), "whole"),
        **dict.fromkeys(("spec", "label"), "text?"),
    }
)
_FIGURES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("sessions", "harmed_sessions", "scored_sessions"), "whole"),
    **dict.fromkeys(("harm_rate", "prefix_crit"), "number?"),
    **dict.fromkeys(("calls", "harmful", "possible", "prevented", "not_judged"), "whole"),
}
FIGURES: Final = fields(_FIGURES)
COUNT: Final = fields({"name": "text", "sessions": "whole"})
AGENT: Final = fields({"namespace": "text", "agent": "text", **_FIGURES})
_SPEC: Final[Mapping[str, str]] = {
    **dict.fromkeys(("id", "version", "kind", "mode"), "text"),
    "in_use": "truth",
    **_FIGURES,
}
LABELLED_SPEC: Final = fields(
    {
        **_SPEC,
        "labels": fields(dict.fromkeys(("right", "wrong"), "whole")),
        "precision": "number?",
    }
)
STEP_OF_TIME: Final = fields({"begin": "whole", "end": "whole", **_FIGURES})
VERSION: Final = fields(
    {
        "version": "text",
        "first": "whole",
        "last": "whole",
        **_FIGURES,
        "reasons": array(COUNT),
        "tools": array(COUNT),
    }
)
_ABOUT: Final[Mapping[str, Any]] = {"since": "whole", "until": "whole", "step": "text"}
UNJUDGED: Final = fields(
    {"namespace": "text", "agent": "text", "sessions": "whole", "calls": "whole"}
)


def _parameters(names: Iterable[str]) -> list[ApiParameter]:
    return [
        ApiParameter(name, PARAMETERS.get(name, TEXT), MEANINGS.get(name, "")) for name in names
    ]


def _listed(of: Schema) -> Schema:
    return fields(
        {"sessions": array(of), "matching": "whole", "live": "whole", "next": "text?"}
    )


def _sums(**more: Schema | str) -> Schema:
    return fields({**more, **_ABOUT})


_REFUSED: Final = {
    401: ApiAnswer("who asks must say who it is", ERROR),
    403: ApiAnswer("who asks may not, or the request is of another site", ERROR),
    405: ApiAnswer("another method is needed", ERROR),
}
_BAD: Final = {400: ApiAnswer("a parameter or the body cannot be read", ERROR)}


def _route(
    method: Literal["GET", "POST"],
    path: str,
    meaning: str,
    schema: Schema | None,
    names: Iterable[str] = (),
    more: Mapping[int, ApiAnswer] = {},
    body: Schema | None = None,
    media: str = "application/json",
) -> ApiRoute:
    answers = {200: ApiAnswer("done", schema, media), **more, **_BAD, **_REFUSED}
    return ApiRoute(method, path, meaning, answers, _parameters(names), body)


def _missing(what: str) -> dict[int, ApiAnswer]:
    return {404: ApiAnswer(f"no such {what}", ERROR)}


def admin_routes() -> Iterator[ApiRoute]:
    """All methods of all paths of the API. The files of the session view are not in it."""
    one = "/api/v1/sessions/{session}"
    listed: Schema = {"anyOf": [_listed(JUDGEMENT), _listed(SUMMARY)]}
    yield _route(
        "GET", "/api/v1/sessions", "Live and past sessions", listed, ("steps", *RANKED)
    )
    found = fields(
        {
            "sessions": array(JUDGEMENT),
            "prevented": "list",
            "labels": array(LABEL),
            "judged": "list",
        },
        ("labels", "judged"),
    )
    yield _route(
        "GET",
        one,
        "One session, also by its trace's id",
        found,
        ("namespace", "begun"),
        {
            **_missing("session"),
            503: ApiAnswer("no such session is live, and the archive cannot be read", ERROR),
        },
    )
    yield _route(
        "POST",
        f"{one}/end",
        "Ends a session",
        fields({"ended": "whole"}),
        ("namespace",),
        _missing("session"),
    )
    yield _route(
        "POST",
        f"{one}/label",
        "Says whether the verdict on a session is right",
        LABEL,
        ("namespace", "begun"),
        {
            **_missing("session"),
            409: ApiAnswer("no archive is kept", ERROR),
            503: ApiAnswer("the archive's queue is full, or it cannot be read", ERROR),
        },
        _inlined(LabelRequest),
    )
    yield from _figure_routes()
    yield _route(
        "GET",
        "/api/v1/specs/{spec}",
        "A spec in use, as it is drawn",
        fields({"id": "text", "machines": "list"}),
        (),
        _missing("spec"),
    )
    yield _route(
        "GET",
        "/api/v1/trails/{session}",
        "Scores after each call of a session",
        fields({"trails": "list"}),
        ("namespace",),
        _missing("session"),
    )
    yield _route(
        "GET",
        "/api/v1/seen",
        "Services that were seen",
        fields({"agents": "list", "scopes": "list"}),
    )
    yield _route(
        "GET",
        "/api/v1/about",
        "The service",
        fields({"version": "text", "receivers": "object", "history": "object", "role": "text"}),
    )
    full = {503: ApiAnswer("too many open streams", ERROR)}
    yield _route(
        "GET",
        "/api/v1/verdicts",
        "Verdicts as they come, a line each",
        TEXT,
        (),
        full,
        media="application/x-ndjson",
    )
    yield _route(
        "GET",
        "/api/v1/events",
        "Server-sent events that name sessions that changed",
        TEXT,
        (),
        full,
        media="text/event-stream",
    )
    yield _route(
        "GET",
        "/api/v1/openapi.json",
        "This document, or that of the listener of decisions",
        {"type": "object"},
        ("listener",),
    )
    yield _route(
        "POST",
        "/-/reload",
        "Reads the specs again",
        fields({"success": "truth"}),
        ("sessions",),
        {422: ApiAnswer("the new specs are refused", {"type": "object"})},
    )
    yield _plain("/-/healthy", "Liveness", {503: ApiAnswer("a restart is needed", TEXT, PLAIN)})
    yield _plain("/-/ready", "Readiness", {503: ApiAnswer("not ready", TEXT, PLAIN)})
    yield _plain(
        "/runbooks/{alert}",
        "The runbook of an alert",
        {**_missing("runbook"), **_BAD, **_REFUSED},
    )


def _figure_routes() -> Iterator[ApiRoute]:
    whole = {
        "archive": "truth",
        "live": "whole?",
        "total": FIGURES,
        "agents": array(AGENT),
        "agents_more": "whole",
        "specs": array(LABELLED_SPEC),
        "specs_more": "whole",
        "unmatched": array(TEXT),
        "unjudged": array(UNJUDGED),
        "steps": array(STEP_OF_TIME),
        **dict.fromkeys(("reasons", "tools", "severities"), array(COUNT)),
        "worst": array(SUMMARY),
    }
    for path, meaning, shape in (
        ("/api/v1/overview", "Agents and specs over time, and the worst sessions", whole),
        ("/api/v1/agents", "Agents, the most harmed first", {"agents": array(AGENT)}),
        (
            "/api/v1/specs",
            "Specs in use and of past sessions, the most harmed first",
            {"specs": array(LABELLED_SPEC)},
        ),
        (
            "/api/v1/timeline",
            "Figures by the start of calls; empty steps are in it",
            {"steps": array(STEP_OF_TIME)},
        ),
        (
            "/api/v1/versions",
            "Versions of one agent, or of one spec",
            {"versions": array(VERSION)},
        ),
    ):
        yield _route("GET", path, meaning, _sums(**shape), NAMES)


def _plain(path: str, meaning: str, more: Mapping[int, ApiAnswer]) -> ApiRoute:
    return ApiRoute("GET", path, meaning, {200: ApiAnswer("done", TEXT, PLAIN), **more})


def _inlined(body: type[msgspec.Struct]) -> Schema:
    """The schema of a request's body, from the class that reads it."""
    (found,), parts = msgspec.json.schema_components((body,))
    schema: Schema = parts[found["$ref"].rpartition("/")[2]]
    return {name: each for name, each in schema.items() if name != "title"}


def admin_document() -> Schema:
    """The document of the admin listener."""
    return document(
        "offrails: admin listener",
        "Sessions, figures, labels and reload. What changes something needs the role operator.",
        admin_routes(),
    )
