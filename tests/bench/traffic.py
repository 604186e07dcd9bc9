"""Generated traffic for the benchmarks: requests as agents send them, with known outcomes.

Sessions of four instrumentations are in flight at once, each one with two calls a turn and a trace
for each turn; 40 % tool spans, 40 % model spans and 20 % agent spans. A share of the spans comes
late: after spans of the same session that began later. What must come of it all is worked out here
from the calls that were sent, in the order of their beginnings, and from the spec's own table.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.bench.speakers import SPEAKERS, Call, Said, Speaker, Talk, prose
from tests.bench.wire import group, request, span

__all__ = [
    "GROUPS",
    "LATE",
    "ROVER",
    "SECOND",
    "Traffic",
    "call_of",
    "generate",
    "harms",
    "is_harmful",
]

ROVER = Path(__file__).parents[2] / "dfa_specs" / "farm_rover.yaml"
"""The spec that all sessions bind to."""

SECOND = 1_000_000_000
IN_FLIGHT = 200
TURN = 2
"""Calls a turn."""

LATE = 0.08
"""The share of model and tool spans that are held back, by one to three places of their session: so
that one span in twenty comes after one that began later."""

HELD_MAX = 3

RUNS = (
    ("unlock_safety", "move", "scan", "open_valve", "water", "log"),
    ("unlock_safety", "move", "scan", "open_valve", "water", "log"),
    ("unlock_safety", "log", "move", "move", "scan", "open_valve", "water", "log"),
    ("unlock_safety", "move", "scan", "open_valve", "scan", "water", "log", "log"),
    ("unlock_safety", "move", "scan", "scan", "open_valve", "water"),
    ("unlock_safety", "move", "scan", "open_valve", "water", "log"),
    ("unlock_safety", "move", "water", "scan", "open_valve", "water", "log", "log"),
    ("unlock_safety", "move", "scan", "open_valve", "water", "water", "log", "log"),
)
"""What agents do; one run in four does harm."""

_SPEC = yaml.safe_load(ROVER.read_text())


class Traffic(NamedTuple):
    """Requests, and what must come of them."""

    requests: list[bytes]
    spans: int
    calls: int
    harmful: int
    late: int
    """Model and tool spans that come after one of their session that began later."""


class _Sent(NamedTuple):
    """A span, and the known facts about it."""

    session: int
    trace: bytes
    begin: int
    tool: str
    """"" for a span that is no call."""
    tells: bool
    """It carries the session's id."""
    around: bool
    """An agent's span: it begins first and comes last."""
    speaker: int
    encoded: bytes


def generate(
    spans_a_request: int,
    requests: int,
    *,
    seed: int = 1,
    start_ns: int = 1_700_000_000 * SECOND,
    late: float = LATE,
    speakers: int = len(SPEAKERS),
    cut: bool = False,
) -> Traffic:
    """Traffic of many sessions in flight, the same for the same arguments.

    Args:
        spans_a_request: exactly so many, but in the last one.
        requests: so many, and then those that bring all sessions to their ends.
        seed: other seeds give other ids and another order.
        start_ns: when the first session begins, Unix nanoseconds.
        late: share of model and tool spans that are held back.
        speakers: how many instrumentations; with one, a request is one resource with one scope, as
            the SDK of one agent sends.
        cut: ends in the middle of sessions, after exactly so many requests.
    """
    total = spans_a_request * requests
    source = _source(random.Random(seed), start_ns, late, speakers, total)
    if cut:
        source = islice(source, total)
    sent: list[_Sent] = []
    bodies = []
    while batch := list(islice(source, spans_a_request)):
        bodies.append(_request(batch))
        sent += [each._replace(encoded=b"") for each in batch]
    calls, harmful = _outcome(sent)
    return Traffic(bodies, len(sent), calls, harmful, _late(sent))


def harms(tools: Iterable[str]) -> int:
    """How many of these calls do harm, in this order, by the spec's table of transitions."""
    state, found = _SPEC["initial"], 0
    for tool in tools:
        if tool in _SPEC["transitions"][state]:
            state = _SPEC["transitions"][state][tool]
        elif tool not in _SPEC["reads"].get(state, ()):
            found += 1
    return found


def is_harmful(before: Sequence[str], tool: str) -> bool:
    """Whether a call does harm after these, by the spec's table of transitions."""
    return harms([*before, tool]) > harms(before)


def _source(
    chance: random.Random, start_ns: int, late: float, speakers: int, total: int
) -> Iterator[_Sent]:
    """A series of spans, of sessions that begin as others end; none begins after `total` spans.

    A session of each instrumentation comes first, whole and in order: from then on it is known that its tools have
    spans of their own, and no call is judged for a model's request.
    """
    numbers = count(1)

    def begun() -> list[_Sent]:
        number = next(numbers)
        spans = list(_session(number, start_ns + number * SECOND // 100, chance, speakers))
        return _held_back(spans, late if number > speakers else 0.0, chance)

    sent = 0
    for _ in range(speakers):
        if sent >= total:
            return
        first = begun()
        sent += len(first)
        yield from reversed(first)
    live = [begun() for _ in range(IN_FLIGHT)]
    while live:
        at = chance.randrange(len(live))
        yield live[at].pop()
        sent += 1
        if not live[at] and sent < total:
            live[at] = begun()
        elif not live[at]:
            del live[at]


def _session(
    number: int, start_ns: int, chance: random.Random, speakers: int
) -> Iterable[_Sent]:
    """The spans of one session in the order they end."""
    is_first = number <= speakers
    at = number - 1 if is_first else chance.randrange(speakers)
    tools = RUNS[0] if is_first else chance.choice(RUNS)
    conversation = f"rover-{number}-{chance.randbytes(4).hex()}"
    made: list[Call] = []
    for turn, first in enumerate(range(0, len(tools), TURN)):
        asked = prose(chance, 40, 600)
        talk = Talk(conversation, chance.randbytes(16).hex(), asked, turn + 1, made)
        begin = start_ns + turn * 10 * SECOND
        yield from _turn(number, at, talk, tools[first : first + TURN], begin, chance)


def _turn(
    number: int, at: int, talk: Talk, tools: Sequence[str], start: int, chance: random.Random
) -> Iterable[_Sent]:
    """A model span and a tool span for each call, and then the agent's around them."""
    speaker, trace, root = SPEAKERS[at], chance.randbytes(16), chance.randbytes(8)

    def sent(said: Said, begin: int, end: int, own: bytes, tool: str = "") -> _Sent:
        above = root if own != root else b""
        encoded = span(trace, own, above, said.name, said.kind, begin, end, *said[2:])
        tells = not tool or speaker.tells_on_tools
        return _Sent(number, trace, begin, tool, tells, own == root, at, encoded)

    for place, tool in enumerate(tools):
        begin, call = start + (2 * place + 1) * SECOND, call_of(tool, chance)
        asking = speaker.chat(talk, call)
        yield sent(asking, begin, begin + SECOND // 2, chance.randbytes(8))
        begin += SECOND
        done = speaker.tool(talk, call)
        yield sent(done, begin, begin + SECOND // 2, chance.randbytes(8), tool)
        talk.calls.append(call)
    yield sent(speaker.agent(talk), start, start + 9 * SECOND, root)


def call_of(tool: str, chance: random.Random) -> Call:
    """A call as the rover makes it: the same tools with other arguments."""
    arguments: dict[str, str | int] = {}
    if tool == "move":
        arguments = {"x": chance.randrange(20), "y": chance.randrange(20)}
    elif tool == "scan":
        arguments = {"area": f"field {chance.randrange(40)}"}
    elif tool == "open_valve":
        arguments = {"valve": f"V{chance.randrange(16)}"}
    elif tool == "water":
        arguments = {"field": chance.randrange(40), "liters": chance.randrange(5, 60, 5)}
    elif tool == "log":
        arguments = {"message": prose(chance, 20, 90)}
    call_id = f"call_{chance.randbytes(12).hex()}"
    return Call(tool, arguments, call_id, prose(chance, 60, 900))


def _held_back(spans: list[_Sent], late: float, chance: random.Random) -> list[_Sent]:
    """The spans in the order in which they come, the next one last."""
    places = [
        at + chance.randint(1, HELD_MAX) + 0.5
        if not each.around and chance.random() < late
        else at
        for at, each in enumerate(spans)
    ]
    order = sorted(range(len(spans)), key=lambda at: places[at], reverse=True)
    return [spans[at] for at in order]


def _outcome(sent: Iterable[_Sent]) -> tuple[int, int]:
    """The numbers of calls and of harmful calls once all has arrived.

    A call is of the session that its own span or any other of its trace has told; where none has
    come by the end, its trace stands for a session.
    """
    sent = list(sent)
    told = {each.trace for each in sent if each.tells}
    calls: defaultdict[int | bytes, list[_Sent]] = defaultdict(list)
    for each in sent:
        if each.tool:
            calls[each.session if each.trace in told else each.trace].append(each)
    in_order = (sorted(each, key=lambda call: call.begin) for each in calls.values())
    harmful = sum(harms(call.tool for call in each) for each in in_order)
    return sum(map(len, calls.values())), harmful


def _late(sent: Iterable[_Sent]) -> int:
    latest: dict[int, int] = {}
    found = 0
    for each in sent:
        if not each.around:
            found += each.begin < latest.get(each.session, 0)
            latest[each.session] = max(each.begin, latest.get(each.session, 0))
    return found


def _request(batch: Sequence[_Sent]) -> bytes:
    """One request, its spans by the service that sends them."""
    spans: defaultdict[int, list[bytes]] = defaultdict(list)
    for each in batch:
        spans[each.speaker].append(each.encoded)
    return request((GROUPS[at], found) for at, found in spans.items())


def _group(number: int, speaker: Speaker) -> tuple[bytes, bytes]:
    """The spans of one service: a process of the rover's under this instrumentation."""
    resource = [
        ("telemetry.sdk.language", "python"),
        ("telemetry.sdk.name", "opentelemetry"),
        ("telemetry.sdk.version", "1.45.2"),
        ("service.instance.id", f"c40de952-cba1-4886-bb6f-d4007ae8b3{number:02}"),
        ("service.name", "farm-rover"),
    ]
    return group(resource, speaker.scope, speaker.version)


GROUPS = [_group(number, speaker) for number, speaker in enumerate(SPEAKERS)]
"""What stands before the spans of each instrumentation."""
