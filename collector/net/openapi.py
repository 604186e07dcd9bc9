"""OpenAPI 3.1 documents of listeners, made from tables of their paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from collector import __version__

__all__ = ["ERROR", "ApiAnswer", "ApiParameter", "ApiRoute", "array", "document", "fields"]

Schema = dict[str, Any]

_TYPES: Final[Mapping[str, Schema]] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "truth": {"type": "boolean"},
    "list": {"type": "array"},
    "object": {"type": "object"},
    "any": {},
}


def fields(given: Mapping[str, str | Schema], optional: Iterable[str] = ()) -> Schema:
    """The schema of an object with these fields; what is not named may be there, too.

    Args:
        given: a schema for each field, or its type in short: text, whole, number, truth, list, object or any, with `?`
            behind it where it may be null.
        optional: fields that may be absent.
    """
    absent = set(optional)
    return {
        "type": "object",
        "properties": {name: _schema(each) for name, each in given.items()},
        "required": [name for name in given if name not in absent],
    }


def array(of: Schema) -> Schema:
    """The schema of a list."""
    return {"type": "array", "items": of}


def _schema(given: str | Schema) -> Schema:
    if isinstance(given, dict):
        return given
    found = dict(_TYPES[given.rstrip("?")])
    if given.endswith("?"):
        found["type"] = [found["type"], "null"]
    return found


ERROR: Final = fields({"error": "text"})


class ApiParameter(NamedTuple):
    """A parameter of a path or of its query."""

    name: str
    schema: Schema
    meaning: str = ""


class ApiAnswer(NamedTuple):
    """What is answered with one status."""

    meaning: str
    schema: Schema | None = None
    media: str = "application/json"


class ApiRoute(NamedTuple):
    """A method of a path."""

    method: str
    path: str
    meaning: str
    answers: Mapping[int, ApiAnswer]
    parameters: Sequence[ApiParameter] = ()
    """Parameters of the query; those of the path are in its text."""
    body: Schema | None = None


def document(title: str, meaning: str, routes: Iterable[ApiRoute]) -> Schema:
    """The document of a listener.

    Args:
        title: its name.
        meaning: what it is for.
        routes: all methods of all paths.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "description": meaning, "version": __version__},
        "paths": paths,
        **_SECURITY,
    }


_SECURITY: Final[Schema] = {
    "components": {
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer"},
            "password": {"type": "http", "scheme": "basic"},
        }
    },
    "security": [{}, {"token": []}, {"password": []}],
}


def _operation(route: ApiRoute) -> Schema:
    inside = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in inside
    ]
    parameters += [
        {
            "name": each.name,
            "in": "query",
            "schema": each.schema,
            **({"description": each.meaning} if each.meaning else {}),
        }
        for each in route.parameters
    ]
    body = {"required": True, "content": {"application/json": {"schema": route.body}}}
    return {
        "summary": route.meaning,
        "operationId": _id(route),
        **({"parameters": parameters} if parameters else {}),
        **({"requestBody": body} if route.body is not None else {}),
        "responses": {str(status): _answer(each) for status, each in route.answers.items()},
    }


def _id(route: ApiRoute) -> str:
    words = route.path.replace("{", "").replace("}", "").replace("-", "").replace(".", "_")
    return "_".join([route.method.lower(), *filter(None, words.split("/"))])


def _answer(answer: ApiAnswer) -> Schema:
    if answer.schema is None:
        return {"description": answer.meaning}
    return {
        "description": answer.meaning,
        "content": {answer.media: {"schema": answer.schema}},
    }
