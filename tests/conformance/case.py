"""The list of cases. A case takes a `Target` and fails by an AssertionError."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from tests.conformance.target import Target

__all__ = ["Case", "case", "cases"]

MODULES = ("grpc_cases", "http_cases", "json_cases", "wire_cases")
Check = Callable[[Target], None]


class Case(NamedTuple):
    """One requirement, and how to see that it is met."""

    name: str
    """Its first part is the transport it needs: grpc or http."""
    check: Check

    def applies(self, target: Target) -> bool:
        return bool(target.grpc if self.name.startswith("grpc.") else target.http)


_CASES: list[Case] = []


def case(name: str) -> Callable[[Check], Check]:
    """Adds a function to the list."""

    def add(check: Check) -> Check:
        assert name not in {known.name for known in _CASES}, name
        _CASES.append(Case(name, check))
        return check

    return add


def cases() -> Iterator[Case]:
    """All cases, in order."""
    for name in MODULES:
        import_module(f"tests.conformance.{name}")
    return iter(_CASES)
