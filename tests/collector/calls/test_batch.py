"""Spans of one request go side by side through what is done with them, and come out as one by one, by their starts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from collector.calls.pipeline import TOGETHER, Pipeline
from collector.calls.tree.span_tree import SpanTree
from collector.decode.protobuf import otlp_proto
from collector.decode.span import Span, UnjudgedSpansError
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, Verdict
from monitor.spec.read import load_spec
from tests.bench import traffic
from tests.bench.traffic import ROVER, SECOND, generate
from tests.samples import sampled

NOW = 1_800_000_000 * SECOND


class Told:
    """A monitor behind a pipeline, and all that came of what was sent."""

    def __init__(self, *, quiet: bool = True) -> None:
        limits = Limits(history_complete=True, keep_arguments=True, fold=False)
        self.monitor, self.stats = Monitor([load_spec(ROVER)], limits), Stats()
        self.verdicts: list[Verdict] = []
        self.pipeline = Pipeline(self.monitor, self.stats, self.verdicts.extend)
        self.pipeline.quiet = quiet

    def send(self, spans: list[Span], size: int) -> Told:
        """In requests of so many."""
        for first in range(0, len(spans), size):
            self.pipeline.consume(spans[first : first + size], NOW, "test")
        return self

    @property
    def all(self) -> tuple[Any, ...]:
        """The verdicts, the judgements and the counts, once sessions have looked at what is missing no more."""
        self.monitor.tick(NOW)
        self.verdicts += self.monitor.news()
        seen = [each.as_json() for each in self.pipeline.inventory]
        return self.verdicts, list(self.monitor.judgements()), self.stats.counts, seen


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few sessions at a time: a request has several spans of each."""
    monkeypatch.setattr(traffic, "IN_FLIGHT", 12)


def spans_of(seed: int, late: float) -> list[Span]:
    """Of a dozen sessions at a time, which end and begin, of four instrumentations."""
    (body,) = generate(2 * TOGETHER + 7, 1, seed=seed, late=late, cut=True).requests
    return otlp_proto.decode(body).spans


def begun(spans: list[Span]) -> list[Span]:
    """The spans by their starts."""
    return sorted(spans, key=lambda span: span.start_ns)


@pytest.mark.parametrize(
    ("seed", "late", "quiet"),
    sampled(
        product((1, 2, 3), (0.0, 0.08, 0.7), (True, False)),
        [(1, 0.0, True), (1, 0.08, False), (1, 0.7, True), (1, 0.7, False)],
    ),
)
def test_together_is_told_what_is_told_one_by_one(seed: int, late: float, quiet: bool) -> None:
    """The same verdicts in the same order, revisions among them, however many come at once.

    A request is looked at whole: what began first in it comes first, so spans above calls come before these.
    """
    spans = spans_of(seed, late)
    for size in (2, TOGETHER - 1, TOGETHER, TOGETHER + 1, len(spans)):
        requests = [spans[first : first + size] for first in range(0, len(spans), size)]
        alone = Told(quiet=quiet).send([span for each in requests for span in begun(each)], 1)
        assert alone.verdicts or quiet
        assert Told(quiet=quiet).send(spans, size).all == alone.all


def test_one_by_one_verdicts_are_revised() -> None:
    """Spans of the law above do come late."""
    told = Told().send(spans_of(1, 0.7), 1)
    assert any(verdict.revised_from for verdict in told.verdicts)


def steps(told: Told) -> list[Any]:
    return [judgement["steps"] for judgement in told.monitor.judgements()]


@pytest.mark.plain
@pytest.mark.parametrize("place", [1, 20, TOGETHER + 3])
def test_an_error_keeps_nothing_back(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other calls of the request are judged, and later requests as if it had not come."""
    spans, behind = begun(spans_of(4, 0.0)), place + 2
    others = [*spans[:place], *spans[place + 1 : behind]]
    told, wanted = Told(), Told().send(others, 1)
    put, broken = SpanTree.put, spans[place]

    def failing(tree: SpanTree, span_id: bytes, *more: Any) -> Any:
        if span_id == broken.span_id:
            raise ZeroDivisionError
        return put(tree, span_id, *more)

    monkeypatch.setattr(SpanTree, "put", failing)
    with pytest.raises(UnjudgedSpansError) as failed:
        told.pipeline.consume(spans[:behind], NOW, "test")
    assert (failed.value.spans, failed.value.errors) == (1, {"ZeroDivisionError": 1})
    assert isinstance(failed.value.__cause__, ZeroDivisionError)

    assert steps(told) == steps(wanted)
    assert steps(told.send(spans[behind:], len(spans))) == steps(wanted.send(spans[behind:], 1))


@pytest.mark.plain
def test_what_an_error_has_left_is_not_heard_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed request leaves no calls behind. When it is sent again, each call is judged once."""
    spans, told = begun(spans_of(5, 0.0)), Told()
    first, later = spans[:40], spans[40:]
    observe = told.monitor.observe

    def fail(*_: Any, **__: Any) -> list[Verdict]:
        raise ZeroDivisionError

    monkeypatch.setattr(told.monitor, "observe", fail)
    with pytest.raises(UnjudgedSpansError):
        told.pipeline.consume(first, NOW, "test")
    monkeypatch.setattr(told.monitor, "observe", observe)
    assert not any(each["steps"] for each in told.pipeline.batch.monitor.judgements())
    assert not told.pipeline.batch.failed
    told.send(first, len(first)).send(later, len(later))

    assert steps(told) == steps(Told().send(spans, 1))
