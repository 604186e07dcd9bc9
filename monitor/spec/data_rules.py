"""What a spec compares with what was seen before: its conditions, and what they need of earlier calls.

Example: `order: {from: [look_up_order]}` of the tool `refund` is a condition on calls of `refund`, and needs the leaves of
the results of `look_up_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from monitor.alphabet.data_conditions import DataCondition
from monitor.alphabet.near_names import NearNames, ToolsAlike
from monitor.alphabet.spelling import folded
from monitor.value_paths import ValuePath, path_of

__all__ = ["DataRules", "RememberedValue", "SourceNeeds", "data_rules"]

_WHOLE: Final = path_of("$")


class RememberedValue(NamedTuple):
    """A value that is taken from calls, to be compared with later."""

    name: str
    tools: tuple[str, ...]
    path: ValuePath
    of_result: bool
    """True if it is at a path of results; else of arguments."""
    folded: bool
    """True if it is compared as a text."""


class SourceNeeds(NamedTuple):
    """What is kept of the calls of one tool."""

    leaves: bool
    """True if leaves of results are compared as values."""
    texts: bool
    """True if they are compared as texts."""
    parts: bool
    """True if parts of them are."""
    folded_parts: bool
    """True if parts of them are, case folded."""
    remembered: tuple[RememberedValue, ...]

    @property
    def paths(self) -> tuple[ValuePath, ...]:
        """The paths of results that are needed."""
        if self.leaves or self.texts or self.parts or self.folded_parts:
            return (_WHOLE,)
        return tuple(each.path for each in self.remembered if each.of_result)


class DataRules:
    """The rules of one spec over data.

    Args:
        conditions: by tool.
        remembered: values by name.
    """

    def __init__(
        self,
        conditions: Mapping[str, tuple[DataCondition, ...]],
        remembered: Mapping[str, RememberedValue],
    ) -> None:
        self.conditions = conditions
        self.remembered = remembered
        every = [each for found in conditions.values() for each in found]
        self.sources = _sources(every, remembered.values())
        """What is kept of the calls of each tool."""
        self.hears = any(each.user for each in every)
        """True if it is asked what the user said."""
        self.signature = repr(
            (
                sorted(
                    (tool, each.name) for tool, found in conditions.items() for each in found
                ),
                sorted(
                    (each.name, each.tools, each.path.text, each.of_result, each.folded)
                    for each in remembered.values()
                ),
            )
        )
        """Equal for equal rules: what was kept for the one serves the other."""
        self._near = NearNames(
            {folded(tool): ToolsAlike((tool,), 0) for tool in self.sources if folded(tool)}
        )

    def asks(self, tool: str) -> tuple[DataCondition, ...]:
        """The conditions on calls of a tool."""
        return self.conditions.get(tool, ())

    def source(self, tool: str) -> tuple[str, bool]:
        """The tool of `sources` that a call of this name is of, and whether it is for certain; "" if it is of none."""
        if tool in self.sources:
            return tool, True
        near = self._near.tools_of(tool)
        return (near.tools[0] if near is not None else ""), False


_Rule = TypeVar("_Rule", DataCondition, RememberedValue)


def _sources(
    conditions: Iterable[DataCondition], remembered: Iterable[RememberedValue]
) -> dict[str, SourceNeeds]:
    asked, values = _by_tool(conditions), _by_tool(remembered)
    return {
        tool: SourceNeeds(
            leaves=any(not each.folded for each in asked.get(tool, ())),
            texts=any(each.folded for each in asked.get(tool, ())),
            parts=any(each.parts and not each.folded for each in asked.get(tool, ())),
            folded_parts=any(each.parts and each.folded for each in asked.get(tool, ())),
            remembered=tuple(values.get(tool, ())),
        )
        for tool in (*asked, *(tool for tool in values if tool not in asked))
    }


def _by_tool(rules: Iterable[_Rule]) -> dict[str, list[_Rule]]:
    found: dict[str, list[_Rule]] = {}
    for each in rules:
        for tool in each.tools:
            found.setdefault(tool, []).append(each)
    return found


def data_rules(
    patterns: Iterable[tuple[str, Iterable[DataCondition]]],
    remembered: Mapping[str, RememberedValue],
) -> DataRules | None:
    """The rules of symbols, each with its tool and its conditions; None if there are none."""
    found: dict[str, dict[str, DataCondition]] = {}
    for tool, conditions in patterns:
        for each in conditions:
            found.setdefault(tool, {})[each.name] = each
    if not found:
        return None
    used = {each.value for conditions in found.values() for each in conditions.values()}
    kept = {name: value for name, value in remembered.items() if name in used}
    return DataRules({tool: tuple(each.values()) for tool, each in found.items()}, kept)
