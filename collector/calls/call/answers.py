"""Which answer of a model asked for a call that has no id of it.

Idea: models give the calls they ask for ids, but spans of tools need not have them. Such a call was asked for by the
latest answer before it that names its tool. Answers beside the call, below the same span, come before those elsewhere in
the trace: agents that work side by side have spans of their own.

Invariant: what `before` finds depends on the answers alone, whatever the order of their arrival, up to `TOOLS_MAX`.

A call with an id may only be a request's without one. Some models' requests have none.

The ids of the requests tell when an answer comes again, with other span ids: a workflow was replayed. Then a call without an
id that belongs to the later answer may be the one that belongs to the earlier (`repeated_call_ids`).

Example: an answer asks for `check` and `pay`. The framework runs `pay`, then `check`, and their spans have no ids. Both
were asked for by that answer, so their order is open. The next answer asks for `pay` alone: the next `pay` is its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

__all__ = ["TOOLS_MAX", "ModelAnswer", "ModelAnswers", "requests_of"]

TOOLS_MAX: Final = 1_024
"""Tools that are named by the answers of one trace, each by each answer. At the bound, the older half of the answers is forgotten."""

LOOK_BACK: Final = 32
"""Answers before a call that are looked at."""


class ModelAnswer(NamedTuple):
    """A model's answer that asks for calls."""

    start_ns: int
    """Start of the model's span. Streaming clients run a call before the span ends."""
    span_id: bytes
    parent: bytes
    tools: tuple[str, ...]
    """Requested tools, each once."""
    unnamed: tuple[str, ...]
    """Tools of requests without ids: calls with ids may belong to these requests."""
    several: bool
    """True if it asks for several calls."""
    requests: tuple[bytes, ...] = ()
    """What the requests of each tool are known by, in the order of `tools`; b"" if one has no id."""

    def request(self, tool: str) -> bytes:
        """What its requests of a tool are known by; b"" if one has no id."""
        known = self.requests and tool in self.tools
        return self.requests[self.tools.index(tool)] if known else b""


def requests_of(ids: Sequence[str]) -> bytes:
    """What requests with these ids are known by; b"" if one has no id."""
    if not all(ids):
        return b""
    text = "\0".join(ids).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8).digest()


@mypyc_attr(acyclic=True)
class ModelAnswers:
    """The answers of one trace's models, in the order of their starts."""

    __slots__ = ("_answers", "_size")

    def __init__(self) -> None:
        self._answers: list[ModelAnswer] = []
        self._size = 0
        """Tools that they name."""

    def add(self, answer: ModelAnswer) -> None:
        """Notes an answer; one that is known, once."""
        place = bisect_left(self._answers, answer)
        if place < len(self._answers) and self._answers[place] == answer:
            return
        self._answers.insert(place, answer)
        self._size += len(answer.tools)
        if self._size > TOOLS_MAX:
            del self._answers[: (len(self._answers) + 1) // 2]
            self._size = sum([len(each.tools) for each in self._answers])

    def before(
        self, tool: str, call_id: str, start_ns: int, parent: bytes
    ) -> ModelAnswer | None:
        """The answer that asked for a call of a tool, which began at `start_ns` below the span `parent`."""
        answers, found = self._answers, None
        end = bisect_right(answers, start_ns, key=_start)
        for place in range(end - 1, max(end - LOOK_BACK, 0) - 1, -1):
            answer = answers[place]
            if tool in (answer.unnamed if call_id else answer.tools):
                if answer.parent == parent:
                    return answer
                found = found or answer
        return found

    def start_of(self, span_id: bytes) -> int:
        """Start of an answer; 0 if it is not remembered."""
        return next((each.start_ns for each in self._answers if each.span_id == span_id), 0)

    def following(self, start_ns: int, parent: bytes) -> int:
        """Start of the first answer below the span `parent` that was asked for after a time; 0 if there is none."""
        answers = self._answers
        for place in range(bisect_right(answers, start_ns, key=_start), len(answers)):
            if answers[place].parent == parent:
                return answers[place].start_ns
        return 0


def _start(answer: ModelAnswer) -> int:
    return answer.start_ns
