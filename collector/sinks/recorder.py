"""Recording: accepted trace requests as OTLP/JSON lines, for `learn` and `replay`.

Ingest never waits: bodies go into a bounded queue, and a thread of its own turns them into lines
and writes them. What does not fit is counted, never waited for. A file is named when it is begun
and ends in `.open` until it is whole. What it holds is on its way to the disk within a second, so that
little is missing if the process is killed. Only our own user may read it.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import queue
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from collector.config.settings.record import RecordSettings
from collector.receive.request import Encoding
from collector.telemetry.logs import log
from collector.telemetry.redaction import REDACTED, Rule, hide, redacted, rules

__all__ = ["RecordLimits", "Recorder", "line", "recorder_of"]

SECOND_NS: Final = 1_000_000_000
OPEN: Final = ".open"
_IDS: Final = ("traceId", "spanId", "parentSpanId")
_TEXTS: Final = ("stringValue", "string_value")
_NUMBERS: Final = ("intValue", "int_value", "doubleValue", "double_value")
_PATTERN: Final = "offrails-*.jsonl.gz"
_WAIT_SECONDS: Final = 1.0
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
"""A recording holds texts of agents: it is its owner's alone."""


def line(
    body: bytes, encoding: Encoding, redact: Sequence[Rule] = (), rules: Sequence[Rule] = ()
) -> bytes:
    """One request as a line of OTLP/JSON.

    Args:
        body: an ExportTraceServiceRequest.
        encoding: of the body.
        redact: what they match in a text value or a number is replaced.
        rules: what is taken out of every text, as it is everywhere else.
    """
    found = json.loads(body) if encoding == "json" else _from_proto(body)
    if redact:
        _redact(found, redact)
    if rules:
        hide(found, rules)
    text = json.dumps(found, ensure_ascii=True, separators=(",", ":"))
    return text.encode() + b"\n"


def _from_proto(body: bytes) -> Any:
    """OTLP/JSON is protobuf's JSON, but for ids, which are hexadecimal, and enums, numbers."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )

    found = MessageToDict(
        ExportTraceServiceRequest.FromString(body), use_integers_for_enums=True
    )
    for resource in found.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                for each in (span, *span.get("links", ())):
                    _to_hex(each)
    return found


def _to_hex(holder: dict[str, Any]) -> None:
    for key in _IDS:
        if key in holder:
            holder[key] = base64.b64decode(holder[key]).hex()


def _redact(value: Any, redact: Sequence[Rule]) -> None:
    """Replaces what matches in every text, number and status message, wherever it is."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            _redact_value(each, redact)
            status = each.get("status")
            if isinstance(status, dict) and isinstance(status.get("message"), str):
                status["message"] = _text(status["message"], redact)
            waiting += each.values()


def _redact_value(holder: dict[str, Any], redact: Sequence[Rule]) -> None:
    for key in _TEXTS:
        if isinstance(holder.get(key), str):
            holder[key] = _text(holder[key], redact)
    for key in _NUMBERS:
        if key in holder and _number(holder[key], redact) == REDACTED:
            del holder[key]
            holder[_TEXTS[0]] = REDACTED


def _text(text: str, redact: Sequence[Rule]) -> str:
    """The text without what matches; JSON stays JSON where that hides as much."""
    plain = redacted(text, redact)
    if plain == text or text.lstrip()[:1] not in ("{", "["):
        return plain
    try:
        shaped = json.dumps(_leaves(json.loads(text), redact), ensure_ascii=False)
    except (ValueError, RecursionError):
        return plain
    # An expression may span keys and values; then what it hides counts for more than the form.
    return shaped if redacted(shaped, redact) == shaped else plain


def _leaves(value: Any, redact: Sequence[Rule]) -> Any:
    if isinstance(value, str):
        return _text(value, redact)
    if isinstance(value, dict):
        return {redacted(key, redact): _leaves(item, redact) for key, item in value.items()}
    if isinstance(value, list):
        return [_leaves(item, redact) for item in value]
    return _number(value, redact)


def _number(value: Any, redact: Sequence[Rule]) -> Any:
    """A number as it is, or the mark instead of it."""
    if value is None or isinstance(value, bool):
        return value
    return REDACTED if redacted(str(value), redact) != str(value) else value


class RecordLimits(NamedTuple):
    """Bounds of a recording."""

    file_bytes: int = 64 << 20
    """A file is closed when it holds so much, before compression."""
    age_seconds: float = 3600
    """Age at which a file is closed."""
    total_bytes: int = 1 << 30
    """Bytes of all whole files, compressed; beyond it the oldest are deleted."""
    queue_bytes: int = 64 << 20
    """Bytes of bodies that wait to be written."""


class Recorder:
    """Writes lines to files of bounded size and age, and drops the oldest files.

    Args:
        folder: for the files; made if need be.
        clock: Unix nanoseconds.
        limits: of files and of what waits.
        redact: RE2 expressions; what they match in a text or a number is replaced.
        counts: where requests are counted, by `written` and `dropped`.

    Raises:
        ValueError: an expression is none.
    """

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], int],
        *,
        limits: RecordLimits = RecordLimits(),  # noqa: B008 - frozen
        redact: Sequence[str] = (),
        counts: dict[str, int] | None = None,
    ) -> None:
        self.counts = {"written": 0, "dropped": 0} if counts is None else counts
        """Dropped: the queue was full, the disk refused, or somebody has deleted the file."""
        self._folder = folder
        self._clock = clock
        self._limits = limits
        self._age_ns = int(limits.age_seconds * SECOND_NS)
        self._redact = rules(redact, ())
        self._rules: Sequence[Rule] = ()
        self._log = log
        self._queue: queue.SimpleQueue[tuple[bytes, Encoding] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._refused = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._raw: IO[bytes] | None = None
        self._file: gzip.GzipFile | None = None
        self._path = folder
        self._pending = 0
        """Requests in the file that are not counted yet, and all that are in it."""
        self._held = 0
        self._flushed_ns = 0
        self._written = 0
        self._begun_ns = 0

    def start(self) -> None:
        """Begins to write.

        Raises:
            OSError: the folder cannot be made, or no file in it.
        """
        self._folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        mode = self._folder.stat().st_mode
        if mode & stat.S_IROTH:
            self._log.warning(
                "recording_readable_by_others",
                folder=str(self._folder),
                mode=f"{stat.S_IMODE(mode):04o}",
            )
        self._check_writable()
        for file in sorted(self._folder.glob(_PATTERN + OPEN)):
            self._log.warning("recording_unfinished", file=str(file), bytes=file.stat().st_size)
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self._thread.start()

    def _check_writable(self) -> None:
        probe = self._folder / f".offrails-{os.getpid()}"
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, _FILE_MODE))
        probe.unlink()

    def hide(self, rules: Sequence[Rule]) -> None:
        """Takes out what these match, too."""
        self._rules = rules

    def record(self, body: bytes, encoding: Encoding) -> None:
        """Puts a request into the queue; never waits."""
        with self._lock:
            if self._waiting + len(body) > self._limits.queue_bytes:
                self.counts["dropped"] += 1
                return
            self._waiting += len(body)
        self._queue.put((body, encoding))

    def stop(self) -> None:
        """Writes what waits and closes the file."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while True:
            try:
                found = self._queue.get(timeout=_WAIT_SECONDS)
            except queue.Empty:
                self._flush()
                self._close_old()
                continue
            if found is None:
                break
            with self._lock:
                self._waiting -= len(found[0])
            try:
                self._write(line(*found, self._redact, self._rules))
            except Exception as error:  # noqa: BLE001
                # A request that cannot be written must not end the recording of the next.
                self._refuse(error)
                if isinstance(error, OSError):
                    self._abandon()
            if self._queue.empty():
                self._settle()
        self._close_old(now=True)

    def _settle(self) -> bool:
        """Counts what has come into the file; False if somebody has deleted it meanwhile.

        Then the next request begins another one.
        """
        if self._raw is None:
            return True
        try:
            own, there = os.fstat(self._raw.fileno()), Path(f"{self._path}{OPEN}").stat()
            is_there = own.st_ino == there.st_ino and own.st_dev == there.st_dev
        except OSError:
            is_there = False
        pending, self._pending = self._pending, 0
        if is_there:
            self.counts["written"] += pending
            return True
        self._log.error("recording_deleted", file=str(self._path), requests=self._held)
        self._drop(pending)
        self._abandon()
        return False

    def _flush(self) -> None:
        """Hands what the file holds to the disk."""
        if self._file is None or not self._settle():
            return
        self._flushed_ns = self._clock()
        try:
            self._file.flush()
        except OSError as error:
            self._refuse(error)
            self._abandon()

    def _drop(self, count: int) -> None:
        with self._lock:
            self.counts["dropped"] += count

    def _refuse(self, error: Exception) -> None:
        if not self._refused:
            self._log.error("a request could not be recorded", error=str(error))
        self._refused = True
        self._drop(1)

    def _abandon(self) -> None:
        """Leaves a file the disk refused part of: what would follow in it could not be read."""
        self._drop(self._pending)
        self._pending = 0
        with suppress(OSError):
            self._close()

    def _close(self) -> None:
        """Closes the file, in any case.

        Raises:
            OSError: the disk refuses the rest of it.
        """
        file, raw, self._file, self._raw = self._file, self._raw, None, None
        try:
            if file is not None:
                file.close()
        finally:
            if raw is not None:
                raw.close()

    def _write(self, text: bytes) -> None:
        self._close_old()
        if self._file is None:
            self._open()
        assert self._file is not None
        self._file.write(text)
        self._written += len(text)
        self._pending += 1
        self._held += 1
        if self._written >= self._limits.file_bytes:
            self._close_old(now=True)
        elif self._clock() - self._flushed_ns >= SECOND_NS:
            self._flush()

    def _open(self) -> None:
        # Two files never have one name, however coarse the clock.
        self._begun_ns, self._written = max(self._clock(), self._begun_ns + 1), 0
        self._path = self._folder / f"offrails-{self._begun_ns:020d}.jsonl.gz"
        self._held, self._flushed_ns = 0, self._begun_ns
        self._raw = os.fdopen(self._created(f"{self._path}{OPEN}"), "wb")
        self._file = gzip.GzipFile(self._path.stem, "wb", compresslevel=3, fileobj=self._raw)

    def _created(self, path: str) -> int:
        """A new file; its folder is made again if somebody has deleted it, and nothing above that."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            return os.open(path, flags, _FILE_MODE)
        except FileNotFoundError:
            self._folder.mkdir(_FOLDER_MODE)
            self._log.warning("recording_folder_made", folder=str(self._folder))
            return os.open(path, flags, _FILE_MODE)

    def _close_old(self, *, now: bool = False) -> None:
        """Closes the file where it is old enough, or now; then there may be too many."""
        old = now or self._clock() - self._begun_ns >= self._age_ns
        if self._file is None or not old or not self._settle():
            return
        try:
            self._close()
            Path(f"{self._path}{OPEN}").rename(self._path)
            self._prune()
        except OSError as error:
            self._refuse(error)

    def _prune(self) -> None:
        """Deletes the oldest; what a process left open when it died counts, and goes, like others."""
        files = sorted([*self._folder.glob(_PATTERN), *self._folder.glob(_PATTERN + OPEN)])
        sizes = {file: file.stat().st_size for file in files}
        total = sum(sizes.values())
        for file in files[:-1]:
            if total <= self._limits.total_bytes:
                return
            file.unlink()
            total -= sizes[file]


def recorder_of(
    settings: RecordSettings, clock: Callable[[], int], counts: dict[str, int]
) -> Recorder | None:
    """The recorder that is set up; None if nothing is to be recorded."""
    if settings.folder is None:
        return None
    return Recorder(
        settings.folder,
        clock,
        limits=RecordLimits(settings.file_bytes, settings.age_seconds, settings.total_bytes),
        redact=settings.redact,
        counts=counts,
    )
