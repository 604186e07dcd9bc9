"""`_created`: since when a counter counts, in OpenMetrics.

A counter that is 500 at the first scrape has increased by nothing for Prometheus, unless it knows that the
counter began after the last scrape: `--enable-feature=created-timestamp-zero-ingestion` reads `_created`.
Only counters of verdicts and of what is lost have it: it is one more line for each series.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from monitor.exposition.family import ExemplarLines, Family, Sample

__all__ = ["LOSSES", "VERDICTS", "with_created"]

Line = Sample | ExemplarLines | str

LOSSES: Final = frozenset(
    {
        "alert_retries",
        "alerts_sent",
        "alerts_withheld",
        "attributes_over_bound",
        "agent_calls",
        "archive_dropped",
        "connections_closed",
        "coverage",
        "forward_dropped",
        "ingest_spans",
        "internal_errors",
        "journal_errors",
        "label_overflow",
        "log_lines_dropped",
        "record_requests",
        "requests_refused",
        "requests_throttled",
        "sessions_ended",
        "sessions_split",
        "spans_dropped",
        "spans_rejected",
        "tls_handshakes_failed",
        "unread_messages",
    }
)
"""Families that count what is lost, without `offrails_` and `_total`."""

VERDICTS: Final = frozenset(
    {
        "calls",
        "decisions",
        "divergences",
        "first_two_diverged",
        "harmful_calls",
        "harmful_calls_by_tool",
        "harmful_calls_provisional",
        "missing_writes",
        "paging_writes",
        "possible_harm",
        "session_verdicts",
        "unexpected_writes",
        "verdict_revisions",
    }
)
"""Families that count verdicts. An agent's are born with its first call, mostly above 0."""

_COUNTER: Final = re.compile(r"^(\w+)_total(\{.*\})? \S+$", re.MULTILINE)
"""A line of a counter; the value is behind the last brace, whatever labels hold."""


_DATED: Final = LOSSES | VERDICTS


def with_created(families: Iterable[Family], started_ns: int) -> Iterator[Family]:
    """The families; those of verdicts and losses say since when they count.

    Args:
        families: what is shown.
        started_ns: when this process began to count, Unix nanoseconds.
    """
    for family in families:
        if family.name.removeprefix("offrails_") in _DATED:
            yield family._replace(samples=_dated(family.samples, started_ns / 1e9))
        else:
            yield family


def _dated(samples: Iterable[Line], started: float) -> Iterator[Line]:
    """Each sample, and behind it since when it counts: OpenMetrics has the lines of one counter together."""
    line = rf"\g<0>\n\1_created\2 {started!r}"
    for sample in samples:
        if isinstance(sample, str):
            yield _COUNTER.sub(line, sample)
        elif isinstance(sample, ExemplarLines):
            marks = {2 * place: mark for place, mark in sample.exemplars.items()}
            yield ExemplarLines(_COUNTER.sub(line, sample.text), marks)
        else:
            yield sample
            yield Sample("_created", sample.labels, started)
