"""What a call says to rules over data, as records that are kept without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from monitor.alphabet.alphabet import OwnFacts
from monitor.alphabet.call_facts import read_json
from monitor.alphabet.data_conditions import DataCondition
from monitor.alphabet.things import CallThings, EachRule
from monitor.partial import PartialArguments
from monitor.records import Evidence, ToolCall
from monitor.session.data.amounts_and_dates import READ_LENGTH_MAX, items_of, wholes_of
from monitor.session.data.comparisons import ComparedValue, compared
from monitor.session.data.seen_values import (
    LEAVES_MAX,
    NEVER_NS,
    AskingCall,
    Operand,
    Setting,
    SourceCall,
)
from monitor.session.data.value_digests import (
    CARRIED_LENGTH_MIN,
    DIGEST_BYTES,
    PART_LENGTH_MIN,
    as_text,
    digest_of,
    is_cut,
    leaves_of,
    text_digest,
    text_digest_bytes,
    words_of,
)
from monitor.spec.data_rules import RememberedValue, SourceNeeds
from monitor.value_paths import pruned
from monitor.visibility.cause import Effect, effect_of

__all__ = ["Times", "asking_call", "source_call"]

VALUES_MAX: Final = 256
"""Values of one argument that are compared; of an argument with more, nothing is known."""

WORDS_BYTES_MAX: Final = 65_536 * DIGEST_BYTES
"""Bytes of the words of one result."""

_NO_OPERAND: Final = Operand(known=True, absent=False, values=())
"""What a call gives to a condition that asks for no argument."""

_KNOWN_LENGTH_MAX: Final = 32
"""Characters of the longest value that is remembered as it is compared."""

_NO_ATTRIBUTES: Final[Mapping[str, Any]] = {}

Times = tuple[int, int, int]
"""Place in the order, begin, and receipt, in Unix nanoseconds. The end is the call's own."""


def _end_ns(call: ToolCall, begin_ns: int) -> int:
    """When a call ended by its times; `NEVER_NS` while it has not."""
    if call.evidence is Evidence.PENDING or call.evidence is Evidence.DECIDED:
        return NEVER_NS
    return max(begin_ns, call.end_ns)


def _effect(call: ToolCall) -> Effect:
    return effect_of(call.doubts) if call.doubts else Effect.NONE


# --- sources ----------------------------------------------------------------------------------------


def source_call(
    call: ToolCall,
    tool: str,
    needs: SourceNeeds,
    times: Times,
    things: CallThings | None = None,
    *,
    sure: bool,
) -> SourceCall | None:
    """The record of a call that values are taken from; None if it says nothing.

    Args:
        call: the call.
        tool: under the name by which rules know it.
        needs: what is kept.
        times: of the call.
        things: that it is about; None: every thing, or there are none.
        sure: False if the tool may be another one.
    """
    at, begin_ns, received_ns = times
    sure = sure and _effect(call) <= Effect.OUTCOME
    result = tuple(map(read_json, call.result)) if needs.paths else ()
    leaves, words, whole = b"", (b"", b""), True
    if needs.leaves or needs.texts or needs.parts or needs.folded_parts:
        leaves, words, whole = _leaves(result[0], needs) if result else (b"", words, False)
    found = _settings(call, result, needs.remembered, sure=sure)
    settings = tuple([each._replace(things=things) for each in found])
    if whole and not (leaves or settings):
        return None
    return SourceCall(
        tool,
        call.span_id,
        (at, begin_ns, _end_ns(call, begin_ns), received_ns),
        call.answer,
        leaves=leaves,
        words=words[0],
        folded_words=words[1],
        whole=whole,
        sure=sure,
        settings=settings,
    )


def _leaves(result: Any, needs: SourceNeeds) -> tuple[bytes, tuple[bytes, bytes], bool]:
    """The digests of a result's leaves, its words, and whether these are all."""
    digests: dict[bytes, None] = {}
    words, folded = bytearray(), bytearray()
    whole = not is_cut(result)
    for leaf in leaves_of(result):
        if len(digests) >= LEAVES_MAX or max(len(words), len(folded)) > WORDS_BYTES_MAX:
            whole = False
            break
        if needs.leaves:
            digests[digest_of(leaf).to_bytes(DIGEST_BYTES, "big")] = None
        if needs.texts:
            digests[text_digest_bytes(leaf)] = None
            if isinstance(leaf, str) and len(leaf) <= READ_LENGTH_MAX:
                for found in wholes_of(items_of(leaf.strip().casefold(), was_said=True)):
                    digests[found.to_bytes(DIGEST_BYTES, "big")] = None
        if isinstance(leaf, str):
            # What parts two leaves is no digest of a word: no part reaches across.
            words += words_of(leaf) + bytes(DIGEST_BYTES) if needs.parts else b""
            folded += (
                words_of(leaf, folded=True) + bytes(DIGEST_BYTES) if needs.folded_parts else b""
            )
    return b"".join(digests), (bytes(words), bytes(folded)), whole


def _settings(
    call: ToolCall,
    result: tuple[Any, ...],
    remembered: Iterable[RememberedValue],
    *,
    sure: bool,
) -> Iterable[Setting]:
    """What a call sets remembered values to. A failed call sets nothing, nor does one without a value at the path."""
    ended = _end_ns(call, 0) != NEVER_NS
    outcome_known = ended and _effect(call) is not Effect.OUTCOME
    if call.error and outcome_known:
        return
    sure = sure and outcome_known
    for each in remembered:
        found = _found(call, result, each)
        if found is None or len(found) > VALUES_MAX:
            yield Setting(each.name, known=False, values=(), sure=sure)
        elif found:
            values = tuple(compared(value, folded=each.folded) for value in found)
            yield Setting(each.name, known=True, values=values, sure=sure)


def _found(
    call: ToolCall, result: tuple[Any, ...], value: RememberedValue
) -> tuple[Any, ...] | None:
    """What a call has at the path of a remembered value; None if that is not known."""
    if value.of_result:
        return value.path.find(result[0]) if result else None
    return value.path.of_call(call.arguments)


# --- calls that ask -----------------------------------------------------------------------------------


def asking_call(
    call: ToolCall,
    conditions: Iterable[DataCondition],
    remembered: Mapping[str, RememberedValue],
    own: OwnFacts,
    times: Times,
    each: EachRule | None = None,
) -> AskingCall:
    """The record of a call that is compared.

    Args:
        call: the call.
        conditions: of its tool.
        remembered: values by name.
        own: what it says by itself.
        times: of the call.
        each: of the spec, if it has an automaton for each thing.
    """
    at, begin_ns, received_ns = times
    operands = tuple(_operand(call, one, remembered) for one in conditions)
    kept = _naming(call, each) if each is not None else None
    bare = call._replace(arguments=kept, result=(), attributes=_NO_ATTRIBUTES)
    things = each.of_call(call.tool, call.arguments) if each is not None else None
    ended_ns = _end_ns(call, begin_ns)
    return AskingCall(bare, (at, begin_ns, ended_ns, received_ns), own, operands, things)


def _naming(call: ToolCall, each: EachRule) -> dict[str, Any] | None:
    """The arguments that say which things a call is about; None if that is not known, or needs none."""
    arguments, paths = call.arguments, each.tools.get(call.tool)
    if arguments is None or paths is None:
        return None
    if isinstance(arguments, PartialArguments) and arguments.unread:
        return None
    kept = pruned(arguments, [one.path for one in paths])
    return kept if isinstance(kept, dict) else None


def _operand(
    call: ToolCall, condition: DataCondition, remembered: Mapping[str, RememberedValue]
) -> Operand:
    if condition.form == "said":
        return _NO_OPERAND
    found = condition.path.of_call(call.arguments)
    if found is None:
        return Operand(known=False, absent=call.arguments is None, values=())
    if not found:
        return Operand(known=True, absent=True, values=())
    if condition.is_origin:
        values = _origins(found, condition)
    else:
        folded = remembered[condition.value].folded
        values = [compared(value, folded=folded) for value in found[: VALUES_MAX + 1]]
    if len(values) > VALUES_MAX:
        return Operand(known=False, absent=False, values=())
    return Operand(known=True, absent=False, values=tuple(values))


def _origins(found: tuple[Any, ...], condition: DataCondition) -> list[ComparedValue]:
    """The leaves of some values; one more than are compared, if they are too many."""
    leaves: dict[int, ComparedValue] = {}
    how = condition.user, condition.parts, condition.folded
    for leaf in leaves_of(found):
        is_long = isinstance(leaf, str) and len(leaf) > _KNOWN_LENGTH_MAX
        is_large = isinstance(leaf, int) and abs(leaf) >> 64
        value = (_leaf if is_long or is_large else _known_leaf)(leaf, *how)
        leaves.setdefault(value.digest, value)
        if len(leaves) > VALUES_MAX:
            break
    return list(leaves.values())


def _leaf(leaf: str | float, user: bool, parts: bool, folded: bool) -> ComparedValue:
    """A leaf as a condition compares it: with what the user said, with parts of texts, or as a text."""
    text = leaf if isinstance(leaf, str) else as_text(leaf)
    bare = text.strip()
    is_part = parts and (isinstance(leaf, str) or folded) and len(bare) >= PART_LENGTH_MIN
    return ComparedValue(
        text_digest(leaf) if folded else digest_of(leaf),
        None,
        words_of(text, folded=folded) if user or is_part else b"",
        is_part,
        is_short=(user or is_part) and len(bare) < CARRIED_LENGTH_MIN,
        items=items_of(bare.casefold()) if user or folded else (),
    )


_known_leaf = lru_cache(maxsize=4_096)(_leaf)
"""The same for short leaves: the next call has mostly the same ids and names."""
