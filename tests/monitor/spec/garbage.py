"""What the tests before have left costs no test its time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["only_its_garbage"]


@contextmanager
def only_its_garbage() -> Iterator[None]:
    """Collections in the block look at what it makes, and not at all that the tests before have left in this process."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
