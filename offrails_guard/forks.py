"""What a forked process must not inherit: a lock that a thread of the parent held, and the parent's threads.

Locks of counters are made anew in the child: what they guard is whole at any moment. A lock around a state that is
changed in steps, such as a monitor, is taken before the fork, so that the child's copy of the state is whole. A thread of
ours that runs what others wrote stands still while the process forks: it may hold locks that nobody knows, such as those of
modules that are looked for, of TLS, or of names.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

__all__ = ["Renewable", "hold_at_fork", "renew_after_fork"]


class Renewable(Protocol):
    """Holds locks or threads."""

    def renew(self) -> None:
        """Makes them anew, in a forked process that has one thread."""


class HasLock(Protocol):
    """Holds a lock around a state that is changed in steps."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock; several may share one. It may change from fork to fork."""


_renewed: Final[dict[int, weakref.ref[Renewable]]] = {}
_locked: Final[dict[int, weakref.ref[HasLock]]] = {}
_last: Final[dict[int, weakref.ref[HasLock]]] = {}
_taken: Final[dict[int, list[AbstractContextManager[Any]]]] = {}
"""Locks that a fork under way has taken, by the thread that forks."""


def renew_after_fork(thing: Renewable) -> None:
    """Has `thing.renew()` called in forked processes, as long as it lives."""
    _remember(_renewed, thing)


def hold_at_fork(thing: HasLock, *, last: bool = False) -> None:
    """Has `thing.lock` held while a process forks, as long as it lives.

    Args:
        thing: has the lock.
        last: it is taken after those without this mark: whoever holds one of these may wait for it.
    """
    _remember(_last if last else _locked, thing)


def _remember(where: dict[int, weakref.ref[Any]], thing: Any) -> None:
    number = id(thing)
    where[number] = weakref.ref(thing, lambda _: where.pop(number, None))


def _living(where: dict[int, weakref.ref[Any]]) -> list[Any]:
    # A list of a dict's values is made in one step; other threads may add meanwhile.
    found = [each() for each in list(where.values())]
    return [each for each in found if each is not None]


def _before() -> None:
    found = [each.lock for each in (*_living(_locked), *_living(_last))]
    locks = {id(each): each for each in found}
    taken = _taken[threading.get_ident()] = []
    for lock in locks.values():
        lock.__enter__()
        taken.append(lock)


def _after() -> None:
    for lock in reversed(_taken.pop(threading.get_ident(), [])):
        lock.__exit__(None, None, None)


def _after_in_child() -> None:
    _after()
    for each in _living(_renewed):
        each.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
