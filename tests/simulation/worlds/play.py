"""Worlds are played, shrunk, and shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from zlib import crc32

from tests.simulation.worlds import laws, service
from tests.simulation.worlds.catalogue import FAULTS, KNOWN_PAIRS
from tests.simulation.worlds.fault import Fault
from tests.simulation.worlds.laws import CANNOT_BE_TOLD, Broken
from tests.simulation.worlds.spans import requests
from tests.simulation.worlds.world import Plan, World, build

Faults = tuple[Fault, ...]


@dataclass
class Played:
    """What came of the worlds of one entry, or of a pair.

    Args:
        worlds: how many were played.
        broken: worlds that break a law, by the law.
        untold: worlds in which nobody could tell that a harm is not true: they have a twin.
    """

    worlds: int = 0
    broken: dict[str, list[Plan]] = field(default_factory=dict)
    untold: int = 0

    def count(self, law: str) -> int:
        return len(self.broken.get(law, ()))


def play(plan: Plan) -> list[Broken]:
    """Every way in which the world of a plan breaks a law."""
    world = build(plan)
    return laws.check(world, service.run(world)) if world.spans else []


def play_many(faults: Faults, worlds: int, first: int | None = None) -> Played:
    """Worlds with these faults, from a seed on."""
    played = Played()
    for plan in plans(faults, worlds, first):
        played.worlds += 1
        laws_broken = {each.law for each in play(plan)}
        played.untold += CANNOT_BE_TOLD in laws_broken
        for law in laws_broken - {CANNOT_BE_TOLD}:
            played.broken.setdefault(law, []).append(plan)
    return played


def plans(faults: Faults, worlds: int, first: int | None = None) -> Iterator[Plan]:
    """Plans with these faults: each entry and each pair has seeds of its own."""
    name = " ".join(each.name for each in faults)
    begin = crc32(name.encode()) % 1_000_000 if first is None else first
    return (Plan(seed, faults) for seed in range(begin, begin + worlds))


def singles() -> list[Faults]:
    """Each entry of the catalogue by itself."""
    return [(each,) for each in FAULTS.values()]


def pairs() -> list[Faults]:
    """Every two entries that can happen in one world."""
    return [pair for pair in combinations(FAULTS.values(), 2) if pair[0].fits(pair[1])]


def is_held(faults: Faults) -> bool:
    """Whether both laws are said to hold for these entries together."""
    return frozenset(each.name for each in faults) not in KNOWN_PAIRS


def shrunk(plan: Plan) -> Plan:
    """The plan without the calls that its world breaks the same law without."""
    wanted = {each.law for each in play(plan)} - {CANNOT_BE_TOLD}
    # The world without faults has the calls that a plan keeps; a fault of the catalogue may add some.
    kept = frozenset(call.number for call in build(replace(plan, faults=())).calls())
    for number in sorted(kept, reverse=True):
        smaller = replace(plan, kept=kept - {number})
        if smaller.kept and wanted & {each.law for each in _play_safely(smaller)}:
            kept = kept - {number}
    return replace(plan, kept=kept)


def _play_safely(plan: Plan) -> list[Broken]:
    """A world may grow too small for its faults."""
    try:
        return play(plan)
    except (IndexError, ValueError):
        return []


def shown(plan: Plan) -> str:
    """A world to read: what is true, what is written of it, what was told, and what is wrong with that."""
    world = build(plan)
    told = service.run(world)
    names = " + ".join(each.name for each in plan.faults)
    wrong = [f"  {each.law}: {each.what}" for each in laws.check(world, told)]
    judged = [
        f"  {each['session']} {each['spec']}: harmful {each['harmful']}"
        f"{' joined' if each['joined'] else ''}{' exact' if each['exact'] else ''}"
        f" [{'; '.join(_step(step) for step in each['steps'])}] {each['coverage']['not_judged'] or ''}"
        for each in told.judgements
    ]
    lines = [
        f"seed {plan.seed}: {names}",
        *_shown_truth(world),
        "written:",
        *_shown_wire(world),
        "told:",
        *judged,
        f"  pages {len(told.pages)}, final {told.finals}, counted {told.reasons}",
        "wrong:",
        *wrong,
    ]
    return "\n".join(lines)


def _shown_truth(world: World) -> Iterable[str]:
    history = "complete" if world.complete else "auto"
    yield f"history {history}, monitor started at {world.started}, down {world.down}"
    for document in world.documents:
        rules = document.get("golden") or document.get("transitions") or document["constraints"]
        marks = f"{document['concurrent']}{' again' if document.get('again') else ''}"
        yield f"{document['id']} ({marks}): {rules}"
    for conversation in world.conversations:
        yield f"true, {conversation.id}:"
        for turn in conversation.turns:
            yield "  turn"
            yield from (f"    {' | '.join(map(str, each.calls))}" for each in turn.answers)


def _shown_wire(world: World) -> Iterable[str]:
    for request in requests(world.spans):
        yield f"  at {request.at:.3f}"
        yield from (f"    {span}" for span in request.spans)


def _step(step: laws.Step) -> str:
    marks = "".join(
        [
            f" {step['reason']}" if step.get("reason") else "",
            " possible" if step.get("possible") else "",
            " this or earlier" if step.get("certain_call") is False else "",
        ]
    )
    return f"{step['tool']} {step['kind']}{marks}"
