"""Trace and span ids of OTLP/JSON, which are hex."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from collector.decode.json.checked_fields import field_of, wrong

__all__ = ["hex_id"]

_HEX: Final = re.compile(r"[0-9a-fA-F]*")


def hex_id(item: Mapping[str, Any], size: int, *names: str) -> bytes:
    """Read a hex id; b"" if missing, null or empty."""
    value = field_of(item, *names)
    if value is None or value == "":
        return b""
    if isinstance(value, str) and len(value) == 2 * size and _HEX.fullmatch(value):
        return bytes.fromhex(value)
    raise wrong(value, f"{2 * size} hex digits", names[0])
