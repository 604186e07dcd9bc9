"""Calls without spans: a builder of `ToolCall`, and one run judged from start to end.

An evaluation or an agent's own loop has calls as plain objects. They become `ToolCall`s here, in
their order, as if one began when the one before had ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from monitor.argument_texts import ReadArguments, read
from monitor.engine import Monitor
from monitor.errors import CallError
from monitor.limits import Limits
from monitor.records import (
    ALSO_ATTRIBUTE,
    CALL_KINDS,
    Evidence,
    Kind,
    SessionKey,
    ToolCall,
    Verdict,
)
from monitor.session.begun_judgement import begun
from monitor.session.report.judgement_object import judgement_object
from monitor.session.session import Session
from monitor.session.tool_names import Names
from monitor.spec.spec import Spec

__all__ = ["JudgedCalls", "judge_calls", "tool_call"]

_SESSION: Final = "calls"
_SOURCE: Final = "plain"
_LIMITS: Final = Limits(
    history_complete=True, keep_arguments=True, fold=False, sessions_bytes_max=1 << 60
)
"""Limits for one run, which is judged as a whole."""
_KEYS: Final = ("name", "arguments", "error", "result")
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class JudgedCalls(NamedTuple):
    """One run under one spec."""

    verdicts: tuple[Verdict | None, ...]
    """One for each call; None if a policy does not name the call."""
    judgement: Mapping[str, Any]
    """The judgement object, as the API shows it: scores, state, steps."""
    unread: Mapping[int, str] = MappingProxyType({})
    """Reasons why arguments are unknown although something is written, by the place of the call,
    from 1."""

    @property
    def harmful(self) -> tuple[Verdict, ...]:
        """The verdicts on harmful calls."""
        return tuple(each for each in self.verdicts if each and each.kind is Kind.HARMFUL)


def tool_call(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    session: SessionKey | str,
    start_ns: int,
    end_ns: int | None = None,
    error: bool = False,
    agent: str = "",
    attributes: Mapping[str, Any] = _NONE,
    call_id: str = "",
    trace_id: bytes = b"",
    span_id: bytes = b"",
    evidence: Evidence = Evidence.EXECUTED,
    result: tuple[Any, ...] = (),
) -> ToolCall:
    """A tool call for `Monitor.observe`, from what an agent's own loop knows of it.

    Args:
        name: of the tool.
        arguments: None if they are not known, which is not the same as none: `{}`.
        session: the conversation; a text is a session without a namespace.
        start_ns: when it began, Unix nanoseconds; calls are judged in this order.
        end_ns: when it ended; at its start where it is not given.
        error: whether it failed.
        agent: who made it.
        attributes: what specs `match` on, as `{"service.name": "shop-agent"}`.
        call_id: the model's id of the call.
        trace_id: 16 bytes; made of the session where it is not given.
        span_id: 8 bytes, the identity of the call; made of session, tool, id and start where it
            is not given.
        evidence: how the call is known.
        result: what it returned, a JSON value, as the only item; () if that is not known.
    """
    key = SessionKey("", session) if isinstance(session, str) else session
    return ToolCall(
        session=key,
        agent=agent,
        tool=name,
        arguments=arguments,
        error=error,
        start_ns=start_ns,
        end_ns=start_ns if end_ns is None else end_ns,
        trace_id=trace_id or _id(16, *key),
        span_id=span_id or _id(8, *key, name, call_id, str(start_ns)),
        parent_span_id=b"",
        call_id=call_id,
        evidence=evidence,
        attributes=attributes,
        source=_SOURCE,
        session_from=_SOURCE,
        result=result,
    )


def judge_calls(spec: Spec, calls: Iterable[Mapping[str, Any]]) -> JudgedCalls:
    """Judges one whole run of plain calls under one spec, whatever the spec matches on.

    Args:
        spec: as `load_spec` gives it.
        calls: the calls in their order: `{"name": ..., "arguments": ..., "error": ...}`. An entry `{"user": TEXT}` among
            them is a message of the user; a rule over data may ask for what was said. It has no verdict.
            `arguments` is a mapping, or a text as models write it: what `argument_texts` cannot read
            for certain is unknown. Without it they are unknown, too. A call whose `error` is true
            has failed. `result` is what it returned, any JSON value; without it that is unknown.

    Raises:
        CallError: a call is not of this form; the message says which and why.
    """
    monitor = Monitor([spec], _LIMITS)
    attributes = {ALSO_ATTRIBUTE: spec.id}
    unread: dict[int, str] = {}
    listed = list(calls)
    made = list(_tool_calls(_heard(monitor, listed), attributes, unread))
    verdicts = tuple(_verdict(monitor, call, len(made)) for call in made)
    monitor.close(len(made))
    found = monitor.find(_SESSION)
    judgement = found[0] if found else _no_calls(monitor, attributes)
    return JudgedCalls(verdicts, judgement, unread)


def _heard(
    monitor: Monitor, entries: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """The calls among the entries of a run. The monitor hears what the user said between them."""
    key, number = SessionKey("", _SESSION), 0
    for each in entries:
        if isinstance(each, Mapping) and each.keys() == {"user"}:
            if not isinstance(each["user"], str):
                raise CallError(f"behind call {number}: expected a text under 'user'")
            # A message stands before the next call, whose number is its time.
            monitor.corrections.hear(key, (each["user"],), number + 1, number)
        else:
            number += 1
            yield each


def _tool_calls(
    calls: Iterable[Mapping[str, Any]], attributes: Mapping[str, Any], unread: dict[int, str]
) -> Iterator[ToolCall]:
    """The calls of a run; `unread` takes why arguments are unknown."""
    for number, call in enumerate(calls, start=1):
        name = _name(call, number)
        arguments, why = _arguments(call.get("arguments"), number)
        if why:
            unread[number] = why
        yield tool_call(
            name,
            arguments,
            session=_SESSION,
            start_ns=number,
            error=bool(call.get("error")),
            attributes=attributes,
            result=(call["result"],) if "result" in call else (),
        )


def _name(call: Any, number: int) -> str:
    """The tool of a call; an unknown key would be arguments that nobody looks at."""
    if not isinstance(call, Mapping):
        raise CallError(f"call {number}: expected a mapping, not {type(call).__name__}")
    for key in call:
        if key not in _KEYS:
            raise CallError(f"call {number}: {key!r} is none of {', '.join(_KEYS)}")
    name = call.get("name")
    if not isinstance(name, str) or not name:
        raise CallError(f"call {number}: expected the tool's name under 'name'")
    return name


def _arguments(given: Any, number: int) -> ReadArguments:
    """A text is a model's, and may be anything; any other type is a mistake of the caller's."""
    if given is None or isinstance(given, str | Mapping):
        return read(given)
    raise CallError(f"call {number}: expected arguments by name, not {type(given).__name__}")


def _verdict(monitor: Monitor, call: ToolCall, now: int) -> Verdict | None:
    """The verdict on a call, if the spec judges it."""
    for verdict in monitor.observe(call, now):
        if verdict.span_id == call.span_id and verdict.kind in CALL_KINDS:
            return verdict
    return None


def _no_calls(monitor: Monitor, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The judgement of a run that made no call: a monitor never sees such a session."""
    nothing = tool_call("", session=_SESSION, start_ns=0, attributes=attributes)
    session = Session(nothing.session, nothing, 0)
    session.ended = "input_end"
    [judge] = monitor.binder.bind(attributes, "")
    judgement = begun(judge, "")
    return judgement_object(session, judgement, Names(), arguments=True)


def _id(size: int, *texts: str) -> bytes:
    """An id that is the same each time."""
    text = "\0".join(texts).encode(errors="replace")
    return hashlib.blake2b(text, digest_size=size).digest()
