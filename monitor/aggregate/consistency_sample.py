"""How consistent the sessions of one agent under one spec are: papers/002 section 3.2, rolling.

Arguments are dropped once a call is judged, but comparing sessions needs them. So a few live
sessions at a time are in a sample: hashes of the arguments of their calls are kept until the
session ends. The last `KEPT` sessions that ended are compared with each other, each pair once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from monitor.scores.consistency import (
    Consistency,
    RollingConsistency,
    TraceCall,
    output_agreement,
    text_of,
)

__all__ = [
    "CALLS_MAX",
    "EVERY_NS",
    "KEPT",
    "LIVE_MAX",
    "SAMPLED_MAX",
    "ConsistencySample",
    "digest_of",
    "hashed",
]

KEPT: Final = 10
"""Sessions compared with each other: the runs of one condition in the paper."""

LIVE_MAX: Final = 10
"""Live sessions of one agent and spec that are in the sample."""

SAMPLED_MAX: Final = 1_000
"""Live sessions that are in a sample, of all agents."""

EVERY_NS: Final = 5 * 1_000_000_000
"""Interval in which one session is sampled once there are `KEPT` sessions: comparing it takes 0.5
ms."""

CALLS_MAX: Final = 32
"""Calls of a session that can be compared; a longer one leaves the sample."""


def hashed(arguments: Mapping[str, Any] | None) -> frozenset[int] | None:
    """The flat key-value set of Definition 4 as hashes, which reveal no argument."""
    if arguments is None:
        return None
    return frozenset(
        {digest_of(f"{key}\0{text_of(value)}") for key, value in arguments.items()}
    )


def digest_of(text: str) -> int:
    """A hash of a text, the same in every process: what is compared outlives one."""
    raw = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


class ConsistencySample:
    """The last sessions of a sample."""

    __slots__ = ("_answers", "_had_arguments", "_next_ns", "_rolling", "live", "value")

    def __init__(self) -> None:
        self.live = 0
        """Live sessions in the sample."""
        self.value: Consistency | None = None
        """Consistency as of the last session; None while there are fewer than two."""
        self._next_ns = 0
        self._rolling = RollingConsistency(KEPT)
        self._had_arguments: deque[bool] = deque(maxlen=KEPT)
        self._answers: deque[int | None] = deque(maxlen=KEPT)

    def wants(self, now: int) -> bool:
        """Whether a session that begins now is taken; times are Unix nanoseconds."""
        if self.live >= LIVE_MAX or (len(self._had_arguments) == KEPT and now < self._next_ns):
            return False
        self._next_ns = now + EVERY_NS
        return True

    @property
    def with_arguments(self) -> bool:
        """Whether the arguments of every call that is compared were on the wire."""
        return all(self._had_arguments)

    @property
    def output_agreement(self) -> float | None:
        """Share of pairs whose last answers are the same; None for fewer than two that are known."""
        known = [str(answer) for answer in self._answers if answer is not None]
        return output_agreement(known) if len(known) > 1 else None

    def add(
        self, calls: Sequence[tuple[str, frozenset[int] | None]], answer: int | None = None
    ) -> None:
        """Takes a session that has ended; the oldest goes where there are more than `KEPT`.

        Args:
            calls: its tools, and hashes of their arguments; None if these are not known.
            answer: hash of what its agent said last; None if that is not on the wire.
        """
        self._answers.append(answer)
        self._had_arguments.append(all(pairs is not None for _, pairs in calls))
        self._rolling.add([TraceCall(tool, pairs or frozenset()) for tool, pairs in calls])
        if len(self._had_arguments) > 1:
            self.value = self._rolling.value()
