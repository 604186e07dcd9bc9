"""The scores and the judgement object of one judgement, rebuilt from its log when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from monitor.automaton.dfa import Automaton
from monitor.automaton.paths import golden_paths
from monitor.automaton.position import Outcome
from monitor.records import Kind, Reason
from monitor.scores.many import path_scores
from monitor.scores.refine import pc_hlr
from monitor.scores.running import PathRows, efficiency
from monitor.session.compensation import Compensations, compensations
from monitor.session.judge import CODES, HARMFUL, PROGRESS, Judge
from monitor.session.judgement import Judgement
from monitor.session.log import Names, Row
from monitor.session.session import Session
from monitor.spec.spec import GOLDEN_MAX

__all__ = ["Scores", "compensated", "judgement_object", "scores"]


class Scores(NamedTuple):
    """CORE's scores of one judgement; None where undefined, not exact, or not a task's."""

    harm_rate: float | None = None
    prefix_crit: float | None = None
    pc: float | None = None
    pc_ktc: float | None = None
    pc_hlr: float | None = None
    efficiency: float | None = None


NO_SCORES = Scores()


def scores(judgement: Judgement) -> Scores:
    """The paper's formulas on the calls seen so far (papers/000 sections 3 and 4)."""
    judge, run = judgement.judge, judgement.head
    if judge.spec.kind != "task" or not run.exact:
        return NO_SCORES
    tally, rules = run.tally, judge.spec.conventions
    pc, pc_ktc = _path_scores(judgement) or (None, None)
    return Scores(
        harm_rate=tally.harm_rate,
        prefix_crit=tally.prefix_crit,
        pc=pc,
        pc_ktc=pc_ktc,
        pc_hlr=_pc_hlr(judgement),
        efficiency=efficiency(
            tally.calls, judge.spec.golden_lengths, rules.undefined_efficiency
        ),
    )


def _path_scores(judgement: Judgement) -> tuple[float, float] | None:
    """PC and PC-KTC: from the checkpoint's rows, or from the whole condensed path.

    None where there are more golden paths than rows are kept for, and the first part of the
    condensed path is no longer kept.
    """
    judge, rules = judgement.judge, judgement.judge.spec.conventions
    if judge.goldens is None:
        path = _condensed(judgement)
        if path is None:
            return None
        symbols = [judge.score_tokens[token] for token in path]
        return path_scores(symbols, _all_goldens(judge), rules.lambda_, rules.tau_below_two)
    base = judgement.base
    rows = base.rows.copy() if base and base.rows else PathRows(judge.goldens)
    for token in _substantive(judgement):
        rows.add(judge.score_tokens[token])
    return rows.pc(), rows.pc_ktc(rules.lambda_, rules.tau_below_two)


def _all_goldens(judge: Judge) -> tuple[tuple[int, ...], ...]:
    """The golden paths, also where they are too many to be kept for each session."""
    if judge.spec.golden is not None:
        return judge.spec.golden
    return golden_paths(judge.spec.machine, GOLDEN_MAX)


def _substantive(judgement: Judgement) -> Iterator[int]:
    """Tokens of the log's progress and harmful steps, in the order taken."""
    for step in judgement.walk():
        if step.code == PROGRESS or step.code >= HARMFUL:
            yield judgement.log.token(step.place)


def _condensed(judgement: Judgement) -> list[int] | None:
    """Tokens of the condensed path; None where its first part is no longer kept."""
    base = judgement.base
    if base is None:
        return list(_substantive(judgement))
    if base.condensed is None:
        return None
    return [*base.condensed, *_substantive(judgement)]


def _pc_hlr(judgement: Judgement) -> float | None:
    """PC+HLR of the condensed path; None beyond CONDENSED_MAX steps."""
    path, judge = _condensed(judgement), judgement.judge
    machine = judge.spec.machine
    if path is None or not isinstance(machine, Automaton):
        return None
    position, before, harm = judge.stepper.start(), [], []
    for token in path:
        assert isinstance(position, int)
        before.append(position)
        position, outcome = judge.stepper.step(position, token)
        harm.append(outcome is Outcome.HARMFUL)
    assert isinstance(position, int)
    symbols = [judge.score_tokens[token] for token in path]
    return pc_hlr(machine, _all_goldens(judge), symbols, before, harm, position)


def judgement_object(
    session: Session, judgement: Judgement, names: Names, *, arguments: bool
) -> dict[str, Any]:
    """The object that the API and `replay --json` show; `arguments` False leaves them out."""
    judge, run = judgement.judge, judgement.head
    spec, tally = judge.spec, run.tally
    judged = spec.kind != "reference"
    found = scores(judgement)
    return {
        "session": session.key.id,
        "namespace": session.key.namespace,
        "agent": (judgement.part if spec.scope == "agent" else "") or session.agent,
        "spec": spec.id or None,
        "spec_version": spec.version if spec.id else None,
        "spec_kind": spec.kind if spec.id else None,
        "mode": spec.mode if spec.id else None,
        "conventions": _conventions(judge) if spec.id else None,
        "source": session.sources,
        "session_from": session.session_from,
        "turn": judgement.part if spec.scope == "turn" else None,
        "bound_late": session.bound_late,
        "joined": judgement.joined,
        "calls": tally.calls,
        "substantive": tally.substantive if judged else None,
        "harmful": tally.harmful_steps if judged else None,
        **found._asdict(),
        "accepting": judge.accepts(run.position) if judged else None,
        "state": judge.state(run.position) if judged else None,
        "position": list(judge.names(run.position)) if judged else [],
        "exact": run.exact,
        "unsatisfied": list(judge.unsatisfied(run.position)),
        "compensations": _compensations(judgement),
        "started": session.started_ns,
        "last": session.last_ns,
        "ended": session.ended,
        "late_calls": judgement.late,
        "coverage": {"judged": session.judged, "not_judged": dict(session.not_judged or {})},
        "steps_folded": judgement.folded,
        "steps": _steps(judgement, names, arguments=arguments),
    }


def compensated(judgement: Judgement) -> Compensations | None:
    """What was done and undone by the calls so far; None where the spec marks no undo."""
    undo, base = judgement.judge.spec.undo, judgement.base
    if not undo:
        return None
    log, first = judgement.log, judgement.folded + 1
    steps = (
        (first + step.place, log.token(step.place), step.code) for step in judgement.walk()
    )
    return compensations(steps, undo, base.compensations if base else None)


def _compensations(judgement: Judgement) -> list[dict[str, Any]]:
    names = judgement.judge.spec.machine.symbols
    found = compensated(judgement)
    return [
        {
            "do": pair.do,
            "undo": pair.undo,
            "symbol": names[pair.symbol],
            "undone_by": names[pair.undone_by],
        }
        for pair in (found.listed if found else ())
    ]


def _conventions(judge: Judge) -> dict[str, Any]:
    rules = judge.spec.conventions
    return {
        "profile": rules.profile,
        "failed_calls": rules.failed_calls,
        "tau_below_two": rules.tau_below_two,
        "undefined_efficiency": rules.undefined_efficiency,
        "beta": rules.beta,
        "lambda": rules.lambda_,
    }


def _steps(judgement: Judgement, names: Names, *, arguments: bool) -> list[dict[str, Any]]:
    shown = []
    for place, code, before, after in sorted(judgement.walk()):
        row = judgement.log.row(place)
        judge, token = judgement.judge, judgement.log.token(place)
        step = _facts(row, names.text(row.tool), arguments=arguments)
        if judge.spec.kind == "reference":
            step |= _verdict(None, None)
        else:
            kind, reason = CODES[code]
            step |= _verdict(kind, reason)
            step["symbol"] = judge.symbol(token)
            step["skipped"] = list(judge.skipped(before, token)) if code >= HARMFUL else []
            step["allowed"] = list(judge.allowed(before))
            step["state"] = judge.state(after)
            step["constraint"] = judge.constraint(before, token) if code >= HARMFUL else None
        step["index"] = judgement.folded + place + 1
        step["final"] = judgement.is_final(place)
        shown.append(step)
    return shown


def _facts(row: Row, tool: str, *, arguments: bool) -> dict[str, Any]:
    texts = row.texts
    known: Mapping[str, Any] | None = texts.arguments if texts and arguments else None
    return {
        "tool": tool,
        "arguments": None if known is None else dict(known),
        "error": row.error,
        "evidence": row.evidence.value,
        "call_id": texts.call_id or None if texts else None,
        "start_ns": row.start,
        "end_ns": row.end,
        "trace_id": row.trace_id.hex(),
        "span_id": row.span_id.hex(),
    }


def _verdict(kind: Kind | None, reason: Reason | None) -> dict[str, Any]:
    return {
        "symbol": None,
        "kind": kind.value if kind else None,
        "reason": reason.value if reason else None,
        "skipped": [],
        "allowed": [],
        "state": None,
        "constraint": None,
    }
