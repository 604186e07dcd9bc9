"""Plain data as models: what is valid, and what the faults of other data say."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct
from pydantic import Field, Tag

from monitor.spec.document.match_document import Plain
from monitor.spec.document.validation import (
    LIST,
    MAPPING,
    PLAIN,
    DocumentFault,
    StrictModel,
    by_form,
    validated,
)


class InnerModel(StrictModel):
    """A model in a model."""

    word: Literal["one", "two"] = "one"
    share: Annotated[float, Field(ge=0, lt=1)] = 0.5


class OuterModel(StrictModel):
    """One field of each kind."""

    name: Annotated[str, Field(min_length=1, max_length=3)]
    many: Annotated[int, Field(gt=0, le=5)] = 1
    flag: bool = False
    maybe: int | None = None
    either: Annotated[
        Annotated[str, Tag(PLAIN)] | Annotated[list[str], Tag(LIST)], by_form(PLAIN, LIST)
    ] = ""
    plain: Plain = ""
    choice: Annotated[
        Annotated[Literal["a", "b"], Tag(PLAIN)] | Annotated[InnerModel, Tag(MAPPING)],
        by_form(PLAIN, MAPPING),
    ] = "a"
    inner: InnerModel = InnerModel()
    listed: Annotated[list[InnerModel], Field(max_length=2)] = []
    several: list[int] = []
    named: dict[Annotated[str, Field(min_length=1)], list[int]] = {}
    day: Annotated[str, Field(pattern="^[0-9]+$")] = "1"


class Inner(Struct, frozen=True, forbid_unknown_fields=True):
    """The same as msgspec reads it: a second reader."""

    word: Literal["one", "two"] = "one"
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.5


class Outer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same as msgspec reads it."""

    name: Annotated[str, Meta(min_length=1, max_length=3)]
    many: Annotated[int, Meta(gt=0, le=5)] = 1
    flag: bool = False
    maybe: int | None = None
    either: str | list[str] = ""
    plain: str | int | float | bool = ""
    choice: Literal["a", "b"] | Inner = "a"
    inner: Inner = Inner()
    listed: Annotated[list[Inner], Meta(max_length=2)] = []
    several: list[int] = []
    named: dict[Annotated[str, Meta(min_length=1)], list[int]] = {}
    day: Annotated[str, Meta(pattern="^[0-9]+$")] = "1"


SINGLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 7),
    st.sampled_from([0.0, 0.5, 1.0, 2.5]),
    st.sampled_from(["", "a", "b", "one", "two", "1", "long"]),
)
DATA = st.recursive(
    SINGLE,
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
    """Documents are accepted exactly if msgspec accepts them, with the same values."""
    found, faults = validated(OuterModel, data)
    try:
        expected = msgspec.convert(data, Outer)
    except msgspec.ValidationError:
        assert found is None
        assert faults
    else:
        assert faults == []
        assert found is not None
        # pydantic warns of a model where a literal may stand, too.
        dumped = found.model_dump(warnings=False)
        assert repr(dumped) == repr(msgspec.to_builtins(expected))


@given(st.dictionaries(st.sampled_from(["name", "many", "flag", "several", "day"]), DATA))
def test_every_fault_is_told(data: dict[str, Any]) -> None:
    """A document with several faults reports each key that is faulty alone."""
    alone = {
        key for key in data if validated(OuterModel, {"name": "x", key: data[key]})[0] is None
    } | ({"name"} - data.keys())

    assert {fault.path[0] for fault in validated(OuterModel, data)[1]} == alone


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ({"name": ""}, ("name",), "String should have at least 1 character"),
        ({"name": "long"}, ("name",), "String should have at most 3 characters"),
        ({"name": 1}, ("name",), "Input should be a valid string"),
        ({"many": 0}, ("many",), "Input should be greater than 0"),
        ({"many": 6}, ("many",), "Input should be less than or equal to 5"),
        ({"many": True}, ("many",), "Input should be a valid integer"),
        (
            {"flag": "yes"},
            ("flag",),
            "Input should be true or false (yes, no, on and off are texts)",
        ),
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
            "Input should be less than 1",
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
    assert validated(OuterModel, {"name": "x", **data}) == (
        None,
        [DocumentFault(path, "value", said)],
    )


def test_keys_that_are_missing_or_unknown() -> None:
    """They are reported apart from wrong values, first in the fields' order, then in the document's."""
    _, faults = validated(OuterModel, {"z": 1, "inner": {"a": 1}, "b": 1})

    assert [(fault.path, fault.kind) for fault in faults] == [
        (("name",), "missing"),
        (("inner", "a"), "unknown"),
        (("z",), "unknown"),
        (("b",), "unknown"),
    ]


@pytest.mark.parametrize("key", ["", "[key]", "list", LIST, "0"])
def test_a_path_is_one_of_the_document(key: str) -> None:
    """The marks and branches of pydantic's locations are removed, whatever the keys are called."""
    data = {"name": "x", "named": {key: [1, "x"]}, "either": ["a", 1], "choice": {key: 1}}

    assert [path for path, _, _ in validated(OuterModel, data)[1]] == [
        ("either", 1),
        ("choice", key),
        *[("named", "")] * (key == ""),
        ("named", key, 1),
    ]


def test_the_values_of_a_fault_are_not_repeated() -> None:
    """Messages do not repeat values, which may be secret."""
    with pytest.raises(ValueError, match="Input should be a valid string") as told:
        OuterModel.model_validate({"name": 170_017})
    assert "170017" not in str(told.value)
