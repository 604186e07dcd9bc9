"""The monitor inside the agent's own process, as a span processor (extra `sdk`), and logs of Inspect (extra `inspect`)."""

from __future__ import annotations

from collector.sdk.span_processor import MonitorSpanProcessor

__all__ = ["MonitorSpanProcessor"]
