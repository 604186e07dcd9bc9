"""Reads an agent's final answer from spans, for the agreement of outputs (papers/002).

Model spans have the answer if content capture is on. Otherwise the root span of a trace may have it.
Of live sessions, only the few that are compared with each other are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from collector.decode.span import Span
from collector.dialects.values.arguments import parsed

__all__ = ["AnswerText", "answer_of", "answers"]

_TEXTS: Final = (
    "llm.output_messages.0.message.content",
    "gen_ai.completion.0.content",
    "ai.response.text",
)
_MESSAGES: Final = "gen_ai.output.messages"
_OUTPUT: Final = "output.value"
_OF_ROOT: Final = ("final_result", _OUTPUT)
_KIND: Final = "openinference.span.kind"
_READ: Final = frozenset({*_TEXTS, _MESSAGES, *_OF_ROOT, _KIND})
"""No other key is decoded: inputs are large."""

SHAPES_MAX: Final = 256
"""Shapes whose keys are remembered; beyond that they are learnt anew."""
_PLACES: Final[dict[int, tuple[tuple[str, ...], tuple[tuple[str, int], ...]]]] = {}
"""Places by the identity of a shape. The shape is kept beside them, so no other can have its
identity."""


class AnswerText(NamedTuple):
    """The answer in one span. Of several the greatest counts: a model's first, then the latest."""

    by_model: bool
    end_ns: int
    start_ns: int
    text: str


def answers(spans: Iterable[Span]) -> dict[bytes, str]:
    """The last answer of each trace that has one, by trace id."""
    found: dict[bytes, AnswerText] = {}
    for span in spans:
        answer = answer_of(span)
        known = found.get(span.trace_id)
        if answer is not None and (known is None or answer > known):
            found[span.trace_id] = answer
    return {trace: answer.text for trace, answer in found.items()}


def answer_of(span: Span) -> AnswerText | None:
    """The answer in one span; None if it has none."""
    attributes = {key: span.attribute(at) for key, at in _places(span)}
    text, by_model = _of_model(attributes), True
    if not text and not span.parent_span_id:
        text, by_model = _of_root(attributes), False
    return AnswerText(by_model, span.end_ns, span.start_ns, text) if text else None


def _places(span: Span) -> tuple[tuple[str, int], ...]:
    """Where the keys that are read are in spans of its shape."""
    shape = span.shape
    known = _PLACES.get(id(shape))
    if known is not None and known[0] is shape:
        return known[1]
    keys = enumerate(span.codec.keys(shape))
    found = tuple((key, at) for at, key in keys if key in _READ)
    if len(_PLACES) >= SHAPES_MAX:
        _PLACES.clear()
    _PLACES[id(shape)] = shape, found
    return found


def _of_model(attributes: Mapping[str, Any]) -> str:
    """The text of a model's output; "" if the model asked for tools or gave no text."""
    for key in _TEXTS:
        if isinstance(text := attributes.get(key), str) and text.strip():
            return text.strip()
    if _MESSAGES in attributes:
        return "\n".join(_parts(parsed(attributes[_MESSAGES]), "parts", "text", "content"))
    if attributes.get(_KIND) == "LLM":
        response = parsed(attributes.get(_OUTPUT))
        items = response.get("output") if isinstance(response, dict) else None
        return "\n".join(_parts(items, "content", "output_text", "text"))
    return ""


def _parts(messages: Any, within: str, type_: str, key: str) -> Iterator[str]:
    """Texts of the parts of one type."""
    for message in messages if isinstance(messages, list) else ():
        parts = message.get(within) if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == type_:
                text = part.get(key)
                if isinstance(text, str) and text.strip():
                    yield text.strip()


def _of_root(attributes: Mapping[str, Any]) -> str:
    """The output text of a root span. A JSON document is a state of the framework, not an answer."""
    for key in _OF_ROOT:
        text = attributes.get(key)
        if isinstance(text, str) and text.strip() and text.lstrip()[0] not in "{[":
            return text.strip()
    return ""
