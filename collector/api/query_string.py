"""What a request to the API asks for: its parameters, of which unknown ones are refused, and the session in its path."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qs, unquote

from collector.net.asgi import Scope, path_of
from monitor.spec.suggestions import closest

__all__ = ["check_names", "parameters", "session_to"]

_SESSIONS: Final = b"/api/v1/sessions/"
SHOWN_MAX: Final = 64
"""Characters of an unknown name that are repeated in the answer."""


def parameters(scope: Scope) -> dict[str, str]:
    """Return the parameters of a request by name; of several with one name the last counts."""
    text = scope["query_string"].decode("latin-1")
    return {name: values[-1] for name, values in parse_qs(text, keep_blank_values=True).items()}


def session_to(action: bytes, scope: Scope) -> str | None:
    """The session of `/api/v1/sessions/{session}/{action}`, as it is asked for; None of another path."""
    path = path_of(scope)
    name, slash, last = path.removeprefix(_SESSIONS).partition(b"/")
    if not path.startswith(_SESSIONS) or not name or slash + last != b"/" + action:
        return None
    return unquote(name.decode("latin-1"), encoding="utf-8", errors="replace")


def check_names(query: Mapping[str, str], known: Collection[str] = ()) -> None:
    """Refuses parameters that a path does not take.

    Raises:
        ValueError: a sentence that names the parameter, and the one that was probably meant.
    """
    for name in query:
        if name not in known:
            raise ValueError(_unknown(name[:SHOWN_MAX], known))


def _unknown(name: str, known: Collection[str]) -> str:
    problem = f"unknown parameter `{name}`"
    if not known:
        return f"{problem}: this path takes none"
    meant = closest(name, known)
    hint = f"did you mean `{meant}`? " if meant else ""
    return f"{problem}: {hint}This path takes {', '.join(sorted(known))}"
