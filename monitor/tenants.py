"""Who has to give way where a bound is reached: each tenant has a share, and its own goes first.

A tenant may use what is free. Where nothing is, the one that holds more than its fair share (the bound
divided by the tenants there are) gives up of its own, so a small tenant never pays for a large one.
"""

from __future__ import annotations

from typing import Final

__all__ = ["OTHERS", "TENANTS_MAX", "Holdings", "tenant_of"]

TENANTS_MAX: Final = 256
"""Tenants with a share of their own; those who come later have one together.

Where no token is asked for, whoever sends can name any tenant: so invented ones do not divide the bound
without end.
"""

OTHERS: Final = "*"
"""The share of those beyond `TENANTS_MAX`."""


def tenant_of(namespace: str) -> str:
    """The first part of a namespace: the sender's name, where tokens are asked for."""
    end = namespace.find("/")
    return namespace if end < 0 else namespace[:end]


class Holdings:
    """How much of something each tenant holds.

    Args:
        tenants_max: tenants with a share of their own.
    """

    __slots__ = ("_tenants_max", "held", "total")

    def __init__(self, tenants_max: int = TENANTS_MAX) -> None:
        self.held: dict[str, int] = {}
        self.total = 0
        self._tenants_max = tenants_max

    def name(self, namespace: str) -> str:
        """Under which name something of this namespace is to be held: its tenant's, or `OTHERS`."""
        tenant = tenant_of(namespace)
        return tenant if tenant in self.held or len(self.held) < self._tenants_max else OTHERS

    def of(self, name: str) -> int:
        """What a tenant holds."""
        return self.held.get(name, 0)

    def add(self, name: str, amount: int) -> None:
        """A tenant holds so much more, or less where that is below 0."""
        self.total += amount
        now = self.held.get(name, 0) + amount
        if now > 0:
            self.held[name] = now
        else:
            self.held.pop(name, None)

    def gives_way(self, name: str) -> str:
        """Who gives up of its own where one wants more: itself over its fair share, else who holds most."""
        if self.of(name) * len(self.held) > self.total or not self.held:
            return name
        return self.most()

    def most(self) -> str:
        """Who holds most; the first of several."""
        best, amount = "", -1
        for name, held in self.held.items():
            if held > amount:
                best, amount = name, held
        return best
