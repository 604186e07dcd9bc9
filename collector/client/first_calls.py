"""What a running service says of spans that arrive without a tool call among them: from where, and what to turn on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from collector.client.api_client import NoAnswerError, ask
from monitor.findings import printable

__all__ = ["missing_calls", "service_of"]

_SEEN: Final = "/api/v1/seen"
_SHOWN_MAX: Final = 5
"""Scopes or services that are named."""
_NAME_MAX: Final = 80

_OF_AGENTS: Final = (
    "some spans are of agents or models: if a tool was called since the start of the service, turn on the "
    "instrumentation of the framework that runs the tools"
)
_OF_OTHERS: Final = (
    "none is of an agent or a model: turn on the instrumentation of the agent's framework"
)
_HOW: Final = "docs/frameworks.md has the lines for each framework"


def missing_calls(
    url: str | None, environ: Mapping[str, str], token_file: Path | None = None
) -> Iterator[str]:
    """Sentences on spans of which none is a tool call; none where a call was read, no span came, or nobody answers.

    Args:
        url: of the service's API; None if there is none.
        environ: may name the service that sends.
        token_file: has the token that the service asks for.
    """
    if url is None:
        return
    try:
        seen = ask(url, _SEEN, token_file)
    except NoAnswerError:
        return
    agents, scopes = _objects(seen, "agents"), _objects(seen, "scopes")
    service = service_of(environ)
    if not agents and scopes:
        yield f"spans arrive, but no span so far was a tool call; their scopes: {_listed(scopes)}"
        of_agents = any(each.get("of_agents") for each in scopes)
        yield f"{_OF_AGENTS if of_agents else _OF_OTHERS} ({_HOW})"
        return
    seen_names = list(dict.fromkeys(str(each.get("service", "")) for each in agents))
    if agents and service and service not in seen_names:
        yield (
            f"no tool call of service {printable(service)!r} (OTEL_SERVICE_NAME) was seen so far; "
            f"seen were: {_joined(seen_names)} ({_HOW})"
        )


def service_of(environ: Mapping[str, str]) -> str:
    """The service's name as an SDK reads it from its environment; "" if that has none."""
    pairs = (
        part.partition("=") for part in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
    )
    named = {key.strip(): value.strip() for key, _, value in pairs}
    return environ.get("OTEL_SERVICE_NAME") or named.get("service.name", "")


def _objects(seen: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = seen.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else ()


def _listed(scopes: Sequence[Mapping[str, Any]]) -> str:
    return _joined([str(each.get("name", "")) or "(without a name)" for each in scopes])


def _joined(names: Sequence[str]) -> str:
    more = f", and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(printable(each[:_NAME_MAX]) for each in names[:_SHOWN_MAX]) + more
