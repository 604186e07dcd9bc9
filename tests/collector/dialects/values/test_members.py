"""Arguments of which something cannot be read: the rest is, and is judged by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.dialects.python.crewai import CREWAI_SPLUNK
from collector.dialects.values.arguments import (
    UNREADABLE,
    BareValue,
    CarriedArguments,
    Unwrap,
    action,
    call_form,
    callback_form,
    event_parts,
    keyword_form,
    mapping,
    mapping_or_bare,
    maybe_call_form,
    message_content,
    request_form,
    scheduled,
    wrapped_input,
)
from collector.dialects.values.members import (
    AROUND_MAX,
    CUT_MAX,
    NESTED_MAX,
    TOKENS_MAX,
    cut,
    is_deep,
    is_single,
    partly,
)
from collector.dialects.values.partial_json import callback
from collector.telemetry.json_text import as_json
from monitor import load_spec
from monitor.partial import UNREAD, PartialArguments
from monitor.reference.calls import digest

DEEP = "[" * 5_000 + "]" * 5_000
DEEPEST = "[" * 100_000 + "]" * 100_000
"""No Python reads it."""
DEEPER = '[{"a\\"]": ["}", 1, ' * 4_000 + "]}]" * 4_000
GEN = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
POLICY = """
id: pol
kind: policy
match: {service.name: svc}
alphabet:
  big: {tool: pay, arguments: {amount: {min: 1000}}}
constraints:
  - {forbid: big}
"""


@pytest.mark.parametrize("deep", [DEEP, DEEPER])
@pytest.mark.parametrize(
    "form", ['{"x": @, "a": 1}', ' {"a" : 1 ,"x":@ } ', '{"x":1,"a":1,"x":@}']
)
def test_a_member_nested_too_deeply_hides_no_other(form: str, deep: str) -> None:
    """Its name and the other members are known."""
    for text in (form.replace("@", deep), json.dumps(form.strip().replace("@", deep))):
        found = mapping(text)

        assert isinstance(found, PartialArguments)
        assert found == {"a": 1, "x": UNREAD}
        assert found.unread == {"x"}


def _nested(levels: int, open_: str = "[", close: str = "]") -> str:
    return open_ * levels + "1" + close * levels


@pytest.mark.parametrize("ends", [("[", "]"), ('{"a":', "}")])
def test_how_deep_a_text_may_be_is_the_same_everywhere(ends: tuple[str, str]) -> None:
    """Whatever Python is used, and however much is called when it is read: the object is a level."""
    whole = mapping(f'{{"a": 1, "x": {_nested(NESTED_MAX - 1, *ends)}}}')
    assert type(whole) is dict
    assert whole["a"] == 1

    cut = mapping(f'{{"a": 1, "x": {_nested(NESTED_MAX, *ends)}}}')
    assert isinstance(cut, PartialArguments)
    assert cut == {"a": 1, "x": UNREAD}


def _levels(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_levels, value.values()), default=0)
    return 1 + max(map(_levels, value), default=0) if isinstance(value, list) else 0


TWICE = '{"to": "a", "liters": 500, "liters": 5}'


@pytest.mark.parametrize(
    ("unwrap", "text"),
    [
        (mapping, TWICE),
        (mapping, json.dumps(TWICE)),
        (mapping, '{"to": "a", "liters" :500, "liters":5}'),
        (mapping, '{"to": "a", "liters":5, "l\\u0069ters": 500}'),
        (mapping, '{"to": "a", "liters": {"of": 1, "of": 2}}'),
        (mapping, f'{{"to": "a", "liters": {DEEP}, "liters": 5}}'),
        (call_form, f'{{"args": [], "kwargs": {TWICE}}}'),
        (request_form, f'{{"tool_name": "water", "arguments": {TWICE}}}'),
        (wrapped_input, f'{{"input": {TWICE}}}'),
        (scheduled, f'{{"callId": "c", "args": {TWICE}}}'),
    ],
)
def test_a_member_that_comes_twice_is_unread(unwrap: Unwrap, text: str) -> None:
    """Parsers differ in which of its values they take: either may be what the tool was given."""
    found = unwrap(text)
    assert isinstance(found, PartialArguments)
    assert found == {"to": "a", "liters": UNREAD}
    assert found.unread == {"liters"}


def test_a_callback_with_a_member_that_comes_twice() -> None:
    """LangChain's callback is read by another parser, which takes the last value, too."""
    text = f'{{"input_str": "x", "inputs": {TWICE}, "kwargs": {{"tool_call_id": "c"}}}}'
    found = callback_form(text)
    assert isinstance(found, CarriedArguments)
    assert found.arguments == {"to": "a", "liters": UNREAD}


@pytest.mark.parametrize("inputs", ['{"liters": 5}', '{"liters": {"of": [1, 2]}}', "null"])
def test_a_callback_is_read_without_what_is_beside_it(inputs: str) -> None:
    """The brief reading, without C functions, takes the text that LangChain writes, and skips the rest of it."""
    text = f'{{"input_str": "x", "tags": [1], "inputs": {inputs}, "kwargs": {{"tool_call_id": "c"}}}}'
    read = callback(text)
    assert bytes(read.inputs).decode() == inputs
    assert read.kwargs is not None
    assert read.kwargs.tool_call_id == "c"


@pytest.mark.parametrize(
    "text",
    [
        '{"liters": 5, "liters": 5}',
        '{"at": "12:30", "url": "https://a.example/b"}',
        '{"said": "\\"liters\\": 5", "liters": 5}',
        '{"liters": {"liters": 5}, "more": [{"liters": 5}, {"liters": 5}]}',
    ],
)
def test_colons_and_equal_values_hide_nothing(text: str) -> None:
    """Texts with colons, names on several levels, and a value that is only repeated are read in full."""
    assert type(mapping(text)) is dict
    assert mapping(text) == json.loads(text)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(alphabet='a":\\ ', max_size=3), inner, max_size=3)
        ),
    ),
    st.text(alphabet='a":\\ ', max_size=3),
    st.sampled_from([(", ", ": "), (",", ":"), (" , ", " : ")]),
)
def test_a_repeated_member_is_found_among_any_others(
    value: Any, name: str, separators: tuple[str, str]
) -> None:
    """Whatever stands beside it and however it is spaced, and nothing else is taken for one."""
    once = json.dumps({name: value, "more": value}, separators=separators)
    assert type(mapping(once)) is dict
    twice = once[:-1] + separators[0] + json.dumps(name) + separators[1] + '"another"}'
    found = mapping(twice)
    assert isinstance(found, PartialArguments)
    assert found.unread == {name}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        f"[{DEEP}]",
        f'{{"x": {DEEP}',
        f'{{"x": {DEEP},}}',
        f'{{"x": {DEEP}}} 1',
        f'{{"x" {DEEP}}}',
        f"{{x: {DEEP}}}",
        f'{{"x": {DEEP[:-1]}',
        f'{{"x": {DEEP}, "y": }}',
        '{"x": ' + "[" * 5_000 + '"',
        '{"x": ' + "[" * 5_000 + '"\\',
        "[" * 5_000,
        '{"x": [' + "[[[[]]]]," * TOKENS_MAX + DEEPEST + '], "y": 1}',
        "{" + "".join([f'"{n}": 1,' for n in range(TOKENS_MAX)]) + f'"x": {DEEP}}}',
    ],
    ids=lambda text: str(len(text)),
)
def test_texts_that_are_no_objects_have_no_members(text: str) -> None:
    """Broken and truncated texts, and those that would take long, give nothing."""
    assert partly(text) is None
    assert mapping(text) in (None, UNREADABLE)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from('[]{}"\\'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(value=JSON, most=st.integers(0, 5))
def test_how_deep_a_value_is_counts_its_levels(value: Any, most: int) -> None:
    """Brackets inside strings and blanks do not count as levels."""
    text = json.dumps(value)
    assert is_deep(value, text + 99 * " ", most) == (_levels(value) > most)
    assert is_deep(value, text.encode() + 99 * b" ", most) == (_levels(value) > most)


@given(before=st.dictionaries(st.text(max_size=2), JSON), inside=JSON, after=JSON)
def test_members_around_a_deep_one_are_what_they_are(
    before: dict[str, Any], inside: Any, after: Any
) -> None:
    """Members before and after the deep one are read."""
    deep = "[" * 3_000 + json.dumps(inside) + "]" * 3_000
    text = json.dumps(before)[:-1] + ", " * bool(before)
    found = partly(f'{text}"deep": {deep}, "after": {json.dumps(after)}}}')

    assert found == {**before, "deep": UNREAD, "after": after}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9" * 5_000, float("inf")),
        ("-" + "9" * 5_000, float("-inf")),
        ("9" * 4_000, int("9" * 4_000)),
        ('"a\nb\tc"', "a\nb\tc"),
    ],
)
def test_what_only_some_readers_refuse_is_read(text: str, value: Any) -> None:
    """Integers of any length, and line breaks in texts."""
    assert mapping(f'{{"x": {text}, "a": 1}}') == {"x": value, "a": 1}


@pytest.mark.parametrize(
    ("unwrap", "around"),
    [
        (maybe_call_form, '{"args": [], "kwargs": @}'),
        (call_form, '{"args": [], "kwargs": @}'),
        (call_form, '{"args": @, "kwargs": {}}'),
        (keyword_form, '{"kwargs": @}'),
        (request_form, '{"tool_name": "pay", "arguments": @}'),
        (
            callback_form,
            '{"input_str": "", "tags": [], "metadata": {}, "inputs": @, "kwargs": {}}',
        ),
        (wrapped_input, '{"input": @}'),
        (mapping_or_bare, '{"x": @}'),
    ],
)
def test_what_is_around_arguments_does_not_stand_for_them(unwrap: Unwrap, around: str) -> None:
    """If the arguments cannot all be read, none of them is known."""
    found = unwrap(around.replace("@", DEEP))
    found = found.arguments if isinstance(found, CarriedArguments) else found

    assert found is UNREADABLE or isinstance(found, BareValue)


HELD: list[tuple[Unwrap, str]] = [
    (maybe_call_form, '{"args": [], "kwargs": @}'),
    (call_form, '{"args": [], "kwargs": @}'),
    (keyword_form, '{"kwargs": @}'),
    (request_form, '{"tool_name": "pay", "arguments": @}'),
    (callback_form, '{"input_str": "", "tags": [], "inputs": @, "kwargs": {}}'),
    (wrapped_input, '{"input": @}'),
    (scheduled, '{"callId": "c", "name": "pay", "args": @, "display": {}}'),
    (action, '{"action": {"kind": "MCPToolAction", "data": @}}'),
    (message_content, '[{"role": "tool", "content": @}]'),
    (event_parts, '[{"parts": [{"type": "tool_call", "name": "pay", "arguments": @}]}]'),
]


@pytest.mark.parametrize("levels", [NESTED_MAX, NESTED_MAX + AROUND_MAX, 100_000])
@pytest.mark.parametrize(("unwrap", "around"), HELD)
def test_arguments_beside_a_deep_one_are_read_within_what_holds_them(
    unwrap: Unwrap, around: str, levels: int
) -> None:
    """A model cannot hide an argument behind another one there, either."""
    text = around.replace("@", f'{{"a": 1, "x": {_nested(levels)}, "b": "]"}}')
    messages = unwrap in (event_parts, message_content)
    for told in (text,) if messages else (text, json.dumps(text)):
        found = unwrap(told)
        found = found.arguments if isinstance(found, CarriedArguments) else found

        assert isinstance(found, PartialArguments)
        assert found == {"a": 1, "x": UNREAD, "b": "]"}


def test_unreadable_additions_of_a_framework_hide_no_arguments() -> None:
    """If only the framework's additions are unreadable, the arguments are read."""
    (source,) = CREWAI_SPLUNK.arguments
    found = source.unwrap(f'{{"input": {{"a": 1, "security_context": {DEEP}}}}}')

    assert type(found) is dict
    assert found == {"a": 1}


def test_an_action_beside_a_deep_argument_is_read() -> None:
    """The argument is unknown, and the action beside it is read."""
    found = action(f'{{"action": {{"kind": "PayAction", "a": 1, "x": {DEEP}}}}}')

    assert isinstance(found, PartialArguments)
    assert found == {"a": 1, "x": UNREAD}


LITERALS = {
    "set": ("{1, 2}", UNREAD),
    "bytes": ("b'a'", UNREAD),
    "key": ("{(1, 2): 3}", UNREAD),
    "keys": ("{None: 3, 'a': 1}", UNREAD),
    "within": ("[{'a': ...}]", UNREAD),
    "deep": (_nested(NESTED_MAX), UNREAD),
    "not too deep": ("[" * 99 + "]" * 99, json.loads("[" * 99 + "]" * 99)),
    "number": ("{1: 'a'}", {"1": "a"}),
    "tuple": ("(1, 'a')", [1, "a"]),
}


@pytest.mark.parametrize(("written", "read"), LITERALS.values(), ids=LITERALS)
@pytest.mark.parametrize("holder", ["langchain", "crewai"])
def test_a_literal_of_python_is_read_as_json_would_be(
    wire: Any, bench: Any, holder: str, written: str, read: Any
) -> None:
    """A value that JSON cannot express is unknown; the values beside it are read."""
    text = f"{{'amount': 5, 'x': {written}}}"
    scope = {
        "langchain": "openlit.instrumentation.langchain",
        "crewai": "opentelemetry.util.genai.handler",
    }[holder]
    if holder == "crewai":
        text = f"{{'input': {text[:-1]}, 'security_context': {{}}}}}}"
    told = {**GEN, "gen_ai.system": holder, "gen_ai.tool.call.arguments": text}
    found = bench().send(wire.span("execute_tool pay", told, scope=scope))

    (step,) = found.steps()
    assert step["arguments"] == {"amount": 5, "x": read}
    assert as_json(step)
    assert digest(step["arguments"])
    assert found.covered("arguments_unreadable") == (read == UNREAD)


@given(value=JSON, levels=st.integers(0, 2 * NESTED_MAX))
def test_what_is_cut_off_is_too_deep_for_any_argument(value: Any, levels: int) -> None:
    """A value that is cut for its depth is unknown; the members after it are read."""
    text = f'{{"x": {"[" * levels + json.dumps(value) + "]" * levels}, "after": {json.dumps(value)}}}'
    found = json.loads(cut(text) or "")

    assert found["after"] == value
    most = NESTED_MAX + AROUND_MAX
    assert _levels(found) == min(most, 1 + max(levels + _levels(value), _levels(value)))


@pytest.mark.parametrize(
    "text",
    [
        '{"x": ' + "[" * 5_000,
        '{"x": ' + DEEP + ', "a": "' + '\\"' * 200_000,
        '{"x": ' + "[],[" * CUT_MAX + DEEP + "}",
    ],
    ids=lambda text: str(len(text)),
)
def test_unterminated_texts_are_unreadable_in_linear_time(text: str) -> None:
    """Unterminated texts and slow ones are unreadable. The time is linear in the length."""
    assert cut(text) is None
    assert call_form(text) is UNREADABLE


@pytest.mark.parametrize(
    ("text", "harmful"),
    [
        (f'{{"x": {DEEP}, "amount": 5000}}', 1),
        ('{"amount": 5000, "x": ' + "9" * 5_000 + "}", 1),
        ('{"amount": ' + "9" * 5_000 + "}", 1),
        ('{"amount": 5000, "x": "a\nb"}', 1),
        (f'{{"x": {DEEP}, "amount": 5}}', 0),
        (f'{{"x": 1, "amount": {DEEP}}}', 0),
    ],
)
def test_harm_is_seen_beside_what_cannot_be_read(
    wire: Any, bench: Any, tmp_path: Path, text: str, harmful: int
) -> None:
    """A model cannot hide an argument behind another one."""
    policy = tmp_path / "pol.yaml"
    policy.write_text(POLICY)
    found = bench([load_spec(policy)]).send(
        wire.span("execute_tool pay", {**GEN, "gen_ai.tool.call.arguments": text})
    )
    assert sum(each["harmful"] or 0 for each in found.monitor.judgements()) == harmful
    assert found.covered("arguments_unreadable") == ("[[[" in text)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_another_span_of_the_call_has_what_could_not_be_read(
    wire: Any, bench: Any, tmp_path: Path, order: tuple[int, int]
) -> None:
    """In either order the other span's arguments are used, and the count of unreadable ones is corrected."""
    policy = tmp_path / "pol.yaml"
    policy.write_text(POLICY)
    spans = [
        wire.span(
            "execute_tool pay",
            {**GEN, "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": told},
            id=str(number),
            parent="0" if number else "",
            start=number,
            end=9 - number,
        )
        for number, told in enumerate((f'{{"amount": {DEEP}, "x": 1}}', '{"amount": 5000}'))
    ]
    found = bench([load_spec(policy)]).send(*(spans[each] for each in order))

    assert [each["harmful"] for each in found.monitor.judgements()] == [1]
    assert [step["arguments"] for step in found.steps()] == [{"amount": 5000}]
    assert found.covered("arguments_unreadable") == found.covered("arguments_late")


def test_what_a_model_asks_for_is_known_but_for_what_cannot_be_read(
    wire: Any, bench: Any, tmp_path: Path
) -> None:
    """A model's request stands for the call if its tool has no spans. Unreadable members are unknown."""
    policy = tmp_path / "pol.yaml"
    policy.write_text(POLICY)
    part = {
        "type": "tool_call",
        "id": "c1",
        "name": "pay",
        "arguments": f'{{"x": {DEEP}, "amount": 5000}}',
    }
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [part]}]),
    }
    asked = wire.span("chat m", attributes, id="m1")
    answer = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(
            [
                {"role": "assistant", "parts": [part]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1"}]},
            ]
        ),
    }
    found = bench([load_spec(policy)], requested="always").send(
        asked, wire.span("chat m", answer, id="m2", start=2)
    )
    assert [each["harmful"] for each in found.monitor.judgements()] == [1]


_TEXTS = st.text('a":\\ ,{}', max_size=6).map(json.dumps)
_NESTED = st.recursive(
    _TEXTS | st.just("1"),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]")
        | st.lists(
            st.tuples(
                st.sampled_from(['"a"', '"b"', r'"\":"']),
                st.sampled_from([":", " :", ": "]),
                inner,
            ),
            max_size=3,
        ).map(lambda each: "{" + ", ".join("".join(part) for part in each) + "}")
    ),
    max_leaves=8,
)


@given(_NESTED)
def test_what_is_taken_for_single_has_no_member_twice(text: str) -> None:
    """Whatever quotes and colons stand in its texts and names."""
    known = json.loads(text)
    if isinstance(known, dict) and is_single(text, known):
        twice: list[bool] = []
        json.loads(
            text, object_pairs_hook=lambda each: twice.append(len(dict(each)) < len(each))
        )
        assert not any(twice)


def test_an_escaped_quote_and_a_colon_in_a_text_need_no_closer_look() -> None:
    """Texts of people have both."""
    text = json.dumps({"a": 'said: "no"'})
    assert is_single(text, json.loads(text))
