"""Keys of endpoints: from the environment alone, so that they stand in no file and on no command line."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["KEY", "SECOND_KEY", "BadKeyError", "endpoint_key"]

KEY: Final = "OPENAI_API_KEY"
"""Environment variable with the key of the endpoint."""

SECOND_KEY: Final = "OPENAI_API_KEY_SECOND"
"""The same of another endpoint of the second model."""


class BadKeyError(Exception):
    """A key cannot be used; the message says why, and does not show it."""


def endpoint_key(name: str) -> str | None:
    """The key in an environment variable, without a line end; None if there is none.

    Raises:
        BadKeyError: no header can hold it.
    """
    key = os.environ.get(name, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise BadKeyError("expected printable ASCII characters")
    return key or None
