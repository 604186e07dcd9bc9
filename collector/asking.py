"""A running service's API, asked by verbs of another process."""

from __future__ import annotations

import http.client
import json
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from collector.sinks.page import printable

__all__ = ["NoAnswerError", "ask"]

TIMEOUT_SECONDS: Final = 10


class NoAnswerError(Exception):
    """There is no service, or it does not answer as one of ours; the message says where and why."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """What it answered, if it is not 200."""


def ask(url: str, path: str) -> dict[str, Any]:
    """The object that a path of the API answers.

    Args:
        url: HOST:PORT, or with `http://` or `https://` before it.
        path: of the API, quoted.

    Raises:
        NoAnswerError: it is no such address, nobody is there, or somebody else is.
    """
    base = url if "://" in url else f"http://{url}"
    if not base.startswith(("http://", "https://")):
        raise NoAnswerError(f"{printable(url)}: expected HOST:PORT or http://HOST:PORT")
    try:
        with urlopen(base.rstrip("/") + path, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - its scheme was looked at
            found = json.load(answer)
    except HTTPError as problem:
        raise NoAnswerError(
            f"{printable(url)}: status {problem.code} for {path}", problem.code
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as problem:
        raise NoAnswerError(f"{printable(url)}: {_why(problem)}") from None
    if not isinstance(found, dict):
        raise NoAnswerError(f"{printable(url)}: expected an object at {path}")
    return found


def _why(problem: Exception) -> str:
    """What is wrong, in the system's words: those of urllib have brackets around them."""
    inner = problem.reason if isinstance(problem, URLError) else problem
    said = inner.strerror if isinstance(inner, OSError) and inner.strerror else str(inner)
    return printable(said) or type(inner).__name__
