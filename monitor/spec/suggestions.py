"""What somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["closest"]


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name that is most like `name`; "" if none is.

    Args:
        name: what was written.
        known: what could be meant.
        cutoff: from 0 to 1, how alike it must be.
    """
    import difflib  # only who has made a mistake pays for it

    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return found[0] if found else ""
