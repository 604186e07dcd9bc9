"""Whether the conditions of a call hold: by the records of what was seen before it.

Idea: each condition is true, false or unknown. It is unknown if what is not known could make it otherwise: a result that was
not captured or was cut, a call that overlaps, calls that may be missing. What was seen decides first: a value that was found
is found, whatever else is missing.

Invariant: a fact follows from the records alone, so calls may arrive in any order.

Example: `order: {from: [look_up_order]}`, and two look-ups ended before the call, one without a captured result. If the
other one returned the order, the fact is true. Else it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from monitor.alphabet.data_conditions import ANY_TOOL, DataCondition
from monitor.session.data.amounts_and_dates import wholes_of
from monitor.session.data.comparisons import LIMITS, TESTS, ComparedValue, numbers
from monitor.session.data.seen_values import (
    AskingCall,
    Operand,
    SeenValues,
    Setting,
    SourceCall,
)
from monitor.session.data.session_data import SessionData
from monitor.session.data.value_digests import has_part, words_of
from monitor.spec.data_rules import DataRules, RememberedValue
from monitor.visibility.sight import Sight, Window

__all__ = ["carried_fact", "data_facts"]

_BEFORE: Final = 0
_BESIDE: Final = 1
_BEHIND: Final = 2


def data_facts(
    rules: DataRules,
    asking: AskingCall,
    data: SessionData,
    seen: SeenValues,
    sight: Sight,
) -> dict[str, bool | None]:
    """The facts of a call, by their names; None: unknown.

    Args:
        rules: of the spec.
        asking: the call, of a tool with conditions.
        data: of its session.
        seen: what was seen under the spec of the conditions.
        sight: where calls of the session may be missing.
    """
    view = _View(asking, data, seen, sight)
    conditions = rules.asks(asking.call.tool)
    return {
        each.name: _fact(view, rules, each, operand)
        for each, operand in zip(conditions, asking.operands, strict=True)
    }


def carried_fact(
    condition: DataCondition,
    asking: AskingCall,
    data: SessionData,
    seen: SeenValues,
    sight: Sight,
) -> bool | None:
    """The one fact of a write under a learnt reference, as `data_facts` gives it."""
    return _View(asking, data, seen, sight).carried(condition, asking.operands[0])


def _fact(
    view: _View, rules: DataRules, condition: DataCondition, operand: Operand
) -> bool | None:
    if condition.form == "said":
        return view.said(condition)
    if condition.form == "carried":
        return view.carried(condition, operand)
    if condition.is_origin:
        return view.origin(condition, operand)
    return view.compared(condition, rules.remembered[condition.value], operand)


def _reaches(window: Window, asking: AskingCall) -> bool:
    """True if calls may be missing before a call, in what its verdict is to allow for."""
    is_new = asking.received_ns > window.received_ns or not window.received_ns
    return window.since_ns <= asking.begin_ns and is_new


def _place(source: SourceCall, asking: AskingCall) -> int:
    """Whether a source had ended before a call began, was under way, or began behind it."""
    if source.span_id == asking.call.span_id:
        return _BEHIND
    answer = asking.call.answer
    if answer and source.answer == answer:
        return _BESIDE  # the model asked for both without knowing either's result
    is_before, is_behind = source.end_ns <= asking.begin_ns, source.begin_ns >= asking.end_ns
    if is_before and is_behind:
        return _BESIDE  # at one instant
    if is_before:
        return _BEFORE
    return _BEHIND if is_behind else _BESIDE


@lru_cache(maxsize=1_024)
def _phrases(texts: tuple[str, ...]) -> tuple[bytes, ...]:
    """The words of some texts, as those of messages are kept."""
    return tuple(words_of(each, folded=True) for each in texts)


class _View:
    """What one call sees of what was seen."""

    def __init__(
        self,
        asking: AskingCall,
        data: SessionData,
        seen: SeenValues,
        sight: Sight,
    ) -> None:
        self._asking = asking
        self._data = data
        self._seen = seen
        windows = (*sight.sure, *sight.maybe)
        self._windows = [each for each in windows if _reaches(each, asking)]

    def _may_miss(self, tools: Iterable[str], since_ns: int = -1) -> bool:
        """True if calls of these tools may be missing between a time and the call."""
        return self._seen.dropped > since_ns + 1 or any(
            window.until_ns > since_ns
            and (not window.tool or window.tool in tools or ANY_TOOL in tools)
            for window in self._windows
        )

    # --- where a value comes from -----------------------------------------------------------------

    def origin(self, condition: DataCondition, operand: Operand) -> bool | None:
        """Whether `from` or `not_from` holds."""
        if not operand.known:
            return self._unknown_origin(condition, operand)
        if operand.absent:
            return False
        is_from = condition.form == "from"
        answers = [self._is_from(condition, each) for each in operand.values]
        if any(each is not None and each is not is_from for each in answers):
            return False
        return None if None in answers else True

    def _unknown_origin(self, condition: DataCondition, operand: Operand) -> bool | None:
        """The same, of an argument whose value is not known."""
        if condition.form == "from" or operand.absent:
            return None
        return None if self._may_have(condition) or self._has_any(condition) else True

    def _is_from(self, condition: DataCondition, value: ComparedValue) -> bool | None:
        """Whether one leaf is from the sources."""
        found = self._found_in_results(condition, value)
        if found is True:
            return True
        if condition.user:
            said = self._is_said(condition, value)
            if said is True:
                return True
            if said is None:
                found = None
        if found is None or self._may_have(condition):
            return None
        return False

    def carried(self, condition: DataCondition, operand: Operand) -> bool | None:
        """Whether a leaf that is not too short stands in an earlier result, and none in what the user said.

        None of a call without leaves.
        """
        if not operand.known or not operand.values:
            return None
        said = [self._is_said(condition, each, as_written=True) for each in operand.values]
        if True in said:
            return False
        # What the user said in another spelling is his, but excuses no other value: days are shared by many actions.
        found = [
            self._found_in_results(condition, each)
            for each in operand.values
            if not (each.is_short or (each.items and self._is_said(condition, each)))
        ]
        if True in found:
            return None if None in said else True
        # What is not known of results may have any value, but a short one tells nothing wherever it stands.
        if None in found or (found and self._may_have(condition)):
            return None
        # Results that all are empty may have been left out by whoever captures them.
        return False if self._has_content() else None

    def _has_content(self) -> bool:
        """True if an earlier result was seen that has some leaf."""
        return any(
            each.leaves and _place(each, self._asking) == _BEFORE
            for each in self._seen.sources.values()
        )

    def _found_in_results(self, condition: DataCondition, value: ComparedValue) -> bool | None:
        """Whether a result that was seen has the leaf; None if one that may count has."""
        found: bool | None = False
        for source in self._with_value(condition, value):
            if source.tool in condition.tools:
                place = _place(source, self._asking)
                if place == _BEFORE and source.sure:
                    return True
                if place != _BEHIND:
                    found = None
        return found

    def _with_value(
        self, condition: DataCondition, value: ComparedValue
    ) -> Iterable[SourceCall]:
        yield from self._seen.with_leaf(value.digest)
        for digest in wholes_of(value.items) if condition.folded else ():
            yield from self._seen.with_leaf(digest)
        if condition.parts and value.is_part:
            for source in self._seen.sources.values():
                words = source.folded_words if condition.folded else source.words
                if has_part(words, value.words):
                    yield source

    def said(self, condition: DataCondition) -> bool | None:
        """Whether the user said one of the texts before the call."""
        phrases = _phrases(condition.texts)
        begin_ns, texts = self._asking.begin_ns, self._data.texts
        for text in texts.values():
            if text.at_ns <= begin_ns and any(
                has_part(text.folded_words, each) for each in phrases
            ):
                return True
        if self._data.dropped or not texts or self._may_have(condition):
            return None
        return False

    def _is_said(
        self, condition: DataCondition, value: ComparedValue, *, as_written: bool = False
    ) -> bool | None:
        """Whether a leaf stands in a message of the user; None if no message was seen, or some were dropped."""
        begin_ns, texts = self._asking.begin_ns, self._data.texts
        for text in texts.values():
            if text.at_ns <= begin_ns:
                words = text.folded_words if condition.folded else text.words
                if has_part(words, value.words) or value.digest in text.readings:
                    return True
                if not as_written and _is_read(value, text.readings):
                    return True
        return None if self._data.dropped or not texts else False

    def _may_have(self, condition: DataCondition) -> bool:
        """True if what is not known may have any leaf."""
        if self._may_miss(condition.tools):
            return True
        return any(
            source.tool in condition.tools and _place(source, self._asking) != _BEHIND
            for source in self._seen.partial.values()
        )

    def _has_any(self, condition: DataCondition) -> bool:
        """True if the sources may have some leaf."""
        if condition.user:
            return True
        return any(
            source.leaves
            and source.tool in condition.tools
            and _place(source, self._asking) != _BEHIND
            for source in self._seen.sources.values()
        )

    # --- remembered values ------------------------------------------------------------------------

    def compared(
        self, condition: DataCondition, value: RememberedValue, operand: Operand
    ) -> bool | None:
        """Whether a comparison with a remembered value holds."""
        if not operand.known:
            return None
        if operand.absent or (condition.form in LIMITS and not numbers(operand.values)):
            return False
        things = self._asking.things
        if things is not None and things.is_open:
            return None
        keys: Sequence[bytes | None] = (None,) if things is None else things.keys
        answers = {self._compared_for(key, condition, value, operand) for key in keys}
        return answers.pop() if len(answers) == 1 else None

    def _compared_for(
        self,
        key: bytes | None,
        condition: DataCondition,
        value: RememberedValue,
        operand: Operand,
    ) -> bool | None:
        """The same for one of the call's things, by its key; None: for no thing."""
        test = TESTS[condition.form]
        possible: set[bool] = set()
        since_ns = -1
        for source in reversed(self._seen.setting.get(value.name, ())):
            place = _place(source, self._asking)
            setting = next(each for each in source.settings if each.name == value.name)
            if place == _BEHIND or not _may_be_for(setting, key):
                continue
            if not setting.known or len(possible) > 1:
                return None
            possible.add(test(operand.values, setting.values))
            if place == _BEFORE and setting.sure and _is_for(setting, key):
                since_ns = source.begin_ns
                break
        else:
            possible.add(False)  # none yet
        if self._may_miss(value.tools, since_ns):
            return None
        return possible.pop() if len(possible) == 1 else None


def _is_read(value: ComparedValue, readings: Sequence[int]) -> bool:
    """True if a text says all that a value consists of, however both are written."""
    return bool(value.items) and all(
        any(each in readings for each in item) for item in value.items
    )


def _is_for(setting: Setting, key: bytes | None) -> bool:
    """True if a call sets a value for a thing."""
    return setting.things is None or key in setting.things.keys


def _may_be_for(setting: Setting, key: bytes | None) -> bool:
    """True if it does, or may."""
    if _is_for(setting, key):
        return True
    return key is not None and setting.things is not None and setting.things.is_open
