"""A rollout judged by the product's own path: its spans are read and judged as `offrails replay` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from collector.decode.span import Span
from collector.offline.replay import Recording, judge
from collector.sdk.readable_span import SpanReader
from monitor import Spec, judge_calls

__all__ = ["judged", "read_spans"]


def read_spans(spans: Sequence[ReadableSpan]) -> list[Span]:
    """The spans of a rollout as the service would receive them."""
    reader = SpanReader()
    return [reader.read(span) for span in spans]


def judged(spans: Sequence[Span], spec: Spec) -> Mapping[str, Any]:
    """The judgement object of a rollout's spans under a spec; that of no calls where there are none."""
    recording = Recording(Path(spec.id), requests=[list(spans)])
    found = [each for each in judge([recording], [spec]) if each["spec"] == spec.id]
    return found[0] if found else judge_calls(spec, []).judgement
