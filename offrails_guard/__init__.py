"""Asks before a tool runs: would this call be harmful here? The client side of `offrails`.

    Guard       --question-->  the service              --answer-->  Decision  ->  the tool runs, or not
    LocalGuard  --question-->  a monitor in this process --answer-->  Decision  ->  the tool runs, or not

It imports nothing of the service, and the library nowhere but for `LocalGuard`, by its public names (extra `local`).
`MonitorSpanProcessor` is offrails' own (extra `sdk`): it judges the spans of this process.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it; a hook, which is a process for each call, loads no `typing` for it
if TYPE_CHECKING:
    from typing import Any

    from offrails_guard.base import BaseGuard
    from offrails_guard.client import Guard
    from offrails_guard.decision import Decision, DeniedError
    from offrails_guard.in_process.local_guard import LocalGuard
    from offrails_guard.in_process.span_processor import MonitorSpanProcessor
    from offrails_guard.question import Call

__all__ = [
    "BaseGuard",
    "Call",
    "Decision",
    "DeniedError",
    "Guard",
    "LocalGuard",
    "MonitorSpanProcessor",
]

__version__ = "0.2.0"
"""Version of the distributions offrails-guard and offrails, which have the same files."""

_HOME = {
    "BaseGuard": "offrails_guard.base",
    "Call": "offrails_guard.question",
    "Decision": "offrails_guard.decision",
    "DeniedError": "offrails_guard.decision",
    "Guard": "offrails_guard.client",
    "LocalGuard": "offrails_guard.in_process.local_guard",
    "MonitorSpanProcessor": "offrails_guard.in_process.span_processor",
}

_FORMER = {"Denied": "DeniedError"}
"""Names of the release before, which lead to those of today for one release."""


def __getattr__(name: str) -> Any:
    name = _FORMER.get(name, name)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
