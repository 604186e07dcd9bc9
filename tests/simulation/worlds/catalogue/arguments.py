"""Arguments and names that are not on the wire, or not clearly."""

from __future__ import annotations

import json
from random import Random

from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.emitters import ARGUMENTS, NAMES
from tests.simulation.worlds.fault import Hides, Stage, fault
from tests.simulation.worlds.spans import Span
from tests.simulation.worlds.specs import LIMIT
from tests.simulation.worlds.world import World


def _some(world: World, random: Chance, share: float = 0.4) -> list[Span]:
    return [
        span for span, own in random.each(world.tool_spans(), "some") if own.random() < share
    ]


def _rewrite(world: World, span: Span, text: str | None) -> None:
    """Other text, or none, in place of the arguments; what they are is not clear then."""
    world.vague |= {call.number for call in span.calls}
    span.attributes = [
        (k, text if k in ARGUMENTS else v)
        for k, v in span.attributes
        if k not in ARGUMENTS or text is not None
    ]


def _other_value(random: Random, key: str) -> int:
    return random.choice([0, 1, 9] if key == "k" else [1, LIMIT * 5])


def _true_text(span: Span) -> str:
    return json.dumps(span.calls[0].arguments)


@fault("B13", Stage.SPANS, Hides.ORDER, models=False)
def arguments_missing(world: World, random: Chance) -> None:
    """Some calls have no arguments on the wire."""
    for span in _some(world, random):
        _rewrite(world, span, None)


@fault("B12", Stage.SPANS, Hides.ORDER, models=False)
def arguments_cut(world: World, random: Chance) -> None:
    """A limit on the length of values cuts some arguments."""
    for span, own in random.each(_some(world, random)):
        text = _true_text(span)
        _rewrite(world, span, text[: own.randrange(1, len(text))])


@fault("B12", Stage.SPANS, Hides.ORDER, models=False)
def arguments_as_models_write_them(world: World, random: Chance) -> None:
    """Arguments are fenced, written twice as JSON, followed by text, or empty."""
    for span, own in random.each(_some(world, random)):
        text = _true_text(span)
        odd = (f"```json\n{text}\n```", json.dumps(text), f"{text} Done.", "", f"{text}{text}")
        _rewrite(world, span, own.choice(odd))


@fault("B13d", Stage.SPANS, Hides.ORDER, models=False)
def arguments_twice_in_one_text(world: World, random: Chance) -> None:
    """The key that a limit is on stands twice in the text: parsers differ in which one they take."""
    for span, own in random.each(_some(world, random)):
        key, true = next(iter(span.calls[0].arguments.items()))
        other = _other_value(own, key)
        pairs = [f'"{key}": {true}', f'"{key}": {other}']
        own.shuffle(pairs)
        _rewrite(world, span, f'{{{pairs[0]}, "to": "bob", {pairs[1]}}}')


@fault("B13d", Stage.SPANS, Hides.ORDER, models=False)
def arguments_under_two_conventions(world: World, random: Chance) -> None:
    """A second instrumentation writes other arguments on the same span."""
    for span, own in random.each(_some(world, random)):
        mine = next((k for k in ARGUMENTS if span.get(k) is not None), None)
        other = "input.value" if mine != "input.value" else "gen_ai.tool.call.arguments"
        world.vague |= {call.number for call in span.calls}
        key = next(iter(span.calls[0].arguments))
        text = json.dumps({**span.calls[0].arguments, key: _other_value(own, key)})
        extra = [("openinference.span.kind", "TOOL"), ("tool.name", span.calls[0].tool)]
        if other != "input.value":
            extra = [
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", span.calls[0].tool),
            ]
        pairs = [*extra, (other, text)]
        span.attributes = (
            pairs + span.attributes if own.random() < 0.5 else span.attributes + pairs
        )


@fault("B13d", Stage.SPANS, Hides.ORDER, models=False)
def odd_names(world: World, random: Chance) -> None:
    """Some tools are named with a prefix, in other letters, or with blanks; the tool that runs is the plain one."""
    for span, own in random.each(_some(world, random)):
        tool = span.calls[0].tool
        name = own.choice(
            [
                f"functions.{tool}",
                f"default_api.{tool}",
                tool.upper(),
                f" {tool}",
                f"{tool}\u200b",
            ]
        )
        world.vague |= {call.number for call in span.calls}
        span.attributes = [(k, name if k in NAMES else v) for k, v in span.attributes]
        span.name = span.name.replace(tool, name)


@fault("B13d", Stage.SPANS, Hides.NOTHING)
def crowded(world: World, random: Chance) -> None:
    """The attributes of the call stand behind four thousand others."""
    for span in world.some_tool_spans(random, 1):
        span.attributes = [(f"k{number}", number) for number in range(4_100)] + span.attributes


@fault("coverage.md: coverage", Stage.SPANS, Hides.NOTHING, models=False)
def numbers_as_text(world: World, random: Chance) -> None:
    """Some numbers under a limit are written as text, and converted by the tool."""
    for span in _some(world, random):
        arguments = span.calls[0].arguments
        if "n" in arguments:
            text = json.dumps({**arguments, "n": str(arguments["n"])})
            span.attributes = [(k, text if k in ARGUMENTS else v) for k, v in span.attributes]
