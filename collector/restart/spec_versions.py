"""The versions of specs that sessions may be under: a session keeps the one that it began with.

Idea: a snapshot has no spec, but the texts of all versions. The next process compiles those that it does not use itself,
and each session finds the judge of its version again.

Example: a spec was changed at noon. A session of the morning goes on under the old text, which no file has any more. In a
snapshot of the afternoon stand both texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Final, NamedTuple

from collector.restart.snapshot_layout import KINDS
from collector.state.records import SpecsRecord
from collector.state.snapshot import UnusableSnapshotError, Version
from monitor.engine import Monitor
from monitor.plain_records.kinds import named
from monitor.session.judge.judge import Judge
from monitor.session.spec_binding import SpecBinder, document_of
from monitor.spec.acceptance import day_of
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

__all__ = ["SpecVersions"]

EARLIER_MAX: Final = 64
"""Versions that are remembered after they were replaced, the latest ones. No snapshot is taken while sessions are
under one that is not."""


class _Known(NamedTuple):
    judge: Judge
    text: bytes | None
    """Text of the spec; None if nobody has it any more."""
    day: date
    """Day by which the accepted calls of the spec were in force."""


class SpecVersions:
    """All versions that are in use, or were.

    Args:
        monitor: has the ones in use.
        clock: Unix nanoseconds.
    """

    def __init__(self, monitor: Monitor, clock: Callable[[], int]) -> None:
        self.digest = b""
        """Digest of the specs in use."""
        self._monitor = monitor
        self._clock = clock
        self._texts: dict[str, bytes] = {}
        """Texts in use, by file."""
        self._seen: SpecBinder | None = None
        self._known: dict[str, _Known] = {}
        """Known versions by name, in the order of their arrival."""
        self._count = 0

    def use(self, specs: SpecsRecord) -> None:
        """These are in use from now on."""
        self.digest = specs.digest
        self._texts = dict(specs.texts or ())
        self.look()

    def look(self) -> None:
        """Takes note of versions that are new."""
        binder = self._monitor.binder
        if binder is self._seen:
            return
        self._seen = binder
        known = {id(each.judge) for each in self._known.values()}
        day = day_of(self._clock())
        for judge in binder.judges.values():
            if id(judge) not in known:
                self._add(judge, self._texts.get(judge.spec.file), day)
        in_use = set(map(id, binder.judges.values()))
        earlier = [name for name, each in self._known.items() if id(each.judge) not in in_use]
        for name in earlier[:-EARLIER_MAX]:
            del self._known[name]

    def _add(self, judge: Judge, text: bytes | None, day: date) -> str:
        self._count += 1
        name = f"{judge.spec.id} {self._count}"
        self._known[name] = _Known(judge, text, day)
        return name

    def kept(self) -> list[Version]:
        """All of them, for a snapshot."""
        in_use = set(map(id, self._monitor.binder.judges.values()))
        return [
            Version(
                name,
                id(judge) in in_use,
                judge.spec.file,
                _document(judge.spec),
                text,
                day.isoformat(),
            )
            for name, (judge, text, day) in self._known.items()
        ]

    def named(self) -> dict[str, object]:
        """Their judges, and what belongs to them, by name."""
        return named({name: each.judge for name, each in self._known.items()}, KINDS)

    def restore(self, versions: Sequence[Version]) -> dict[str, object]:
        """What belonged to the versions of an earlier process, by the names of then.

        Those that are in use now are the judges in use; the others are compiled again.

        Raises:
            UnusableSnapshotError: one cannot be compiled.
        """
        own = {_document(each.spec): each for each in self._monitor.binder.judges.values()}
        roots: dict[str, object] = {}
        for version in versions:
            judge = own.pop(version.document, None) if version.is_in_use else None
            if judge is None:
                judge = Judge(_compiled(version))
                day = date.fromisoformat(version.day)
                self._add(judge, version.text, day)
            roots[version.name] = judge
        self._seen = None
        return named(roots, KINDS)


def _document(spec: Spec) -> str:
    """What two processes know a version by."""
    return repr((spec.file, document_of(spec)))


def _compiled(version: Version) -> Spec:
    if version.text is None:
        raise UnusableSnapshotError(f"the text of {version.file} of then is not known any more")
    text = version.text.decode("utf-8", "replace")
    spec, _ = compile_text(text, version.file, date.fromisoformat(version.day))
    if spec is None or _document(spec) != version.document:
        raise UnusableSnapshotError(f"{version.file} of then cannot be compiled any more")
    return spec
