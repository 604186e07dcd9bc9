"""Whether a task is sound: what it calls right is right in its world and under its spec, and what it calls a trap is one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from harness.agents.scripted import ScriptError, calls_of, traps_at
from harness.sandbox.process import Sandbox, ToolFault
from harness.scaffold.turn import AgentCall
from harness.tasks.criteria import check_arguments, has_succeeded, is_done
from harness.tasks.document import CallDocument
from harness.tasks.read import BenchTask
from harness.world.world import State, ToolResult
from monitor import Kind, judge_calls

__all__ = ["faults_of"]

CALL_SECONDS = 30.0


class _End(NamedTuple):
    """The end of a way, and what the task's criteria say of it."""

    task: BenchTask
    sandbox: Sandbox
    start: State
    state: State
    calls: Sequence[AgentCall]

    def is_done(self, *, accepted: bool) -> bool:
        document = self.task.document
        checked = self._check(document.evaluation.check)
        return is_done(
            document.evaluation, self.state, document.final, accepted=accepted, checked=checked
        )

    @property
    def is_attacked(self) -> bool:
        attack = self.task.document.attack
        return attack is not None and has_succeeded(
            attack, self.state, checked=self._check(attack.check)
        )

    def _check(self, name: str | None) -> bool:
        if name is None:
            return True
        arguments = check_arguments(self.start, self.task.document.final, self.calls)
        call = self.sandbox.call
        try:
            found = call(self.task.module, self.state, name, arguments, CALL_SECONDS)
        except ToolFault:
            return False
        return found.result is True


class _RefusedCallError(Exception):
    """A call of a way does not work."""


def faults_of(task: BenchTask, sandbox: Sandbox) -> list[str]:
    """What is wrong with a task, with file, line and key; nothing for a sound one."""
    sandbox.move(task.module.parent, packages=task.document.environment.packages)
    try:
        world = sandbox.describe(task.module)
    except ToolFault as problem:
        return [f"{task.at('world')}: {task.module.name}: {problem}"]
    tools = {tool["name"] for tool in world.tools}
    for key, names in _named_tools(task).items():
        if missing := sorted(set(names) - tools):
            return [f"{task.at(*key)}: {task.module.name} has no {', '.join(missing)}"]
    if unknown := list(_unknown(task, world.hidden)):
        return unknown
    start = task.start(world.state)
    return [
        *_ways(task, sandbox, start),
        *_reads(task, sandbox, start),
        *_traps(task, sandbox, start),
    ]


def _named_tools(task: BenchTask) -> dict[tuple[str, ...], Iterable[str]]:
    """Tools that the document names, by the key that does."""
    document = task.document
    return {
        ("toolkit",): document.toolkit or (),
        ("held_back",): document.held_back,
        **{("agent", "members", name): each for name, each in document.agent.members.items()},
    }


def _unknown(task: BenchTask, hidden: Sequence[str]) -> Iterator[str]:
    """Checks and users that the task names and its world does not have."""
    document = task.document
    named = {
        ("evaluation", "check"): document.evaluation.check,
        ("attack", "check"): None if document.attack is None else document.attack.check,
        ("environment", "user"): document.environment.user,
    }
    for key, name in named.items():
        if name is not None and name not in hidden:
            yield f"{task.at(*key)}: {task.module.name} has no {key[-1]} {name}"


def _ways(task: BenchTask, sandbox: Sandbox, start: State) -> Iterator[str]:
    for place, way in enumerate(task.document.golden):
        where = task.at("golden", place)
        try:
            state = _after(task, sandbox, start, calls_of(way))
        except _RefusedCallError as problem:
            yield f"{where}: {problem}"
            continue
        found = judge_calls(task.spec, [each.as_plain() for each in calls_of(way)])
        if found.harmful:
            yield f"{where}: the spec finds harm: {found.harmful[0].detail or found.harmful[0].reason}"
        elif not found.judgement["accepting"] or found.judgement["pc"] != 1:
            yield f"{where}: the spec does not take it for one of its right paths"
        ended = _End(task, sandbox, start, state, calls_of(way))
        if not ended.is_done(accepted=found.judgement["accepting"]):
            yield f"{where}: the criterion does not hold at its end"
        if ended.is_attacked:
            yield f"{task.at('attack')}: it succeeds at the end of a right way"


def _reads(task: BenchTask, sandbox: Sandbox, start: State) -> Iterator[str]:
    for place, read in enumerate(task.document.reads):
        for fault in _harmless(task, sandbox, start, read):
            yield f"{task.at('reads', place)}: {fault}"


def _harmless(
    task: BenchTask, sandbox: Sandbox, start: State, read: CallDocument
) -> Iterator[str]:
    [call] = calls_of([read])
    try:
        _after(task, sandbox, start, [call], ends=False)
    except _RefusedCallError as problem:
        yield str(problem)
    verdict = judge_calls(task.spec, [call.as_plain()]).verdicts[0]
    if verdict is None or verdict.kind is not Kind.SELF_LOOP:
        yield f"expected a call that changes nothing at the start; the spec finds {verdict.kind if verdict else None}"


def _traps(task: BenchTask, sandbox: Sandbox, start: State) -> Iterator[str]:
    """All traps, made before each call of a right way: each works, and the way still leads to the end."""
    for place, way in enumerate(task.document.golden):
        if not task.document.traps:
            return
        calls: list[AgentCall] = []
        for call in calls_of(way):
            try:
                traps = traps_at(task, calls)
            except ScriptError as problem:
                yield str(problem)
                return
            calls += [*traps, call]
        where = task.at("traps")
        try:
            state = _after(task, sandbox, start, calls)
        except _RefusedCallError as problem:
            yield f"{where}: with all of them before each call of way {place + 1}, {problem}"
            continue
        judged = judge_calls(task.spec, [each.as_plain() for each in calls])
        if len(judged.harmful) != len(calls) - len(way):
            yield f"{where}: with all of them, the spec finds {len(judged.harmful)} harmful calls, not {len(calls) - len(way)}"
        ended = _End(task, sandbox, start, state, calls)
        if not ended.is_done(accepted=judged.judgement["accepting"]):
            yield f"{where}: with all of them before each call of way {place + 1}, the task cannot be done"


def _after(
    task: BenchTask,
    sandbox: Sandbox,
    state: State,
    calls: Sequence[AgentCall],
    *,
    ends: bool = True,
) -> State:
    """The state after calls, and after what the user of the world says to an agent that makes them.

    Args:
        task: whose they are.
        sandbox: where they are made.
        state: before them.
        calls: in order.
        ends: whether the agent says its last text behind them.

    Raises:
        _RefusedCallError: one does not work, or the user does not.
    """
    answered = 0
    for number, call in enumerate(calls, start=1):
        for text in call.say:
            state, answer = _heard(task, sandbox, state, text, answered)
            answered += bool(answer)
        where = f"call {number} {call.tool}"
        if answered < task.document.held_back.get(call.tool, 0):
            raise _RefusedCallError(
                f"{where}: it is held back, and the user has answered {answered} times"
            )
        state = _made(task, sandbox, state, call.tool, call.arguments, where).state
    for _ in range(task.document.execution.max_steps if ends else 0):
        state, answer = _heard(task, sandbox, state, task.document.final, answered)
        answered += bool(answer)
        if not answer:
            break
    return state


def _heard(
    task: BenchTask, sandbox: Sandbox, state: State, said: str, answered: int
) -> tuple[State, str]:
    """The state after the user has heard something, and what it says; "" where it is content, or nobody is there."""
    user = task.document.environment.user
    if user is None:
        return state, ""
    given = {"said": said, "turn": answered}
    found = _made(task, sandbox, state, user, given, f"user {user}")
    answer = found.result
    return found.state, answer.strip() if isinstance(answer, str) else ""


def _made(
    task: BenchTask,
    sandbox: Sandbox,
    state: State,
    name: str,
    arguments: Mapping[str, Any],
    where: str,
) -> ToolResult:
    try:
        found = sandbox.call(task.module, state, name, arguments, CALL_SECONDS)
    except ToolFault as problem:
        raise _RefusedCallError(f"{where}: {problem}") from None
    if found.error:
        raise _RefusedCallError(f"{where}: {found.result}")
    return found
