"""Writes AnyValue and KeyValue lists of OTLP/JSON, of plain values: the way back from `read_values`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["any_value_json", "attributes_json"]


def attributes_json(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A list of `{key, value}`."""
    return [{"key": key, "value": any_value_json(value)} for key, value in found.items()]


def any_value_json(value: Any) -> dict[str, Any]:
    """An AnyValue. None is an empty one; what the form does not have is a text."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _named(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value_json(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes_json(value)}}
    return {"stringValue": str(value)}


def _named(value: float) -> str:
    """What JSON has no number for."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
