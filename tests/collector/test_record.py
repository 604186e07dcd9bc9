"""Recording: what was accepted is there to be replayed, in bounded files, redacted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.decode import otlp_json, otlp_proto
from collector.record import Recorder, line


def request(text: str = "hello") -> ExportTraceServiceRequest:
    """A request of one span."""
    found = ExportTraceServiceRequest()
    resource = found.resource_spans.add()
    span = resource.scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.parent_span_id = b"t" * 16, b"s" * 8, b"p" * 8
    span.name, span.start_time_unix_nano, span.end_time_unix_nano = "x", 5, 9
    span.kind, span.status.code = Span.SPAN_KIND_CLIENT, Status.STATUS_CODE_ERROR
    for key, value in (("gen_ai.tool.name", "get"), ("said", text)):
        pair = span.attributes.add()
        pair.key, pair.value.string_value = key, value
    pair = span.attributes.add()
    pair.key, pair.value.int_value = "n", 2**60
    return found


def read(folder: Path) -> list[Any]:
    """All recorded requests."""
    files = sorted(folder.glob("*.jsonl.gz"))
    return [json.loads(each) for file in files for each in gzip.open(file).read().splitlines()]


def test_proto_is_the_same_in_json() -> None:
    """A protobuf body recorded as JSON decodes to the same span."""
    body = request().SerializeToString()

    (one,) = otlp_proto.decode(body).spans
    (other,) = otlp_json.decode(line(body, "proto")).spans

    for name in (
        "trace_id",
        "span_id",
        "parent_span_id",
        "kind",
        "start_ns",
        "end_ns",
        "status",
    ):
        assert getattr(one, name) == getattr(other, name)
    assert one.attributes() == other.attributes()


def test_one_line() -> None:
    """A body that was written over several lines becomes one line."""
    body = json.dumps({"resourceSpans": []}, indent=2).encode()

    assert line(body, "json") == b'{"resourceSpans":[]}\n'


def test_files_are_bounded(tmp_path: Path) -> None:
    """Files are closed at their size, the oldest go beyond the bound of all, none stays open."""
    now = iter(range(1, 1_000))
    recorder = Recorder(
        tmp_path, lambda: next(now), file_bytes=1, total_bytes=1, age_seconds=1e9
    )
    recorder.start()
    for number in range(3):
        recorder.take(request(str(number)).SerializeToString(), "proto")
    recorder.stop()

    assert [path.suffix for path in tmp_path.iterdir()] == [".gz"]
    assert "2" in json.dumps(read(tmp_path))
    assert recorder.dropped == 0


def test_age(tmp_path: Path) -> None:
    """A file that is old enough is closed before the next line."""
    now = iter(range(0, 10**15, 10**12))
    recorder = Recorder(tmp_path / "deep" / "er", lambda: next(now), age_seconds=1)
    recorder.start()
    for _ in range(2):
        recorder.take(request().SerializeToString(), "proto")
    recorder.stop()

    assert len(list((tmp_path / "deep" / "er").iterdir())) == 2


def test_redaction(tmp_path: Path) -> None:
    """What an expression matches in a text is replaced, and no tool name or id with it."""
    recorder = Recorder(tmp_path, lambda: 1, redact=[r"[\w.]+@[\w.]+", r"\d{4}"])
    recorder.start()
    recorder.take(request("mia@x.org has 1234 5").SerializeToString(), "proto")
    recorder.stop()

    text = json.dumps(read(tmp_path))
    assert "[redacted] has [redacted] 5" in text
    assert "mia@" not in text
    assert str(2**60) in text


def test_a_full_queue_drops(tmp_path: Path) -> None:
    """What does not fit into the queue is counted, and nobody waits."""
    recorder = Recorder(tmp_path, lambda: 1, queue_bytes=1)
    recorder.take(b"xx", "json")

    assert recorder.dropped == 1


def test_a_bad_body_is_counted(tmp_path: Path) -> None:
    """A body that cannot be written does not end the recording."""
    recorder = Recorder(tmp_path, lambda: 1)
    recorder.start()
    recorder.take(b"{", "json")
    recorder.take(b"{}", "json")
    recorder.stop()

    assert recorder.dropped == 1
    assert read(tmp_path) == [{}]


def test_a_bad_expression() -> None:
    """An expression that is none is refused at the start."""
    with pytest.raises(ValueError, match="RE2"):
        Recorder(Path(), lambda: 1, redact=["("])
