"""A small coverage-guided mutator: what reaches new lines is kept and mutated further."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

__all__ = ["Crash", "fuzz", "mutate"]

TRACED = (
    "/collector/decode/",
    "/collector/dialects/",
    "/collector/receive/",
    "/collector/state/",
)
INTERESTING = (0, 1, 7, 8, 9, 16, 0x0A, 0x12, 0x22, 0x5B, 0x7B, 0x7F, 0x80, 0xFF)
SIZE_MAX = 100_000


class Crash(NamedTuple):
    """An input that a target did not survive."""

    body: bytes
    error: BaseException


def mutate(body: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """A neighbour of a body: one to four small changes."""
    found = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found) + 1)
        size = min(chance.choice((1, 1, 2, 4, 8, 64, 512)), len(found) - at)
        match chance.randrange(8):
            case 0 if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case 1 if at < len(found):
                found[at] = chance.choice(INTERESTING)
            case 2:
                del found[at : at + size]
            case 3:
                found[at:at] = found[at : at + size]
            case 4:
                found[at:at] = chance.randbytes(size)
            case 5:
                other = chance.choice(others)
                start = chance.randrange(len(other) + 1)
                found[at:at] = other[start : start + chance.choice((8, 64, 512))]
            case 6:
                found[at : at + size] = bytes([chance.choice(INTERESTING)]) * size
            case _:
                del found[at:]
    return bytes(found[:SIZE_MAX])


class _Lines:
    """Lines of ours that were reached."""

    def __init__(self) -> None:
        self.reached: set[tuple[str, int]] = set()

    def trace(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        return self._line if any(part in file for part in TRACED) else None

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.reached.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def run(self, target: Callable[[bytes], None], body: bytes) -> bool:
        """Runs a target; True where it reached a new line."""
        before, tracer = len(self.reached), sys.gettrace()
        sys.settrace(self.trace)
        try:
            target(body)
        finally:
            sys.settrace(tracer)
        return len(self.reached) > before


def fuzz(
    target: Callable[[bytes], None], seeds: Sequence[bytes], seconds: float, seed: int
) -> tuple[int, int, Crash | None]:
    """Mutates for so many seconds of this process's time. Returns (inputs tried, lines reached, what it did not survive)."""
    chance = random.Random(seed)
    corpus = list(seeds)
    lines = _Lines()
    tried = 0
    end = time.process_time() + seconds
    while time.process_time() < end:
        if tried < len(seeds):
            body = seeds[tried]
        else:
            body = mutate(chance.choice(corpus), corpus, chance)
        tried += 1
        try:
            if lines.run(target, body) and tried > len(seeds):
                corpus.append(body)
        except BaseException as error:  # noqa: BLE001 - that is what we look for
            return tried, len(lines.reached), Crash(body, error)
    return tried, len(lines.reached), None
