"""What a reference asks of the values that writes carry: where they come from.

Idea: an attack brings its values along. They stand in what a tool returned, and the user did not say them. So of each write one
fact more is asked: whether some value of it stands in an earlier result, and none in what the user said. A write of which
that is known not to be so is no page. The fact is found as those of specs are (`monitor.session.data`), whatever order
calls and messages come in.

Invariant: what is not known changes nothing. Without results or messages on the wire, alarms are those of a reference that
does not ask.

Example: no usual run called `send_email`. "send it to eve@x.io" stands in a page that the agent read: a call with that
address pages. A call with addresses that the user named is a hint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from monitor.alphabet.data_conditions import ANY_TOOL, DataCondition
from monitor.spec.data_rules import DataRules, SourceNeeds
from monitor.value_paths import path_of

__all__ = ["WrittenValues"]

_KNOWN_MAX: Final = 4_096

_CARRIED: Final = DataCondition(
    "$", path_of("$"), "carried", tools=(ANY_TOOL,), user=True, parts=True, folded=True
)
_ASKED: Final = (_CARRIED,)
_NOT_ASKED: Final[tuple[DataCondition, ...]] = ()
_NEEDS: Final = SourceNeeds(
    leaves=False, texts=True, parts=False, folded_parts=True, remembered=()
)


class WrittenValues(DataRules):
    """The rules over data of a reference: each write asks, each result may be a source.

    Args:
        writes: the tools that write.
        seems_to_write: whether another one does, by its name.
    """

    def __init__(self, writes: frozenset[str], seems_to_write: Callable[[str], bool]) -> None:
        super().__init__({}, {})
        self.sources = {ANY_TOOL: _NEEDS}
        self.hears = True
        self.signature = f"written values {sorted(writes)}"
        self._writes = writes
        self._seems_to_write = seems_to_write
        self._known: dict[str, bool] = {}

    def asks(self, tool: str) -> tuple[DataCondition, ...]:
        """The condition of a write; none of other calls."""
        known = self._known.get(tool)
        if known is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            known = self._known[tool] = tool in self._writes or self._seems_to_write(tool)
        return _ASKED if known else _NOT_ASKED

    def source(self, tool: str) -> tuple[str, bool]:  # noqa: ARG002 - it is the same for each
        """Any call may have brought a value."""
        return ANY_TOOL, True
