"""What of the service is in a snapshot, and what it was made with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from collector.config.settings import Settings
from monitor.object_graph import Change, Layout
from monitor.session.session_codec import CHANGES, STILL

__all__ = ["JUDGING", "LAYOUT", "judging"]

_CHANGES: Final[Mapping[str, tuple[Change, ...]]] = {}
"""What has changed in kept classes of this package since snapshots of format 3, as `CHANGES` has it for the library's."""


LAYOUT: Final = Layout(
    packages=("monitor", "collector"),
    records=(
        "monitor.",
        "collector.calls.",
        "collector.decode.span.Resource",
        "collector.dialects.values.",
        "collector.telemetry.counters.Tally",
        "collector.telemetry.counters.Histogram",
        "collector.sinks.pager.",
        "collector.sinks.alert.",
        "collector.sinks.alert_groups.",
        "collector.sinks.quota.",
    ),
    still=STILL,
    caches={
        # By identity, which is another one in the next process.
        "monitor.session.table.Table": {"_near": list},
        "monitor.session.spec_binding.SpecBinder": {"_cache": dict, "_cached_bytes": int},
        "monitor.judging.judge_calls.CallJudge": {"_sights": dict},
        # Those are told at their next call, or when their verdicts become final.
        "monitor.engine.Monitor": {"_stale": list},
        "collector.calls.session_ids.SessionIds": {
            "_owners": dict,
            "_last": object,
            "_requesters": dict,
        },
        # Whether anybody watches.
        "collector.calls.pipeline.Pipeline": {"quiet": bool},
    },
    # All else of a judge follows from its spec.
    only={"monitor.session.judge.Judge": ("skewed", "left_out", "numbers")},
    own={
        "collector.calls.duplicates.DuplicateFilter": ("_bound", "_period_ns", "_taken_max"),
        "collector.calls.decided.DecidedCalls": ("_bytes_max", "_entries_max", "confirm_ns"),
        "collector.calls.model_requests.ModelRequests": ("by_answer",),
        "collector.calls.trace_store.Traces": (
            "_bytes_max",
            "_period_bytes_max",
            "_spans_max",
            "_traces_max",
        ),
        "collector.sinks.alert_groups.AlertGroups": (
            "_namespaced",
            "_repeat_ns",
            "_resolve_ns",
            "_told_apart_ns",
        ),
        "collector.sinks.pager.Pager": ("_rules",),
        "collector.sinks.quota.Quota": ("_most",),
        "monitor.aggregate.totals.Totals": ("_agents_max", "_hold_ns", "_pairs_max"),
        "monitor.session.table.Table": ("bytes_max", "sessions_max", "tombstones_max"),
    },
    changes={**CHANGES, **_CHANGES},
)


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
