"""Specs are read anew while the service runs: when asked to, and when their files change.

A reload is all or nothing. Where a file is refused, the specs in use stay in use, all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from collector.telemetry.tracing import Tracer, traced
from monitor.findings import Finding
from monitor.spec.acceptance import day_of
from monitor.spec.read import LoadedSpecs, load_specs, spec_files
from monitor.spec.spec import Acceptance, Spec

__all__ = ["PATH", "ReloadResult", "ReloadedSessions", "Reloader", "Reloads", "accepted"]

PATH = b"/-/reload"
POLL_SECONDS = 1.0
"""How often the files are looked at. A change is read when it is so old."""

Accepted = frozenset[tuple[str, str, Acceptance]]

Look = Mapping[str, tuple[int, ...]]
"""State of the files by path: times of change (of content and of permissions), size and inode."""


class _AfterReload(Protocol):
    def __call__(self, *, rejudge: bool) -> Awaitable[ReloadedSessions]: ...


@dataclass(slots=True)
class Reloads:
    """What the metrics say of reloads."""

    succeeded: int = 0
    failed: int = 0
    errors: int = 0
    """Errors found in spec files, when read anew, or at a start that went on without them."""
    last_succeeded: bool = True
    success_ns: int = 0
    """When the specs in use were loaded, Unix nanoseconds; 0 if that is not known."""


class ReloadedSessions(NamedTuple):
    """Sessions that were running when specs were read anew."""

    kept: int = 0
    """Sessions that are still judged by an earlier version of a spec."""
    rejudged: int = 0
    """Sessions that went over to the versions in use."""


NOBODY: Final = ReloadedSessions()


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """How one reload went."""

    success: bool
    changed: bool
    """False also if the files are the same as before."""
    specs: int
    """How many specs are in use now."""
    findings: tuple[Finding, ...]
    running: ReloadedSessions = NOBODY

    def as_json(self) -> dict[str, Any]:
        """The answer to whoever asked."""
        return {
            "success": self.success,
            "changed": self.changed,
            "specs": self.specs,
            "sessions": self.running._asdict(),
            "findings": [each.as_json() for each in self.findings],
        }


class Reloader:
    """Reads spec files anew, one reload at a time.

    Args:
        paths: spec files and folders.
        use: takes the specs; False if they are those in use.
        log: where events are written to.
        clock: Unix nanoseconds.
        poll_seconds: how often `watch` looks.
        tracer: makes a span of each reload; None if own traces are off.
        keep: keeps the specs of a reload that succeeded, for a later start; it may block. None if none are kept.
        running: counts the sessions under earlier versions, and has them judged again where that is asked for. None
            where there are no sessions.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        use: Callable[[Sequence[Spec]], bool],
        log: Any,
        clock: Callable[[], int],
        poll_seconds: float = POLL_SECONDS,
        tracer: Tracer | None = None,
        keep: Callable[[Sequence[Spec]], None] | None = None,
        running: _AfterReload | None = None,
    ) -> None:
        self.reloads = Reloads(success_ns=clock())
        self._paths = tuple(paths)
        self._use = use
        self._log = log
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._tracer = tracer
        self._keep = keep
        self._running = running
        self._first = look(self._paths)
        """File states when the service was built, so that no later change is missed."""
        self._lock = asyncio.Lock()
        self._in_use = 0
        self._accepted: Accepted = frozenset()
        self._asked: set[asyncio.Task[ReloadResult]] = set()

    def loaded(self, specs: int, accepted_calls: Accepted = frozenset()) -> None:
        """How many specs the service began with, and what they accept."""
        self._in_use = specs
        self._accepted = accepted_calls

    def started_without(self, errors: int, kept_ns: int = 0) -> None:
        """Spec files were refused at the start; the service runs without what is in them.

        Args:
            errors: found in them.
            kept_ns: when the specs that are in use in their place compiled, Unix nanoseconds; 0 if there are none.
        """
        self.reloads.last_succeeded = False
        self.reloads.errors += errors
        self.reloads.success_ns = kept_ns

    def ask(self, why: str) -> None:
        """Reloads soon: for a signal handler, which cannot wait."""
        task = asyncio.get_running_loop().create_task(self.reload(why))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def reload(self, why: str, who: str = "", *, rejudge: bool = False) -> ReloadResult:
        """Reads the files beside the event loop, then takes what they say in one step.

        Args:
            why: what asked for it, for the log: `signal`, `request` or `change`.
            who: who asked, for the audit line; "" for signals and files, which are nobody in particular.
            rejudge: running sessions go over to the versions in use; else they keep theirs.
        """
        async with self._lock:
            with traced(self._tracer, "reload", trigger=why) as span:
                loaded = await asyncio.to_thread(load_specs, self._paths, day_of(self._clock()))
                done = self._take(loaded)
                span.set(specs=done.specs, changed=done.changed)
                if not done.success:
                    span.fail("refused")
                elif self._keep is not None:
                    await asyncio.to_thread(self._keep, loaded.specs)
                if done.success and self._running is not None:
                    running = await self._running(rejudge=rejudge)
                    done = replace(done, running=running)
        self._tell(done, why)
        if who:
            self._log.info(
                "audit",
                action="reload",
                trigger=why,
                who=who,
                success=done.success,
                specs=done.specs,
                sessions="rejudge" if rejudge else "keep",
                rejudged=done.running.rejudged,
            )
        return done

    def _take(self, loaded: LoadedSpecs) -> ReloadResult:
        """Nothing is awaited here: a call is judged before the change, or after it."""
        reloads = self.reloads
        reloads.last_succeeded = not loaded.refused
        if loaded.refused:
            reloads.failed += 1
            reloads.errors += sum(each.severity == "error" for each in loaded.findings)
            return ReloadResult(False, False, self._in_use, loaded.findings)
        changed = self._use(loaded.specs)
        self._audit(accepted(loaded.specs))
        reloads.succeeded += 1
        reloads.success_ns = self._clock()
        self._in_use = len(loaded.specs)
        return ReloadResult(True, changed, self._in_use, loaded.findings)

    def _audit(self, now: Accepted) -> None:
        """One line for each call that somebody has accepted, or accepts no longer, since the last reload."""
        today = day_of(self._clock())
        ended = {each for each in self._accepted - now if each[2].until >= today}
        for action, entries in (("accept", now - self._accepted), ("withdraw", ended)):
            for spec, file, entry in sorted(entries, key=str):
                self._log.info(
                    "audit",
                    action=action,
                    spec=spec,
                    file=file,
                    symbol=entry.symbol,
                    state=entry.state,
                    who=entry.who,
                    why=entry.why,
                    until=entry.until.isoformat(),
                )
        self._accepted = now

    def _tell(self, done: ReloadResult, why: str) -> None:
        for finding in done.findings:
            tell = self._log.error if finding.severity == "error" else self._log.warning
            tell("spec_finding", **finding.as_json())
        if done.success:
            self._log.info(
                "specs_reloaded",
                trigger=why,
                changed=done.changed,
                specs=done.specs,
                sessions_kept=done.running.kept,
                sessions_rejudged=done.running.rejudged,
            )
        else:
            self._log.error("specs_not_reloaded", trigger=why, specs_kept=done.specs)

    # --- files that change ---------------------------------------------------------------------

    async def watch(self) -> None:
        """Reloads when files have changed and are left alone for one look: never half written."""
        current = before = self._first
        failed = ""
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                seen = await self._look()
                if seen == before and seen != current:
                    current = seen
                    await self.reload("change")
                before, failed = seen, ""
            except Exception as error:  # noqa: BLE001
                # A folder that cannot be listed now may be there again at the next look.
                if type(error).__name__ != failed:
                    failed = type(error).__name__
                    self._log.error("specs_not_watched", error=failed, exc_info=error)

    async def _look(self) -> Look:
        return await asyncio.to_thread(look, self._paths)


def accepted(specs: Sequence[Spec]) -> Accepted:
    """The accepted calls of the specs, with the spec's id and file."""
    return frozenset(
        (spec.id, str(spec.file), each) for spec in specs for each in spec.accepted
    )


def look(paths: Sequence[Path]) -> Look:
    """What the spec files look like; one that cannot be seen is left out."""
    seen: dict[str, tuple[int, ...]] = {}
    for path in spec_files(paths):
        try:
            found = path.stat()
        except (OSError, ValueError):
            continue
        seen[str(path)] = (
            found.st_mtime_ns,
            found.st_ctime_ns,
            found.st_size,
            found.st_ino,
        )
    return seen
