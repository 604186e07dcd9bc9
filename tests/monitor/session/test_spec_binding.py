"""What is remembered of bindings is bounded in bytes, with the names of agents."""

from __future__ import annotations

import tracemalloc

import pytest

from monitor.session import spec_binding
from monitor.session.spec_binding import SpecBinder
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

ATTRIBUTES = {"service.name": "shop"}


def shop(match: str) -> Spec:
    spec, problems = compile_text(
        f"id: shop\nkind: policy\nmatch: {{{match}}}\nalphabet: {{pay: {{tool: pay}}}}\n"
        "constraints: [{absence: pay}]",
        "shop.yaml",
    )
    assert spec is not None, problems
    return spec


@pytest.mark.plain  # another bound is set
@pytest.mark.parametrize(
    "match", ["service.name: shop", "service.name: shop, gen_ai.agent.name: 'a*'"]
)
def test_names_of_agents_are_bounded(monkeypatch: pytest.MonkeyPatch, match: str) -> None:
    """A client that makes up agents takes no more than the bound; each is bound as a lookup without memory binds it."""
    monkeypatch.setattr(spec_binding, "_CACHE_BYTES_MAX", 100_000)
    spec = shop(match)
    binder = SpecBinder([spec])
    bound, most = list[bool](), 0
    tracemalloc.start()
    try:
        for number in range(200):
            agent = f"{'ab'[number % 2]}{number}{'x' * 4_000}"
            bound.append(bool(binder.bind(ATTRIBUTES, agent)))
            most = max(most, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    wanted = [bool(SpecBinder([spec]).bind(ATTRIBUTES, agent)) for agent in "ab"]
    assert bound == wanted * 100
    assert most <= 1.5 * 100_000
