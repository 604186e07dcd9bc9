"""Recording: what was accepted is there to be replayed, in bounded files, redacted."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.decode.json import otlp_json
from collector.decode.protobuf import otlp_proto
from collector.offline.progress_bar import Progress
from collector.offline.replay import files_of, recorded
from collector.sinks.recorder import Recorder, RecordLimits, line
from collector.telemetry.logs import captured


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
    """Files are closed at their size limit, the oldest are deleted beyond the total, none stays open."""
    now = iter(range(1, 1_000))
    recorder = Recorder(
        tmp_path,
        lambda: next(now),
        limits=RecordLimits(file_bytes=1, total_bytes=1, age_seconds=1e9),
    )
    recorder.start()
    for number in range(3):
        recorder.record(request(str(number)).SerializeToString(), "proto")
    recorder.stop()

    assert [path.suffix for path in tmp_path.iterdir()] == [".gz"]
    assert "2" in json.dumps(read(tmp_path))
    assert recorder.counts == {"written": 3, "dropped": 0}


def test_age(tmp_path: Path) -> None:
    """A file that is old enough is closed before the next line."""
    now = iter(range(0, 10**15, 10**12))
    recorder = Recorder(
        tmp_path / "deep" / "er", lambda: next(now), limits=RecordLimits(age_seconds=1)
    )
    recorder.start()
    for _ in range(2):
        recorder.record(request().SerializeToString(), "proto")
    recorder.stop()

    assert len(list((tmp_path / "deep" / "er").iterdir())) == 2


def test_age_without_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is closed when it is old enough, also where no request follows."""
    monkeypatch.setattr("collector.sinks.recorder._WAIT_SECONDS", 0.001)
    closed = threading.Event()
    monkeypatch.setattr(Recorder, "_prune", lambda _: closed.set())
    now = iter(range(0, 10**15, 10**9))
    recorder = Recorder(tmp_path, lambda: next(now), limits=RecordLimits(age_seconds=5))
    recorder.start()
    recorder.record(b"{}", "json")
    assert closed.wait(10)
    assert read(tmp_path) == [{}]
    recorder.stop()


def redacted(request: ExportTraceServiceRequest, *patterns: str, folder: Path) -> str:
    recorder = Recorder(folder, lambda: 1, redact=patterns)
    recorder.start()
    recorder.record(request.SerializeToString(), "proto")
    recorder.stop()
    return json.dumps(read(folder))


def test_redaction(tmp_path: Path) -> None:
    """Text that matches an expression is replaced, except in tool names and ids."""
    said = request("mia@x.org has 1234 5")
    text = redacted(said, r"[\w.]+@[\w.]+", r"\b\d{4}\b", folder=tmp_path)

    assert "[redacted] has [redacted] 5" in text
    assert "mia@" not in text
    assert str(2**60) in text
    assert '"gen_ai.tool.name"' in text


def test_redaction_of_numbers_and_messages(tmp_path: Path) -> None:
    """A number that matches becomes the mark, and so does a part of a status message."""
    said = request("fine")
    span = said.resource_spans[0].scope_spans[0].spans[0]
    span.status.message = "no card 4111111111111111 here"
    pair = span.attributes.add()
    pair.key, pair.value.int_value = "card", 4111111111111111
    pair = span.attributes.add()
    pair.key, pair.value.double_value = "weight", 4111.5

    text = redacted(said, r"4111\d{12}", r"^4111\.5$", folder=tmp_path)
    assert "4111" not in text
    assert text.count("[redacted]") == 3
    (found,) = otlp_json.decode(json.dumps(read(tmp_path)[0]).encode()).spans
    assert found.attributes()["card"] == "[redacted]"


def test_redacted_json_stays_json(tmp_path: Path) -> None:
    """Arguments are JSON in a text: they can still be read, keys and nested texts redacted too."""
    given = {"to": "mia@x.org", "card": 4111, "n": [1, {"mia@x.org": '{"deep": "mia@x.org"}'}]}
    said = request(json.dumps(given))
    redacted(said, r"[\w.]+@[\w.]+", r"\b4111\b", folder=tmp_path)

    (span,) = otlp_json.decode(json.dumps(read(tmp_path)[0]).encode()).spans
    assert json.loads(span.attributes()["said"]) == {
        "to": "[redacted]",
        "card": "[redacted]",
        "n": [1, {"[redacted]": '{"deep": "[redacted]"}'}],
    }


@pytest.mark.parametrize("levels", [100, 700, 5_000])
def test_a_text_that_nests_deeply_is_recorded_and_redacted(tmp_path: Path, levels: int) -> None:
    """Text that nests too deeply for a JSON parser is redacted as text."""
    said = request('{"a":' * levels + '"mia@x.org"' + "}" * levels)
    redacted(said, r"[\w.]+@[\w.]+", folder=tmp_path)

    (span,) = otlp_json.decode(json.dumps(read(tmp_path)[0]).encode()).spans
    assert span.attributes()["said"].strip('{"a: }') == "[redacted]"


def test_hiding_comes_before_form(tmp_path: Path) -> None:
    """An expression that spans a key and its value hides both, although the JSON is broken."""
    said = request('{"password": "hunter2", "a": 1}')
    text = redacted(said, r'"password": "[^"]*"', folder=tmp_path)

    assert "hunter2" not in text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("ab7@ ", max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text("ab7@ ", max_size=4), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    st.sampled_from([r"a@b", r"7+", r"b|@", r'"a": 7']),
)
def test_nothing_that_matches_is_left(value: Any, pattern: str) -> None:
    """In any text, plain or JSON, the expression finds no match after redaction."""
    body = {
        "resourceSpans": [{"a": {"stringValue": json.dumps(value)}, "b": {"intValue": "77"}}]
    }
    compiled = re2.compile(pattern)
    found = json.loads(line(json.dumps(body).encode(), "json", [compiled]))

    texts = [str(found["resourceSpans"][0][key]["stringValue"]) for key in "a"]
    assert not any(compiled.search(text) for text in texts)
    assert ("77" in json.dumps(found["resourceSpans"][0]["b"])) == (pattern != "7+")


def test_an_unclosed_recording_counts_toward_the_total(tmp_path: Path) -> None:
    """A file that was never closed is deleted like any other beyond the total."""
    left = tmp_path / "offrails-00000000000000000001.jsonl.gz.open"
    left.write_bytes(b"x" * 1_000)
    recorder = Recorder(tmp_path, lambda: 5, limits=RecordLimits(file_bytes=1, total_bytes=900))
    recorder.start()
    for _ in range(2):
        recorder.record(request().SerializeToString(), "proto")
    recorder.stop()

    assert not left.exists()
    # The clock stood still, and yet no file took another's name.
    assert len(list(tmp_path.iterdir())) == 2


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that the disk refuses are counted, and the next file is complete."""
    full = iter([True, False])
    write = gzip.GzipFile.write

    def refuse(file: gzip.GzipFile, text: Any) -> int:
        if next(full, False):
            raise OSError(28, "No space left on device")
        return write(file, text)

    monkeypatch.setattr(gzip.GzipFile, "write", refuse)
    recorder = Recorder(tmp_path, lambda: 1)
    recorder.start()
    for _ in range(2):
        recorder.record(b"{}", "json")
    recorder.stop()

    assert recorder.counts == {"written": 1, "dropped": 1}
    assert read(tmp_path) == [{}]


def test_a_full_queue_drops(tmp_path: Path) -> None:
    """Requests that do not fit into the queue are dropped and counted, without waiting."""
    recorder = Recorder(tmp_path, lambda: 1, limits=RecordLimits(queue_bytes=1))
    recorder.record(b"xx", "json")

    assert recorder.counts == {"written": 0, "dropped": 1}


def test_a_bad_body_is_counted(tmp_path: Path) -> None:
    """A body that cannot be written does not end the recording."""
    recorder = Recorder(tmp_path, lambda: 1)
    recorder.start()
    recorder.record(b"{", "json")
    recorder.record(b"{}", "json")
    recorder.stop()

    assert recorder.counts == {"written": 1, "dropped": 1}
    assert read(tmp_path) == [{}]


def test_a_bad_expression() -> None:
    """An invalid expression is refused at the start."""
    with pytest.raises(ValueError, match="RE2"):
        Recorder(Path(), lambda: 1, redact=["("])


def modes(folder: Path) -> set[str]:
    """Of the files in a folder."""
    return {f"{file.stat().st_mode & 0o777:o}" for file in folder.iterdir()}


def test_recordings_are_their_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask, a new folder is 0700 and files are 0600. An existing folder keeps its mode."""
    loose = tmp_path / "there"
    loose.mkdir()
    loose.chmod(0o755)
    before = os.umask(0)
    try:
        with captured() as events:
            for folder in (tmp_path / "new" / "deep", loose):
                recorder = Recorder(folder, lambda: 1)
                recorder.start()
                recorder.record(b"{}", "json")
                recorder.stop()
    finally:
        os.umask(before)

    assert (tmp_path / "new" / "deep").stat().st_mode & 0o777 == 0o700
    assert loose.stat().st_mode & 0o777 == 0o755
    assert modes(tmp_path / "new" / "deep") == modes(loose) == {"600"}
    assert [(each["event"], each["folder"]) for each in events] == [
        ("recording_readable_by_others", str(loose))
    ]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A file in its place, or above it, is refused at the start."""
    file = tmp_path / "file"
    file.write_text("x")
    for folder in (file, file / "below"):
        with pytest.raises(OSError, match=r"exists|directory"):
            Recorder(folder, lambda: 1).start()


def test_a_killed_recording_is_read_up_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole lines before the cut are read, and the place of the cut is reported."""
    recorder = Recorder(tmp_path, lambda: 1)
    recorder.start()
    for number in range(300):
        recorder.record(request(f"{number}").SerializeToString(), "proto")
    recorder.stop()
    (whole,) = tmp_path.iterdir()
    packed = whole.read_bytes()
    torn = Path(f"{whole}.open")
    whole.unlink()
    before = 0
    for size in (0, 5, 60, len(packed) // 2, len(packed) - 9, len(packed) - 1):
        torn.write_bytes(packed[:size])
        found = recorded(torn, Progress([torn]))
        told = capsys.readouterr().err
        assert len(found.requests) >= before
        assert told.startswith(f"{torn}:{len(found.requests) + 1}: ") or not size
        before = len(found.requests)

    assert before == 300
    assert files_of([tmp_path]) == [torn]
    with captured() as events:
        again = Recorder(tmp_path, lambda: 1)
        again.start()
        again.stop()
    assert [(each["event"], each["file"]) for each in events] == [
        ("recording_unfinished", str(torn))
    ]


def test_a_killed_process_has_written_what_came_a_second_ago(tmp_path: Path) -> None:
    """The open file holds all requests except those of the last second."""
    recorder, seconds = Recorder(tmp_path, lambda: seconds[0] * 10**9), [1]
    recorder.start()
    for seconds[0] in (2, 4):
        recorder.record(request(f"{seconds[0]}").SerializeToString(), "proto")
        wait(lambda: recorder.counts["written"] == seconds[0] // 2)
    (file,) = tmp_path.iterdir()
    wait(lambda: len(recorded(file, Progress([file])).requests) == 2)
    recorder.stop()


def test_what_goes_into_a_deleted_file_is_not_written(tmp_path: Path) -> None:
    """The next request begins another file. Lost lines are counted and logged."""
    recorder = Recorder(tmp_path, lambda: 1)
    with captured() as events:
        recorder.start()
        recorder.record(b'{"n": 1}', "json")
        wait(lambda: recorder.counts["written"] == 1)
        (file,) = tmp_path.iterdir()
        file.unlink()
        recorder.record(b'{"n": 2}', "json")
        wait(lambda: recorder.counts["dropped"] == 1)
        recorder.record(b'{"n": 3}', "json")
        recorder.stop()

    assert recorder.counts == {"written": 2, "dropped": 1}
    assert read(tmp_path) == [{"n": 3}]
    (told,) = events
    assert (told["event"], told["requests"]) == ("recording_deleted", 2)


def test_a_deleted_folder_is_made_again(tmp_path: Path) -> None:
    """Recording goes on behind a folder that somebody deleted whole; it is its owner's alone again."""
    folder = tmp_path / "spans"
    recorder = Recorder(folder, lambda: 1)
    with captured() as events:
        recorder.start()
        recorder.record(b'{"n": 1}', "json")
        wait(lambda: recorder.counts["written"] == 1)
        shutil.rmtree(folder)
        recorder.record(b'{"n": 2}', "json")
        wait(lambda: recorder.counts["dropped"] == 1)
        recorder.record(b'{"n": 3}', "json")
        recorder.stop()

    assert read(folder) == [{"n": 3}]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [each["event"] for each in events] == ["recording_deleted", "recording_folder_made"]


def wait(until: Callable[[], bool]) -> None:
    """Waits for another thread."""
    deadline = time.monotonic() + 20
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.005)
