"""Sessions: their ids, their bounds, when they end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from collector.calls.sessions.session_ids import NAMESPACE_KEYS
from collector.calls.tree.trace_store import ARGUMENTS_BYTES_MAX, SPANS_BYTES_MAX
from collector.config.field_types import Names, Number, Switch, Whole
from collector.config.section import SettingsSection
from collector.dialects.choose import AGENT_KEYS, SESSION_KEYS
from monitor.limits import (
    SESSION_BYTES_MAX,
    SHARED_THINGS_BYTES_MAX,
    SHARED_THINGS_MAX,
    THINGS_MAX,
)

__all__ = ["SessionSettings"]


class SessionSettings(SettingsSection):
    """What a session is, and how long it lives."""

    max: Annotated[
        Whole,
        Field(
            ge=1,
            description="Live sessions. Beyond it, the least recently active one is evicted.",
        ),
    ] = 100_000
    max_bytes: Annotated[
        Whole,
        Field(
            ge=1 << 20,
            description="Approximate bytes of all live sessions. Beyond it, the tenant above its share loses its least recently "
            "active session.",
        ),
    ] = SESSION_BYTES_MAX
    things_max: Annotated[
        Whole,
        Field(
            ge=16,
            description="Things of one session under one spec with `each`. Beyond it, those that accept and were not carried for longest are dropped; one that comes back is read as joined.",
        ),
    ] = THINGS_MAX
    shared_things_max: Annotated[
        Whole,
        Field(
            ge=16,
            description="Things that sessions have in common, of all specs with `across`. Beyond it, the agent or namespace that has most loses those that were longest untouched; one that comes back is read as joined.",
        ),
    ] = SHARED_THINGS_MAX
    max_shared_things_bytes: Annotated[
        Whole,
        Field(
            ge=1 << 20,
            description="Approximate bytes of these things, with the last 16 calls on each. Beyond it, the same are dropped.",
        ),
    ] = SHARED_THINGS_BYTES_MAX
    max_argument_bytes: Annotated[
        Whole,
        Field(
            ge=0,
            description="Approximate bytes of arguments held to recognise further spans of the same calls. Beyond it, the tenant that holds most loses its largest and oldest. Verdicts stay.",
        ),
    ] = ARGUMENTS_BYTES_MAX
    max_span_bytes: Annotated[
        Whole,
        Field(
            ge=1 << 22,
            description="Approximate bytes remembered of spans, without arguments: a third for the trees of traces, the rest for the ids of judged spans. Beyond it, trees are forgotten sooner than after 2 to 4 minutes, and ids sooner than after 10 to 20 minutes.",
        ),
    ] = SPANS_BYTES_MAX
    idle_seconds: Annotated[
        Number,
        Field(
            gt=0,
            description="A session without calls for this time has ended. Raise it if agents pause longer within a session.",
        ),
    ] = 1800.0
    window_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="A verdict is final this long after its call was received. Until then, an earlier call that arrives late may change it. Raise it if spans arrive later.",
        ),
    ] = 10.0
    remember_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="The state of an ended session is kept for this time, so that the session may continue. If it continues later, it counts as joined.",
        ),
    ] = 86400.0
    hold_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="A finished session counts in the gauges of scores for this time. Keep it above the scrape interval.",
        ),
    ] = 300.0
    id_attributes: Annotated[
        Names,
        Field(
            description="Attributes that hold a session's id, best first, whichever span of a trace has them. Without any of them, each trace is a session of its own."
        ),
    ] = SESSION_KEYS
    agent_attributes: Annotated[
        Names,
        Field(
            description="Attributes that hold an agent's name, best first. Without any of them: `service.name`."
        ),
    ] = AGENT_KEYS
    requested: Annotated[
        Literal["auto", "always", "never"],
        Field(
            description="Whether requested calls (calls that a model asked for) are judged. auto: only those of tools that leave no spans."
        ),
    ] = "auto"
    group_by_answer: Annotated[
        Switch,
        Field(
            description="Whether calls that one model answer asks for are a group without an order, even where their spans do not overlap. Policies that are `strict` order them by their times."
        ),
    ] = True
    namespace_attributes: Annotated[
        Names,
        Field(description="Resource attributes whose values keep tenants' sessions apart."),
    ] = NAMESPACE_KEYS
    span_attributes_bind: Annotated[
        Names,
        Field(
            description="Attributes that a span may set in place of its resource's, where specs match on them. Needed where one resource stands for several services."
        ),
    ] = ()
