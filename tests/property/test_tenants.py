"""One tenant's results do not depend on what another tenant sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor
from monitor.exposition.metric_samples import monitor_families
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.compiler.compile import compile_text

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND

TASK = """
id: shop
kind: task
match: {service.name: shop}
alphabet: {pay: {tool: pay}, ship: {tool: ship}}
golden: [[pay, ship]]
"""
SPEC = compile_text(TASK, "shop.yaml")[0]

Sent = tuple[str, int, str]
"""Tenant, session, tool."""

_QUIET = st.tuples(
    st.just("quiet"), st.integers(0, 4), st.sampled_from(["pay", "ship", "browse", "own"])
)
_LOUD = st.tuples(
    st.just("loud"),
    st.integers(0, 200),
    st.sampled_from(["pay", "ship"]) | st.integers(0, 10_000).map(lambda n: f"invented{n}"),
)


def call(sent: Sent, number: int) -> ToolCall:
    tenant, session, tool = sent
    agent = "clerk" if tenant == "quiet" else f"clerk{session}"
    return ToolCall(
        session=SessionKey(tenant, f"s{session}"),
        agent=agent,
        tool=tool,
        arguments={"n": number},
        error=False,
        start_ns=START + number * SECOND,
        end_ns=START + number * SECOND + 1,
        trace_id=session.to_bytes(16, "big"),
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={"service.name": "shop"},
    )


def told(sent: Sequence[Sent | None]) -> tuple[Any, ...]:
    """The quiet tenant's verdicts, ends, judgements and series, with one call a second."""
    assert SPEC is not None
    limits = Limits(
        history_complete=True,
        sessions_max=12,
        pairs_max=16,
        names_bytes_max=90_000,
        held_bytes_max=20_000,
        namespace_label="always",
    )
    monitor = Monitor([SPEC], limits)
    verdicts, ends = [], []
    for number, each in enumerate(sent):
        now = START + number * SECOND + 2
        if each is not None:
            found = monitor.observe(call(each, number), now)
            verdicts += [each for each in found if each.session.namespace == "quiet"]
        ends += [end for end in monitor.tick(now) if end.session.namespace == "quiet"]
    objects = [each for each in monitor.judgements() if each["namespace"] == "quiet"]
    lines = [
        (family.name, str(sample))
        for family in monitor_families(monitor.totals, monitor.binder, monitor.counters.ended)
        for sample in family.samples
        if 'namespace="quiet"' in str(sample)
    ]
    own = [line for _, text in lines for line in text.splitlines() if "quiet" in line]
    return verdicts, ends, objects, own


def alone(sent: Sequence[Sent]) -> list[Sent | None]:
    """The same without the loud one."""
    return [each if each[0] == "quiet" else None for each in sent]


@given(st.lists(_QUIET | _LOUD | _LOUD, max_size=120))
def test_a_tenant_hears_the_same_whatever_another_sends(sent: list[Sent]) -> None:
    """A loud tenant's sessions, names and agents change no verdict, end, judgement or series."""
    assert told(sent) == told(alone(sent))


def test_a_flood_moves_nothing() -> None:
    """Thousands of the loud tenant's sessions, tools and agents at the bounds of everything."""
    quiet: list[Sent] = [
        ("quiet", n, tool) for n in range(4) for tool in ("pay", "own", "ship")
    ]
    loud: list[Sent] = [("loud", n % 500, f"invented{n}") for n in range(1_500)]
    sent = [*quiet[:6], *loud, *quiet[6:]]
    verdicts, _, judgements, series = told(sent)

    assert len(verdicts) == len(quiet)
    assert {each["agent"] for each in judgements} == {"clerk"}
    assert series
    assert told(sent) == told(alone(sent))
