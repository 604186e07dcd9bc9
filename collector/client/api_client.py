"""A running service's API, asked by verbs of another process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from collector.client.verb_error import VerbError
from collector.net.http_client import NO_RESPONSE, options, proxy_of, reason, without_user
from collector.sinks.printable_text import printable

if TYPE_CHECKING:
    import httpx

__all__ = ["NoAnswerError", "ask", "bearer", "opened", "pages", "post", "shown_url"]

TIMEOUT_SECONDS: Final = 10.0
_ASKS: Final = "; it asks for a token: --token-file FILE"


class NoAnswerError(VerbError):
    """There is no service, or it does not answer as one of ours; the message says where and why."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """Status of the answer, if it is not 200."""


def ask(url: str, path: str, token_file: Path | None = None) -> dict[str, Any]:
    """The object that a path of the API answers.

    Args:
        url: HOST:PORT, or with `http://` or `https://` before it.
        path: of the API, quoted.
        token_file: has the token that the service asks for.

    Raises:
        NoAnswerError: it is no such address, nobody is there, or somebody else is.
    """
    return _object(url, path, token_file)


def pages(url: str, path: str, token_file: Path | None = None) -> Iterator[dict[str, Any]]:
    """The answers of a list, page by page.

    Args:
        url: as of `ask`.
        path: of the list, with its filters.
        token_file: as of `ask`.

    Raises:
        NoAnswerError: as `ask` does.
    """
    found = ask(url, path, token_file)
    yield found
    before = f"{path}{'&' if '?' in path else '?'}cursor="
    while cursor := found.get("next"):
        found = ask(url, before + quote(str(cursor)), token_file)
        yield found


def post(url: str, path: str, body: object, token_file: Path | None = None) -> dict[str, Any]:
    """The object that a path of the API answers to a JSON body.

    Args:
        url: as of `ask`.
        path: of the API, quoted.
        body: what is sent as JSON.
        token_file: as of `ask`.

    Raises:
        NoAnswerError: as `ask` does; the message has what the service says is wrong.
    """
    return _object(url, path, token_file, json.dumps(body).encode())


def _object(
    url: str, path: str, token_file: Path | None, sent: bytes | None = None
) -> dict[str, Any]:
    with opened(url, path, TIMEOUT_SECONDS, token_file, sent) as answer:
        found = json.loads(answer.read())
        if not isinstance(found, dict):
            raise NoAnswerError(f"{shown_url(url)}: expected an object at {path}")
        return found


@contextmanager
def opened(
    url: str,
    path: str,
    timeout_seconds: float,
    token_file: Path | None = None,
    sent: bytes | None = None,
) -> Iterator[httpx.Response]:
    """The answer of a path of the API, with status 200, to be read.

    Args:
        url: HOST:PORT, or with `http://` or `https://` before it; a user and a password in it are sent
            as basic authentication.
        path: of the API, quoted.
        timeout_seconds: to connect, and for each wait.
        token_file: has the token that the service asks for.
        sent: a JSON body to post; None: the path is got.

    Raises:
        NoAnswerError: it is no such address, nobody is there, or somebody else is.
    """
    import httpx

    base = url if "://" in url else f"http://{url}"
    if not base.startswith(("http://", "https://")) or not _has_host(base):
        raise NoAnswerError(f"{shown_url(url)}: expected HOST:PORT or http://HOST:PORT")
    base, authorization = without_user(base.rstrip("/"))
    if token_file is not None:
        authorization = bearer(token_file)
    headers = {"authorization": authorization} if authorization else {}
    method = "GET" if sent is None else "POST"
    if sent is not None:
        headers["content-type"] = "application/json"
    try:
        proxy = proxy_of(base)
        made = options(base, timeout_seconds=timeout_seconds, proxy=proxy, headers=headers)
        with (
            httpx.Client(**made) as client,
            client.stream(method, base + path, content=sent) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                status = answer.status_code
                hint = _ASKS if status == httpx.codes.UNAUTHORIZED else ""
                said = _said(answer) if sent is not None else ""
                raise NoAnswerError(
                    f"{shown_url(url)}: status {status} for {path}{said}{hint}", status
                )
            yield answer
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as problem:
        why = printable(reason(problem))
        if why == NO_RESPONSE and base.startswith("http:"):
            why += "; if it speaks TLS, ask for https://"
        raise NoAnswerError(f"{shown_url(url)}: {why}") from None


def _said(answer: httpx.Response) -> str:
    """What an answer says is wrong."""
    try:
        found = json.loads(answer.read())["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return f": {printable(str(found))}"


def bearer(token_file: Path) -> str:
    """The Authorization header with a file's token: its first line that has one, without a name.

    Raises:
        NoAnswerError: the file cannot be read, or has none.
    """
    from collector.receive.bearer_tokens import token_of

    try:
        lines = token_file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "expected UTF-8 text"
        raise NoAnswerError(f"--token-file: {token_file}: {why}") from None
    for line in lines:
        if token := token_of(line):
            return f"Bearer {token}"
    raise NoAnswerError(f"--token-file: {token_file}: there is no token in it")


def _has_host(base: str) -> bool:
    try:
        return bool(urlsplit(base).hostname)
    except ValueError:
        return False


def shown_url(url: str) -> str:
    """An address without user and password, and without what a terminal would obey."""
    scheme, colon, rest = url.rpartition("://")
    place, slash, path = rest.partition("/")
    return printable(scheme + colon + place.rpartition("@")[2] + slash + path)
