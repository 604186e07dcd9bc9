"""Notes who reads arguments of calls: what agents handle may be about people.

One line a reader and session in a minute: an open session view asks again with each call. At most `READS_MAX` are
remembered; at the bound all are forgotten, and logged again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from collector.telemetry.logs import log

__all__ = ["ArgumentAudit"]

READS_MAX: Final = 4_096
EACH_NS: Final = 60 * 1_000_000_000
_TEXT_MAX: Final = 256


class ArgumentAudit:
    """Logs reads of arguments.

    Args:
        shown: False if arguments are not shown, so that nobody reads any.
        clock: nanoseconds of a clock that nobody sets.
    """

    def __init__(self, shown: bool, clock: Callable[[], int]) -> None:
        self._shown = shown
        self._clock = clock
        self._reads: dict[tuple[str, str], int] = {}

    def read(self, who: str, what: str) -> None:
        """Somebody reads arguments.

        Args:
            who: asks.
            what: the session, as it is shown; for a list, its path and query.
        """
        if not self._shown:
            return
        key, now = (who, what[:_TEXT_MAX]), self._clock()
        before = self._reads.get(key)
        if before is not None and now - before < EACH_NS:
            return
        if len(self._reads) >= READS_MAX:
            self._reads.clear()
        self._reads[key] = now
        log.info("audit", action="read_arguments", who=who, what=key[1])
