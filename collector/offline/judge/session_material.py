"""What judges are given of each session of a file: its judgement objects and its steps."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.decode.json import otlp_json
from collector.decode.span import MalformedBodyError, Span
from collector.offline.judge.quiet_traces import is_talk, quiet_traces
from collector.offline.judge.trajectory_files import are_trails, are_turns, trajectories
from collector.offline.plain_runs import AgentRun
from collector.offline.progress_bar import Progress
from collector.offline.replay import BadInput, Recording, judge, recorded
from collector.transcripts.call_steps import call_steps
from collector.transcripts.run_steps import run_steps
from collector.transcripts.session_steps import session_steps
from collector.transcripts.span_shares import SessionId, span_shares
from collector.transcripts.step import TranscriptStep
from collector.transcripts.trail import BadTraceError, otlp_request
from collector.transcripts.turns import turn_steps
from monitor.spec.spec import Spec

__all__ = ["SessionMaterial", "material_of", "material_of_judgements"]


@dataclass(frozen=True, slots=True)
class SessionMaterial:
    """One session, as judges see it."""

    session: str
    namespace: str
    judged: Sequence[Mapping[str, Any]]
    """Judgement objects of the session: one for each spec, or one without a spec."""
    steps: Sequence[TranscriptStep]


def material_of(
    file: Path, specs: Sequence[Spec], progress: Progress, unnamed: str = ""
) -> Iterator[SessionMaterial]:
    """The sessions of a file of OTLP/JSON lines, plain runs, traces in TRAIL's form, or trajectories of turns.

    Raises:
        BadInput: the file is missing, or holds none of these.
    """
    documents = trajectories(file)
    if are_turns(documents):
        yield from (_of_turns(file, each) for each in documents)
        return
    found = _trails(file, documents) if are_trails(documents) else recorded(file, progress)
    spans = [span for request in found.requests for span in request]
    if spans:
        yield from _of_spans(found, spans, specs)
    for run in found.runs:
        yield _of_run(run, list(judge([Recording(file, runs=[run])], specs, unnamed)))


def material_of_judgements(judged: Sequence[Mapping[str, Any]]) -> Iterator[SessionMaterial]:
    """Sessions of which there are judgement objects alone: calls without results, and no messages."""
    for (namespace, session), group in _by_session(judged).items():
        yield SessionMaterial(session, namespace, group, call_steps(group))


def _by_session(
    judged: Sequence[Mapping[str, Any]],
) -> dict[SessionId, list[Mapping[str, Any]]]:
    groups: dict[SessionId, list[Mapping[str, Any]]] = defaultdict(list)
    for judgement in judged:
        groups[str(judgement["namespace"]), str(judgement["session"])].append(judgement)
    return groups


def _of_turns(file: Path, document: Mapping[str, Any]) -> SessionMaterial:
    try:
        session, steps = turn_steps(document, file.stem)
    except BadTraceError as problem:
        raise BadInput(f"{file}: {problem}") from None
    return SessionMaterial(session, "", (), steps)


def _trails(file: Path, documents: Sequence[Mapping[str, Any]]) -> Recording:
    """The spans of traces in TRAIL's form."""
    try:
        requests = [json.dumps(otlp_request(each)).encode() for each in documents]
        return Recording(file, requests=[otlp_json.decode(each).spans for each in requests])
    except (BadTraceError, MalformedBodyError) as problem:
        raise BadInput(f"{file}: {problem}") from None


def _of_run(run: AgentRun, judged: Sequence[Mapping[str, Any]]) -> SessionMaterial:
    results = [call.result for call in run.calls]
    said = [*(call.said for call in run.calls), run.said]
    prompt = str(run.facts.get("prompt") or run.facts.get("question") or "")
    steps = run_steps(judged, results, said, prompt, run.answer)
    return SessionMaterial(run.session, "", judged, steps)


def _of_spans(
    found: Recording, spans: Sequence[Span], specs: Sequence[Spec]
) -> Iterator[SessionMaterial]:
    groups = _by_session(list(judge([found], specs)))
    with_calls = {
        bytes.fromhex(step["trace_id"])
        for judged in groups.values()
        for judgement in judged
        for step in judgement["steps"]
    }
    shares = span_shares(groups, spans, quiet_traces(spans, with_calls))
    talks = [key for key in shares if key not in groups and is_talk(shares[key])]
    for key in (*groups, *talks):
        namespace, session = key
        judged = groups.get(key, ())
        steps = session_steps(judged, shares.get(key, ()))
        yield SessionMaterial(session, namespace, judged, steps)
