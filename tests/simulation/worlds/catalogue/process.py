"""The monitor's own process: when it starts, when it is away. `worlds.outages` has what only real processes show."""

from __future__ import annotations

from itertools import zip_longest

from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.fault import Hides, Stage, fault
from tests.simulation.worlds.world import World


def _between_calls(world: World, random: Chance) -> float:
    """A moment while the world is under way."""
    times = [span.sent for span in world.spans] or [0.0]
    return random.uniform(min(times), max(times))


@fault("B4", Stage.PROCESS, Hides.ORDER)
def started_in_mid_session(world: World, random: Chance) -> None:
    """The monitor starts while sessions run; what was exported before found nobody."""
    world.complete = False
    start = _between_calls(world, random)
    world.started = [start]
    _lose_before(world, 0, start)


@fault("uncertainty.md: the first 30 minutes", Stage.PROCESS, Hides.ORDER)
def started_just_before(world: World, random: Chance) -> None:
    """The monitor starts a second before the first session; nothing is lost."""
    world.complete = False
    world.started = [-random.uniform(0.5, 60)]


@fault(
    "Must hold: a new user's first violation",
    Stage.PROCESS,
    Hides.NOTHING,
    models=True,
)
def started_just_before_first_requests(world: World, random: Chance) -> None:
    """The same, and all messages of models are on the wire: their first requests prove that sessions are new."""
    world.complete = False
    world.started = [-random.uniform(0.5, 60)]


@fault("B4", Stage.PROCESS, Hides.ORDER)
def restarted_and_lost(world: World, random: Chance) -> None:
    """The process is restarted without a journal; what comes meanwhile is lost."""
    world.complete = False
    begun = _between_calls(world, random)
    ended = begun + random.choice([0.1, 0.8, 5.0])
    world.started.append(ended)
    _lose_before(world, begun, ended)
    _forget_what_no_process_heard(world, ended)


@fault("B4", Stage.PROCESS, Hides.ORDER)
def restarted_and_retried(world: World, random: Chance) -> None:
    """The process is restarted without a journal; senders send again what it did not take."""
    world.complete, world.late = False, True
    begun = _between_calls(world, random)
    ended = begun + random.choice([0.1, 0.8, 5.0])
    world.started.append(ended)
    for span in world.spans:
        if begun <= span.sent < ended:
            span.sent = ended + random.uniform(0, 3)
    _forget_what_no_process_heard(world, ended)


def _forget_what_no_process_heard(world: World, restarted: float) -> None:
    """Of a call without a span, a request and its result tell: one process heard the one, and without a journal another the other.

    The first knows of no call that was made; to the second it is one of those that were judged before the start. So it is if
    nobody heard the result.
    """
    told = {call.number for span in world.tool_spans() for call in span.calls}
    for conversation in world.conversations:
        models = [
            span
            for span in world.spans
            if span.role == "model" and span.conversation == conversation.id
        ]
        models.sort(key=lambda span: span.start)
        for asks, gives in zip_longest(models, models[1:]):
            if asks.sent < restarted and (gives is None or restarted <= gives.sent):
                world.gone |= {call.number for call in asks.calls} - told


@fault("B5", Stage.PROCESS, Hides.ORDER)
def down_and_lost(world: World, random: Chance) -> None:
    """The process is down for a while, and goes on from its journal; what came meanwhile is lost."""
    world.complete = False
    begun, ended = _down(world, random)
    world.gone |= _lose_before(world, begun, ended)


@fault("B5", Stage.PROCESS, Hides.ORDER)
def down_and_retried(world: World, random: Chance) -> None:
    """The same; senders send again what was not taken."""
    world.late = True
    begun, ended = _down(world, random)
    for span in world.spans:
        if begun <= span.sent < ended:
            span.sent = ended + random.uniform(0, 3)


def _down(world: World, random: Chance) -> tuple[float, float]:
    begun = _between_calls(world, random)
    ended = begun + random.choice([0.1, 0.8, 5.0, 60.0])
    world.down.append((begun, ended))
    return begun, ended


@fault("uncertainty-rules.md: sessions that go on", Stage.ARRIVAL, Hides.NOTHING)
def resumed_after_its_end(world: World, random: Chance) -> None:
    """A conversation rests for longer than sessions live, and goes on."""
    by = random.uniform(1900, 7200)
    for conversation in world.conversations:
        since = max(turn.start for turn in conversation.turns) - 0.001
        for span in world.spans:
            if span.conversation == conversation.id and span.start >= since:
                span.start, span.end, span.sent = span.start + by, span.end + by, span.sent + by


def _lose_before(world: World, begun: float, ended: float) -> set[int]:
    """Nobody takes the spans of a time; returns the calls that lost theirs, and those of whose requests alone a span could tell."""
    lost = [span for span in world.spans if begun <= span.sent < ended]
    world.spans = [span for span in world.spans if span not in lost]
    calls = {call.number for span in lost for call in span.calls}
    calls -= {call.number for span in world.tool_spans() for call in span.calls}
    told = {n for span in world.spans for n in (*span.given, *[c.number for c in span.calls])}
    world.unseen |= calls & told
    world.gone |= calls - told
    return calls
