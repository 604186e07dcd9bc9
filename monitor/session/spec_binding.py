"""Which specs a session is judged under."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from monitor.records import ALSO_ATTRIBUTE, SPEC_ATTRIBUTE
from monitor.session.judge.judge import Judge
from monitor.spec.spec import Acceptance, Spec
from monitor.value_paths import ValuePath
from monitor.weights import arguments_bytes, text_bytes

__all__ = ["BoundSpecs", "SpecBinder", "document_of"]

AGENT_ATTRIBUTE: Final = "gen_ai.agent.name"
_CACHE_MAX: Final = 4_096
_CACHE_BYTES_MAX: Final = 8 << 20
"""Approximate bytes of the attributes that the cache keeps."""


class BoundSpecs(NamedTuple):
    """The judges of a session with given attributes and agent."""

    attributes: Mapping[str, Any]
    judges: tuple[Judge, ...]
    """Judges of the named spec, or of the matching tasks if no task is named, and of every matching
    policy and reference."""
    more: bool
    """True if another span of the session may bind a spec, or rename who it was bound for."""


class SpecBinder:
    """The loaded specs, each with its judge, and the rules that choose among them.

    A binder never changes: a reload makes another, and a session keeps the one it began with.

    Args:
        specs: the loaded specs.
        before: the binder that this one replaces. Specs that did not change keep their judge.
    """

    def __init__(self, specs: Iterable[Spec], before: SpecBinder | None = None) -> None:
        known = before.judges if before is not None else {}
        self.judges: dict[str, Judge] = {
            spec.id: _judge(spec, known.get(spec.id)) for spec in specs
        }
        self._asked = before.keys() if before is not None else frozenset[str]()
        """Attributes on which older sessions may still bind."""
        self._cache: dict[tuple[int, str], BoundSpecs] = {}
        self._cached_bytes = 0
        self._by_agent = any(
            AGENT_ATTRIBUTE in judge.spec.match.keys for judge in self.judges.values()
        )

    def keys(self) -> frozenset[str]:
        """The keys of attributes that a binding may depend on."""
        wanted = {key for judge in self.judges.values() for key in judge.spec.match.keys}
        return frozenset(wanted | self._asked | {SPEC_ATTRIBUTE}) - {AGENT_ATTRIBUTE}

    def asked_results(self) -> dict[str, tuple[ValuePath, ...]]:
        """The paths of results that specs ask for, by tool."""
        found: dict[str, dict[str, ValuePath]] = {}
        for judge in self.judges.values():
            asked = [(t, each.paths) for t, each in judge.spec.alphabet.asked().items()]
            if judge.data is not None:
                asked += [(tool, each.paths) for tool, each in judge.data.sources.items()]
            for tool, paths in asked:
                if paths:
                    found.setdefault(tool, {}).update({path.text: path for path in paths})
        return {tool: tuple(paths.values()) for tool, paths in found.items()}

    @property
    def hears(self) -> bool:
        """True if a spec asks what users said."""
        return any(each.data is not None and each.data.hears for each in self.judges.values())

    def differs(self, other: SpecBinder) -> bool:
        """True if some session would have other specs than under the binder `other`."""
        return list(self.judges.values()) != list(other.judges.values())

    def bind(self, attributes: Mapping[str, Any], agent: str) -> tuple[Judge, ...]:
        """The judges of a session with these attributes, under this agent."""
        return self.bound(attributes, agent).judges

    def bound(self, attributes: Mapping[str, Any], agent: str) -> BoundSpecs:
        """The judges as in `bind`, and whether more may follow from other attributes.

        Cached by the identity of `attributes`, which spans of one resource share.
        """
        key = (id(attributes), agent if self._by_agent else "")
        found = self._cache.get(key)
        if found is None or found.attributes is not attributes:
            self._cached_bytes += arguments_bytes(attributes) + text_bytes(agent)
            if len(self._cache) >= _CACHE_MAX or self._cached_bytes > _CACHE_BYTES_MAX:
                self._cache.clear()
                self._cached_bytes = 0
            judges = self._choose(attributes, agent)
            more = len(judges) < len(self.judges) or self._by_agent
            found = self._cache[key] = BoundSpecs(attributes, judges, more)
        return found

    def _choose(self, attributes: Mapping[str, Any], agent: str) -> tuple[Judge, ...]:
        seen = {**attributes, AGENT_ATTRIBUTE: agent} if agent else attributes
        # A span's attributes come on top of those of its resource.
        views = (seen, attributes) if AGENT_ATTRIBUTE in attributes else (seen,)
        named, also = attributes.get(SPEC_ATTRIBUTE), attributes.get(ALSO_ATTRIBUTE)
        known = self.judges.get(named) if isinstance(named, str) else None
        # Policies add up: naming one leaves the choice of the others to `match`.
        decides = named is not None and not (known and known.spec.kind == "policy")
        # A name decides among the specs of its kind; one that is not known is a task's.
        open_kinds = {
            "policy",
            "task" if known and known.spec.kind == "reference" else "reference",
        }
        return tuple(
            judge
            for judge in self.judges.values()
            if judge.spec.id in (named, also)
            or (
                not (decides and judge.spec.kind not in open_kinds)
                and any(judge.spec.match.matches(view) for view in views)
            )
        )


def _judge(spec: Spec, known: Judge | None) -> Judge:
    """The judge of a spec: the existing one if document and accepted calls in force are the same.

    Accepted calls expire without a change of the document.
    """
    if known is None or known.spec.file != spec.file:
        return Judge(spec)
    return known if document_of(known.spec) == document_of(spec) else Judge(spec)


def document_of(spec: Spec) -> tuple[str, str, str, tuple[Acceptance, ...]]:
    """What a version of a spec is known by, wherever its file lies."""
    return spec.id, spec.sha256_8, spec.version, spec.accepted
