"""Laws whose examples each take long."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

__all__ = ["COSTLY"]

COSTLY: Final = (
    settings(max_examples=settings().max_examples // 4)
    if settings.get_current_profile_name() == "few"
    else settings()
)
"""A quarter of the examples of other laws in `make test`; as many as they have in `make test-long`."""
