"""What of the service is in a snapshot, and what it was made with."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from collector.config.settings import Settings
from monitor.object_graph import Layout
from monitor.session.session_codec import STILL

__all__ = ["LAYOUT", "digest_of"]

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
        "monitor.session.spec_binding.SpecBinder": {"_cache": dict},
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
)


def digest_of(settings: Settings) -> bytes:
    """Of all settings: what an object was made with is in its snapshot."""
    found = msgspec.json.encode(
        settings.model_dump(mode="json", warnings=False), order="sorted"
    )
    return blake2b(found, digest_size=16).digest()
