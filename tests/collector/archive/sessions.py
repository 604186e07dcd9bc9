"""Sessions as the archive keeps them, made by hand."""

from __future__ import annotations

import json
from typing import Any

from collector.archive.record import (
    ArchivedJudgement,
    ArchivedSession,
    HourlyCalls,
    SessionName,
    SortKeys,
)


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
    given: dict[str, Any] = {
        "agent": agent,
        "spec": spec,
        "spec_version": "1",
        "service_version": "",
        "mode": "page",
        "kind": "task",
        "calls": 3,
        "harmful": harmful,
        "possible": possible,
        "harm_rate": harmful / 3,
        "prefix_crit": 1.0 - harmful / 3,
        "not_judged": 0,
        "harms": harms,
        "tools": ("move", "water"),
        "hours": (HourlyCalls(begun // 3_600_000_000_000, 3, harmful, possible),),
        "summary": json.dumps(whole).encode(),
        "object": json.dumps(whole).encode(),
        **more,
    }
    return ArchivedSession(
        SessionName(namespace, session, begun),
        last,
        touched or last,
        ended,
        SortKeys(3 if harmful else 0, harmful, harmful / 3, harmful / 3, -1.0),
        (trace,) if trace else (),
        (),
        (ArchivedJudgement(**given),),
    )
