"""Which calls of one question go ahead: as many as fit, in the order given.

Idea: a call is denied by a spec if the least number of harms rises with it (`monitor.session.judge.concurrent_calls`). A call
that a blocking spec denies does not go ahead under any spec; all others do, also those that specs only advise against.
An earlier call may count on a later one. If that one is denied in the end, what counted on it is decided again.

Cost: calls that fit together are decided in one step, so as many steps are taken as calls are denied, and a call that
is like one denied before is denied without a search while nothing else has gone ahead.

Example: `approve` and `pay` are asked about, `pay` needs `approve`, and another spec forbids `approve`. `pay` counts on
`approve`, which is denied. So `pay` is decided again without it, and denied.

Invariant: what goes ahead has no more harms than is certain without it; and of what is denied, no call fits beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from monitor.session.judge.concurrent_calls import ConcurrentCalls

__all__ = ["SpecCall", "go_ahead"]


class SpecCall(NamedTuple):
    """A call under one spec."""

    among: ConcurrentCalls
    number: int
    """Number of the call among them."""
    token: int
    blocks: bool
    """True if the spec blocks what it denies."""


Rises = list[bool | None]
"""Whether the least number of harms rises with a call, under each spec; None if it is not known."""


def go_ahead(calls: Sequence[Sequence[SpecCall]]) -> list[Rises]:
    """Decides some calls in their order, each under its specs.

    Returns:
        By call and spec, whether the least number of harms rises.
    """
    denied = set[int]()
    if len(calls) == 1:
        return [[among.rises(number) for among, number, _, _ in calls[0]]]
    while True:
        decided = _Round(calls, denied)
        decided.take(range(len(calls)))
        if decided.denied <= denied or not decided.is_broken:
            break
        denied |= decided.denied
    # Calls that no other one was to count on may fit, now that it is known which go ahead.
    while denied and any(decided.take_after_all(place) for place in sorted(decided.denied)):
        pass
    return decided.rises


class _Round:
    """Decides all calls once.

    Args:
        calls: all of them.
        doubtful: calls that were denied before: no other one is to count on them.
    """

    def __init__(self, calls: Sequence[Sequence[SpecCall]], doubtful: set[int]) -> None:
        self._calls = calls
        self._doubtful = doubtful
        self.rises: list[Rises] = [[] for _ in calls]
        self.denied = set[int]()
        self._alike = dict[tuple[tuple[int, int], ...], Rises]()
        """Kinds of calls that were denied since the last one went ahead."""
        self._expected = dict[ConcurrentCalls, int]()
        """The least number of harms, if calls that go ahead have counted on none that is denied."""
        for among in {each.among for call in calls for each in call}:
            among.reset()
            self._expected[among] = 0
        for place in doubtful:
            self._drop(place)
        for among in self._expected:
            self._expected[among] = among.least()

    @property
    def is_broken(self) -> bool:
        """True if a call went ahead that counted on one that was denied later."""
        return any(among.least() > least for among, least in self._expected.items())

    def take(self, places: Sequence[int]) -> None:
        """Decides calls that stand behind those that are decided."""
        if self._fit(places):
            for place in places:
                self._make(place, [False] * len(self._calls[place]))
        elif len(places) == 1:
            self._take_one(places[0])
        else:
            half = len(places) // 2
            self.take(places[:half])
            self.take(places[half:])

    def take_after_all(self, place: int) -> bool:
        """True if a call that was denied goes ahead beside all that do."""
        call = self._calls[place]
        for among, number, _, _ in call:
            among.restore(number)
        rises = [among.rises(number) for among, number, _, _ in call]
        if self._is_blocked(place, rises):
            self.rises[place] = rises
            self._drop(place)
            return False
        self.denied.remove(place)
        self._make(place, rises)
        return True

    def _fit(self, places: Sequence[int]) -> bool:
        together: dict[ConcurrentCalls, list[int]] = {}
        for place in places:
            if place in self._doubtful or self._kind(place) in self._alike:
                return False
            for among, number, _, _ in self._calls[place]:
                together.setdefault(among, []).append(number)
        return all(among.fits(numbers) for among, numbers in together.items())

    def _take_one(self, place: int) -> None:
        call, kind = self._calls[place], self._kind(place)
        if place in self._doubtful:
            for among, number, _, _ in call:
                among.restore(number)
        rises = self._alike.get(kind)
        if rises is None:
            rises = [among.rises(number) for among, number, _, _ in call]
        if self._is_blocked(place, rises):
            self.rises[place] = rises
            self.denied.add(place)
            self._alike[kind] = rises
            self._drop(place)
        else:
            self._make(place, rises)

    def _is_blocked(self, place: int, rises: Rises) -> bool:
        specs = zip(self._calls[place], rises, strict=True)
        return any(each.blocks and risen for each, risen in specs)

    def _kind(self, place: int) -> tuple[tuple[int, int], ...]:
        return tuple([(id(among), token) for among, _, token, _ in self._calls[place]])

    def _make(self, place: int, rises: Rises) -> None:
        self.rises[place] = rises
        self._alike.clear()
        for (among, number, _, _), risen in zip(self._calls[place], rises, strict=True):
            among.make(number)
            self._expected[among] += bool(risen)

    def _drop(self, place: int) -> None:
        for among, number, _, _ in self._calls[place]:
            among.drop(number)
