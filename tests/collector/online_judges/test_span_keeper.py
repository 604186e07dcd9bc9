"""Spans that are kept for transcripts: whole, bounded, redacted, and of one tenant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collector.calls.pipeline import Pipeline
from collector.config.settings.judges import JudgesSettings
from collector.decode.json import otlp_json
from collector.decode.span import Span
from collector.offline.judge.session_material import material_of
from collector.offline.progress_bar import Progress
from collector.online_judges.kept_span import SpanPacker, SpanReviver
from collector.online_judges.span_keeper import SpanKeeper
from collector.telemetry.counters import Stats
from collector.telemetry.redaction import Redaction, rules
from collector.transcripts.session_steps import session_steps
from collector.transcripts.span_shares import span_shares
from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.records import SessionKey
from tests.captures import CAPTURES, NO_CAPTURES, SAMPLED_CAPTURES, capture_name

TRACE = "0" * 31 + "1"
NOW = 1_700_000_000 * SECOND


def body(
    *names: str, trace: str = TRACE, namespace: str = "", session: str = "s", text: str = ""
) -> bytes:
    """A request with a tool call for each name; the spans' ids count from 1."""
    resource = {"key": "service.namespace", "value": {"stringValue": namespace}}
    spans = [
        {
            "traceId": trace,
            "spanId": f"{number:016x}",
            "name": f"execute_tool {name}",
            "startTimeUnixNano": str(NOW + number),
            "endTimeUnixNano": str(NOW + number + 1),
            "attributes": [
                {"key": key, "value": {"stringValue": value}}
                for key, value in (
                    ("gen_ai.operation.name", "execute_tool"),
                    ("gen_ai.tool.name", name),
                    ("gen_ai.conversation.id", session),
                    ("gen_ai.tool.call.result", text),
                )
            ],
        }
        for number, name in enumerate(names, 1)
    ]
    whole = {
        "resourceSpans": [
            {"resource": {"attributes": [resource]}, "scopeSpans": [{"spans": spans}]}
        ]
    }
    return json.dumps(whole).encode()


def spans(request: bytes) -> list[Span]:
    return otlp_json.decode(request).spans


class Kept:
    """A keeper behind a pipeline."""

    def __init__(
        self,
        redaction: Redaction | None = None,
        may_be_judged: Callable[[SessionKey], bool] = lambda _: True,
        **settings: Any,
    ) -> None:
        self.monitor = Monitor((), Limits())
        self.pipeline = Pipeline(self.monitor, Stats(), lambda _: None)
        self.keeper = SpanKeeper(
            JudgesSettings(**settings), self.pipeline, redaction or Redaction(), may_be_judged
        )
        self._consume = self.keeper.after(self.pipeline.consume)

    def send(self, request: bytes, now: int = NOW) -> None:
        self._consume(spans(request), now, "http_json")

    def texts(self, trace: str = TRACE, namespace: str = "") -> list[str]:
        """Results of the calls that are kept of a trace."""
        reviver = SpanReviver()
        return [
            str(reviver.span(each.text).attributes()["gen_ai.tool.call.result"])
            for each in self.keeper.spans_of([(namespace, bytes.fromhex(trace))])
        ]


@pytest.mark.skipif(not CAPTURES, reason=NO_CAPTURES)
@pytest.mark.parametrize("file", SAMPLED_CAPTURES, ids=capture_name)
def test_transcripts_of_kept_spans_are_those_of_recordings(file: Path) -> None:
    """What a service makes of kept spans is, step by step, what the verb makes of a recording of them."""
    requests = [spans(line) for line in file.read_bytes().splitlines()]
    packer, reviver = SpanPacker(), SpanReviver()
    packed = [packer.pack(span) for request in requests for span in request]
    revived = [reviver.span(each) for each in packed if each is not None]
    assert len(revived) == sum(map(len, requests))
    found = list(material_of(file, (), Progress([file])))
    groups = {(each.namespace, each.session): each.judged for each in found}
    shares = span_shares(groups, revived)
    for each in found:
        steps = session_steps(each.judged, shares[each.namespace, each.session])
        assert steps == list(each.steps)


def test_what_is_kept_is_bounded() -> None:
    """The trace that was quiet the longest goes first, a trace takes a quarter at most, a large span is left out; all is counted."""
    kept = Kept(keep_bytes=1 << 16)
    noise = "".join(f"{number:x}" for number in range(0, 40_000, 7))
    for number in range(1, 40):
        kept.send(body("a", trace=f"{number:032x}", text=noise[number:]))
        assert kept.keeper.size <= 1 << 16
    left = len(kept.keeper)
    assert 0 < left < 39
    assert kept.keeper.dropped["bytes"] == 39 - left
    assert kept.texts(f"{39:032x}") != []
    assert kept.texts(f"{1:032x}") == []
    for number in range(1, 40):
        kept.send(body(*["a"] * number, trace="f" * 32, text=noise[number:]))
    assert kept.keeper.size <= 1 << 16
    assert kept.keeper.dropped["bytes"] > 39 - left
    kept.send(body("a", trace="e" * 32, text="x" * (1 << 20)))
    assert kept.texts("e" * 32) == []
    assert kept.keeper.dropped["too_large"] == 1


def test_a_trace_without_a_span_that_fits_takes_no_room() -> None:
    """However many traces begin with a span that is too large for them, nothing is left of them but their count."""
    kept = Kept(keep_bytes=1 << 16)
    noise = "".join(f"{number:x}" for number in range(0, 200_000, 7))
    for number in range(1, 20):
        kept.send(body("a", trace=f"{number:032x}", text=noise))
    assert kept.keeper.dropped["bytes"] == 19
    assert (kept.keeper.size, len(kept.keeper._traces)) == (0, 0)  # noqa: SLF001 - an entry without a span is in no sum that is told


def test_old_spans_go() -> None:
    """Spans go `keep_seconds` after the last span of their trace, and not before."""
    kept = Kept(keep_seconds=60)
    kept.send(body("a", text="one"))
    kept.keeper.tick(NOW + 59 * SECOND)
    assert kept.texts() == ["one"]
    kept.send(body("a", "b", text="two"), NOW + 59 * SECOND)
    kept.keeper.tick(NOW + 100 * SECOND)
    assert kept.texts() == ["two", "two"]
    kept.keeper.tick(NOW + 120 * SECOND)
    assert kept.texts() == []
    assert kept.keeper.size == 0
    assert kept.keeper.dropped["age"] == 2


def test_nothing_is_kept_of_sessions_that_will_not_be_judged() -> None:
    """Where no call can make a session one that is judged, its spans are not kept."""
    kept = Kept(may_be_judged=lambda key: key.id == "chosen")
    kept.send(body("a", session="chosen", text="one"))
    kept.send(body("a", session="other", trace="2" * 32, text="two"))
    assert kept.texts() == ["one"]
    assert kept.texts("2" * 32) == []
    assert len(kept.keeper) == 1


def test_a_trace_of_another_tenant_is_another_trace() -> None:
    """Who sends spans under the trace id of another tenant adds nothing to that tenant's transcript."""
    kept = Kept()
    kept.send(body("a", namespace="ours", text="ours"))
    kept.send(body("a", "b", namespace="theirs", text="theirs"))
    assert kept.texts(namespace="ours") == ["ours"]
    assert kept.texts(namespace="theirs") == ["theirs", "theirs"]


def test_what_is_kept_is_redacted() -> None:
    """Rules of redaction take their matches out of spans once the task has had its turn, JSON texts in attributes included."""
    redaction = Redaction(rules(["hunter2"], []))
    kept = Kept(redaction)
    text = json.dumps([{"content": "hunter2 is the password"}])

    async def work() -> None:
        task = asyncio.create_task(kept.keeper.run())
        kept.send(body("a", "b", text=text))
        kept.send(body("hunter2", trace="2" * 32))
        (first, *_) = kept.keeper.spans_of([("", bytes.fromhex(TRACE))])
        assert not first.is_redacted
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(work())
    every = [bytes.fromhex(TRACE), bytes.fromhex("2" * 32)]
    found = kept.keeper.spans_of(("", trace) for trace in every)
    assert len(found) == 3
    assert all(each.is_redacted for each in found)
    reviver = SpanReviver()
    seen = [reviver.span(each.text) for each in found]
    assert not any("hunter2" in f"{span.name} {span.attributes()}" for span in seen)
    assert json.loads(kept.texts()[0]) == [{"content": "[redacted] is the password"}]
    assert kept.keeper.size == sum(len(each.text) + 200 for each in found)
