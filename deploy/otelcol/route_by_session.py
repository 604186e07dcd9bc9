"""The Collector's configuration that routes by session, made from the monitor's own keys of sessions.

python -m deploy.otelcol.route_by_session > deploy/otelcol/route-by-session.yaml
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from collector.config.settings.settings import Settings

__all__ = ["ROUTE", "configuration"]

ROUTE: Final = "offrails.route"
"""The resource attribute by which the exporter chooses a monitor."""

_HEAD = """\
# Generated from sessions.id_attributes: python -m deploy.otelcol.route_by_session
# Several monitors: every span of one session must reach the same one. This Collector (contrib, 0.158
# or later) holds each trace for a moment, finds the session's id on any of its spans, writes it on
# the resource of all of them, and chooses the monitor by it (consistent hashing).
# Run one replica. README.md says which sessions cannot be routed.
receivers:
  otlp:
    protocols:
      grpc: {endpoint: 0.0.0.0:4317}
      http: {endpoint: 0.0.0.0:4318}

processors:
  memory_limiter: {check_interval: 1s, limit_percentage: 75, spike_limit_percentage: 20}
  # Spans of one trace that come within this time are routed together. A verdict is later by it.
  groupbytrace: {wait_duration: 1s, num_traces: 100000}
  groupbyattrs: {} # one resource for the spans that came in several requests
  transform:
    error_mode: ignore
    # One group for each key: all spans are searched for the best key first, as the monitor does it.
    # Hidden and missing ids are none.
    trace_statements:
"""

_TAIL = """\
      # Without an id, each trace is a session of its own.
      - statements:
          - >-
            set(resource.attributes["offrails.route"], span.trace_id.string)
            where resource.attributes["offrails.route"] == nil
  batch: {timeout: 100ms, send_batch_size: 512}

exporters:
  load_balancing:
    routing_key: attributes
    routing_attributes: [offrails.route]
    protocol:
      otlp:
        tls: {insecure: true}
        timeout: 2s
        sending_queue: {enabled: true, queue_size: 2000}
        # The Collector refuses an interval that is longer than the whole time.
        retry_on_failure: {enabled: true, initial_interval: 200ms, max_interval: 2s, max_elapsed_time: 10s}
    # The pods of deploy/kubernetes/fleet, by name: a pod that starts anew has another address, and by
    # addresses (dns) its sessions would move to another monitor.
    resolver:
      static:
        hostnames:
          - offrails-0.offrails-headless:4317
          - offrails-1.offrails-headless:4317
          - offrails-2.offrails-headless:4317

service:
  pipelines:
    traces:
      receivers: [otlp]
      processors: [memory_limiter, groupbytrace, groupbyattrs, transform, batch]
      exporters: [load_balancing]
"""

_NONE = r"^(__REDACTED__|\\[Scrubbed due to |\\[no_session_id\\]$|$)"
"""Values that the monitor does not take for an id, either."""


def _statement(place: str, key: str) -> Iterator[str]:
    value = f'{place}.attributes["{key}"]'
    yield "          - >-"
    yield f'            set(resource.attributes["{ROUTE}"], String({value}))'
    yield f'            where resource.attributes["{ROUTE}"] == nil'
    yield f"            and {value} != nil"
    yield f"            and not IsMatch({value},"
    yield f'            "{_NONE}")'


def _statements(keys: Sequence[str]) -> Iterator[str]:
    for key in keys:
        yield "      - statements:"
        yield from _statement("span", key)
    yield "      # The id of a whole process says least."
    yield "      - statements:"
    for key in keys:
        yield from _statement("resource", key)


def configuration(keys: Sequence[str]) -> str:
    """The configuration for sessions that are named by these attributes, best first."""
    return _HEAD + "".join(f"{line}\n" for line in _statements(keys)) + _TAIL


if __name__ == "__main__":
    sys.stdout.write(configuration(Settings().sessions.id_attributes))
