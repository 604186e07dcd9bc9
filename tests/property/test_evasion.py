"""Any odd span that names a tool, or a call, is judged or counted by a reason."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from collector.dialects.registry import DIALECTS
from collector.dialects.unknown_dialect import GIVEN, NAMES, SAYS
from monitor.spec.compiler.compile import compile_text
from tests.collector.conftest import Bench, Wire

POLICY = """
id: no_delete
kind: policy
alphabet: {delete: {tool: delete}, read: {tool: read}}
constraints: [{absence: delete}]
"""
EVASIVE = (
    "ambiguous_attribute",
    "ambiguous_tool",
    "id_reused",
    "look_alike",
    "name_variant",
    "no_dialect",
    "operation_conflict",
    "over_bound",
    "unnamed_tool",
)
SCOPES = sorted(
    {scope for dialect in DIALECTS for scope in dialect.scopes + dialect.not_scopes}
)

_odd: st.SearchStrategy[Any] = st.sampled_from(
    ["", b"", b"delete", 7, 7.5, True, None, [], {}, ["delete"], ["x", "delete"]]
)
_names = st.one_of(st.sampled_from(["delete", "read", " delete", "Delete"]), _odd)
_kinds = st.sampled_from(
    ["TOOL", "LLM", "AGENT", "CHAIN", "tool", "chat", "execute_tool", "invoke_agent"]
)
_pairs = st.one_of(
    st.tuples(st.sampled_from(NAMES), _names),
    st.tuples(st.sampled_from(sorted(SAYS)), st.one_of(_kinds, _odd)),
    st.tuples(
        st.sampled_from(sorted(SAYS)),
        st.sampled_from(sorted({v for each in SAYS.values() for v in each})),
    ),
    st.tuples(st.sampled_from(sorted(GIVEN)), st.one_of(st.just("{}"), _odd)),
    st.tuples(st.sampled_from(["error.type", "session.id", "x"]), st.sampled_from(["a", "b"])),
)


@st.composite
def spans(draw: Any) -> dict[str, Any]:
    """A span's name, attributes (keys may be there twice) and the rest, as `Wire.span` takes them."""
    return {
        "name": draw(
            st.sampled_from(
                ["execute_tool delete", "tools/call delete", "chat m", "span", "delete"]
            )
        ),
        "attributes": draw(st.lists(_pairs, min_size=1, max_size=6)),
        "scope": draw(st.one_of(st.just(""), st.sampled_from(SCOPES))),
        "kind": draw(st.sampled_from([0, 1, 2, 3, 5])),
        "status": draw(st.sampled_from([0, 1, 2])),
        "end": draw(st.sampled_from([0, 1, 3])),
        "parent": draw(st.sampled_from(["", "first", "nobody"])),
    }


def _bears_a_name(made: dict[str, Any]) -> bool:
    """True where some attribute names a tool."""
    return any(
        key in NAMES and value not in (None, True, "", b"", [], {})
        for key, value in made["attributes"]
    )


def _says_it_ran(made: dict[str, Any]) -> bool:
    return any(
        key in SAYS and isinstance(value, str) and value in SAYS[key]
        for key, value in made["attributes"]
    )


def _bench() -> Bench:
    spec, findings = compile_text(POLICY, "no_delete.yaml")
    assert spec is not None, findings
    return Bench([spec], requested="never")


def _calls(bench: Bench) -> int:
    return sum(bench.stats.counts.get(("calls", each), 0) for each in ("executed", "pending"))


@given(spans())
def test_an_odd_span_is_judged_or_counted(made: dict[str, Any]) -> None:
    """A span with any attributes is judged, or the session counts it."""
    wire, bench = Wire(), _bench()
    bench.send(wire.tool("read", id="first", start=0, end=9, attributes={"session.id": "a"}))
    before = _calls(bench)
    bench.send(_span(wire, made))
    if _bears_a_name(made) or _says_it_ran(made):
        counted = sum(bench.covered(reason) for reason in EVASIVE)
        assert _calls(bench) > before or counted or bench.stats.counts.get(("spans_merged",), 0)


def _span(wire: Wire, made: dict[str, Any], **more: Any) -> Any:
    rest = {key: value for key, value in made.items() if key not in ("name", "attributes")}
    return wire.span(
        made["name"], made["attributes"], **{"id": "odd", "start": 2, **rest, **more}
    )


@given(
    st.lists(
        st.sampled_from(["delete", "read", b"delete", ["delete"], ""]), min_size=1, max_size=4
    )
)
def test_a_name_that_a_policy_forbids_is_harm_wherever_it_stands(names: list[Any]) -> None:
    """Of a span that says it executed a tool, under any number of names."""
    told = [
        ("gen_ai.operation.name", "execute_tool"),
        *(("gen_ai.tool.name", each) for each in names),
    ]
    bench = _bench().send(Wire().span("span", told))
    harm = sum(each["harmful"] or 0 for each in bench.monitor.judgements())
    wanted = any(each in ("delete", b"delete", ["delete"]) for each in names)
    assert (harm > 0) is wanted
    assert wanted or "read" in names or bench.covered("unnamed_tool")


_call: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(["delete", "read"]),
        "arguments": st.sampled_from([None, {"x": 1}, {"x": 2}]),
        "id": st.sampled_from("abc"),
        "parent": st.sampled_from(["", "a", "b"]),
        "call_id": st.sampled_from(["", "c"]),
        "start": st.sampled_from([1, 2]),
        "end": st.sampled_from([3, 4]),
    }
)


def _untold(span_id: str, *, parent: str = "", call_id: str = "c") -> dict[str, Any]:
    return {
        "tool": "read",
        "arguments": None,
        "id": span_id,
        "parent": parent,
        "call_id": call_id,
        "start": 1,
        "end": 3,
    }


@given(st.lists(_call, min_size=2, max_size=3, unique_by=lambda each: each["id"]))
@example(
    [
        _untold("a", call_id=""),
        _untold("c"),
        {**_untold("b", parent="a"), "arguments": {"x": 1}},
    ]
)
def test_no_call_that_was_given_something_else_is_lost(calls: list[dict[str, Any]]) -> None:
    """Calls that differ in tool or arguments are all judged: nested or parallel, with any ids, in any order."""
    wanted = {(each["tool"], each["arguments"]["x"]) for each in calls if each["arguments"]}
    tools = {each["tool"] for each in calls}
    found = []
    for order in permutations(calls):
        bench = Bench().send(*(Wire().tool(**each) for each in order))
        steps = [
            (step["tool"], (step["arguments"] or {}).get("x"), step["start_ns"])
            for step in bench.steps()
        ]
        assert wanted <= {each[:2] for each in steps}
        assert tools == {each[0] for each in steps}
        found.append(sorted(steps, key=repr))
    assert all(each == found[0] for each in found)
