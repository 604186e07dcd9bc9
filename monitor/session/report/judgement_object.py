"""The scores and the judgement object of one judgement, rebuilt from its log on request.

Idea: a judgement keeps only running numbers while calls arrive. Everything that the API shows beside
them is derived here: the log is walked, its steps are split into episodes, and CORE's formulas are
applied to the folded numbers plus the steps in the log.

Invariant: building the object changes nothing in the judgement.

Example: 3 calls of the current episode are folded and 2 stand in the log. Its part has the rows of
the golden paths after the 3 calls (`folded`). `rows()` copies them and adds the other 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from monitor.alphabet.pattern_words import quoted
from monitor.automaton.position import Position
from monitor.records import Evidence, Kind, Reason
from monitor.scores.running_scores import HarmTally, PathRows
from monitor.scores.score_records import NO_SCORES, Episode, SessionScores
from monitor.session.judge.compensation import Compensations, compensations
from monitor.session.judge.episodes import EPISODES_MAX, EpisodesTally
from monitor.session.judge.judge import (
    CODES,
    CONTROL,
    HARMFUL,
    Judge,
    code_of,
    count_code,
    is_substantive,
)
from monitor.session.judgement.checkpoint import FoldedScores
from monitor.session.judgement.episode_scores import episode, score
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.possible_harms import is_certain_call, possible_harms, unless
from monitor.session.judgement.scored_path import scored_path, substantive
from monitor.session.judgement.step_marks import JudgedStep, is_final
from monitor.session.log.rows import Row
from monitor.session.report.harms import explanation, harmed_thing
from monitor.session.report.obstacles import cannot_finish
from monitor.session.report.obstacles import shown as missed
from monitor.session.report.reference_report import compared, risks, surprises
from monitor.session.session import Session, without_spec
from monitor.session.tool_names import Names
from monitor.spec.suggestions import closest
from monitor.visibility.cause import Cause

__all__ = ["compensated", "judgement_object", "not_judged", "scores"]

_UNKNOWN_TOOL: Final = code_of(Reason.UNKNOWN_TOOL)

_COMPARED_MAX: Final = 16
"""Unknown tools of one judgement that are compared with those of the spec: 20 ms at most."""
_TOOLS_MAX: Final = 128
_ALIKE: Final = 0.8
"""How alike two names of tools must be: a typing error, or another style."""
_SHOWN_MAX: Final = 256
"""Verdicts of one spec of which it is remembered what is shown of them: sessions of one task have few different ones."""
_EXECUTED: Final = Evidence.EXECUTED.value
"""What most calls have: an enumeration takes a quarter of a microsecond to give a value."""
_NAME_MAX: Final = 64
"""Characters of a tool's name that are compared: an agent may send any."""


def scores(judgement: Judgement) -> SessionScores:
    """CORE's scores of the current episode, from the calls seen so far (papers/000)."""
    judge, run = judgement.judge, judgement.head
    if judge.spec.kind != "task" or not run.exact:
        return NO_SCORES
    tally = run.tally.current if isinstance(run.tally, EpisodesTally) else run.tally
    part = _parts(judgement)[-1]
    return score(judge, tally, part.rows, part.path)


class _Part(NamedTuple):
    """One episode: its folded part, and its steps in the log."""

    judge: Judge
    folded: PathRows | None
    """Rows of the folded part, if there is one."""
    kept: Sequence[int] | None
    """Tokens of the folded part; None if they are no longer kept."""
    tokens: list[int]
    """Tokens of the substantive steps in the log."""
    codes: list[int]
    before: FoldedScores | None = None
    """The folded part of the session, along the way taken."""
    exact: bool = True

    @property
    def path(self) -> list[int] | None:
        """The condensed path of the episode; None if its first part is no longer kept."""
        return None if self.kept is None else [*self.kept, *self.tokens]

    def rows(self) -> PathRows | None:
        """The rows of the golden paths after the whole episode; None if none are kept."""
        goldens = self.judge.goldens
        if self.folded is not None:
            rows = self.folded.copy()
        elif goldens is not None:
            rows = PathRows(goldens)
        else:
            return None
        for token in self.tokens:
            rows.add(self.judge.score_tokens[token])
        return rows


def _parts(judgement: Judgement) -> list[_Part]:
    """The episodes that ended in the log, then the current one."""
    judge = judgement.judge
    if judge.once is None:
        folded, tokens = substantive(judgement)
        return [_part(judgement, folded, tokens)]
    _, folded, steps = scored_path(judgement)
    parts = [_part(judgement, folded, [])]
    exact = parts[0].exact
    for step in steps:
        token = judgement.token(step.place)
        if judge.opens(step.before, token):
            parts.append(_Part(judge, None, (), [], [], exact=exact))
        parts[-1].codes.append(step.code)
        if exact and not judge.is_certain(token):
            exact = False
            parts[-1] = parts[-1]._replace(exact=False)
        if is_substantive(step.code):
            parts[-1].tokens.append(token)
    return parts


def _part(judgement: Judgement, folded: FoldedScores | None, tokens: list[int]) -> _Part:
    """The episode that the log begins with, together with its folded part."""
    judge = judgement.judge
    if folded is None:
        return _Part(judge, None, (), tokens, [], exact=not judgement.partial)
    exact = folded.exact and not judgement.partial
    return _Part(judge, folded.rows, folded.condensed, tokens, [], folded, exact=exact)


def _episodes(judgement: Judgement) -> list[Episode]:
    """The finished episodes, the latest `EPISODES_MAX` of them."""
    judge = judgement.judge
    if judge.once is None:
        return []
    parts = _parts(judgement)
    folded = parts[0].before
    found = list(folded.episodes) if folded is not None else []
    tally = judge.tally() if folded is None or folded.tally is None else folded.tally.copy()
    current = tally.current if isinstance(tally, EpisodesTally) else tally
    for part in parts[:-1]:
        for code in part.codes:
            count_code(current, code)
        found.append(episode(judge, current, part.rows, part.path, exact=part.exact))
        current = HarmTally(judge.spec.conventions.beta)
    return found[-EPISODES_MAX:]


def judgement_object(
    session: Session,
    judgement: Judgement,
    names: Names,
    *,
    arguments: bool,
    started_ns: int = 0,
    walked: list[JudgedStep] | None = None,
) -> dict[str, Any]:
    """The object that the API and `replay --json` show.

    Args:
        session: of the judgement.
        judgement: the judgement to show.
        names: of tools.
        arguments: False leaves the arguments of calls out.
        started_ns: start of the monitor, Unix nanoseconds. Where the session may have begun before, possible
            harms say so.
        walked: the steps of the log, of who has them already (`Judgement.walk`).
    """
    judge, run = judgement.judge, judgement.head
    spec, tally = judge.spec, run.tally
    judged = spec.kind != "reference"
    found = scores(judgement)
    walked = judgement.walk() if walked is None else walked
    steps = _steps(judgement, walked, names, arguments=arguments)
    possible = any("possible" in step for step in steps)
    return {
        "session": session.key.id,
        "namespace": session.key.namespace,
        "agent": (judgement.part if spec.scope == "agent" else "") or session.agent,
        "services": _services(session),
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
        "can_finish": not cannot_finish(judgement) if judged else None,
        "missed": missed(judgement),
        "unsatisfied": list(judge.unsatisfied(run.position)),
        "compensations": _compensations(judgement),
        "started": session.started_ns,
        "last": session.last_ns,
        "ended": session.ended,
        "late_calls": judgement.late,
        "coverage": {
            "spans": session.spans,
            "judged": session.judged,
            "not_judged": not_judged(session),
        },
        **compared(judgement, session.agent, ended=session.ended is not None),
        "episodes": [each._asdict() for each in _episodes(judgement)],
        "steps_folded": judgement.folded,
        **(_unless(judgement, started_ns) if possible else {}),
        **_things(judgement),
        "steps": steps,
    }


def _services(session: Session) -> list[str]:
    """Names of the services that calls came from, each once, sorted; at most `ATTRIBUTES_MAX` + 1."""
    found = [each.get("service.name") for each in session.attributes]
    return sorted({name for name in found if isinstance(name, str) and name})


def not_judged(session: Session) -> dict[str, int]:
    """Reason -> number of calls that were not judged, or not with certainty."""
    also = {"no_dialect": session.foreign, "no_spec": without_spec(session)}
    return {
        **(session.not_judged or {}),
        **{key: count for key, count in also.items() if count},
    }


def _things(judgement: Judgement) -> dict[str, Any]:
    """The things of a spec with `each`, and what is of all of them; nothing for other specs."""
    if judgement.judge.each is None:
        return {}
    # Loaded with the first spec that has things.
    from monitor.session.things.things_report import things_report

    return things_report(judgement)


def _unless(judgement: Judgement, started_ns: int) -> dict[str, Any]:
    """What would make the possible harms none."""
    causes = unless(judgement)
    found: dict[str, Any] = {"unless": list(causes)}
    if Cause.STARTED in causes:
        found["unless_began_before"] = started_ns
    return found


def compensated(judgement: Judgement) -> Compensations | None:
    """The compensating pairs of the calls so far; None if the spec marks no undo."""
    undo = judgement.judge.spec.undo
    if not undo:
        return None
    first = judgement.folded + 1
    _, folded, steps = scored_path(judgement)
    found = compensations((), undo, folded.compensations if folded else None)
    for step in steps:
        token = judgement.token(step.place)
        if judgement.judge.opens(step.before, token):
            found.start_episode()
        found.take(first + step.place, token, step.code)
    return found


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


def _steps(
    judgement: Judgement, walked: list[JudgedStep], names: Names, *, arguments: bool
) -> list[dict[str, Any]]:
    shown, judge, log = [], judgement.judge, judgement.log
    found_risks, details = risks(judgement), _Details(judgement)
    found_surprises = surprises(judgement)
    possible = {step.place: step for step in possible_harms(judgement)}
    is_reference = judge.spec.kind == "reference"
    for judged in sorted(walked, key=_place):
        place, code, before, after, thing = judged
        row, token = log.row(place), judgement.token(place)
        step = _facts(row, names.text(row.tool), arguments=arguments)
        if is_reference:
            step |= _verdict(Kind.CONTROL if code == CONTROL else None, None)
        else:
            step |= _shown_verdict(judge, code, token, before, after)
            step["skipped"] = list(step["skipped"])
            step["allowed"] = list(step["allowed"])
            if code >= HARMFUL:
                step["detail"] = details.of(judged, step["tool"])
                if not is_certain_call(judgement, place, before):
                    step["certain_call"] = False
            if judge.each is not None:
                shown_thing = harmed_thing(judgement, thing if code >= HARMFUL else None)
                step["thing"] = shown_thing.as_json() if shown_thing is not None else None
            if place in possible:
                detail = details.of(possible[place], step["tool"])
                step |= _possible(judgement, possible[place], detail)
        if found_risks is not None:
            step["risk"] = found_risks[place]
        if found_surprises is not None:
            step["surprise"] = found_surprises[place]
        if judge.comparison is not None and judge.comparison.written_values is not None:
            step["own_values"] = judge.comparison.own.has(token)
        step["index"] = judgement.folded + place + 1
        step["final"] = is_final(log.mark(place))
        shown.append(step)
    return shown


def _place(step: JudgedStep) -> int:
    return step.place


def _shown_verdict(
    judge: Judge, code: int, token: int, before: Position, after: Position
) -> dict[str, Any]:
    """What is shown of each step with this verdict; nobody may change it."""
    known = judge.shown_verdicts
    key = (code, token, before, after)
    found = known.get(key)
    if found is None:
        if len(known) >= _SHOWN_MAX:
            known.clear()
        kind, reason = CODES[code]
        found = known[key] = {
            **_verdict(kind, reason),
            "symbol": judge.symbol(token),
            "skipped": judge.skipped(before, token) if code >= HARMFUL else (),
            "allowed": judge.allowed(before),
            "state": judge.state(after),
            "constraint": judge.constraint(before, token) if code >= HARMFUL else None,
        }
    return found


class _Details:
    """Sentences that say why steps of one judgement are harmful, with the tools that may have been meant."""

    def __init__(self, judgement: Judgement) -> None:
        self._judgement = judgement
        self._meant: dict[str, str] = {}
        """Unknown tool -> the nearest tool of the spec; of the first `_COMPARED_MAX` ones."""

    def of(self, step: JudgedStep, tool: str) -> str | None:
        """The sentence on a step; None if it is not harmful."""
        text = explanation(self._judgement, step)
        meant = self._nearest(tool) if step.code == _UNKNOWN_TOOL else ""
        return f"{text}; the nearest tool is {quoted(meant)}" if meant else text or None

    def _nearest(self, tool: str) -> str:
        found = self._meant.get(tool)
        if found is None:
            if len(self._meant) >= _COMPARED_MAX:
                return ""
            tools = dict.fromkeys(self._judgement.judge.spec.alphabet.tools)
            known = list(tools)[:_TOOLS_MAX]
            found = self._meant[tool] = closest(tool[:_NAME_MAX], known, _ALIKE)
        return found


def _possible(judgement: Judgement, step: JudgedStep, detail: str | None) -> dict[str, Any]:
    """The fields of a possible harm, by the reading in which the session began with its first call."""
    judge, token = judgement.judge, judgement.token(step.place)
    _, reason = CODES[step.code]
    return {
        "possible": True,
        "possible_reason": reason.value if reason else None,
        "possible_skipped": list(judge.skipped(step.before, token)),
        "possible_allowed": list(judge.allowed(step.before)),
        "possible_constraint": judge.constraint(step.before, token),
        "possible_detail": detail,
    }


def _facts(row: Row, tool: str, *, arguments: bool) -> dict[str, Any]:
    texts = row.texts
    known: Mapping[str, Any] | None = texts.arguments if texts and arguments else None
    return {
        "tool": tool,
        "arguments": None if known is None else dict(known),
        "error": row.error,
        "evidence": _EXECUTED if row.evidence is Evidence.EXECUTED else row.evidence.value,
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
        "detail": None,
    }
