"""A spec as the session view draws it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from monitor.automaton.dfa import Machine
from monitor.drawing.graph import graph
from monitor.spec.constraints import SideBySide
from monitor.spec.rule_sentences import rule_sentence
from monitor.spec.spec import Spec

__all__ = ["RULES_MAX", "drawn", "head"]

RULES_MAX: Final = 40
"""Constraints of a spec that are drawn."""


def head(spec: Spec) -> dict[str, Any]:
    """What a spec is called, and what it is for."""
    return {
        "id": spec.id,
        "version": spec.version,
        "description": spec.description,
        "kind": spec.kind,
        "mode": spec.mode,
        "scope": spec.scope,
        "sha256_8": spec.sha256_8,
    }


def drawn(spec: Spec) -> dict[str, Any]:
    """The head, and the machine, or those of the constraints, where they fit a picture.

    A learnt reference has none: its tree goes with a session (`collector.api.session_view.reference_view`).
    """
    symbols = spec.machine.symbols
    golden = [[symbols[symbol] for symbol in path] for path in (spec.golden or ())]
    return {**head(spec), "machines": list(_machines(spec)), "golden": golden}


def _machines(spec: Spec) -> Iterator[dict[str, Any]]:
    if spec.learnt is not None:
        return
    if isinstance(spec.machine, SideBySide):
        for rule in spec.machine.constraints[:RULES_MAX]:
            sentence = rule_sentence(rule, spec.machine.symbols)
            yield {**_picture(rule.text, rule.automaton), "rule": sentence}
    else:
        yield _picture(spec.id, spec.machine)


def _picture(title: str, machine: Machine) -> dict[str, Any]:
    try:
        return {"title": title, **graph(machine)}
    except ValueError as problem:
        return {"title": title, "states": [], "edges": [], "why": str(problem)}
