"""Which specs a session is judged under."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monitor.session.judge import Judge
from monitor.spec.spec import Spec

__all__ = ["SPEC_ATTRIBUTE", "Binder"]

SPEC_ATTRIBUTE = "offrails.spec"
"""A span or resource attribute of this name names a task outright."""

AGENT_ATTRIBUTE = "gen_ai.agent.name"
_CACHE_MAX = 4_096


class Binder:
    """The loaded specs, each with its judge, and the rules that choose among them."""

    def __init__(self, specs: Iterable[Spec]) -> None:
        self.judges = {spec.id: Judge(spec) for spec in specs}
        self._cache: dict[tuple[int, str], tuple[Mapping[str, Any], tuple[Judge, ...]]] = {}

    def keys(self) -> frozenset[str]:
        """Attribute keys, of any span, that a binding may depend on."""
        wanted = {key for judge in self.judges.values() for key in judge.spec.match.keys}
        return frozenset(wanted | {SPEC_ATTRIBUTE}) - {AGENT_ATTRIBUTE}

    def bind(self, attributes: Mapping[str, Any], agent: str) -> tuple[Judge, ...]:
        """Judges for a call: the named task, or those that match; and every matching policy.

        Cached by the identity of `attributes`, which spans of one resource share.
        """
        key = (id(attributes), agent)
        found = self._cache.get(key)
        if found is None or found[0] is not attributes:
            if len(self._cache) >= _CACHE_MAX:
                self._cache.clear()
            found = self._cache[key] = (attributes, self._choose(attributes, agent))
        return found[1]

    def _choose(self, attributes: Mapping[str, Any], agent: str) -> tuple[Judge, ...]:
        seen = {**attributes, AGENT_ATTRIBUTE: agent} if agent else attributes
        named = seen.get(SPEC_ATTRIBUTE)
        return tuple(
            judge
            for judge in self.judges.values()
            if (
                judge.spec.id == named
                if named is not None and judge.spec.kind != "policy"
                else judge.spec.match.matches(seen)
            )
        )
