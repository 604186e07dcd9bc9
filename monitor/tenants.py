"""Shares of a bound by tenant: which tenant gives something up when the bound is reached.

A tenant may use what is free. If nothing is free, the tenant that holds more than its fair share (the bound
divided by the number of tenants) gives up something of its own. So a small tenant never pays for a large one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

from mypy_extensions import mypyc_attr

from monitor.records import SessionKey

__all__ = ["OTHERS", "TENANTS_MAX", "Holdings", "SharedBytes", "SharedValues", "tenant_of"]

Key = TypeVar("Key")
Value = TypeVar("Value")

TENANTS_MAX: Final = 256
"""Tenants with a share of their own; later tenants share one.

Without tokens a sender can invent tenants: they must not divide the bound without end.
"""

OTHERS: Final = "*"
"""The share of those beyond `TENANTS_MAX`."""


def tenant_of(namespace: str) -> str:
    """The first part of a namespace: the sender's name, where tokens are asked for."""
    end = namespace.find("/")
    return namespace if end < 0 else namespace[:end]


@mypyc_attr(acyclic=True)
class _Share:
    """What one tenant holds: an object, since a number in a dictionary costs three times as much to change."""

    __slots__ = ("amount",)

    def __init__(self) -> None:
        self.amount = 0


class Holdings:
    """How much of something each tenant holds.

    Args:
        tenants_max: tenants with a share of their own.
    """

    __slots__ = ("_shares", "_tenants_max", "total")

    def __init__(self, tenants_max: int = TENANTS_MAX) -> None:
        self._shares: dict[str, _Share] = {}
        """Shares of the tenants that hold anything."""
        self.total = 0
        self._tenants_max = tenants_max

    def name(self, namespace: str) -> str:
        """Under which name something of this namespace is to be held: its tenant's, or `OTHERS`."""
        tenant = tenant_of(namespace)
        shares = self._shares
        return tenant if tenant in shares or len(shares) < self._tenants_max else OTHERS

    @property
    def held(self) -> dict[str, int]:
        """What each tenant holds, a copy."""
        return {name: share.amount for name, share in self._shares.items()}

    def of(self, name: str) -> int:
        """What a tenant holds."""
        share = self._shares.get(name)
        return share.amount if share is not None else 0

    def add(self, name: str, amount: int) -> None:
        """A tenant holds so much more, or less where that is below 0."""
        self.total += amount
        share = self._shares.get(name)
        if share is None:
            if amount <= 0:
                return
            share = self._shares[name] = _Share()
        share.amount += amount
        if share.amount <= 0:
            del self._shares[name]

    def gives_way(self, name: str) -> str:
        """Who gives up of its own where one wants more: itself over its fair share, else who holds most."""
        if self.of(name) * len(self._shares) > self.total or not self._shares:
            return name
        return self.most()

    def most(self) -> str:
        """Who holds most; the first of several."""
        best, amount = "", -1
        for name, share in self._shares.items():
            if share.amount > amount:
                best, amount = name, share.amount
        return best


class SharedValues(Generic[Value]):
    """Values by session, the latest last, bounded in number: who holds too many loses its first.

    Args:
        most: how many there may be.
    """

    __slots__ = ("_by_tenant", "_counts", "_most", "_values")

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[SessionKey, tuple[str, Value]] = OrderedDict()
        """Session -> its tenant's name, and its value."""
        self._by_tenant: dict[str, OrderedDict[SessionKey, None]] = {}
        self._counts = Holdings()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: SessionKey) -> Value | None:
        """The value of a session."""
        found = self._values.get(key)
        return found[1] if found is not None else None

    def put(self, key: SessionKey, value: Value) -> bool:
        """The value of a session from now on, the latest of all; True if another one had to go."""
        self.pop(key)
        name = self._counts.name(key.namespace)
        order = self._by_tenant.get(name)
        if order is None:
            order = self._by_tenant[name] = OrderedDict()
        self._values[key] = name, value
        order[key] = None
        self._counts.add(name, 1)
        if len(self._values) <= self._most:
            return False
        self.pop(next(iter(self._by_tenant[self._counts.gives_way(name)])))
        return True

    def pop(self, key: SessionKey) -> Value | None:
        """Takes the value of a session out."""
        if key not in self._values:
            return None
        name, value = self._values.pop(key)
        order = self._by_tenant[name]
        del order[key]
        if not order:
            del self._by_tenant[name]
        self._counts.add(name, -1)
        return value

    def values(self) -> list[Value]:
        """The values of all, the earliest first."""
        return [value for _, value in self._values.values()]

    def first(self) -> tuple[SessionKey, Value] | None:
        """The earliest of all."""
        for key, (_, value) in self._values.items():
            return key, value
        return None


class SharedBytes(Generic[Key, Value]):
    """Values by key, the latest last, bounded in bytes: who holds too many loses its first.

    Args:
        most: how many bytes they may take.
    """

    __slots__ = ("_by_tenant", "_held", "_most", "_values")

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Key, tuple[str, int, Value]] = OrderedDict()
        """Key -> its tenant's name, the bytes, and the value."""
        self._by_tenant: dict[str, OrderedDict[Key, None]] = {}
        self._held = Holdings()

    def __len__(self) -> int:
        return len(self._values)

    @property
    def total(self) -> int:
        """Bytes of all."""
        return self._held.total

    def get(self, key: Key) -> Value | None:
        """The value of a key."""
        found = self._values.get(key)
        return found[2] if found is not None else None

    def put(self, key: Key, value: Value, namespace: str, size: int) -> None:
        """The value of a key from now on, the latest of all. Others may have to go; it stays, if need be alone."""
        self.pop(key)
        name = self._held.name(namespace)
        self._values[key] = name, size, value
        self._by_tenant.setdefault(name, OrderedDict())[key] = None
        self._held.add(name, size)
        while self._held.total > self._most and len(self._values) > 1:
            mine = self._by_tenant[self._held.gives_way(name)]
            first = next(iter(mine))
            self.pop(first if first != key else next(iter(self._values)))

    def use(self, key: Key) -> None:
        """A value is the latest of all from now on."""
        self._values.move_to_end(key)
        self._by_tenant[self._values[key][0]].move_to_end(key)

    def pop(self, key: Key) -> Value | None:
        """Takes the value of a key out."""
        if key not in self._values:
            return None
        name, size, value = self._values.pop(key)
        mine = self._by_tenant[name]
        del mine[key]
        if not mine:
            del self._by_tenant[name]
        self._held.add(name, -size)
        return value

    def values(self) -> list[Value]:
        """The values of all, the earliest first."""
        return [value for _, _, value in self._values.values()]

    def first(self) -> tuple[Key, Value] | None:
        """The earliest of all."""
        for key, (_, _, value) in self._values.items():
            return key, value
        return None
