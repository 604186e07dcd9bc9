"""Sessions as bytes, and back in another process: what one shard of a fleet hands over to another.

Idea: a session with all that it refers to is written as a graph of objects (`monitor.object_graph`). What belongs to a
process is left out, or named: its sums and neighbours are left out, judges and what follows from specs are fixtures, and
numbers that processes give in the order of arrival (of tools in steps, of unknown tools under a reference) are translated.

Invariants:

- `to_bytes` changes nothing.
- Bytes are read only where each class has the fields that were written, or `CHANGES` says what has changed since, and
  under the same specs. Else a class or a judge may mean something else.

Example: in one process, `scan` is tool 7. In the other, 7 is `move` and `scan` is 3. The bytes say that 7 is `scan`, so the
steps that are read have 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from monitor.aggregate.totals import NO_SHARE
from monitor.object_graph import (
    Change,
    Kind,
    Layout,
    UnkeptError,
    finished,
    fixtures,
    read,
    write,
)
from monitor.session.judge import Judge
from monitor.session.session import Session
from monitor.session.spec_binding import SpecBinder, document_of
from monitor.session.tool_names import Names

__all__ = ["CHANGES", "FORMAT", "STILL", "Parting", "SessionCodec"]

FORMAT: Final = 1
_CHECKSUM_BYTES: Final = 8

STILL: Final = (
    "monitor.spec.",
    "monitor.alphabet.",
    "monitor.automaton.",
    "monitor.limits.",
    "monitor.scores.running.Goldens",
)
"""What follows from specs and settings: both processes have it."""
CHANGES: Final[Mapping[str, tuple[Change, ...]]] = {}
"""What has changed in kept classes of the library since bytes of format 1 and snapshots of format 3: one entry a class, one
`Change` a version. Without one, bytes that were written before are refused by name; a snapshot is not used then, and the
journal is judged again."""
_FOUND: Final = Layout(("monitor",), ("monitor.",), STILL, {}, {})
"""Judges are looked into, for what sessions refer to."""
_LAYOUT: Final = _FOUND._replace(
    still=(
        *STILL,
        "monitor.aggregate.",
        "monitor.reference.comparison.Comparison",
        "monitor.session.judge.Judge",
        "monitor.session.spec_binding.SpecBinder",
    ),
    caches={
        "monitor.session.session.Session": dict.fromkeys(
            ("older", "newer", "chain"), lambda: None
        ),
        "monitor.session.judgement.Judgement": {
            "pair": lambda: None,
            "share": lambda: NO_SHARE,
            "behind": int,
            "is_behind": bool,
            "sampled": bool,
        },
    },
    changes=CHANGES,
)


class _Packed(msgspec.Struct, array_like=True):
    """What the bytes hold."""

    format: int
    program: str
    """The version that wrote them, for people."""
    specs: bytes
    blocks: list[tuple[int, bytes]]


class _Graph(NamedTuple):
    """What the blocks hold. Names of tools may be no text that MessagePack knows, so they are here."""

    parting: list[Parting]
    tools: dict[int, str]
    """The names of the tools in steps."""
    unknown: dict[str, dict[int, str]]
    """By reference, the tools in steps that no learning run called, by their numbers."""


class Parting(NamedTuple):
    """A session, and what is known of it elsewhere."""

    session: Session
    due_ns: int | None
    """When it is looked at next, Unix nanoseconds."""
    ahead_ns: int | None
    """How far the clocks of its senders are ahead."""


class SessionCodec:
    """Sessions of one binder as bytes.

    Args:
        program: its version.
        binder: of the sessions; in both processes it has the same specs, in the same order.
        unbound: the judge of sessions without specs.
        names: of the process.
    """

    def __init__(self, program: str, binder: SpecBinder, unbound: Judge, names: Names) -> None:
        self.binder = binder
        self._program = program
        self._names = names
        found = fixtures({"binder": binder, "unbound": unbound}, _FOUND)
        self._known = {
            path: each for path, each in found.items() if not _LAYOUT.is_record(type(each))
        }
        self._specs = _digest(binder)

    def to_bytes(self, parting: Sequence[Parting]) -> bytes:
        """Sessions with all that they know, live or ended ones.

        Raises:
            UnkeptError: one is under specs of another binder.
        """
        sessions = [each.session for each in parting]
        for session in sessions:
            if session.binder not in (None, self.binder):
                raise UnkeptError(f"session {session.key.id} is under earlier specs")
        tools = {number for each in sessions for number in each.tools()}
        graph = _Graph(
            list(parting),
            {number: self._names.text(number) for number in tools if number},
            _unknown(sessions),
        )
        blocks = [(int(kind), payload) for kind, payload in write(self._known, _LAYOUT, graph)]
        packed = _Packed(FORMAT, self._program, self._specs, blocks)
        data = msgspec.msgpack.encode(packed)
        return _checksum(data) + data

    def from_bytes(self, data: bytes) -> list[Parting]:
        """The sessions, in no table and no sums.

        Args:
            data: of a process that is trusted.

        Raises:
            UnkeptError: they are damaged, of a version of the program whose classes are others, or were under other specs.
        """
        if data[:_CHECKSUM_BYTES] != _checksum(data[_CHECKSUM_BYTES:]):
            raise UnkeptError("they are damaged")
        try:
            packed = msgspec.msgpack.decode(data[_CHECKSUM_BYTES:], type=_Packed)
        except msgspec.MsgspecError as problem:  # of another format
            raise UnkeptError(str(problem)) from None
        if packed.format != FORMAT:
            raise UnkeptError(
                f"they are of format {packed.format}, and this program reads {FORMAT}"
            )
        if packed.specs != self._specs:
            raise UnkeptError("they are under other specs")
        try:
            graph = self._read(packed.blocks)
        except UnkeptError as problem:
            raise UnkeptError(
                f"they are of version {packed.program} of the program: {problem}"
            ) from None
        for each in graph.parting:
            self._renumber(each.session, graph)
        return graph.parting

    def _read(self, blocks: list[tuple[int, bytes]]) -> _Graph:
        def of_kind(kind: Kind) -> Iterable[bytes]:
            return (payload for each, payload in blocks if each == kind)

        found: _Graph = finished(read(of_kind, self._known, _LAYOUT))
        return found

    def _renumber(self, session: Session, graph: _Graph) -> None:
        namespace = session.key.namespace
        tools = {
            number: self._names.number(graph.tools[number], namespace) if number else 0
            for number in session.tools()
        }
        for judgement in session.judgements:
            judgement.renumber(tools)
            comparison = judgement.judge.comparison
            if comparison is not None:
                there = graph.unknown[judgement.judge.spec.id]
                judgement.renumber_unknown(comparison.numbers_of(there))


def _unknown(sessions: Iterable[Session]) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for session in sessions:
        for judgement in session.judgements:
            found.setdefault(judgement.judge.spec.id, {}).update(judgement.unknown())
    return found


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECKSUM_BYTES).digest()


def _digest(binder: SpecBinder) -> bytes:
    """Of the specs of a binder, in their order."""
    found = blake2b(digest_size=16)
    for judge in binder.judges.values():
        found.update(repr(document_of(judge.spec)).encode())
    return found.digest()
