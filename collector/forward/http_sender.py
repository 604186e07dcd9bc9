"""Posts of OTLP/HTTP to one next hop.

The body is sent as it is, in its own media type. The next hop's status decides (OTLP specification, OTLP/HTTP
Response): 429, 502, 503 and 504 are to be tried again, after Retry-After where it is given; other errors never are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from collector.config.settings.forward import NextHopSettings
from collector.forward.answers import json_answer, json_message, proto_answer
from collector.forward.message import ForwardMessage, ForwardReply
from collector.net.http_client import reason, without_user
from collector.net.watched_files import UnusableFileError
from collector.receive.request import Encoding
from collector.receive.status_codes import ExportStatus, status_message
from collector.sinks.http_client import KeptClient

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpForwarder", "retry_after", "status_of"]

CONTENT_TYPES: Final[Mapping[Encoding, bytes]] = {
    "proto": b"application/x-protobuf",
    "json": b"application/json",
}
STATUSES: Final[Mapping[int, ExportStatus]] = {
    400: ExportStatus.MALFORMED,
    401: ExportStatus.UNAUTHENTICATED,
    403: ExportStatus.PERMISSION_DENIED,
    404: ExportStatus.NOT_FOUND,
    405: ExportStatus.METHOD_NOT_ALLOWED,
    413: ExportStatus.TOO_LARGE,
    415: ExportStatus.UNSUPPORTED_MEDIA,
    429: ExportStatus.THROTTLED,
    502: ExportStatus.UNAVAILABLE,
    503: ExportStatus.UNAVAILABLE,
    504: ExportStatus.UNAVAILABLE,
}
CONNECTIONS_MAX: Final = 64
ANSWER_BYTES_MAX: Final = 64 * 1024
"""Bytes of an answer that are read."""
SECOND_NS: Final = 1_000_000_000


class HttpForwarder:
    """Sends to one next hop over HTTP.

    Args:
        hop: its settings.
        setting: their key, for errors.
        clock: Unix nanoseconds.
    """

    encodings: frozenset[Encoding] = frozenset({"proto", "json"})

    def __init__(self, hop: NextHopSettings, setting: str, clock: Callable[[], int]) -> None:
        self._hop = hop
        self._clock = clock
        url, authorization = without_user(hop.endpoint.rstrip("/"))
        self._urls = {signal: f"{url}/v1/{signal}" for signal in hop.signals}
        self._client = KeptClient(
            url,
            hop,
            setting,
            authorization=authorization,
            timeout_seconds=hop.timeout_seconds,
            connections=CONNECTIONS_MAX,
            most=CONNECTIONS_MAX,
            event="forward_files_not_reloaded",
        )

    async def prepare(self) -> None:
        """Makes the client, so that files that cannot be used are noticed at the start.

        Raises:
            UnusableFileError: a file that the settings name.
        """
        await self._client.prepare()

    async def send(self, message: ForwardMessage) -> ForwardReply:
        """Makes one attempt. Faults of the network are replies, too: they are to be tried again."""
        import httpx

        try:
            async with asyncio.timeout(self._hop.timeout_seconds):
                return await self._post(message)
        except TimeoutError:
            return ForwardReply(ExportStatus.UNAVAILABLE, "no answer in time")
        except UnusableFileError as problem:
            return ForwardReply(ExportStatus.UNAVAILABLE, str(problem.strerror))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as problem:
            return ForwardReply(ExportStatus.UNAVAILABLE, reason(problem))

    async def close(self) -> None:
        """Closes its connections."""
        await self._client.close()

    async def _post(self, message: ForwardMessage) -> ForwardReply:
        client = await self._client.get()
        headers = [(b"content-type", CONTENT_TYPES[message.encoding]), *message.metadata]
        async with client.stream(
            "POST", self._urls[message.signal], content=message.body, headers=headers
        ) as answer:
            body = await _read(answer)
        return self._reply(answer, body)

    def _reply(self, answer: httpx.Response, body: bytes) -> ForwardReply:
        code = answer.status_code
        status = status_of(code)
        is_json = "json" in answer.headers.get("content-type", "")
        if status is ExportStatus.OK:
            rejected, words = json_answer(body) if is_json else proto_answer(body)
            return ForwardReply(status, words, rejected)
        said = json_message(body) if is_json else status_message(body)
        words = f"status {code}: {said}" if said else f"status {code}"
        wait = 0.0
        if status.value.retryable:
            wait = retry_after(answer.headers.get("retry-after", ""), self._clock())
        return ForwardReply(status, words, wait_seconds=wait)


def status_of(code: int) -> ExportStatus:
    """The status that a code of HTTP stands for."""
    if 200 <= code < 300:
        return ExportStatus.OK
    return STATUSES.get(code, ExportStatus.INTERNAL)


def retry_after(value: str, now_ns: int) -> float:
    """Seconds that a Retry-After header asks for: seconds or a date (RFC 9110 10.2.3); 0 if it is neither."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_ns / SECOND_NS)
    except (ValueError, OverflowError):
        return 0.0


async def _read(answer: httpx.Response) -> bytes:
    """The body, as far as it is of use; a longer one ends its connection."""
    parts: list[bytes] = []
    size = 0
    async for part in answer.aiter_raw():
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            return b""
    return b"".join(parts)
