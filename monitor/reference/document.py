"""A reference as a document: YAML that a person can read, and the compiler reads back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from monitor.spec.document.reference import calls_text, node_text
from monitor.spec.document.write import flow, name
from monitor.spec.learnt_reference import (
    PAGE_PRECISION,
    SURPRISE_LEVELS,
    Alarm,
    LearntReference,
)
from monitor.spec.risk_model import RiskModel, tree_text

__all__ = ["reference_text"]

SOURCE: Final = ("runs", "failures", "labelled", "agents", "version", "settings")


def reference_text(
    learnt: LearntReference,
    id_: str,
    version: str = "1",
    match: Mapping[str, Any] | None = None,
) -> str:
    """The document's text.

    Args:
        learnt: the reference.
        id_: its id.
        version: its version.
        match: which sessions it watches; none: those that name it.
    """
    return "\n".join(_lines(learnt, id_, version, match or {})) + "\n"


def _lines(
    learnt: LearntReference, id_: str, version: str, match: Mapping[str, Any]
) -> Iterator[str]:
    source = dict(learnt.source)
    yield f"id: {flow(id_)}"
    yield f"version: {flow(version)}"
    yield "kind: reference"
    if learnt.page_precision != PAGE_PRECISION:
        yield f"page_precision: {flow(learnt.page_precision)}"
    if learnt.page_false_per_1000 is not None:
        yield f"page_false_per_1000: {flow(learnt.page_false_per_1000)}"
    if learnt.provenance:
        yield "provenance: true  # a write whose values are known not to come from results is a hint"
    if match:
        yield "match:"
        yield from (f"  {flow(key)}: {flow(value)}" for key, value in match.items())
    yield "learnt:"
    files = source.pop("files", [])
    yield f"  files:{'' if files else ' []'}"
    yield from (f"    - {flow(file)}" for file in files)
    yield from (f"  {key}: {flow(source[key])}" for key in SOURCE if key in source)
    guess = (
        "  # inferred from the names: please review" if learnt.writes_from == "inferred" else ""
    )
    yield f"writes: {flow(sorted(learnt.writes))}{guess}"
    yield f"writes_from: {learnt.writes_from}"
    yield f"expected_writes: {flow(learnt.expected_writes)}"
    yield f"medoid: {flow(learnt.medoid)}"
    if learnt.consistency is not None:
        yield f"consistency: {flow(_rounded(learnt.consistency))}"
    if learnt.surprise is not None:
        yield "surprise:  # of the usual runs, each judged by the others: bits a call"
        yield f"  levels: {flow(list(SURPRISE_LEVELS) if learnt.surprise else [])}"
        yield f"  bits: {flow(list(learnt.surprise))}"
    yield "alarms:  # each run judged by the others"
    yield from _alarms(learnt.alarms)
    if learnt.split_alarms:
        yield "split_alarms:  # half of the runs judged by the other half: what alarms tell of themselves"
        yield from _alarms(learnt.split_alarms)
    if learnt.ceiling is not None:
        yield f"ceiling: {flow(_rounded(asdict(learnt.ceiling)))}  # what the whole run tells of its outcome"
    if learnt.agent_records:
        yield "agent_records:  # successes and failures at other tasks"
    for agent, record in sorted(learnt.agent_records.items()):
        yield f"  {flow(agent)}: {flow(list(record))}"
    yield "risk:"
    yield f"  successes: {learnt.successes}"
    yield f"  failures: {learnt.failures}"
    if learnt.risk_alarm is not None:
        why = "too few usual runs" if learnt.risk_alarm >= 1 else "usual runs hardly reach it"
        yield f"  alarm: {flow(learnt.risk_alarm)}  # {why}"
    yield "  tools:" if learnt.called_by else "  tools: {}"
    for tool, counts in sorted(learnt.called_by.items()):
        yield f"    {flow(tool)}: {flow(list(counts))}"
    if learnt.model is not None:
        yield from _model(learnt.model)
    yield "tools:" if learnt.tools else "tools: []"
    yield from (f"  - {flow(tool)}" for tool in learnt.tools)
    yield "write_calls:" if learnt.write_calls else "write_calls: {}"
    for tool, digests in sorted(learnt.write_calls.items()):
        yield f"  {flow(tool)}: {flow(sorted(digests))}"
    if learnt.model is not None and learnt.usual_calls:
        yield "usual_calls:  # runs, then tool:digest of their calls: the risk compares them"
        yield from (f"  - {flow(calls_text(*each))}" for each in learnt.usual_calls)
    if learnt.agreed_arguments:
        yield "agreed_arguments:  # what every usual run gave them"
    for tool, agreed in learnt.agreed_arguments.items():
        yield f"  {flow(tool)}: {flow(dict(sorted(agreed.items())))}"
    yield "tree:  # parent, tool, runs, runs that end here, digests of the arguments"
    yield from (f"  - {flow(node_text(node))}" for node in learnt.nodes)


def _alarms(alarms: Mapping[str, Alarm]) -> Iterator[str]:
    for key, alarm in alarms.items():
        yield f"  {name(key)}: {flow(_rounded(asdict(alarm)))}"


def _model(model: RiskModel) -> Iterator[str]:
    yield "risk_model:  # learnt over many tasks: what raises the risk, and by how much"
    yield f"  id: {flow(model.id)}"
    yield f"  learnt: {flow(dict(model.source))}"
    yield f"  features: {flow(list(model.features))}"
    for key in ("base", "slope", "offset", "alarm"):
        yield f"  {key}: {flow(getattr(model, key))}"
    yield "  trees:"
    yield from (f"    - {flow(tree_text(tree))}" for tree in model.trees)


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: round(value, 6) if isinstance(value, float) else value
        for key, value in values.items()
    }
