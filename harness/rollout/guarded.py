"""Asking before each call: a monitor in this process that blocks, or a running service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from harness.rollout.spans import SERVICE
from monitor import Limits, Monitor, Spec
from offrails_guard import BaseGuard, Guard, LocalGuard

__all__ = ["IN_PROCESS", "guard_of"]

IN_PROCESS = "in_process"
"""Place of the guard where `--guard` has no URL."""


def guard_of(
    where: str, spec: Spec, session: str, agent: str, clock: Callable[[], int]
) -> BaseGuard:
    """The guard of one rollout.

    Args:
        where: the URL of a service, or `IN_PROCESS`: the spec then blocks.
        spec: of the task.
        session: of the rollout.
        agent: its name.
        clock: Unix nanoseconds.
    """
    known: Mapping[str, Any] = {"offrails.spec": spec.id}
    if where != IN_PROCESS:
        return Guard(
            where, session=session, agent=agent, service=SERVICE, attributes=known,
            new_session=True, deadline_seconds=2.0,
        )  # fmt: skip
    monitor = Monitor([replace(spec, enforce="block")], Limits(history_complete=True))
    return LocalGuard(
        monitor, session=session, agent=agent, service=SERVICE, attributes=known,
        new_session=True, clock=clock,
    )  # fmt: skip
