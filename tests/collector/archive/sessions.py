"""Sessions as the archive keeps them, made by hand."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from collector.archive.record import (
    AGENT,
    HOUR_NS,
    ArchivedJudgement,
    ArchivedSession,
    FigureGroup,
    Figures,
    HarmShare,
    SessionName,
    SessionShare,
    SortKeys,
)

WHAT: Final[tuple[Literal["tool", "reason", "severity"], ...]] = ("tool", "reason", "severity")


def made(
    session: str = "s",
    *,
    begun: int = 5,
    last: int = 0,
    namespace: str = "",
    ended: str | None = "idle",
    harmful: int = 0,
    possible: int = 0,
    agent: str = "rover",
    spec: str = "farm",
    trace: bytes = b"",
    text: str = "",
    touched: int = 0,
    **more: Any,
) -> ArchivedSession:
    """One session with one judgement."""
    last = last or begun + 10
    harms = (("water", "repeated", "critical"),) if harmful else ()
    whole = {"session": session, "begun": begun, "text": text}
    fields: dict[str, Any] = {
        "kind": "task",
        "namespace": namespace,
        "agent": agent,
        "spec": spec,
        "spec_version": "1",
        "service_version": "",
        "mode": "page",
    }
    group = FigureGroup(
        **{**fields, **{name: more.pop(name) for name in fields if name in more}}
    )
    given: dict[str, Any] = {
        "group": group,
        "harmful": harmful,
        "harms": harms,
        "tools": ("move", "water"),
        "summary": json.dumps(whole).encode(),
        "object": json.dumps(whole).encode(),
        **more,
    }
    rate = harmful / 3
    figures = Figures(1, int(harmful > 0), 1, rate, 1.0 - rate, 3, harmful, possible, 0, 0)
    hour = last // HOUR_NS
    groups = (group, group._replace(kind=AGENT, spec="", spec_version="", mode=""))
    return ArchivedSession(
        SessionName(namespace, session, begun),
        last,
        touched or last,
        ended,
        SortKeys(3 if harmful else 0, harmful, rate, rate, -1.0),
        (trace,) if trace else (),
        (),
        (ArchivedJudgement(**given),),
        tuple(SessionShare(hour, each, figures) for each in groups),
        tuple(
            HarmShare(hour, each, what, name)
            for each in groups
            for told in harms
            for what, name in zip(WHAT, told, strict=True)
        ),
    )
