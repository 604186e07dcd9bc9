"""Reads what a client asks: one call, or the calls that a model wants to make in parallel.

Reading is strict. Whatever cannot be taken is a `BadRequest`, which says where: an unknown key, a text where a number is
expected, an id that is no id. A client whose question is read wrongly would get the answer to another question.

Arguments are read as the arguments of spans are (`dialects/values/arguments`), so that both are equal where the texts are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from collector.calls.decisions.decided_calls import OUTCOMES, Outcome, QuestionCall
from collector.dialects.names.name_bound import NAME_MAX, bounded
from collector.dialects.values.arguments import UNREADABLE, mapping
from monitor.partial import PartialArguments, all_but

__all__ = ["CALLS_MAX", "BadRequest", "QuestionRequest", "read_outcome", "read_question"]

CALLS_MAX: Final = 64
"""Calls of one question: as many as one call may have spans."""

ARGUMENTS_MAX: Final = 1_024
"""Arguments of one call, by their names. Each costs time in which nobody else is answered."""

ATTRIBUTES_MAX: Final = 64
"""Attributes of one question."""

QUESTION_ID_MAX: Final = 128
"""Characters of the client's own id of a question."""

VALUE_MAX: Final = 1_024
"""Characters of one attribute, and of a session id."""

TRACE_DIGITS: Final = 32
SPAN_DIGITS: Final = 16
NO_ARGUMENTS: Final = Raw(b"")

_HEX: Final = re.compile("[0-9a-fA-F]*")


class BadRequest(Exception):  # noqa: N818 - an answer, not an error of ours
    """A question that cannot be read.

    Args:
        error: a sentence for whoever wrote the client.
        where: the path of the fault in the body, as `calls[0].tool`; "" for the body as a whole.
    """

    def __init__(self, error: str, where: str = "") -> None:
        super().__init__(error)
        self.error = error
        self.where = where


class QuestionRequest(msgspec.Struct, frozen=True):
    """The calls of one question, in order, and whether those that are not denied go ahead.

    Without a session and a trace they are of a session of which nothing is known, and commit nothing.
    """

    calls: list[QuestionCall]
    commit: bool
    is_batch: bool
    new_session: bool
    """The client says that no call of the session was made before."""
    attributes: Mapping[str, Any]
    """Resource attributes on which specs may bind, like those of a span."""


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    tool: str
    arguments: Raw = NO_ARGUMENTS
    unread: list[str] = []
    call_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    session: str = ""
    agent: str = ""
    service: str = ""
    tool: str | UnsetType = UNSET
    arguments: Raw = NO_ARGUMENTS
    unread: list[str] = []
    call_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    attributes: dict[str, str | int | float | bool] = {}
    commit: bool = True
    new_session: bool = False
    question_id: str = ""
    calls: list[_Call] | UnsetType = UNSET


class _Outcome(msgspec.Struct, forbid_unknown_fields=True):
    decision_id: str
    outcome: str
    result: Any = UNSET


_body: Final = msgspec.json.Decoder(_Body)
_outcome: Final = msgspec.json.Decoder(_Outcome)


def read_question(body: bytes) -> QuestionRequest:
    """The question in a body.

    Raises:
        BadRequest: it cannot be read.
    """
    found = _read(_body, body)
    if len(found.session) > VALUE_MAX:
        raise BadRequest(f"expected at most {VALUE_MAX} characters", "session")
    if len(found.question_id) > QUESTION_ID_MAX:
        raise BadRequest(f"expected at most {QUESTION_ID_MAX} characters", "question_id")
    trace_id = _id(found.trace_id, TRACE_DIGITS, "trace_id")
    attributes = _attributes(found)
    is_named = bool(found.session or trace_id)
    commit, new_session = found.commit and is_named, found.new_session and is_named
    if found.calls is UNSET:
        if found.tool is UNSET:
            raise BadRequest("expected a tool, or calls", "tool")
        one = _Call(
            *(found.tool, found.arguments, found.unread, found.call_id),
            *(found.span_id, found.parent_span_id),
        )
        calls = [_asked(found, one, trace_id, 0, "")]
        return QuestionRequest(calls, commit, False, new_session, attributes)
    for name in ("tool", "call_id", "span_id"):
        if getattr(found, name) not in (UNSET, ""):
            raise BadRequest("expected it in each of the calls, not beside them", name)
    for name in ("arguments", "unread"):
        if getattr(found, name) not in (NO_ARGUMENTS, []):
            raise BadRequest("expected them in each of the calls, not beside them", name)
    if not 1 <= len(found.calls) <= CALLS_MAX:
        raise BadRequest(f"expected 1 to {CALLS_MAX} calls, found {len(found.calls)}", "calls")
    calls = [
        _asked(found, each, trace_id, place, f"calls[{place}].")
        for place, each in enumerate(found.calls)
    ]
    return QuestionRequest(calls, commit, True, new_session, attributes)


def read_outcome(body: bytes) -> tuple[str, Outcome, tuple[Any, ...]]:
    """The id of a decision, what became of its call, and what that returned: () if it is not told.

    Raises:
        BadRequest: it cannot be read.
    """
    found = _read(_outcome, body)
    if not found.decision_id:
        raise BadRequest("expected the id of a decision", "decision_id")
    for each in OUTCOMES:
        if each == found.outcome:
            return found.decision_id, each, () if found.result is UNSET else (found.result,)
    raise BadRequest(f"expected one of {', '.join(OUTCOMES)}", "outcome")


def _read(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        sentence, _, path = str(error).partition(" - at `$")
        where = path.rstrip("`").lstrip(".")
        raise BadRequest(sentence[:1].lower() + sentence[1:], where) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest(str(error)) from None
    except RecursionError:
        raise BadRequest("the body nests too deeply") from None


def _attributes(found: _Body) -> dict[str, Any]:
    """The attributes, with the service's name among them."""
    if len(found.attributes) > ATTRIBUTES_MAX:
        raise BadRequest(f"expected at most {ATTRIBUTES_MAX} attributes", "attributes")
    for name, value in found.attributes.items():
        if len(name) > VALUE_MAX or (isinstance(value, str) and len(value) > VALUE_MAX):
            raise BadRequest(
                f"expected at most {VALUE_MAX} characters", f"attributes.{name[:VALUE_MAX]}"
            )
    if len(found.service) > VALUE_MAX:
        raise BadRequest(f"expected at most {VALUE_MAX} characters", "service")
    if not found.service:
        return found.attributes
    known = found.attributes.get("service.name", found.service)
    if known != found.service:
        raise BadRequest("it differs from attributes.service.name", "service")
    return {**found.attributes, "service.name": found.service}


def _asked(found: _Body, call: _Call, trace_id: bytes, place: int, where: str) -> QuestionCall:
    if not call.tool:
        raise BadRequest("expected the name of a tool", f"{where}tool")
    for name, text in (("tool", call.tool), ("agent", found.agent)):
        if len(text) > NAME_MAX:
            path = name if name == "agent" else where + name
            raise BadRequest(f"expected at most {NAME_MAX} characters", path)
    parent = call.parent_span_id or found.parent_span_id
    span_id = _id(call.span_id, SPAN_DIGITS, f"{where}span_id")
    if span_id and not trace_id:
        raise BadRequest("a span_id needs a trace_id", f"{where}span_id")
    return QuestionCall(
        bounded(found.session),
        bounded(found.agent),
        call.tool,
        _arguments(call, where),
        bounded(call.call_id),
        trace_id,
        span_id,
        _id(parent, SPAN_DIGITS, f"{where}parent_span_id"),
        found.question_id,
        place,
    )


def _arguments(call: _Call, where: str) -> dict[str, Any] | None:
    """The arguments, of which some may be unread; None if they are not known."""
    text = bytes(call.arguments)
    if text in (b"", b"null"):
        if call.unread:
            raise BadRequest(
                "expected the arguments that are known beside them", f"{where}unread"
            )
        return None
    found = mapping(text.decode()) if text.startswith(b"{") else UNREADABLE
    if not isinstance(found, dict):
        raise BadRequest(
            "expected an object, or null where they are not known", f"{where}arguments"
        )
    count = len(found) + len(call.unread)
    if count > ARGUMENTS_MAX:
        raise BadRequest(
            f"expected at most {ARGUMENTS_MAX} arguments, found {count}", f"{where}arguments"
        )
    known = found.unread if isinstance(found, PartialArguments) else frozenset[str]()
    return all_but(found, {*known, *call.unread})


def _id(text: str, digits: int, where: str) -> bytes:
    """An id of OpenTelemetry; b"" if there is none."""
    if not text:
        return b""
    if len(text) != digits or _HEX.fullmatch(text) is None or not text.strip("0"):
        raise BadRequest(f"expected {digits} hexadecimal digits, not all zero", where)
    return bytes.fromhex(text)
