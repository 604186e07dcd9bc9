"""Arguments that carry the same values in several tools: what a spec may have one automaton for each of.

Idea: where `look_up_order(order_id=A1)` is followed by `refund(order=A1)`, both arguments name one thing. Two arguments go
together if they share several values, each within a run, and share one in most runs that have both.

Example: in two runs an order is looked up and refunded, A1 and B7: `{order: {look_up_order: order_id, refund: order}}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Any, Final, NamedTuple

from monitor.alphabet.things import thing_key
from monitor.spec.document.write import name as plain

__all__ = ["SeenArguments", "proposed_each"]

RUNS_MAX: Final = 1_000
CALLS_MAX: Final = 200
"""Calls of one run that are looked at."""
PLACES_MAX: Final = 64
"""Arguments of one run that are compared with each other."""
VALUES_MIN: Final = 2
"""Different values that two arguments share at the least."""
PROPOSALS_MAX: Final = 5
TEXT_MIN: Final = 2
NUMBER_MIN: Final = 100
"""Smaller numbers are counts and the like: many arguments share them by chance."""


class SeenArguments(NamedTuple):
    """One call: its tool, and its arguments as far as they were seen."""

    tool: str
    arguments: Mapping[str, Any] | None


class _Place(NamedTuple):
    """An argument of a tool, as a path."""

    tool: str
    path: str


def proposed_each(runs: Iterable[Sequence[SeenArguments]]) -> list[str]:
    """What `each` may be, as lines of YAML, by how often values are shared."""
    values: dict[tuple[_Place, _Place], set[bytes]] = {}
    both: Counter[tuple[_Place, _Place]] = Counter()
    shared: Counter[tuple[_Place, _Place]] = Counter()
    for run in islice(runs, RUNS_MAX):
        found = _values(run)
        for pair in combinations(sorted(found)[:PLACES_MAX], 2):
            if pair[0].tool == pair[1].tool:
                continue
            common = found[pair[0]] & found[pair[1]]
            both[pair] += 1
            shared[pair] += bool(common)
            values.setdefault(pair, set()).update(common)
    pairs = [
        pair
        for pair, count in shared.most_common()
        if 2 * count > both[pair] and len(values[pair]) >= VALUES_MIN
    ]
    return [_line(group) for group in islice(_groups(pairs), PROPOSALS_MAX)]


def _values(run: Sequence[SeenArguments]) -> dict[_Place, set[bytes]]:
    """What each argument of a run carried."""
    found: dict[_Place, set[bytes]] = {}
    for tool, arguments in run[:CALLS_MAX]:
        for name, value in (arguments or {}).items():
            several = isinstance(value, list)
            keys = {key for each in (value if several else [value]) if (key := _key(each))}
            if keys:
                place = _Place(tool, f"{name}[*]" if several else name)
                found.setdefault(place, set()).update(keys)
    return found


def _key(value: Any) -> bytes | None:
    """The key of a value that may name a thing; None for one that many arguments share by chance."""
    if isinstance(value, bool) or (isinstance(value, int | float) and value < NUMBER_MIN):
        return None
    if isinstance(value, str) and len(value) < TEXT_MIN:
        return None
    return thing_key(value)


def _groups(pairs: Iterable[tuple[_Place, _Place]]) -> Iterator[list[_Place]]:
    """Arguments that go together, the most frequent first."""
    group_of: dict[_Place, list[_Place]] = {}
    for one, other in pairs:
        mine, its = group_of.get(one, [one]), group_of.get(other, [other])
        if mine is not its:
            mine.extend(its)
        group_of |= dict.fromkeys(mine, mine)
    yield from {id(group): sorted(group) for group in group_of.values()}.values()


def _line(group: Sequence[_Place]) -> str:
    """A group as `each`, on one line."""
    paths: dict[str, list[str]] = {}
    for tool, path in group:
        paths.setdefault(tool, []).append(plain(path))
    tools = [f"{plain(tool)}: {_paths(its)}" for tool, its in paths.items()]
    return f"each: {{{plain(_kind(group))}: {{{', '.join(tools)}}}}}"


def _paths(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"[{', '.join(paths)}]"


def _kind(group: Sequence[_Place]) -> str:
    """A name for the kind of thing: the most frequent of the arguments', without what says that it is an id."""
    names = Counter(_stem(place.path.removesuffix("[*]").lower()) for place in group)
    return min(names, key=lambda name: (-names[name], len(name), name)) or "thing"


def _stem(name: str) -> str:
    for end in ("_ids", "_id", "_number", "_no"):
        name = name.removesuffix(end)
    return name
