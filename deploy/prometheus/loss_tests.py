"""Tests of the alerts about losses: each of their counters goes through the same histories.

python deploy/prometheus/loss_tests.py > deploy/prometheus/loss_test.yml
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

__all__ = ["CASES", "LOSSES", "tests", "text"]

LOSSES: Mapping[str, tuple[str, ...]] = {
    "AgentMonitorSpansDropped": ('offrails_spans_dropped_total{%s,reason="internal_error"}',),
    "AgentMonitorSpansRejected": ('offrails_spans_rejected_total{%s,reason="bad_id"}',),
    "AgentMonitorRequestsRefused": (
        'offrails_requests_refused_total{%s,reason="bytes"}',
        'offrails_requests_throttled_total{%s,sender="farm",reason="bytes_rate"}',
    ),
    "AgentMonitorRecordingLoss": ('offrails_record_requests_total{%s,result="dropped"}',),
    "AgentMonitorArchiveLoss": ('offrails_archive_dropped_total{%s,reason="disk_full"}',),
    "AgentMonitorJournalFailing": ("offrails_journal_errors_total{%s}",),
    "AgentMonitorForwardLoss": (
        'offrails_forward_dropped_total{%s,destination="tempo",reason="queue_full"}',
        'offrails_forward_requests_total{%s,destination="phoenix",signal="traces",outcome="refused"}',
    ),
    "AgentMonitorLogLinesDropped": (
        'offrails_log_lines_dropped_total{%s,reason="queue_full"}',
    ),
    "AgentMonitorSinkRetrying": ('offrails_alert_retries_total{%s,sink="webhook"}',),
    "AgentMonitorAlertDeliveryFailing": (
        'offrails_alerts_sent_total{%s,sink="webhook",result="dropped"}',
        'offrails_alerts_withheld_total{%s,reason="full"}',
    ),
    "AgentMonitorInternalErrors": ('offrails_internal_errors_total{%s,error="ValueError"}',),
}
"""By alert, the counters of which it tells."""

OLD = "-9999x90"
"""A process that has run for long."""


class Case(NamedTuple):
    """One history of a counter, a sample a minute, and when the alert fires for it."""

    counter: str
    up: str = "1x90"
    began: str = OLD
    fires: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()


CASES: Mapping[str, Case] = {
    "born at 1": Case("_x20 1x70", fires=(24, 30), silent=(19, 60)),
    "born at 500": Case(
        "_x20 500x70", "_x20 1x70", "_x20 1200x70", fires=(24, 26), silent=(19, 60)
    ),
    "reset with a loss": Case(
        "40x20 3x70", began="-9999x20 1260x70", fires=(24, 30), silent=(20, 60)
    ),
    "reset without a loss": Case(
        "40x20 0x70", began="-9999x20 1260x70", silent=(20, 22, 30, 60)
    ),
    "gap": Case(
        "7x4 stale _x30 7x50",
        "1x4 0x31 1x50",
        "-9999x4 stale _x30 -9999x50",
        silent=(3, 20, 36, 40, 50),
    ),
    "flood": Case("0x20 0+500x5 2500x60", fires=(25, 30), silent=(20, 60)),
    "one request": Case("0x20 1x70", fires=(24, 30), silent=(20, 60)),
    "a missed scrape": Case(
        "0x20 1x4 stale 1x60",
        "1x25 0 1x60",
        "-9999x25 stale -9999x60",
        fires=(25, 26, 27),
        silent=(20, 60),
    ),
    "silence": Case("0x90", silent=(1, 20, 60)),
}
"""By name: what a counter of losses can go through."""


def tests() -> Iterator[dict[str, Any]]:
    """One test for each history: every counter goes through it, and every alert is asked for."""
    for name, case in CASES.items():
        yield {
            "name": f"counters of losses: {name}",
            "interval": "1m",
            "input_series": list(_series(case)),
            "promql_expr_test": [
                {
                    "expr": _asked(alert),
                    "eval_time": f"{minute}m",
                    "exp_samples": _firing(len(counters)) if minute in case.fires else [],
                }
                for alert, counters in LOSSES.items()
                for minute in sorted((*case.fires, *case.silent))
            ],
        }


def _series(case: Case) -> Iterator[dict[str, str]]:
    place = 'job="offrails",instance="m"'
    for counters in LOSSES.values():
        for counter in counters:
            yield {"series": counter % place, "values": case.counter}
    yield {"series": f"up{{{place}}}", "values": case.up}
    yield {"series": f"process_start_time_seconds{{{place}}}", "values": case.began}


def _asked(alert: str) -> str:
    return f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'


def _firing(count: int) -> list[dict[str, Any]]:
    return [{"labels": "{}", "value": count}]


def text() -> str:
    """The file for promtool."""
    head = "# Generated: python deploy/prometheus/loss_tests.py\n"
    whole = {
        "rule_files": ["rules/offrails.yml"],
        "evaluation_interval": "1m",
        "tests": list(tests()),
    }
    found: str = head + yaml.safe_dump(whole, sort_keys=False, width=1_000)
    return found


if __name__ == "__main__":
    sys.stdout.write(text())
