"""The shape of a learnt reference's document (`kind: reference` with `learnt`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from monitor.spec.document.match_document import MatchDocument, Name
from monitor.spec.document.validation import StrictModel
from monitor.spec.learnt_reference import (
    PAGE_PRECISION,
    SURPRISE_LEVELS,
    Alarm,
    LearntReference,
    PrefixNode,
    RiskCeiling,
)
from monitor.spec.risk_features import FEATURES
from monitor.spec.risk_model import TREES_MAX, RiskModel, tree_of, trees_of

__all__ = ["USUAL_RUNS_MAX", "ReferenceDocument", "calls_text", "learnt_of", "node_text"]

USUAL_RUNS_MAX: Final = 16
"""Different usual runs whose calls a reference keeps, those of most runs first."""

DIGEST = r"[0-9a-f]{12}"
_NODE: Final = re.compile(
    rf"(-1|\d{{1,6}}) (-1|\d{{1,6}}) (\d{{1,9}}) (\d{{1,9}})(?: (\*|{DIGEST}(?:,{DIGEST})*))?"
)
_CALLS: Final = re.compile(rf"\d{{1,9}}(?: \d{{1,6}}:(?:{DIGEST})?)*")

Digest = Annotated[str, Field(pattern=rf"^{DIGEST}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]

_FEATURES_MAX: Final = 100


class FileDocument(StrictModel):
    """A file of runs."""

    name: str
    sha256: str
    runs: Count


class SourceDocument(StrictModel):
    """What a reference was learnt from, and with what."""

    files: list[FileDocument]
    runs: Annotated[
        Count, Field(description="seen runs: the successes, where outcomes were told")
    ]
    failures: Annotated[Count, Field(description="runs that failed: they serve the risk")] = 0
    labelled: bool = False
    agents: list[str] = []
    version: Annotated[str, Field(description="of offrails")] = ""
    settings: Annotated[str, Field(description="version of the learning settings")] = "1"


class AlarmDocument(StrictModel):
    """How an alarm did on recorded runs."""

    precision: Share | None = None
    recall: Share | None = None
    false_per_1000: Annotated[float, Field(ge=0, le=1000)]
    raised: Count
    runs: Count
    at_most_per_1000: Annotated[
        float | None,
        Field(
            ge=0,
            le=1000,
            description="further usual runs, of 1,000, in which it is raised at most (conformal rule)",
        ),
    ] = None


class RiskDocument(StrictModel):
    """What the risk is computed from: runs by outcome, and by tool how many called it."""

    successes: Count
    failures: Count
    alarm: Annotated[
        Share | None,
        Field(description="risk from which an alarm is raised; 1: none is; left out: 0.6"),
    ] = None
    tools: Annotated[
        dict[str, Annotated[list[Count], Field(min_length=2, max_length=2)]],
        Field(description="tool: [successes, failures] that called it"),
    ] = {}


class LearntOnDocument(StrictModel):
    """What a risk was learnt from."""

    runs: Count
    failures: Count
    tasks: Count
    agents: Count


def _calls(text: str) -> str:
    """The calls of usual runs, if they are such."""
    if not _CALLS.fullmatch(text):
        raise ValueError("expected the number of runs, then tool:digest of each call")
    return text


def _tree(text: str) -> str:
    """The tree if it is one, for some number of features: so that what is wrong is told at its line."""
    tree_of(text, _FEATURES_MAX)
    return text


class RiskModelDocument(StrictModel):
    """A risk learnt over many tasks: the sum over small trees, calibrated."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    learnt: LearntOnDocument
    features: Annotated[list[str], Field(min_length=1, max_length=_FEATURES_MAX)]
    base: Finite
    slope: Annotated[
        Finite, Field(ge=0, description="log-odds = offset + slope * (base + trees)")
    ]
    offset: Finite
    alarm: Annotated[Share, Field(description="risk from which an alarm is raised")]
    trees: Annotated[
        list[Annotated[str, AfterValidator(_tree)]],
        Field(
            min_length=1,
            max_length=TREES_MAX,
            description="nodes, apart by semicolons: feature, threshold, node on the right, value; or a value",
        ),
    ]

    @field_validator("features")
    @classmethod
    def _known(cls, features: list[str]) -> list[str]:
        unknown = [name for name in features if name not in FEATURES]
        if unknown:
            near = get_close_matches(unknown[0], FEATURES, 1)
            hint = f"; expected {near[0]!r}?" if near else "; a newer version may know it"
            raise ValueError(f"no such feature: {unknown[0]!r}{hint}")
        return features

    @model_validator(mode="after")
    def _whole(self) -> RiskModelDocument:
        trees_of(tuple(self.trees), len(self.features))
        return self


class CeilingDocument(StrictModel):
    """What the whole run tells of its outcome."""

    area: Annotated[
        Share | None,
        Field(
            description="under the ROC curve of the risk of ended runs; null without both outcomes"
        ),
    ] = None
    runs: Count
    failures: Count


class ConsistencyDocument(StrictModel):
    """papers/002 section 3.2, of the seen runs."""

    runs: Count
    tss: Share
    ac_paper: Share
    ac_repository: Share
    unique_sequences: Count
    divergence_point: float | None = None
    first_two_agreement: Share


class SurpriseDocument(StrictModel):
    """How surprising the usual runs are, each under the others."""

    levels: Annotated[
        list[Count], Field(description="percentiles; none if there were fewer than two runs")
    ] = []
    bits: Annotated[
        list[Annotated[float, Field(ge=0, le=1000)]], Field(description="a call, at each level")
    ] = []

    @model_validator(mode="after")
    def _whole(self) -> SurpriseDocument:
        if self.levels not in ([], list(SURPRISE_LEVELS)):
            raise ValueError(f"expected the levels {list(SURPRISE_LEVELS)}, or none")
        if len(self.bits) != len(self.levels) or self.bits != sorted(self.bits):
            raise ValueError("expected as many bits as levels, in ascending order")
        return self


class ReferenceDocument(StrictModel):
    """A learnt reference: which sessions it watches, and what it was learnt from."""

    id: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
    version: Annotated[str, Field(min_length=1, max_length=100)] = "1"
    description: str = ""
    kind: Literal["reference"]
    mode: Literal["shadow", "page"] = "shadow"
    enforce: Annotated[
        Literal["off", "advise", "block"],
        Field(
            description="what a question about a write that would page is answered: nothing, advice, or deny"
        ),
    ] = "off"
    match: Annotated[
        dict[Name, MatchDocument],
        Field(description="resource and span attributes a session must have, all of them"),
    ] = {}
    learnt: SourceDocument
    writes: Annotated[list[str], Field(description="tools that change something")] = []
    writes_from: Literal["given", "inferred"] = "inferred"
    consistency: ConsistencyDocument | None = None
    tools: Annotated[list[str], Field(max_length=10_000)]
    medoid: Annotated[
        list[str], Field(description="the run that is nearest to all others")
    ] = []
    expected_writes: Annotated[
        list[str], Field(description="tools every seen run wrote by")
    ] = []
    surprise: Annotated[
        SurpriseDocument | None,
        Field(description="if it is left out, how unlikely a path is is not told"),
    ] = None
    alarms: Annotated[
        dict[str, AlarmDocument],
        Field(description="on the runs it was learnt from, each judged by the others"),
    ] = {}
    split_alarms: Annotated[
        dict[str, AlarmDocument],
        Field(
            description="on runs of other agents, or other runs, than those that lent the reference: "
            "what alarms tell as their precision"
        ),
    ] = {}
    agent_records: Annotated[
        dict[str, Annotated[list[Count], Field(min_length=2, max_length=2)]],
        Field(max_length=1_000, description="agent: [successes, failures] at other tasks"),
    ] = {}
    ceiling: CeilingDocument | None = None
    risk: RiskDocument | None = None
    risk_model: RiskModelDocument | None = None
    write_calls: Annotated[
        dict[str, list[Digest]],
        Field(description="tool: digests of the arguments it was called with"),
    ] = {}
    usual_calls: Annotated[
        list[Annotated[str, AfterValidator(_calls)]],
        Field(
            max_length=USUAL_RUNS_MAX,
            description="of usual runs: how many made these calls, then tool:digest of each; the risk model reads them",
        ),
    ] = []
    agreed_arguments: Annotated[
        dict[str, dict[str, Digest]],
        Field(
            description="writing tool: {argument: digest of the value that every usual run gave it}"
        ),
    ] = {}
    page_precision: Annotated[
        Share, Field(description="an alarm with a lower measured precision is a hint")
    ] = PAGE_PRECISION
    page_false_per_1000: Annotated[
        float | None,
        Field(
            ge=0,
            le=1000,
            description="an alarm that may be false in more of 1,000 usual runs is a hint; left out: no bound",
        ),
    ] = None
    provenance: Annotated[
        bool,
        Field(
            description="a write is a hint if none of its values stands in an earlier result, or the user said one; "
            "what is not known of that changes nothing"
        ),
    ] = False
    tree: Annotated[
        list[str],
        Field(
            min_length=1,
            description="nodes of the prefix tree: parent, tool, runs, runs that end here, digests",
        ),
    ]


def calls_text(runs: int, calls: Iterable[tuple[int, str]]) -> str:
    """The calls of so many usual runs as they are written in a document."""
    return " ".join((str(runs), *(f"{tool}:{digest}" for tool, digest in calls)))


def node_text(node: PrefixNode) -> str:
    """A node as it is written in a document."""
    text = f"{node.parent} {node.tool} {node.runs} {node.ends}"
    if node.tool < 0:
        return text
    if node.digests is None:
        return f"{text} *"
    return f"{text} {','.join(sorted(node.digests))}" if node.digests else text


def learnt_of(model: ReferenceDocument) -> LearntReference:
    """The record of a document.

    Raises:
        ValueError: the tree is none, or names tools that are not listed.
    """
    risk = model.risk
    return LearntReference(
        tools=tuple(model.tools),
        writes=frozenset(model.writes),
        medoid=tuple(model.medoid),
        expected_writes=tuple(model.expected_writes),
        nodes=_nodes(model),
        write_calls={tool: frozenset(found) for tool, found in model.write_calls.items()},
        alarms=_alarms(model.alarms),
        split_alarms=_alarms(model.split_alarms),
        successes=risk.successes if risk else model.learnt.runs,
        failures=risk.failures if risk else 0,
        called_by={
            tool: (each[0], each[1]) for tool, each in (risk.tools if risk else {}).items()
        },
        risk_alarm=risk.alarm if risk else None,
        runs=model.learnt.runs,
        source=model.learnt.model_dump(),
        consistency=model.consistency.model_dump() if model.consistency else None,
        writes_from=model.writes_from,
        agent_records={
            agent: (each[0], each[1]) for agent, each in model.agent_records.items()
        },
        ceiling=RiskCeiling(**model.ceiling.model_dump()) if model.ceiling else None,
        model=_risk_model(model.risk_model) if model.risk_model else None,
        usual_calls=_usual_calls(model),
        agreed_arguments=model.agreed_arguments,
        page_precision=model.page_precision,
        page_false_per_1000=model.page_false_per_1000,
        provenance=model.provenance,
        surprise=tuple(model.surprise.bits) if model.surprise else None,
    )


def _alarms(found: dict[str, AlarmDocument]) -> dict[str, Alarm]:
    return {name: Alarm(**alarm.model_dump()) for name, alarm in found.items()}


def _risk_model(model: RiskModelDocument) -> RiskModel:
    return RiskModel(
        id=model.id,
        features=tuple(model.features),
        trees=trees_of(tuple(model.trees), len(model.features)),
        base=model.base,
        slope=model.slope,
        offset=model.offset,
        alarm=model.alarm,
        source=model.learnt.model_dump(),
    )


def _usual_calls(
    model: ReferenceDocument,
) -> tuple[tuple[int, tuple[tuple[int, str], ...]], ...]:
    found: list[tuple[int, tuple[tuple[int, str], ...]]] = []
    for number, text in enumerate(model.usual_calls):
        runs, *calls = text.split(" ")
        pairs = (each.split(":") for each in calls)
        made = tuple((int(tool), digest) for tool, digest in pairs)
        if any(tool >= len(model.tools) for tool, _ in made):
            raise ValueError(f"usual_calls {number} names no tool of the list")
        found.append((int(runs), made))
    return tuple(found)


def _nodes(model: ReferenceDocument) -> tuple[PrefixNode, ...]:
    nodes: list[PrefixNode] = []
    for number, text in enumerate(model.tree):
        node = _node(text, number)
        if node.tool >= len(model.tools) or (node.tool < 0) != (number == 0):
            raise ValueError(f"node {number} names no tool of the list")
        nodes.append(node)
    return tuple(nodes)


def _node(text: str, number: int) -> PrefixNode:
    found = _NODE.fullmatch(text)
    if found is None:
        raise ValueError(f"node {number} is not: parent, tool, runs, ends, digests")
    parent, tool, runs, ends = (int(found[group]) for group in range(1, 5))
    if (parent < 0) != (number == 0) or parent >= number:
        raise ValueError(f"node {number} does not come after its parent")
    digests = found[5] or ""
    known = None if digests == "*" else frozenset(filter(None, digests.split(",")))
    return PrefixNode(parent, tool, runs, ends, known)
