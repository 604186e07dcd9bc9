"""The plain form of a run: what an evaluation wrote down, without spans.

    {prompt_id | spec, run, agent | model | pipeline, calls: [{step, name, arguments, status, result}]}

One JSON document (a run or a list of them) or a run a line. `run` is the session, and the spec
that is named judges it, be it a task or a policy. A call failed when its status is anything but ok, or it has an error,
or its result is an MCP server's answer with `isError: true`.
Arguments are a mapping, or a text as models write it (`monitor.argument_texts`): one that cannot be read is unknown, and
refuses no file. `result` is what the tool returned, any JSON value; without it that is unknown. `cut` beside it, if true,
says that it is not all of it. An entry `{user: TEXT}` among the calls is a message of the user, and `prompt` beside the
calls is the first one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from collector.dialects.values.results import of_protocol
from collector.dialects.values.returned import returned
from monitor.argument_texts import read
from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.partial import CutObject
from monitor.records import SPEC_ATTRIBUTE, AgentName, Evidence, SessionKey, ToolCall
from monitor.session.begun_judgement import begun
from monitor.session.judge.judge import Judge
from monitor.session.report.judgement_object import judgement_object
from monitor.session.session import Session
from monitor.session.tool_names import Names
from monitor.spec.spec import Spec

__all__ = ["AgentRun", "BadRun", "RunCall", "has_runs", "is_plain", "judge_run", "read_runs"]

_FINE = frozenset({"ok", "success"})
_SOURCE = "plain"
_RESULTS = ("result", "output", "observation")
"""Keys of a call under which runs keep what its tool returned."""


class BadRun(Exception):  # noqa: N818 - it names the input
    """A text is no run; the message says which and why."""


@dataclass(frozen=True, slots=True)
class RunCall:
    """One call of a run."""

    tool: str
    arguments: Mapping[str, Any] | None
    """None if the run does not have them."""
    failed: bool
    at_ns: int
    """When it was made, Unix nanoseconds; 0 if it is not recorded."""
    unread: str = ""
    """Why arguments that are written are unknown, or some of them; "" if they are known."""
    result: str | None = None
    """What the tool returned; None if the run does not have it."""
    returned: tuple[Any, ...] = ()
    """The same as specs read it: see `ToolCall.result`."""
    said: tuple[str, ...] = ()
    """What the user said between the call before it and this one."""


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One run of one agent."""

    session: str
    spec: str
    """The spec that is named; "" for none."""
    agent: str
    calls: tuple[RunCall, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Other plain values of the record, such as a reward."""
    said: tuple[str, ...] = ()
    """What the user said after the last call."""

    @property
    def task(self) -> str:
        """What the run was asked to do, by name; "" if it is not recorded."""
        return self.spec or _first(self.facts, "task", "task_id")

    @property
    def answer(self) -> str:
        """The last answer of the agent; "" if it is not recorded."""
        return _first(self.facts, "output", "final_response", "response", "answer").strip()


# --- reading ----------------------------------------------------------------------------------


def is_plain(line: bytes) -> bool:
    """Whether the first line of a file begins plain runs, or a document over several lines."""
    try:
        first = json.loads(line)
    except ValueError:
        return True
    return isinstance(first, list) or (isinstance(first, dict) and "calls" in first)


def has_runs(document: Any) -> bool:
    """Whether a JSON document is a run, or a list with one in it."""
    found = document if isinstance(document, list) else [document]
    return any(isinstance(each, dict) and isinstance(each.get("calls"), list) for each in found)


def read_runs(text: bytes, name: str) -> list[AgentRun]:
    """The runs of a file.

    Args:
        text: a JSON document, or a JSON document a line.
        name: of the file, for runs without an id of their own.

    Raises:
        BadRun: the text is no JSON, or not of this form.
    """
    found = _records(text)
    return [
        _run(record, f"{name}#{place}" if len(found) > 1 else name, place)
        for place, record in enumerate(found, start=1)
    ]


def _records(text: bytes) -> list[Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        lines = [line for line in text.split(b"\n") if line.strip()]
        if len(lines) < 2:
            raise BadRun(f"no JSON: {problem}") from None
        return [_line(line, number) for number, line in enumerate(lines, start=1)]
    return found if isinstance(found, list) else [found]


def _line(line: bytes, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise BadRun(f"run {number}: no JSON: {problem}") from None


def _run(record: Any, name: str, place: int) -> AgentRun:
    if not isinstance(record, dict) or not isinstance(record.get("calls"), list):
        raise BadRun(f"run {place}: expected an object with a list of calls")
    calls = record["calls"]
    if all(isinstance(call, dict) and isinstance(call.get("step"), int) for call in calls):
        calls = sorted(calls, key=lambda call: call["step"])
    found, said = _calls([*_prompt(record.get("prompt"), calls), *calls], f"run {place}")
    return AgentRun(
        session=_first(record, "run", "session") or _trial(record) or name,
        spec=_first(record, "spec", "prompt_id"),
        agent=_first(record, "agent", "gen_ai.agent.name", "model", "pipeline"),
        calls=found,
        facts={
            key: value
            for key, value in record.items()
            if isinstance(value, str | int | float | bool)
        },
        said=said,
    )


def _prompt(prompt: Any, calls: Sequence[Any]) -> list[dict[str, str]]:
    """The entry of a user's first message; none if there is no such text, or it stands among the calls."""
    entry = {"user": prompt}
    return [entry] if isinstance(prompt, str) and prompt and entry not in calls else []


def _first(record: Mapping[str, Any], *keys: str) -> str:
    """The first of some keys that has a text or a number."""
    found = (record.get(key) for key in keys)
    known = (str(value) for value in found if isinstance(value, str | int | float))
    return next((text for text in known if text), "")


def _trial(record: Mapping[str, Any]) -> str:
    """Repeated trials of a numbered task."""
    task, trial = record.get("task_id"), record.get("trial")
    return "" if task is None or trial is None else f"task {task} trial {trial}"


def _calls(entries: Sequence[Any], where: str) -> tuple[tuple[RunCall, ...], tuple[str, ...]]:
    """The calls among the entries of a run, each with what the user said before it; and what was said after the last."""
    found: list[RunCall] = []
    said: list[str] = []
    for raw in entries:
        if isinstance(raw, dict) and isinstance(raw.get("user"), str) and "name" not in raw:
            said.append(raw["user"])
            continue
        call = _call(raw, f"{where}, call {len(found) + 1}")
        found.append(replace(call, said=tuple(said)) if said else call)
        said.clear()
    return tuple(found), tuple(said)


def _call(raw: Any, where: str) -> RunCall:
    if not isinstance(raw, dict):
        raise BadRun(f"{where}: expected an object")
    tool = raw.get("name", raw.get("tool"))
    if not isinstance(tool, str) or not tool:
        raise BadRun(f"{where}: expected the tool's name under 'name'")
    arguments, unread = read(raw.get("arguments"))
    return RunCall(
        tool=tool,
        arguments=arguments,
        failed=not _is_fine(raw.get("status")) or bool(raw.get("error")) or _says_error(raw),
        at_ns=_time(raw.get("time_unix")),
        unread=unread,
        result=_result(raw),
        returned=_returned(raw),
    )


def _result(raw: Mapping[str, Any]) -> str | None:
    """What a tool returned, as a text: of another value, its JSON."""
    found = next((raw[key] for key in _RESULTS if raw.get(key) is not None), None)
    return found if found is None or isinstance(found, str) else json.dumps(found)


def _says_error(raw: Mapping[str, Any]) -> bool:
    """True if a call's result is an MCP server's answer that says so, as it is read of spans."""
    return any(of_protocol(raw[key]) for key in _RESULTS if key in raw)


def _returned(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a call returned, where it is written down. Of a result that was cut, only whole members are known."""
    key = next((key for key in _RESULTS if key in raw), "")
    found = returned(raw[key], quoted=False) if key else ()
    is_cut = bool(raw.get("cut")) and not (found and isinstance(found[0], CutObject))
    return () if is_cut else found


def _time(seconds: Any) -> int:
    """Nanoseconds; 0 if there is no sensible time."""
    if not isinstance(seconds, int | float) or not 0 < seconds < 2**33:
        return 0
    return int(seconds * SECOND)


def _is_fine(status: Any) -> bool:
    return status is None or status is True or str(status).lower() in _FINE


# --- judging ----------------------------------------------------------------------------------


def judge_run(run: AgentRun, specs: Sequence[Spec], limits: Limits) -> Iterator[dict[str, Any]]:
    """Judgement objects of one run: under the spec it names, and every policy that matches.

    A run that names none is judged under the spec that has the name of its task. A run without calls is judged too: its path is empty.
    """
    if not run.spec and any(spec.id == run.task for spec in specs):
        run = replace(run, spec=run.task)
    named = [spec for spec in specs if spec.kind == "policy" or spec.id == run.spec]
    monitor = Monitor(named if run.spec else specs, limits)
    calls = list(_tool_calls(run))
    if not calls:
        yield from _empty(run, monitor)
        return
    end = max(call.end_ns for call in calls)
    for call, written in zip(calls, run.calls, strict=True):
        if written.said:
            monitor.corrections.hear(call.session, written.said, call.start_ns, end)
        monitor.observe(call, end)
    monitor.close(end)
    yield from monitor.find(run.session)


def _tool_calls(run: AgentRun) -> Iterator[ToolCall]:
    """The calls one after the other, in their order whatever their clock says."""
    attributes = {SPEC_ATTRIBUTE: run.spec} if run.spec else {}
    session, trace = SessionKey("", run.session), _id(run.session, run.spec)
    at = 0
    for number, call in enumerate(run.calls, start=1):
        at = max(at + 1, call.at_ns)
        yield ToolCall(
            session=session,
            agent=run.agent,
            tool=call.tool,
            arguments=call.arguments,
            error=call.failed,
            start_ns=at,
            end_ns=at,
            trace_id=trace,
            span_id=number.to_bytes(8, "big"),
            parent_span_id=b"",
            call_id="",
            evidence=Evidence.EXECUTED,
            attributes=attributes,
            source=_SOURCE,
            session_from="run",
            result=call.returned,
        )


def _id(*texts: str) -> bytes:
    """A trace id that is the same each time."""
    return hashlib.blake2b("\0".join(texts).encode(errors="replace"), digest_size=16).digest()


def _empty(run: AgentRun, monitor: Monitor) -> Iterator[dict[str, Any]]:
    """Judgements of a run that made no call: a monitor never sees such a session."""
    [nothing] = _tool_calls(replace(run, calls=(RunCall("", None, failed=False, at_ns=0),)))
    session = Session(nothing.session, nothing, 0)
    if nothing.agent:
        session.name(AgentName(0, nothing.span_id, nothing.agent))
    session.ended, session.started_ns, session.last_ns = "input_end", 0, 0
    for judge in monitor.binder.bind(nothing.attributes, run.agent) or (
        Judge(Spec.observer()),
    ):
        judgement = begun(judge, "")
        yield judgement_object(session, judgement, Names(), arguments=True)
