"""One session under one spec with `each`: a judgement whose runs are those of all things.

Idea: log, checkpoint, readings and marks are those of any judgement. What is stepped is a `ThingsRun`, and what steps it a
`ThingsReplay`. So a verdict comes out the same in any order of arrival here, too.

Invariants:

- The head goes on from the checkpoint's table. Folding writes the next table, and the head is stepped again from it.
- A call that brings a new thing counts for calls before it where what a new thing begins with was judged otherwise than
  no thing (`ThingsRun.unclaimed`). Then the whole log is stepped again.

Example: `refund(A1)` and `look_up(B7)` arrive, so the refund is harmful, for order A1. `look_up(A1)` arrives, which began
first: the refund is revised to progress.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from monitor.alphabet.things import CallThings
from monitor.automaton.position import Position
from monitor.records import ToolCall
from monitor.session.judge.judge import CONTROL, CONTROL_TOKEN, Judge
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.replay import Replay
from monitor.session.judgement.step_marks import VerdictChange
from monitor.session.log.rows import StepOrder, Texts
from monitor.session.things.things_replay import ThingsReplay
from monitor.session.things.things_run import ThingOutcome, ThingsRun
from monitor.visibility.sight import CLEAR, Sight

__all__ = ["ThingsJudgement", "last_step"]


@mypyc_attr(acyclic=True)
class ThingsJudgement(Judgement):
    """The calls of one session under a spec that has an automaton for each thing."""

    __slots__ = ("outcome",)

    def __init__(self, judge: Judge, part: str, sight: Sight = CLEAR) -> None:
        super().__init__(judge, part, sight)
        self.outcome: ThingOutcome | None = None
        """What the last call was that came in order."""

    def fresh_run(self) -> AutomatonRun:
        nothing = super().fresh_run()
        return ThingsRun(nothing, self.judge.tally())

    def replay_log(self, *, wide: bool) -> Replay:
        return ThingsReplay(super().replay_log(wide=wide))

    def note_call(self, call: ToolCall) -> None:
        """Keeps what a call is about."""
        things, known = self.things_of(call), self.log.texts_of(call.span_id)
        if things is not None or known is not None:
            texts = known or Texts(call.call_id, None)
            self.log.keep(call.span_id, texts._replace(things=things))

    def things_of(self, call: ToolCall) -> CallThings | None:
        """What a call is about; None if it is of every thing."""
        each, judge = self.judge.each, self.judge
        assert each is not None
        found = each.of_call(call.tool, call.arguments, shown=judge.shows_things)
        if found is not None:
            return found
        alphabet = judge.spec.alphabet
        token = alphabet.match(call.tool, call.arguments, failed=False)
        for symbol in alphabet.tokens[token].symbols:
            if alphabet.tools[symbol] in each.tools:
                # A name that is nearly that of a named tool: the call may be of any thing, or of each.
                return CallThings((), is_open=True)
        return None

    def append(self, call: ToolCall, tool: int, token: int, at: int, now: int) -> int | None:
        head = self.head
        assert isinstance(head, ThingsRun)
        if head.unclaimed:
            things = self.things_of(call)
            if things is not None and not all(map(head.knows, things.keys)):
                return None
        return super().append(call, tool, token, at, now)

    def step_last(self, run: AutomatonRun, token: int) -> int:
        """Steps a reading by the last call of the log."""
        assert isinstance(run, ThingsRun)
        if token == CONTROL_TOKEN:
            here = run.position
            found = ThingOutcome(CONTROL, None, here, here)
        else:
            found = run.take(self.judge, token, self._last_things(), None, self.log.at(-1))
        if run is self.head:
            self.outcome = found
        return found.code

    def _last_things(self) -> CallThings | None:
        texts = self.log.texts(len(self.log) - 1)
        return texts.things if texts is not None else None

    def is_contested(self, call: ToolCall, token: int) -> bool:
        """As `Judgement.is_contested`."""
        head = self.head
        assert isinstance(head, ThingsRun)
        if token == CONTROL_TOKEN:
            return False
        own = token if self.swapped else self.judge.plain_of(token)
        return head.is_harmed_by(self.judge, own, self.things_of(call), call.start_ns)

    def preview(self, call: ToolCall, token: int, at: int) -> tuple[int, Position] | None:  # noqa: ARG002
        """None: what a call would be is found on a copy."""
        return None

    def _replay(self, changed: int) -> list[VerdictChange]:
        head = self.head
        assert isinstance(head, ThingsRun)
        return super()._replay(0 if head.unclaimed else changed)

    def settle(self, last: StepOrder) -> None:  # noqa: ARG002 - of shared things
        """Writes the things of folded steps into the checkpoint's table, and steps the log from it."""
        base = self.base
        assert base is not None
        for run in (base.run, base.wide):
            if run is not None:
                assert isinstance(run, ThingsRun)
                dropped = run.settle(self.judge)
                if run is base.run and self.pair is not None:
                    self.pair.things_dropped += dropped
        self.resume_points = None
        self.head = self._stepped(wide=self.swapped)
        if self.rival is not None:
            self.rival = self._stepped(wide=not self.swapped)

    def _stepped(self, *, wide: bool) -> AutomatonRun:
        """The run after all steps, in one reading."""
        run, replay = self.origin(wide=wide), self.replay_log(wide=wide)
        replay.walk(run)
        replay.trail(run)
        return run


def last_step(judgement: Judgement) -> tuple[Position, Position, bytes | None]:
    """(position before, position after, thing) of the last call, which came in order."""
    assert isinstance(judgement, ThingsJudgement)
    found = judgement.outcome
    assert found is not None
    return found.before, found.after, found.thing
