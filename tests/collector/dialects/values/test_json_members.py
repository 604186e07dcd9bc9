"""JSON texts read in C for a few members: what it tells, and what it leaves to the full reading."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decode.protobuf import otlp_proto, scan
from collector.decode.span import Span
from collector.dialects import read
from collector.dialects.model_messages import outputs
from collector.dialects.plan import Fields
from collector.dialects.registry import DIALECTS
from collector.dialects.values import arguments
from collector.dialects.values.arguments import BareValue, CarriedArguments, callback_form
from collector.dialects.values.results import of_langchain
from tests.conformance.bodies import raw_field as field
from tests.native import missing, native, native_json, native_reader

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a C compiler")

NAMES = ("a", "b", "", "lc_agent_name")

ODD = {
    "nothing": "",
    "another value": "[1]",
    "more than one value": "{} {}",
    "an open object": '{"a": 1',
    "a comma too many": '{"a": 1,}',
    "a comma too few": '{"a": 1 "b": 2}',
    "a number with a leading zero": '{"a": 01}',
    "a number without digits": '{"a": -}',
    "a number without a fraction": '{"a": 1.}',
    "a number without an exponent": '{"a": 1e}',
    "a long number": '{"a": %s}' % ("9" * 33),
    "no number": '{"a": NaN}',
    "half a word": '{"a": tru}',
    "an unknown escape": '{"a": "\\x"}',
    "half an escape": '{"a": "\\u12"}',
    "half a character": '{"a": "\\ud83d"}',
    "the other half": '{"a": "\\ude00"}',
    "a tab in a string": '{"a": "\t"}',
    "an open string": '{"a": "12345678',
    "a name with an escape": '{"\\u0061": 1}',
    "depth": '{"a": %s}' % ("[" * 64 + "]" * 64),
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_what_is_odd_is_read_in_full(text: str) -> None:
    """No answer is given of texts that are no plain JSON objects."""
    assert native_json().members(text, "a") is None
    assert (
        native_json().listed(f'[{{"parts": [{text}, {{}}]}}]', "parts", "x", "b", "a") is None
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", None),
        (' {"a" : "x"}\n', "x"),
        ('{"a": "é"}', "é"),
        ('{"a": "1", "a": "2"}', "2"),
        ('{"b": {"a": 1}, "c": "a"}', None),
        ('{"a": null}', None),
        ('{"a": ""}', ""),
        ('{"a": "\\n"}', b'"\\n"'),
        ('{"a": "\\ud83d\\ude00"}', b'"\\ud83d\\ude00"'),
        ('{"a": [1, {"a": "}"}]}', b'[1, {"a": "}"}]'),
        ('{"a": -0.5e+3}', b"-0.5e+3"),
        ('{"a": false}', b"false"),
        ('{"a": %s}' % ("[" * 63 + "]" * 63), b"[" * 63 + b"]" * 63),
    ],
)
def test_a_member_keeps_its_written_form(text: str, told: str | bytes | None) -> None:
    """Plain strings as texts, all others as their JSON; the last one of a name counts."""
    assert native_json().members(text, "a") == (told,)
    assert native_json().members(text.encode(), "a") == (told,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", []),
        ('[{}, {"parts": []}, {"role": [{"a": "x"}]}]', []),
        (
            '[{"parts": [{"a": "x"}]}, {"b": 1, "parts": [{"b": 2, "a": "x"}]}]',
            [(None,), (b"2",)],
        ),
        ('[{"parts": [{"b": "1"}, {"a": "y"}, {"a": 1}, {"a": null}, {"a": "x"}]}]', [(None,)]),
        ('[{"parts": [{"a": "x", "a": "y"}, {"a": 1, "a": "x", "b": "1"}]}]', [("1",)]),
        ('[{"parts": [{"a": "x"}], "parts": []}]', None),
        ('[{"parts": [{"a": "\\u0078"}]}]', None),
        ('[{"parts": {"a": "x"}}]', None),
        ('[{"parts": ["a"]}]', None),
        ('["parts"]', None),
        ('{"parts": [{"a": "x"}]}', None),
        ('[{"parts": [{"a": "x"}]}', None),
        ('[{"p\\u0061rts": []}]', None),
    ],
)
def test_members_of_wanted_objects_are_told_in_order(
    text: str, told: list[tuple[str | bytes | None]] | None
) -> None:
    """Of those in lists in objects in a list; other forms are read in full."""
    assert native_json().listed(text, "parts", "x", "a", "b") == told


def test_only_texts_are_read() -> None:
    """Other values, and too many names, raise an error."""
    members, listed = native_json().members, native_json().listed
    for call, given_ in (
        (members, ()),
        (members, (1, "a")),
        (members, ("{}", 1)),
        (members, ("{}", *"abcdefghi")),
        (listed, ("[]", "parts", "x")),
        (listed, ("[]", "parts", "x", 1)),
        (listed, ("[]", "parts", 1, "a")),
        (listed, ("[]", 1, "x", "a")),
    ):
        with pytest.raises(TypeError):
            call(*given_)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(NAMES),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(given_=st.dictionaries(st.sampled_from(NAMES), VALUES), ascii_=st.booleans())
def test_members_are_what_they_are_in_full(given_: dict[str, Any], ascii_: bool) -> None:
    """The members found equal those of a full reading, for any object."""
    told = native_json().members(json.dumps(given_, ensure_ascii=ascii_), *NAMES)

    assert [json.loads(each) if type(each) is bytes else each for each in told] == [
        given_.get(name) for name in NAMES
    ]


PARTS = st.dictionaries(
    st.sampled_from(["type", "name", "id", "arguments"]),
    st.sampled_from(["tool_call", "text", "a", "", "é", "\n", None, 1, {"id": "b"}]),
)
MESSAGES = st.lists(
    st.dictionaries(
        st.sampled_from(["role", "parts", "id"]), st.lists(PARTS, max_size=3) | st.just("a")
    ),
    max_size=3,
)
INPUTS = st.dictionaries(
    st.sampled_from(["input_str", "inputs", "kwargs", "args", "tags"]),
    st.sampled_from([None, "", "a", "\n", '{"a": 1}', 1, {}, {"tool_call_id": "b"}])
    | st.dictionaries(
        st.sampled_from(["tool_call_id", "a"]), st.sampled_from([None, "c", "\n", 1])
    ),
)
METADATA = st.dictionaries(
    st.sampled_from(["lc_agent_name", "a"]),
    st.sampled_from([None, "", "rover", "\n", 1, {"lc_agent_name": "b"}]),
)


def mangled(text: str, changes: list[tuple[int, str]]) -> str:
    """The text with other characters in some places."""
    for at, other in changes:
        place = at % (len(text) + 1)
        text = text[:place] + other + text[place + len(other) // 2 :]
    return text


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 400), st.sampled_from([*'{}[]",:\\ 0e-', '"a"', "null,", "\\u0061"])
    ),
    max_size=2,
)


def body_with(*values: bytes | str) -> bytes:
    """A request with one span, whose attributes have these values."""
    told = [field(1, each.encode()) if isinstance(each, str) else each for each in values]
    pairs = [field(9, field(1, b"k%d" % n) + field(2, each)) for n, each in enumerate(told)]
    ids = field(1, b"\1" * 16) + field(2, b"\2" * 8)
    return field(1, field(2, field(2, ids + b"".join(pairs))))


def spans_with(*values: bytes | str) -> tuple[Span, Span]:
    """A span whose attributes have these values, as the protobuf runtime has it and as C has it."""
    body = body_with(*values)
    [full] = otlp_proto.decode_any(body).spans
    scanned = scan.decode(body, otlp_proto.ProtoCodec(), native_reader())
    assert scanned is not None
    return full, scanned.spans[0]


def told(span: Span) -> tuple[object, ...]:
    """The results of the three readers of long texts, as comparable values."""
    asked = outputs._listed_in(span, 0, names_only=True)  # noqa: SLF001 - one reader is compared in its two ways
    input_: Any = callback_form(span.attribute(0))
    call_id = input_.call_id if isinstance(input_, CarriedArguments) else None
    input_ = input_.arguments if call_id is not None else input_
    input_ = ("bare", input_.value) if isinstance(input_, BareValue) else input_
    return (
        [(each.tool, each.call_id) if each else None for each in asked],
        repr(input_),
        call_id,
        read._metadata_agent(span, 0),  # noqa: SLF001 - one reader is compared in its two ways
    )


@pytest.mark.plain
@given(
    document=MESSAGES | INPUTS | METADATA,
    changes=CHANGES,
    ascii_=st.booleans(),
    behind=st.sampled_from(["", "}", '"}', '"]}]}', "a" * 64]),
)
def test_a_brief_reading_in_c_says_what_any_reading_says(
    document: Any, changes: Any, ascii_: bool, behind: str
) -> None:
    """The readers in C and in Python agree on any text, sound or broken."""
    text = mangled(json.dumps(document, ensure_ascii=ascii_), changes)
    full, scanned = spans_with(text, behind)
    c = native_json()
    found = []
    for members, listed, members_at, listed_at in (
        (None, None, None, None),
        (c.members, c.listed, None, None),
        (c.members, c.listed, c.members_at, c.listed_at),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read, "_members", members)
            patch.setattr(arguments, "_members", members)
            patch.setattr(outputs, "_listed", listed)
            patch.setattr(read, "_members_at", members_at)
            patch.setattr(outputs, "_listed_at", listed_at)
            found += [told(full), told(scanned)]

    assert found == [found[0]] * len(found)


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
@pytest.mark.parametrize("behind", ["", "}", '"}', '"]}]}', "a" * 64])
def test_a_text_ends_where_its_value_does(text: str, behind: str) -> None:
    """Bytes that follow the text in the request are never read as part of it."""
    for cut in range(len(text) + 1):
        _, span = spans_with(text[:cut], behind)
        read_in_place = native_json().members_at(span.values, 0, "a")
        assert read_in_place == native_json().members(text[:cut], "a")


def test_only_ascii_texts_of_the_reader_are_read_where_they_lie() -> None:
    """Other texts and values are left to their codec."""
    c = native_json()
    good, long_ = '{"a": "x"}', '{"a": "%s"}' % ("x" * native().TEXT_BYTES_MAX)
    odd = [
        field(1, b'{"a": "\xff"}'),
        field(2, b"\1")[:1] + b"\1",
        b"",
        field(7, good.encode()),
    ]
    full, span = spans_with(good, '{"a": "é"}', '{"a": "0123456789abcdefé"}', long_, *odd)

    assert c.members_at(span.values, 0, "a") == ("x",)
    assert c.listed_at(span.values, 0, "parts", "x", "b", "a") is None
    for index in range(1, len(span.values) + 1):
        assert c.members_at(span.values, index, "a") is None
        assert c.listed_at(span.values, index, "parts", "x", "b", "a") is None
    assert c.members_at(full.values, 0, "a") is None
    assert c.members_at(span.values, -1, "a") is None
    with pytest.raises(TypeError):
        c.members_at(span.values)
    with pytest.raises(TypeError):
        c.listed_at(span.values, 0, "parts", "x")


@given(
    text=st.text(st.sampled_from('error"é'), max_size=70),
    behind=st.sampled_from(["", 'error"', "x" * 40]),
    sign=st.sampled_from(['error"', '"e', "rr", "é"]),
)
def test_a_text_lacks_what_is_not_in_it(text: str, behind: str, sign: str) -> None:
    """A substring is not found in bytes that follow the text in the request."""
    _, span = spans_with(text, behind)

    assert native_json().lacks_at(span.values, 0, sign) is (sign not in text)


def test_unscanned_values_are_left_for_a_full_reading() -> None:
    """Other values, long texts and texts of another reader are left for a full reading."""
    lacks_at = native_json().lacks_at
    long_ = "x" * native().TEXT_BYTES_MAX
    full, span = spans_with("good", long_, field(2, b"\1")[:1] + b"\1", b"")

    assert lacks_at(span.values, 0, "no")
    assert not lacks_at(span.values, 0, "x")
    for index in range(1, len(span.values) + 1):
        assert not lacks_at(span.values, index, "no")
    assert not lacks_at(full.values, 0, "no")
    assert not lacks_at(span.values, -1, "no")
    for given_ in ((span.values, 0), (span.values, 0, 7)):
        with pytest.raises(TypeError):
            lacks_at(*given_)


FAILED = {"type": "tool", "data": {"tool_call_id": "c", "status": "error"}}


@pytest.mark.plain
@pytest.mark.parametrize("result", [json.dumps(FAILED), '"error"', "all is well", "{}"])
def test_a_result_is_told_with_its_sign_as_without(result: str) -> None:
    """The short scan and the full reading agree on whether the call failed."""
    spans = spans_with(result)
    dialect = next(each for each in DIALECTS if each.says_failed is of_langchain)
    fields = Fields(dialect, None, 0, (), None, None, (), (0,), (), (), (), undone=False)
    found = []
    for lacks_at in (None, native_json().lacks_at):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read, "_lacks_at", lacks_at)
            found += [read._is_told(each, fields, 0, "c") for each in spans]  # noqa: SLF001 - one reader is compared in its two ways

    assert found == [result == json.dumps(FAILED)] * 4


def test_the_service_reads_texts_where_they_lie() -> None:
    """Whatever the service imports first, the built reader of JSON finds values of the built reader of bodies."""
    pytest.importorskip(
        "collector.dialects.native", reason="the source is tested, not the build"
    )
    code = f"""
import collector.app.service
from collector.decode.protobuf import otlp_proto
from collector.dialects.values.partial_json import members_at
[span] = otlp_proto.decode({body_with('{"a": "x"}')!r}).spans
assert members_at(span.values, 0, "a") == ("x",)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
