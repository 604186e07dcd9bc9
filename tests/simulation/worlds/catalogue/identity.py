"""Which spans are one call: equal ids, other ids, replays, round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.emitters import CALL_IDS
from tests.simulation.worlds.fault import WITH_CALL_IDS, Hides, Stage, fault
from tests.simulation.worlds.spans import Span
from tests.simulation.worlds.truth import Answer, Call, instant
from tests.simulation.worlds.world import World, copy_of

_MCP = "mcp-python-sdk"


@fault("B9", Stage.SPANS, Hides.ORDER, dialects=WITH_CALL_IDS)
def executed_twice(world: World, random: Chance) -> None:
    """Two workers take the same request of a model, and both execute it: equal ids, at the same time, under agents' spans
    of their own.
    """
    for span in world.some_tool_spans(random, random.choice([1, 2])):
        again = _execution(world, span, random, span.start + 0.001, span.end + 0.001)
        _answer_of(world, span.calls[0]).calls += again.calls
        _may_be_told_again(world, again)
        _below_own_worker(world, again, random)
        _below_own_worker(world, span, random)


@fault("B9", Stage.SPANS, Hides.ORDER, dialects=WITH_CALL_IDS)
def told_twice(world: World, random: Chance) -> None:
    """One execution has two spans of one instrumentation, under different parents, with equal ids and about the same
    times.
    """
    for span, own in random.each(world.some_tool_spans(random, random.choice([1, 2]))):
        again = copy_of(
            span, id=own.getrandbits(63), start=span.start + 0.001, end=span.end - 0.001
        )
        world.spans.append(again)
        _below_own_worker(world, again, random)


@fault("B9", Stage.SPANS, Hides.ORDER, dialects=WITH_CALL_IDS)
def replayed(world: World, random: Chance) -> None:
    """A durable workflow is replayed: a turn's spans are written once more, with other span ids and later times."""
    _write_again(world, random, same_trace=random.random() < 0.5)


def _write_again(world: World, random: Chance, *, same_trace: bool) -> None:
    for root, own in random.each([span for span in world.spans if span.role == "root"]):
        if own.random() < 0.5:
            continue
        turn = [span for span in world.spans if span.trace == root.trace]
        ids = {span.id: random.of(span.id).getrandbits(63) for span in turn}
        trace = root.trace if same_trace else own.getrandbits(128)
        by = root.end - root.start + own.uniform(0.1, 2)
        for span in turn:
            again = copy_of(span, id=ids[span.id], parent=ids.get(span.parent, 0), trace=trace)
            again.start, again.end, again.sent = span.start + by, span.end + by, span.sent + by
            world.spans.append(again)


@fault("B9", Stage.SPANS, Hides.ORDER, dialects=WITH_CALL_IDS)
def made_again(world: World, random: Chance) -> None:
    """An activity is executed once more after it has ended, with the same call id: two executions."""
    for span in world.some_tool_spans(random, 1):
        answer = _answer_of(world, span.calls[0])
        start = max(call.end for call in answer.calls) + 0.001
        again = _execution(world, span, random, start, start + 0.005)
        _may_be_told_again(world, again)
        _executed_after(world, answer, again)


def _may_be_told_again(world: World, again: Span) -> None:
    """With one call id, or within an equal call, nothing on the wire tells a second execution from one that is told twice:
    neither is certain.
    """
    world.vague |= {call.number for call in again.calls}


def _executed_after(world: World, answer: Answer, again: Span) -> None:
    turn = next(t for c in world.conversations for t in c.turns if answer in t.answers)
    turn.answers.insert(turn.answers.index(answer) + 1, Answer(again.calls))


def _asked_for_at_once(world: World, random: Chance) -> None:
    """A model asked for the equal calls at once, each with an id of its own, and the tracer has nested them; where no model's
    answer and no missing id shows that it did not.
    """
    _repeat_below(world, random, at_once=not world.emission.models and _has_ids(world))


@fault("B13d", Stage.SPANS, Hides.ORDER, instead=_asked_for_at_once)
def repeats_below_one_call(world: World, random: Chance) -> None:
    """A call encloses two to five equal calls, one after the other: all of them are made.

    The spans of one call that is tried again are the same: none of those within it is certain by itself. If it has
    failed, and they have no ids, they are its attempts, which failed as well.
    """
    _repeat_below(world, random, at_once=False)


def _repeat_below(world: World, random: Chance, *, at_once: bool) -> None:
    for outer in world.some_tool_spans(random, 1):
        answer = _answer_of(world, outer.calls[0])
        count = random.of(outer.id).choice([2, 3, 5])
        asked = [call for call in answer.calls if call.number not in world.within]
        begun = max(call.start for call in asked or answer.calls if call.start < outer.end)
        long = (outer.end - begun) / (count + 1)
        for place in reversed(range(count)):
            start = begun + (place + 0.5) * long
            again = _execution(world, outer, random, start, start + 0.8 * long)
            again.parent, again.sent = outer.id, outer.sent - outer.end + again.end
            _name(again, f"call_{random.of(again.id).getrandbits(32)}")
            if outer.calls[0].failed and not _has_ids(world):
                again.calls = outer.calls
                continue
            _may_be_told_again(world, again)
            if at_once:
                answer.calls += again.calls
            else:
                _executed_after(world, answer, again)


@fault("B13d", Stage.SPANS, Hides.ORDER, dialects=WITH_CALL_IDS)
def equal_calls_without_parents(world: World, random: Chance) -> None:
    """A call is made three to five times at once, with one call id; the spans have no parents."""
    for span in world.some_tool_spans(random, 1):
        span.parent = 0
        for place in range(random.choice([2, 4])):
            start = span.start + (place + 1) * 0.001
            again = _execution(world, span, random, start, span.end + (place + 1) * 0.001)
            _answer_of(world, span.calls[0]).calls += again.calls
            _may_be_told_again(world, again)


@fault("security.md: id_reused", Stage.SPANS, Hides.ORDER, dialects=WITH_CALL_IDS, models=False)
def one_id_for_all_calls(world: World, random: Chance) -> None:
    """A framework gives all calls one id."""
    for span in world.tool_spans():
        _name(span, "call")
        for call in span.calls:
            call.id = "call"


def _name(span: Span, id_: str) -> None:
    span.attributes = [(k, id_ if k in CALL_IDS else v) for k, v in span.attributes]


@fault("B9", Stage.RUN, Hides.ORDER, models=False)
def ids_by_turn(world: World, random: Chance) -> None:
    """Call ids are numbered anew in each turn (local models): equal ids are different calls."""
    for conversation in world.conversations:
        for turn in conversation.turns:
            for number, call in enumerate(c for a in turn.answers for c in a.calls):
                call.id = f"call_{number}"


@fault("B9", Stage.SPANS, Hides.ORDER)
def mcp_round_trips(world: World, random: Chance) -> None:
    """Tools are on an MCP server (2026-07-28), and have no spans of the framework; some calls take two round trips."""
    _through_mcp(world, random, version="2026-07-28", trips=(1, 1, 2))


@fault("B9", Stage.SPANS, Hides.ORDER)
def mcp_calls(world: World, random: Chance) -> None:
    """Tools are on an MCP server of an older protocol: each call has a span of the client and of the server."""
    _through_mcp(world, random, version="2025-06-18", trips=(1,))


def _through_mcp(world: World, random: Chance, *, version: str, trips: Sequence[int]) -> None:
    """MCP's own spans have no arguments. Of two servers, each has some of the tools. What a tool calls is below its server's span.

    A server knows what it answers: its span has status error where the result says `isError`, whatever the framework writes.
    """
    for span, own in random.each(world.tool_spans()):
        if span.scope == _MCP or (
            _has_two_servers(world) and random.of("server", span.calls[0].tool).random() < 0.5
        ):
            continue
        world.spans.remove(span)
        call = span.calls[0]
        world.vague.add(call.number)
        count, ids = (
            random.of("trips", call.number).choice(trips),
            [
                (k, v)
                for k, v in span.attributes
                if k.endswith(("conversation.id", "session.id", "sessionId"))
            ],
        )
        long = (span.end - span.start) / count
        for trip in range(count):
            start, end = span.start + trip * long, span.start + (trip + 0.9) * long
            request_id = str(2 * call.number + trip)
            client = copy_of(
                span, name=f"MCP send tools/call {call.tool}", id=own.getrandbits(63), kind=3, start=start, end=end,
                scope=_MCP, version="", sent=span.sent - span.end + end,
                attributes=[("mcp.method.name", "tools/call"), ("jsonrpc.request.id", request_id), *ids],
            )  # fmt: skip
            server = copy_of(
                client, name=f"tools/call {call.tool}", id=own.getrandbits(63), parent=client.id, kind=2,
                start=start + 0.001, end=end - 0.001, sent=client.sent + own.uniform(-0.01, 0.01),
                attributes=[
                    ("mcp.method.name", "tools/call"), ("mcp.protocol.version", version),
                    ("jsonrpc.request.id", request_id), ("gen_ai.operation.name", "execute_tool"),
                    ("gen_ai.tool.name", call.tool), *ids,
                ],
            )  # fmt: skip
            client.status = 0
            if trip + 1 < count:
                server.status = 0
            elif call.failed and world.emission.failures == "result":
                server.status = 2
            world.spans += [client, server]
            for inner in world.spans:
                if inner.parent == span.id and start <= inner.start:
                    inner.parent = server.id


def _has_two_servers(world: World) -> bool:
    faults = world.plan.faults if world.plan is not None else ()
    return sum(each.name in {"mcp_calls", "mcp_round_trips"} for each in faults) > 1


def _has_ids(world: World) -> bool:
    """Whether tools' spans have the ids of their calls."""
    return world.emission.dialect in WITH_CALL_IDS


def _execution(world: World, span: Span, random: Chance, start: float, end: float) -> Span:
    """The call of a span is made once more: a span, and a call that the truth is to have."""
    number = max(call.number for call in world.calls()) + 1
    start, end = instant(start), instant(end)
    again = copy_of(
        span,
        id=random.of(span.id, start - span.start).getrandbits(63),
        start=start,
        end=end,
        sent=span.sent + end - span.end,
    )
    again.calls = [replace(span.calls[0], number=number, start=start, end=end)]
    world.spans.append(again)
    return again


def _answer_of(world: World, call: Call) -> Answer:
    return next(a for c in world.conversations for a in c.answers() if call in a.calls)


def _below_own_worker(world: World, span: Span, random: Chance) -> None:
    """An agent's span of its own above the span."""
    attributes = [
        (k, v)
        for k, v in span.attributes
        if k.endswith(("conversation.id", "session.id", "sessionId"))
    ]
    worker = copy_of(
        span, name="invoke_agent shop", id=random.of("worker", span.id).getrandbits(63), role="worker",
        attributes=[("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", "shop"), *attributes],
        start=span.start - 0.001, end=span.end + 0.001, sent=span.sent + 0.002,
    )  # fmt: skip
    worker.calls, worker.status = [], 0
    span.parent = worker.id
    world.spans.append(worker)


@fault("rig#1360", Stage.SPANS, Hides.ORDER)
def told_in_two_traces(world: World, random: Chance) -> None:
    """A tool has a span of its own, beside the framework's: without context, so that it is a root, and has no ids."""
    world.complete = False
    for span, draws in random.each(world.some_tool_spans(random, 2)):
        own = copy_of(span, id=draws.getrandbits(63), trace=draws.getrandbits(128), parent=0)
        own.start, own.end, own.sent = span.start + 0.001, span.end - 0.001, span.sent - 0.001
        own.attributes = [
            (k, v)
            for k, v in span.attributes
            if k not in CALL_IDS
            and not k.endswith(("conversation.id", "session.id", "sessionId"))
        ]
        world.spans.append(own)


@fault("temporal sdk-java#3089", Stage.SPANS, Hides.ORDER)
def told_again_with_a_later_start(world: World, random: Chance) -> None:
    """A workflow is evicted while a call runs: its span is exported, and again under the same ids at its end, begun anew."""
    for span in world.some_tool_spans(random, 2):
        long = span.end - span.start
        early = copy_of(
            span, end=span.start + long / 3, status=0, sent=span.sent - long * 2 / 3
        )
        span.start += long / 2
        world.spans.append(early)


@fault("open-webui#28305", Stage.RUN, Hides.ORDER, dialects=WITH_CALL_IDS, models=False)
def ids_by_answer(world: World, random: Chance) -> None:
    """Call ids are the tool's name and its place in the answer (Kimi)."""
    for conversation in world.conversations:
        for answer in conversation.answers():
            for place, call in enumerate(answer.calls):
                call.id = f"{call.tool}:{place}"


@fault("oh-my-pi#2055", Stage.RUN, Hides.ORDER, dialects=WITH_CALL_IDS, models=False)
def one_id_for_an_answer(world: World, random: Chance) -> None:
    """All calls of one answer have one id."""
    for conversation in world.conversations:
        for answer in conversation.answers():
            for call in answer.calls:
                call.id = answer.calls[0].id


@fault("litellm#10588", Stage.SPANS, Hides.ORDER, dialects=WITH_CALL_IDS)
def written_twice(world: World, random: Chance) -> None:
    """Two callbacks write the same spans: tools' spans come twice, with other span ids and nothing else different."""
    for span, own in random.each(world.some_tool_spans(random, 3)):
        again = copy_of(span, id=own.getrandbits(63), sent=span.sent + own.uniform(0, 0.01))
        world.spans.append(again)
