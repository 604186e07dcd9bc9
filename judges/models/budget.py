"""A hard budget in tokens and in money. Room for the largest answer is reserved before a request is sent.

A request is sent beside others only if even the worst case of all of them fits: a token for each byte of the prompt. Else
it waits until it is alone, and is sent if its estimate fits. So a budget is exceeded by one answer at most, and only
if that answer is larger than its estimate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from judges.models.model import Usage

__all__ = ["NO_PRICE", "Estimate", "Price", "TokenBudget", "dearest"]


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens, in whatever currency the budget has."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0

    def of(self, usage: Usage) -> float:
        """The cost of some tokens."""
        return (self.tokens_in * usage.tokens_in + self.tokens_out * usage.tokens_out) / 1e6


NO_PRICE = Price()


def dearest(prices: Sequence[Price]) -> Price:
    """What tokens cost at the most, for a budget that several models have together."""
    return Price(
        max(each.tokens_in for each in prices), max(each.tokens_out for each in prices)
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a request may use."""

    likely: Usage
    worst: Usage


class TokenBudget:
    """Counts what was used, and decides what may still be sent.

    Args:
        tokens: bound on all tokens; None is no bound.
        money: bound on the cost; None is no bound.
        price: of the model.
    """

    def __init__(
        self, tokens: int | None = None, money: float | None = None, price: Price = NO_PRICE
    ) -> None:
        self.spent = Usage()
        self._tokens, self._money, self._price = tokens, money, price
        self._on_way = Usage()
        """The worst case of the requests that are on their way."""
        self._changed = asyncio.Condition()

    @property
    def cost(self) -> float:
        """Money that was spent."""
        return self._price.of(self.spent)

    def renew(self) -> None:
        """Nothing is spent: another period begins. What is on its way counts in it."""
        self.spent = Usage()

    async def reserve(self, estimate: Estimate) -> bool:
        """Waits for room; False if there is none, and nothing may be sent."""
        async with self._changed:
            while not self._fits(self.spent + self._on_way + estimate.worst):
                if not self._on_way.tokens:
                    if not self._fits(self.spent + estimate.likely):
                        return False
                    break
                await self._changed.wait()
            self._on_way += estimate.worst
            return True

    async def settle(self, estimate: Estimate, used: Usage) -> None:
        """A reserved request ended: it used so many tokens."""
        async with self._changed:
            self.spent += used
            worst = estimate.worst
            self._on_way += Usage(-worst.tokens_in, -worst.tokens_out)
            self._changed.notify_all()

    def _fits(self, usage: Usage) -> bool:
        return (self._tokens is None or usage.tokens <= self._tokens) and (
            self._money is None or self._price.of(usage) <= self._money
        )
