"""An event loop whose clock jumps to the next timer, so that ten minutes take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["run_virtual"]


class _Jumping(selectors.DefaultSelector):
    """Never waits: the time that it was to wait has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout:
            self.seconds += timeout
        elif timeout is None:
            raise AssertionError("nothing is going to happen any more")
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.seconds


def run_virtual(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a test's coroutine without sockets and threads, in time that passes at once."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(main())
