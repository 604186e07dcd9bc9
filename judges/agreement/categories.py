"""Categories of errors: whose they are, and which of other vocabularies mean the same.

Findings have TRAIL's categories (Deshpande et al. 2025, section 3). AgentRx's (Barke et al. 2026) are read as those of TRAIL
that are nearest. docs/judges.md shows both tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["CATEGORY_JUDGES", "NEAREST", "judges_of", "same_category"]

CATEGORY_JUDGES: Final[Mapping[str, tuple[str, ...]]] = {
    "Language-only": ("LC", "GF"),
    "Tool-related": ("EE", "TS", "TC"),
    "Poor Information Retrieval": ("EE", "TS", "TC"),
    "Tool Output Misinterpretation": ("LC", "TC"),
    "Incorrect Problem Identification": ("LC", "PQ", "GF"),
    "Tool Selection Errors": ("PQ", "TS"),
    "Formatting Errors": ("LC", "TC"),
    "Instruction Non-compliance": ("LC", "PA", "TS"),
    "Tool Definition Issues": ("TC", "TQ"),
    "Environment Setup Errors": ("TQ",),
    "Rate Limiting": ("TQ",),
    "Authentication Errors": ("TQ",),
    "Service Errors": ("TQ",),
    "Resource Not Found": ("TQ",),
    "Resource Exhaustion": ("TQ",),
    "Timeout Issues": ("TQ",),
    "Context Handling Failures": ("LC", "EE"),
    "Resource Abuse": ("EE",),
    "Goal Deviation": ("LC", "PA", "PQ", "GF"),
    "Task Orchestration": ("LC", "EE", "PA", "PQ"),
}
"""Categories of TRAIL -> the judges in whose scope they are."""

NEAREST: Final[Mapping[str, tuple[str, ...]]] = {
    "Instruction/Plan Adherence Failure": ("Instruction Non-compliance", "Goal Deviation"),
    "Invention of New Information": ("Language-only", "Tool-related"),
    "Invalid Invocation": ("Formatting Errors", "Tool-related"),
    "Misinterpretation of Tool Output": ("Tool Output Misinterpretation",),
    "Intent-Plan Misalignment": ("Incorrect Problem Identification", "Goal Deviation"),
    "System Failure": (
        "Service Errors",
        "Timeout Issues",
        "Rate Limiting",
        "Resource Not Found",
        "Resource Exhaustion",
        "Environment Setup Errors",
    ),
    "Guardrails Triggered": ("Authentication Errors",),
}
"""Categories of AgentRx -> those of TRAIL that are nearest. What is no agent's error (an intent that is underspecified or not
supported, an inconclusive run) has none."""

_OTHER: Final = re.compile(r"[^a-z0-9]+")


def _key(category: str) -> str:
    """The category without case and punctuation: `formatting_errors` is "Formatting Errors"."""
    return _OTHER.sub(" ", category.casefold()).strip()


_JUDGES: Final = {_key(category): judges for category, judges in CATEGORY_JUDGES.items()}
_NEAREST: Final = {
    _key(category): tuple(_key(each) for each in nearest)
    for category, nearest in NEAREST.items()
}


def _meanings(category: str) -> Iterator[str]:
    key = _key(category)
    yield key
    yield from _NEAREST.get(key, ())


def judges_of(category: str) -> frozenset[str]:
    """The judges in whose scope a category is; none of a category that no table has."""
    return frozenset(judge for key in _meanings(category) for judge in _JUDGES.get(key, ()))


def same_category(labelled: str, found: str) -> bool:
    """Whether a finding's category is that of a label."""
    return _key(found) in _meanings(labelled)
