"""Plain data read as typed records: which are taken, and what is said of the others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from monitor.spec.document.typed import BEFORE, Fault, Leaf, leaves, shaped


class Inner(Struct, frozen=True, forbid_unknown_fields=True):
    """A record in a record."""

    word: Literal["one", "two"] = "one"
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.5


class Outer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One field of each kind."""

    name: Annotated[str, Meta(min_length=1, max_length=3)]
    many: Annotated[int, Meta(gt=0, le=5)] = 1
    flag: bool = False
    maybe: int | None = None
    either: str | list[str] = ""
    plain: str | int | float | bool = ""
    choice: Literal["a", "b"] | Inner = "a"
    inner: Annotated[Inner, Meta(description="of it")] = Inner()
    listed: Annotated[list[Inner], Meta(max_length=2)] = []
    several: tuple[int, ...] = ()
    named: dict[Annotated[str, Meta(min_length=1)], list[int]] = {}
    day: Annotated[str, Meta(pattern="^[0-9]+$")] = "1"


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 7),
    st.sampled_from([0.0, 0.5, 1.0, 2.5]),
    st.sampled_from(["", "a", "b", "one", "two", "1", "long"]),
)
DATA = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["", "word", "share", "else"]), inner, max_size=3),
    ),
    max_leaves=5,
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys((*Outer.__struct_fields__, "unknown"), DATA),
).flatmap(lambda given: st.sampled_from([given, {"name": "x", **given}]))


@given(DOCUMENTS)
def test_what_msgspec_takes_is_taken(data: dict[str, Any]) -> None:
    """The same documents are taken as msgspec takes, with the same values."""
    found, faults = shaped(Outer, data)
    try:
        expected = msgspec.convert(data, Outer)
    except msgspec.ValidationError:
        assert found is None
        assert faults
    else:
        assert faults == []
        assert found == expected
        assert repr(found) == repr(expected)


@given(st.dictionaries(st.sampled_from(["name", "many", "flag", "several", "day"]), DATA))
def test_every_fault_is_told(data: dict[str, Any]) -> None:
    """The keys with faults are those that are faulty alone: none hides another."""
    alone = {key for key in data if shaped(Outer, {"name": "x", key: data[key]})[0] is None} | (
        {"name"} - data.keys()
    )

    assert {fault.path[0] for fault in shaped(Outer, data)[1]} == alone


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ({"name": ""}, ("name",), "String should have at least 1 character"),
        ({"name": "long"}, ("name",), "String should have at most 3 characters"),
        ({"name": 1}, ("name",), "Input should be a valid string"),
        ({"many": 0}, ("many",), "Input should be greater than 0"),
        ({"many": 6}, ("many",), "Input should be less than or equal to 5"),
        ({"many": True}, ("many",), "Input should be a valid integer"),
        ({"flag": "yes"}, ("flag",), "Input should be a valid boolean"),
        ({"maybe": "x"}, ("maybe",), "Input should be a valid integer"),
        ({"either": {}}, ("either",), "Input should be a single value or a list"),
        ({"plain": None}, ("plain",), "Input should be a text, a number or a boolean"),
        ({"choice": "c"}, ("choice",), "Input should be 'a' or 'b'"),
        ({"inner": 1}, ("inner",), "Input should be a mapping of keys"),
        (
            {"inner": {"share": -1}},
            ("inner", "share"),
            "Input should be greater than or equal to 0",
        ),
        ({"inner": {"share": 1}}, ("inner", "share"), "Input should be less than 1"),
        (
            {"inner": {"share": math.nan}},
            ("inner", "share"),
            "Input should be greater than or equal to 0",
        ),
        (
            {"listed": [{}, {"word": 1}]},
            ("listed", 1, "word"),
            "Input should be 'one' or 'two'",
        ),
        ({"listed": [{}, {}, {}]}, ("listed",), "List should have at most 2 items"),
        ({"named": {"": []}}, ("named", ""), "String should have at least 1 character"),
        ({"named": []}, ("named",), "Input should be a mapping"),
        ({"day": "1\n"}, ("day",), "String should match pattern '^[0-9]+$'"),
    ],
)
def test_the_fault_says_what_was_expected(
    data: dict[str, Any], path: tuple[str | int, ...], said: str
) -> None:
    """One sentence, at the place of the fault."""
    assert shaped(Outer, {"name": "x", **data}) == (None, [Fault(path, "value", said)])


def test_keys_that_are_missing_or_unknown() -> None:
    """They are told apart from wrong values, in the order of the fields, then of the document."""
    _, faults = shaped(Outer, {"z": 1, "inner": {"a": 1}, "b": 1})

    assert [(fault.path, fault.kind) for fault in faults] == [
        (("name",), "missing"),
        (("inner", "a"), "unknown"),
        (("z",), "unknown"),
        (("b",), "unknown"),
    ]


class Setting(Struct, frozen=True):
    """What a variable may set."""

    count: Annotated[int, Meta(ge=1)] = 1
    seconds: float = 1.0
    on: bool = False
    file: Path | None = None
    words: Annotated[
        tuple[str, ...], Meta(extra={BEFORE: lambda text: str(text).split(",")})
    ] = ()

    def __post_init__(self) -> None:
        if self.on and self.file is None:
            raise ValueError("on needs a file")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("count", "7", 7),
        ("count", "7.0", 7),
        ("count", 7.0, 7),
        ("seconds", "0.5", 0.5),
        ("seconds", 2, 2.0),
        ("on", "no", False),
        ("on", "OFF", False),
        ("on", 0, False),
        ("file", "a/b", Path("a/b")),
        ("words", "a,b", ("a", "b")),
    ],
)
def test_a_text_may_stand_for_a_number(key: str, text: Any, value: Any) -> None:
    """Variables of the environment are texts."""
    found, faults = shaped(Setting, {key: text}, lenient=True)

    assert faults == []
    assert getattr(found, key) == value
    assert type(getattr(found, key)) is type(value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("count", "x", "Input should be a valid integer, unable to parse string as an integer"),
        (
            "count",
            "1.5",
            "Input should be a valid integer, got a number with a fractional part",
        ),
        ("count", 1.5, "Input should be a valid integer, got a number with a fractional part"),
        ("count", "0", "Input should be greater than or equal to 1"),
        ("count", math.inf, "Input should be a finite number"),
        ("seconds", "x", "Input should be a valid number, unable to parse string as a number"),
        ("seconds", "nan", "Input should be a finite number"),
        ("seconds", math.inf, "Input should be a finite number"),
        ("seconds", 10**400, "Input should be a finite number"),
        ("on", "perhaps", "Input should be a valid boolean, unable to interpret input"),
        ("file", 1, "Input is not a valid path"),
    ],
)
def test_texts_that_are_no_numbers(key: str, value: Any, said: str) -> None:
    """And numbers that no setting can mean."""
    assert shaped(Setting, {key: value}, lenient=True) == (None, [Fault((key,), "value", said)])


def test_a_record_as_a_whole() -> None:
    """What only the fields together can tell is a fault of the record."""
    assert shaped(Setting, {"on": True})[1] == [Fault((), "value", "on needs a file")]
    assert shaped(Setting, {"on": True, "file": "x"})[1] == []


def test_the_fields_of_records_in_records() -> None:
    """Path, default and description; a record's own fields stand for it."""
    found = {leaf.path: leaf for leaf in leaves(Outer)}

    assert found["inner", "share"] == Leaf(("inner", "share"), 0.5, "")
    assert found["name",].default is msgspec.NODEFAULT
    assert found["named",].default == {}
    assert ("inner",) not in found
