"""The alphabet: tool call -> token, most specific pattern first."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alphabet.alphabet import Alphabet, build_alphabet, specificity
from monitor.alphabet.call_facts import result_name
from monitor.alphabet.failed_calls import FailedCalls
from monitor.alphabet.pattern import parse
from monitor.alphabet.token import Token
from monitor.partial import PartialArguments
from monitor.records import Reason

CORE = Path(__file__).parents[3] / ".." / "shared" / "core"


def alphabet(failed_calls: FailedCalls = "no_effect", /, **symbols: Any) -> Alphabet:
    """`name=(tool, {argument: raw pattern} or None)`."""
    return build_alphabet(
        {
            name: (
                tool,
                None if raw is None else {key: parse(each) for key, each in raw.items()},
            )
            for name, (tool, raw) in symbols.items()
        },
        failed_calls,
    )


def token(made: Alphabet, tool: str, arguments: Any = (), *, failed: bool = False) -> Token:
    given = {} if arguments == () else arguments
    return made.tokens[made.match(tool, given, failed)]


def name(made: Alphabet, tool: str, arguments: Any = ()) -> str | None:
    found = token(made, tool, arguments)
    return made.symbols[found.symbols[0]] if len(found.symbols) == 1 else None


def test_plain_symbols_are_their_own_tokens() -> None:
    """A certain call that did not fail has its symbol's number as token: the hot path."""
    made = alphabet(
        a=("look", None), b=("pay", {"to": "ann"}), c=("pay", {"to": {"any": True}})
    )
    assert made.match("look", {"x": 1}, False) == 0
    assert made.match("look", None, False) == 0
    assert made.match("pay", {"to": "ann"}, False) == 1
    assert made.match("pay", {"to": "bob"}, False) == 2
    assert made.tokens[:3] == tuple(Token((index,), symbol=index) for index in range(3))


def test_unmatched_calls_say_why() -> None:
    """An unknown tool and arguments that fit no pattern are different reasons."""
    made = alphabet(a=("pay", {"to": "ann"}))
    assert token(made, "rob").reason is Reason.UNKNOWN_TOOL
    assert token(made, "rob", None).reason is Reason.UNKNOWN_TOOL
    assert token(made, "pay", {"to": "bob"}).reason is Reason.ARGUMENT_MISMATCH
    assert token(made, "pay", {}).symbols == ()
    assert token(made, "pay", {}).exact


@pytest.mark.parametrize(
    ("raw", "arguments", "matches"),
    [
        (None, {"x": 1}, True),
        (None, {}, True),
        ({}, {}, True),
        ({}, {"x": 1}, False),
        ({"x": 1}, {"x": 1, "more": 2}, True),
        ({"x": 1}, {}, False),
        ({"x": {"any": True}}, {}, True),
        ({"x": {"any": True}, "y": 1}, {"y": 1}, True),
        ({"x": {"not_in": [1]}}, {}, False),
        ({"x": {"not_in": [1]}}, {"x": None}, True),
        ({"x": None}, {}, False),
        ({"x": None}, {"x": None}, True),
        ({"x": 1}, {"x": True}, False),
    ],
)
def test_missing_and_extra_arguments(raw: Any, arguments: Any, matches: bool) -> None:
    """Extra arguments are ignored, missing ones allowed only for {any: true}, {} refuses any."""
    assert (name(alphabet(a=("t", raw)), "t", arguments) == "a") is matches


@pytest.mark.parametrize(
    ("special", "general"),
    [
        ({"x": 1}, {"x": {"one_of": [1, 2]}}),
        ({"x": {"one_of": [1, 2]}}, {"x": {"min": 0, "max": 3}}),
        ({"x": {"min": 1}}, {"x": {"type": "number"}}),
        ({"x": {"type": "number"}}, {"x": {"not_in": [7]}}),
        ({"x": {"not_in": [7]}}, {"x": {"any": True}}),
        ({"x": {"not_in": [7]}}, None),
        (
            {"x": 1, "y": {"any": True}},
            {"x": {"min": 1}, "y": {"type": "string"}, "z": {"min": 0}},
        ),
        ({"x": {"type": "number"}, "y": {"type": "string"}}, {"x": {"one_of": [1]}}),
    ],
)
def test_most_specific_pattern_wins(special: Any, general: Any) -> None:
    """More exact arguments win, then more constrained ones, then stronger forms, in any order."""
    call = {"x": 1, "y": "s", "z": 1}
    for pair in itertools.permutations([("special", special), ("general", general)]):
        symbols: dict[str, Any] = {each: ("t", raw) for each, raw in pair}
        made = alphabet("no_effect", **symbols)
        assert name(made, "t", call) == "special"


def test_no_arguments_beats_any_arguments() -> None:
    """`{}` is more specific than arguments left out."""
    made = alphabet(any=("t", None), none=("t", {}))
    assert name(made, "t", {}) == "none"
    assert name(made, "t", {"x": 1}) == "any"


def test_exact_tie_goes_to_declaration_order() -> None:
    """Equal patterns: the first declared symbol always wins."""
    made = alphabet(first=("t", {"x": 1}), second=("t", {"x": 1.0}))
    assert name(made, "t", {"x": 1}) == "first"


def test_unknown_arguments_leave_all_readings_open() -> None:
    """Arguments that are not on the wire: any symbol of the tool, and not exact."""
    made = alphabet(
        a=("t", {"x": 1}), b=("t", None), c=("one", {}), d=("sure", {"x": {"any": True}})
    )
    assert token(made, "t", None) == Token((0, 1), exact=False)
    assert token(made, "one", None) == Token((2,), exact=False, symbol=2, sure=False)
    assert token(made, "sure", None) == Token((3,), symbol=3)


def test_failed_calls_without_effect() -> None:
    """live: a failed call keeps its readings, and changes nothing where one is defined."""
    made = alphabet(a=("t", {"x": 1}), b=("u", None))
    assert token(made, "u", failed=True) == Token((1,), effect=False, symbol=1)
    assert token(made, "t", None, failed=True) == Token(
        (0,), effect=False, exact=False, symbol=0, sure=False
    )
    assert token(made, "zzz", failed=True).reason is Reason.UNKNOWN_TOOL
    assert token(made, "t", {"x": 2}, failed=True).reason is Reason.ARGUMENT_MISMATCH


def test_failed_calls_harmful() -> None:
    """core: any failed call is harmful, and still shows its symbol."""
    made = alphabet("harmful", a=("t", {"x": 1}), b=("u", None))
    assert token(made, "u", failed=True) == Token(
        (), reason=Reason.FAILED_CALL, symbol=1, named=True
    )
    assert token(made, "t", {"x": 2}, failed=True) == Token((), reason=Reason.FAILED_CALL)
    assert token(made, "zzz", failed=True).reason is Reason.FAILED_CALL
    assert token(made, "t", None, failed=True).exact


def test_failed_calls_ordinary() -> None:
    """ordinary: the status does not matter."""
    made = alphabet("ordinary", a=("t", {"x": 1}), b=("u", None))
    calls: list[tuple[str, Any]] = [("u", {}), ("t", {"x": 1}), ("t", None), ("zzz", {})]
    for tool, arguments in calls:
        assert made.match(tool, arguments, True) == made.match(tool, arguments, False)


argument_patterns = st.sampled_from(
    [1, 2, {"any": True}, {"one_of": [1, 3]}, {"not_in": [1]}, {"min": 2}, {"type": "integer"}]
)
symbol_patterns = st.none() | st.dictionaries(st.sampled_from("xy"), argument_patterns)
calls = st.dictionaries(
    st.sampled_from("xyz"), st.sampled_from([1, 2, 3, 1.0, True, "1", None])
)


@given(st.lists(symbol_patterns, min_size=1, max_size=4), calls)
def test_match_is_the_documented_rule(raw: list[Any], arguments: dict[str, Any]) -> None:
    """The chosen symbol is the most specific of those that match, written out naively."""
    symbols: dict[str, Any] = {f"s{index}": ("t", each) for index, each in enumerate(raw)}
    made = alphabet("no_effect", **symbols)

    def takes(each: Any) -> bool:
        if each is None:
            return True
        if not each:
            return not arguments
        return all(
            (key in arguments and parse(one).matches(arguments[key])) or one == {"any": True}
            for key, one in each.items()
        )

    def strength(index: int) -> tuple[Any, ...]:
        each = raw[index]
        parsed = None if each is None else {key: parse(one) for key, one in each.items()}
        return (*specificity(parsed), -index)

    matching = [index for index, each in enumerate(raw) if takes(each)]
    wanted = (max(matching, key=strength),) if matching else ()
    assert token(made, "t", arguments).symbols == wanted


@given(
    st.lists(symbol_patterns, min_size=1, max_size=4),
    calls,
    st.sampled_from(["no_effect", "harmful", "ordinary"]),
)
def test_readings_without_arguments_cover_every_call(
    raw: list[Any], arguments: dict[str, Any], failed_calls: FailedCalls
) -> None:
    """The readings include the symbol for any arguments, and the number of tokens is bounded."""
    made = alphabet(
        failed_calls, **{f"s{index}": ("t", each) for index, each in enumerate(raw)}
    )
    known, unknown = token(made, "t", arguments), token(made, "t", None)
    assert set(known.symbols) <= set(unknown.symbols)
    assert unknown.exact <= known.exact
    assert made.stride <= 2 * (2 ** (len(raw) + 1) + 2)
    assert len(made.tokens) == 3 * made.stride


def core_symbols(record: dict[str, Any]) -> dict[str, Any]:
    """A published alphabet as ours: a value is exact, excluded values not_in, else any."""

    def raw(slot: dict[str, Any]) -> Any:
        if slot["value"] is not None:
            return {"exact": slot["value"]}
        return {"not_in": slot["excluded_values"]} if slot["excluded_values"] else {"any": True}

    return {
        symbol: (each["name"], {key: raw(slot) for key, slot in each["arguments"].items()})
        for symbol, each in record["alphabet"].items()
    }


@pytest.mark.skipif(not CORE.exists(), reason="the published CORE dataset is not here")
def test_published_symbols_match_their_own_values() -> None:
    """In all 84 published tasks a call built from a symbol's exact values is that symbol."""
    records = json.loads((CORE / "all_worlds_dataset.json").read_text())
    checked = 0
    for record in records:
        made = alphabet(**core_symbols(record))
        for index, each in enumerate(record["alphabet"].values()):
            slots = each["arguments"].values()
            if any(slot["value"] is None for slot in slots):
                continue
            call = {slot["name"]: slot["value"] for slot in slots}
            twin = [i for i, other in enumerate(record["alphabet"].values()) if other == each]
            assert token(made, each["name"], call).symbols == (twin[0],), (
                record["prompt_id"],
                index,
            )
            checked += 1
    assert checked > 150


_PATTERNS = st.sampled_from([1, "[unreadable]", {"min": 1}, {"regex": "."}, {"any": True}])
_ANY: st.SearchStrategy[Any] = st.sampled_from([0, 1, 2, "", "a", None, [], "[unreadable]"])


@given(
    symbols=st.lists(
        st.none() | st.dictionaries(st.sampled_from("xy"), _PATTERNS, max_size=2),
        min_size=1,
        max_size=3,
    ),
    known=st.dictionaries(st.sampled_from("xyz"), _ANY, max_size=2),
    unread=st.sets(st.sampled_from("xyz"), min_size=1, max_size=2),
    values=st.lists(_ANY, min_size=2, max_size=2),
)
def test_a_partly_known_call_is_what_it_is_whatever_the_rest_is(
    symbols: list[Any], known: dict[str, Any], unread: set[str], values: list[Any]
) -> None:
    """A certain match holds for any values of the unread arguments."""
    made = alphabet(**{f"s{n}": ("pay", raw) for n, raw in enumerate(symbols)})
    found = token(made, "pay", PartialArguments(known, unread))
    whole = {**known, **dict(zip(sorted(unread), values, strict=False))}
    truth = token(made, "pay", whole)

    assert set(truth.symbols) <= set(found.symbols)
    assert truth.symbols or not found.sure or not found.symbols
    assert truth == found or not found.exact


def test_what_cannot_be_read_matters_where_a_pattern_names_it() -> None:
    """Only patterns that name an unread argument are uncertain. Unread does not mean absent."""
    made = alphabet(big=("pay", {"amount": {"min": 9}}), none=("pay", {}))

    assert name(made, "pay", PartialArguments({"amount": 10}, {"x"})) == "big"
    assert (
        token(made, "pay", PartialArguments({"amount": 1}, {"x"})).reason
        is Reason.ARGUMENT_MISMATCH
    )
    # It is there, so the call is not the one without arguments.
    assert token(made, "pay", PartialArguments({}, {"amount"})) == Token(
        (0,), exact=False, symbol=0, sure=False
    )
    assert token(made, "pay", None) == Token((0, 1), exact=False, sure=False)
    assert token(made, "pay", PartialArguments({}, {"x"})).reason is Reason.ARGUMENT_MISMATCH


@pytest.mark.parametrize(
    "spelt",
    [
        "functions.pay",
        "default_api:pay",
        "mcp__bank__pay",
        "a.b/pay",
        "PAY",
        " pay",
        "pay\u200b",
    ],
)
@pytest.mark.parametrize("failed_calls", ["no_effect", "harmful", "ordinary"])
def test_a_name_that_is_nearly_a_tools_may_be_that_tool(
    failed_calls: FailedCalls, spelt: str
) -> None:
    """It is any symbol of the tool, or a tool that the spec does not know; neither is certain."""
    made = alphabet(
        failed_calls, a=("pay", {"to": "ann"}), b=("pay", {"to": "bob"}), c=("look", None)
    )
    assert token(made, spelt, {"to": "bob"}) == Token(
        (0, 1), exact=False, sure=False, alike=True
    )
    failed = token(made, spelt, {"to": "bob"}, failed=True)
    assert (failed.sure, failed.named) == (False, failed_calls == "harmful")


def test_a_name_that_is_nearly_a_tools_and_wrong_arguments_match_nothing() -> None:
    """Whether it is that tool or another one, the call matches no symbol: that is certain."""
    made = alphabet(a=("pay", {"to": "ann"}))
    assert token(made, "functions.pay", {"to": "eve"}).reason is Reason.UNKNOWN_TOOL
    assert token(made, "functions.pay", {"to": "ann"}).reason is None
    assert token(made, "functions.repay", {"to": "ann"}).reason is Reason.UNKNOWN_TOOL


def test_names_that_look_alike_stay_apart_where_they_are_spelt_right() -> None:
    """A tool is itself, though another one looks like it; a third spelling may be either."""
    made = alphabet(a=("pay", None), b=("Pay", None), c=("functions.pay", None))
    assert [made.match(each, {}, False) for each in ("pay", "Pay", "functions.pay")] == [
        0,
        1,
        2,
    ]
    assert token(made, "PAY").symbols == (0, 1)
    assert token(made, "").reason is Reason.UNKNOWN_TOOL


def test_a_call_with_a_known_result_has_its_symbol_however_many_there_are() -> None:
    """Sets of symbols that results may leave possible are too many to list here; those of one symbol are not."""
    symbols = {
        f"s{i}": ("pay", {result_name(f"lines[{i}].id"): parse({"regex": f"^{i}"})})
        for i in range(12)
    }
    made = build_alphabet(symbols)
    for i in range(12):
        result = {"lines": [{"id": "x"}] * i + [{"id": str(i)}]}
        assert made.match("pay", {}, False, (result,)) == i
    assert made.match("pay", {}, False, ({"lines": []},)) == made.mismatch
