"""A start whose specs are refused goes on with the last ones that compiled (`specs_on_error: start`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from collector.config.settings.settings import Settings
from collector.telemetry.logs import log
from monitor.limits import SECOND
from monitor.spec.read import LoadedSpecs
from monitor.spec.spec import Spec

if TYPE_CHECKING:
    from collector.state.last_good_specs import CompiledSpecs, LastGoodSpecs

__all__ = ["find", "keeper_of"]


def find(settings: Settings, refused: LoadedSpecs, now: int) -> CompiledSpecs | None:
    """The specs to use in place of refused ones; None if there are none. Either is logged.

    Args:
        settings: all of them.
        refused: what was found in the spec files.
        now: Unix nanoseconds.
    """
    store = _store(settings)
    if store is None:
        return None
    try:
        found = store.find(now)
    except (OSError, ValueError) as problem:
        log.error("last_good_specs_unusable", file=str(store.file), reason=_why(problem))
        return None
    if found is None:
        return None
    errors = [each for each in refused.findings if each.severity == "error"]
    log.error(
        "last_good_specs_used",
        fault=str(errors[0]),
        errors=len(errors),
        specs=len(found.specs),
        kept_at=datetime.fromtimestamp(found.at_ns / SECOND, UTC).isoformat(timespec="seconds"),
        age_seconds=round((now - found.at_ns) / SECOND),
    )
    return found


def keeper_of(
    settings: Settings, clock: Callable[[], int]
) -> Callable[[Sequence[Spec]], None] | None:
    """What keeps specs that compiled; None if none are kept. It may block, and does not raise."""
    store = _store(settings)
    if store is None:
        return None

    def keep(specs: Sequence[Spec]) -> None:
        try:
            store.keep(specs, clock())
        except (OSError, ValueError) as problem:
            log.warning("specs_not_kept", file=str(store.file), reason=_why(problem))

    return keep


def _store(settings: Settings) -> LastGoodSpecs | None:
    """The folder that is set, or the journal's; nothing is loaded where there is none."""
    state = settings.state
    folder = settings.specs_last_good or (state.dir if state.durability != "off" else None)
    if folder is None or settings.specs_on_error != "start" or not settings.specs:
        return None
    from collector.state.last_good_specs import LastGoodSpecs

    return LastGoodSpecs(folder)


def _why(problem: OSError | ValueError) -> str:
    return getattr(problem, "strerror", None) or str(problem)
