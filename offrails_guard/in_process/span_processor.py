"""The span processor of offrails, for whoever installs the guard with the extra `sdk`."""

from __future__ import annotations

from offrails_guard.in_process.extras import missing

try:
    from collector.sdk import MonitorSpanProcessor
except ImportError as problem:
    raise missing("MonitorSpanProcessor", "collector", "sdk", problem) from problem

__all__ = ["MonitorSpanProcessor"]
