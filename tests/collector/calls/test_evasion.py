"""A call in an odd span is judged, or counted by a reason: silence is what must not be."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from collector.config.sources import load
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from monitor.visibility.cause import Cause
from tests.collector.conftest import BASE, SECOND

POLICY = """
id: no_delete
kind: policy
match: {service.name: rover}
alphabet: {delete: {tool: delete}, pay: {tool: pay}}
constraints: [{absence: delete}, {at_most: [pay, 1]}]
"""
TASK = """
id: only_read
kind: task
alphabet: {read: {tool: read}}
initial: a
accepting: [a]
transitions: {}
reads: [read]
"""
OF_PATHS = """
id: no_etc
kind: policy
match: {service.name: rover}
alphabet: {etc: {tool: delete, arguments: {path: /etc}}, other: {tool: delete}}
constraints: [{absence: etc}]
"""
ROVER = {"service.name": "rover"}
ETC, TMP = {"path": "/etc"}, {"path": "/tmp"}


def spec(text: str) -> Spec:
    """A spec that must compile."""
    found, findings = compile_text(text, "spec.yaml")
    assert found is not None, findings
    return found


def harms(bench: Any, name: str = "") -> int:
    """Harmful calls of all sessions, under one spec or under all."""
    found = [each for each in bench.monitor.judgements() if name in ("", each["spec"])]
    return sum(each["harmful"] or 0 for each in found)


def missed(bench: Any) -> dict[str, int]:
    """The counts, summed over sessions, of what was not judged or not with certainty."""
    found: dict[str, int] = {}
    for each in bench.monitor.judgements():
        for reason, count in each["coverage"]["not_judged"].items():
            found[reason] = max(count, found.get(reason, 0))
    return found


# --- whose specs hold -------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["call", "earlier", "later"])
def test_a_spans_attribute_does_not_overrule_its_resources(
    wire: Any, bench: Any, where: str
) -> None:
    """The service name of the resource selects the specs, whatever the span says."""
    other = {"service.name": "somebody"}
    call = wire.tool(
        "delete", start=5, resource=ROVER, attributes=other if where == "call" else {}
    )
    chat = wire.span("chat", other, start=1, resource=ROVER)
    spans = {"call": [call], "earlier": [chat, call], "later": [call, chat]}[where]

    assert harms(bench([spec(POLICY)]).send(*spans)) == 1


def test_a_spans_attribute_adds_to_its_resources(wire: Any, bench: Any) -> None:
    """A span may set a key that its resource lacks, such as the tenant."""
    of_tenant = spec(POLICY.replace("service.name: rover", "tenant: farm"))
    call = wire.tool("delete", attributes={"tenant": "farm"})
    assert harms(bench([of_tenant]).send(call)) == 1


def test_a_setting_lets_a_spans_attribute_overrule(wire: Any, bench: Any) -> None:
    """If one process runs several services, the span's attribute may name the service."""
    keys = load(None, {"OFFRAILS_SESSIONS_SPAN_ATTRIBUTES_BIND": "service.name"}, {})
    call = wire.tool("delete", resource={"service.name": "x"}, attributes=ROVER)
    made = bench([spec(POLICY)], span_keys=keys.sessions.span_attributes_bind)
    assert harms(made.send(call)) == 1
    assert harms(bench([spec(POLICY)]).send(call)) == 0


@pytest.mark.parametrize("named", ["only_read", "unheard_of"])
def test_a_span_that_names_a_spec_unbinds_none(wire: Any, bench: Any, named: str) -> None:
    """A spec named in a span's `offrails.spec` is judged in addition to those of the resource."""
    bound = spec(
        TASK.replace("only_read", "bound").replace(
            "kind: task", "kind: task\nmatch: {service.name: rover}"
        )
    )
    call = wire.tool("delete", resource=ROVER, attributes={"offrails.spec": named})
    made = bench([bound, spec(TASK)]).send(call)
    assert (harms(made, "bound"), harms(made, "only_read")) == (1, named == "only_read")


def test_a_span_adds_to_the_spec_that_its_resource_names(wire: Any, bench: Any) -> None:
    """The resource names a task outright; a span may name another, and both judge."""
    other = spec(TASK.replace("only_read", "other"))
    resource = {"service.name": "x", "offrails.spec": "only_read"}
    call = wire.tool("delete", resource=resource, attributes={"offrails.spec": "other"})
    made = bench([other, spec(TASK)]).send(call)
    assert (harms(made, "other"), harms(made, "only_read")) == (1, 1)


def test_an_agents_name_of_the_resource_binds_whatever_spans_name(
    wire: Any, bench: Any
) -> None:
    """A span's agent adds the specs of its name to those of the resource's."""
    of_agent = spec(POLICY.replace("service.name", "gen_ai.agent.name"))
    resource = {"service.name": "x", "gen_ai.agent.name": "rover"}
    call = wire.tool("delete", resource=resource, attributes={"gen_ai.agent.name": "other"})
    assert harms(bench([of_agent]).send(call)) == 1


# --- which spans are one call -----------------------------------------------------------------


def test_a_call_below_another_with_other_arguments_is_a_call(wire: Any, bench: Any) -> None:
    """Both calls are judged, in any order of arrival."""
    spans = (
        wire.tool("delete", arguments=TMP, id="a", start=1, end=9, resource=ROVER),
        wire.tool("delete", arguments=ETC, id="b", parent="a", start=2, end=3, resource=ROVER),
    )
    for order in permutations(spans):
        made = bench([spec(OF_PATHS)]).send(*order)
        assert (made.tools(), harms(made)) == (["delete", "delete"], 1)


@pytest.mark.parametrize("inner", [{}, {"path": "/etc", "force": True}, {"paths": ["/etc"]}])
def test_one_instrumentation_writes_a_calls_arguments_alike(
    wire: Any, bench: Any, inner: dict[str, Any]
) -> None:
    """More of them, fewer or others: that is another call of the same dialect."""
    spans = (
        wire.tool("delete", arguments=ETC, id="a", start=1, end=9),
        wire.tool("delete", arguments=inner, id="b", parent="a", start=2, end=3),
    )
    for order in permutations(spans):
        assert bench().send(*order).tools() == ["delete", "delete"]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ({"path": "/etc"}, {"path": "/etc", "context": {}}),
        ({"path": "/etc", "depth": "3"}, {"path": "/etc", "depth": 3}),
        ({"path": "/etc", "tags": '["a"]'}, {"path": "/etc", "tags": ["a"]}),
        ({"__arg1": "/etc"}, {"path": "/etc"}),
        (None, {"path": "/etc"}),
    ],
)
def test_two_instrumentations_may_write_them_differently(
    wire: Any, bench: Any, outer: Any, inner: Any
) -> None:
    """One span adds a context or writes a value as text. Both are one call with all its arguments."""
    kind = {"openinference.span.kind": "TOOL", "tool.name": "delete"}
    if outer is not None:
        kind["input.value"] = wire.json(outer)
    spans = (
        wire.span("delete", kind, id="a", start=1, end=9, resource=ROVER),
        wire.tool(
            "delete", arguments=inner, id="b", parent="a", start=2, end=3, resource=ROVER
        ),
    )
    for order in permutations(spans):
        made = bench([spec(OF_PATHS)]).send(*order)
        assert (len(made.steps()), harms(made)) == (1, 1)


def test_a_wrapper_without_arguments_is_one_call_alone(wire: Any, bench: Any) -> None:
    """Below it two calls ran: the earlier is its own, in any order of arrival."""
    spans = (
        wire.tool("delete", id="a", start=1, end=9, resource=ROVER),
        wire.tool("delete", arguments=TMP, id="b", parent="a", start=2, end=3, resource=ROVER),
        wire.tool("delete", arguments=ETC, id="c", parent="a", start=4, end=5, resource=ROVER),
    )
    for order in permutations(spans):
        made = bench([spec(OF_PATHS)]).send(*order)
        assert [step["arguments"] for step in made.steps()] == [TMP, ETC]
        assert harms(made) == 1


def test_a_wrapper_that_tells_its_arguments_when_it_ends_hides_no_call(
    wire: Any, bench: Any
) -> None:
    """A pending wrapper may be the call below it. If it ends with other arguments, both are calls."""
    pending = wire.tool("delete", id="a", start=1, end=0, resource=ROVER)
    ended = wire.tool("delete", arguments=TMP, id="a", start=1, end=9, resource=ROVER)
    inner = wire.tool(
        "delete", arguments=ETC, id="b", parent="a", start=2, end=3, resource=ROVER
    )
    for order in ((pending, inner, ended), (inner, pending, ended), (pending, ended, inner)):
        made = bench([spec(OF_PATHS)]).send(*order)
        assert (len(made.steps()), harms(made)) == (2, 1)


@pytest.mark.parametrize("scope", ["", "openinference.instrumentation.x"])
def test_parallel_calls_with_one_id_and_other_arguments_are_two(
    wire: Any, bench: Any, scope: str
) -> None:
    """A model may repeat a call id, whichever instrumentation reports the calls."""
    one = wire.tool(
        "delete", call_id="c", arguments=TMP, id="a", start=1, end=4, resource=ROVER
    )
    two = {"openinference.span.kind": "TOOL", "tool.name": "delete", "tool_call.id": "c"}
    other = (
        wire.span(
            "delete",
            {**two, "input.value": wire.json(ETC)},
            id="b",
            start=2,
            end=5,
            scope=scope,
            resource=ROVER,
        )
        if scope
        else wire.tool(
            "delete", call_id="c", arguments=ETC, id="b", start=2, end=5, resource=ROVER
        )
    )
    for order in permutations((one, other)):
        made = bench([spec(OF_PATHS)]).send(*order)
        assert (len(made.steps()), harms(made)) == (2, 1)


@pytest.mark.parametrize("arguments", [None, TMP])
def test_siblings_of_one_instrumentation_with_one_id_are_two(
    wire: Any, bench: Any, arguments: Any
) -> None:
    """Side by side below one span, at the same time: each ran, also with equal arguments."""
    spans = _siblings(wire, arguments, {"a": 4, "b": 4.001})
    turn = wire.span("turn", {}, id="turn", start=0, end=5, resource=ROVER)
    for order in permutations((*spans, turn)):
        made = bench([spec(POLICY)]).send(*order)
        made.monitor.tick(BASE + 3600 * SECOND)
        assert (len(made.steps()), harms(made)) == (2, 1)
    assert len(bench().send(*spans, *spans).steps()) == 2


@pytest.mark.parametrize("arguments", [None, TMP])
def test_siblings_that_differ_in_their_span_ids_alone_may_be_one(
    wire: Any, bench: Any, arguments: Any
) -> None:
    """Two executions hardly begin and end at the same instants: an exporter may write a span twice."""
    spans = _siblings(wire, arguments, {"a": 4, "b": 4})
    for order in permutations(spans):
        made = bench([spec(POLICY)]).send(*order)
        assert (len(made.steps()), harms(made)) == (2, 0)
        assert made.covered("told_twice") == 1
        assert [bool(step.get("possible")) for step in made.steps()] == [False, True]


def _siblings(wire: Any, arguments: Any, ends: dict[str, float]) -> list[Any]:
    return [
        wire.tool(
            "pay", call_id="c", arguments=arguments, id=name, parent="turn", start=1, end=end,
            resource=ROVER,
        )
        for name, end in ends.items()
    ]  # fmt: skip


# --- ids that were seen -----------------------------------------------------------------------


@pytest.mark.parametrize("first", ["read", "delete"])
def test_another_tool_under_ids_that_were_seen_is_a_call(
    wire: Any, bench: Any, first: str
) -> None:
    """Another tool under known ids is judged once as a call of its own, and the reuse is counted."""
    second = "delete" if first == "read" else "read"
    one = wire.tool(first, id="a", start=1, resource=ROVER)
    two = wire.tool(second, id="a", start=1, resource=ROVER)
    assert sorted(bench().send(one, two, two, one).tools()) == ["delete", "read"]
    made = bench([spec(POLICY)]).send(one, two, two, one)
    assert harms(made) == 1
    assert made.covered("id_reused") == 1 == missed(made)["id_reused"]
    assert made.covered("duplicate") == 2


@pytest.mark.parametrize(
    "change",
    [{"arguments": ETC}, {"arguments": TMP, "start": 3, "end": 4}],
    ids=["arguments", "time"],
)
def test_another_call_of_the_tool_under_ids_that_were_seen_is_a_call(
    wire: Any, bench: Any, change: dict[str, Any]
) -> None:
    """Other arguments or another time under known ids make another call; a copy has the same."""
    one = wire.tool("delete", id="a", arguments=TMP, start=1, end=2)
    two = wire.tool("delete", id="a", **{"start": 1, "end": 2, **change})
    made = bench().send(one, two)
    assert len(made.steps()) == 2
    assert made.covered("id_reused") == 1


@pytest.mark.parametrize(("first", "second"), [("read", "delete"), ("delete", "read")])
def test_a_pending_call_that_ends_as_another_is_two(
    wire: Any, bench: Any, first: str, second: str
) -> None:
    """If the final span names another call, both the pending and the final call are kept."""
    spans = (
        wire.tool(first, id="a", start=1, end=0, resource=ROVER),
        wire.tool(second, id="a", start=1, end=2, resource=ROVER),
    )
    assert sorted(bench().send(*spans).tools()) == ["delete", "read"]
    made = bench([spec(POLICY)]).send(*spans)
    assert (harms(made), made.covered("id_reused")) == (1, 1)


def test_a_fuller_copy_tells_the_arguments(wire: Any, bench: Any) -> None:
    """If a span is exported again with arguments, the call gets them."""
    one = wire.tool("delete", id="a", start=1, resource=ROVER)
    two = wire.tool("delete", id="a", arguments=ETC, start=1, resource=ROVER)
    made = bench([spec(OF_PATHS)]).send(one, two, one)
    assert (len(made.steps()), harms(made)) == (1, 1)
    assert made.covered("id_reused") == 0


# --- names that are none, or two --------------------------------------------------------------

TOOL = ("gen_ai.operation.name", "execute_tool")
NAME = "gen_ai.tool.name"


@pytest.mark.parametrize(
    "value",
    [["delete"], 7, 7.5, b"delete", "", True, None, {"name": "delete"}, [], [["delete"]]],
)
def test_a_name_that_is_no_text_falls_back_on_the_spans_name(
    wire: Any, bench: Any, value: Any
) -> None:
    """If the tool name is not a text, the call is judged under the tool in the span's name."""
    call = wire.span("execute_tool delete", [TOOL, (NAME, value)], resource=ROVER)
    assert harms(bench([spec(POLICY)]).send(call)) == 1


@pytest.mark.parametrize("value", [["delete"], b"delete", ["read", "delete"]])
def test_a_name_that_is_no_text_is_read(wire: Any, bench: Any, value: Any) -> None:
    """If no other attribute names the tool, the names inside the value are read, and each is judged."""
    call = wire.span("span", [TOOL, (NAME, value)], resource=ROVER)
    made = bench([spec(POLICY)]).send(call, call)
    assert harms(made) == 1
    assert (made.covered("ambiguous_tool") > 0) is (len(value) == 2)


@pytest.mark.parametrize("value", [None, "", True, {}, []])
def test_a_call_without_a_name_is_counted(wire: Any, bench: Any, value: Any) -> None:
    """A call without a tool name cannot be judged. The session counts it."""
    made = bench().send(
        wire.span("span", [TOOL, (NAME, value)], start=1), wire.tool("read", start=2)
    )
    assert made.tools() == ["read"]
    assert made.covered("unnamed_tool") == 1 == missed(made)["unnamed_tool"]


@pytest.mark.parametrize(
    "names",
    [
        ("delete", "read"),
        ("read", "delete"),
        ("read", "delete", "read"),
        (["delete"], "read"),
        ("read", b"delete"),
    ],
)
def test_of_several_names_each_is_judged(wire: Any, bench: Any, names: Any) -> None:
    """If a span repeats the key with several tool names, each is judged."""
    call = wire.span("span", [TOOL, *((NAME, name) for name in names)], resource=ROVER)
    assert sorted(bench().send(call, call).tools()) == ["delete", "read"]
    made = bench([spec(POLICY)]).send(call)
    assert harms(made) == 1
    assert made.covered("ambiguous_tool") == 1 == missed(made)["ambiguous_tool"]


def test_the_same_name_twice_is_no_doubt(wire: Any, bench: Any) -> None:
    """An exporter that writes the same attribute twice reports one call."""
    made = bench().send(wire.span("span", [TOOL, (NAME, "read"), TOOL, (NAME, "read")]))
    assert made.tools() == ["read"]
    assert not any(made.covered(each) for each in ("ambiguous_tool", "ambiguous_attribute"))


@pytest.mark.parametrize("given", [(TMP, ETC), (ETC, TMP)])
def test_of_several_arguments_each_are_judged(wire: Any, bench: Any, given: Any) -> None:
    """The key of the arguments twice: the call may have been either."""
    told = [("gen_ai.tool.call.arguments", wire.json(each)) for each in given]
    call = wire.span("span", [TOOL, (NAME, "delete"), *told], resource=ROVER)
    made = bench([spec(OF_PATHS)]).send(call)
    assert (harms(made), made.covered("ambiguous_attribute")) == (1, 1)


@pytest.mark.parametrize("operations", [("chat", "execute_tool"), ("execute_tool", "chat")])
def test_of_several_operations_the_calls_is_judged(
    wire: Any, bench: Any, operations: Any
) -> None:
    """Of several operation names, that of a tool call counts, at any place."""
    told = [("gen_ai.operation.name", each) for each in operations]
    call = wire.span("span", [*told, (NAME, "delete")], resource=ROVER)
    made = bench([spec(POLICY)]).send(call)
    assert (harms(made), made.covered("ambiguous_attribute")) == (1, 1)


def test_several_sessions_of_one_call_are_counted(wire: Any, bench: Any) -> None:
    """A call is of one session; that its span names two is shown there."""
    ids = [("gen_ai.conversation.id", each) for each in ("a", "b")]
    made = bench().send(wire.span("span", [TOOL, (NAME, "read"), *ids]))
    assert missed(made)["ambiguous_attribute"] == 1


@pytest.mark.parametrize(("one", "other"), [("read", "delete"), ("delete", "read")])
def test_two_conventions_that_name_two_tools_are_both_judged(
    wire: Any, bench: Any, one: str, other: str
) -> None:
    """If two conventions name two tools in one span, both tools are judged."""
    also = [("openinference.span.kind", "TOOL"), ("tool.name", other)]
    for told in ([TOOL, (NAME, one), *also], [TOOL, (NAME, one), ("tool.name", other)]):
        made = bench([spec(POLICY)]).send(wire.span("span", told, resource=ROVER))
        assert (harms(made), made.covered("ambiguous_tool")) == (1, 1)


# --- spans that say they are something else ---------------------------------------------------


@pytest.mark.parametrize(
    "operation",
    ["chat", "invoke_agent", "embeddings", "text_completion", "unknown", "create_agent"],
)
@pytest.mark.parametrize(
    "given", ["gen_ai.tool.call.arguments", "gen_ai.tool.call.id", "gen_ai.tool.call.result"]
)
def test_another_operation_with_a_calls_attributes_is_judged(
    wire: Any, bench: Any, operation: str, given: str
) -> None:
    """A span with attributes that only calls have is judged. Its other operation name is counted."""
    told = {"gen_ai.operation.name": operation, NAME: "delete", given: "{}"}
    made = bench([spec(POLICY)]).send(wire.span("chat m", told, resource=ROVER))
    assert harms(made) == 1
    assert made.covered("operation_conflict") == 1 == missed(made)["operation_conflict"]


@pytest.mark.parametrize(
    "told",
    [
        {"gen_ai.operation.name": "chat", NAME: "delete"},
        {"gen_ai.operation.name": "invoke_agent", "tool.name": "delete"},
        {"openinference.span.kind": "LLM", "tool.name": "delete"},
        {"openinference.span.kind": "CHAIN", NAME: ["delete"]},
        {"gen_ai.operation.name": "chat", "mcp.tool.name": "delete"},
        {"gen_ai.operation.name": ["execute_tool"]},
    ],
)
def test_another_operation_with_a_tools_name_is_counted(
    wire: Any, bench: Any, told: dict[str, Any]
) -> None:
    """A tool name beside another operation proves no call. The session counts it as not judged."""
    made = bench().send(
        wire.tool("read", start=1),
        wire.span("execute_tool delete", told, start=2),
    )
    assert made.covered("operation_conflict") == 1 == missed(made)["operation_conflict"]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("execute_tool delete", {}),
        ("tool.called", {NAME: "delete"}),
        ("step", {NAME: "delete", "gen_ai.tool.call.arguments": "{}"}),
        ("step", {"mcp.tool.name": "delete", "mcp.method.name": "tools/call"}),
        ("step", {"tool.name": ["delete"], "tool.arguments": "{}"}),
    ],
)
@pytest.mark.parametrize("below", ["call", "other"])
def test_a_call_in_an_event_is_counted(
    wire: Any, bench: Any, event: str, told: dict[str, Any], below: str
) -> None:
    """Only spans are judged: the session counts a span with an event that tells of a call."""
    span = (
        wire.tool("read", start=1, events=[(event, told)])
        if below == "call"
        else wire.span("work", {}, start=2, events=[(event, told)])
    )
    made = bench().send(wire.tool("read", start=0), span)
    assert made.covered("call_in_event") == 1 == missed(made)["call_in_event"]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("exception", {"exception.message": "the tool failed"}),
        ("plan", {NAME: "delete"}),
        ("tool.started", {NAME: "read", "gen_ai.tool.call.arguments": "{}"}),
        ("gen_ai.tool.message", {"content": "delete", "id": "1"}),
        ("tool", {NAME: ""}),
    ],
)
def test_an_event_that_tells_of_no_other_call_is_not_counted(
    wire: Any, bench: Any, event: str, told: dict[str, Any]
) -> None:
    """Errors, mentions of a tool, and what a call's own span says of the call again count nothing."""
    made = bench().send(wire.tool("read", events=[(event, told)]))
    assert made.covered("call_in_event") == 0
    assert made.tools() == ["read"]


def test_names_that_tell_of_no_tool_hide_none_that_does(wire: Any, bench: Any) -> None:
    """A model's span with the name of a tool's is counted, whatever the names of like spans before and after it."""
    told = {"gen_ai.operation.name": "chat"}
    made = bench()
    for name in ("chat m", "execute_tool delete", "chat m", "execute_tool pay"):
        made.send(wire.span(name, told))
    assert made.covered("operation_conflict") == 2


def test_a_span_that_is_a_models_and_a_calls_is_both(wire: Any, bench: Any) -> None:
    """The model's requests are read, though its span names a tool."""
    parts = [{"type": "tool_call", "id": "c", "name": "delete", "arguments": {}}]
    told = {
        "gen_ai.operation.name": "chat",
        NAME: "read",
        "gen_ai.tool.call.id": "x",
        "gen_ai.output.messages": wire.json([{"role": "assistant", "parts": parts}]),
    }
    made = bench(requested="never").send(wire.span("chat m", told))
    assert made.tools() == ["read"]
    made = bench().send(wire.span("chat m", told))
    made.pipeline.finish()
    assert made.covered("requested_only") == 1


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        (
            "@openlit/instrumentation-langchain",
            {"gen_ai.operation.name": "execute_tool", NAME: "DynamicTool"},
        ),
        ("openinference.instrumentation.beeai", {"openinference.span.kind": "TOOL"}),
    ],
)
def test_what_is_known_to_be_no_call_is_counted(
    wire: Any, bench: Any, scope: str, told: dict[str, Any]
) -> None:
    """Some spans of a framework look like calls and are none. They are counted."""
    call = wire.span("execute_tool X", told, scope=scope, start=1)
    made = bench().send(call, wire.tool("read", start=2))
    assert made.tools() == ["read"]
    assert made.covered("look_alike") == 1 == missed(made)["look_alike"]


# --- arguments under two conventions ----------------------------------------------------------

_TOOL = {"openinference.span.kind": "TOOL", "tool.name": "delete"}


@pytest.mark.parametrize(
    ("first", "second", "known"),
    [
        ({"path": "/tmp"}, {"path": "/etc"}, {"path": "[unreadable]"}),
        ({"path": "/tmp"}, {"dir": "/etc"}, {"path": "[unreadable]", "dir": "[unreadable]"}),
        ({"a": 1, "path": "/tmp"}, {"a": 1, "path": "/etc"}, {"a": 1, "path": "[unreadable]"}),
        ({}, {"path": "/etc"}, {"path": "[unreadable]"}),
        ({"path": "/etc"}, {"path": "/etc"}, {"path": "/etc"}),
        ({"n": 3}, {"n": "3"}, {"n": 3}),
        ({"n": 3}, {"n": 3, "more": True}, {"n": 3, "more": True}),
        ({"n": 3}, {"name": "delete", "arguments": '{"n": 3}'}, {"n": 3}),
    ],
)
def test_arguments_that_two_conventions_tell_otherwise_are_unknown(
    wire: Any, bench: Any, first: Any, second: Any, known: Any
) -> None:
    """Either may be true: a value is known where both agree, or one leaves it out. The rest is counted."""
    more = {**_TOOL, "input.value": wire.json(second)}
    call = wire.tool("delete", arguments=first, resource=ROVER, attributes=more)
    made = bench([spec(OF_PATHS)]).send(call)
    (step,) = made.steps()
    assert step["arguments"] == known
    assert made.covered("arguments_unreadable") == ("[unreadable]" in known.values())
    assert harms(made) == ("/etc" in known.values())


def test_a_tool_behind_thousands_of_attributes_is_judged(wire: Any, bench: Any) -> None:
    """However many attributes of a span that is taken stand before its tool's name."""
    keys = [(f"k{number}", number) for number in range(16_000)]
    named = [("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "delete")]
    call = wire.span("execute_tool delete", [*keys, *named], resource=ROVER)
    assert harms(bench([spec(POLICY)]).send(call)) == 1


# --- results -----------------------------------------------------------------------------------

_FAILED = {"content": [{"type": "text", "text": "no"}], "isError": True}


@pytest.mark.parametrize(
    ("scope", "attributes", "doubts"),
    [
        ("", {"gen_ai.tool.call.result": _FAILED}, None),
        ("", {"output.value": "@", "output.mime_type": "application/json"}, None),
        ("", {"output.value": "@", "output.mime_type": "text/plain"}, (Cause.CONTRADICTED,)),
        ("pydantic-ai", {"gen_ai.tool.call.result": "@"}, (Cause.CONTRADICTED,)),
        ("pydantic-ai", {"gen_ai.tool.call.result": _FAILED}, None),
    ],
)
def test_a_failure_in_a_result_is_certain_unless_a_third_party_may_have_written_it(
    wire: Any, bench: Any, scope: str, attributes: Any, doubts: Any
) -> None:
    """Where a tool's text is the whole result as it is, an `isError` in it leaves the outcome open."""
    written = wire.json(_FAILED)
    more = {key: written if each == "@" else each for key, each in attributes.items()}
    made = bench().send(wire.tool("read", scope=scope, attributes=more))
    (call,) = made.judged()
    assert (call.error, call.doubts) == (True, doubts or ())
    assert made.covered("contradicted") == (doubts is not None)


# --- names and numbers that are nearly what a spec means --------------------------------------

LIMITS = """
id: payments
kind: policy
match: {service.name: rover}
alphabet:
  large: {tool: pay, arguments: {amount: {min: 101}}}
  small: {tool: pay}
constraints: [{absence: large}]
"""
OVER = [
    1000,
    1000.5,
    "1000",
    " 1000 ",
    "1e3",
    "+1000",
    "0x3e8",
    "0b1111101000",
    "1_000",
    "1,000",
]
UNDER = [100, "100", "1e2", "0x64", "99.5", "-1000"]


@pytest.mark.parametrize(
    "amount", [*OVER, "\uff11\uff10\uff10\uff10", "1,000.5", "9" * 400, "9" * 5000, "Infinity"]
)
def test_a_number_sent_as_text_is_a_number_under_a_limit(
    wire: Any, bench: Any, amount: Any
) -> None:
    """A tool takes one for the other, however it is written."""
    call = wire.tool("pay", arguments={"amount": amount}, resource=ROVER)
    made = bench([spec(LIMITS)]).send(call)
    assert (harms(made), made.covered("odd_number")) == (1, 0)


@pytest.mark.parametrize("amount", UNDER)
def test_a_text_below_the_limit_is_no_harm(wire: Any, bench: Any, amount: Any) -> None:
    """A number as text is judged, with certainty, as that number."""
    call = wire.tool("pay", arguments={"amount": amount}, resource=ROVER)
    made = bench([spec(LIMITS)]).send(call)
    assert (harms(made), made.covered("odd_number")) == (0, 0)
    assert next(iter(made.monitor.judgements()))["exact"] is True


@pytest.mark.parametrize("amount", OVER)
@pytest.mark.parametrize("kind", ["task", "policy"])
def test_a_text_over_a_maximum_is_not_below_it(
    wire: Any, bench: Any, kind: str, amount: Any
) -> None:
    """An amount above the maximum is harmful, whether or not larger payments have their own symbol."""
    task = """
id: payments
kind: task
match: {service.name: rover}
alphabet: {small: {tool: pay, arguments: {amount: {max: 100}}}}
initial: a
accepting: [a]
transitions: {}
reads: [small]
"""
    policy = """
id: payments
kind: policy
match: {service.name: rover}
alphabet: {small: {tool: pay, arguments: {amount: {max: 100}}}, pay: {tool: pay}}
constraints: [{absence: pay}]
"""
    made = bench([spec(task if kind == "task" else policy)])
    made.send(wire.tool("pay", arguments={"amount": amount}, start=1, resource=ROVER))
    assert harms(made) == 1
    made.send(wire.tool("pay", arguments={"amount": "7"}, start=2, resource=ROVER))
    assert harms(made) == 1


@pytest.mark.parametrize(
    "amount", [True, [1000], {"value": 1000}, "a thousand", "1k", "nan", ""]
)
def test_what_is_no_number_under_a_limit_is_counted(wire: Any, bench: Any, amount: Any) -> None:
    """It is judged by the patterns it matches, and the session counts the comparison that failed."""
    call = wire.tool("pay", arguments={"amount": amount}, resource=ROVER)
    made = bench([spec(LIMITS)]).send(call)
    assert made.covered("odd_number") == 1 == missed(made)["odd_number"]


@pytest.mark.parametrize("arguments", [{}, {"amount": None}, {"amount": 7}, {"other": "x"}])
def test_a_number_or_none_is_not_counted(wire: Any, bench: Any, arguments: Any) -> None:
    """Arguments that are left out, or null, are as they always were."""
    call = wire.tool("pay", arguments=arguments, resource=ROVER)
    assert bench([spec(LIMITS)]).send(call).covered("odd_number") == 0


def test_a_text_never_equals_a_number(wire: Any, bench: Any) -> None:
    """Exact values stay exact; a text that is one of them as a number is counted."""
    exact = spec(LIMITS.replace("{min: 101}", "1000"))
    call = wire.tool("pay", arguments={"amount": "1000"}, resource=ROVER)
    made = bench([exact]).send(call)
    assert (harms(made), made.covered("odd_number")) == (0, 1)


@pytest.mark.parametrize(
    "name",
    [
        "delete ",
        " delete",
        "Delete",
        "DELETE",
        "de-lete",
        "delete_",
        "\uff44\uff45\uff4c\uff45\uff54\uff45",
        "d\u0435lete",
        "delete\u200b",
        "d\u00e9lete",
        "de\u00adlete",
    ],
)
def test_a_name_spelt_otherwise_is_counted(wire: Any, bench: Any, name: str) -> None:
    """A policy does not judge a tool whose name is spelt otherwise. The session counts it."""
    made = bench([spec(POLICY)]).send(
        wire.tool(name, start=1, resource=ROVER), wire.tool("pay", start=2, resource=ROVER)
    )
    assert made.covered("name_variant") == 1 == missed(made)["name_variant"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("functions.delete", "name_variant"),
        ("default_api:Delete", "name_variant"),
        ("tools/delete", "name_variant"),
        ("mcp__disk__delete", "name_prefixed"),
        ("disk.delete", "name_prefixed"),
    ],
)
def test_a_name_with_a_namespace_is_counted(
    wire: Any, bench: Any, name: str, reason: str
) -> None:
    """A policy does not judge a tool with a namespace before its name. The session counts it."""
    made = bench([spec(POLICY)]).send(
        wire.tool(name, start=1, resource=ROVER), wire.tool("pay", start=2, resource=ROVER)
    )
    assert made.covered(reason) == 1 == missed(made)[reason]


def test_a_namespace_of_a_spec_is_none(wire: Any, bench: Any) -> None:
    """A tool that a spec names with its namespace is no near miss, and neither is an unknown one."""
    named = POLICY.replace("delete: {tool: delete}", "delete: {tool: disk.delete}")
    tools = ("disk.delete", "disk.read", "disk.")
    made = bench([spec(named)]).send(*[wire.tool(each, resource=ROVER) for each in tools])
    assert made.covered("name_prefixed") == 0 == made.covered("name_variant")


def test_names_that_specs_of_others_spell_otherwise_are_not_counted(
    wire: Any, bench: Any
) -> None:
    """Only specs bound to the session are compared, and an exact match is not counted."""
    both = POLICY.replace(
        "delete: {tool: delete}", "delete: {tool: delete}, upper: {tool: Delete}"
    )
    made = bench([spec(both)]).send(wire.tool("Delete", resource=ROVER))
    assert made.covered("name_variant") == 0
    made = bench([spec(POLICY)]).send(wire.tool("Delete", resource={"service.name": "other"}))
    assert made.covered("name_variant") == 0


@pytest.mark.parametrize("name", [" ", "\n\t"])
def test_a_name_of_blanks_is_none(wire: Any, bench: Any, name: str) -> None:
    """A blank name is no tool name, so the call is counted as unnamed."""
    assert bench().send(wire.tool(name)).covered("unnamed_tool") == 1
