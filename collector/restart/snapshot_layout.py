"""What of the service is in a snapshot, and what it was made with."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from collector.config.settings.settings import Settings
from collector.restart.snapshot_kinds.alerts import ALERT_KINDS
from collector.restart.snapshot_kinds.calls import CALL_KINDS
from collector.restart.snapshot_kinds.monitor import MONITOR_KINDS
from monitor.plain_records.kinds import Kinds
from monitor.session.session_kinds import SESSION_KINDS

__all__ = ["JUDGING", "KINDS", "judging"]

KINDS: Final = Kinds((*SESSION_KINDS, *MONITOR_KINDS, *CALL_KINDS, *ALERT_KINDS))
"""All that is kept of the service."""

JUDGING: Final[tuple[str, ...]] = (
    "history",
    "show_arguments",
    "metrics_namespace_label",
    "alerts.group_by",
    "receiver.max_attribute_bytes",
    "sessions.agent_attributes",
    "sessions.hold_seconds",
    "sessions.id_attributes",
    "sessions.idle_seconds",
    "sessions.namespace_attributes",
    "sessions.remember_seconds",
    "sessions.requested",
    "sessions.span_attributes_bind",
    "sessions.window_seconds",
)
"""Settings that change what is judged, or what stands for it: with others, a snapshot is of no use."""


def judging(settings: Settings) -> dict[str, str]:
    """The settings that a snapshot depends on, as texts."""
    given = settings.model_dump(mode="json", warnings=False)
    found = {path: _text(given, path) for path in JUDGING}
    asks = settings.receiver.auth.bearer.tokens_file is not None
    return found | {"receiver.auth.bearer.tokens_file": "set" if asks else ""}


def _text(given: Any, path: str) -> str:
    for name in path.split("."):
        given = given[name]
    return msgspec.json.encode(given, order="sorted").decode()
