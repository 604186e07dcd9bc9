"""The risk that was learnt on other tasks: trees over how a run departs from the usual ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from monitor.reference.risk import sigmoid
from monitor.spec.risk_features import FEATURES
from monitor.spec.risk_model import RiskModel, RiskNode

__all__ = ["TravellingRisk"]

REASONS: Final = 3
"""Features that an explanation names."""


Way = float | tuple[int, float, "Way", "Way"]
"""A tree as it is walked: at a leaf its log-odds, else a place in the vector, up to where the way goes left, and both ways on."""


@lru_cache(maxsize=64)
def _ways(trees: tuple[tuple[RiskNode, ...], ...], columns: tuple[int, ...]) -> tuple[Way, ...]:
    """The trees as they are walked. References of one model share them."""
    return tuple(_way(tree, columns, 0) for tree in trees)


def _way(tree: tuple[RiskNode, ...], columns: tuple[int, ...], place: int) -> Way:
    node = tree[place]
    if node.feature < 0:
        return node.value
    left, right = _way(tree, columns, place + 1), _way(tree, columns, node.right)
    return columns[node.feature], node.threshold, left, right


class TravellingRisk:
    """Evaluates a model in plain Python.

    Args:
        model: of features that are known here.
    """

    __slots__ = ("_columns", "_ways", "_words", "model")

    def __init__(self, model: RiskModel) -> None:
        places = {name: place for place, name in enumerate(FEATURES)}
        self._columns = tuple(places[name] for name in model.features)
        self._ways = _ways(model.trees, self._columns)
        self._words = tuple(FEATURES[name].words for name in model.features)
        self.model = model

    def of(self, vector: Sequence[float]) -> float:
        """The risk, 0 to 1, of a vector in the order of `FEATURES`."""
        return sigmoid(self.model.offset + self.model.slope * self.odds(vector))

    def odds(self, vector: Sequence[float]) -> float:
        """The log-odds before they are calibrated."""
        odds = self.model.base
        for way in self._ways:
            while isinstance(way, tuple):
                column, threshold, left, right = way
                way = left if vector[column] <= threshold else right  # noqa: PLW2901 - the way goes on
            odds += way
        return odds

    def reasons(self, vector: Sequence[float]) -> list[str]:
        """What raised the risk most, in words: at most three, the most important first.

        Each step down a tree changes the log-odds of the runs that are there. The change counts for the
        feature that was asked for.
        """
        raised = [0.0] * len(self._columns)
        for tree in self.model.trees:
            place, node = 0, tree[0]
            while node.feature >= 0:
                left = vector[self._columns[node.feature]] <= node.threshold
                place = place + 1 if left else node.right
                raised[node.feature] += tree[place].value - node.value
                node = tree[place]
        ranked = sorted(range(len(raised)), key=lambda each: (-raised[each], each))
        return [self._words[each] for each in ranked[:REASONS] if raised[each] > 0]
