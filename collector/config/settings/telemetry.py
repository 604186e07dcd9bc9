"""What the process tells of itself: log lines, redaction, own metrics and traces."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from collector.config.field_types import Expressions, File, Number, Positive, Switch, Url
from collector.config.section import SettingsSection

__all__ = ["LogLineSettings", "RedactSettings", "TelemetrySettings"]


class LogLineSettings(SettingsSection):
    """Rate limits of the log lines that agents cause. Suppressed lines are counted, and the count is logged."""

    verdict_lines_per_second: Annotated[
        Positive,
        Field(
            description="Lines per second for the harmful calls, and for the alarms, of one agent under one spec. Further ones are counted in one line."
        ),
    ] = 1.0
    session_lines_per_second: Annotated[
        Positive,
        Field(
            description="Lines per second for the finished sessions of one agent under one spec, and for the new agents of one namespace. Further ones are counted in one line."
        ),
    ] = 10.0
    namespace_lines_per_second: Annotated[
        Positive,
        Field(
            description="Lines per second of each of these kinds for one namespace, over all its agents."
        ),
    ] = 50.0
    burst_seconds: Annotated[
        Positive,
        Field(
            description="After a quiet time, the lines of this many seconds may be written at once."
        ),
    ] = 10.0


class RedactSettings(SettingsSection):
    """RE2 expressions for what is removed from all that is shown, sent, logged or recorded."""

    replace: Annotated[
        Expressions,
        Field(
            description="RE2 expressions. Their matches become `[redacted]`, in names a digest."
        ),
    ] = ()
    hash: Annotated[
        Expressions,
        Field(
            description="RE2 expressions. Their matches become a digest, so that equal texts stay equal."
        ),
    ] = ()
    key_file: Annotated[
        File | None,
        Field(
            description="File with the key of the digests. Set it to keep digests equal after a restart. Unset: a random key."
        ),
    ] = None


class TelemetrySettings(SettingsSection):
    """The service's own metrics and traces, pushed over OTLP."""

    otlp_endpoint: Annotated[
        Url,
        Field(
            description="OTLP/HTTP receiver of the service's own metrics and traces, such as `http://127.0.0.1:4318`. If empty, nothing is pushed. Needs `offrails[otlp]`."
        ),
    ] = ""
    interval_seconds: Annotated[
        Positive, Field(description="Time between two pushes of metrics.")
    ] = 60.0
    pairs: Annotated[
        Switch,
        Field(
            description="Pushes the families by agent and spec as well: up to 150 series for each pair."
        ),
    ] = False
    traces: Annotated[
        Switch,
        Field(
            description="Pushes spans of the service's own work as well: requests, deliveries to sinks, scrapes, reloads."
        ),
    ] = False
    traces_ratio: Annotated[
        Number,
        Field(ge=0, le=1, description="Share of trace requests that get a span, from 0 to 1."),
    ] = 0.01
    traces_per_second: Annotated[
        Positive,
        Field(description="Own spans of each kind per second. Further ones are only counted."),
    ] = 10.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.traces and not self.otlp_endpoint:
            raise ValueError("traces needs otlp_endpoint")
        return self
