"""Claims about sessions with unknown parts: the smallest case of each kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.client.tail import formatted
from collector.sinks.event import as_event
from monitor import Limits, Monitor, SessionKey
from monitor.limits import SECOND
from monitor.partial import PartialArguments
from monitor.records import Evidence, Kind, Reason, ToolCall, Verdict
from monitor.session.judge.judge import Judge
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

START = 1_700_000_000 * SECOND
ATTRIBUTES = {"service.name": "x"}
PAY = {
    "little": {"tool": "pay", "arguments": {"amount": {"max": 100}}},
    "pay": {"tool": "pay"},
    "ok": {"tool": "approve"},
}


def compiled(**document: Any) -> Spec:
    whole = {"id": "s", "kind": "policy", **document}
    if whole["kind"] == "task":
        whole["match"] = ATTRIBUTES
    spec, found = compile_text(json.dumps(whole), "s.yaml")
    assert spec is not None, found
    return spec


def tools(*names: str) -> dict[str, Any]:
    return {name: {"tool": name} for name in names}


class Session:
    """One session under one spec; a call a second."""

    def __init__(self, spec: Spec, *, young: bool = False, joined: bool = False) -> None:
        uncertain = young or joined
        self.monitor = Monitor(
            [spec],
            Limits(history_complete=not uncertain),
            started_ns=START - SECOND if uncertain else 0,
        )
        self.calls = 0
        if joined:
            key = SessionKey("", "s")
            self.monitor.corrections.learn(
                key, START, attributes=ATTRIBUTES, start_ns=START - 2 * SECOND
            )

    def call(self, tool: str, arguments: Any = None, *, failed: bool = False) -> list[Verdict]:
        self.calls += 1
        start = START + self.calls * SECOND
        call = ToolCall(
            SessionKey("", "s"), "", tool, arguments, failed, start, start + 1_000, b"T" * 16,
            self.calls.to_bytes(8, "big"), b"P" * 8, "", Evidence.EXECUTED, attributes=ATTRIBUTES,
        )  # fmt: skip
        return list(self.monitor.observe(call, start + 1_000))

    def is_harmful(self, *call: Any, **more: Any) -> bool:
        return any(verdict.kind is Kind.HARMFUL for verdict in self.call(*call, **more))

    def shown(self) -> dict[str, Any]:
        [found] = self.monitor.find("s")
        return dict(found)


# --- readings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules", [[{"forbid": ["little", "pay"]}], [{"precedence": ["ok", ["little", "pay"]]}]]
)
@pytest.mark.parametrize("arguments", [None, PartialArguments({"to": "x"}, {"amount"})])
def test_symbols_that_cover_a_tool_are_all_its_readings(rules: Any, arguments: Any) -> None:
    """Whatever is unknown of a payment, it is one of the two, and both are refused."""
    assert Session(compiled(alphabet=PAY, constraints=rules)).is_harmful("pay", arguments)


def test_what_no_symbol_covers_stays_a_reading() -> None:
    """Without a symbol for the other payments, this may be one that the policy does not name."""
    alphabet = {"little": PAY["little"]}
    spec = compiled(alphabet=alphabet, constraints=[{"forbid": "little"}])
    assert not Session(spec).is_harmful("pay")
    assert Session(spec).is_harmful("pay", {"amount": 5})


def test_a_symbol_that_never_wins_is_no_reading() -> None:
    """The only allowed reading would always match another symbol, so the call is harmful."""
    alphabet = {
        "low": {"tool": "pay", "arguments": {"amount": {"max": 9}}},
        "five": {"tool": "pay", "arguments": {"amount": {"one_of": [5]}}},
        "exactly_five": {"tool": "pay", "arguments": {"amount": 5}},
    }
    spec = compiled(alphabet=alphabet, constraints=[{"forbid": ["low", "exactly_five"]}])
    token = spec.alphabet.tokens[spec.alphabet.match("pay", None, False)]
    assert [spec.alphabet.symbols[symbol] for symbol in token.symbols] == [
        "low",
        "exactly_five",
    ]


def test_expressions_prove_no_coverage() -> None:
    """Regular expressions cover no text for certain; a symbol without arguments takes the rest."""
    found = {
        f"r{n}": {"tool": "t", "arguments": {"x": {"regex": e}}} for n, e in enumerate("ab")
    }
    rules = [{"forbid": list(found)}]
    assert not Session(compiled(alphabet=found, constraints=rules)).is_harmful("t")
    found["rest"] = {"tool": "t"}
    assert Session(compiled(alphabet=found, constraints=[{"forbid": list(found)}])).is_harmful(
        "t"
    )


@pytest.mark.parametrize(("currency", "harmful"), [("EUR", True), ("USD", False)])
def test_a_symbol_that_the_known_part_rules_out_is_no_reading(
    currency: str, harmful: bool
) -> None:
    """Only dollars may be paid: euros of any amount are harmful, dollars perhaps right."""
    alphabet = {
        name: {"tool": "pay", "arguments": {"cur": name, "amount": {"max": 100}}}
        for name in ("EUR", "USD")
    }
    spec = compiled(
        kind="task", alphabet=alphabet, initial="s", accepting=["e"],
        transitions={"s": {"USD": "e"}, "e": {"EUR": "e"}},
    )  # fmt: skip
    assert (
        Session(spec).is_harmful("pay", PartialArguments({"cur": currency}, {"amount"}))
        == harmful
    )


# --- failed calls -----------------------------------------------------------------------------


def test_a_failed_call_is_harmful_where_a_policy_says_so() -> None:
    """This holds for the policy's symbols only; other calls are not judged, and `forbidden` takes precedence."""
    spec = compiled(
        alphabet={**PAY, "rm": {"tool": "rm"}},
        constraints=[{"precedence": ["ok", "pay"]}, {"forbid": "rm"}],
        conventions={"failed_calls": "harmful"},
    )
    session = Session(spec)
    assert [each.reason for each in session.call("approve", failed=True)] == [
        Reason.FAILED_CALL
    ]
    assert [each.reason for each in session.call("pay", failed=True)] == [Reason.FAILED_CALL]
    assert [each.reason for each in session.call("rm", failed=True)] == [Reason.FORBIDDEN]
    assert session.call("other", failed=True) == []
    # Neither had an effect.
    assert session.is_harmful("pay", {"amount": 500})


def test_a_failed_call_that_may_be_none_of_the_symbols_is_not_claimed() -> None:
    """With unknown arguments it may be a call that the policy does not name."""
    spec = compiled(
        alphabet={"little": PAY["little"]},
        constraints=[{"at_most": ["little", 5]}],
        conventions="core",
    )
    assert not Session(spec).is_harmful("pay", failed=True)
    assert Session(spec).is_harmful("pay", {"amount": 5}, failed=True)


# --- many states ------------------------------------------------------------------------------


@pytest.mark.parametrize("states", [3, 17, 400])
def test_a_joined_task_is_judged_whatever_its_states(states: int) -> None:
    """A step cannot be made twice, wherever the session stood when it was joined."""
    names = [f"s{number}" for number in range(states - 1)]
    session = Session(
        compiled(kind="task", alphabet=tools(*names), golden=[names]), joined=True
    )
    assert not session.is_harmful("s1", {})
    assert session.is_harmful("s1", {})
    assert session.shown()["position"] == ["G2"]


def test_a_joined_policy_is_judged_whatever_its_constraints() -> None:
    """A forbidden call is harmful in each of a million joint states."""
    pairs = [(f"a{n}", f"b{n}") for n in range(20)]
    alphabet = tools("rm", *(name for pair in pairs for name in pair))
    apart: list[Any] = [{"precedence": list(pair)} for pair in pairs]
    rules: list[Any] = [{"forbid": "rm"}, {"at_most": ["a0", 2]}]
    for more in ([], [{"init": "a0"}]):
        session = Session(
            compiled(alphabet=alphabet, constraints=[*rules, *apart, *more]), joined=True
        )
        assert session.is_harmful("rm", {})
        assert [session.is_harmful("a0", {}) for _ in range(4)] == [False, False, True, True]


def test_constraints_read_a_few_at_a_time_are_counted() -> None:
    """100,000 joint states over the same calls: one count alone still proves its own harms."""
    spec = compiled(
        alphabet=tools(*"abcde"),
        constraints=[
            {"at_most": [[one, two], 9]} for one, two in zip("abcde", "bcdea", strict=True)
        ],
    )
    assert [each.code for each in spec.findings] == ["too_many_joint_states"]
    session = Session(spec, joined=True)
    assert [session.is_harmful("a", {}) for _ in range(11)] == [False] * 9 + [True] * 2
    session.monitor.end(SessionKey("", "s"), START + 60 * SECOND)
    assert session.monitor.totals.read_in_parts == 1


# --- traps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [0, 8, 60])
def test_a_trap_is_told_whatever_stands_beside_it(beside: int) -> None:
    """Constraints over other calls do not hide it."""
    names = [f"{letter}{number}" for number in range(beside) for letter in "xy"]
    pairs = [[f"x{number}", f"y{number}"] for number in range(beside)]
    spec = compiled(
        alphabet=tools("a", "b", *names),
        constraints=[
            {"response": ["a", "b"]},
            {"forbid": "b"},
            *({"co_existence": pair} for pair in pairs),
        ],
    )
    session = Session(spec)
    assert [each.kind for each in session.call("a", {})] == [Kind.PROGRESS, Kind.CANNOT_FINISH]
    assert "trap" in [each.code for each in spec.findings]


def test_a_trap_of_a_group_that_is_too_large_is_found_by_its_neighbours() -> None:
    """`init` looks at every call, so all constraints hang together."""
    names = [f"x{number}" for number in range(28)]
    pairs = [names[number : number + 2] for number in range(0, 28, 2)]
    spec = compiled(
        alphabet=tools("a", "b", *names),
        constraints=[
            {"init": ["a", "x0"]},
            {"response": ["a", "b"]},
            {"forbid": "b"},
            *({"co_existence": pair} for pair in pairs),
        ],
    )
    session = Session(spec)
    assert [each.kind for each in session.call("a", {})] == [Kind.PROGRESS, Kind.CANNOT_FINISH]


def test_a_policy_nobody_can_keep_is_refused_whatever_stands_beside_it() -> None:
    """Two contradicting constraints are named among any number of others."""
    names = [f"x{number}" for number in range(40)]
    text = json.dumps({
        "id": "s", "kind": "policy", "alphabet": tools("a", *names),
        "constraints": [
            {"existence": "a"}, {"forbid": "a"},
            *({"co_existence": names[n : n + 2]} for n in range(0, 40, 2)),
        ],
    })  # fmt: skip
    spec, [found] = compile_text(text, "s.yaml")
    assert spec is None
    assert found.code == "no_accepting_state_reachable"
    assert "'existence: [a, 1]' and 'forbid: a'" in found.message


def test_a_trap_that_only_an_accepted_call_leads_into_is_told() -> None:
    """After the accepted call, a forbidden call is required."""
    spec = compiled(
        alphabet=tools("a", "b"),
        constraints=[{"forbid": ["a", "b"]}, {"response": ["a", "b"]}],
        accept=[{
            "symbol": "a", "state": "0", "constraint": "forbid: a", "who": "w", "why": "y",
            "until": "2099-01-01",
        }],
    )  # fmt: skip
    session = Session(spec)
    session.call("a", {})
    assert session.shown()["can_finish"] is False


# --- sessions that may have begun before ------------------------------------------------------

LOST = {
    "kind": "task",
    "alphabet": tools("login", "pay"),
    "initial": "outside",
    "accepting": ["done"],
    "idle": {"lost": "5m"},
    "transitions": {
        "outside": {"login": "inside", "pay": "lost"}, "inside": {"pay": "done"},
        "lost": {}, "done": {},
    },
}  # fmt: skip


def test_a_young_session_is_not_said_to_be_trapped_or_idle() -> None:
    """The login may have been before the start: then the payment has finished the task."""
    session = Session(compiled(**LOST), young=True)
    found = session.call("pay", {})
    assert session.monitor.tick(START + 1_200 * SECOND) == []
    assert [each.kind for each in [*found, *session.monitor.news()]] == [Kind.PROGRESS]
    assert session.shown()["can_finish"] is True


def test_a_young_session_is_said_to_be_trapped_where_it_is_so_anyhow() -> None:
    """Whatever came before the start, the session cannot finish after this call."""
    spec = compiled(
        kind="task", alphabet=tools("go", "fall"), initial="a", accepting=["b"],
        states=["a", "b", "pit"],
        transitions={"a": {"go": "b", "fall": "pit"}, "b": {"fall": "pit"}},
    )  # fmt: skip
    session = Session(spec, young=True)
    assert [each.kind for each in session.call("fall", {})] == [
        Kind.PROGRESS,
        Kind.CANNOT_FINISH,
    ]


# --- which call -------------------------------------------------------------------------------


def test_one_harm_is_certain_and_which_call_it_is_is_not() -> None:
    """Either the payment of unknown amount or the call after it is harmful, not both."""
    spec = compiled(
        kind="task",
        alphabet={"little": PAY["little"], **tools("look")},
        initial="open", accepting=["paid"],
        transitions={"open": {"little": "paid"}, "paid": {}}, reads={"open": ["look"]},
    )  # fmt: skip
    session = Session(spec)
    assert not session.is_harmful("pay")
    [verdict] = session.call("look", {})
    assert (verdict.kind, verdict.certain_call) == (Kind.HARMFUL, False)
    assert not session.is_harmful("look", {})
    [certain] = session.call("nobody", {})
    assert (certain.kind, certain.certain_call) == (Kind.HARMFUL, True)

    shown = session.shown()
    assert shown["harmful"] == 2
    assert [step.get("certain_call") for step in shown["steps"]] == [None, False, None, None]
    assert as_event(verdict)["certain_call"] is False
    assert "certain_call" not in as_event(certain)
    assert formatted(as_event(verdict), colour=False).endswith("(this call or an earlier one)")


def test_no_reading_is_dropped_for_its_cost() -> None:
    """However many harms one beginning has had, it stays possible: its calls are not certain harms."""
    names = [f"s{number}" for number in range(40)]
    spec = compiled(kind="task", alphabet=tools("x", *names), golden=[names, ["x", "x"]])
    stepper = Judge(spec).stepper
    position = stepper.anywhere()
    for name in (*names, "x"):
        token = spec.alphabet.match(name, {}, False)
        before, position = position, stepper.step(position, token).position
    assert stepper.chances(before, token).right
