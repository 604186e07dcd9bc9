"""Which sessions have things in common: a space for each spec with `across`, and each agent or namespace.

Idea: a live session enters the space of its agent or namespace, and tells it of its calls. Here it is found, and sessions
that were told of calls of others are judged again.

Example: under `across: agent`, two conversations with the agent `shop` are in one space. One with `desk` is in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from monitor.decision import SpaceName
from monitor.session.judge.judge import Judge
from monitor.session.judgement.judgement import Judgement
from monitor.session.session import Session

if TYPE_CHECKING:
    from monitor.session.things.shared_judgement import SharedThingsJudgement
    from monitor.session.things.thing_space import ThingSpace

__all__ = ["ThingSpaces", "is_shared"]

SPACES_MAX: Final = 10_000
"""Spaces that are kept; beyond it the one that was made first goes. Its sessions enter a new one with their next calls."""

REVISITS_MAX: Final = 1_000
"""Sessions that one call has judged again at once; further ones follow with the next call."""

FROM_ITS_FIRST_SESSION: Final = -1

Version = tuple[str, str]
"""A version of a spec: its id, and its checksum."""


class ThingSpaces:
    """The spaces of one monitor.

    Args:
        since_ns: calls before this time were not seen; 0 if all were.
        things_max: things that all spaces may have.
        bytes_max: what these may take, about.
    """

    def __init__(self, since_ns: int, things_max: int, bytes_max: int) -> None:
        self.since_ns = since_ns
        self.things_max = things_max
        self.bytes_max = bytes_max
        self.within_ns = 0
        """The longest time that a thing of a spec in use is known after its last call; 0 if no spec has shared things."""
        self.things = 0
        """Things of all spaces."""
        self.held_bytes = 0
        """What they take, about."""
        self.by_key: dict[SpaceName, ThingSpace] = {}
        """Spaces by version of the spec, namespace and agent ("" for all agents)."""
        self._since: dict[Version, int] = {}
        """Versions in use: since when their calls are seen; or `FROM_ITS_FIRST_SESSION`, if they came in the middle."""

    def expect(self, judges: Iterable[Judge], *, in_the_middle: bool) -> None:
        """Takes note of the specs in use."""
        begin = FROM_ITS_FIRST_SESSION if in_the_middle else self.since_ns
        for judge in judges:
            if judge.each is not None and judge.each.is_shared:
                self._since.setdefault(_version(judge), begin)
                self.within_ns = max(self.within_ns, judge.each.within_ns)

    def space(self, session: Session, judge: Judge) -> ThingSpace:
        """The space of a session under a spec."""
        assert judge.each is not None
        key = self.name(session, judge)
        version = key[0]
        found = self.by_key.get(key)
        if found is None:
            # Loaded with the first spec that needs it.
            from monitor.session.things.thing_space import ThingSpace

            since = self._since.get(version, self.since_ns)
            if since == FROM_ITS_FIRST_SESSION:
                since = self._since[version] = session.touched_ns
            found = self.by_key[key] = ThingSpace(judge.each.within_ns, since)
            if len(self.by_key) > SPACES_MAX:
                self._drop_first()
        return found

    def name(self, session: Session, judge: Judge) -> SpaceName:
        """What the space of a session under a spec is known by."""
        assert judge.each is not None
        agent = session.agent if judge.each.across == "agent" else ""
        return _version(judge), session.key.namespace, agent

    def _drop_first(self) -> None:
        first = next(iter(self.by_key))
        space = self.by_key.pop(first)
        self.things -= space.counted
        self.held_bytes -= space.counted_bytes
        self._since[first[0]] = FROM_ITS_FIRST_SESSION

    # --- sessions ---------------------------------------------------------------------------------

    def enter(self, session: Session, judgement: Judgement) -> None:
        """A session is live: it tells the others of its calls, and is told of theirs."""
        if is_shared(judgement.judge):
            _shared(judgement).enter_space(self.space(session, judgement.judge), session)

    def lend(self, session: Session, judgement: Judgement) -> None:
        """A session that is tried out is judged by what the others did, and tells nobody."""
        if is_shared(judgement.judge):
            _shared(judgement).read_space(self.space(session, judgement.judge), session)

    def leave(self, judgement: Judgement) -> None:
        """A session is live no more. What it did with things stays known."""
        if is_shared(judgement.judge):
            _shared(judgement).leave_space()

    def moved(
        self, session: Session, judgement: Judgement
    ) -> Iterator[tuple[Session, SharedThingsJudgement]]:
        """The sessions that are to be judged again since this one has told of its calls."""
        mine = _shared(judgement)
        if mine.space is not None and mine.is_live:
            from monitor.session.things.shared_judgement import moved_members

            space = self.space(session, mine.judge)
            if space is not mine.space:
                # It was dropped: no other session finds its things there.
                mine.leave_space()
                mine.enter_space(space, session)
            yield from islice(moved_members(space), REVISITS_MAX)
            self._hold(mine, space)

    def _hold(self, judgement: SharedThingsJudgement, space: ThingSpace) -> None:
        """Keeps the things of all spaces within their bound: who has most gives way."""
        # Loaded with the first spec that needs it.
        from monitor.session.things.shared_judgement import members_of

        self._count(space)
        while self.things > self.things_max or self.held_bytes > self.bytes_max:
            is_heavy = self.held_bytes > self.bytes_max
            largest = max(self.by_key.values(), key=_weight if is_heavy else _size)
            dropped = largest.drop_some()
            mine = judgement if judgement.space is largest else None
            payer = mine or next((each for _, each in members_of(largest)), judgement)
            if payer.pair is not None:
                payer.pair.things_dropped += dropped
            self._count(largest)

    def _count(self, space: ThingSpace) -> None:
        """Adds what a space has by now to what all have."""
        self.things += len(space.things) - space.counted
        self.held_bytes += space.held_bytes - space.counted_bytes
        space.counted, space.counted_bytes = len(space.things), space.held_bytes


def is_shared(judge: Judge) -> bool:
    """True if the sessions under a spec have things in common."""
    return judge.each is not None and judge.each.is_shared


def _version(judge: Judge) -> Version:
    return judge.spec.id, judge.spec.sha256_8


def _size(space: ThingSpace) -> int:
    return space.counted


def _weight(space: ThingSpace) -> int:
    return space.counted_bytes


def _shared(judgement: Judgement) -> SharedThingsJudgement:
    # Loaded with the first spec that needs it.
    from monitor.session.things.shared_judgement import SharedThingsJudgement

    assert isinstance(judgement, SharedThingsJudgement)
    return judgement
