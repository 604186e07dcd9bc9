"""Where a span belongs: trace context, session ids, names of conversations."""

from __future__ import annotations

from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.emitters import DIALECTS
from tests.simulation.worlds.fault import Hides, Stage, fault
from tests.simulation.worlds.spans import Span
from tests.simulation.worlds.world import World, copy_of

ID_KEYS = tuple({dialect.id_key for dialect in DIALECTS.values()})


def without_id(span: Span) -> None:
    span.attributes = [(k, v) for k, v in span.attributes if k not in ID_KEYS]


@fault("B1", Stage.SPANS, Hides.ORDER)
def context_lost(world: World, random: Chance) -> None:
    """Tools run in threads without the trace context: each tool span is the root of a trace of its own, without an id."""
    world.complete = False
    for span, own in random.each(world.tool_spans()):
        span.trace, span.parent = own.getrandbits(128), 0
        without_id(span)


@fault("B1", Stage.SPANS, Hides.ORDER, models=False)
def a_trace_a_call(world: World, random: Chance) -> None:
    """A worker makes each call in a trace of its own, below a span of the worker; no ids, no models."""
    world.complete = False
    world.spans = world.tool_spans()
    for span, own in random.each(list(world.spans)):
        without_id(span)
        span.trace, span.parent = own.getrandbits(128), own.getrandbits(63)
        job = copy_of(
            span, name="run job", id=span.parent, parent=0, role="job", attributes=[("job.queue", "tools")],
            start=span.start - 0.001, end=span.end + 0.001, sent=span.sent + 0.002, scope="worker",
        )  # fmt: skip
        job.calls, job.status = [], 0
        world.spans.append(job)


@fault("B1", Stage.SPANS, Hides.UNTOLD)
def context_lost_with_ids(world: World, random: Chance) -> None:
    """Tools lose the trace context, and carry the conversation's id; that calls are siblings is hidden."""
    for span, own in random.each(world.tool_spans()):
        span.trace, span.parent = own.getrandbits(128), 0
    # Another entry may leave tools without ids: that every session is seen whole is not promised then.
    named = all(
        any(key in ID_KEYS for key, _ in span.attributes) for span in world.tool_spans()
    )
    world.complete = world.complete and named


@fault("B2", Stage.EMISSION, Hides.NOTHING, models=True)
def id_on_parents(world: World, random: Chance) -> None:
    """Conversation ids are on the spans of models and agents alone; all of a turn is exported within 0.4 s."""
    world.emission.ids, world.emission.batch = "above", 0.3


@fault("B2", Stage.ARRIVAL, Hides.ORDER)
def id_on_parents_later(world: World, random: Chance) -> None:
    """The id is on the agent's span alone, which comes 1 to 50 s after the tool's: another tool runs for so long."""
    for span, own in random.each(world.spans):
        if span.role != "root":
            without_id(span)
        else:
            later = own.uniform(1, 50)
            span.end, span.sent = span.end + later, span.sent + later


@fault("B2", Stage.ARRIVAL, Hides.NOTHING)
def id_on_parents_soon(world: World, random: Chance) -> None:
    """The id is on the agent's span alone, which comes up to 8 s after the tool's, within the window."""
    for span, own in random.each(world.spans):
        if span.role != "root":
            without_id(span)
        else:
            later = own.uniform(1, 8)
            span.end, span.sent = span.end + later, span.sent + later


@fault("B2", Stage.ARRIVAL, Hides.ORDER)
def id_never(world: World, random: Chance) -> None:
    """The agent is killed in some turns, not in all: the span with the conversation's id is never exported."""
    world.complete = False
    roots = [span for span in world.spans if span.role == "root"]
    ended = {root.trace for root, own in random.each(roots) if own.random() < 0.5}
    ended = ended or {root.trace for root in roots[:1]}
    for span in world.spans:
        if span.role != "root":
            without_id(span)
    # Where no span at all names a conversation, a trace is one: so the first turn's does.
    world.spans = [span for span in world.spans if span.role != "root" or span.trace in ended]


@fault("B2", Stage.SPANS, Hides.ORDER, models=True)
def no_id_but_history(world: World, random: Chance) -> None:
    """No span has an id; the messages that models are given show earlier turns."""
    world.complete = False
    for span in world.spans:
        without_id(span)


@fault("B3", Stage.SPANS, Hides.NOTHING)
def better_name_above(world: World, random: Chance) -> None:
    """The user's session is named on a web request's span above the agent's, each turn has a conversation id of its own
    below, and the setting says that the session's name is the better one.
    """
    world.session_keys = ("session.id", "gen_ai.conversation.id")
    for root, own in random.each([span for span in world.spans if span.role == "root"]):
        run_id = f"run-{own.getrandbits(32)}"
        for span in world.spans:
            if span.trace == root.trace:
                without_id(span)
                span.attributes.append(("gen_ai.conversation.id", run_id))
        _below_web_request(world, root, ("session.id", root.conversation), random)


@fault("B3", Stage.SPANS, Hides.NOTHING)
def worse_name_above(world: World, random: Chance) -> None:
    """The browser's session, which several conversations share, is named above; conversation ids are the better names."""
    world.session_keys = None  # by default they are; another entry may have set it otherwise
    for root in [span for span in world.spans if span.role == "root"]:
        for span in world.spans:
            if span.trace == root.trace:
                without_id(span)
                span.attributes.append(("gen_ai.conversation.id", root.conversation))
        _below_web_request(world, root, ("session.id", "browser-1"), random)


def _below_web_request(world: World, root: Span, name: tuple[str, str], random: Chance) -> None:
    root.parent = random.of(root.id).getrandbits(63)
    web = copy_of(
        root, name="POST /chat", id=root.parent, parent=0, role="web", attributes=[name], kind=2, scope="web",
        version="", start=root.start - 0.01, end=root.end + 0.01, sent=root.sent + 0.02,
    )  # fmt: skip
    world.spans.append(web)


@fault("B2", Stage.SPANS, Hides.NOTHING)
def another_agent_in_the_trace(world: World, random: Chance) -> None:
    """Below each turn, an agent of another service works, with spans and a conversation of its own."""
    for root, own in random.each([span for span in world.spans if span.role == "root"]):
        for number in range(own.choice([1, 2])):
            attributes = [
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.agent.name", "bank"),
                ("gen_ai.tool.name", own.choice(["transfer", "balance"])),
                ("gen_ai.tool.call.id", f"bank-{root.id}-{number}"),
                ("gen_ai.tool.call.arguments", "{}"),
                ("gen_ai.conversation.id", f"bank-{root.conversation}"),
            ]
            other = copy_of(
                root, name="execute_tool transfer", id=own.getrandbits(63), parent=root.id, role="other",
                attributes=attributes, start=root.start + 0.01, end=root.start + 0.02, service="bank",
                sent=root.sent + own.uniform(-0.1, 0.1), scope="agent", version="",
            )  # fmt: skip
            world.spans.append(other)


@fault("design: sub-agents", Stage.SPANS, Hides.NOTHING)
def sub_agents(world: World, random: Chance) -> None:
    """Some answers are worked on by a sub-agent of the same service: its span stands between the agent's and the tools'."""
    for conversation in world.conversations:
        for answer in conversation.answers():
            if random.of(answer.calls[0].number).random() < 0.4:
                spans = [s for s in world.tool_spans() if s.calls[0] in answer.calls]
                if spans:
                    _below_sub_agent(world, spans, random)


def _below_sub_agent(world: World, spans: list[Span], random: Chance) -> None:
    sub = copy_of(
        spans[0], name="invoke_agent helper", id=random.of(spans[0].id).getrandbits(63), role="sub",
        attributes=[("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", "helper")],
        start=min(span.start for span in spans) - 0.002, end=max(span.end for span in spans) + 0.002,
        sent=max(span.sent for span in spans) + 0.003,
    )  # fmt: skip
    sub.attributes += [(k, v) for k, v in spans[0].attributes if k in ID_KEYS]
    sub.calls, sub.status = [], 0
    for span in spans:
        span.parent = sub.id
    world.spans.append(sub)


@fault("design: a turn is a trace", Stage.SPANS, Hides.NOTHING)
def one_trace_for_all_turns(world: World, random: Chance) -> None:
    """All turns of a conversation are in one trace."""
    traces: dict[str, int] = {}
    for span in world.spans:
        span.trace = traces.setdefault(span.conversation, span.trace)


@fault("uncertainty-rules.md: agent names", Stage.SPANS, Hides.NOTHING)
def agent_named_last(world: World, random: Chance) -> None:
    """Only the agent's own span, which comes last, has its name."""
    for span in world.spans:
        if span.role != "root":
            span.attributes = [
                (k, v)
                for k, v in span.attributes
                if k not in {"gen_ai.agent.name", "ai.telemetry.functionId"}
            ]


@fault("mastra#18875", Stage.SPANS, Hides.NOTHING)
def later_turns_without_id(world: World, random: Chance) -> None:
    """All turns are in one trace, and only the first one's spans have the conversation's id."""
    one_trace_for_all_turns(world, random)
    for conversation in world.conversations:
        for span in world.spans:
            if span.conversation == conversation.id and span.start >= conversation.turns[0].end:
                without_id(span)


@fault("vscode#325207", Stage.SPANS, Hides.ORDER, models=True)
def turn_id_under_the_same_name(world: World, random: Chance) -> None:
    """Models' spans have the id of the turn where the agent's span has the conversation's; tools' spans have none."""
    world.complete = False
    keys = {
        span.trace: f"request-{random.of(span.trace).getrandbits(32)}" for span in world.spans
    }
    for span in world.spans:
        if span.role == "tool":
            without_id(span)
        elif span.role == "model":
            span.attributes = [
                (k, keys[span.trace] if k in ID_KEYS else v) for k, v in span.attributes
            ]
