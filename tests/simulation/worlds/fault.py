"""A fault of the world, and the catalogue of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.emitters import DIALECTS

if TYPE_CHECKING:
    from tests.simulation.worlds.spans import Span
    from tests.simulation.worlds.world import World

ALL_DIALECTS = tuple(DIALECTS)
# Those whose tool spans have the id that the model gave the call.
WITH_CALL_IDS = tuple(name for name in DIALECTS if name != "openinference")

Change = Callable[["World", Chance], None]
Twin = Callable[["World", Sequence["Span"]], None]


class Stage(IntEnum):
    """When a fault acts. Of a pair, the earlier stage acts first."""

    RUN = 1  # on what is executed
    EMISSION = 2  # on what the framework is set to write
    SPANS = 3  # on the spans that are written
    ARRIVAL = 4  # on when they arrive, and whether
    CLOCKS = 5  # on the times that are written of all that
    PROCESS = 6  # on the monitor's process


class Hides(IntEnum):
    """What a fault may hide. Whatever it is, a call that no order makes right stays certain where it is seen."""

    NOTHING = 0  # every harm is certain in the end
    ORDER = 1  # harm that depends on other calls may be possible harm, or counted by a reason
    UNTOLD = 2  # nothing on the wire says so: such harm may be missed, too


@dataclass(frozen=True)
class Fault:
    """One entry of the catalogue.

    Args:
        name: of the entry.
        item: its family (`catalogue` lists them), or what tells of it: a page, a public report.
        story: what happens in the world.
        stage: when it acts.
        hides: what it may hide.
        change: makes it happen.
        dialects: the frameworks that it happens to.
        models: whether it needs models' spans with their messages; False where there are none; None: either.
        twin: makes the truth of which the same spans may be written without this fault (`twins`); None: there is none.
        instead: what may have happened instead, and writes the same spans; None: nothing that is known.
    """

    name: str
    item: str
    story: str
    stage: Stage
    hides: Hides
    change: Change
    dialects: tuple[str, ...] = ALL_DIALECTS
    models: bool | None = None
    twin: Twin | None = None
    instead: Change | None = None

    def fits(self, other: Fault) -> bool:
        """Whether both can happen in one world."""
        return self.models is other.models or None in (self.models, other.models)


CATALOGUE: dict[str, Fault] = {}


def fault(
    item: str,
    stage: Stage,
    hides: Hides,
    *,
    dialects: tuple[str, ...] = ALL_DIALECTS,
    models: bool | None = None,
    twin: Twin | None = None,
    instead: Change | None = None,
) -> Callable[[Change], Change]:
    """Enters a function into the catalogue: its name is the entry's, its docstring the story."""

    def enter(change: Change) -> Change:
        name = change.__name__
        story = " ".join((change.__doc__ or "").split())
        CATALOGUE[name] = Fault(
            name, item, story, stage, hides, change, dialects, models, twin, instead
        )
        return change

    return enter
