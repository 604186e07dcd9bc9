"""Whether two resources are of one host, and so have one clock."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

__all__ = ["clock_of", "has_one_clock"]

_HOST_KEYS: Final = ("host.id", "host.name")
"""Attributes of resources: what has one of them in common has one clock."""


def has_one_clock(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two resources are of one host, as far as they say. Without a host, equal resources are."""
    if one is other:
        return True
    for key in _HOST_KEYS:
        if key in one and key in other:
            return bool(one[key] == other[key])
    return one == other


def clock_of(attributes: Mapping[str, Any]) -> bytes:
    """What a resource's host is known by; if it does not name one, what the resource is known by."""
    text = ""
    for key in _HOST_KEYS:
        if key in attributes:
            text = f"{key} {attributes[key]!r}"
            break
    else:
        text = repr(sorted(attributes.items(), key=_key))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _key(item: tuple[str, Any]) -> str:
    return item[0]
