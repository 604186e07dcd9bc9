"""What follows from the settings: bounds, redaction, and the names by which others know this service."""

from __future__ import annotations

import socket
from typing import Final

from collector.config.field_types import OFF
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.settings import Settings
from collector.config.settings.telemetry import RedactSettings
from collector.net.watched_files import as_set
from collector.restart.run_mark import RunMark
from collector.telemetry.redaction import Redaction, key_of, rules
from monitor.limits import NAMES_BYTES_MAX, SECOND, Limits

__all__ = ["BESIDE_SHARE", "instance_of", "limits_of", "mark_of", "owner_of", "redaction_of"]

BESIDE_SHARE: Final = 8
"""Part of the bytes of sessions that tool names may take beside them, and what resources say; so both follow from the
memory limit."""


def limits_of(settings: Settings) -> Limits:
    """The monitor's bounds, in its own units."""
    sessions = settings.sessions
    return Limits(
        window_ns=int(sessions.window_seconds * SECOND),
        idle_ns=int(sessions.idle_seconds * SECOND),
        remember_ns=int(sessions.remember_seconds * SECOND),
        hold_ns=int(sessions.hold_seconds * SECOND),
        sessions_max=sessions.max,
        sessions_bytes_max=sessions.max_bytes,
        names_bytes_max=min(NAMES_BYTES_MAX, sessions.max_bytes // BESIDE_SHARE),
        things_max=sessions.things_max,
        shared_things_max=sessions.shared_things_max,
        shared_things_bytes_max=sessions.max_shared_things_bytes,
        pairs_max=settings.metrics_pairs_max,
        agents_max=settings.metrics_agents_max,
        namespace_label=settings.metrics_namespace_label,
        history_complete=settings.history == "complete",
        keep_arguments=settings.show_arguments,
        confirm_ns=int(settings.decide.confirm_seconds * SECOND),
    )


def mark_of(settings: Settings) -> RunMark | None:
    """The mark that a process ran; None if it is not asked for. Where there is a journal with a past, it says more than the mark."""
    if settings.history != "complete" or settings.history_mark is None:
        return None
    mark = RunMark(settings.history_mark, settings.sessions.idle_seconds)
    folder = settings.state.dir
    if folder is not None and folder.is_dir():
        from collector.state.segment import segments

        mark.has_predecessor &= not any(segments(folder))
    return mark


def redaction_of(settings: RedactSettings) -> Redaction:
    """What is taken out of all that is shown.

    Raises:
        UnusableFileError: the key file cannot be used.
    """
    with as_set("redact.key_file", settings.key_file):
        key = key_of(settings.key_file)
    return Redaction(rules(settings.replace, settings.hash, key), key)


def instance_of(metrics: str) -> str:
    """The label `instance` of direct alerts: as Prometheus has it, where it scrapes the host by name.

    Args:
        metrics: the address of the metrics listener.
    """
    host, _, port = metrics.rpartition(":")
    if metrics == OFF or metrics.startswith("unix:"):
        return socket.gethostname()
    if host in ("", "0.0.0.0", "[::]"):  # noqa: S104 - it is compared, not bound
        host = socket.gethostname()
    return f"{host}:{port}"


def owner_of(receiver: ReceiverSettings) -> str:
    """What tells this monitor's rows in a shared archive from those of others, also on this host; the same after a restart.

    Args:
        receiver: where it listens: no other process of the host does.
    """
    return " ".join((socket.gethostname(), receiver.http, receiver.grpc))
