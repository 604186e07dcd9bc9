"""Values as JSON, whatever texts are in them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

__all__ = ["as_json"]


def as_json(value: Any) -> bytes:
    """A value as JSON, whatever texts are in it."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # Half a surrogate pair, which an agent may well say: it becomes a question mark.
        text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        return msgspec.json.encode(json.loads(text))
