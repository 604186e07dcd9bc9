"""What a service is asked over HTTP, and how its answers are read."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from offrails_guard.decision import Decision, Outcome, UnreadableDecisionError
from offrails_guard.lenient_json import NESTED_MAX
from offrails_guard.policies import Policies
from offrails_guard.question import BODY_BYTES_MAX, Question, as_json

__all__ = [
    "ANSWER_BYTES_MAX",
    "DECIDE",
    "OUTCOME",
    "TOO_MUCH",
    "URL",
    "Failure",
    "ResultError",
    "ServiceAddress",
    "ServiceResponse",
    "headers_of",
    "outcome_body",
    "read_answer",
    "read_outcome",
    "why",
]

URL: Final = "http://127.0.0.1:4320"
"""Address of a service on this machine."""

DECIDE: Final = "/api/v1/decide"
OUTCOME: Final = "/api/v1/outcome"

ANSWER_BYTES_MAX: Final = 4 << 20

TOO_MUCH: Final = (400, 413)
"""Statuses of a service that cannot read the arguments or the result, or finds them too long."""


class ServiceResponse(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes


class Failure(Exception):  # noqa: N818 - no error of ours
    """There is no answer; the text says why in one word."""


class ResultError(Exception):
    """What a call returned cannot be told; its outcome can."""


class ServiceAddress(NamedTuple):
    """Where a service decides."""

    base: str
    """URL of the service."""
    socket: str | None
    """The path of its socket if it is one of the file system."""

    @property
    def host(self) -> str:
        """Host and port, without a user's name."""
        return urlsplit(self.base).netloc.rpartition("@")[2]

    @property
    def has_tls(self) -> bool:
        return self.base.startswith("https:")

    @classmethod
    def of(cls, url: str) -> ServiceAddress:
        """Reads `http://HOST:PORT`, `https://...`, or `unix:/path`.

        Raises:
            ValueError: the URL is none of these.
        """
        if url.startswith("unix:"):
            path = url.removeprefix("unix:")
            if not path:
                raise ValueError(f"{url!r}: expected the path of a socket after unix:")
            return cls("http://localhost", path)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"{url!r}: expected http://HOST:PORT, https://HOST:PORT or unix:/path"
            )
        return cls(url.rstrip("/"), None)


def headers_of(address: ServiceAddress, token: str | None) -> list[tuple[bytes, bytes]]:
    """The headers of every request."""
    return [
        (b"host", address.host.encode()),
        (b"user-agent", b"offrails-guard"),
        (b"accept-encoding", b"identity"),
        (b"content-type", b"application/json"),
        *([(b"authorization", f"Bearer {token}".encode())] if token else []),
    ]


def outcome_body(decision_id: str, outcome: Outcome, result: tuple[Any, ...] = ()) -> bytes:
    """The request that says what became of a call; `result` is what it returned, as its only item.

    What is no JSON within the result is told as a text.

    Raises:
        ResultError: the service would not read the result.
    """
    told = json.dumps({"decision_id": decision_id, "outcome": outcome}).encode()
    if not result:
        return told
    whole = as_json(result[0], NESTED_MAX - 1, default=str)
    if not whole:
        raise ResultError("it cannot be written as JSON")
    body = b'%s,"result":%s}' % (told[:-1], whole)
    if len(body) > BODY_BYTES_MAX:
        raise ResultError(f"it takes more than {BODY_BYTES_MAX} bytes")
    return body


def read_outcome(answer: ServiceResponse) -> None:
    """Reads what the service says to an outcome.

    Raises:
        Failure: it did not take it.
    """
    if answer.status not in (200, 409):  # 409: spans were faster
        raise Failure(why(answer.status))


def read_answer(
    answer: ServiceResponse, question: Question, policies: Policies
) -> list[Decision]:
    """The decisions of an answer.

    Args:
        answer: to the question.
        question: what was asked.
        policies: for what no spec has found right or wrong.

    Raises:
        Failure: the service gives none.
        UnreadableDecisionError: they cannot be read.
    """
    if answer.status != 200:
        raise Failure(why(answer.status))
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError) as problem:
        raise UnreadableDecisionError(str(problem)) from problem
    if question.batch:
        found = found.get("decisions") if isinstance(found, dict) else None
    else:
        found = [found]
    if not isinstance(found, list) or len(found) != len(question.calls):
        raise UnreadableDecisionError("not one decision for each call")
    return [Decision.read(each, policies) for each in found]


def why(status: int) -> str:
    """In one word, why an answer with this status is no decision."""
    if status in (401, 403):
        return "unauthorized"
    if status in (429, 503):
        return "overloaded"
    return "refused" if 400 <= status < 500 else "error"
