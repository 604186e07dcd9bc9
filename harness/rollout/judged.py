"""A rollout judged by the product's own path: its spans are read and judged as `offrails replay` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from collector.config.settings.settings import Settings
from collector.offline.replay import Recording, judge
from collector.sdk.readable_span import SpanReader
from monitor import Spec, judge_calls

__all__ = ["judged"]


@cache
def _settings() -> Settings:
    return Settings()


def judged(spans: Sequence[ReadableSpan], spec: Spec) -> Mapping[str, Any]:
    """The judgement object of a rollout's spans under a spec; that of no calls where there are none."""
    reader = SpanReader()
    request = [reader.read(span) for span in spans]
    recording = Recording(Path(spec.id), requests=[request])
    found = [
        each for each in judge([recording], [spec], _settings()) if each["spec"] == spec.id
    ]
    return found[0] if found else judge_calls(spec, []).judgement
