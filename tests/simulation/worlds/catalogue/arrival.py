"""How spans arrive: order, duplicates, batches, delays, losses."""

from __future__ import annotations

from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.fault import Hides, Stage, fault
from tests.simulation.worlds.spans import Span
from tests.simulation.worlds.truth import Call
from tests.simulation.worlds.twins import skipped
from tests.simulation.worlds.world import World, copy_of

# Below the 0.5 s for which pages wait.
SETTLES = 0.4


@fault("README", Stage.ARRIVAL, Hides.NOTHING)
def shuffled(world: World, random: Chance) -> None:
    """Spans overtake each other by up to 0.4 s."""
    for span, own in random.each(world.spans):
        span.sent += own.uniform(0, SETTLES)


@fault("README", Stage.ARRIVAL, Hides.NOTHING)
def duplicated(world: World, random: Chance) -> None:
    """Half of the spans are exported once or twice more, up to 20 s later."""
    for span, own in random.each(list(world.spans)):
        for _ in range(own.choice([0, 0, 1, 2])):
            world.spans.append(copy_of(span, sent=span.sent + own.uniform(0.01, 20)))


@fault("README", Stage.ARRIVAL, Hides.NOTHING)
def one_request_a_turn(world: World, random: Chance) -> None:
    """A turn's spans come in one request, in any order within it, when the turn has ended."""
    last: dict[int, float] = {}
    first: dict[tuple[int, float], float] = {}
    for span in world.spans:  # no request waits for another entry's duplicates
        sent = first[span.id, span.end] = min(
            first.get((span.id, span.end), span.sent), span.sent
        )
        last[span.trace] = max(last.get(span.trace, 0), sent)
    random.shuffle(world.spans)
    for span in world.spans:
        span.sent = last[span.trace]


@fault("README", Stage.ARRIVAL, Hides.NOTHING)
def delayed(world: World, random: Chance) -> None:
    """Every third span comes up to 8 s late, within the window; pages may then be withdrawn."""
    world.late = True
    for span, own in random.each(world.spans):
        if own.random() < 0.3:
            span.sent += own.uniform(1, 8)


@fault("uncertainty-rules.md: late calls", Stage.ARRIVAL, Hides.ORDER)
def later_than_the_window(world: World, random: Chance) -> None:
    """A tool's span comes 12 to 40 s late: the API is corrected, final counts are not."""
    world.late = world.very_late = True
    for span, own in random.each(world.some_tool_spans(random, 2)):
        span.sent += own.uniform(12, 40)


@fault("B5", Stage.ARRIVAL, Hides.UNTOLD, models=False)
def lost_without_a_sign(world: World, random: Chance) -> None:
    """A tool's span is lost, and no model's messages are on the wire: nothing can know. The rest is the truth."""
    world.complete = False
    for conversation in world.conversations:
        calls = list(conversation.calls())
        if len(calls) > 1:
            _lose(world, random.choice(calls))
            world.forget(world.unseen)


@fault("B7", Stage.ARRIVAL, Hides.ORDER, models=True)
def lost_and_answered(world: World, random: Chance) -> None:
    """A tool's span is lost; the model's next request holds the call's result."""
    world.complete = False
    for conversation in world.conversations:
        # What a call makes within itself is nothing that a model is given.
        asked = [call for call in conversation.calls() if call.number not in world.within]
        _lose(world, random.choice(asked))
    world.forget(world.unseen & world.executed_again())


@fault("coverage.md: span_missing", Stage.ARRIVAL, Hides.ORDER, models=False, twin=skipped)
def lost_with_parents(world: World, random: Chance) -> None:
    """An exporter's queue is full: it drops a run of spans, the agent's among them. Those that are left name a parent
    that never comes.
    """
    world.complete = False
    roots = {span.id for span in world.spans if span.role == "root" and random.random() < 0.7}
    for span in world.tool_spans():
        if span.parent in roots and random.random() < 0.4:
            _lose(world, span.calls[0])
    world.gone |= world.unseen
    above = {span.parent for span in world.spans}
    world.spans = [
        span
        for span in world.spans
        if span.id not in roots and (span.role != "worker" or span.id in above)
    ]


@fault("uncertainty.md: sampling marks", Stage.ARRIVAL, Hides.ORDER)
def sampled(world: World, random: Chance) -> None:
    """A head sampler keeps some traces, and marks them."""
    world.complete = False
    kept = {span.trace for span, own in random.each(world.spans) if own.random() < 0.2}
    for span in world.spans:
        span.state = "ot=th:8"
        if span.trace not in kept:
            world.gone |= {call.number for call in span.calls}
    world.spans = [span for span in world.spans if span.trace in kept]


@fault("coverage.md: truncated_attributes", Stage.SPANS, Hides.ORDER)
def attributes_dropped(world: World, random: Chance) -> None:
    """The SDK's limit on attributes drops the last ones of some tool spans, and says how many."""
    world.complete = False
    for span, own in random.each(world.tool_spans()):
        if own.random() < 0.4:
            count = own.choice([1, 2, 3])
            span.attributes, span.dropped = span.attributes[:-count], count
            world.vague |= {call.number for call in span.calls}


def _lose(world: World, call: Call) -> None:
    world.unseen.add(call.number)
    world.spans = [span for span in world.spans if not _is_of(span, call)]


def _is_of(span: Span, call: Call) -> bool:
    return span.role == "tool" and call in span.calls
