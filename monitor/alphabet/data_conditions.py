"""Conditions that compare an argument with what was seen before: where its value comes from, or what was remembered.

Idea: whether such a condition holds depends on the calls before the call, so it is no pattern of a value. It is one more
fact of the call (`call_facts`), true, false or unknown, that the session's earlier calls decide on
(`monitor.session.data.seen_values`). The pattern of the fact is that it is true.

Invariant: a condition has one name, whatever symbol has it: symbols that ask for the same share a fact.

`said` asks for no argument at all: whether the user said one of some texts before the call.

Example: `order: {from: [look_up_order]}` asks for the fact `order: from look_up_order`, which is true if every leaf of
`order` was a leaf of a result of `look_up_order`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from monitor.alphabet.pattern import Pattern, PatternError, parse
from monitor.value_paths import PathError, ValuePath, path_of

__all__ = [
    "ANY_TOOL",
    "USER",
    "DataCondition",
    "DataForm",
    "condition_pattern",
    "parse_conditional",
    "said_condition",
]

USER: Final = "user"
"""Stands for the user's messages among the tools of `from`."""

ANY_TOOL: Final = "*"
"""Stands for every tool among those of a condition."""

SOURCES_MAX: Final = 64
"""Tools that one condition names."""

SHOWN_MAX: Final = 3
"""Texts of one condition that a sentence names."""

DataForm = Literal[
    "from", "not_from", "carried", "max", "min", "one_of", "not_in", "same_as", "said"
]
"""`carried` is of learnt references alone: a value stands in an earlier result, and none in what the user said."""

_RANKS: Final[dict[str, str]] = {
    "from": "one_of",
    "not_from": "not_in",
    "carried": "one_of",
    "max": "range",
    "min": "range",
    "one_of": "one_of",
    "not_in": "not_in",
    "same_as": "exact",
    "said": "one_of",
}
"""What a condition counts as in specificity: the pattern that it would be with the values in its place."""

_OF_ORIGIN: Final = frozenset({"from", "not_from", "parts", "as"})
_MARK: Final = "\0data "


@dataclass(frozen=True, slots=True)
class DataCondition:
    """What is asked of an argument. It holds if it does for every value at the path, and there is one."""

    argument: str
    """The name as it is written: a path, or the whole name of an argument."""
    path: ValuePath = field(repr=False, compare=False)
    form: DataForm
    tools: tuple[str, ...] = ()
    """Whose results the value comes from, or not; without `USER`."""
    user: bool = False
    """True if it may also stand in a user's message, or may not."""
    parts: bool = False
    """True if parts of the results' texts count, too."""
    folded: bool = False
    """True if values are compared as texts."""
    value: str = ""
    """Name of the remembered value; "" for conditions on the origin."""
    texts: tuple[str, ...] = ()
    """Texts of which the user said one, for `said`."""

    @property
    def name(self) -> str:
        """The name of the fact: no argument has it."""
        how = f"{self.user} {self.parts} {self.folded}"
        named = " ".join((*self.tools, *self.texts))
        return f"{_MARK}{self.argument}\0{self.form} {how} {self.value} {named}"

    @property
    def counts_as(self) -> str:
        """The kind of pattern that it counts as in specificity."""
        return _RANKS[self.form]

    @property
    def is_origin(self) -> bool:
        """True if it asks where the value comes from."""
        return not self.value

    def __str__(self) -> str:
        """What it asks for, behind the argument's name."""
        name = f"`{self.value}`"
        return {
            "from": f"from {self._sources}",
            "not_from": f"from elsewhere than {self._sources}",
            "carried": "carried from a result",
            "max": f"at most {name}",
            "min": f"at least {name}",
            "one_of": f"one of {name}",
            "not_in": f"none of {name}",
            "same_as": f"the same as {name}",
            "said": f"said {self._texts}",
        }[self.form]

    @property
    def refusal(self) -> str:
        """How a call fails it, behind the argument's name."""
        if self.form == "said":
            return f"did not say {self._texts}"
        return f"is from {self._sources}" if self.form == "not_from" else f"is not {self}"

    @property
    def _texts(self) -> str:
        listed = " or ".join(f'"{each}"' for each in self.texts[:SHOWN_MAX])
        more = len(self.texts) - SHOWN_MAX
        return f"{listed} or {more} more" if more > 0 else listed

    @property
    def _sources(self) -> str:
        found = [f"a result of `{tool}`" for tool in self.tools]
        return " or ".join([*found, "what the user said"] if self.user else found)


def condition_pattern(condition: DataCondition) -> Pattern:
    """The pattern of a condition's fact: it takes True."""
    return Pattern("data", condition, lambda value: value is True)


def said_condition(texts: Sequence[str]) -> DataCondition:
    """The condition that the user said one of some texts before the call."""
    named = tuple(dict.fromkeys(texts))
    return DataCondition(USER, path_of("$"), "said", user=True, folded=True, texts=named)


def parse_conditional(argument: str, raw: Any) -> list[tuple[str, Pattern]] | None:
    """The patterns of an argument that is compared with what was seen before; None if it is not.

    Returns:
        Names of facts or of the argument, each with its pattern. `{min: 0, max: {value: price}}` gives both kinds.

    Raises:
        PatternError: the condition cannot be used.
    """
    if not _compares_data(raw):
        return None
    is_origin = "from" in raw or "not_from" in raw
    found = _origins(argument, raw) if is_origin else _comparisons(argument, raw)
    static = {
        key: bound
        for key, bound in raw.items()
        if key in ("min", "max") and not _is_value(bound)
    }
    plain = [(argument, parse(static))] if static else []
    return plain + [(each.name, condition_pattern(each)) for each in found]


def _compares_data(raw: Any) -> bool:
    """True if what a document says of an argument compares it with what was seen before."""
    return isinstance(raw, dict) and (
        not raw.keys().isdisjoint(("from", "not_from", "same_as"))
        or any(_is_value(each) for each in raw.values())
    )


def _is_value(raw: Any) -> bool:
    return isinstance(raw, dict) and "value" in raw


def _path(argument: str) -> ValuePath:
    try:
        return path_of(argument)
    except PathError:  # the whole name of an argument all the same
        return ValuePath(argument, (argument,))


def _origins(argument: str, raw: dict[str, Any]) -> list[DataCondition]:
    unknown = sorted(raw.keys() - _OF_ORIGIN)
    if unknown:
        keys = "from, not_from, parts and as: text"
        raise PatternError("invalid_pattern", f"{unknown[0]!r} is none of {keys}")
    parts, folded = _flag(raw, "parts"), _folded(raw)
    found: list[DataCondition] = []
    for form in ("from", "not_from"):
        if form in raw:
            tools = _tools(form, raw[form])
            named = tuple(tool for tool in tools if tool != USER)
            found.append(
                DataCondition(
                    argument,
                    _path(argument),
                    form,
                    tools=named,
                    user=USER in tools,
                    parts=parts,
                    folded=folded,
                )
            )
    return found


def _tools(form: str, raw: Any) -> list[str]:
    tools = [raw] if isinstance(raw, str) else raw
    if not isinstance(tools, list) or not all(isinstance(each, str) and each for each in tools):
        raise PatternError("invalid_pattern", f"{form} takes names of tools, or `{USER}`")
    if not tools:
        raise PatternError("invalid_pattern", f"{form}: [] names no tool")
    if len(tools) > SOURCES_MAX:
        raise PatternError("invalid_pattern", f"{form} takes at most {SOURCES_MAX} tools")
    return list(dict.fromkeys(tools))


def _flag(raw: dict[str, Any], key: str) -> bool:
    value = raw.get(key, False)
    if not isinstance(value, bool):
        raise PatternError("invalid_pattern", f"{key} is true or false")
    return value


def _folded(raw: dict[str, Any]) -> bool:
    if raw.get("as", "text") != "text":
        raise PatternError("invalid_pattern", "`as` takes `text` alone")
    return "as" in raw


def _comparisons(argument: str, raw: dict[str, Any]) -> list[DataCondition]:
    is_range = raw.keys() <= {"min", "max"}
    if not is_range and len(raw) != 1:
        raise PatternError("invalid_pattern", "write one comparison, or min and max")
    return [
        DataCondition(argument, _path(argument), _form(form), value=_named(form, operand))
        for form, operand in raw.items()
        if form == "same_as" or _is_value(operand)
    ]


def _form(form: str) -> DataForm:
    for known in ("max", "min", "one_of", "not_in", "same_as"):
        if form == known:
            return known
    raise PatternError("invalid_pattern", f"{form} takes no remembered value")


def _named(form: str, operand: Any) -> str:
    """The name of the value that is compared with."""
    name = operand
    if isinstance(operand, dict):
        name = operand["value"] if operand.keys() == {"value"} else None
    if not isinstance(name, str) or not name:
        wanted = "same_as: NAME" if form == "same_as" else f"{form}: {{value: NAME}}"
        raise PatternError("invalid_pattern", f"write {wanted}, with a name of `remember`")
    return name
