"""The risk that was learnt on other tasks: trees over how a run departs from the usual ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from monitor.reference.risk import sigmoid
from monitor.spec.risk_features import FEATURES
from monitor.spec.risk_model import RiskModel

__all__ = ["TravellingRisk"]

REASONS: Final = 3
"""Features that an explanation names."""


class TravellingRisk:
    """Evaluates a model in plain Python.

    Args:
        model: of features that are known here.
    """

    __slots__ = ("_columns", "_words", "model")

    def __init__(self, model: RiskModel) -> None:
        places = {name: place for place, name in enumerate(FEATURES)}
        self._columns = tuple(places[name] for name in model.features)
        self._words = tuple(FEATURES[name].words for name in model.features)
        self.model = model

    def of(self, vector: Sequence[float]) -> float:
        """The risk, 0 to 1, of a vector in the order of `FEATURES`."""
        return sigmoid(self.model.offset + self.model.slope * self.odds(vector))

    def odds(self, vector: Sequence[float]) -> float:
        """The log-odds before they are calibrated."""
        model, columns = self.model, self._columns
        odds = model.base
        for tree in model.trees:
            place = 0
            feature, threshold, right, value = tree[0]
            while feature >= 0:
                place = place + 1 if vector[columns[feature]] <= threshold else right
                feature, threshold, right, value = tree[place]
            odds += value
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
