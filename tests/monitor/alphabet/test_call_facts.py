"""Symbols that ask what a call returned, and whether it failed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alphabet.alphabet import Alphabet, specificity
from monitor.alphabet.pattern import Pattern, parse
from monitor.alphabet.token import Token
from monitor.partial import PartialArguments
from monitor.records import Reason
from monitor.spec.compiler.compile import compile_text
from monitor.value_paths import path_of


def alphabet(**symbols: dict[str, Any]) -> Alphabet:
    """Symbols of the tool `ask`, as a document writes them."""
    made = {name: {"tool": "ask", **keys} for name, keys in symbols.items()}
    document = {"id": "facts", "alphabet": made, "golden": [[next(iter(made))]]}
    spec, found = compile_text(json.dumps(document), "facts.yaml")
    assert spec is not None, [str(each) for each in found]
    return spec.alphabet


def token(
    made: Alphabet, result: tuple[Any, ...], *, failed: bool = False, **how: Any
) -> Token:
    arguments = how.pop("arguments", {})
    return made.tokens[made.match("ask", arguments, failed, result, **how)]


def names(made: Alphabet, found: Token) -> set[str]:
    return {made.symbols[symbol] for symbol in found.symbols}


APPROVAL = alphabet(
    approved={"result": {"status": "approved"}}, refused={"result": {"status": {"any": True}}}
)


def test_a_result_decides_which_symbol_a_call_is() -> None:
    """A check that answers no is another symbol than one that passed; `any` also takes nothing at the path."""
    assert names(APPROVAL, token(APPROVAL, ({"status": "approved"},))) == {"approved"}
    assert names(APPROVAL, token(APPROVAL, ({"status": "denied"},))) == {"refused"}
    assert names(APPROVAL, token(APPROVAL, ({},))) == {"refused"}
    assert names(APPROVAL, token(APPROVAL, (None,))) == {"refused"}


def test_an_unknown_result_is_every_result() -> None:
    """What is not captured is not taken for an answer, neither for yes nor for no."""
    found = token(APPROVAL, ())
    assert names(APPROVAL, found) == {"approved", "refused"}
    assert found.sure
    assert not found.exact


def test_a_result_without_a_symbol_is_a_mismatch() -> None:
    """Where no symbol takes what was returned, the call is none of the spec's."""
    made = alphabet(approved={"result": {"$.status": "approved"}})
    assert token(made, ({"status": "denied"},)).reason is Reason.ARGUMENT_MISMATCH
    unknown = token(made, ())
    assert names(made, unknown) == {"approved"}
    assert not unknown.sure


def test_any_element_of_a_list_is_enough() -> None:
    """With `[*]` a pattern takes a result if it takes one of the values."""
    made = alphabet(found={"result": {"orders[*].id": "A1"}}, other={})
    assert names(made, token(made, ({"orders": [{"id": "B"}, {"id": "A1"}]},))) == {"found"}
    assert names(made, token(made, ({"orders": [{"id": "B"}]},))) == {"other"}
    assert names(made, token(made, ({"orders": []},))) == {"other"}


def test_a_failed_call_counts_where_a_symbol_asks_for_it() -> None:
    """`error: true` takes failed calls as ordinary ones; all others are without effect."""
    made = alphabet(broke={"error": True}, went={"error": False})
    assert token(made, (), failed=True) == made.tokens[0]
    assert token(made, (), failed=False) == made.tokens[1]
    assert names(made, token(made, (), ended=False)) == {"broke", "went"}


def test_a_failed_call_has_not_answered() -> None:
    """What a failed call returned is no answer: it is without effect, and no mismatch."""
    found = token(APPROVAL, ("timed out",), failed=True)
    assert not found.effect
    only = alphabet(approved={"result": {"status": "approved"}})
    found = token(only, ("timed out",), failed=True)
    assert found.reason is None
    assert not found.effect


def test_no_arguments_and_a_result_are_asked_together() -> None:
    """`arguments: {}` beside a result takes calls without arguments alone."""
    made = alphabet(bare={"arguments": {}, "result": {"$": "ok"}}, rest={})
    assert names(made, token(made, ("ok",))) == {"bare"}
    assert names(made, token(made, ("ok",), arguments={"x": 1})) == {"rest"}
    assert names(made, token(made, ("ok",), arguments=None)) == {"bare", "rest"}


def test_no_argument_passes_for_a_result() -> None:
    """An agent that names an argument as a fact is named inside gains nothing."""
    forged = {"\0result status": ("approved",), "\0failed": True}
    found = token(APPROVAL, ({"status": "denied"},), arguments=forged)
    assert names(APPROVAL, found) == {"refused"}


@pytest.mark.parametrize(
    ("symbol", "code"),
    [
        ({"result": {"a..b": 1}}, "invalid_path"),
        ({"result": {"a": {"regex": "("}}}, "invalid_regex"),
        ({"result": {"a": {"near": 1}}}, "invalid_pattern"),
    ],
)
def test_what_cannot_be_asked_is_refused(symbol: dict[str, Any], code: str) -> None:
    """Faults in `result` are found with the spec, at their place."""
    document = {"id": "x", "alphabet": {"a": {"tool": "ask", **symbol}}, "golden": [["a"]]}
    spec, found = compile_text(json.dumps(document), "x.yaml")
    assert spec is None
    assert [each.code for each in found if each.severity == "error"] == [code]


# --- the law ------------------------------------------------------------------------------------

PATTERNS = st.sampled_from(
    [
        1,
        "x",
        None,
        {"any": True},
        {"one_of": [1, 2]},
        {"not_in": [1]},
        {"min": 1},
        {"type": "string"},
    ]
)
PATHS = st.sampled_from(["$", "a", "b[*]", "b[0]", "b[*].a"])
SYMBOLS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "arguments": st.dictionaries(st.sampled_from(["p", "q"]), PATTERNS, max_size=2),
            "result": st.dictionaries(PATHS, PATTERNS, min_size=1, max_size=2),
            "error": st.booleans(),
        },
    ),
    min_size=1,
    max_size=4,
)
LEAVES = st.sampled_from([None, True, 1, 2, 0.5, "x", "1", ""])
RESULTS = st.one_of(
    LEAVES,
    st.fixed_dictionaries(
        {},
        optional={
            "a": LEAVES,
            "b": st.lists(LEAVES | st.fixed_dictionaries({"a": LEAVES}), max_size=3),
        },
    ),
)
ARGUMENTS = st.fixed_dictionaries({}, optional={"p": LEAVES, "q": LEAVES})


def plainly(
    symbols: list[dict[str, Any]], arguments: dict[str, Any], result: Any, *, failed: bool
) -> int | None:
    """The symbol of a call of which everything is known, as the documentation says it."""

    def takes(symbol: dict[str, Any]) -> bool:
        wanted = symbol.get("arguments")
        if wanted == {} and arguments:
            return False
        for name, raw in (wanted or {}).items():
            pattern = parse(raw)
            if pattern.kind != "any" and not (
                name in arguments and pattern.takes(arguments[name])
            ):
                return False
        for path, raw in symbol.get("result", {}).items():
            pattern = parse(raw)
            if pattern.kind != "any" and not any(
                map(pattern.takes, path_of(path).find(result) or ())
            ):
                return False
        return symbol.get("error", failed) is failed

    def rank(symbol: dict[str, Any]) -> Any:
        found: dict[str, Pattern] = {}
        if symbol.get("arguments") == {} and len(symbol) > 1:
            found["none"] = parse(0)
        for key in ("arguments", "result"):
            found |= {f"{key} {name}": parse(raw) for name, raw in symbol.get(key, {}).items()}
        if "error" in symbol:
            found["error"] = parse(symbol["error"])
        return symbol.get("error") is True, specificity(found or symbol.get("arguments"))

    ranked = sorted(range(len(symbols)), key=lambda each: rank(symbols[each]), reverse=True)
    return next((each for each in ranked if takes(symbols[each])), None)


@given(SYMBOLS, ARGUMENTS, RESULTS)
def test_known_calls_are_read_as_a_plain_interpreter_reads_them(
    symbols: list[dict[str, Any]], arguments: dict[str, Any], result: Any
) -> None:
    """With everything known, the most specific symbol that takes arguments, result and status wins."""
    made = alphabet(**{f"s{number}": each for number, each in enumerate(symbols)})
    found = made.match("ask", arguments, False, (result,))
    wanted = plainly(symbols, arguments, result, failed=False)
    assert found == (made.mismatch if wanted is None else wanted)


@given(SYMBOLS, ARGUMENTS, RESULTS, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_what_is_not_known_leaves_every_reading_open(
    symbols: list[dict[str, Any]],
    arguments: dict[str, Any],
    result: Any,
    failed: bool,
    no_arguments: bool,
    no_result: bool,
    not_ended: bool,
) -> None:
    """Whatever a call turns out to be, it was among the readings before: of its arguments, result and end."""
    made = alphabet(**{f"s{number}": each for number, each in enumerate(symbols)})
    before = made.tokens[
        made.match(
            "ask",
            None if no_arguments else arguments,
            failed and not not_ended,
            () if no_result else (result,),
            ended=not not_ended,
        )
    ]
    truth = plainly(symbols, arguments, result, failed=failed)
    asks = any(each.keys() & {"result", "error"} for each in symbols)
    if not asks or (failed and truth is None):
        return
    if truth is None:
        assert not before.sure or before.reason is Reason.ARGUMENT_MISMATCH
    else:
        assert truth in before.symbols


@given(SYMBOLS, ARGUMENTS, RESULTS)
def test_partly_known_arguments_leave_every_reading_open(
    symbols: list[dict[str, Any]], arguments: dict[str, Any], result: Any
) -> None:
    """An argument that cannot be read may be any, whatever the result is."""
    made = alphabet(**{f"s{number}": each for number, each in enumerate(symbols)})
    partly = PartialArguments(arguments, set(arguments))
    before = made.tokens[made.match("ask", partly, False, (result,))]
    truth = plainly(symbols, arguments, result, failed=False)
    if truth is not None:
        assert truth in before.symbols
