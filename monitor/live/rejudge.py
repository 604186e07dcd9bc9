"""Judges a running session again under the specs in use: those that it began with may have been wrong.

Idea: the log of a session has its recent calls in order. Each call gets its token under the new version, and the log is
stepped again. What differs from the verdicts given is reported as revisions, as if an earlier call had arrived: alerts
are withdrawn, and final counters stay as they are.

A log has no arguments, unless they are shown. Where a tool's symbols are the same in both versions, the call keeps its
symbol, since that says all that the arguments decide. Else its arguments are unknown, so that harm is claimed only if it
is certain. Steps that are folded are not known any more: the session is read as joined up to now.

What rules over data have seen is known on, if the rules are the same. Else it is not known up to now, as are the arguments.

Under a learnt reference a session goes on as it began: alarms of a reference are no verdicts.

Example: `pay` before `check` was harmful, and the corrected spec allows it. The session's harmful call becomes progress,
the page is withdrawn, and the next call is judged by the corrected spec.
"""

from __future__ import annotations

from collections.abc import Callable

from monitor.judging.accounting import Accounting
from monitor.judging.judging_parts import JudgingParts
from monitor.judging.session_binder import wanted_of
from monitor.records import SessionKey, ToolCall, Verdict
from monitor.session.data.seen_values import SeenValues
from monitor.session.data.session_data import SessionData
from monitor.session.judge.judge import CONTROL_TOKEN, Judge
from monitor.session.judgement.judgement import Judgement
from monitor.session.log.rows import Row
from monitor.session.session import Session

__all__ = ["is_under_earlier", "rejudge"]


def is_under_earlier(session: Session, judging: JudgingParts) -> bool:
    """True if a session is judged by a version of a spec that is no longer in use."""
    known = judging.state.binder.judges
    return any(known.get(judge.spec.id) is not judge for judge in session.judges)


def rejudge(
    session: Session,
    judging: JudgingParts,
    accounting: Accounting,
    text_of: Callable[[int], str],
    now: int,
) -> list[Verdict]:
    """Judges a live session under the specs in use.

    Args:
        session: the session.
        judging: judges under the specs in use.
        accounting: takes the changes.
        text_of: the name of a tool by its number.
        now: Unix nanoseconds.

    Returns:
        The verdicts that changed.
    """
    if session.binder is None:
        return []
    found = wanted_of(session.attributes, session.known_agent, judging.state.binder)
    wanted = {judge.spec.id: judge for judge in found}
    verdicts: list[Verdict] = []
    kept: list[Judge] = []
    for old in session.judges:
        new = wanted.pop(old.spec.id, None)
        if new is old or old.comparison is not None:
            kept.append(old)
        elif new is not None and _is_like(old, new):
            kept.append(new)
            if session.late and old in session.late:
                session.late[new] = session.late.pop(old)
            _hand_on(session, old, new)
            replay = _Replay(session, judging, accounting, text_of, now)
            for judgement in session.under(old):
                verdicts += replay.move(judgement, new)
        else:
            if new is not None:
                wanted[new.spec.id] = new
            for judgement in session.under(old):
                verdicts += judging.reports.let_go(session, judgement)
    session.binder, session.judges = judging.state.binder, tuple(kept)
    if session.data is not None:
        session.data.keep(kept)
    if not kept:
        session.judged = 0
    verdicts += judging.binder.bind_more(session, tuple(wanted.values()), now)
    return verdicts + judging.calls.reread(session)


def _is_like(old: Judge, new: Judge) -> bool:
    """True if the calls of one version's judgement are those of the other's."""
    one, other = old.spec, new.spec
    if (one.each and one.each.written) != (other.each and other.each.written):
        return False  # their calls are of other things, and arguments are not known any more
    return (one.kind, one.scope, one.order) == (other.kind, other.scope, other.order)


def _hand_on(session: Session, old: Judge, new: Judge) -> None:
    """What was seen under one version serves another one with the same rules over data. Else it is not known."""
    if session.data is None:
        if new.data is None:
            return
        session.data = SessionData()
    seen = session.data.seen.pop(old, None) or SeenValues()
    if new.data is None:
        return
    seen.forget(list(seen.asking))
    if old.data is None or old.data.signature != new.data.signature:
        seen = SeenValues()
        seen.dropped = session.last_ns + 1
    session.data.seen[new] = seen


class _Replay:
    """Steps the log of one judgement under another version of its spec."""

    def __init__(
        self,
        session: Session,
        judging: JudgingParts,
        accounting: Accounting,
        text_of: Callable[[int], str],
        now: int,
    ) -> None:
        self._session = session
        self._judging = judging
        self._accounting = accounting
        self._text_of = text_of
        self._now = now
        self._held = {call.span_id: call for call in session.held or ()}
        """Calls that wait for more specs have their arguments still."""

    def move(self, judgement: Judgement, new: Judge) -> list[Verdict]:
        """Replaces a judgement by one of the same calls under `new`."""
        session, accounting = self._session, self._accounting
        tokens: dict[bytes, int] = {}
        verdicts: list[Verdict] = []
        for place in range(len(judgement.log)):
            token = self._token(judgement, place, new)
            if token is None:
                verdicts += accounting.withdrawn(session, judgement, place)
            else:
                tokens[judgement.log.span_id(place)] = token
        if judgement.folded or _names_more(judgement.judge, new):
            self._judging.sights.bind_late(session, (new,), self._now)
        if new.bounds is None:
            verdicts += accounting.withdrawn_limits(session, judgement)
        moved, changes = judgement.under(
            new, tokens, self._judging.sights.sight(session, new, judgement.part)
        )
        accounting.leave(judgement)
        session.remove(judgement)
        session.add(moved)
        accounting.enter(session, moved)
        accounting.share(moved)
        return verdicts + self._judging.reports.report(session, moved, changes)

    def _token(self, judgement: Judgement, place: int, new: Judge) -> int | None:
        """The token of a step under `new`; None if that does not name the call."""
        log = judgement.log
        row, token, old = log.row(place), log.token(place), judgement.judge
        held = self._held.get(row.span_id)
        if held is not None:
            return self._judging.calls.read(self._session, new, held, self._now)
        tool, plain = self._text_of(row.tool), old.plain_of(token)
        found = _carried(old, new, tool, plain, failed=row.error)
        if found is None:
            call = _call(row, tool, plain, self._session.key)
            found = self._judging.calls.token(self._session, new, call, self._now)
        if found is None or found == CONTROL_TOKEN:
            return found
        # What is doubtful of the call is so under any version.
        return found + (token - plain) // old.stride * new.stride


def _carried(old: Judge, new: Judge, tool: str, token: int, *, failed: bool) -> int | None:
    """The token of a call that both versions read alike; None if its arguments have to be looked at."""
    if token == CONTROL_TOKEN:
        return None if tool in new.spec.alphabet.tools else CONTROL_TOKEN
    symbols = _symbols(old, tool)
    if not symbols or symbols != _symbols(new, tool):
        return None
    mine, other = old.spec.alphabet, new.spec.alphabet
    symbol = mine.tokens[token].symbol
    if symbol is not None:
        found = other.symbols.index(mine.symbols[symbol])
    elif token == (mine.failed(mine.mismatch) if failed else mine.mismatch):
        found = other.mismatch
    else:
        return None
    return other.failed(found) if failed else found


def _symbols(judge: Judge, tool: str) -> list[tuple[str, object]]:
    """The symbols of a tool with their patterns."""
    alphabet = judge.spec.alphabet
    rows = zip(alphabet.symbols, alphabet.tools, alphabet.patterns, strict=True)
    return [(symbol, patterns) for symbol, its, patterns in rows if its == tool]


def _names_more(old: Judge, new: Judge) -> bool:
    """True if a policy names tools whose calls its earlier version did not log."""
    tools = new.spec.alphabet.tools
    return new.spec.kind == "policy" and not {*tools} <= {*old.spec.alphabet.tools}


def _call(row: Row, tool: str, token: int, key: SessionKey) -> ToolCall:
    """A step as a call. Its arguments are unknown, unless they are shown."""
    return ToolCall(
        session=key,
        agent="",
        tool=tool,
        arguments=row.texts.arguments if row.texts is not None else None,
        error=row.error,
        start_ns=row.start,
        end_ns=row.end,
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_span_id=row.parent_span_id,
        call_id="",
        evidence=row.evidence,
        attributes={},
        source="",
        session_from="",
        control=token == CONTROL_TOKEN,
    )
