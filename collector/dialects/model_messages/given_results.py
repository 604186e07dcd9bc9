"""Results of tools that a model was given: which requests they answer, and whether they say that a call failed.

Idea: a call without a span is told by the model's next request, which holds its result. Each model's interface has a mark
of a failed call around what the tool returned: Anthropic's `is_error`, the AI SDK's `error-text`, Bedrock's and
LangChain's status `error`. MCP's `isError` stands within the result, where frameworks hand it through. OpenAI's messages
have no mark: their calls went well, as far as is known.

Invariant: what a tool returned marks no other call. So a result is not searched for results.

Example: `{"type": "tool_result", "tool_use_id": "c1", "is_error": true, "content": [...]}` is `c1`: `GivenResult.FAILED`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from mypy_extensions import mypyc_attr

from collector.decode.span import Span
from collector.dialects.model_messages.event_messages import given_in_events
from collector.dialects.model_messages.outputs import (
    ABOUT_TOOLS,
    JSON_DEPTH,
    TOOL_ROLE,
    Outputs,
    given_texts,
)
from collector.dialects.values.arguments import parsed
from collector.dialects.values.result_parts import RESULT_KEYS, RESULT_TYPES
from collector.dialects.values.results import FAILING, of_protocol

__all__ = [
    "GivenResult",
    "SpanResults",
    "answered_within",
    "given_results",
    "may_answer",
    "may_show_failure",
]


class GivenResult(IntEnum):
    """What a result says of its call. Of two attributes with one result, the greater one counts."""

    UNMARKED = 0
    """Nothing: the call went well, as far as is known."""
    DISPUTED = 1
    """A failure, or not: several results have its id, or the tool may have written the mark itself."""
    FAILED = 2


_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:-]+")
"""An id that JSON writes as it is."""
_ESCAPED: Final = re.compile(r"\\u00[2-7]")
"""A text that has some of these letters otherwise nevertheless."""
_SOUGHT: Final = 16
"""Ids that are looked for in a text; where there are more, it is read."""
_IDS: Final = ("id", "tool_call_id", "toolCallId", "call_id", "tool_use_id", "toolUseId")
"""Keys of a result that name its request."""
_ID_KEY: Final = "tool_call_id"
_RETURNED: Final = ("output", "result", "response", "content")
"""Keys of a result under which the tool's own result stands."""
_FLAGS: Final = ("is_error", "isError")
_ERROR: Final = "error"
_UNDONE: Final = frozenset({"error-text", "error-json", "execution-denied"})
"""Types of outputs in messages of the AI SDK, of calls that failed or were not made."""
_SIGNS: Final = (FAILING, "execution-denied")
"""Texts of which each failed result has one."""


@mypyc_attr(acyclic=True)
class SpanResults:
    """The results of one model's span: its messages are parsed once, when somebody asks for them.

    Args:
        span: a model's.
        outputs: where its results are.
    """

    __slots__ = ("_found", "outputs", "span")

    def __init__(self, span: Span, outputs: Outputs) -> None:
        self.span = span
        self.outputs = outputs
        self._found: dict[str, GivenResult] | None = None

    @property
    def are_recorded(self) -> bool:
        """False if it is not on the wire what the model was given."""
        if self.outputs.roles:
            return True
        return any(each is not None for each in given_texts(self.span, self.outputs))

    def all(self) -> dict[str, GivenResult]:
        """See `given_results`."""
        if self._found is None:
            self._found = given_results(self.span, self.outputs)
        return self._found

    def of(self, ids: Sequence[str]) -> dict[str, GivenResult]:
        """The results of these requests. Most histories tell of no failure, and are not parsed."""
        if may_show_failure(self.span, self.outputs, ids):
            return self.all()
        return {
            call_id: GivenResult.UNMARKED
            for call_id in ids
            if answered_within(self.span, self.outputs, call_id)
        }

    def may_answer(self, ids: Sequence[str]) -> bool:
        """See `may_answer`."""
        return may_answer(self.span, self.outputs, ids)


def given_results(span: Span, outputs: Outputs) -> dict[str, GivenResult]:
    """The results that the model was given, or that its provider made within the span, by the ids of their requests."""
    found: dict[str, GivenResult] = {}
    for at in _places(outputs):
        value = span.attribute(at)
        if type(value) is str and not value.startswith(("[", "{")):
            told = {value: _of_text(span, outputs, at)}  # an id of its own attribute
        else:
            told = _told_in(parsed(value) if type(value) is str else value)
        _add(found, told)
    if outputs.events:
        _add(found, _told_in(parsed(given_in_events(span))))
    return found


def _add(found: dict[str, GivenResult], told: dict[str, GivenResult]) -> None:
    for call_id, result in told.items():
        found[call_id] = max(result, found.get(call_id, result))


def may_answer(span: Span, outputs: Outputs, ids: Sequence[str]) -> bool:
    """False if `given_results` finds none of these ids, as the texts have none: most of a long history is not read."""
    if len(ids) > _SOUGHT or not all(map(_PLAIN.fullmatch, ids)):
        return True
    for value in _texts(span, outputs):
        if type(value) is not str or _ESCAPED.search(value) or any(id_ in value for id_ in ids):
            return True
    return False


def may_show_failure(span: Span, outputs: Outputs, ids: Sequence[str] = ()) -> bool:
    """False if no result of these requests says that its call failed, as the texts have no such mark.

    A history is in order: what stands before its first mention of a request is older. Without ids, any mark counts.
    """
    for value in _texts(span, outputs):
        if type(value) is not str or _ESCAPED.search(value):
            return True
        begins = [at for id_ in ids if (at := value.find(id_)) >= 0]
        begin = min(begins) if begins else 0
        if any(value.find(sign, begin) >= 0 for sign in _SIGNS):
            return True
    for at in outputs.results.values():
        value = span.attribute(at)
        if type(value) is not str or any(sign in value for sign in _SIGNS):
            return True
    return False


def answered_within(span: Span, outputs: Outputs, call_id: str) -> bool:
    """True if a request seems to have its result in the model's input: its id stands there, and in its result."""
    return any(
        value == call_id or (type(value) is str and value.count(call_id) > 1)
        for value in _texts(span, outputs)
    )


def _places(outputs: Outputs) -> tuple[int, ...]:
    return outputs.inputs if outputs.listed is None else (*outputs.inputs, outputs.listed)


def _texts(span: Span, outputs: Outputs) -> list[Any]:
    found = given_texts(span, outputs)
    if outputs.listed is not None:
        found.append(span.attribute(outputs.listed))
    return found


def _of_text(span: Span, outputs: Outputs, id_at: int) -> GivenResult:
    """The result beside an id, in an attribute of its own: its text is the tool's."""
    at = outputs.results.get(id_at)
    failed = at is not None and of_protocol(span.attribute(at))
    return GivenResult.DISPUTED if failed else GivenResult.UNMARKED


def _told_in(value: Any) -> dict[str, GivenResult]:
    """The results in one value. Where two have one id, it is open which of them is meant."""
    results: list[dict[str, Any]] = []
    _collect(value, results, JSON_DEPTH)
    found: dict[str, GivenResult] = {}
    for result in results:
        says = _says(result)
        for key in _IDS:
            call_id = result.get(key)
            if isinstance(call_id, str):
                same = found.get(call_id, says) is says
                found[call_id] = says if same else GivenResult.DISPUTED
    return found


def _collect(value: Any, found: list[dict[str, Any]], depth: int) -> None:
    """Adds the objects in messages that are results."""
    if depth <= 0:
        return
    if isinstance(value, list):
        for each in value:
            _collect(each, found, depth - 1)
    elif isinstance(value, dict):
        kind = value.get("type")
        if _ID_KEY in value or (isinstance(kind, str) and kind in RESULT_TYPES):
            found.append(value)
            return
        if value.get("role") == TOOL_ROLE:
            found.append(value)
        for key, each in value.items():
            if key in RESULT_KEYS and isinstance(each, dict):
                found.append(each)
            elif key not in ABOUT_TOOLS:
                _collect(each, found, depth - 1)


def _says(result: dict[str, Any]) -> GivenResult:
    if any(result.get(key) is True for key in _FLAGS) or result.get("status") == _ERROR:
        return GivenResult.FAILED
    for key in _RETURNED:
        value = result.get(key)
        if isinstance(value, dict) and value.get("type") in _UNDONE:
            return GivenResult.FAILED
        if of_protocol(value):
            return GivenResult.DISPUTED if type(value) is str else GivenResult.FAILED
    return GivenResult.UNMARKED
