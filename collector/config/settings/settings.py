"""All settings of the process."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from collector.config.field_types import (
    OFF,
    Address,
    File,
    Names,
    NextHops,
    Number,
    Paths,
    Switch,
    TraceLink,
    Url,
    Whole,
)
from collector.config.section import SettingsSection
from collector.config.settings.alerts import AlertSettings
from collector.config.settings.archive import ArchiveSettings
from collector.config.settings.decide import DecideSettings
from collector.config.settings.forward import NextHopSettings
from collector.config.settings.judges import JudgesSettings
from collector.config.settings.ready import ReadySettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.record import RecordSettings
from collector.config.settings.reload import ReloadSettings
from collector.config.settings.sessions import SessionSettings
from collector.config.settings.state import StateSettings
from collector.config.settings.telemetry import (
    LogLineSettings,
    RedactSettings,
    TelemetrySettings,
)
from collector.config.settings.tls_and_auth import AdminAuthSettings, TlsSettings

__all__ = ["Settings"]


class Settings(SettingsSection):
    """Everything a user can set."""

    specs: Annotated[
        Paths,
        Field(description="Spec files, and folders that are read recursively."),
    ] = ()
    specs_on_error: Annotated[
        Literal["refuse", "start"],
        Field(
            description="What `serve` does if specs or settings are refused at its start. refuse: it exits. start: it runs with the sound specs, or with none, is not ready, and alerts. If settings are refused, it serves only /metrics and health, and retries."
        ),
    ] = "refuse"
    specs_last_good: Annotated[
        File | None,
        Field(
            description="Folder in which the last specs that compiled are kept, for a start with `specs_on_error: start` whose specs are refused. If empty: `state.dir`, if a journal is kept."
        ),
    ] = None
    reload: ReloadSettings = ReloadSettings()
    receiver: ReceiverSettings = ReceiverSettings()
    decide: Annotated[DecideSettings, Field(description="Decisions before calls are made.")] = (
        DecideSettings()
    )
    metrics: Annotated[
        Address, Field(description="Address of /metrics and health: HOST:PORT or off.")
    ] = "127.0.0.1:9464"
    metrics_names: Annotated[
        Names,
        Field(
            description="Host names that /metrics accepts, in addition to IP addresses and loopback names. If empty, a listener that is not on loopback accepts any name."
        ),
    ] = ()
    metrics_pairs_max: Annotated[
        Whole,
        Field(
            ge=1,
            description="Pairs of agent and spec with series of their own, 100 to 150 each, and about 40 `_created` in OpenMetrics. Further pairs are summed in `__overflow__`. A quarter more is reserved for tenants with few pairs. Unset: at most as many as `memory_limit` has room for.",
        ),
    ] = 2_000
    metrics_agents_max: Annotated[
        Whole | None,
        Field(
            ge=1,
            description="Agents of one namespace with series of their own; further ones are summed in `__overflow__`, by spec. Unset: as many as `metrics_pairs_max` allows. An agent under one spec costs 10 KB of memory here, and of each scrape 100 to 150 series, 9 KB and 35 µs.",
        ),
    ] = None
    metrics_namespace_label: Annotated[
        Literal["auto", "always", "never"],
        Field(
            description="Whether families by agent and spec have the label `namespace`. auto: where the namespace is not empty. always: also where it is. never: all namespaces are summed."
        ),
    ] = "auto"
    admin: Annotated[
        Address,
        Field(
            description="Address of the API and the session view: HOST:PORT or off. Keep it on loopback, or set `admin_auth`."
        ),
    ] = "127.0.0.1:4319"
    metrics_tls: Annotated[
        TlsSettings, Field(description="Certificates of the metrics listener.")
    ] = TlsSettings()
    admin_tls: Annotated[
        TlsSettings, Field(description="Certificates of the admin listener.")
    ] = TlsSettings()
    admin_auth: Annotated[
        AdminAuthSettings, Field(description="Who may read sessions and reload specs.")
    ] = AdminAuthSettings()
    sessions: SessionSettings = SessionSettings()
    history: Annotated[
        Literal["auto", "complete"],
        Field(
            description="complete: declares that every session is seen from its first call, whatever the times of its spans, until a restart that `history_mark` or a journal shows, or until something is missed. auto: sessions may have begun before the service started."
        ),
    ] = "auto"
    history_mark: Annotated[
        File | None,
        Field(
            description="Folder that outlives the process, but not its agents: a process leaves a mark there that it ran. With `history: complete` and no journal with a past, one that is started again within `sessions.idle_seconds` reads sessions as `auto` does."
        ),
    ] = None
    admin_names: Annotated[
        Names,
        Field(
            description="Host names that the API accepts, in addition to loopback names. If empty, a listener that is not on loopback accepts any name."
        ),
    ] = ()
    trace_url: Annotated[
        TraceLink,
        Field(
            description="Template of a link to a trace, with the placeholders {trace_id}, {span_id} and {session}."
        ),
    ] = ""
    public_url: Annotated[
        Url,
        Field(
            description="Address under which people reach the admin listener, such as `https://example.com/offrails`. Alerts then link to their session and to their runbook, unless `alerts.session_url` and `alerts.runbook_url` say otherwise. The listener answers to its host name, and below its path whether or not the proxy strips that."
        ),
    ] = ""
    alerts: AlertSettings = AlertSettings()
    record: Annotated[
        RecordSettings, Field(description="Recordings of accepted trace requests.")
    ] = RecordSettings()
    forward: Annotated[
        NextHops[NextHopSettings],
        Field(
            description="Next hops: receivers to which each accepted request goes on, unchanged (docs/forward.md). In a variable: their endpoints, over HTTP."
        ),
    ] = ()
    state: Annotated[
        StateSettings, Field(description="The journal, which outlives the process.")
    ] = StateSettings()
    archive: Annotated[ArchiveSettings, Field(description="Past sessions, on disk.")] = (
        ArchiveSettings()
    )
    judges: Annotated[
        JudgesSettings, Field(description="Judgements of ended sessions by models.")
    ] = JudgesSettings()
    redact: Annotated[
        RedactSettings, Field(description="What is removed before anything leaves the process.")
    ] = RedactSettings()
    show_arguments: Annotated[
        Switch,
        Field(
            description="Keeps the arguments of calls and shows them in the API and the session view. Verdicts name the values that do not match, in the log and in alerts, too. They may hold personal data."
        ),
    ] = False
    memory_limit: Annotated[
        Annotated[Whole, Field(ge=0)] | None,
        Field(
            description="Bytes that the process may use. Requests are refused before it is reached, and bounds in bytes that are not set follow from it (docs/operations.md). Unset: the cgroup's limit. 0: no limit."
        ),
    ] = None
    ready: Annotated[ReadySettings, Field(description="When `/-/ready` says no.")] = (
        ReadySettings()
    )
    drain_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="When the service stops: time for sinks to deliver while it still receives. From the moment when the receivers close it ends within 5 s.",
        ),
    ] = 5.0
    last_scrape_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="When the service stops: time for one more scrape of /metrics, with final verdicts. The receivers go on meanwhile, and `/-/ready` says no. It applies only if /metrics was ever scraped and no journal is kept, with which counters go on. Set it above the scrape interval.",
        ),
    ] = 0.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="Lowest level that is logged."),
    ] = "info"
    log: Annotated[LogLineSettings, Field(description="Rate limits of log lines.")] = (
        LogLineSettings()
    )
    telemetry: Annotated[
        TelemetrySettings,
        Field(description="The service's own metrics and traces, pushed over OTLP."),
    ] = TelemetrySettings()

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = {
            "receiver.grpc": self.receiver.grpc,
            "receiver.http": self.receiver.http,
            "metrics": self.metrics,
            "admin": self.admin,
            "decide.listen": self.decide.listen,
        }
        taken: dict[str, str] = {}
        for key, address in given.items():
            if address == OFF or address.endswith(":0"):
                continue
            if address in taken:
                raise ValueError(f"{taken[address]} and {key} are both {address}")
            taken[address] = key
        labels = [each.label for each in self.forward]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"two next hops of forward are {label}: give one a name")
        return self
