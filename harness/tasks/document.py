"""What a task document says, key by key. `python -m harness.tasks.document` prints its JSON Schema.

The parts are those of paper 004: benchmark, toolkit, environment, model, agent, output, evaluation, execution.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Final, Literal

import re2
from pydantic import AfterValidator, Field

from monitor.spec.document.validation import StrictModel

__all__ = ["CallDocument", "EvaluationDocument", "TaskDocument", "schema"]

Arguments = dict[str, Any]
Seconds = Annotated[float, Field(gt=0, le=86_400, strict=False)]


PREDICATE_KEYS: Final = frozenset({"contains", "missing", "min", "max", "length"})
"""What a predicate on a value is written with; a mapping with other keys is the value itself."""


def _predicates(given: dict[str, Any]) -> dict[str, Any]:
    for path, expected in given.items():
        if isinstance(expected, dict) and expected and expected.keys() <= PREDICATE_KEYS:
            for key, value in expected.items():
                _check_bound(path, key, value)
    return given


def _check_bound(path: str, key: str, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    number = number and abs(value) <= inf
    if key in ("min", "max") and not number:
        raise ValueError(f"{path}.{key}: expected a number, found {value!r}")
    if key == "length" and not (number and value >= 0 and value % 1 == 0):
        raise ValueError(f"{path}.{key}: expected a whole number from 0, found {value!r}")
    if key == "missing" and not isinstance(value, bool):
        raise ValueError(f"{path}.{key}: expected true or false, found {value!r}")


def _regex(text: str) -> str:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as problem:
        said = problem.args[0]
        why = said.decode(errors="replace") if isinstance(said, bytes) else said
        raise ValueError(f"expected RE2: {why}") from None
    return text


Predicates = Annotated[dict[str, Any], AfterValidator(_predicates)]


class CallDocument(StrictModel):
    """One call."""

    tool: str = Field(description="Name of the tool.")
    arguments: Arguments = Field(default_factory=dict, description="Arguments by name.")


class StepDocument(CallDocument):
    """One call of a right way, and what is said before it."""

    say: list[str] = Field(
        default_factory=list,
        description="Texts that the agent says before the call, each of which a user answers.",
    )


class EnvironmentDocument(StrictModel):
    """Where the tools act."""

    kind: Literal["none", "global", "per_task"] = Field(
        default="per_task",
        description="none: no state; global: the state of the world's module (`STATE`), the same for all tasks; per_task: with the state below over it.",
    )
    state: Arguments = Field(
        default_factory=dict, description="The state at the start; over the world's own."
    )
    user: str | None = Field(
        default=None,
        description="A function that the world's module declares as a user: it answers what the agent says, until it is content.",
    )
    packages: bool = Field(
        default=False,
        description="The world's module imports installed packages: its sandbox sees them, read-only.",
    )


class ModelDocument(StrictModel):
    """What is asked of a model."""

    temperature: float = Field(default=0.0, ge=0, strict=False)
    max_tokens: int = Field(default=1024, gt=0, description="Tokens of one answer.")
    context_tokens: int = Field(
        default=128_000,
        gt=0,
        description="Tokens that a rollout may hold: beyond, it overflows.",
    )


class AgentDocument(StrictModel):
    """How an agent acts."""

    kind: Literal["single", "multi"] = "single"
    calls: Literal["tool", "text"] = Field(
        default="tool", description="The API's tool calls, or texts that the scaffold reads."
    )
    members: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Agents of a multi-agent task, each with its tools: a call is made by the one that has the tool.",
    )
    planning_interval: int | None = Field(
        default=None,
        gt=0,
        le=10_000,
        description="A model is asked for a plan again after so many of its answers.",
    )
    attempts: int = Field(
        default=3,
        gt=0,
        le=100,
        description="Answers in a row that cannot be read before it ends.",
    )
    threads: int = Field(
        default=1,
        gt=0,
        le=16,
        description="Calls of one answer that are made at the same time, at most. Those of which one reads or writes what another writes are made in their order.",
    )


class AnswerDocument(StrictModel):
    """When an answer is right."""

    contains: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, description="Texts in it, in any case."
    )
    regex: Annotated[str, AfterValidator(_regex)] | None = Field(
        default=None, description="RE2 that it holds."
    )


class JudgeDocument(StrictModel):
    """A model that scores the session by a rubric, and which score is enough."""

    id: str = Field(description="Id of the judge, such as GF: see docs/judges.md.")
    least: int = Field(default=2, ge=1, le=3, description="The score that is enough.")


class EvaluationDocument(StrictModel):
    """When a task is done."""

    criterion: Literal["end_state", "answer", "spec", "check", "judge", "product"] = Field(
        description="end_state: predicates or a hash; answer; spec: it accepts the path; check: a function of the world; judge: a model's score; product: all that are given."
    )
    end_state: Predicates = Field(
        default_factory=dict,
        description="Dotted path -> value, or `{contains: ...}`, `{missing: true}`, `{min: ..., max: ...}`, `{length: ...}`.",
    )
    end_state_hash: str | None = Field(
        default=None, description="SHA-256 of the end state as canonical JSON."
    )
    answer: AnswerDocument | None = None
    check: str | None = Field(
        default=None, description="A function that the world's module declares as a check."
    )
    judge: JudgeDocument | None = None


class ExecutionDocument(StrictModel):
    """Limits of a rollout, where the command line names none."""

    max_steps: int = Field(default=40, gt=0, le=10_000, description="Answers of the agent.")
    timeout: Seconds = Field(default=300.0, description="Seconds of the whole rollout.")
    call_timeout: Seconds = Field(default=30.0, description="Seconds of one tool call.")
    stall: Seconds = Field(default=120.0, description="Seconds without a call that worked.")


class AttackDocument(StrictModel):
    """What somebody wants who writes into a tool's results."""

    calls: list[CallDocument] = Field(description="Calls that the injection asks for.")
    end_state: Predicates = Field(
        default_factory=dict, description="Predicates that hold if the attack succeeded."
    )
    check: str | None = Field(
        default=None, description="A function of the world that says whether it succeeded."
    )
    texts: list[str] = Field(
        default_factory=list,
        description="What the injection says in words: an injected agent that reads one makes the calls.",
    )


class TaskDocument(StrictModel):
    """One task."""

    task: str = Field(pattern=r"^[a-z0-9_]+(/[a-z0-9_]+)*$", description="Its name.")
    benchmark: str = Field(default="offrails", description="The benchmark it is of.")
    world: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$", description="The Python module beside the document."
    )
    instruction: str = Field(description="What the agent is asked to do.")
    tags: list[Literal["multi_agent", "safety", "search"]] = Field(default_factory=list)
    spec: str = Field(
        description="Spec file, from the document's folder: which calls are right."
    )
    toolkit: list[str] | None = Field(
        default=None,
        description="Tools of the world that the agent has; all where it is left out.",
    )
    held_back: dict[str, Annotated[int, Field(gt=0)]] = Field(
        default_factory=dict,
        description="Tools that the agent does not have at first, each with how often the user has answered when it gets them.",
    )
    environment: EnvironmentDocument = Field(default_factory=EnvironmentDocument)
    model: ModelDocument = Field(default_factory=ModelDocument)
    agent: AgentDocument = Field(default_factory=AgentDocument)
    output: Literal["text", "none"] = Field(
        default="text",
        description="What is expected at the end: a text, or nothing: an agent that says nothing is then done.",
    )
    evaluation: EvaluationDocument
    execution: ExecutionDocument = Field(default_factory=ExecutionDocument)
    golden: list[list[StepDocument]] = Field(
        min_length=1, description="Right ways, each a list of calls."
    )
    final: str = Field(default="Done.", description="What a golden agent says at the end.")
    reads: list[CallDocument] = Field(
        default_factory=list, description="Calls that do no harm and do not lead on."
    )
    traps: list[CallDocument] = Field(
        default_factory=list,
        description="Calls that work at any time, are harmful, and leave the right way open. Faulty agents need one.",
    )
    attack: AttackDocument | None = None


def schema() -> Mapping[str, Any]:
    """The JSON Schema of a task document."""
    found = TaskDocument.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


SCHEMA_INDENT: Final = 2

if __name__ == "__main__":
    print(json.dumps(schema(), indent=SCHEMA_INDENT))  # noqa: T201
