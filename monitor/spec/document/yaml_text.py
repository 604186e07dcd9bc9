"""YAML text -> plain data with positions. Text only: the file is read in read.py.

YAML 1.2 core schema: `yes`, `on` and dates stay texts. Safe for hostile documents: size, depth
and number of nodes are bounded while the parser's events come in, aliases counted as often as
they are used; tags, merge keys and a second document are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from monitor.findings import Finding, finding

__all__ = ["DEPTH_MAX", "NODES_MAX", "SIZE_MAX", "Document", "Path", "parse"]

SIZE_MAX: Final = 1024 * 1024
"""Bytes of one document; the longest published task takes 6 KiB."""
DEPTH_MAX: Final = 64
NODES_MAX: Final = 100_000
FINDINGS_MAX: Final = 200
"""Findings of one document: more help nobody."""

Path = tuple[str | int, ...]
"""Keys and list places from the root of a document to a value."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as plain data: dicts with text keys, lists, texts, numbers, booleans, None."""

    data: Any
    places: dict[Path, tuple[int, int]] = field(repr=False)
    """Line and column, from 1, of the key or list entry at a path."""
    texts: dict[Path, str] = field(repr=False)
    """How a plain scalar that is no text was written: `1.10` where the data has 1.1."""

    def place(self, path: Path) -> tuple[int, int]:
        """Line and column of `path`, or of its nearest ancestor that has a place."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return (1, 1)


def parse(text: str, file: str) -> tuple[Document | None, list[Finding]]:
    """The document in `text`, or None if it cannot be read, and what was found on the way.

    Duplicate keys are findings (the first entry is kept), so that the rest can be looked at.
    """
    try:
        size = len(text.encode())
    except UnicodeError:
        return None, [finding("not_utf8", "the text holds half a surrogate pair", file, 1, 1)]
    if size > SIZE_MAX:
        return None, [finding("too_large", f"more than {SIZE_MAX:,} bytes", file, 1, 1)]
    builder = _Builder(file)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except _Refused as refused:
        return None, [*builder.findings, refused.finding]
    except yaml.YAMLError as problem:
        return None, [*builder.findings, _syntax(problem, text, file)]
    if not builder.documents:
        said = "the file holds no document"
        return None, [*builder.findings, finding("invalid_document", said, file, 1, 1)]
    return Document(builder.root, builder.places, builder.texts), builder.findings


def _syntax(problem: yaml.YAMLError, text: str, file: str) -> Finding:
    if isinstance(problem, yaml.MarkedYAMLError) and problem.problem_mark is not None:
        mark = problem.problem_mark
        said = " ".join(filter(None, (problem.context, problem.problem)))
        return finding("invalid_yaml", said, file, mark.line + 1, mark.column + 1)
    if isinstance(problem, yaml.reader.ReaderError):
        line, column = _line_of(text, problem.position)
        return finding("invalid_yaml", problem.reason, file, line, column)
    return finding("invalid_yaml", str(problem), file, 1, 1)


def _line_of(text: str, position: int) -> tuple[int, int]:
    """Line and column, from 1, of a place in the UTF-8 bytes."""
    before = text.encode()[:position].decode(errors="ignore")
    return before.count("\n") + 1, len(before) - before.rfind("\n")


class _Refused(Exception):  # noqa: N818 - ends the reading; not an error of ours
    def __init__(self, found: Finding) -> None:
        self.finding = found
        super().__init__(str(found))


@dataclass(slots=True)
class _Frame:
    """A collection that is being built."""

    value: dict[str, Any] | list[Any]
    path: Path
    anchor: str | None
    key: str | None = None
    """The mapping's key that waits for its value."""
    dropped: bool = False
    """The waiting key is a duplicate."""
    nodes: int = 1
    height: int = 1


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Any
    nodes: int
    height: int


class _Builder:
    """Builds data from parser events without recursion, and keeps the bounds."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Any = None
        self.documents = 0
        self.places: dict[Path, tuple[int, int]] = {}
        self.texts: dict[Path, str] = {}
        self.findings: list[Finding] = []
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Anchored] = {}
        self._nodes = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._start_document(event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._open(event, {})
        elif isinstance(event, yaml.SequenceStartEvent):
            self._open(event, [])
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()

    def _start_document(self, event: yaml.Event) -> None:
        self.documents += 1
        if self.documents > 1:
            self._refuse("several_documents", "a second document starts here", event)

    def _open(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        self._check(event)
        path = self._next_path(event)
        if len(self._frames) >= DEPTH_MAX:
            self._refuse("too_large", f"nested deeper than {DEPTH_MAX}", event)
        self._frames.append(_Frame(value, path, event.anchor))

    def _close(self) -> None:
        frame = self._frames.pop()
        self._place(frame.value, frame.anchor, frame.nodes, frame.height)

    def _scalar(self, event: Any) -> None:
        self._check(event)
        frame = self._frames[-1] if self._frames else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            self._key(event, frame)
            return
        path = self._next_path(event)
        value = self._resolve(event)
        if not isinstance(value, str):
            self.texts[path] = event.value
        self._place(value, event.anchor, 1, 0)

    def _key(self, event: Any, frame: _Frame) -> None:
        """Keys are texts, whatever they look like: `1: x` and `"1": x` are the same key."""
        key = event.value
        if key == "<<" and event.implicit[0]:
            said = "merge keys (<<) are not part of YAML 1.2: repeat the entries"
            self._refuse("invalid_yaml", said, event)
        frame.key = key
        frame.dropped = key in frame.value
        if frame.dropped:
            self._find(
                "duplicate_key", f"{key!r} is already in this mapping", event, frame.path
            )
        else:
            self.places[*frame.path, key] = _place_of(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(key, 1, 0)

    def _alias(self, event: Any) -> None:
        frame = self._frames[-1] if self._frames else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            self._refuse("invalid_yaml", "an alias cannot be a key", event)
        self._next_path(event)
        known = self._anchors.get(event.anchor)
        if known is None:
            said = f"alias *{event.anchor} has no complete anchor before it"
            self._refuse("invalid_yaml", said, event)
            return
        if len(self._frames) + known.height > DEPTH_MAX:
            self._refuse("too_large", f"nested deeper than {DEPTH_MAX} with its aliases", event)
        self._place(known.value, None, known.nodes, known.height)

    def _place(self, value: Any, anchor: str | None, nodes: int, height: int) -> None:
        """Puts a complete value where it belongs."""
        if anchor is not None:
            self._anchors[anchor] = _Anchored(value, nodes, height)
        if not self._frames:
            self.root = value
            return
        frame = self._frames[-1]
        frame.nodes += nodes
        frame.height = max(frame.height, height + 1)
        if frame.nodes > NODES_MAX:
            said = f"more than {NODES_MAX:,} values, aliases counted as often as they are used"
            raise _Refused(
                finding("too_large", said, self.file, *self.places.get(frame.path, (1, 1)))
            )
        if isinstance(frame.value, list):
            frame.value.append(value)
            return
        if not frame.dropped and frame.key is not None:
            frame.value[frame.key] = value
        frame.key, frame.dropped = None, False

    def _next_path(self, event: yaml.Event) -> Path:
        """Path of the value that begins with `event`; list entries get their place here."""
        if not self._frames:
            self.places[()] = _place_of(event)
            return ()
        frame = self._frames[-1]
        if isinstance(frame.value, list):
            path = (*frame.path, len(frame.value))
            self.places[path] = _place_of(event)
            return path
        if frame.key is None:
            self._refuse("invalid_yaml", "a key must be a text, not a list or mapping", event)
        return (*frame.path, f"{frame.key} (again)" if frame.dropped else str(frame.key))

    def _check(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            self._refuse("too_large", f"more than {NODES_MAX:,} values", event)
        if event.tag is not None:
            self._refuse("invalid_yaml", f"tags ({event.tag}) are not supported", event)

    def _resolve(self, event: Any) -> Any:
        if not event.implicit[0]:
            return event.value
        try:
            return _core_schema(event.value)
        except ValueError:
            self._find("invalid_yaml", "the number is too long", event, ())
            return event.value

    def _find(self, code: str, said: str, event: yaml.Event, path: Path) -> None:
        if len(self.findings) < FINDINGS_MAX:
            key = ".".join(map(str, path))
            self.findings.append(finding(code, said, self.file, *_place_of(event), key))

    def _refuse(self, code: str, said: str, event: yaml.Event) -> None:
        raise _Refused(finding(code, said, self.file, *_place_of(event)))


def _place_of(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


# --- scalars: YAML 1.2 core schema (section 10.3.2) -------------------------------------------

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NOT_A_NUMBER: Final = frozenset({".nan", ".NaN", ".NAN"})
_DIGITS_MAX: Final = 400
"""Longer than any double; Python's own limit for reading an int is 4,300 digits."""


def _core_schema(text: str) -> Any:
    """The value of a plain scalar. ValueError for a number of unreasonable length."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] not in "+-.0123456789":
        return text
    return _number(text)


def _number(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        if len(text) > _DIGITS_MAX:
            raise ValueError("too long")
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return float("nan") if text in _NOT_A_NUMBER else text
