"""Whether two resources are of one host, and so have one clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["HOST_KEYS", "has_one_clock"]

HOST_KEYS: Final = ("host.id", "host.name")
"""Attributes of resources: what has one of them in common has one clock."""


def has_one_clock(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two resources are of one host, as far as they say. Without a host, equal resources are."""
    if one is other:
        return True
    for key in HOST_KEYS:
        if key in one and key in other:
            return bool(one[key] == other[key])
    return one == other
