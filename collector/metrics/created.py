"""`_created`: since when a counter counts, in OpenMetrics.

A counter that is 500 at the first scrape has increased by nothing for Prometheus, unless it knows that the
counter began after the last scrape: `--enable-feature=created-timestamp-zero-ingestion` reads `_created`.
Only counters of what is lost have it: it is one more line for each series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from monitor.exposition.families import Family, Marked, Sample

__all__ = ["LOSSES", "with_created"]

Line = Sample | Marked | str

LOSSES: Final = frozenset(
    {
        "alert_retries",
        "alerts_sent",
        "alerts_withheld",
        "attributes_over_bound",
        "connections_closed",
        "ingest_spans",
        "internal_errors",
        "label_overflow",
        "log_lines_dropped",
        "record_requests",
        "requests_refused",
        "requests_throttled",
        "sessions_ended",
        "sessions_split",
        "spans_dropped",
        "spans_rejected",
        "unread_messages",
    }
)
"""Families that count what is lost, without `offrails_` and `_total`."""


def with_created(families: Iterable[Family], started_ns: int) -> Iterator[Family]:
    """The families; those of losses say since when they count.

    Args:
        families: what is shown.
        started_ns: when this process began to count, Unix nanoseconds.
    """
    for family in families:
        if family.name.removeprefix("offrails_") in LOSSES:
            yield family._replace(samples=_dated(family.samples, started_ns / 1e9))
        else:
            yield family


def _dated(samples: Iterable[Line], started: float) -> Iterator[Line]:
    for sample in samples:
        yield sample
        if isinstance(sample, Sample):
            yield Sample("_created", sample.labels, started)
