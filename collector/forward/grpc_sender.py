"""OTLP/gRPC to one next hop, by grpcio, which is loaded where a next hop has `protocol: grpc`, and nowhere else.

The codes that are to be tried again are those of the OTLP specification (OTLP/gRPC, Failures). RESOURCE_EXHAUSTED is
one of them only with RetryInfo; without, the message is too large or the quota used up for good.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from collector.config.settings.forward import NextHopSettings
from collector.forward.answers import proto_answer
from collector.forward.message import ForwardMessage, ForwardReply
from collector.net.http_client import proxy_of, tls_context, without_user
from collector.net.watched_files import UnusableFileError, WatchedFiles, read_file
from collector.receive.request import Encoding, Metadata, Signal
from collector.receive.status_codes import ExportStatus, retry_seconds
from collector.sinks.http_client import authorization_of, files_of
from collector.telemetry.logs import log

if TYPE_CHECKING:
    import grpc

__all__ = ["GrpcForwarder", "status_of"]

METHODS: Final[Mapping[Signal, str]] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
STATUSES: Final[Mapping[int, ExportStatus]] = {
    1: ExportStatus.UNAVAILABLE,  # CANCELLED
    3: ExportStatus.MALFORMED,
    4: ExportStatus.UNAVAILABLE,  # DEADLINE_EXCEEDED
    5: ExportStatus.NOT_FOUND,
    7: ExportStatus.PERMISSION_DENIED,
    8: ExportStatus.TOO_LARGE,
    10: ExportStatus.UNAVAILABLE,  # ABORTED
    11: ExportStatus.UNAVAILABLE,  # OUT_OF_RANGE
    12: ExportStatus.METHOD_NOT_ALLOWED,
    14: ExportStatus.UNAVAILABLE,
    15: ExportStatus.UNAVAILABLE,  # DATA_LOSS
    16: ExportStatus.UNAUTHENTICATED,
}
RESOURCE_EXHAUSTED: Final = 8
DETAILS: Final = "grpc-status-details-bin"
BINARY: Final = "-bin"
PORTS: Final = {"http": 80, "https": 443}
ANSWER_BYTES_MAX: Final = 64 * 1024
RECONNECT_MILLISECONDS_MAX: Final = 1_000
"""Longest pause of the core between two connections: the pauses between attempts are the destination's."""
CLOSE_SECONDS: Final = 30.0
"""Grace for calls on a channel that is replaced."""
_NAME: Final = re.compile(rb"[0-9a-z_.-]+")
_VALUE: Final = re.compile(rb"[\x20-\x7e]*")


class GrpcForwarder:
    """Sends to one next hop over gRPC.

    Args:
        hop: its settings.
        setting: their key, for errors.
    """

    encodings: frozenset[Encoding] = frozenset({"proto"})

    def __init__(self, hop: NextHopSettings, setting: str) -> None:
        self._hop = hop
        self._setting = setting
        self._endpoint, self._authorization = without_user(hop.endpoint)
        self._watched = WatchedFiles(*files_of(hop))
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[Signal, Any] = {}
        self._metadata: list[tuple[str, str | bytes]] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def prepare(self) -> None:
        """Makes the channel, so that files that cannot be used are noticed at the start.

        Raises:
            UnusableFileError: a file that the settings name.
        """
        # What the environment says of proxies is no setting: the first attempt says that it is wrong.
        with contextlib.suppress(ValueError):
            await self._connect()

    async def send(self, message: ForwardMessage) -> ForwardReply:
        """Makes one attempt. Faults of the network are replies, too: they are to be tried again."""
        import grpc

        try:
            await self._renew()
            metadata = [*self._metadata, *_metadata(message.metadata)]
            answer = await self._calls[message.signal](
                message.body, timeout=self._hop.timeout_seconds, metadata=metadata
            )
        except grpc.aio.AioRpcError as error:
            return _refused(error)
        except UnusableFileError as problem:
            return ForwardReply(ExportStatus.UNAVAILABLE, str(problem.strerror))
        except ValueError as problem:
            return ForwardReply(ExportStatus.UNAVAILABLE, str(problem))
        rejected, words = proto_answer(answer)
        return ForwardReply(ExportStatus.OK, words, rejected)

    async def close(self) -> None:
        """Closes its connections."""
        channel, self._channel = self._channel, None
        for task in self._closing:
            task.cancel()
        if channel is not None:
            await channel.close(None)

    async def _renew(self) -> None:
        """A new channel where there is none, or where files have changed."""
        if self._channel is None:
            await self._connect()
        elif self._watched.changed():
            try:
                await self._connect()
            except UnusableFileError as problem:
                log.warning("forward_files_not_reloaded", reason=problem.strerror)

    async def _connect(self) -> None:
        """Makes the channel. Files are read and modules are loaded in a thread."""
        credentials, metadata, proxy = await asyncio.to_thread(self._read)
        from grpc import aio

        parts = urlsplit(self._endpoint)
        target = f"{parts.netloc}" if parts.port else f"{parts.netloc}:{PORTS[parts.scheme]}"
        options: list[tuple[str, Any]] = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
            ("grpc.enable_retries", 0),
            ("grpc.max_reconnect_backoff_ms", RECONNECT_MILLISECONDS_MAX),
            ("grpc.primary_user_agent", "offrails"),
            ("grpc.enable_http_proxy", int(proxy is not None)),
        ]
        if proxy is not None:
            options.append(("grpc.http_proxy", proxy))
        channel = (
            aio.insecure_channel(target, options)
            if credentials is None
            else aio.secure_channel(target, credentials, options)
        )
        self._metadata = metadata
        # Without serialisers, messages are bytes.
        self._calls = {
            signal: channel.unary_unary(METHODS[signal], None, None)
            for signal in self._hop.signals
        }
        old, self._channel = self._channel, channel
        if old is not None:
            task = asyncio.get_running_loop().create_task(old.close(CLOSE_SECONDS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _read(self) -> tuple[Any, list[tuple[str, str | bytes]], str | None]:
        """Credentials of the channel, metadata of every call, and the proxy."""
        import grpc

        hop = self._hop
        authorization = authorization_of(hop, self._setting) or self._authorization
        headers = {"authorization": authorization} if authorization else {}
        given = {**headers, **hop.plain_headers}.items()
        metadata = _metadata([(name.lower().encode(), text.encode()) for name, text in given])
        proxy = proxy_of(self._endpoint, hop.proxy)
        if not self._endpoint.startswith("https:"):
            return None, metadata, proxy
        # Unlike the core, this says what is wrong with a file.
        tls_context(hop.ca_file, hop.client_cert_file, hop.client_key_file, self._setting)
        files = {
            "ca_file": hop.ca_file,
            "client_cert_file": hop.client_cert_file,
            "client_key_file": hop.client_key_file or hop.client_cert_file,
        }
        ca, cert, key = (
            None if file is None else read_file(file, f"{self._setting}.{name}")
            for name, file in files.items()
        )
        return grpc.ssl_channel_credentials(ca, key, cert), metadata, proxy


def _metadata(given: Metadata) -> list[tuple[str, str | bytes]]:
    """Headers as metadata; those that gRPC cannot carry are left out."""
    found: list[tuple[str, str | bytes]] = []
    for name, value in given:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            continue
        key, text = name.decode(), value.decode()
        if not key.endswith(BINARY):
            found.append((key, text))
            continue
        with contextlib.suppress(binascii.Error):  # unpadded, as gRPC writes it
            found.append((key, base64.b64decode(text + "=" * (-len(text) % 4))))
    return found


def _refused(error: grpc.aio.AioRpcError) -> ForwardReply:
    code = error.code()
    trailers: Any = error.trailing_metadata() or ()
    details = next((value for name, value in trailers if name == DETAILS), None)
    wait = retry_seconds(details) if isinstance(details, bytes) else None
    status = status_of(code.value[0], has_retry_info=wait is not None)
    return ForwardReply(status, f"{code.name}: {error.details()}", wait_seconds=wait or 0.0)


def status_of(code: int, *, has_retry_info: bool = False) -> ExportStatus:
    """The status that a code of gRPC stands for."""
    if code == RESOURCE_EXHAUSTED and has_retry_info:
        return ExportStatus.THROTTLED
    return STATUSES.get(code, ExportStatus.INTERNAL)
