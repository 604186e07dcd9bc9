"""A risk learnt over many tasks as plain data: small trees, as a document holds them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

__all__ = [
    "NODES_MAX",
    "TREES_MAX",
    "RiskModel",
    "RiskNode",
    "tree_of",
    "tree_text",
    "trees_of",
]

TREES_MAX: Final = 200
NODES_MAX: Final = 63
"""Nodes of a tree: a call is scored in a bounded number of steps."""

LEAF: Final = -1


class RiskNode(NamedTuple):
    """A node of a tree. The one below it on the left is the next in the tree."""

    feature: int
    """Number of the feature it asks for; -1 for a leaf."""
    threshold: float
    """Up to here the way goes left."""
    right: int
    """Number of the node below it on the right."""
    value: float
    """Log-odds of the runs that came here: those of the whole tree, at a leaf."""


Tree = tuple[RiskNode, ...]


@dataclass(frozen=True, slots=True)
class RiskModel:
    """Log-odds of failure as a sum over trees, calibrated."""

    id: str
    features: tuple[str, ...]
    """Names of what the trees ask for, by number."""
    trees: tuple[Tree, ...]
    base: float
    slope: float
    """Log-odds = offset + slope * (base + the sum over the trees)."""
    offset: float
    alarm: float
    """Risk from which an alarm is raised."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """What it was learnt from: runs, failures, tasks, agents."""


def tree_text(tree: Iterable[RiskNode]) -> str:
    """A tree in one line: nodes apart by semicolons, a leaf as its value alone."""
    return "; ".join(
        f"{node.value!r}"
        if node.feature == LEAF
        else f"{node.feature} {node.threshold!r} {node.right} {node.value!r}"
        for node in tree
    )


@lru_cache(maxsize=64)
def trees_of(texts: tuple[str, ...], features: int) -> tuple[Tree, ...]:
    """The trees of some lines. References of one model share them.

    Raises:
        ValueError: a line is no tree, or asks for a feature beyond the number of `features`.
    """
    if len(texts) > TREES_MAX:
        raise ValueError(f"{len(texts)} trees are more than {TREES_MAX}")
    return tuple(tree_of(text, features) for text in texts)


@lru_cache(maxsize=4 * TREES_MAX)
def tree_of(text: str, features: int) -> Tree:
    """The tree of a line.

    Raises:
        ValueError: it is none, or asks for a feature beyond the number of `features`.
    """
    try:
        nodes = tuple(_nodes(text))
    except ValueError:
        raise ValueError(
            "expected nodes, apart by semicolons: feature, threshold, node on the right, value; or a value"
        ) from None
    if not 0 < len(nodes) <= NODES_MAX:
        raise ValueError(f"a tree of {len(nodes)} nodes; expected 1 to {NODES_MAX}")
    for place, node in enumerate(nodes):
        # Ways lead onward alone, so that each ends.
        if node.feature != LEAF and not (
            0 <= node.feature < features and place + 1 < node.right < len(nodes)
        ):
            raise ValueError(
                f"node {place}: expected a feature below {features} and a node on the right from {place + 2} to "
                f"{len(nodes) - 1}"
            )
    if nodes[-1].feature != LEAF:
        raise ValueError("expected a leaf at the end of the tree")
    return nodes


def _nodes(text: str) -> Iterator[RiskNode]:
    for part in text.split(";"):
        words = part.split()
        if len(words) not in (1, 4):
            raise ValueError
        value = _finite(words[-1])
        if len(words) == 1:
            yield RiskNode(LEAF, 0.0, 0, value)
        else:
            feature = int(words[0])
            if feature < 0:
                raise ValueError
            yield RiskNode(feature, _finite(words[1]), int(words[2]), value)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value
