"""Which of the service's own work has a span."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collector.telemetry.tracing import OwnSpan, Tracer, traced

SECOND = 1_000_000_000
NOW = 1_800_000_000 * SECOND


def tracer_of(
    ratio: float, per_second: float, clock: Callable[[], int] = lambda: NOW
) -> tuple[Tracer, list[OwnSpan]]:
    ended: list[OwnSpan] = []
    return Tracer(ended.append, ratio, per_second, clock), ended


def requests(tracer: Tracer, count: int) -> None:
    for _ in range(count):
        with tracer.request("grpc", 10):
            pass


@pytest.mark.parametrize(("ratio", "spans"), [(0, 0), (0.01, 9), (0.25, 250), (1, 1000)])
def test_a_share_of_requests_has_a_span(ratio: float, spans: int) -> None:
    """None, some at equal distances, or all have one. Unsampled requests are not counted as dropped."""
    tracer, ended = tracer_of(ratio, 10_000)
    requests(tracer, 1000)
    assert len(ended) in (spans, spans + 1)
    assert tracer.results["dropped"] == 0


def test_a_second_has_so_many_spans_of_a_kind() -> None:
    """Further spans of that second are counted. Each kind of span has its own limit."""
    time = [NOW]
    tracer, ended = tracer_of(1, 5, lambda: time[0])
    requests(tracer, 100)
    for _ in range(3):
        with tracer.span("reload"):
            pass
    kinds = [span.kind for span in ended]
    assert (kinds.count("request"), kinds.count("reload")) == (5, 3)
    assert tracer.results["dropped"] == 95
    time[0] += SECOND
    requests(tracer, 100)
    assert len(ended) == 13


def test_a_clock_set_back_ends_no_spans() -> None:
    """An hour back: the allowance comes back after a second, not after the hour."""
    time = [NOW]
    tracer, ended = tracer_of(1, 5, lambda: time[0])
    requests(tracer, 5)
    time[0] -= 3600 * SECOND
    requests(tracer, 1)
    time[0] += SECOND
    requests(tracer, 1)
    assert len(ended) >= 6


def test_a_span_has_the_message_of_its_error() -> None:
    """The span has the error's message, or the exception's name."""
    tracer, ended = tracer_of(1, 10)
    with pytest.raises(KeyError), tracer.span("delivery", sink="webhook"):
        raise KeyError("x")
    with tracer.span("reload") as span:
        span.fail("refused")
    assert [span.error for span in ended] == ["KeyError", "refused"]
    assert ended[0].attributes == {"sink": "webhook"}


def test_off_keeps_nothing() -> None:
    """Without a tracer the block runs, and its attributes do not reach the next span."""
    with traced(None, "scrape", bytes=1) as span:
        span.set(more=2)
        span.fail("no")
    with traced(None, "reload") as other:
        assert (other.attributes, other.error) == ({}, "")
