"""The parameters of a request to the API: those that a path does not know are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qs

from collector.net.asgi import Scope
from monitor.spec.suggestions import closest

__all__ = ["check_names", "parameters"]

SHOWN_MAX: Final = 64
"""Characters of an unknown name that are repeated in the answer."""


def parameters(scope: Scope) -> dict[str, str]:
    """Return the parameters of a request by name; of several with one name the last counts."""
    text = scope["query_string"].decode("latin-1")
    return {name: values[-1] for name, values in parse_qs(text, keep_blank_values=True).items()}


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
