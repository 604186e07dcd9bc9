"""A session whose calls have the times of two clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from monitor import Limits, Monitor
from monitor.limits import SECOND
from monitor.records import SessionKey, ToolCall
from monitor.visibility.cause import Cause
from tests.monitor.test_engine import START, call, specs

__all__ = ["SERVER", "TASK", "TwoClocks"]

TASK: Final = """
id: task
kind: task
match: {kind: shop}
alphabet: {look: {tool: look}, refund: {tool: refund}, log: {tool: log}}
golden: [[look, refund, log]]
"""

SERVER: Final = {"kind": "shop", "service.name": "server"}


class TwoClocks:
    """A monitor that is older than any session.

    Args:
        spec: that it judges by.
        before: how long before the calls it started, in seconds.
    """

    def __init__(self, spec: str = TASK, before: int = 7_200) -> None:
        self.monitor = Monitor(specs(spec), Limits(), started_ns=START - before * SECOND)
        self._serial = 0

    def observe(
        self,
        tool: str,
        made: float,
        ahead: float = 0,
        late: float = 0.1,
        sender: Mapping[str, Any] = SERVER,
        session: str = "s",
    ) -> ToolCall:
        """A call of a tenth of a second that ended at a second, by a clock that is ahead, and came so much later."""
        self._serial += 1
        end_ns = START + int((made + ahead) * SECOND)
        plain = call(self._serial, tool, start_ns=end_ns - SECOND // 10, end_ns=end_ns)
        made_call = plain._replace(attributes=sender, session=SessionKey("", session))
        self.monitor.observe(made_call, START + int((made + late) * SECOND))
        return made_call

    @property
    def judged(self) -> tuple[int, int]:
        """Harmful calls, and possibly harmful ones."""
        (found,) = self.monitor.judgements()
        return found["harmful"], sum(bool(each.get("possible")) for each in found["steps"])

    @property
    def doubts(self) -> int:
        return self.monitor.gaps.doubts[Cause.MISTIMED]
