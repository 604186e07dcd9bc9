"""The monitor inside the agent's own process, as a span processor (extra `sdk`)."""

from __future__ import annotations

from collector.sdk.span_processor import MonitorSpanProcessor

__all__ = ["MonitorSpanProcessor"]
