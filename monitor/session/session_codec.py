"""Sessions as bytes, and back in another process: what one shard of a fleet hands over to another.

Idea: a session with all that it refers to is written as plain records (`monitor.plain_records`), of the kinds that snapshots have, too. What
belongs to a process is left out, or named: its sums and neighbours are left out, judges are named by their specs, and numbers that processes give in the order of arrival (of tools in steps, of unknown tools under a reference) are translated.

Invariants:

- `to_bytes` changes nothing.
- Bytes are read only where each kind has the version that was written, or its changes say what became of it, and under the
  same specs. Else a record or a judge may mean something else.

Example: in one process, `scan` is tool 7. In the other, 7 is `move` and `scan` is 3. The bytes say that 7 is `scan`, so the
steps that are read have 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from monitor.aggregate.totals import NO_SHARE
from monitor.plain_records.blocks import BlockKind
from monitor.plain_records.kinds import Kinds, PlainRecordKind, UnkeptError, kept, named
from monitor.plain_records.read import finished, read
from monitor.plain_records.write import write
from monitor.session.judge.judge import Judge
from monitor.session.judgement.judgement import Judgement
from monitor.session.session import Session
from monitor.session.session_kinds import SESSION_KINDS
from monitor.session.spec_binding import SpecBinder, document_of
from monitor.session.things.shared_judgement import SharedThingsJudgement
from monitor.session.things.things_judgement import ThingsJudgement
from monitor.session.tool_names import Names
from monitor.session.tool_translation import (
    renumber,
    renumber_unknown,
    tools,
    unknown,
)
from monitor.visibility.gap import Gap

__all__ = ["FORMAT", "KINDS", "SessionCodec", "SessionTransfer"]

FORMAT: Final = 3
_CHECKSUM_BYTES: Final = 8

_ALL: Final = Kinds(SESSION_KINDS)
_OF_A_JUDGEMENT: Final[Mapping[str, Callable[[], Any]]] = {
    "pair": lambda: None,
    "share": lambda: NO_SHARE,
    "behind": int,
    "is_behind": bool,
    "sampled": bool,
}
_OF_A_PROCESS: Final[Mapping[type, Mapping[str, Callable[[], Any]]]] = {
    Session: dict.fromkeys(("older", "newer", "chain"), lambda: None),
    Judgement: _OF_A_JUDGEMENT,
    ThingsJudgement: _OF_A_JUDGEMENT,
    SharedThingsJudgement: {
        **_OF_A_JUDGEMENT,
        "space": lambda: None,
        "is_live": bool,
        "number": int,
        "open_version": int,
        "told": dict,
    },
}
"""Fields that belong to a process, and what a session has there when it comes."""


def _leaving(cls: type) -> PlainRecordKind:
    """The kind of a class, without the fields that belong to a process."""
    kind, made = _ALL.by_class[cls], _OF_A_PROCESS[cls]
    return kind._replace(
        fields=tuple(each for each in kind.fields if each not in made),
        made={**kind.made, **made},
    )


KINDS: Final = _ALL.replaced(
    *map(_leaving, _OF_A_PROCESS),
    kept("judge", Judge, parts="goldens", only_parts=True),
    kept("specs", SpecBinder, only_parts=True),
)
"""What is kept of a session that moves: nothing that is of its process."""


class _Packed(msgspec.Struct, array_like=True):
    """What the bytes hold."""

    format: int
    program: str
    """The version that wrote them, for people."""
    specs: bytes
    blocks: list[tuple[int, bytes]]


class _Graph(NamedTuple):
    """What the blocks hold."""

    parting: list[SessionTransfer]
    tools: dict[int, str]
    """The names of the tools in steps."""
    unknown: dict[str, dict[int, str]]
    """Tools in steps that no learning run called, by their numbers, by reference."""


class SessionTransfer(NamedTuple):
    """A session, and what is known of it elsewhere."""

    session: Session
    due_ns: int | None
    """When it is looked at next, Unix nanoseconds."""
    ahead_ns: int | None
    """How far the clocks of its senders are ahead."""
    before: Gap | None
    """Calls before the start of the process that it leaves, where they are missing."""


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
        judges = {f"judge of {name}": judge for name, judge in binder.judges.items()}
        self._known = named({"specs": binder, "judge of none": unbound, **judges}, KINDS)
        self._specs = _digest(binder)

    def to_bytes(self, parting: Sequence[SessionTransfer]) -> bytes:
        """Sessions with all that they know, live or ended ones.

        Raises:
            UnkeptError: one is under specs of another binder.
        """
        sessions = [each.session for each in parting]
        for session in sessions:
            if session.binder not in (None, self.binder):
                raise UnkeptError(f"session {session.key.id} is under earlier specs")
        numbers = {number for each in sessions for number in tools(each)}
        graph = _Graph(
            list(parting),
            {number: self._names.text(number) for number in numbers if number},
            _unknown(sessions),
        )
        root = ([tuple(each) for each in graph.parting], graph.tools, graph.unknown)
        blocks = [(int(kind), payload) for kind, payload in write(self._known, KINDS, root)]
        packed = _Packed(FORMAT, self._program, self._specs, blocks)
        data = msgspec.msgpack.encode(packed)
        return _checksum(data) + data

    def from_bytes(self, data: bytes) -> list[SessionTransfer]:
        """The sessions, in no table and no sums.

        Args:
            data: of a process that is trusted.

        Raises:
            UnkeptError: they are damaged, of a version of the program whose kinds are others, or were under other specs.
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
        def of_kind(kind: BlockKind) -> Iterable[bytes]:
            return (payload for each, payload in blocks if each == kind)

        parting, tools, unknown = finished(read(of_kind, self._known, KINDS))
        return _Graph([SessionTransfer(*each) for each in parting], tools, unknown)

    def _renumber(self, session: Session, graph: _Graph) -> None:
        namespace = session.key.namespace
        numbers = {
            number: self._names.number(graph.tools[number], namespace) if number else 0
            for number in tools(session)
        }
        for judgement in session.judgements:
            renumber(judgement, numbers)
            comparison = judgement.judge.comparison
            if comparison is not None:
                there = graph.unknown[judgement.judge.spec.id]
                renumber_unknown(judgement, comparison.numbers_of(there))


def _unknown(sessions: Iterable[Session]) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for session in sessions:
        for judgement in session.judgements:
            found.setdefault(judgement.judge.spec.id, {}).update(unknown(judgement))
    return found


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECKSUM_BYTES).digest()


def _digest(binder: SpecBinder) -> bytes:
    """Of the specs of a binder, in their order."""
    found = blake2b(digest_size=16)
    for judge in binder.judges.values():
        found.update(repr(document_of(judge.spec)).encode())
    return found.digest()
