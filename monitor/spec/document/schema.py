"""The shape of a spec document. Its meaning is compile.py's business.

`python -m monitor.spec.document.schema` prints the JSON Schema that editors use.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, Tag, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from monitor.alphabet.pattern import TYPES
from monitor.alphabet.things import ACROSS, Across
from monitor.spec.constraints import TEMPLATES
from monitor.spec.document.match_document import MatchDocument, Name
from monitor.spec.document.validation import LIST, MAPPING, PLAIN, StrictModel, by_form

__all__ = [
    "AcceptDocument",
    "ConventionsDocument",
    "DeadlineDocument",
    "RememberDocument",
    "SpecDocument",
    "SymbolDocument",
    "ThingPathDocument",
    "json_schema",
    "seconds",
]

Level = Literal["info", "warning", "critical"]

SAID_MAX: Final = 256
"""Texts that `said` lists."""

SAID_LENGTH_MAX: Final = 200
"""Characters of one of them."""

EACH_FORM: Final = "write the kind of thing, and by tool the path of its values, as {order: {refund: order_id}}"

EACH_TOOLS_MAX: Final = 256
"""Tools that `each` names."""

ReasonName = Literal[
    "forbidden",
    "failed_call",
    "unknown_tool",
    "argument_mismatch",
    "after_final",
    "out_of_order",
    "repeated",
    "unreachable",
    "trap",
    "deadline",
    "idle",
]


def _saying(value: Any) -> Any:
    """Refuses what is no text, or what no message has."""
    is_text = isinstance(value, str) and bool(value.strip())
    if not is_text or len(value) > SAID_LENGTH_MAX:
        wanted = f"a text of 1 to {SAID_LENGTH_MAX} characters with a word in it"
        raise ValueError(
            f"write {wanted}, in quotes if it looks like a number or a truth value"
        )
    return value


Saying = Annotated[
    str, BeforeValidator(_saying), Field(min_length=1, max_length=SAID_LENGTH_MAX)
]
"""A text as a user writes it."""


def _decided(value: Any) -> Any:
    """Refuses an empty value, which would ask for nothing."""
    if value is None:
        raise ValueError("write true for calls that failed, or false for those that did not")
    return value


def _given(value: Any) -> Any:
    """Refuses an empty value where leaving the key out and `{}` mean different things."""
    if value is None:
        raise ValueError("leave the key out for any arguments, or write {} for none")
    return value


_PATTERN_FORMS: list[dict[str, Any]] = [
    {"type": ["string", "number", "boolean", "null", "array"], "description": "this very value"},
    *(
        {"type": "object", "properties": {form: schema}, "required": [form],
         "additionalProperties": False}
        for form, schema in {
            "exact": {},
            "any": {"const": True},
            "one_of": {"type": "array", "minItems": 1},
            "not_in": {"type": "array"},
            "regex": {"type": "string", "description": "RE2, searched unless anchored"},
            "type": {"enum": list(TYPES)},
        }.items()
    ),
    {"type": "object", "properties": {"min": {"type": "number"}, "max": {"type": "number"}},
     "minProperties": 1, "additionalProperties": False},
]  # fmt: skip

PatternDocument = Annotated[Any, WithJsonSchema({"anyOf": _PATTERN_FORMS})]
"""Parsed by `monitor.alphabet.pattern`, which says more about what is wrong than a schema can."""

_SOURCES: Final[dict[str, Any]] = {
    "type": ["string", "array"],
    "items": {"type": "string"},
    "minItems": 1,
}
_REMEMBERED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"value": {"type": "string"}},
    "required": ["value"],
    "additionalProperties": False,
}
_BOUND: Final[dict[str, Any]] = {"anyOf": [{"type": "number"}, _REMEMBERED]}

_ARGUMENT_FORMS: list[dict[str, Any]] = [
    *_PATTERN_FORMS,
    {"type": "object",
     "properties": {"from": {**_SOURCES, "description": "tools whose results it comes from; user: or the user"},
                    "not_from": {**_SOURCES, "description": "tools whose results it does not come from"},
                    "parts": {"type": "boolean", "description": "parts of texts count, too"},
                    "as": {"const": "text"}},
     "anyOf": [{"required": ["from"]}, {"required": ["not_from"]}],
     "additionalProperties": False},
    {"type": "object", "properties": {"min": _BOUND, "max": _BOUND}, "minProperties": 1,
     "additionalProperties": False},
    {"type": "object", "properties": {"one_of": _REMEMBERED}, "required": ["one_of"],
     "additionalProperties": False},
    {"type": "object", "properties": {"not_in": _REMEMBERED}, "required": ["not_in"],
     "additionalProperties": False},
    {"type": "object",
     "properties": {"same_as": {"anyOf": [{"type": "string"}, _REMEMBERED]}},
     "required": ["same_as"], "additionalProperties": False},
]  # fmt: skip

ArgumentDocument = Annotated[Any, WithJsonSchema({"anyOf": _ARGUMENT_FORMS})]
"""A pattern, or a comparison with what was seen before: parsed by `monitor.alphabet.data_conditions`."""

ConstraintDocument = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {
                **{template: {} for template in TEMPLATES},
                "at-most": {"description": "the same as at_most"},
            },
            "additionalProperties": False,
        }
    ),
]
"""Parsed by `monitor.spec.constraints`."""


class SeverityDocument(StrictModel):
    """How bad a harmful call is. The first that says something wins: states, tools, reasons."""

    default: Level = "warning"
    tools: Annotated[dict[Name, Level], Field(description="by tool")] = {}
    states: Annotated[
        dict[Name, Level], Field(description="by state the call was made in")
    ] = {}
    reasons: Annotated[
        dict[ReasonName, Level],
        Field(description="by reason of the verdict"),
    ] = {}


class SymbolDocument(StrictModel):
    """A symbol of the alphabet: calls of one tool, with these arguments, that ended like this."""

    tool: Name
    arguments: Annotated[
        dict[str, ArgumentDocument] | None,
        BeforeValidator(_given),
        Field(description="left out: any arguments; {}: no arguments at all"),
    ] = None
    result: Annotated[
        dict[str, PatternDocument],
        Field(
            min_length=1,
            description="what the tool returned, by path: status, order.lines[*].price, $ for all of it",
        ),
    ] = {}
    error: Annotated[
        bool | None,
        BeforeValidator(_decided),
        Field(
            description="true: calls that failed, which count then; false: calls that did not"
        ),
    ] = None
    said: Annotated[
        Annotated[Saying, Tag(PLAIN)]
        | Annotated[list[Saying], Tag(LIST), Field(min_length=1, max_length=SAID_MAX)],
        by_form(PLAIN, LIST),
        Field(description="a text that the user said before the call, or one of several"),
    ] = []


class RememberDocument(StrictModel):
    """A value that calls leave behind, to be compared with later: the latest one counts."""

    at: Annotated[
        Annotated[Name, Tag(PLAIN)] | Annotated[list[Name], Tag(LIST), Field(min_length=1)],
        by_form(PLAIN, LIST),
        Field(description="the tool, or any of several"),
    ]
    result: Annotated[
        str | None,
        Field(description="path of the result: $.price, lines[*].sku, $ for all of it"),
    ] = None
    argument: Annotated[str | None, Field(description="or path of the arguments")] = None
    as_: Annotated[
        Literal["text"] | None,
        Field(alias="as", description="text: compared as texts, case and outer space folded"),
    ] = None


class ConventionsDocument(StrictModel):
    """A profile and what differs from it."""

    profile: Literal["live", "core"] = "live"
    failed_calls: Annotated[
        Literal["no_effect", "harmful", "ordinary"] | None,
        Field(description="live: no_effect; core: harmful"),
    ] = None
    tau_below_two: Annotated[float, Field(ge=0, le=1)] = 0.5
    undefined_efficiency: Annotated[float, Field(ge=0, le=1)] | None = None
    beta: Annotated[float, Field(gt=0, lt=1)] = 0.5
    lambda_: Annotated[float, Field(ge=0, le=1)] = Field(alias="lambda", default=0.5)


NameOrNames = Annotated[
    Annotated[Name, Tag(PLAIN)] | Annotated[list[Name], Tag(LIST)], by_form(PLAIN, LIST)
]

Target = NameOrNames
"""A state; a list is read so that it can be called nondeterministic."""

Reads = Annotated[
    Annotated[list[Name], Tag(LIST)] | Annotated[dict[Name, list[Name]], Tag(MAPPING)],
    by_form(LIST, MAPPING),
]
ConventionsChoice = Annotated[
    Annotated[Literal["live", "core"], Tag(PLAIN)]
    | Annotated[ConventionsDocument, Tag(MAPPING)],
    by_form(PLAIN, MAPPING),
]

Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


def seconds(value: Any) -> Any:
    """A time in seconds, from a number or a text like 90s, 10m, 1.5h."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found:
        value = float(found[1]) * _UNITS[found[2]]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value <= DURATION_SECONDS_MAX:
        raise ValueError(
            "write a time in seconds, or as 500ms, 90s, 10m, 2h or 1d, up to a year"
        )
    return float(value)


_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")
DURATION_SECONDS_MAX: Final = 366 * 86_400

_DURATION_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "maximum": DURATION_SECONDS_MAX},
        {"type": "string", "pattern": f"^{_DURATION.pattern}$"},
    ],
}

Duration = Annotated[
    Any,
    BeforeValidator(seconds),
    WithJsonSchema(_DURATION_SCHEMA),
]
"""Seconds, a float. (Said to be a number here, the schema would refuse the texts.)"""

Symbols = NameOrNames
"""A symbol, or any of several."""


class DeadlineDocument(StrictModel):
    """After a call of one kind, a call of another must begin in time."""

    from_: Symbols = Field(
        alias="from", description="the clock runs from the start of this call"
    )
    to: Annotated[Symbols, Field(description="and stops at the start of this one")]
    within: Duration


Idle = Annotated[
    Annotated[Duration, Tag(PLAIN)] | Annotated[dict[Name, Duration], Tag(MAPPING)],
    by_form(PLAIN, MAPPING),
]


class AcceptDocument(StrictModel):
    """A call that is not harmful for a time, because somebody says so and why."""

    symbol: Name
    state: Annotated[
        Name,
        Field(
            description="where the call is made; beside `constraint`, that constraint's own state"
        ),
    ]
    constraint: Annotated[
        str | None, Field(description="which constraint, as verdicts name it")
    ] = None
    who: Annotated[Annotated[str, Field(min_length=1)], Field(description="who says so")]
    why: Annotated[str, Field(min_length=1)]
    until: Annotated[Day, Field(description="the last day, as 2026-12-31, in UTC")]


class ThingPathDocument(StrictModel):
    """Where calls carry the value of a thing, and how values compare."""

    path: Annotated[str, Field(min_length=1)]
    as_: Literal["value", "text"] = Field(
        alias="as", default="value", description="text: without regard to case and outer space"
    )


_ThingPath = Annotated[
    Annotated[str, Field(min_length=1), Tag(PLAIN)]
    | Annotated[ThingPathDocument, Tag(MAPPING)],
    by_form(PLAIN, MAPPING),
]

ThingPaths = Annotated[
    Annotated[str, Field(min_length=1), Tag(PLAIN)]
    | Annotated[list[_ThingPath], Field(min_length=1, max_length=16), Tag(LIST)]
    | Annotated[ThingPathDocument, Tag(MAPPING)],
    by_form(PLAIN, LIST, MAPPING),
]
"""A path, or several: all values at any of them."""

EachEntry = Annotated[
    Annotated[Any, Tag(PLAIN)]
    | Annotated[
        dict[Name, ThingPaths], Field(min_length=1, max_length=EACH_TOOLS_MAX), Tag(MAPPING)
    ],
    by_form(PLAIN, MAPPING),
]
"""A mapping from tool to paths."""

_EACH_PATH: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "object", "properties": {"path": {"type": "string", "minLength": 1},
                                          "as": {"enum": ["value", "text"]}},
         "required": ["path"], "additionalProperties": False},
    ]
}  # fmt: skip


def _things(value: Any) -> Any:
    """Refuses what names no kind of thing: left empty, the rules would hold for all calls together."""
    is_mapping = isinstance(value, dict)
    lists = (
        [repr(name) for name, each in value.items() if type(each) is list] if is_mapping else []
    )
    if lists or not is_mapping:
        raise ValueError(f"{EACH_FORM}: {lists[0]} is a list" if lists else EACH_FORM)
    return value


EachDocument = Annotated[
    dict[Name, EachEntry],
    WithJsonSchema(
        {
            "type": "object",
            "description": "one automaton for each value: the kind of thing, and by tool the paths of its values",
            "additionalProperties": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": EACH_TOOLS_MAX,
                "additionalProperties": {
                    "anyOf": [
                        *_EACH_PATH["anyOf"],
                        {"type": "array", "items": _EACH_PATH, "minItems": 1, "maxItems": 16},
                    ]
                },
            },
            "properties": {"across": {"enum": list(ACROSS)}, "within": _DURATION_SCHEMA},
            "minProperties": 1,
            "maxProperties": 3,
        }
    ),
]
"""Read by `monitor.spec.compiler.each`."""


class SpecDocument(StrictModel):
    """One spec: which sessions it judges, what their calls are called, and what is allowed."""

    id: Annotated[
        Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")],
        Field(description="names the spec in verdicts and metrics"),
    ]
    version: Annotated[str, Field(min_length=1, max_length=100)] = "1"
    description: str = ""
    kind: Annotated[
        Literal["task", "policy", "reference"],
        Field(
            description="task: whatever is not allowed is harmful; policy: only what it names is "
            "judged; reference: nothing is harmful, runs are compared"
        ),
    ] = "task"
    mode: Annotated[
        Literal["shadow", "page"],
        Field(description="shadow: verdicts and metrics; page: alerts too"),
    ] = "shadow"
    enforce: Annotated[
        Literal["off", "advise", "block"],
        Field(
            description="what a harmful call is answered with before it is made: block: deny; "
            "advise: allow, and that it would be denied; off: allow"
        ),
    ] = "advise"
    severity: SeverityDocument = SeverityDocument()
    match: Annotated[
        dict[Name, MatchDocument],
        Field(description="resource and span attributes a session must have, all of them"),
    ] = {}
    scope: Literal["session", "turn", "agent"] = "session"
    each: Annotated[EachDocument | None, BeforeValidator(_things)] = None
    across: Annotated[
        Across,
        Field(
            description="with each: whether a thing is one for each session, or one for all of an agent "
            "or a namespace"
        ),
    ] = "session"
    within: Annotated[
        Duration | None,
        Field(
            description="with across: a thing is forgotten this long after its last call; 24h"
        ),
    ] = None
    again: Annotated[
        bool, Field(description="whether an accepting state may start a new episode")
    ] = False
    alphabet: Annotated[dict[Name, SymbolDocument], Field(min_length=1)]
    remember: Annotated[
        dict[Name, RememberDocument],
        Field(max_length=64, description="values that arguments are compared with, by name"),
    ] = {}
    initial: Name | None = None
    accepting: list[Name] | None = None
    states: Annotated[
        list[Name] | None, Field(description="in order; left out: the order they appear in")
    ] = None
    transitions: dict[Name, dict[Name, Target]] | None = None
    reads: Annotated[
        Reads,
        Field(
            description="symbols that change nothing: in every state without an edge for them, or "
            "by state"
        ),
    ] = []
    golden: Annotated[
        list[list[Name]] | None,
        Field(description="the short form: the right sequences of symbols"),
    ] = None
    constraints: list[ConstraintDocument] | None = None
    conventions: ConventionsChoice = "live"
    concurrent: Annotated[
        Literal["any_order", "strict"] | None,
        Field(
            description="overlapping calls count in their best order (tasks) or worst (policies)"
        ),
    ] = None
    order: Annotated[
        dict[Name, Literal["start", "end"]],
        Field(description="by tool: whether its calls are placed by start or by end"),
    ] = {}
    undo: Annotated[
        dict[Name, Name], Field(description="symbol -> the symbol that undoes it")
    ] = {}
    deadlines: Annotated[
        list[DeadlineDocument],
        Field(max_length=64, description="calls that must follow others in time"),
    ] = []
    idle: Annotated[
        Idle | None,
        Field(
            description="how long a session may make no call: in every state that is not accepting, "
            "or by state"
        ),
    ] = None
    accept: Annotated[
        list[AcceptDocument],
        Field(max_length=256, description="calls that are not harmful for a time"),
    ] = []


class _Schema(GenerateJsonSchema):
    """Without a title on every field, which only repeats its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a document: of a learnt reference where it is one, else of a spec."""
    # Loaded here: a service without references needs none of it.
    from monitor.spec.document.reference import ReferenceDocument

    models = (SpecDocument, ReferenceDocument)
    _, found = models_json_schema(
        [(model, "validation") for model in models],
        ref_template="#/$defs/{model}",
        schema_generator=_Schema,
    )
    parts = found["$defs"]
    learnt = {"properties": {"kind": {"const": "reference"}}, "required": ["kind", "learnt"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A spec or a learnt reference of offrails",
        "if": learnt,
        "then": {"$ref": "#/$defs/ReferenceDocument"},
        "else": {"$ref": "#/$defs/SpecDocument"},
        "$defs": {name: parts[name] for name in sorted(parts)},
    }


def main() -> None:
    """Prints the schema, as it is kept in dfa_specs/spec.schema.json."""
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")


if __name__ == "__main__":
    main()
