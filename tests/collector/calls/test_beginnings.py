"""Sessions that are proven to be new while others may have begun before the process: judged in full."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from collector.calls.pipeline import Pipeline
from collector.decode.json import otlp_json
from collector.decode.span import Span
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from monitor.records import Verdict
from tests.captures import CAPTURES, FEW, NO_CAPTURES, capture_name
from tests.collector.conftest import BASE, Orders, Wire
from tests.samples import sampled

RUNS = [
    path
    for path in CAPTURES
    if path.parent.name
    in (
        "langchain-openinference",
        "langchain-traceloop",
        "openai-agents-openinference",
        "pydantic-ai",
    )
]
SECOND = 1_000_000_000
SPEC = load_spec(Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml")
ROVER = {"service.name": "farm-rover"}
SESSION = {"session.id": "s"}
USER = {"role": "user", "parts": [{"type": "text", "content": "water field 3"}]}
SAID = {"role": "assistant", "parts": [{"type": "text", "content": "done"}]}
ANSWER = {
    "role": "tool",
    "parts": [{"type": "tool_call_response", "id": "c", "response": "ok"}],
}


class Service:
    """A monitor behind a pipeline on default settings, started when the spans begin."""

    def __init__(
        self, started_ns: int = BASE, *, complete: bool = False, **settings: Any
    ) -> None:
        limits = Limits(history_complete=complete, keep_arguments=True)
        self.monitor = Monitor([SPEC], limits, started_ns=started_ns)
        self.paged: list[str] = []
        self.now = started_ns
        self.pipeline = Pipeline(self.monitor, Stats(), self._take, **settings)

    def _take(self, verdicts: Sequence[Verdict]) -> None:
        self.paged += [each.tool for each in verdicts if each.kind == "harmful"]

    def send(self, *spans: Span) -> Service:
        """Sends each span in a request of its own."""
        for span in spans:
            self.pipeline.consume([span], span.end_ns, "test")
            self.now = max(self.now, span.end_ns)
        return self

    def told(self) -> list[dict[str, Any]]:
        """The judgements, without what tells of the arrival."""
        self.monitor.tick(self.now)
        found = [
            {key: value for key, value in each.items() if key not in ("coverage", "updated_ns")}
            for each in self.monitor.judgements()
        ]
        return sorted(found, key=lambda each: str(each["session"]))

    def one(self) -> dict[str, Any]:
        (found,) = self.monitor.judgements()
        return found


def model(wire: Wire, start: float, *messages: Any, **more: Any) -> Span:
    asked = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(messages),
        **more.pop("attributes", {}),
    }
    at = {"scope": "pydantic-ai", "parent": "agent", "resource": ROVER, **more}
    return wire.span("chat", asked, start=start, **at)


def call(wire: Wire, tool: str, start: float, **more: Any) -> Span:
    at = {"parent": "agent", "resource": ROVER, **more}
    arguments = {"x": 3, "y": 4} if tool == "move" else {}
    return wire.tool(tool, arguments=arguments, start=start, **at)


def root(wire: Wire, start: float = 0, **more: Any) -> Span:
    agent = {"gen_ai.operation.name": "invoke_agent", **more.pop("attributes", {})}
    return wire.span("agent", agent, id="agent", start=start, end=99, resource=ROVER, **more)


def test_a_step_before_its_precondition_is_caught_on_default_settings(wire: Wire) -> None:
    """The model's first request holds no earlier turn, so nothing came before `move`."""
    spans = [
        model(wire, 1, USER, attributes=SESSION),
        call(wire, "move", 2, attributes=SESSION),
    ]
    service = Service().send(*spans)
    found = service.one()

    assert service.paged == ["move"]
    assert (found["joined"], found["exact"], found["harm_rate"]) == (False, True, 1)


def test_without_a_proof_a_session_has_the_benefit_of_the_doubt(wire: Wire) -> None:
    """Without a proof, the session may have begun before the process started."""
    service = Service().send(call(wire, "move", 2, attributes=SESSION))

    assert (service.paged, service.one()["joined"]) == ([], True)


def test_a_trace_that_is_its_session_is_new_if_its_root_is(wire: Wire) -> None:
    """Without a model's span, the verdict follows when the root span has ended."""
    service = Service().send(call(wire, "move", 2))
    assert service.paged == []

    service.send(root(wire))
    assert (service.paged, service.one()["exact"]) == (["move"], True)


def test_a_root_that_began_before_the_process_proves_nothing(wire: Wire) -> None:
    """The session certainly began before."""
    service = Service(BASE + SECOND).send(call(wire, "move", 2), root(wire))

    assert (service.paged, service.one()["joined"]) == ([], True)


def test_a_root_proves_nothing_of_a_session_with_an_id(wire: Wire) -> None:
    """The session may have other traces."""
    spans = [call(wire, "move", 2), root(wire, attributes=SESSION)]
    for order in permutations(spans):
        service = Service().send(*order)
        assert service.one()["joined"] is True


REFUTED = {
    "an answer before": (USER, SAID, USER),
    "results before": (USER, ANSWER),
}


@pytest.mark.parametrize("messages", REFUTED.values(), ids=REFUTED)
@pytest.mark.parametrize("attributes", [{}, SESSION], ids=["trace", "session"])
def test_earlier_turns_take_every_proof_away(
    wire: Wire, messages: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    """A guard model sees only the user's text, which proves nothing about the agent's own history."""
    spans = [
        model(wire, 1, USER, attributes=attributes),
        model(wire, 2, *messages, attributes=attributes),
        call(wire, "move", 3, attributes=attributes),
        root(wire, attributes=attributes),
    ]
    for order in permutations(spans):
        found = Service().send(*order).one()
        assert (found["joined"], found["harmful"]) == (True, 0), [each.name for each in order]


def test_a_turn_is_proven_in_any_order_of_its_spans(wire: Wire, orders: Orders) -> None:
    """The order of the spans does not change what is known in the end."""
    spans = [
        model(wire, 1, USER, attributes=SESSION),
        call(wire, "move", 2, attributes=SESSION),
        model(wire, 3, USER, SAID, ANSWER, attributes=SESSION),
        call(wire, "water", 4, attributes=SESSION),
        root(wire),
    ]
    wanted = Service().send(*spans).told()
    assert [each["harmful"] for each in wanted] == [2]

    for order in orders(spans):
        assert Service().send(*order).told() == wanted, [each.name for each in order]


def test_a_second_turn_belongs_to_what_its_first_turn_proves(wire: Wire) -> None:
    """The second turn's requests hold the first turn, and withdraw no proof."""
    first = [
        model(wire, 1, USER, attributes=SESSION),
        call(wire, "unlock_safety", 2, attributes=SESSION),
    ]
    second = [
        model(wire, 11, USER, SAID, USER, trace="two", attributes=SESSION),
        call(wire, "water", 12, trace="two", attributes=SESSION),
    ]
    for order in ([*first, *second], [*second, *first]):
        found = Service().send(*order).one()
        assert (found["joined"], found["harmful"]) == (False, 1)


def test_a_service_that_forgets_proves_nothing_any_more(wire: Wire) -> None:
    """A later trace of a session looks like a first one: its models are not given earlier turns."""
    service = Service()
    for number, session in enumerate(("s", "s", "other")):
        of = {"trace": f"t{number}", "attributes": {"session.id": session}}
        service.send(
            model(wire, 10 * number + 1, USER, **of),
            call(wire, ("unlock_safety", "move", "move")[number], 10 * number + 2, **of),
        )

    assert service.paged == []
    assert [each["joined"] for each in service.told()] == [True, False]


NAMES = ("session.id", "gen_ai.conversation.id")


def _named_above(wire: Wire, turn: int, *, user: str = "s", **web: Any) -> list[Span]:
    """A turn with a conversation id of its own, below a web request that has the user's session, the better name."""
    run = {"gen_ai.conversation.id": f"run-{turn}"}
    at: dict[str, Any] = {"trace": f"turn-{turn}", "attributes": run}
    begun = 10 * turn
    agent = {"gen_ai.operation.name": "invoke_agent", **run}
    return [
        model(wire, begun + 1, USER, **at),
        call(wire, "move", begun + 2, **at),
        wire.span(
            "agent", agent, id="agent", trace=at["trace"], parent="web",
            start=begun, end=begun + 3, resource=ROVER,
        ),
        wire.span(
            "POST /chat", {"session.id": user}, id="web", trace=at["trace"], scope="web",
            start=begun, end=begun + 4, resource=ROVER, **web,
        ),
    ]  # fmt: skip


def test_a_turn_below_a_better_name_proves_that_the_named_session_is_new(
    wire: Wire, orders: Orders
) -> None:
    """One root names the session better than all below it: what they prove, they prove of that session."""
    for order in orders(_named_above(wire, 0)):
        found = Service(session_keys=NAMES).send(*order).one()
        assert found["session"] == "s"
        assert (found["joined"], found["harmful"]) == (False, 1), [each.name for each in order]


@pytest.mark.parametrize(
    "other",
    [{"id": "other"}, {"id": "other", "attributes": {"session.id": "s"}}],
    ids=["without a name", "of the same session"],
)
def test_a_turn_with_two_roots_proves_nothing_of_a_session_that_one_of_them_names(
    wire: Wire, orders: Orders, other: dict[str, Any]
) -> None:
    """What is below another root may be another session's."""
    attributes = other.pop("attributes", {})
    spans = [
        *_named_above(wire, 0),
        wire.span("cron", attributes, trace="turn-0", start=2, end=4, resource=ROVER, **other),
    ]
    for order in orders(spans):
        found = Service(session_keys=NAMES).send(*order).one()
        assert (found["joined"], found["harmful"]) == (True, 0), [each.name for each in order]


def test_a_turn_in_which_two_sessions_have_equally_good_names_proves_nothing(
    wire: Wire, orders: Orders
) -> None:
    """A span below the root names another session on the same rung: its calls are that session's."""
    spans = _named_above(wire, 0)
    spans[2] = wire.span(
        "agent", {"session.id": "t"}, id="agent", trace="turn-0", parent="web",
        start=0, end=3, resource=ROVER,
    )  # fmt: skip
    for order in orders(spans):
        found = Service(session_keys=NAMES).send(*order).told()
        assert [(each["joined"], each["harmful"]) for each in found] == [(True, 0)]


@pytest.mark.parametrize(
    "keys", [NAMES, ("session.id",)], ids=["a better name", "the only name"]
)
def test_a_service_that_forgets_is_known_by_names_that_come_last(
    wire: Wire, keys: Sequence[str]
) -> None:
    """Each turn looks like a first one until its root names the session, which has made calls before."""
    service = Service(session_keys=keys)
    for turn, user in enumerate(("s", "s", "other")):
        service.send(*_named_above(wire, turn, user=user))

    assert [each["joined"] for each in service.told()] == [True, False]


def test_a_turn_below_a_better_name_resumes_what_its_session_lacks(wire: Wire) -> None:
    """Long after the start, a model is given results of calls that the session named above has not made."""
    hour = 3600 * SECOND
    spans = _named_above(wire, 0)
    spans[0] = model(
        wire, 1, USER, ANSWER, trace="turn-0", attributes={"gen_ai.conversation.id": "run-0"}
    )
    found = Service(BASE - hour, session_keys=NAMES).send(*spans).one()

    assert (found["session"], found["harmful"], found["unless"]) == ("s", 0, ["resumed"])


def _adk(wire: Wire, *, contents: bool = True) -> list[Span]:
    """Google's ADK 2 with contents: the id is on the spans of models and agents, which follow the tool's."""
    of: dict[str, Any] = {"scope": "gcp.vertex.agent", "resource": ROVER}
    named = {"gen_ai.conversation.id": "c1"}
    told = {"gen_ai.operation.name": "generate_content", "gen_ai.usage.input_tokens": 10}
    if contents:
        told["gen_ai.input.messages"] = json.dumps([USER])
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "rover"}
    flow = {"gen_ai.operation.name": "invoke_workflow"}
    return [
        call(wire, "move", 2, scope="gcp.vertex.agent"),
        wire.span("generate_content m", told | named, parent="agent", start=1, **of),
        wire.span("invoke_agent rover", agent | named, id="agent", parent="w", end=9, **of),
        wire.span("invoke_workflow", flow | named, id="w", end=9, **of),
    ]


def _adk_1(wire: Wire) -> list[Span]:
    """Google's ADK 1: contents are on a span of its own, around that of the model, which has none."""
    of: dict[str, Any] = {"scope": "gcp.vertex.agent", "resource": ROVER}
    named = {"gen_ai.conversation.id": "c1"}
    asked = {"contents": [{"role": "user", "parts": [{"text": "water field 3"}]}]}
    told = {
        "gen_ai.request.model": "m",
        "gcp.vertex.agent.session_id": "c1",
        "gcp.vertex.agent.llm_request": json.dumps(asked),
    }
    model = {"gen_ai.operation.name": "generate_content", "gen_ai.usage.input_tokens": 10}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "rover"}
    return [
        call(wire, "move", 2, scope="gcp.vertex.agent"),
        wire.span("generate_content m", model | named, parent="call", start=1.2, **of),
        wire.span("call_llm", told, id="call", parent="agent", start=1, end=3, **of),
        wire.span("invoke_agent rover", agent | named, id="agent", end=9, **of),
    ]


def _strands(wire: Wire) -> list[Span]:
    """Strands: messages are events, and the application's id is on all spans."""
    of: dict[str, Any] = {"scope": "strands.telemetry.tracer", "resource": ROVER}
    chat = {"gen_ai.operation.name": "chat", **SESSION}
    agent = {"gen_ai.operation.name": "invoke_agent", **SESSION}
    said = [("gen_ai.user.message", {"content": '[{"text": "water field 3"}]'})]
    return [
        wire.span("chat", chat, parent="cycle", start=1, events=said, **of),
        call(wire, "move", 2, parent="cycle", attributes=SESSION, scope=of["scope"]),
        wire.span("execute_event_loop_cycle", SESSION, id="cycle", parent="agent", end=8, **of),
        wire.span("invoke_agent rover", agent, id="agent", end=9, **of),
    ]


def _vercel(wire: Wire) -> list[Span]:
    """The Vercel AI SDK 6: the id is in the metadata of all spans."""
    of: dict[str, Any] = {"scope": "ai", "resource": ROVER}
    named = {"ai.telemetry.metadata.sessionId": "s"}
    step = {"ai.operationId": "ai.streamText.doStream", **named}
    step["ai.prompt.messages"] = json.dumps([{"role": "user", "content": "water field 3"}])
    call = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "move", "ai.toolCall.id": "c"}
    call["ai.toolCall.args"] = '{"x": 3, "y": 4}'
    run = {"ai.operationId": "ai.streamText", **named}
    return [
        wire.span("ai.streamText.doStream", step, parent="run", start=1, **of),
        wire.span("ai.toolCall", call | named, parent="run", start=2, **of),
        wire.span("ai.streamText", run, id="run", end=9, **of),
    ]


def _vercel_7(wire: Wire) -> list[Span]:
    """The Vercel AI SDK 7: the id is on the enclosing span, which comes last."""
    of: dict[str, Any] = {"scope": "gen_ai", "resource": ROVER}
    told = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps([USER])}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c1"}
    return [
        wire.span("chat m", told, parent="agent", start=1, **of),
        call(wire, "move", 2, scope="gen_ai"),
        wire.span("invoke_agent", agent, id="agent", end=9, **of),
    ]


@pytest.mark.parametrize("framework", [_adk, _adk_1, _strands, _vercel, _vercel_7])
def test_a_new_users_first_violation_is_certain_once_its_run_has_ended(
    wire: Wire, framework: Any
) -> None:
    """On default settings, just after the start, in any order of the spans; and it is told once."""
    for order in permutations(framework(wire)):
        service = Service().send(*order)
        service.pipeline.tick(order[-1].end_ns)
        service.monitor.tick(order[-1].end_ns)
        found = service.one()
        assert (found["harmful"], found["exact"], found["joined"]) == (1, True, False)
        assert service.paged == ["move"]


def test_google_adk_without_contents_proves_nothing(wire: Wire) -> None:
    """A skipped step is possible harm then, in any order of the spans."""
    for order in permutations(_adk(wire, contents=False)):
        found = Service().send(*order).one()
        (step,) = found["steps"]
        assert (found["harmful"], step["possible"]) == (0, True)


def test_a_tool_that_is_a_root_proves_no_new_session(wire: Wire) -> None:
    """The context of its agent may have been lost: it may be a later call of any session."""
    wrapper = wire.span("run", {}, id="run", trace="2", start=0, end=9, resource=ROVER)
    service = Service().send(
        call(wire, "move", 2, parent="", trace="1"),
        call(wire, "move", 3, parent="run", trace="2"),
        wrapper,
    )
    assert service.paged == []
    assert not any(each["harmful"] for each in service.told())


def test_long_after_the_start_no_proof_is_kept(wire: Wire) -> None:
    """Every new session is whole then."""
    service = Service(started_ns=1)
    service.send(root(wire), model(wire, 1, USER), call(wire, "move", 2))

    assert service.paged == ["move"]
    assert all(trace.beginning is None for trace in service.pipeline.traces)


# --- real captures ------------------------------------------------------------------------------


def _spans(path: Path) -> list[Span]:
    lines = path.read_bytes().splitlines()
    return [span for line in lines for span in otlp_json.decode(line).spans]


def _numbers(service: Service) -> list[tuple[Any, ...]]:
    keys = (
        "session",
        "calls",
        "harmful",
        "joined",
        "exact",
        "harm_rate",
        "prefix_crit",
        "state",
    )
    return [tuple(each[key] for key in keys) for each in service.told()]


captures = pytest.mark.skipif(not RUNS, reason=NO_CAPTURES)

# Turns of this one share no id: to say that the history is complete would be a lie.
WHOLE = [path for path in RUNS if capture_name(path) != "openai-agents-openinference/session"]


@captures
@pytest.mark.parametrize("left_out", ["", "unlock_safety"])
@pytest.mark.parametrize("path", sampled(WHOLE, FEW), ids=capture_name)
def test_a_capture_is_judged_as_if_its_history_were_complete(path: Path, left_out: str) -> None:
    """On default settings just after the start, also where the agent leaves out its first step."""
    spans = [span for span in _spans(path) if left_out not in span.name or not left_out]
    started = min(span.start_ns for span in spans)
    found = _numbers(Service(started).send(*spans))

    assert found == _numbers(Service(started, complete=True).send(*spans))
    assert found


@captures
@pytest.mark.parametrize(
    "path", [path for path in RUNS if path.name.startswith("session.")], ids=capture_name
)
def test_a_capture_that_began_before_the_process_has_no_false_harm(path: Path) -> None:
    """The process starts between the two turns of a conversation: the second one is read both ways."""
    spans = _spans(path)
    traces = {span.trace_id: span.start_ns for span in reversed(spans)}
    second = max(traces, key=lambda trace: traces[trace])
    later = [span for span in spans if span.trace_id == second]
    service = Service(min(span.start_ns for span in later)).send(*later)

    assert (service.paged, [each["joined"] for each in service.told()]) == ([], [True])
