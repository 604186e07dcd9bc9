# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""Guarded tools of the rover that note which of them ran, and what an agent prints at its end."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from typing import Any

import rover

from offrails_guard import Guard

__all__ = ["TOOLS", "finish", "guard"]

RAN: list[str] = []


def _noting(tool: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(tool)
    def run(*args: Any, **kwargs: Any) -> str:
        RAN.append(tool.__name__)
        return tool(*args, **kwargs)

    return run


TOOLS = [_noting(tool) for tool in rover.TOOLS]


def guard(**options: Any) -> Guard:
    """The guard of the service that the environment names."""
    return Guard(os.environ["GUARD_URL"], deadline_seconds=20, service="farm-rover", **options)


def finish(told: list[str], answer: str) -> None:
    """Prints which tools ran, what the model was told by them, and its last words."""
    print(json.dumps({"ran": RAN, "told": told, "answer": answer}))
