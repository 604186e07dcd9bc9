"""Calls that are decided before they are made: committed, met by their spans, told of, taken back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest

from collector.calls.decisions.decided_calls import DecidedCalls, QuestionCall
from collector.calls.decisions.prevented_calls import PreventedCall
from collector.calls.question_handler import DecisionResult
from collector.decode.span import Resource
from monitor.records import Proof, SessionKey
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.collector.conftest import BASE, SECOND, Bench, hex_id

TEXT = """
id: shop
kind: task
match: {service.name: svc}
alphabet: {approve: {tool: approve}, pay: {tool: pay}, look: {tool: look}}
initial: start
accepting: [paid]
transitions: {start: {approve: approved}, approved: {pay: paid}}
reads: [look]
"""


def spec(enforce: Literal["advise", "block"] = "advise") -> Spec:
    made, findings = compile_text(TEXT, "shop.yaml")
    assert made is not None, findings
    return replace(made, enforce=enforce)


class Client:
    """A client of decisions, and the spans that come."""

    def __init__(
        self, *, enforce: Literal["advise", "block"] = "advise", **options: Any
    ) -> None:
        self.denied: list[PreventedCall] = []
        self.bench = Bench([spec(enforce)], denied=self.denied.append, **options)
        self.pipeline = self.bench.pipeline
        self.resource = Resource({"service.name": "svc"})

    def ask(
        self,
        *tools: str,
        at: float,
        session: str = "s1",
        arguments: Any = None,
        call_id: str = "",
        trace: str = "",
        span: str = "",
        question: str = "",
        sender: str | None = None,
        commit: bool = True,
    ) -> list[DecisionResult]:
        asked = [
            QuestionCall(
                session,
                "",
                tool,
                {} if arguments is None else arguments,
                call_id,
                bytes.fromhex(hex_id(trace, 16)),
                bytes.fromhex(hex_id(span, 8)),
                b"",
                question,
                place,
            )
            for place, tool in enumerate(tools)
        ]
        return self.pipeline.decide(asked, self.resource, sender, ns(at), commit=commit)

    def one(self, tool: str, **more: Any) -> str:
        """Asks about one call; returns what its client is to do."""
        return self.ask(tool, **more)[0].decision.enforced.value

    def tell(self, made: DecisionResult, outcome: Any, at: float) -> bool | None:
        """Tells an outcome; None if the decision is not known, else whether it agrees."""
        decision_id = self.pipeline.decided.name(made.number)
        settled = self.pipeline.settle(decision_id, outcome, None, ns(at))
        return settled.agrees if settled.entry is not None else None

    def tick(self, at: float) -> None:
        self.pipeline.tick(ns(at))
        self.bench.monitor.tick(ns(at))

    def steps(self) -> list[tuple[str, str, str]]:
        """Tool, evidence and kind of each step, by start."""
        return [(each["tool"], each["evidence"], each["kind"]) for each in self.bench.steps()]

    def count(self, name: str) -> int:
        return self.bench.stats.counts.get((name,), 0)


def ns(at: float) -> int:
    """Seconds after the fixed moment of the spans, in Unix nanoseconds."""
    return BASE + int(at * SECOND)


NAMED = {"gen_ai.conversation.id": "s1"}


# --- asking and committing ----------------------------------------------------------------------


def test_a_question_that_commits_nothing_changes_nothing() -> None:
    """No session, no decided call and no record is left of it."""
    client = Client(enforce="block")

    assert client.one("pay", at=1, commit=False) == "deny"
    assert list(client.bench.monitor.judgements()) == []
    assert (len(client.pipeline.decided), client.denied) == (0, [])


def test_a_committed_call_counts_for_later_decisions() -> None:
    """Once `approve` is told to have run, `pay` is allowed, and a second one is not: the first is on its way."""
    client = Client(enforce="block")
    assert client.one("pay", at=1) == "deny"
    (made,) = client.ask("approve", at=2)
    client.tell(made, "ran", at=3)

    assert client.one("pay", at=4) == "allow"
    assert client.one("pay", at=5) == "deny"
    assert client.steps() == [("approve", "executed", "progress")]


def test_a_call_in_flight_leaves_the_next_one_uncertain() -> None:
    """While `approve` may still run, nobody knows whether `pay` comes after it."""
    client = Client(enforce="block")
    client.ask("approve", at=2)

    assert client.one("pay", at=4) == "unknown"


@pytest.mark.parametrize(
    ("done", "flying", "asked", "in_flight", "ended"),
    [
        ((), "look", "pay", "deny", "deny"),
        ((), "approve", "pay", "unknown", "allow"),
        (("approve",), "pay", "pay", "deny", "deny"),
        (("approve",), "look", "pay", "allow", "allow"),
    ],
)
def test_an_answer_beside_a_call_in_flight_holds_both_ways(
    done: tuple[str, ...], flying: str, asked: str, in_flight: str, ended: str
) -> None:
    """Certain if it is the same before and after that call, or if both cannot be right; once its outcome is known, it is
    certain."""
    client = Client(enforce="block")
    for each in done:
        client.tell(client.ask(each, at=1)[0], "ran", at=2)
    (made,) = client.ask(flying, at=3)

    assert client.one(asked, at=4, commit=False) == in_flight
    client.tell(made, "ran", at=5)
    assert client.one(asked, at=6, commit=False) == ended


def test_a_denied_call_is_in_no_session() -> None:
    """Under `block` it is not committed; it is handed on and remembered as prevented."""
    client = Client(enforce="block")
    (made,) = client.ask("pay", at=1, arguments={"amount": 5})

    assert (made.committed, client.bench.sessions()) == (False, {})
    assert [(each.tool, each.session.id) for each in client.denied] == [("pay", "s1")]
    (kept,) = client.pipeline.decision_records.of(SessionKey("", "s1"))
    assert (kept.tool, kept.found.skipped, kept.is_overruled) == ("pay", ("approve",), False)


def test_advice_lets_a_call_go_ahead() -> None:
    """Under `advise` a call that would be denied is committed, and is harmful once it is made."""
    client = Client()
    (made,) = client.ask("pay", at=1)

    assert (made.decision.enforced.value, made.decision.would_deny, made.committed) == (
        "allow",
        True,
        True,
    )
    assert (client.steps(), client.bench.verdicts) == ([], [])
    client.tell(made, "ran", at=2)
    assert client.steps() == [("pay", "executed", "harmful")]


def test_a_question_that_is_repeated_gets_its_answer_again() -> None:
    """A client that asks once more, by its own id of the question, does not have its call judged as a second one."""
    client = Client(enforce="block")
    for tool in ("approve", "pay"):  # one is allowed, and one is denied
        first = client.ask(tool, at=1, question=tool)

        assert client.ask(tool, at=2, question=tool) == first
    assert len(client.pipeline.decided) == 2
    assert client.ask("approve", at=3, question="another")[0].number == 3


@pytest.mark.parametrize(
    "again",
    [
        {"call_id": "c1", "trace": "trace", "span": "own"},
        {"call_id": "c1", "trace": "trace", "span": "own", "question": "q2"},
        {"call_id": "c2", "trace": "trace", "span": "own", "question": "q1"},
        {"call_id": "c1", "trace": "trace", "span": "own", "question": "q1", "arguments": {"n": 1}},
        {"call_id": "c1", "trace": "trace", "span": "own", "question": "q1", "sender": "b"},
        {"call_id": "c1", "trace": "trace", "span": "own", "question": "q1", "session": "s2"},
    ],
)  # fmt: skip
def test_equal_ids_are_no_repetition(again: dict[str, Any]) -> None:
    """A model's server may give two calls one id: only the client's own id of the same question has its answer again."""
    client = Client(enforce="block")
    (first,) = client.ask(
        "approve", at=1, call_id="c1", trace="trace", span="own", question="q1"
    )
    (second,) = client.ask("approve", at=2, **again)

    assert (first.decision.enforced.value, second.number) == ("allow", 2)
    if "session" not in again:
        found = second.decision.specs[0]
        assert (second.decision.enforced.value, found.until) == ("deny", "calls_in_flight")


def test_a_question_that_has_an_outcome_is_not_repeated() -> None:
    """A client that uses an id of a question for a second call gets no second leave by it."""
    client = Client(enforce="block")
    (first,) = client.ask("approve", at=1, question="q1")
    client.tell(first, "ran", at=2)

    assert client.one("approve", at=3, question="q1") == "deny"


def test_equal_calls_of_one_question_are_repeated_one_by_one() -> None:
    """Asked once more, each of two equal calls has its own answer: the one that did not fit is denied again."""
    client = Client(enforce="block")
    first = client.ask("approve", "approve", at=1, call_id="c1", question="q1")

    assert [each.decision.enforced.value for each in first] == ["allow", "deny"]
    assert client.ask("approve", "approve", at=2, call_id="c1", question="q1") == first


def test_parallel_calls_are_one_group() -> None:
    """Calls of one question overlap: under a task, `approve` and `pay` may come in either order."""
    client = Client()
    made = client.ask("pay", "approve", at=1)

    assert [each.decision.specs[0].kind.value for each in made] == ["progress", "progress"]
    for each in made:
        client.tell(each, "ran", at=2)
    assert sorted(client.steps()) == [
        ("approve", "executed", "progress"),
        ("pay", "executed", "progress"),
    ]


# --- spans that come ----------------------------------------------------------------------------

WAYS: list[dict[str, Any]] = [
    {"session": "", "trace": "trace", "span": "pay@1"},
    {"session": "", "trace": "trace", "call_id": "c1"},
    {"session": "", "trace": "trace"},
    {"session": "s1", "trace": "trace"},
    {"session": "s1", "call_id": "c1"},
    {"session": "s1"},
]


@pytest.mark.parametrize("way", WAYS, ids=["span", "call id", "trace", "both", "id", "session"])
@pytest.mark.parametrize("late", [False, True], ids=["named", "named late"])
def test_the_span_takes_the_place_of_its_decided_call(
    wire: Any, way: dict[str, Any], late: bool
) -> None:
    """By span id, call id, or tool and arguments: the session has one call, as its span tells it."""
    client = Client()
    client.ask("pay", at=0.9, arguments={"amount": 5}, **way)
    tool = wire.tool(
        "pay",
        id="pay@1",
        parent="root",
        start=1,
        end=2,
        call_id="c1",
        arguments={"amount": 5},
        attributes={} if late else NAMED,
    )
    root = wire.span("agent", NAMED, id="root", start=0, end=3)
    client.bench.send(tool, root, now=3)

    found = client.bench.sessions()
    assert list(found) == ["s1"]
    (step,) = found["s1"]
    assert (step["evidence"], step["start_ns"], step["call_id"]) == ("executed", ns(1), "c1")
    client.tick(100)
    assert (len(client.steps()), client.count("decisions_unconfirmed")) == (1, 0)


def test_a_pending_span_and_its_end_are_the_same_call(wire: Any) -> None:
    """A span that is sent when it starts meets the decided call; its end changes the rest."""
    client = Client()
    client.ask("approve", at=1, trace="trace", call_id="c")
    begun = wire.tool("approve", call_id="c", arguments={}, start=1.1, end=0, attributes=NAMED)
    ended = wire.tool("approve", call_id="c", arguments={}, start=1.1, end=2, attributes=NAMED)
    client.bench.send(begun, now=1.2)
    assert client.steps() == [("approve", "pending", "progress")]
    client.bench.send(ended, now=2.1)

    assert client.steps() == [("approve", "executed", "progress")]


def test_parallel_identical_calls_meet_one_span_each(wire: Any) -> None:
    """Three equal calls without ids and three spans: no call is counted twice or lost."""
    client = Client()
    for number in range(3):
        client.ask("look", at=1 + number / 100, trace="trace")
    spans = [
        wire.tool("look", id=f"l{number}", arguments={}, start=1.1, end=2, attributes=NAMED)
        for number in range(3)
    ]
    client.bench.send(*spans, *spans, now=2)
    client.tick(100)

    assert client.steps() == [("look", "executed", "self_loop")] * 3
    assert client.count("decisions_unconfirmed") == 0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("outcomes", [(), ("ran",), ("ran", "ran")])
def test_calls_with_one_call_id_meet_one_span_each(
    wire: Any, order: tuple[int, int], outcomes: tuple[str, ...]
) -> None:
    """Two calls one after the other under one id: each span confirms its own, whichever comes first."""
    client = Client()
    made = [client.ask("look", at=at, trace="trace", call_id="c")[0] for at in (1.1, 2.1)]
    for each, outcome, at in zip(made, outcomes, (1.5, 2.5), strict=False):
        assert client.tell(each, outcome, at=at) is True
    spans = [
        wire.tool("look", id=f"l{n}", call_id="c", arguments={}, start=n, end=n + 0.4, attributes=NAMED)
        for n in (1, 2)
    ]  # fmt: skip
    for place in order:
        client.bench.send(spans[place], now=3)
    client.tick(100)

    assert [step["start_ns"] for step in client.bench.steps()] == [ns(1), ns(2)]
    assert client.count("decisions_unconfirmed") == 0


@pytest.mark.parametrize(
    ("order", "says", "ran"),
    [
        ((0, 1), "text", True),
        ((1, 0), "text", True),
        ((0, 1), "text", False),
        ((1, 0), "text", False),
        ((0, 1), "error", True),
        ((1, 0), "error", True),
        (
            (0, 1),
            "error",
            False,
        ),  # if it came first, it could as well be that of the allowed call
    ],
)
def test_a_refused_calls_span_is_not_that_of_an_allowed_call_with_its_id(
    wire: Any, order: tuple[int, int], says: str, ran: bool
) -> None:
    """`approve` is allowed and made; one more under its id is refused: its span is hidden, the first one's is judged."""
    client = Client(enforce="block")
    ids: dict[str, Any] = {"trace": "trace", "call_id": "c"}
    (first,) = client.ask("approve", at=1.1, **ids)
    if ran:
        client.tell(first, "ran", at=1.8)
    (second,) = client.ask("approve", at=2.1, **ids)
    assert (first.decision.enforced.value, second.decision.enforced.value) == ("allow", "deny")
    client.tell(second, "skipped", at=2.2)
    message = client.bench.monitor.explain("approve", second.decision)
    refused = {"status": 2} if says == "error" else {"attributes": {**NAMED, RESULT: message}}
    done = {"attributes": {**NAMED, RESULT: "approved"}}
    spans = [
        wire.tool("approve", **{"call_id": "c", "arguments": {}, "attributes": NAMED, **more})
        for more in (
            {"id": "a1", "start": 1, "end": 1.7, **done},
            {"id": "a2", "start": 2, "end": 2.3, **refused},
        )
    ]
    for place in order:
        client.bench.send(spans[place], now=3)
    client.tick(100)

    assert [step["start_ns"] for step in client.bench.steps()] == [ns(1)]
    (kept,) = client.pipeline.decision_records.of(SessionKey("", "s1"))
    assert (kept.number, kept.hidden) == (second.number, (spans[1].span_id,))
    assert client.count("decisions_overruled") == 0


def test_outcomes_of_calls_with_one_call_id_are_apart() -> None:
    """A decision's id names its call: two that ran are two steps, whatever id the model gave."""
    client = Client()
    made = [client.ask("look", at=at, call_id="c")[0] for at in (1, 2)]

    assert [client.tell(each, "ran", at=3) for each in made] == [True, True]
    assert client.steps() == [("look", "executed", "self_loop")] * 2


def test_other_arguments_are_another_call(wire: Any) -> None:
    """A span of the tool with other arguments does not confirm the decided call."""
    client = Client()
    client.ask("look", at=1, trace="trace", arguments={"q": "a"})
    client.bench.send(
        wire.tool("look", arguments={"q": "b"}, start=1.1, end=2, attributes=NAMED), now=2
    )
    client.tick(62)

    assert client.steps() == [("look", "executed", "self_loop")]
    assert client.count("decisions_unconfirmed") == 1


def test_a_span_of_another_tenant_confirms_nothing(wire: Any) -> None:
    """Two namespaces with one session id and one trace id are apart."""
    client = Client()
    client.ask("look", at=1, trace="trace", call_id="c")
    other = {"service.name": "svc", "service.namespace": "b"}
    client.bench.send(
        wire.tool("look", call_id="c", arguments={}, start=1.1, end=2, resource=other), now=2
    )
    client.tick(62)

    assert client.steps() == [("look", "executed", "self_loop")]
    assert client.count("decisions_unconfirmed") == 1


def test_later_calls_are_never_judged_without_an_earlier_one(wire: Any) -> None:
    """While the span of `approve` takes its place, `pay` is never harmful: no verdict comes and goes."""
    client = Client()
    client.ask("approve", at=1, trace="trace")
    client.ask("pay", at=3, trace="trace")
    client.bench.verdicts.clear()
    client.bench.send(
        wire.tool("approve", arguments={}, start=1.1, end=2),
        wire.tool("pay", arguments={}, start=3.1, end=4),
        wire.span("agent", NAMED, id="root", start=0, end=5),
        now=5,
    )

    assert [each for each in client.bench.verdicts if each.kind == "harmful"] == []
    assert client.steps() == [
        ("approve", "executed", "progress"),
        ("pay", "executed", "progress"),
    ]


def test_a_client_names_the_session_of_a_trace_that_names_none(wire: Any) -> None:
    """Its spans join the session of the decided call, so that later decisions count on them."""
    client = Client(enforce="block")
    client.ask("look", at=1, trace="trace")
    client.bench.send(wire.tool("approve", arguments={}, start=2, end=3), now=3)

    assert list(client.bench.sessions()) == ["s1"]
    client.bench.send(wire.tool("look", arguments={}, start=1.1, end=1.5), now=3)
    assert client.one("pay", at=4) == "allow"


# --- outcomes -----------------------------------------------------------------------------------


def test_an_outcome_settles_a_call_without_spans() -> None:
    """A call that ran stays, however long nothing else comes."""
    client = Client()
    (made,) = client.ask("approve", at=1)
    assert client.tell(made, "ran", at=2) is True
    client.tick(1_000)

    (step,) = client.bench.steps()
    assert (step["evidence"], step["start_ns"], step["end_ns"]) == ("executed", ns(1), ns(2))


def test_a_call_that_failed_says_so() -> None:
    """A failed call has no effect: `pay` is harmful after it."""
    client = Client(enforce="block")
    (made,) = client.ask("approve", at=1)
    client.tell(made, "failed", at=2)

    assert client.bench.steps()[0]["error"] is True
    assert client.one("pay", at=3) == "deny"


def test_a_skipped_call_is_taken_back_at_once() -> None:
    """Nothing of it is left in its session."""
    client = Client(enforce="block")
    (made,) = client.ask("approve", at=1)
    client.tell(made, "skipped", at=2)

    assert (client.steps(), client.one("pay", at=3)) == ([], "deny")
    assert client.count("decisions_unconfirmed") == 0


@pytest.mark.parametrize("outcome", ["ran", "failed"])
@pytest.mark.parametrize("wait", [1, 500])
def test_a_span_after_the_outcome_counts_no_second_call(
    wire: Any, outcome: str, wait: float
) -> None:
    """The span takes the place of the settled call, also minutes later."""
    client = Client()
    (made,) = client.ask("approve", at=1, call_id="c")
    client.tell(made, outcome, at=2)
    client.tick(2 + wait)
    client.bench.send(
        wire.tool("approve", call_id="c", arguments={}, start=1.1, end=1.9, attributes=NAMED),
        now=2 + wait,
    )

    (step,) = client.bench.steps()
    assert (step["start_ns"], step["error"]) == (ns(1.1), False)


def test_a_settled_call_is_met_before_an_open_one_that_is_farther_off(wire: Any) -> None:
    """Of two decided calls alike, a span meets the nearest, also where its arguments were freed by an outcome."""
    client = Client()
    (first,) = client.ask("look", at=1, arguments={"at": "a"})
    client.tell(first, "ran", at=1.9)
    client.bench.send(wire.tool("look", arguments={"at": "a"}, start=0.9, end=1.8), now=2)
    client.ask("look", at=3, session="", trace="trace", arguments={"at": "a"})
    client.ask("approve", at=4, trace="trace")
    client.bench.send(wire.tool("look", arguments={"at": "a"}, start=3.1, end=3.2), now=5)

    looks = [each for each in client.bench.steps() if each["tool"] == "look"]
    assert [(each["start_ns"], each["evidence"]) for each in looks] == [
        (ns(0.9), "executed"),
        (ns(3.1), "executed"),
    ]


def test_outcomes_that_contradict_are_refused() -> None:
    """The first outcome counts; the same once more agrees; another one does not."""
    client = Client()
    (made,) = client.ask("look", at=1)

    assert client.tell(made, "ran", at=2) is True
    assert client.tell(made, "ran", at=3) is True
    assert client.tell(made, "skipped", at=4) is False
    assert client.tell(made._replace(number=99), "ran", at=5) is None


def test_a_span_that_came_contradicts_a_skipped_call(wire: Any) -> None:
    """A call that spans tell of was made, whatever its client says later."""
    client = Client()
    (made,) = client.ask("look", at=1, trace="trace")
    client.bench.send(wire.tool("look", arguments={}, start=1.1, end=2), now=2)

    assert client.tell(made, "ran", at=3) is True
    assert client.tell(made, "skipped", at=3) is False


def test_only_its_own_client_settles_a_call() -> None:
    """The decision of one sender is unknown to another."""
    client = Client()
    (made,) = client.pipeline.decide(
        [QuestionCall("s1", "", "look", {}, "", b"", b"", b"")],
        client.resource,
        "a",
        ns(1),
        commit=True,
    )
    name = client.pipeline.decided.name(made.number)

    assert client.pipeline.settle(name, "ran", "b", ns(2)).entry is None
    assert client.pipeline.settle(name, "ran", "a", ns(2)).entry is not None


# --- time ---------------------------------------------------------------------------------------


def test_an_unconfirmed_call_counts_beside_its_session_for_a_time() -> None:
    """No session ever has it; after `confirm_seconds` decisions do not count on it either."""
    client = Client(enforce="block")
    client.tell(client.ask("approve", at=0)[0], "ran", at=0.5)
    client.ask("pay", at=1)
    client.tick(60.9)
    assert client.one("pay", at=60.9, commit=False) == "deny"
    client.tick(61.1)

    assert client.one("pay", at=61.1, commit=False) == "allow"
    assert client.steps() == [("approve", "executed", "progress")]
    assert client.count("decisions_unconfirmed") == 1


def test_a_question_that_nothing_confirms_leaves_nothing() -> None:
    """No session, no sum, and no verdict has anything of it."""
    client = Client()
    for number in range(3):
        client.ask("pay", "approve", at=1 + number, session=f"s{number}", trace=f"t{number}")
    client.tick(200)

    monitor = client.bench.monitor
    assert (
        list(monitor.judgements()),
        monitor.sessions,
        monitor.counters.without_calls,
    ) == ([], 0, 0)
    assert (dict(monitor.totals.pairs), client.bench.verdicts) == ({}, [])
    assert client.count("decisions_unconfirmed") == 6


@pytest.mark.parametrize("asked", ["approve", "pay"])
@pytest.mark.parametrize("outcome", ["skipped", None])
def test_verdicts_beside_a_call_that_is_not_made_are_as_if_nobody_had_asked(
    wire: Any, asked: str, outcome: str | None
) -> None:
    """Neither `approve` that is not made hides a harm, nor `pay` that is not made makes one."""
    clients = [Client(), Client()]
    for client in clients:
        ran = [wire.tool("approve", arguments={}, start=0.5, end=0.6, attributes=NAMED)]
        if asked == "approve":
            ran = []
        if client is clients[0]:
            (made,) = client.ask(asked, at=1, arguments={"n": 9})
        pay = wire.tool("pay", arguments={}, start=2, end=3, attributes=NAMED)
        client.bench.send(*ran, pay, now=3)
        client.tick(20)
        if client is clients[0] and outcome is not None:
            client.tell(made, outcome, at=21)
        client.tick(100)
    one, other = [
        (
            client.bench.steps(),
            [each.kind for each in client.bench.verdicts],
            [+pair.final for pair in client.bench.monitor.totals.pairs.values()],
        )
        for client in clients
    ]

    assert one == other
    assert one[0][-1]["kind"] == ("harmful" if asked == "approve" else "progress")


def test_an_unconfirmed_call_is_never_counted_as_final() -> None:
    """Its verdict waits for a confirmation: the final counters do not have it."""
    client = Client()
    client.ask("pay", at=1)
    client.tick(59)
    client.tick(200)

    pairs = client.bench.monitor.totals.pairs.values()
    assert [+pair.final for pair in pairs if +pair.final] == []


def test_an_outcome_after_the_time_is_taken() -> None:
    """A tool may run for minutes: its call is judged again, at its time."""
    client = Client()
    (made,) = client.ask("approve", at=1)
    client.tick(62)
    assert client.steps() == []

    assert client.tell(made, "ran", at=300) is True
    assert client.steps() == [("approve", "executed", "progress")]


def test_a_span_after_the_time_is_a_call_like_any_other(wire: Any) -> None:
    """The decided call is gone; the span's call is judged once."""
    client = Client()
    (made,) = client.ask("approve", at=1, trace="trace")
    client.tick(62)
    client.bench.send(wire.tool("approve", arguments={}, start=1.1, end=300), now=301)

    assert client.steps() == [("approve", "executed", "progress")]
    assert client.tell(made, "ran", at=302) is True
    assert len(client.steps()) == 1


def test_decided_calls_are_forgotten_in_time() -> None:
    """Ten minutes after its time, nothing of a decided call is held."""
    client = Client()
    (made,) = client.ask("look", at=1)
    client.tell(made, "ran", at=2)
    client.tick(700)

    decided = client.pipeline.decided
    assert (len(decided), decided.size, decided.held_bytes) == (0, 0, 0)
    assert client.tell(made, "ran", at=701) is None


def test_what_was_said_of_a_session_without_calls_is_forgotten_in_time() -> None:
    """A client said that a session begins, and asked about no call that is remembered still."""
    client = Client()
    client.pipeline.decided.begin(SessionKey("", "s1"), Proof.said(ns(1)), ns(1))
    assert client.pipeline.decided.held_bytes > 0
    client.tick(700)
    assert client.pipeline.decided.held_bytes == 0


# --- calls that were denied ---------------------------------------------------------------------


def test_a_denied_call_that_is_made_is_overruled(wire: Any) -> None:
    """Its span is judged as harmful, counted, and handed on with the span's id."""
    client = Client(enforce="block")
    client.ask("pay", at=1, trace="trace", call_id="c")
    span = wire.tool("pay", call_id="c", arguments={}, start=1.1, end=2, attributes=NAMED)
    client.bench.send(span, now=2)

    assert client.steps() == [("pay", "executed", "harmful")]
    assert client.count("decisions_overruled") == 1
    assert [each.span_id for each in client.denied] == [b"", span.span_id]
    (kept,) = client.pipeline.decision_records.of(SessionKey("", "s1"))
    assert kept.is_overruled


def test_a_client_may_tell_that_a_denied_call_ran() -> None:
    """Without spans, an outcome shows that the decision was overruled."""
    client = Client(enforce="block")
    (made,) = client.ask("pay", at=1)
    client.tell(made, "ran", at=2)

    assert client.steps() == [("pay", "executed", "harmful")]
    assert client.count("decisions_overruled") == 1


def test_the_span_of_a_refused_call_is_not_judged(wire: Any) -> None:
    """The client says that the call was skipped: the span that the framework made of it is no call."""
    client = Client(enforce="block")
    (made,) = client.ask("pay", at=1.1, trace="trace", call_id="c")
    assert client.tell(made, "skipped", at=1.2) is True
    client.bench.send(wire.tool("pay", call_id="c", arguments={}, start=1, end=1.3), now=2)

    assert (client.steps(), client.count("decisions_overruled")) == ([], 0)
    assert client.bench.stats.dropped["prevented"] == 1


def test_a_denied_call_that_failed_around_the_decision_was_refused(wire: Any) -> None:
    """A span that encloses the denial and failed is that of the refused call."""
    client = Client(enforce="block")
    client.ask("pay", at=1.1, trace="trace", call_id="c")
    client.bench.send(
        wire.tool("pay", call_id="c", arguments={}, start=1, end=1.3, status=2), now=2
    )

    assert (client.steps(), client.count("decisions_overruled")) == ([], 0)


def test_a_call_that_is_right_by_now_overrules_nothing(wire: Any) -> None:
    """`pay` was denied, then `approve` was made, then `pay`: no harm, and nothing is overruled."""
    client = Client(enforce="block")
    client.ask("pay", at=1, trace="trace")
    client.bench.send(
        wire.tool("approve", arguments={}, start=2, end=3, attributes=NAMED),
        wire.tool("pay", arguments={}, start=4, end=5, attributes=NAMED),
        now=6,
    )

    assert [kind for _, _, kind in client.steps()] == ["progress", "progress"]
    assert client.count("decisions_overruled") == 0


def test_a_models_request_for_a_denied_call_is_not_judged(wire: Any) -> None:
    """Where tools leave no spans, what a model asked for counts as made, unless it was denied."""
    client = Client(enforce="block", requested="always")
    client.ask("pay", at=2, trace="trace", call_id="c1")
    asked = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "pay",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
    }
    client.bench.send(wire.span("model", asked, start=1, end=1.9), now=3)

    assert client.steps() == []


# --- bounds -------------------------------------------------------------------------------------


def test_one_tenant_cannot_push_out_anothers_calls() -> None:
    """At the bound the tenant that holds most loses its oldest call, which is taken back and counted."""
    table = DecidedCalls(entries_max=10)
    client = Client(decided=table)
    (mine,) = client.ask("look", at=1, session="mine")
    flood = Resource({"service.name": "svc", "service.namespace": "flood"})
    for number in range(50):
        asked = QuestionCall(f"f{number}", "", "look", {}, "", b"", b"", b"")
        client.pipeline.decide([asked], flood, None, ns(2 + number / 100), commit=True)

    assert (len(table), table.overflowed) == (10, 41)
    assert client.count("decisions_unconfirmed") == 41
    assert client.tell(mine, "ran", at=3) is True


def test_arguments_are_bounded_in_bytes_and_freed_when_told() -> None:
    """What a call was given is held until it is settled, and no more than the bound."""
    table = DecidedCalls(bytes_max=100_000)
    client = Client(decided=table)
    made = [
        client.ask("look", at=1 + number / 100, arguments={"text": "x" * 20_000})[0]
        for number in range(8)
    ]

    assert table.held_bytes <= 100_000
    assert table.overflowed > 0
    before = table.held_bytes
    assert client.tell(made[-1], "ran", at=2) is True
    assert table.held_bytes < before - 20_000


def test_many_equal_calls_of_a_session_stay_bounded() -> None:
    """What a span is compared with has a bound; calls beyond it are taken back."""
    client = Client()
    for number in range(400):
        client.ask("look", at=1 + number / 1_000)

    assert client.pipeline.decided.size == 256
    assert client.count("decisions_unconfirmed") == 144

    client = Client(enforce="block")
    for number in range(200):
        client.ask("pay", at=1 + number / 1_000)
    assert client.pipeline.decided.size == 64


@pytest.mark.parametrize(("tool", "asked"), [("pay", 200), ("look", 600)])
def test_a_call_on_its_way_is_not_pushed_out_by_questions(tool: str, asked: int) -> None:
    """However often a model asks about calls that are denied, or change nothing, its payment counts until it is made."""
    client = Client(enforce="block")
    client.tell(client.ask("approve", at=1)[0], "ran", at=1.1)
    (paid,) = client.ask("pay", at=2)
    found = {client.one(tool, at=3 + number / 1_000) for number in range(asked)}

    assert found <= ({"deny"} if tool == "pay" else {"allow", "unknown"})
    assert client.one("pay", at=4) == "deny"
    assert client.tell(paid, "ran", at=5) is True
    assert client.one("pay", at=6) == "deny"


def test_nothing_is_allowed_for_certain_where_a_call_on_its_way_was_forgotten() -> None:
    """Among more calls in flight than are remembered, each of which may matter, the session knows nothing for certain for a minute."""
    table = DecidedCalls(entries_max=50)
    client = Client(enforce="block", decided=table)
    client.tell(client.ask("approve", at=1)[0], "ran", at=1.1)
    client.ask("pay", at=2)
    for number in range(200):
        client.ask("approve", at=3 + number / 1_000, session=f"other{number}")

    assert client.one("pay", at=4) == "unknown"
    assert client.one("look", at=4, session="new") == "allow"
    client.tick(70)
    assert client.one("pay", at=71, commit=False) == "allow"


def test_large_arguments_push_no_call_out() -> None:
    """At the bound of bytes the arguments of calls on their way become unknown, and they count all the same."""
    table = DecidedCalls(bytes_max=100_000)
    client = Client(enforce="block", decided=table)
    client.tell(client.ask("approve", at=1)[0], "ran", at=1.1)
    (paid,) = client.ask("pay", at=2)
    for number in range(12):
        client.ask("look", at=3 + number / 1_000, arguments={"text": "x" * 20_000})

    assert table.held_bytes <= 100_000
    assert client.one("pay", at=4) == "deny"
    assert client.tell(paid, "ran", at=5) is True


def test_a_call_whose_tool_returns_the_words_of_a_refusal_does_not_vanish(wire: Any) -> None:
    """Its span may be taken for that of an equal call that was denied: unconfirmed, it counts as made in the end."""
    client = Client(enforce="block")
    client.tell(client.ask("approve", at=1)[0], "ran", at=1.1)
    client.ask("pay", at=2, call_id="c1")
    (denied,) = client.ask("pay", at=2.1, call_id="c1")
    assert client.tell(denied, "skipped", at=2.2) is True
    words = client.bench.monitor.explain("pay", denied.decision)
    told = {**NAMED, RESULT: json.dumps({"memo": words})}
    call = wire.tool("pay", call_id="c1", arguments={}, start=1.9, end=2.5, attributes=told)
    client.bench.send(call, now=2.6)
    client.tick(70)

    assert client.one("pay", at=71) == "deny"


def test_calls_on_their_way_outlive_the_settled_ones_of_their_tenant() -> None:
    """At the bound of all decisions, those that nothing depends on are forgotten first."""
    table = DecidedCalls(entries_max=50)
    client = Client(enforce="block", decided=table)
    client.tell(client.ask("approve", at=1)[0], "ran", at=1.1)
    (paid,) = client.ask("pay", at=2)
    for number in range(200):
        client.ask("pay", at=3 + number / 1_000, session=f"other{number}")

    assert len(table) == 50
    assert client.tell(paid, "ran", at=5) is True


def test_denied_calls_are_bounded_in_bytes_and_in_time() -> None:
    """What is shown of them takes no more than its bound, and is forgotten a day after the last denial."""
    client = Client(enforce="block")
    records = client.pipeline.decision_records
    for number in range(200):
        client.ask("pay", at=1 + number, session=f"s{number}")
    assert 0 < records.held_bytes < 300_000
    client.tick(201 + 24 * 3_600)

    assert (records.held_bytes, records.of(SessionKey("", "s9"))) == (0, ())


def test_a_decided_call_weighs_what_its_client_sent() -> None:
    """Texts and attributes count, not only arguments."""
    client = Client()
    client.ask("look", at=1, session="s" * 100)
    plain = client.pipeline.decided.held_bytes
    client.resource = Resource({"service.name": "svc", "tier": "x" * 50_000})
    client.ask("look", at=2)

    assert client.pipeline.decided.held_bytes > plain + 50_000


# --- spans of calls that were refused -----------------------------------------------------------

RESULT = "gen_ai.tool.call.result"


def denied_and_skipped(client: Client, at: float = 1.1, **more: Any) -> DecisionResult:
    """`pay` is denied, and its client tells that it was skipped."""
    (made,) = client.ask("pay", at=at, **{"arguments": {"from": "A", "to": "B"}, **more})
    assert made.decision.enforced.value == "deny"
    assert client.tell(made, "skipped", at=at + 0.1) is True
    return made


@pytest.mark.parametrize(
    ("asked", "span", "hidden"),
    [
        ({}, {}, True),
        ({}, {"status": 2}, True),
        ({}, {"status": 1}, False),
        ({}, {"attributes": {**NAMED, RESULT: "paid 400"}}, False),
        (
            {},
            {
                "attributes": {
                    **NAMED,
                    RESULT: "refused: `pay` needs `approve` first. Allowed now: ...",
                }
            },
            True,
        ),
        ({}, {"arguments": {"from": "B", "to": "A"}}, False),
        ({}, {"arguments": {"from": "A", "to": "C"}}, False),
        ({}, {"arguments": None}, False),
        ({"arguments": None}, {}, False),
        ({}, {"start": 1.3}, False),
        ({"call_id": "c"}, {"call_id": "c", "arguments": None}, True),
        ({"call_id": "c"}, {"call_id": "c", "status": 1}, True),
        ({"call_id": "c"}, {"call_id": "d"}, False),
        (
            {"call_id": "c"},
            {"call_id": "c", "attributes": {**NAMED, RESULT: "paid 400"}},
            False,
        ),
    ],
)
def test_skipped_hides_the_refused_call_alone(
    wire: Any, asked: dict[str, Any], span: dict[str, Any], hidden: bool
) -> None:
    """Not a call that returned something, nor one with other arguments, nor where arguments are not known."""
    client = Client(enforce="block")
    if "arguments" in asked:
        (made,) = client.pipeline.decide(
            [QuestionCall("s1", "", "pay", None, "", b"", b"", b"")],
            client.resource,
            None,
            ns(1.1),
            commit=True,
        )
        client.tell(made, "skipped", at=1.2)
    else:
        denied_and_skipped(client, **asked)
    told = {
        "arguments": {"from": "A", "to": "B"},
        "start": 1.0,
        "end": 1.5,
        "attributes": NAMED,
        **span,
    }
    refused = wire.tool("pay", **told)
    client.bench.send(refused, now=2)

    assert client.steps() == ([] if hidden else [("pay", "executed", "harmful")])
    (kept,) = client.pipeline.decision_records.of(SessionKey("", "s1"))
    assert kept.hidden == ((refused.span_id,) if hidden else ())


def test_a_call_of_another_service_is_not_hidden(wire: Any) -> None:
    """Somebody else's `skipped` says nothing of it."""
    client = Client(enforce="block")
    denied_and_skipped(client)
    client.bench.send(
        wire.tool(
            "pay",
            arguments={"from": "A", "to": "B"},
            start=1,
            end=1.5,
            attributes=NAMED,
            resource={"service.name": "another"},
        ),
        now=2,
    )

    assert "prevented" not in client.bench.stats.dropped


def test_a_refused_calls_span_may_come_before_it_is_told_as_skipped(wire: Any) -> None:
    """It is taken for the call at first; then it is no step, and the call is prevented, not overruled."""
    client = Client(enforce="block")
    (made,) = client.ask("pay", at=1.1, trace="trace", call_id="c")
    span = wire.tool("pay", call_id="c", arguments={}, start=1, end=1.3, attributes=NAMED)
    client.bench.send(span, now=1.5)
    assert client.steps() == [("pay", "executed", "harmful")]

    assert client.tell(made, "skipped", at=1.6) is True
    assert client.steps() == []
    (kept,) = client.pipeline.decision_records.of(SessionKey("", "s1"))
    assert (kept.is_overruled, kept.hidden) == (False, (span.span_id,))


@pytest.mark.parametrize("own_first", [True, False])
@pytest.mark.parametrize("way", ["span", "call_id"])
def test_a_call_that_is_certain_goes_before_one_that_looks_alike(
    wire: Any, own_first: bool, way: str
) -> None:
    """The refused call's own span is no step, and an equal call's is, whichever comes first."""
    client = Client(enforce="block")
    ids: dict[str, Any] = {"span": {"span": "own"}, "call_id": {"call_id": "c"}}[way]
    client.ask("pay", at=1.1, trace="trace", **ids)
    own = wire.tool(
        "pay",
        id="own",
        call_id=ids.get("call_id", ""),
        arguments={},
        start=1,
        end=1.2,
        status=2,
        attributes=NAMED,
    )
    other = wire.tool("pay", id="other", arguments={}, start=1.05, end=1.4, attributes=NAMED)
    for span in (own, other) if own_first else (other, own):
        client.bench.send(span, now=2)

    (step,) = client.bench.steps()
    assert (step["span_id"], step["kind"]) == (other.span_id.hex(), "harmful")
    (kept,) = client.pipeline.decision_records.of(SessionKey("", "s1"))
    assert (kept.is_overruled, kept.hidden) == (False, (own.span_id,))


@pytest.mark.parametrize("own_first", [True, False])
def test_a_call_that_gives_way_meets_the_decided_call_that_is_left(
    wire: Any, own_first: bool
) -> None:
    """Two calls were asked about and are made, so there are two steps, whichever span meets which decision first."""
    client = Client()
    (first,) = client.ask("look", at=1, session="", trace="trace")
    client.tell(first, "ran", at=1.2)
    client.ask("look", at=1.3, trace="trace", span="own")
    own = wire.tool("look", id="own", arguments={}, start=1.5, end=1.6, attributes=NAMED)
    other = wire.tool("look", id="other", arguments={}, start=1.4, end=1.6, attributes=NAMED)
    for span in (own, other) if own_first else (other, own):
        client.bench.send(span, now=2)

    steps = [each["span_id"] for each in client.bench.steps()]
    assert steps == [other.span_id.hex(), own.span_id.hex()]


def test_an_overruled_step_stays_so_when_its_span_comes(wire: Any) -> None:
    """An outcome settled the call before its span came: the mark is on the span's step."""
    client = Client(enforce="block")
    (made,) = client.ask("pay", at=1, trace="trace", call_id="c")
    client.tell(made, "ran", at=2)
    span = wire.tool("pay", call_id="c", arguments={}, start=1.1, end=1.9, attributes=NAMED)
    client.bench.send(span, now=3)

    (kept,) = client.pipeline.decision_records.of(SessionKey("", "s1"))
    assert kept.span_id == span.span_id
    assert [step["span_id"] for step in client.bench.steps()] == [span.span_id.hex()]


def test_a_call_that_was_made_is_not_swallowed_by_an_equal_earlier_one(wire: Any) -> None:
    """Denied and skipped, denied once more, and made: the span is that of the second one."""
    client = Client(enforce="block")
    first = denied_and_skipped(client, at=1.1)
    (second,) = client.ask("pay", at=2, arguments={"from": "A", "to": "B"})
    made = wire.tool(
        "pay",
        arguments={"from": "A", "to": "B"},
        start=1,
        end=3,
        attributes={**NAMED, RESULT: "paid"},
    )
    client.bench.send(made, now=4)

    records = client.pipeline.decision_records.of(SessionKey("", "s1"))
    assert client.steps() == [("pay", "executed", "harmful")]
    assert {each.number: each.is_overruled for each in records} == {
        first.number: False,
        second.number: True,
    }


def test_a_denied_call_that_was_harmless_after_all_is_not_listed(wire: Any) -> None:
    """`approve` was made meanwhile: nothing was prevented, and nothing overruled."""
    client = Client(enforce="block")
    client.ask("pay", at=1, trace="trace")
    client.bench.send(
        wire.tool("approve", arguments={}, start=2, end=3, attributes=NAMED),
        wire.tool("pay", arguments={}, start=4, end=5, attributes=NAMED),
        now=6,
    )

    assert client.pipeline.decision_records.of(SessionKey("", "s1")) == ()
