"""`offrails serve`: runs the service until a signal stops it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from collector import __version__
from collector.app import gc_tuning, last_good
from collector.app.derived_settings import redaction_of
from collector.app.service import App
from collector.config.environment import unknown
from collector.config.field_types import OFF
from collector.config.first_minutes import OFF_BY, first_minutes
from collector.config.memory_limit import FittedSettings, cgroup_limit, fitted
from collector.config.settings.settings import Settings
from collector.net.watched_files import UnusableFileError
from collector.receive.memory_guard import MemoryGuard, resident_bytes
from collector.telemetry import logs
from collector.telemetry.build import BUILD
from collector.telemetry.clock import now_ns
from collector.telemetry.log_writer import print_in_thread
from collector.telemetry.redaction import Redaction
from monitor.spec.read import LoadedSpecs

__all__ = ["NotStartedError", "serve"]


class NotStartedError(Exception):
    """The service cannot start: an address in use, not ours, not allowed, or of no host."""


def serve(settings: Settings, loaded: LoadedSpecs) -> NoReturn:
    """Serves until SIGTERM or SIGINT.

    Args:
        settings: all of them.
        loaded: the specs that are not refused, and what was found in their files and folders.

    Returns:
        Never, once it has started: the process ends.

    Raises:
        UnusableFileError: a file or folder that a setting names.
        NotStartedError: a listener cannot be opened.
    """
    redaction = redaction_of(settings.redact)
    fit = fitted(settings, cgroup_limit())
    with logs.writing(settings.log_level, redaction, sys.stderr):
        for finding in loaded.findings:
            tell = logs.log.error if finding.severity == "error" else logs.log.warning
            tell("spec_finding", **finding.as_json())
        for name in unknown(os.environ):
            logs.log.warning("unknown_variable", variable=name)
        runner = asyncio.Runner(loop_factory=_loop_factory())
        try:
            runner.run(_serve(fit, loaded, redaction))
        except BaseException:
            runner.close()
            raise
    _leave()


def _leave() -> NoReturn:
    """Ends the process at once.

    Python would wait for its threads first: for one that writes to a disk that hangs, or looks up a name that no server
    answers for. By now all is kept and logged that can be.
    """
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(0)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop where there is one."""
    try:
        import uvloop
    except ImportError:  # pragma: no cover - there is none for this platform
        return None
    return uvloop.new_event_loop


def _memory_guard(limit: int) -> MemoryGuard | None:
    """What refuses requests before the limit; None if there is none, or nobody says what the process takes."""
    resident = resident_bytes() if limit else None
    return None if resident is None else MemoryGuard(limit, resident)


async def _serve(fit: FittedSettings, loaded: LoadedSpecs, redaction: Redaction) -> None:
    settings, specs = fit.settings, loaded.specs
    before = last_good.find(settings, loaded, now_ns()) if loaded.refused else None
    if before is not None:
        specs = before.specs
    if fit.limit:
        receiver, sessions = settings.receiver, settings.sessions
        logs.log.info(
            "memory_bounds",
            limit=fit.limit,
            source=fit.source,
            inflight_bytes=receiver.max_inflight_bytes,
            request_bytes=receiver.max_request_bytes,
            session_bytes=sessions.max_bytes,
            argument_bytes=sessions.max_argument_bytes,
            span_bytes=sessions.max_span_bytes,
            decided_bytes=settings.decide.max_call_bytes,
        )
    try:
        app = App(settings, specs, memory=_memory_guard(fit.limit), redaction=redaction)
        if loaded.refused:
            errors = sum(each.severity == "error" for each in loaded.findings)
            app.start_without(errors, before)
        addresses = await app.start()
    except UnusableFileError:
        raise
    except OSError as problem:
        raise NotStartedError(problem.strerror or str(problem)) from problem
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    if hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, app.reloader.ask, "signal")
    gc_tuning.settle()
    young = app.young_until
    facts = {"may_have_begun_before_until": young, "off_by": OFF_BY} if young else {}
    logs.log.info(
        "started", version=__version__, build=BUILD, specs=len(specs), **addresses, **facts
    )
    ready = _ready(addresses, len(specs))
    if young:
        ready += "\n" + first_minutes(f"until {young}")
    print_in_thread(ready, sys.stdout, logs.log.dropped)
    await stop.wait()
    await app.stop()
    logs.log.info("stopped")
    gc_tuning.keep_for_ever(app)


def _ready(addresses: dict[str, str], specs: int) -> str:
    """The line that says where we listen."""
    places = (
        f"{name}={addresses.get(name, OFF)}"
        for name in ("grpc", "http", "metrics", "admin", "decide")
    )
    return f"offrails ready {' '.join(places)} specs={specs}"
