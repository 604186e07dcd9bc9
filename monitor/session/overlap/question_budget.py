"""The work that may be spent on the orders of calls that a question is about. That of judging is bounded in `chain_merges`.

Example: four groups of 64 calls of twenty tools have more orders than can be tried. Once the steps for groups are used
up, each further group is taken in start order alone, and says so (`Order.listed`).
"""

from __future__ import annotations

from typing import Final

__all__ = ["ASKED_STEPS_MAX", "EARLIER_STEPS_MAX", "QuestionBudget"]

ASKED_STEPS_MAX: Final = 1_024
"""Steps for the calls that are asked about, and those beside them: some milliseconds."""

EARLIER_STEPS_MAX: Final = 8_192
"""Steps for the groups before them: some milliseconds more. The search of the last group may overdraw it."""


class QuestionBudget:
    """The steps that are left for a question under one spec."""

    __slots__ = ("group_steps", "left")

    def __init__(
        self, steps: int = ASKED_STEPS_MAX, group_steps: int = EARLIER_STEPS_MAX
    ) -> None:
        self.left = steps
        """Steps left for all orders of the calls in question, and those beside them."""
        self.group_steps = group_steps
        """Steps for the orders of groups before them."""
