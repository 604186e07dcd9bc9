"""What a made-up run is: its calls, what each must be found to be, how its scores must move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, Final, NamedTuple

from monitor.records import Evidence, Kind, Reason, SessionKey, ToolCall
from monitor.scores import paper_formulas

__all__ = ["MOVES", "STAYS", "Expectation", "MadeCall", "Mode", "RunCase"]


class Mode(StrEnum):
    """How a run goes; the comments name its source in papers/000."""

    ACCEPTED = "accepted"
    WRONG_OPERATION = "wrong_operation"  # table 4, row 1
    WRONG_PARAMETER = "wrong_parameter"  # table 4, row 1
    WRONG_ORDER = "wrong_order"  # table 4, row 2
    HARM = "harm"  # table 4, row 3
    EARLY_HARM = "early_harm"  # table 4, row 4: held against the same harm at the end
    REDUNDANT_READS = "redundant_reads"  # table 4, row 5
    EXPLORATION_BLOAT = "exploration_bloat"  # table 4, row 6
    SKIPPED_CHECK = "skipped_check"  # section 5, A and C
    REPEATED_CALL = "repeated_call"  # section 5, B
    COMPENSATING_PAIR = "compensating_pair"  # section 1


MOVES: Final[Mapping[Mode, frozenset[str]]] = {
    Mode.ACCEPTED: frozenset(),
    Mode.WRONG_OPERATION: frozenset({"pc", "pc_ktc"}),
    Mode.WRONG_PARAMETER: frozenset({"pc", "pc_ktc"}),
    Mode.WRONG_ORDER: frozenset({"pc", "pc_ktc"}),
    Mode.HARM: frozenset({"harm_rate", "prefix_crit"}),
    Mode.EARLY_HARM: frozenset({"prefix_crit"}),
    Mode.REDUNDANT_READS: frozenset({"efficiency"}),
    Mode.EXPLORATION_BLOAT: frozenset({"efficiency"}),
    Mode.SKIPPED_CHECK: frozenset({"pc", "pc_ktc", "harm_rate", "prefix_crit"}),
    Mode.REPEATED_CALL: frozenset({"harm_rate", "prefix_crit", "efficiency"}),
    Mode.COMPENSATING_PAIR: frozenset({"efficiency"}),
}
"""Scores that must be worse than those of the run it is held against."""

_PATH: Final = frozenset({"pc", "pc_ktc"})
_HARM: Final = frozenset({"harm_rate", "prefix_crit"})

STAYS: Final[Mapping[Mode, frozenset[str]]] = {
    Mode.ACCEPTED: _PATH | _HARM | {"efficiency"},
    Mode.WRONG_OPERATION: frozenset({"efficiency"}),
    Mode.WRONG_PARAMETER: frozenset({"efficiency"}),
    Mode.WRONG_ORDER: frozenset({"efficiency"}),
    Mode.HARM: frozenset(),
    Mode.EARLY_HARM: _PATH | {"harm_rate", "efficiency"},
    Mode.REDUNDANT_READS: _PATH | _HARM,
    Mode.EXPLORATION_BLOAT: frozenset(),
    Mode.SKIPPED_CHECK: frozenset(),
    Mode.REPEATED_CALL: frozenset(),
    Mode.COMPENSATING_PAIR: _HARM,
}
"""Scores that must be equal. An empty cell of table 4 is here where the failure alone decides it:
a wrong call is harmful too, and an added one costs efficiency, whatever the row is about."""


class MadeCall(NamedTuple):
    """A call to be made."""

    tool: str
    arguments: Mapping[str, Any]


class Expectation(NamedTuple):
    """What a call must be found to be."""

    kind: Kind
    symbol: str | None
    state: str
    """After the call."""
    reason: Reason | None
    """Of a harmful call; None for others, and where constraints decide."""


@dataclass(frozen=True, slots=True)
class RunCase:
    """A run, and what must be said of it."""

    spec: str
    mode: Mode
    seed: int
    calls: tuple[MadeCall, ...]
    expected: tuple[Expectation, ...]
    """By call."""
    scores: paper_formulas.Scores | None
    """By the paper's formulas; None for a policy, which has none."""
    against: RunCase | None
    """The run it is held against; None for an accepted one."""
    pairs: tuple[tuple[int, int], ...] = field(default=())
    """Compensating pairs, as the numbers of the two calls, from 1."""

    @property
    def moves(self) -> frozenset[str]:
        """Scores that must be worse than those of `against`."""
        return MOVES[self.mode] if self.scores is not None else frozenset({"harmful"})

    @property
    def stays(self) -> frozenset[str]:
        """Scores that must equal those of `against`."""
        if self.scores is None:
            return frozenset()
        reads_only = self.mode is Mode.EXPLORATION_BLOAT and not self.scores.harmful
        return STAYS[Mode.REDUNDANT_READS if reads_only else self.mode]

    def plain(self, run: str) -> dict[str, Any]:
        """The run in the plain form that `offrails replay` reads, under the session id `run`."""
        calls = [
            {"step": step, "name": call.tool, "arguments": dict(call.arguments), "status": "ok"}
            for step, call in enumerate(self.calls, start=1)
        ]
        return {"spec": self.spec, "run": run, "calls": calls}

    def tool_calls(
        self, session: SessionKey, start_ns: int, gap_ns: int = 1_000_000_000
    ) -> Iterator[ToolCall]:
        """The run as calls one after the other, bound to its spec by name."""
        for number, call in enumerate(self.calls):
            at = start_ns + number * gap_ns
            yield ToolCall(
                session=session,
                agent="",
                tool=call.tool,
                arguments=call.arguments,
                error=False,
                start_ns=at,
                end_ns=at + gap_ns // 2,
                trace_id=Random(session.id).randbytes(16),
                span_id=(number + 1).to_bytes(8, "big"),
                parent_span_id=b"",
                call_id="",
                evidence=Evidence.EXECUTED,
                attributes={"offrails.spec": self.spec},
            )
