"""Clocks of senders."""

from __future__ import annotations

from math import floor

from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.fault import Hides, Stage, fault
from tests.simulation.worlds.spans import BEGIN, Span
from tests.simulation.worlds.truth import instant
from tests.simulation.worlds.twins import at_their_times
from tests.simulation.worlds.world import World

_OFFSETS = (1, 5, 30, 55, 59, 61, 63, 65, 70, 90, 300, 3600, 5 * 3600)


def _move(world: World, by: float, since: float = float("-inf")) -> None:
    for span in world.spans:
        if span.start >= since:
            span.start += by
        if span.end >= since:
            span.end += by


@fault("B6", Stage.CLOCKS, Hides.NOTHING)
def clock_ahead(world: World, random: Chance) -> None:
    """The sender's clock is ahead, by a second to hours."""
    _move(world, random.choice(_OFFSETS))


@fault("B6", Stage.CLOCKS, Hides.NOTHING)
def clock_behind(world: World, random: Chance) -> None:
    """The sender's clock is behind, by a second to some minutes; the process started long before."""
    _move(world, -random.choice([1, 5, 30, 59, 61, 70, 300, 1200]))


@fault("B6", Stage.CLOCKS, Hides.ORDER)
def clock_behind_the_start(world: World, random: Chance) -> None:
    """The sender's clock is hours behind: its spans seem to be older than the process."""
    _move(world, -random.choice([2 * 3600, 24 * 3600]))


def _a_moment(world: World, random: Chance) -> float:
    """Between two answers of a model."""
    answers = [each for c in world.conversations for each in c.answers() if each.calls]
    starts = [min(call.start for call in each.calls) for each in answers]
    return world.once(random, "moment", instant(random.choice(starts) - 0.035))


@fault("B6", Stage.CLOCKS, Hides.ORDER)
def clock_set_forward(world: World, random: Chance) -> None:
    """The sender's clock is set forward in mid-session, by a second to hours."""
    _move(world, random.choice(_OFFSETS), since=_a_moment(world, random))


@fault("B6", Stage.CLOCKS, Hides.ORDER, twin=at_their_times)
def clock_set_back(world: World, random: Chance) -> None:
    """The sender's clock, which was ahead or right, is set back in mid-session by more than the window."""
    by = random.choice([15, 30, 59, 61, 70, 300, 3600])
    ahead = random.choice([0, by])
    moment = _a_moment(world, random) + ahead
    _move(world, ahead)
    _move(world, -by, since=moment)


@fault("uncertainty-rules.md: clocks", Stage.CLOCKS, Hides.ORDER)
def tools_on_another_host(world: World, random: Chance) -> None:
    """Some tools run on a host whose clock is ahead of that of the agent's, by seconds."""
    tools = sorted({span.calls[0].tool for span in world.tool_spans()})
    there = world.once(random, "there", [each for each in tools if random.random() < 0.5])
    by = world.once(random, "by", random.choice([2, 5, 12, 30, 55]))
    for span in world.tool_spans():
        if span.calls[0].tool in there and not (span.host or span.instance):
            span.host = "worker"
            span.start += by
            span.end += by


@fault("jaeger: clock skew adjustment", Stage.CLOCKS, Hides.ORDER)
def tools_on_a_host_behind(world: World, random: Chance) -> None:
    """Some tools or all run on a host whose clock is behind, so that in each conversation one of their spans begins over a second before its parent."""
    spans = [span for span in world.tool_spans() if not span.host]
    tools = sorted({span.calls[0].tool for span in spans})
    some = [each for each in tools if random.random() < 0.5]
    there = world.once(random, "there", random.choice([some, some, tools]))
    by = random.choice([1.5, 2, 5, 12, 40, 300, 7200])
    resources = world.once(
        random, "resources", random.choice(["hosts", "one host", "processes"])
    )
    later = world.once(random, "later", random.choice([0, 0, 2, 6]))
    moved = [span for span in spans if span.calls[0].tool in there]
    slack = _slack(world, moved)
    if slack is None:
        return
    by = world.once(random, "by", max(by, instant(slack + 1.01)))
    for span in world.spans:
        is_there = span in moved
        if resources == "processes":
            span.instance = "far" if is_there else "near"
        elif is_there or (resources == "hosts" and not span.host):
            span.host = "far" if is_there else "near"
        if span.role == "root":
            span.sent += later
    for span in moved:
        span.start -= by
        span.end -= by
    if not (world.emission.models and all(map(_has_call_id, moved))):
        world.late = True  # the agent's span alone shows it


def _has_call_id(span: Span) -> bool:
    return any(value == span.calls[0].id for _, value in span.attributes)


def _slack(world: World, moved: list[Span]) -> float | None:
    """How far a clock may be behind, and no span of some conversation seems to begin before its parent.

    None if some conversation has no such span whose parent has another clock.
    """
    begun = {span.id: span.start for span in world.spans if span not in moved}
    found = {span.conversation: [float("inf")] for span in moved}
    for span in moved:
        if span.parent in begun:
            found[span.conversation].append(span.start - begun[span.parent])
    slack = max(map(min, found.values()), default=float("inf"))
    return slack if slack < float("inf") else None


@fault("uncertainty-rules.md: clocks", Stage.CLOCKS, Hides.NOTHING)
def millisecond_clock(world: World, random: Chance) -> None:
    """The clock tells whole milliseconds."""
    for span in world.spans:
        span.start, span.end = floor(span.start * 1000) / 1000, floor(span.end * 1000) / 1000


@fault("uncertainty-rules.md: clocks", Stage.CLOCKS, Hides.ORDER)
def no_times(world: World, random: Chance) -> None:
    """Some tool spans come without times."""
    for span, own in random.each(world.tool_spans()):
        if own.random() < 0.3:
            span.start = span.end = -BEGIN
