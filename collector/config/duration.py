"""Times as people write them, with a unit: 30s, 10m, 12h, 7d, 2w."""

from __future__ import annotations

import re

__all__ = ["seconds_of"]

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds_of(text: str) -> float | None:
    """Seconds, which may be infinite; None for a text of another form."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _UNIT_SECONDS[found[2]]
