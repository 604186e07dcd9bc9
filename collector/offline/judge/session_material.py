"""What judges are given of each session of a file: its judgement objects and its steps."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.config.settings.settings import Settings
from collector.decode.json import otlp_json
from collector.decode.span import MalformedBodyError, Span
from collector.offline.judge.turn_files import turn_sessions
from collector.offline.plain_runs import AgentRun
from collector.offline.progress_bar import Progress
from collector.offline.replay import BadInput, Recording, judge, recorded
from collector.transcripts.call_steps import call_steps
from collector.transcripts.run_steps import run_steps
from collector.transcripts.session_steps import session_steps
from collector.transcripts.span_shares import SessionId, span_shares
from collector.transcripts.step import TranscriptStep
from collector.transcripts.trail import BadTraceError, is_trail, otlp_request
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
    file: Path, specs: Sequence[Spec], settings: Settings, progress: Progress, unnamed: str = ""
) -> Iterator[SessionMaterial]:
    """The sessions of a file of OTLP/JSON lines, plain runs, a trace in TRAIL's form, or trajectories of turns.

    Raises:
        BadInput: the file is missing, or holds none of these.
    """
    turns = turn_sessions(file)
    if turns:
        yield from (SessionMaterial(session, "", (), steps) for session, steps in turns)
        return
    found = _trail(file) or recorded(file, progress)
    spans = [span for request in found.requests for span in request]
    if spans:
        yield from _of_spans(found, spans, specs, settings)
    for run in found.runs:
        yield _of_run(run, list(judge([Recording(file, runs=[run])], specs, settings, unnamed)))


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


def _trail(file: Path) -> Recording | None:
    """The spans of a trace in TRAIL's form; None if the file is of another form."""
    try:
        text = file.read_bytes()
        if b'"span_attributes"' not in text:
            return None
        document = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    if not is_trail(document):
        return None
    try:
        batch = otlp_json.decode(json.dumps(otlp_request(document)).encode())
    except (BadTraceError, MalformedBodyError) as problem:
        raise BadInput(f"{file}: {problem}") from None
    return Recording(file, requests=[batch.spans])


def _of_run(run: AgentRun, judged: Sequence[Mapping[str, Any]]) -> SessionMaterial:
    results = [call.result for call in run.calls]
    prompt = str(run.facts.get("prompt") or run.facts.get("question") or "")
    return SessionMaterial(
        run.session, "", judged, run_steps(judged, results, prompt, run.answer)
    )


def _of_spans(
    found: Recording, spans: Sequence[Span], specs: Sequence[Spec], settings: Settings
) -> Iterator[SessionMaterial]:
    groups = _by_session(list(judge([found], specs, settings)))
    shares = span_shares(groups, spans)
    for key, judged in groups.items():
        namespace, session = key
        yield SessionMaterial(session, namespace, judged, session_steps(judged, shares[key]))
