"""One rollout from its first turn to its line: turns, calls, clocks, then judgement and cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, Protocol

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter

from collector.decode.span import Span
from harness.rollout.attribution import RolloutEnding, attribute
from harness.rollout.clock import SECOND, RolloutClock
from harness.rollout.guarded import guard_of
from harness.rollout.judged import judged, read_spans
from harness.rollout.record import Rollout
from harness.rollout.spans import RolloutSpans
from harness.rollout.together import together
from harness.sandbox.process import ToolFault, WorldTools
from harness.scaffold.scaffold import Scaffold, UnreadableTextError
from harness.scaffold.turn import (
    AgentCall,
    AgentFault,
    MadeCall,
    RolloutAgent,
    Turn,
    says_it_cannot,
)
from harness.snapshots.toolbox import MissedResult, TimedResult, Toolbox
from harness.tasks.criteria import check_arguments, convinces, has_succeeded, is_done
from harness.tasks.read import BenchTask
from harness.world.schema import misfit
from offrails_guard import BaseGuard

__all__ = ["Bounds", "Executor", "FinishedRollout", "RolloutJudges"]

ANSWER_MAX: Final = 20_000
"""Characters of an agent's last text in its rollout's line."""


class Bounds(NamedTuple):
    """Limits of a rollout: answers, and seconds on three clocks."""

    max_steps: int
    timeout: float
    call_timeout: float
    stall: float


class FinishedRollout(NamedTuple):
    """A rollout that is over."""

    rollout: Rollout
    spans: tuple[ReadableSpan, ...]


class _EndedCall(NamedTuple):
    """A call that was made, and when it ended."""

    made: MadeCall
    began_ns: int
    ended_ns: int
    written: Mapping[str, Any] = {}
    """What it has written of the state, by key."""
    missed: str = ""
    """Why a recording has no result; "" if it has."""


class RolloutJudges(Protocol):
    """Models that score a rollout."""

    def judge(
        self,
        session: str,
        judgement: Mapping[str, Any],
        spans: Sequence[Span],
        named: str | None,
    ) -> Sequence[Mapping[str, Any]]:
        """Their judgements, as `offrails judge --json` prints them; never raises for what a model does.

        Args:
            session: id of the rollout's conversation.
            judgement: of its spans, by its spec.
            spans: of the rollout.
            named: the judge that the task names, if it does; it is asked beside those of all rollouts.
        """
        ...


@dataclass(slots=True, kw_only=True)
class Executor:
    """Runs one rollout. For one thread, and once."""

    task: BenchTask
    agent: RolloutAgent
    agent_name: str
    seed: int
    scaffold: Scaffold
    toolbox: Toolbox
    clock: RolloutClock
    bounds: Bounds
    sandbox: str
    session: str
    offline: bool = False
    guard: str = ""
    """URL of who is asked before each call, or `IN_PROCESS`; "" for nobody."""
    exporter: SpanExporter | None = None
    price: Callable[[int, int], float | None] = lambda _tokens_in, _tokens_out: None
    judges: RolloutJudges | None = None

    def run(self) -> FinishedRollout:
        """Runs it."""
        return _Run(self).finished()


class _Run:
    """What one rollout knows while it runs."""

    def __init__(self, given: Executor) -> None:
        self.given = given
        self.made: list[MadeCall] = []
        self.start: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.checks: dict[str, bool] = {}
        """What the world's checks say of the end."""
        self.judged: Sequence[Mapping[str, Any]] = ()
        self.convinced = True
        """What the judge says that the task names."""
        self.world: WorldTools = WorldTools([], {})
        self.names: dict[str, Mapping[str, Any]] = {}
        """The tools that the agent has."""
        self.members = {
            tool: member
            for member, tools in given.task.document.agent.members.items()
            for tool in tools
        }
        self.tokens_in = self.tokens_out = 0
        self.context = 0
        self.unreadable = self.in_a_row = 0
        self.answered = 0
        """How often the user has answered."""
        self.misses = 0
        self.spans = RolloutSpans(
            session=given.session, agent=given.agent_name, spec=given.task.spec.id,
            task=given.task.name, instruction=given.task.document.instruction.strip(),
            exporter=given.exporter,
        )  # fmt: skip
        self.guard: BaseGuard | None = None
        self.began_ns = self.worked_ns = 0

    # --- the whole --------------------------------------------------------------------------------

    def finished(self) -> FinishedRollout:
        given = self.given
        self.began_ns = self.worked_ns = given.clock.now_ns()
        self.spans.begin(self.began_ns)
        if given.guard:
            self.guard = guard_of(
                given.guard,
                given.task.spec,
                given.session,
                given.agent_name,
                given.clock.now_ns,
            )
        try:
            ending = self._ending()
        finally:
            if self.guard is not None:
                self.guard.close()
        ended_ns = given.clock.now_ns()
        self.spans.end(ended_ns, ending.answer)
        if ending.end != "error":
            ending = self._checked(ending)
        spans = read_spans(self.spans.spans)
        judgement = judged(spans, given.task.spec)
        if ending.end != "error":
            ending = self._scored(ending, judgement, spans)
        record = self._record(ending, judgement, ended_ns)
        return FinishedRollout(record, tuple(self.spans.spans))

    def _ending(self) -> RolloutEnding:
        try:
            self._set_up(self.given.toolbox.describe(self.given.task))
        except (ToolFault, MissedResult) as problem:
            self.misses += isinstance(problem, MissedResult)
            return RolloutEnding("error", "infrastructure", str(problem))
        for _ in range(self.given.bounds.max_steps):
            ending = self._step()
            if ending is not None:
                return replace(
                    ending,
                    unreadable=self.unreadable,
                    ended_unreadable=self.in_a_row > 0 and ending.end == "gave_up",
                )
        return RolloutEnding("limit", "steps", unreadable=self.unreadable)

    def _checked(self, ending: RolloutEnding) -> RolloutEnding:
        """Asks the checks that the task names; one that breaks is a failure of the environment."""
        document = self.given.task.document
        attack = document.attack
        named = [document.evaluation.check, None if attack is None else attack.check]
        arguments = check_arguments(
            self.start, ending.answer, [each.call for each in self.made if each.number]
        )
        try:
            for name in filter(None, named):
                self.checks[name] = self._asked(name, arguments).outcome.result is True
        except (ToolFault, MissedResult) as problem:
            self.misses += isinstance(problem, MissedResult)
            return replace(ending, end="error", why="infrastructure")
        return ending

    def _scored(
        self, ending: RolloutEnding, judgement: Mapping[str, Any], spans: Sequence[Span]
    ) -> RolloutEnding:
        """Asks the judges. One that the task names and that has no score is a failure of the environment."""
        judges, named = self.given.judges, self.given.task.document.evaluation.judge
        if judges is None:
            return ending
        id_ = None if named is None else named.id
        self.judged = judges.judge(self.given.session, judgement, spans, id_)
        if named is None:
            return ending
        own = next(each for each in self.judged if each["judge"] == id_)
        found = convinces(own, named.least)
        self.convinced = bool(found)
        return replace(ending, end="error", why="infrastructure") if found is None else ending

    def _asked(self, name: str, arguments: Mapping[str, Any]) -> TimedResult:
        """What a check or a user of the world says.

        Raises:
            ToolFault: it hung, died or raised, or there is none of this name.
            MissedResult: it is not recorded.
        """
        given = self.given
        found = given.toolbox.call(
            given.task, self.state, name, arguments, given.bounds.call_timeout
        )
        if found.outcome.error:
            raise ToolFault(f"{name}: {found.outcome.result}")
        return found

    def _holds(self, check: str | None) -> bool:
        return check is None or self.checks.get(check, False)

    def _set_up(self, found: WorldTools) -> None:
        self.world = found
        self.start = self.state = self.given.task.start(found.state)
        self._tell("set_up", self._new_tools())

    def _new_tools(self) -> list[Mapping[str, Any]]:
        """The tools that the agent did not have before the last answer of its user, which it has from now on."""
        document = self.given.task.document
        kit, held_back = document.toolkit, document.held_back
        found = {
            name: tool
            for tool in self.world.tools
            if (name := tool["name"]) not in self.names
            and (kit is None or name in kit)
            and held_back.get(name, 0) <= self.answered
        }
        self.names |= found
        return [*found.values()]

    def _tell(self, how: str, what: Any) -> None:
        """Tells an agent that has a model; others do not listen."""
        tell = getattr(self.given.agent, how, None)
        if tell is not None:
            tell(what)

    # --- one turn ---------------------------------------------------------------------------------

    def _left(self) -> float:
        """Seconds until a clock runs out."""
        now = self.given.clock.now_ns()
        whole = self.given.bounds.timeout - (now - self.began_ns) / SECOND
        return min(whole, self.given.bounds.stall - (now - self.worked_ns) / SECOND)

    def _step(self) -> RolloutEnding | None:
        left = self._left()
        if left <= 0:
            return RolloutEnding("limit", "timeout")
        began_ns = self.given.clock.now_ns()
        try:
            turn = self.given.agent.turn(self.made, left)
        except AgentFault as fault:
            limit = fault.kind in ("timeout", "context_overflow")
            return RolloutEnding("limit" if limit else "error", fault.kind, str(fault))
        if turn.sleep:
            self.given.clock.sleep(min(turn.sleep, left))
        self._count(turn, began_ns)
        if self.context > self.given.task.document.model.context_tokens:
            return RolloutEnding("limit", "context_overflow")
        if turn.raw is not None:
            read = self._read(turn.raw)
            if read is None:
                return self._unread()
            turn = read
        return self._take(turn)

    def _count(self, turn: Turn, began_ns: int) -> None:
        self.tokens_in += turn.tokens_in
        self.tokens_out += turn.tokens_out
        self.context = (
            self.context + turn.tokens_in + turn.tokens_out
            if turn.context is None
            else turn.context
        )
        if turn.model:
            self.spans.model(
                turn.model, said=turn.text, began_ns=began_ns, ended_ns=self.given.clock.now_ns(),
                tokens=(turn.tokens_in, turn.tokens_out),
            )  # fmt: skip

    def _read(self, text: str) -> Turn | None:
        try:
            return self.given.scaffold.read(text)
        except UnreadableTextError as problem:
            self._tell("could_not_read", str(problem))
            return None

    def _unread(self) -> RolloutEnding | None:
        self.unreadable += 1
        self.in_a_row += 1
        if self.in_a_row >= self.given.task.document.agent.attempts:
            return RolloutEnding("gave_up")
        return None

    def _take(self, turn: Turn) -> RolloutEnding | None:
        if turn.say is not None:
            return self._said(turn.say)
        threads = self.given.task.document.agent.threads
        for calls in together(turn.calls, self.names, threads):
            self.in_a_row = 0
            ending = self._make(calls)
            if ending is not None:
                return ending
        return None

    def _said(self, text: str) -> RolloutEnding | None:
        """The agent has said something: it ends, unless a user answers. A user answers one that cannot go on, too."""
        document = self.given.task.document
        quiet = document.output == "none" and not text.strip()
        ending = RolloutEnding(
            "gave_up" if says_it_cannot(text) and not quiet else "done", answer=text
        )
        user = document.environment.user
        if user is None or (ending.end == "gave_up" and not text.strip()):
            return ending
        try:
            found = self._asked(user, {"said": text, "turn": self.answered})
        except ToolFault as problem:
            return RolloutEnding("error", "user_simulator", str(problem))
        except MissedResult as problem:
            self.misses += 1
            return RolloutEnding("error", "infrastructure", str(problem))
        return self._answered(ending, found)

    def _answered(self, ending: RolloutEnding, found: TimedResult) -> RolloutEnding | None:
        """The user has heard the agent's last text: it ends, if there is no answer."""
        text = ending.answer
        self.given.clock.passed(found.seconds)
        self.state = found.outcome.state
        answer = found.outcome.result
        if not isinstance(answer, str) or not answer.strip():
            return ending
        self.answered += 1
        self.spans.answered(text, answer, at_ns=self.given.clock.now_ns())
        self._tell("hear", answer)
        if come := self._new_tools():
            self._tell("get", come)
        return None

    # --- calls ------------------------------------------------------------------------------------

    def _make(self, calls: Sequence[AgentCall]) -> RolloutEnding | None:
        """Makes calls at the same time: those that the guard allows."""
        left = self._left()
        if left <= 0:
            return RolloutEnding("limit", "timeout")
        asked = [(made, self._allowed(made)) for made in map(self._met, calls)]
        allowed = [(made, id_) for made, id_ in asked if id_ is not None]
        ending = self._execute(
            [made for made, _ in allowed], min(left, self.given.bounds.call_timeout)
        )
        if self.guard is not None:
            for made, decision_id in allowed:
                self.guard.outcome(decision_id, "failed" if made.error else "ran")
        return ending

    def _met(self, call: AgentCall) -> MadeCall:
        self.made.append(MadeCall(call, member=self.members.get(call.tool, "")))
        return self.made[-1]

    def _allowed(self, made: MadeCall) -> str | None:
        """The id of the guard's decision, "" without a guard; None if it denies the call."""
        if self.guard is None:
            return ""
        call = made.call
        decision = self.guard.check(
            call.tool, call.arguments, call_id=call.id, agent=made.member
        )
        if decision.allowed:
            return decision.decision_id
        self.guard.refused(decision)
        made.denied, made.error, made.result = True, True, decision.message
        return None

    def _execute(self, made: Sequence[MadeCall], seconds: float) -> RolloutEnding | None:
        began = [self.given.clock.now_ns() for _ in made]
        missed = [self._noted(each) for each in self._ended(made, began, seconds)]
        why = next(filter(None, missed), "")
        return RolloutEnding("error", "infrastructure", why) if why else None

    def _ended(
        self, made: Sequence[MadeCall], began: Sequence[int], seconds: float
    ) -> Sequence[_EndedCall]:
        if len(made) < 2:
            return [*map(self._result, made, began, repeat(seconds))]
        with ThreadPoolExecutor(len(made)) as pool:
            return [*pool.map(self._result, made, began, repeat(seconds))]

    def _noted(self, ended: _EndedCall) -> str:
        """Takes over what came of a call; returns why it is not recorded, "" if it is."""
        made = ended.made
        self.misses += bool(ended.missed)
        self.state = {**self.state, **ended.written}
        if not made.error:
            self.worked_ns = max(self.worked_ns, ended.ended_ns)
        made.number = sum(1 for each in self.made if each.number) + 1
        made.span_id = self.spans.call(
            made.call.tool, made.call.arguments, began_ns=ended.began_ns, ended_ns=ended.ended_ns,
            result=made.result, error=made.error, call_id=made.call.id, member=made.member,
        )  # fmt: skip
        return ended.missed

    def _result(self, made: MadeCall, began_ns: int, seconds: float) -> _EndedCall:
        """Makes one call. Others may be made at the same time: of this rollout, it changes that call alone."""
        given, call = self.given, made.call
        ended_ns = partial(given.clock.ended_ns, began_ns)
        tool = self.names.get(call.tool)
        made.unknown_tool = tool is None
        if tool is None:
            made.error, made.result = True, f"there is no tool {call.tool}"
            return _EndedCall(made, began_ns, ended_ns(0.0))
        if not tool["lenient"] and (wrong := misfit(tool["parameters"], call.arguments)):
            made.error, made.result, made.unfit = True, wrong, True
            return _EndedCall(made, began_ns, ended_ns(0.0))
        try:
            found = given.toolbox.call(
                given.task, self.state, call.tool, call.arguments, seconds
            )
        except ToolFault as problem:
            made.error, made.result, made.fault = True, str(problem), "tool"
            return _EndedCall(made, began_ns, ended_ns(problem.seconds))
        except MissedResult as problem:
            made.error, made.result, made.fault = True, str(problem), "infrastructure"
            return _EndedCall(made, began_ns, ended_ns(0.0), missed=str(problem))
        made.result, made.error, after = found.outcome
        written = {} if made.error else {key: after[key] for key in tool["writes"]}
        return _EndedCall(made, began_ns, ended_ns(found.seconds), written)

    # --- the line ---------------------------------------------------------------------------------

    def _record(
        self, ending: RolloutEnding, judgement: Mapping[str, Any], ended_ns: int
    ) -> Rollout:
        given, document = self.given, self.given.task.document
        success = ending.end == "done" and is_done(
            document.evaluation, self.state, ending.answer, accepted=judgement["accepting"],
            checked=self._holds(document.evaluation.check), convinced=self.convinced,
        )  # fmt: skip
        attack = document.attack
        attacked = None if attack is None else has_succeeded(
            attack, self.state, checked=self._holds(attack.check)
        )  # fmt: skip
        cause = attribute(given.task, ending, self.made, judgement, success=success)
        ran = [each for each in self.made if each.number]
        return Rollout(
            task=given.task.name,
            world=document.world,
            agent=given.agent_name,
            scaffold=given.scaffold.version,
            sandbox=given.sandbox,
            seed=given.seed,
            success=success,
            attacked=attacked,
            end=ending.end,
            calls=len(ran),
            prevented=len(self.made) - len(ran),
            harmful=judgement["harmful"],
            harm_rate=judgement["harm_rate"],
            prefix_crit=judgement["prefix_crit"],
            pc=judgement["pc"],
            pc_ktc=judgement["pc_ktc"],
            pc_hlr=judgement["pc_hlr"],
            efficiency=judgement["efficiency"],
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost=given.price(self.tokens_in, self.tokens_out),
            seconds=round((ended_ns - self.began_ns) / SECOND, 6),
            cause=None if cause is None else cause.as_json(),
            session=given.session,
            answer=ending.answer[:ANSWER_MAX],
            offline=given.offline,
            misses=self.misses,
            spans_lost=self.spans.lost,
            steps_by_agent=dict(Counter(each.member or given.agent_name for each in ran)),
            judged=tuple(self.judged),
            path=tuple(
                {"tool": step["tool"], "kind": step["kind"], "reason": step["reason"]}
                for step in judgement["steps"]
            ),
        )
