"""Next hops: where requests go on to."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from collector.config.field_types import (
    Endpoint,
    HeaderNames,
    Number,
    Positive,
    Signals,
    Switch,
    Whole,
)
from collector.config.settings.http_client import HttpClientSettings

__all__ = ["NextHopSettings"]


class NextHopSettings(HttpClientSettings):
    """A receiver to which accepted requests go on, unchanged."""

    endpoint: Annotated[
        Endpoint,
        Field(
            description="URL of the next hop, such as `http://tempo:4318`. Over HTTP, `/v1/traces`, `/v1/metrics` and `/v1/logs` are added."
        ),
    ]
    name: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_.:\[\]-]{0,100}$",
            description="Name of the next hop in metrics and log. Unset: host and port of `endpoint`.",
        ),
    ] = ""
    protocol: Annotated[
        Literal["http", "grpc"],
        Field(
            description="Protocol of the next hop: OTLP over HTTP, or over gRPC. Over gRPC, requests in JSON are converted to protobuf."
        ),
    ] = "http"
    signals: Annotated[
        Signals, Field(description="Signals that go on: traces, metrics, logs.")
    ] = ("traces", "metrics", "logs")
    headers_from_sender: Annotated[
        HeaderNames,
        Field(
            description="Headers (gRPC: metadata) of the sender's request that go on with it, such as `x-scope-orgid`. The sender's `authorization` goes on only if it is listed."
        ),
    ] = ()
    timeout_seconds: Annotated[
        Number, Field(gt=0, description="Time for one attempt: connection, request, answer.")
    ] = 10.0
    queue_bytes: Annotated[
        Whole,
        Field(
            ge=1024,
            description="Bytes of the requests that wait for this next hop or are on their way to it. A larger request is taken if the queue is empty. Beyond it, `on_full` decides.",
        ),
    ] = 64 * 1024 * 1024
    on_full: Annotated[
        Literal["drop", "refuse"],
        Field(
            description="What happens if the queue is full. drop: the request does not go to this next hop, and is counted. refuse: the sender is told to retry later (503, UNAVAILABLE). Its spans are judged in both cases."
        ),
    ] = "drop"
    sync: Annotated[
        Switch,
        Field(
            description="Answers each request with what this next hop answers, within `timeout_seconds`. One attempt is made; the sender makes the next. A full queue refuses."
        ),
    ] = False
    annotate: Annotated[
        Switch,
        Field(
            description="Adds `offrails.verdict`, `offrails.spec`, `offrails.reason` and `offrails.harm_rate` to the spans of judged calls. Requests with such spans are encoded anew."
        ),
    ] = False
    give_up_seconds: Annotated[
        Positive,
        Field(
            description="Age at which a request that could not be delivered is dropped, and counted."
        ),
    ] = 3600.0

    @property
    def refuses(self) -> bool:
        """True if a full queue refuses the request to its sender."""
        return self.sync or self.on_full == "refuse"

    @property
    def label(self) -> str:
        """The name of the next hop in metrics and log."""
        return self.name or urlsplit(self.endpoint).netloc.rpartition("@")[2]

    @model_validator(mode="after")
    def _check_hop(self) -> Self:
        parts = urlsplit(self.endpoint)
        if self.protocol == "grpc" and parts.path.strip("/"):
            raise ValueError("expected an endpoint without a path: gRPC has none")
        has_user = "@" in parts.netloc
        if self.has_credentials and has_user:
            raise ValueError("expected the user in the endpoint or beside it, not both")
        if self.sync and "on_full" in self.model_fields_set and self.on_full == "drop":
            raise ValueError("sync answers for each request: expected on_full: refuse")
        given = {name.lower() for name in self.headers}
        if self.has_credentials or has_user:
            given.add("authorization")
        twice = sorted(given & set(self.headers_from_sender))
        if twice:
            raise ValueError(f"{twice[0]}: expected it in headers or in headers_from_sender")
        return self
