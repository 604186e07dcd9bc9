"""Posts of the sinks: one HTTP client for each receiver, bounded in time and size.

A client is made once, in a thread, since certificates take tens of milliseconds to read. Its connection
is kept. When a file that its settings name has changed, a new client is made; files that do not
fit together (half of a renewal) change nothing until they do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collector.config.settings.http_client import HttpClientSettings
from collector.net.http_client import (
    basic,
    options,
    proxy_of,
    reason,
    tls_context,
    without_user,
)
from collector.net.watched_files import UnusableFileError, WatchedFiles, read_file
from collector.telemetry.logs import log

if TYPE_CHECKING:
    import httpx

__all__ = ["DeliveryError", "HttpSender", "KeptClient", "authorization_of", "files_of"]

ANSWER_BYTES_MAX: Final = 64 * 1024
REST_SECONDS: Final = 0.5
KEPT_SECONDS: Final = 90.0
"""A connection is kept for so long without a request: longer than pages take to be repeated."""

RETRY_CODES: Final = frozenset({408, 425, 429})


class DeliveryError(Exception):
    """It did not arrive. `again` False: the receiver has refused it for good."""

    def __init__(self, message: str, *, again: bool = True) -> None:
        super().__init__(message)
        self.again = again


def files_of(client: HttpClientSettings) -> list[Path]:
    """The files that the settings of a client name."""
    named = (
        client.password_file,
        client.bearer_token_file,
        client.ca_file,
        client.client_cert_file,
        client.client_key_file,
    )
    return [file for file in named if file is not None]


def authorization_of(client: HttpClientSettings, setting: str) -> str:
    """The value of `Authorization` that the settings ask for; "" for none.

    Raises:
        UnusableFileError: a file cannot be read, or holds no password or token.
    """
    if client.password_file is not None:
        return basic(client.username, _secret(client.password_file, f"{setting}.password_file"))
    if client.bearer_token_file is None:
        return ""
    key = f"{setting}.bearer_token_file"
    token = _secret(client.bearer_token_file, key).strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UnusableFileError(key, client.bearer_token_file, "expected one token in ASCII")
    return f"Bearer {token}"


def _secret(file: Path, setting: str) -> str:
    try:
        text = read_file(file, setting).decode("utf-8-sig").strip("\r\n")
    except UnicodeDecodeError:
        raise UnusableFileError(setting, file, "expected text in UTF-8") from None
    if not text.strip():
        raise UnusableFileError(setting, file, "the file is empty")
    return text


class KeptClient:
    """The httpx client of one receiver: made in a thread, kept, and made anew when its files have changed.

    Args:
        url: of the receiver, without user and password.
        settings: credentials, certificates, proxy, headers.
        setting: the section they are from, for errors.
        authorization: used where the settings have no credentials; "" for none.
        timeout_seconds: for connecting, and for each read and write.
        connections: how many are kept; `most` is how many there may be, None for no bound.
        event: name of the log line where changed files cannot be used.
    """

    def __init__(
        self,
        url: str,
        settings: HttpClientSettings,
        setting: str,
        *,
        authorization: str,
        timeout_seconds: float,
        connections: int,
        most: int | None = None,
        event: str,
    ) -> None:
        self._url = url
        self._settings = settings
        self._setting = setting
        self._authorization = authorization
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        self._most = most
        self._event = event
        self._watched = WatchedFiles(*files_of(settings))
        self._client: httpx.AsyncClient | None = None
        self._log = log

    async def prepare(self) -> None:
        """Makes the client, so that files that cannot be used are noticed before the first request.

        Raises:
            UnusableFileError: a file that the settings name.
        """
        # What the environment says of proxies is no setting: the first request says that it is wrong.
        with contextlib.suppress(ValueError):
            self._client = await asyncio.to_thread(self._make)

    async def get(self) -> httpx.AsyncClient:
        """The client; a new one where there is none, or where files have changed.

        Raises:
            UnusableFileError: there is none yet, and a file cannot be used.
            ValueError: the environment's proxy is not an HTTP proxy.
        """
        if self._client is None:
            self._client = await asyncio.to_thread(self._make)
        elif self._watched.changed():
            try:
                made = await asyncio.to_thread(self._make)
            except UnusableFileError as problem:
                self._log.warning(self._event, reason=problem.strerror)
            else:
                old, self._client = self._client, made
                await old.aclose()
        return self._client

    async def close(self) -> None:
        """Closes its connections."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _make(self) -> httpx.AsyncClient:
        """The client; in a thread, since files are read and modules are loaded."""
        import anyio
        import httpx

        given = self._settings
        secure = self._url.startswith("https:")
        proxy = proxy_of(self._url, given.proxy)
        context = None
        if secure or given.ca_file or given.client_cert_file:
            context = tls_context(
                given.ca_file, given.client_cert_file, given.client_key_file, self._setting
            )
        authorization = authorization_of(given, self._setting) or self._authorization
        headers = {"authorization": authorization} if authorization else {}
        made = options(
            self._url,
            timeout_seconds=self._timeout_seconds,
            proxy=proxy,
            context=context,
            headers={**headers, **given.plain_headers},
        )
        anyio.run(anyio.sleep, 0)  # loads what the first request would load on the event loop
        limits = httpx.Limits(
            max_connections=self._most,
            max_keepalive_connections=self._connections,
            keepalive_expiry=KEPT_SECONDS,
        )
        return httpx.AsyncClient(**made, limits=limits)


class HttpSender:
    """Posts to one receiver.

    Args:
        url: where; a user and a password in it are sent as basic authentication.
        timeout_seconds: for a whole request.
        client: credentials, certificates, proxy, headers.
        setting: the section they are from, for errors.
    """

    def __init__(
        self,
        url: str,
        timeout_seconds: float,
        client: HttpClientSettings | None = None,
        setting: str = "",
    ) -> None:
        self._url, authorization = without_user(url)
        self._timeout_seconds = timeout_seconds
        self._client = KeptClient(
            self._url,
            client or HttpClientSettings(),
            setting,
            authorization=authorization,
            timeout_seconds=timeout_seconds,
            connections=1,
            event="sink_files_not_reloaded",
        )

    async def prepare(self) -> None:
        """Makes the client, so that files that cannot be used are noticed before the first post.

        Raises:
            UnusableFileError: a file that the settings name.
        """
        await self._client.prepare()

    async def post(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Posts a body and waits for the answer's status.

        Raises:
            DeliveryError: no connection, no answer in time, or an answer that is not 2xx.
        """
        try:
            client = await self._client.get()
            async with asyncio.timeout(self._timeout_seconds):
                status = await self._status(client, body, headers)
        except TimeoutError:
            raise DeliveryError("no answer in time") from None
        except UnusableFileError as problem:
            raise DeliveryError(str(problem.strerror)) from None
        except Exception as problem:
            if not _is_of_the_network(problem):
                raise
            raise DeliveryError(reason(problem)) from None
        if not 200 <= status < 300:
            again = status >= 500 or status in RETRY_CODES
            raise DeliveryError(f"status {status}", again=again)

    async def close(self) -> None:
        """Closes its connection."""
        await self._client.close()

    async def _status(
        self, client: httpx.AsyncClient, body: bytes, headers: Mapping[str, str]
    ) -> int:
        async with client.stream(
            "POST", self._url, content=body, headers=dict(headers)
        ) as answer:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(REST_SECONDS):
                    await _rest(answer)
            return answer.status_code


async def _rest(answer: httpx.Response) -> None:
    """Reads on, so that the connection can be kept; what the receiver says is not used."""
    length = 0
    async for part in answer.aiter_raw():
        length += len(part)
        if length > ANSWER_BYTES_MAX:
            return


def _is_of_the_network(problem: Exception) -> bool:
    """False for a fault of ours."""
    import httpx

    return isinstance(problem, httpx.HTTPError | httpx.InvalidURL | OSError | ValueError)
