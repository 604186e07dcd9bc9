"""A world: true runs, what is written of them, when that arrives, and where."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

from tests.simulation.worlds import specs
from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.emitters import DIALECTS, Emission, Emitter
from tests.simulation.worlds.fault import WITH_CALL_IDS, Fault, Hides, Stage
from tests.simulation.worlds.spans import Span
from tests.simulation.worlds.truth import Call, Conversation, conversations

HOUR = 3600.0

Change = Callable[["World"], None]
T = TypeVar("T")


@dataclass
class World:
    """One world. Times are seconds since it began.

    Args:
        documents: the specs.
        conversations: what is true.
        emission: what the framework is set to write.
        spans: what it writes.
        started: starts of the monitor's process; the first one is before the world, unless a fault says else.
        down: from when to when no process receives.
        complete: whether `history: complete` is set.
        session_keys: the setting `sessions.id_attributes`; None for the default.
        unseen: calls without a span of their own, of which models' spans tell, by number.
        gone: calls of which nothing that arrives tells.
        vague: calls whose arguments are not clear on the wire, by number.
        within: calls that another call's tool makes, and that one, by number.
        late: whether spans come later than pages wait, with no sign that they will: pages may then be withdrawn.
        very_late: whether they come after the window: final counts, too, may then be wrong.
        plan: what it is made of.
        choices: what its faults have chosen (`once`).
    """

    documents: list[dict[str, Any]]
    conversations: list[Conversation]
    emission: Emission
    spans: list[Span] = field(default_factory=list)
    started: list[float] = field(default_factory=lambda: [-HOUR])
    down: list[tuple[float, float]] = field(default_factory=list)
    complete: bool = False
    session_keys: tuple[str, ...] | None = None
    unseen: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    vague: set[int] = field(default_factory=set)
    within: dict[int, int] = field(default_factory=dict)
    late: bool = False
    very_late: bool = False
    hides: Hides = Hides.NOTHING
    plan: Plan | None = None
    choices: dict[str, Any] = field(default_factory=dict)

    def calls(self) -> list[Call]:
        return [call for each in self.conversations for call in each.calls()]

    def heard(self) -> list[set[int]]:
        """The calls of which spans tell that each process receives, by number."""
        starts = sorted(self.started)
        return [
            {
                number
                for span in self.spans
                if begun <= span.sent < ended
                and not any(since <= span.sent < until for since, until in self.down)
                for number in (*span.given, *[call.number for call in span.calls])
            }
            - self.gone
            for begun, ended in pairwise([*starts, float("inf")])
        ]

    def executed_again(self) -> set[int]:
        """Calls that were executed with the id of another one: of those without a span of their own, nothing tells."""
        told = {span.calls[0].id for span in self.tool_spans()}
        first: dict[str, int] = {}
        calls = sorted((call.number, call.id) for call in self.calls())
        silent = {call.number for call in self.calls()} - {
            call.number for span in self.tool_spans() for call in span.calls
        }
        return {
            number
            for number, id_ in calls
            if number in silent and (id_ in told or first.setdefault(id_, number) != number)
        }

    def may_be_told_again(self) -> set[int]:
        """Calls that have the id, tool, arguments and outcome of an earlier one of their conversation."""
        return {call.number for calls in self.written_alike() for call in calls[1:]}

    def written_alike(self) -> Collection[list[Call]]:
        """The calls of a conversation with one id, tool, arguments and outcome, the earliest first.

        Models count ids anew in each answer or turn. A call that is told again is written like that, too.
        """
        if self.emission.dialect not in WITH_CALL_IDS:
            return ()
        found: dict[tuple[object, ...], list[Call]] = {}
        for conversation in self.conversations:
            for call in sorted(conversation.calls(), key=lambda each: each.start):
                what = (conversation.id, call.id, call.tool, str(call.arguments), call.failed)
                found.setdefault(what, []).append(call)
        return found.values()

    def forget(self, numbers: Collection[int]) -> None:
        """What nothing tells of is no part of the truth that verdicts are held against."""
        for conversation in self.conversations:
            for answer in conversation.answers():
                answer.calls = [call for call in answer.calls if call.number not in numbers]
            for turn in conversation.turns:
                turn.answers = [answer for answer in turn.answers if answer.calls]

    def tool_spans(self) -> list[Span]:
        return [span for span in self.spans if span.role == "tool"]

    def some_tool_spans(self, random: Chance, most: int) -> list[Span]:
        """So many of them, or all; none where tools leave none."""
        drawn = random.each(self.tool_spans(), "some")
        ranked = [span for span, _ in sorted(drawn, key=lambda each: each[1].random())]
        chosen = self.once(random, "some", [span.id for span in ranked[:most]])
        return [span for span in ranked if span.id in chosen]

    def once(self, random: Chance, what: str, chosen: T) -> T:
        """What a fault has chosen; in a twin, what it chose in the first world: it could have been chosen there."""
        found: T = self.choices.setdefault(str(random.of(what).random()), chosen)
        return found

    def end(self) -> float:
        """When all that arrives has arrived."""
        return max([0.0, *(span.sent for span in self.spans)])


@dataclass(frozen=True)
class Plan:
    """What a world is made of: the same plan is the same world.

    Args:
        seed: of everything that is by chance.
        faults: what goes wrong.
        kept: numbers of the calls that are made; None for all of them.
    """

    seed: int
    faults: tuple[Fault, ...]
    kept: frozenset[int] | None = None


def build(
    plan: Plan,
    change: Change | None = None,
    *,
    without: Sequence[Fault] = (),
    choices: Mapping[str, Any] | None = None,
) -> World:
    """The world of a plan; or another one, whose truth is changed before it is written, and to which some faults do not happen.

    `choices`: what its faults choose, as far as they do.
    """
    random = Random(plan.seed)
    world = _true_world(random)
    world.choices.update(choices or {})
    world.plan = plan
    if plan.kept is not None:
        _keep(world, plan.kept)
    faults = sorted(plan.faults, key=lambda each: each.stage)
    world.emission.dialect = _dialect(faults, random)
    wanted = {each.models for each in faults} - {None}
    world.emission.models = random.random() < 0.7 if not wanted else True in wanted
    _act(world, plan, [each for each in faults if each.stage <= Stage.EMISSION])
    if change is not None:
        change(world)
    faults = [each for each in faults if each not in without]
    emitter = Emitter(world.emission, Chance(str(plan.seed)), world.within)
    for conversation in world.conversations:
        emitter.write(conversation)
    world.spans = emitter.spans
    _act(world, plan, [each for each in faults if each.stage > Stage.EMISSION])
    hidden = [each.hides for each in faults]
    if _seems_older(world):
        hidden.append(Hides.ORDER)
    world.hides = max(hidden, default=Hides.NOTHING)
    world.complete = world.complete and _are_named(world)
    return world


def _seems_older(world: World) -> bool:
    """Whether spans say that they began before the process: a call that no model asked for may have come before them unseen.

    A sender whose clock is behind by more than the process is old writes the same.
    """
    return any(span.start < world.started[-1] for span in world.spans)


def _are_named(world: World) -> bool:
    """Whether each call's trace names its session: else nobody promises that every session is seen whole."""
    keys = {"gen_ai.conversation.id", *(dialect.id_key for dialect in DIALECTS.values())}
    named = {s.trace for s in world.spans if any(key in keys for key, _ in s.attributes)}
    return all(span.trace in named for span in world.tool_spans())


def _true_world(random: Random) -> World:
    task = specs.task(random)
    return World(
        [task, specs.policy(random)],
        conversations(random, task),
        Emission(batch=random.choice([0.0, 0.0, 0.3])),
        complete=random.random() < 0.3,
    )


def _dialect(faults: Sequence[Fault], random: Random) -> str:
    """A framework that all of the faults happen to; if there is none, one of the last fault's."""
    fitting = [name for name in DIALECTS if all(name in each.dialects for each in faults)]
    return random.choice(fitting or list(faults[-1].dialects))


def _act(world: World, plan: Plan, faults: Sequence[Fault]) -> None:
    for each in faults:
        each.change(world, Chance(f"{plan.seed} {each.name}"))


def _keep(world: World, kept: frozenset[int]) -> None:
    """Leaves calls out, and what is empty then."""
    for conversation in world.conversations:
        for turn in conversation.turns:
            for answer in turn.answers:
                answer.calls = [call for call in answer.calls if call.number in kept]
            turn.answers = [answer for answer in turn.answers if answer.calls]
        conversation.turns = [turn for turn in conversation.turns if turn.answers]
    world.conversations = [each for each in world.conversations if each.turns]


def copy_of(span: Span, **changes: Any) -> Span:
    """The same span once more, with other fields."""
    made = deepcopy(span)
    made.calls = span.calls
    for name, value in changes.items():
        setattr(made, name, value)
    return made
