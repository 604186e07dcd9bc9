"""Which build runs: the source as it is, or the hot path as machine code (docs/performance.md)."""

from __future__ import annotations

from typing import Final

from collector.telemetry import counters

__all__ = ["BUILD"]

BUILD: Final = "plain" if counters.__file__.endswith((".py", ".pyc")) else "compiled"
"""`counters` is on the hot path: where anything is compiled, it is."""
