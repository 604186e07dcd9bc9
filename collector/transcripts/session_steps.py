"""A session's spans as steps: the tree flattened in time order, and each message once.

Idea: model spans repeat the whole conversation each turn. A message of a span is new if the span holds it more
often than the session has shown it so far. What a model answers is always new, unless the span stands above
another model's span, whose answer it hands on. Calls are those of the judgement objects: no span decides here
what a tool call is.

Example: two model spans hold [system, user] -> a, and [system, user, a, result] -> b. The steps are system, user,
a, b; the result stands with its call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from collector.decode.span import Span
from collector.dialects.choose import AGENT_KEYS, SESSION_KEYS, Plans
from collector.dialects.read import agent_of
from collector.dialects.values.messages import (
    ASSISTANT,
    TOOL,
    AskedCall,
    Conversation,
    SpanMessage,
    conversation,
    json_text,
)
from collector.transcripts.call_steps import (
    NOT_RECORDED,
    call_steps,
    raw_arguments,
    result_in,
)
from collector.transcripts.step import TranscriptStep

__all__ = ["session_steps"]

_ROOT_INPUTS: Final = ("input.value", "gen_ai.task.input", "traceloop.entity.input")
_ROOT_OUTPUTS: Final = ("output.value", "gen_ai.task.output", "traceloop.entity.output")

SpanKey = tuple[bytes, bytes]


@dataclass(slots=True)
class _Node:
    """A span, and what was read of it."""

    span: Span
    attributes: Mapping[str, Any]
    talk: Conversation
    agent: str
    has_talk_below: bool = False


def session_steps(
    judged: Sequence[Mapping[str, Any]], spans: Iterable[Span]
) -> list[TranscriptStep]:
    """The steps of one session.

    Args:
        judged: its judgement objects, with steps and arguments.
        spans: of its traces, in any order; a span that comes twice counts once.

    Returns:
        Steps in time order: each tool call of the judgement objects, messages and definitions of tools.
    """
    nodes = _nodes(spans)
    calls = [_with_span(step, nodes) for step in call_steps(judged)]
    messages = list(_Messages(nodes, calls).steps())
    calls = _with_answers(calls, nodes)
    found = [*messages, *calls]
    return sorted(found, key=lambda step: step.at_ns)


def _nodes(spans: Iterable[Span]) -> dict[SpanKey, _Node]:
    plans = Plans(SESSION_KEYS, frozenset(), AGENT_KEYS)
    found: dict[SpanKey, _Node] = {}
    for span in sorted(spans, key=lambda span: (span.start_ns, span.end_ns, span.span_id)):
        plan = plans.of(span)
        attributes = span.attributes()
        agent = agent_of(span, plan) if plan.agents else ""
        talk = conversation(attributes, span.span_events())
        found[span.trace_id, span.span_id] = _Node(span, attributes, talk, agent)
    for node in found.values():
        if node.talk.outputs:
            for above in _above(node, found):
                above.has_talk_below = True
    return found


def _above(node: _Node, nodes: Mapping[SpanKey, _Node]) -> Iterator[_Node]:
    """The spans above one; a circle of parents ends."""
    seen = {node.span.span_id}
    parent = nodes.get((node.span.trace_id, node.span.parent_span_id))
    while parent is not None and parent.span.span_id not in seen:
        yield parent
        seen.add(parent.span.span_id)
        parent = nodes.get((parent.span.trace_id, parent.span.parent_span_id))


def _agent(node: _Node, nodes: Mapping[SpanKey, _Node]) -> str:
    """The agent that a span is of: its own name, or the nearest one above."""
    return node.agent or next((each.agent for each in _above(node, nodes) if each.agent), "")


def _with_span(step: TranscriptStep, nodes: Mapping[SpanKey, _Node]) -> TranscriptStep:
    """A call with what its span has: the agent that made it, and its result."""
    node = nodes.get((bytes.fromhex(step.trace_id), bytes.fromhex(step.span_id)))
    if node is None:
        return step
    return replace(
        step,
        text=raw_arguments(node.attributes) if step.text == NOT_RECORDED else step.text,
        agent=_agent(node, nodes) or step.agent,
        result=result_in(node.attributes),
    )


def _with_answers(
    calls: Sequence[TranscriptStep], nodes: Mapping[SpanKey, _Node]
) -> list[TranscriptStep]:
    """Calls whose spans have no result get that of the message that answers them, if there is one."""
    answers: dict[str, str] = {}
    asked: dict[str, AskedCall] = {}
    for node in nodes.values():
        for message in (*node.talk.inputs, *node.talk.outputs):
            if message.role == TOOL and message.call_id:
                answers[message.call_id] = message.text
            asked.update((each.call_id, each) for each in message.asked if each.call_id)
    left = {id_: each for id_, each in asked.items() if id_ in answers}
    return [_answered(call, left, answers) for call in calls]


def _answered(
    call: TranscriptStep, asked: dict[str, AskedCall], answers: Mapping[str, str]
) -> TranscriptStep:
    if call.result is not None:
        return call
    fits = (
        id_
        for id_, each in asked.items()
        if each.tool == call.name and _alike(each.arguments, call.text)
    )
    found = next(fits, None)
    if found is None:
        return call
    del asked[found]
    return replace(call, result=answers[found])


def _alike(asked: str, made: str) -> bool:
    return made == NOT_RECORDED or "".join(asked.split()) == "".join(made.split())


class _Messages:
    """Goes through the model spans in time order, and keeps what is new."""

    def __init__(self, nodes: Mapping[SpanKey, _Node], calls: Sequence[TranscriptStep]) -> None:
        self._nodes = nodes
        self._shown: Counter[tuple[str, str]] = Counter()
        self._shown_in: dict[tuple[str, str], bytes] = {}
        """Trace in which a message was shown last."""
        self._tools: set[str] = set()
        self._called = {call.name for call in calls}
        self._results = {call.result for call in calls if call.result}
        self._asked = {
            each.call_id: each.tool
            for node in nodes.values()
            for message in (*node.talk.inputs, *node.talk.outputs)
            for each in message.asked
            if each.call_id
        }

    def steps(self) -> Iterator[TranscriptStep]:
        talking = [node for node in self._nodes.values() if node.talk]
        if not any(node.talk.inputs or node.talk.outputs for node in talking):
            yield from self._of_roots()
        events = [(node.span.start_ns, 0, place) for place, node in enumerate(talking)]
        events += [
            (max(node.span.end_ns, node.span.start_ns), 1, place)
            for place, node in enumerate(talking)
        ]
        held = [Counter[tuple[str, str]]() for _ in talking]
        for _, end, place in sorted(events):
            node = talking[place]
            if end:
                yield from self._outputs(node, held[place])
            else:
                yield from self._offered(node)
                yield from self._inputs(node, held[place])

    def _of_roots(self) -> Iterator[TranscriptStep]:
        """Where no model span is recorded, what the roots were given and what they gave back."""
        for node in self._nodes.values():
            if (node.span.trace_id, node.span.parent_span_id) in self._nodes:
                continue
            given = _first(node.attributes, _ROOT_INPUTS)
            gave = _first(node.attributes, _ROOT_OUTPUTS)
            if given:
                yield self._step(node, SpanMessage("user", given), node.span.start_ns)
            if gave and gave not in self._results:
                yield self._step(node, SpanMessage(ASSISTANT, gave), node.span.end_ns)

    def _offered(self, node: _Node) -> Iterator[TranscriptStep]:
        new = [each for each in dict.fromkeys(node.talk.tools) if each not in self._tools]
        self._tools.update(new)
        if new:
            step = self._step(node, SpanMessage("", "\n".join(new)), node.span.start_ns)
            yield replace(step, kind="tools", name="tools")

    def _inputs(self, node: _Node, held: Counter[tuple[str, str]]) -> Iterator[TranscriptStep]:
        fresh = self._begins_a_turn(node)
        for message in node.talk.inputs:
            key = (message.role, message.text)
            held[key] += 1
            again = fresh and message.role == "user" and self._is_elsewhere(key, node)
            if held[key] > self._shown[key] or again:
                yield from self._show(node, message, node.span.start_ns)

    def _begins_a_turn(self, node: _Node) -> bool:
        """True for the uppermost span that was given messages, if these are no history."""
        if any(each.role in {ASSISTANT, TOOL} for each in node.talk.inputs):
            return False
        return not any(each.talk.inputs for each in _above(node, self._nodes))

    def _is_elsewhere(self, key: tuple[str, str], node: _Node) -> bool:
        """True if a message was shown in an earlier trace alone: a turn may say what another one said."""
        return self._shown_in.get(key, node.span.trace_id) != node.span.trace_id

    def _outputs(self, node: _Node, held: Counter[tuple[str, str]]) -> Iterator[TranscriptStep]:
        at = max(node.span.end_ns, node.span.start_ns)
        for message in node.talk.outputs:
            key = (message.role, message.text)
            held[key] += 1
            if not node.has_talk_below or held[key] > self._shown[key]:
                yield from self._show(node, message, at)

    def _show(self, node: _Node, message: SpanMessage, at_ns: int) -> Iterator[TranscriptStep]:
        key = (message.role, message.text)
        self._shown[key] += 1
        self._shown_in[key] = node.span.trace_id
        if message.role == TOOL and self._stands_with_call(message):
            return
        unmade = [each for each in message.asked if each.tool not in self._called]
        asks = [f"asks for {each.tool} {each.arguments}".rstrip() for each in unmade]
        text = "\n".join(filter(None, (message.text, *asks)))
        if text:
            yield self._step(node, replace(message, text=text), at_ns)

    def _stands_with_call(self, message: SpanMessage) -> bool:
        """True for a result that is shown with its call."""
        return message.text in self._results or self._asked.get(message.call_id) in self._called

    def _step(self, node: _Node, message: SpanMessage, at_ns: int) -> TranscriptStep:
        return TranscriptStep(
            kind="message",
            name=message.role,
            text=message.text,
            agent=_agent(node, self._nodes),
            span_id=node.span.span_id.hex(),
            trace_id=node.span.trace_id.hex(),
            at_ns=at_ns,
        )


def _first(attributes: Mapping[str, Any], keys: Sequence[str]) -> str:
    found = (attributes.get(key) for key in keys)
    return next((json_text(value) for value in found if value), "")
