"""What tools leave behind: no spans, results that say failed, spans that are sent again, calls that are chained."""

from __future__ import annotations

from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.fault import (
    WITH_CALL_IDS,
    Hides,
    Stage,
    fault,
)
from tests.simulation.worlds.truth import Answer
from tests.simulation.worlds.twins import at_once
from tests.simulation.worlds.world import World, copy_of


def _fail_some(world: World, random: Chance) -> None:
    for call in world.calls():
        if world.emission.tools and random.of(call.number).random() < 0.3:
            call.failed = True


@fault("B7", Stage.SPANS, Hides.ORDER, models=True)
def client_tool(world: World, random: Chance) -> None:
    """One tool leaves no spans (a browser or a person runs it); the model's next request holds its results."""
    _without_spans(world, random)


@fault("B7", Stage.SPANS, Hides.ORDER, models=True)
def client_tool_unanswered(world: World, random: Chance) -> None:
    """One tool leaves no spans, and the spans of models show what they asked for, and no results."""
    _without_spans(world, random)
    for span in world.spans:
        if span.role == "model":
            span.attributes = [
                (k, v) for k, v in span.attributes
                if k not in {"gen_ai.input.messages", "ai.prompt.messages"} and "input_messages" not in k
            ]  # fmt: skip
            span.given = frozenset()


def _without_spans(world: World, random: Chance) -> None:
    """One tool has no spans: none that another call's tool calls, since no model asks for such a call, and nothing would tell of it."""
    inner = {call.tool for call in world.calls() if call.number in world.within}
    tool = random.choice(sorted({call.tool for call in world.calls()} - inner or {""}))
    gone = {call.number for call in world.calls() if call.tool == tool}
    world.unseen |= gone
    world.spans = [s for s in world.spans if s.role != "tool" or s.calls[0].number not in gone]
    world.forget(world.executed_again())


@fault(
    "B8",
    Stage.EMISSION,
    Hides.NOTHING,
    dialects=("vercel_ai", "google_adk"),
)
def failures_in_results(world: World, random: Chance) -> None:
    """Some tools fail; only the MCP result, which these frameworks hand through, says so (`isError: true`)."""
    world.emission.failures = "result"
    _fail_some(world, random)


@fault(
    "B8",
    Stage.EMISSION,
    Hides.ORDER,
    dialects=("pydantic_ai", "openinference"),
)
def failures_in_odd_results(world: World, random: Chance) -> None:
    """The same of frameworks that do not hand MCP's results through: a tool of the user's does."""
    world.emission.failures = "result"
    _fail_some(world, random)


@fault("B8", Stage.SPANS, Hides.NOTHING)
def provisional_then_final(world: World, random: Chance) -> None:
    """A span is sent when a first attempt has failed, and again when the call has ended well: same ids, later end."""
    for span, own in random.each(world.tool_spans()):
        if own.random() < 0.5 and not span.calls[0].failed:
            early = copy_of(span, status=2, end=(span.start + span.end) / 2)
            early.sent = span.sent - (span.end - early.end)
            world.spans.append(early)


@fault("B8", Stage.SPANS, Hides.NOTHING)
def provisional_then_failed(world: World, random: Chance) -> None:
    """A span is sent as the call is made, without a status, and again when it has failed."""
    for span in world.tool_spans():
        if span.calls[0].failed:
            early = copy_of(span, status=0, end=(span.start + span.end) / 2)
            early.sent = span.sent - (span.end - early.end)
            world.spans.append(early)


@fault(
    "B10",
    Stage.RUN,
    Hides.NOTHING,
    models=True,
    dialects=WITH_CALL_IDS,
)
def answer_one_by_one(world: World, random: Chance) -> None:
    """The calls that one answer asked for run one after the other, in an order of the threads' own; the ids of the
    answer's calls are those of the tools' spans.
    """
    _each_one_by_one(world, random)


@fault(
    "B10",
    Stage.RUN,
    Hides.NOTHING,
    models=True,
    dialects=("openinference",),
)
def answer_one_by_one_without_ids(world: World, random: Chance) -> None:
    """The same; tools' spans have no ids of calls: their names and arguments are those of the answer."""
    _each_one_by_one(world, random)


def _each_one_by_one(world: World, random: Chance) -> None:
    for conversation in world.conversations:
        for answer in conversation.answers():
            _one_by_one(answer, random)


def _one_by_one(answer: Answer, random: Chance) -> None:
    calls = random.sample(answer.calls, len(answer.calls))
    start, end = min(c.start for c in calls), max(c.end for c in calls)
    for place, call in enumerate(calls):
        call.start = start + (end - start) * place / len(calls)
        call.end = start + (end - start) * (place + 0.8) / len(calls)


@fault(
    "B10",
    Stage.SPANS,
    Hides.NOTHING,
    models=True,
    dialects=WITH_CALL_IDS,
)
def chained(world: World, random: Chance) -> None:
    """The tracer leaves the first parallel tool's span current: the others are written as its children; the model's
    answer that asked for them is known.
    """
    _chain(world, random)


@fault(
    "B10",
    Stage.SPANS,
    Hides.UNTOLD,
    models=False,
    dialects=WITH_CALL_IDS,
)
def chained_without_models(world: World, random: Chance) -> None:
    """The same without spans of models: under `strict` it may be taken for a call within a call."""
    _chain(world, random)


def _chain(world: World, random: Chance) -> None:
    for conversation in world.conversations:
        for answer in conversation.answers():
            spans = [s for s in world.tool_spans() if s.calls[0] in answer.calls]
            spans.sort(key=lambda span: span.start)
            for span in spans[1:]:
                if span.trace == spans[0].trace:  # a parent is of its trace
                    span.parent = spans[0].id


@fault("B7", Stage.EMISSION, Hides.NOTHING, models=False)
def no_model_spans(world: World, random: Chance) -> None:
    """Only agents and tools have spans."""


@fault("README: what models ask for", Stage.RUN, Hides.ORDER, models=True)
def no_tool_spans(world: World, random: Chance) -> None:
    """Tools leave no spans at all: only requests of models are on the wire. No tool fails."""
    for call in world.calls():
        call.failed = False
    _no_spans_of_tools(world)


@fault("B8", Stage.RUN, Hides.ORDER, models=True)
def no_tool_spans_and_failures(world: World, random: Chance) -> None:
    """The same; that a tool has failed stands only in what the model is given next."""
    _no_spans_of_tools(world)


def _no_spans_of_tools(world: World) -> None:
    world.complete, world.emission.tools = False, False
    world.within.clear()
    world.unseen |= {call.number for call in world.calls()}


@fault(
    "uncertainty-rules.md: overlapping calls",
    Stage.RUN,
    Hides.ORDER,
    twin=at_once,
)
def calls_within_calls(world: World, random: Chance) -> None:
    """A tool is an agent itself: the next call of the run is made by it, below its span. Without models' spans it
    may be one that a tracer chains.
    """
    for conversation in world.conversations:
        for turn in conversation.turns:
            for outer, inner in zip(turn.answers[::2], turn.answers[1::2], strict=False):
                if len(outer.calls) == len(inner.calls) == 1 and world.emission.tools:
                    outer.calls[0].end = inner.calls[0].end + 0.001
                    world.within[inner.calls[0].number] = outer.calls[0].number


@fault(
    "opensre#3939",
    Stage.SPANS,
    Hides.ORDER,
    models=True,
)
def parallel_tools_without_spans(world: World, random: Chance) -> None:
    """Tools that run in parallel leave no spans, those that run alone do; the model's next request holds all results."""
    gone = {
        c.number
        for v in world.conversations
        for a in v.answers()
        if len(a.calls) > 1
        for c in a.calls
    }
    world.complete = False
    world.unseen |= gone
    world.spans = [s for s in world.spans if s.role != "tool" or s.calls[0].number not in gone]
