"""A transcript: numbered steps, of which those are shown that fit into a budget of tokens.

Whole steps are cut, those nearest to the middle first: messages before tool calls. What was cut is counted, and
marked where it was. Ids are given before the cut, so they are the same under every budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from collector.transcripts.fence import PLACEHOLDER, clean, fenced, indented
from collector.transcripts.step import TranscriptStep

__all__ = ["TEXT_MAX", "CutCounts", "Transcript", "tokens_of"]

TEXT_MAX: Final = 20_000
"""Characters of one text of a step; of a longer one, the middle is cut, and the cut is marked."""

_BYTES_A_TOKEN: Final = 4
_MARK_TOKENS: Final = 24
"""Tokens of a line that marks a cut, at most."""


def tokens_of(text: str) -> int:
    """About how many tokens a text has: a token is four bytes of UTF-8."""
    size = len(text) if text.isascii() else len(text.encode(errors="replace"))
    return -(-size // _BYTES_A_TOKEN)


@dataclass(frozen=True, slots=True)
class CutCounts:
    """How much of a session is not in its transcript."""

    messages: int = 0
    calls: int = 0
    tokens: int = 0
    characters: int = 0
    """Characters that were cut out of texts of steps that are shown."""


class Transcript:
    """The text of one session.

    Args:
        steps: in time order.
        tokens: budget of the text; None is no bound.
        missing: earlier tool calls of the session that there are no steps of.
    """

    def __init__(
        self, steps: Sequence[TranscriptStep], tokens: int | None = None, missing: int = 0
    ) -> None:
        self._missing = missing
        self.steps = {
            f"s{number if step.number is None else step.number}": step
            for number, step in enumerate(steps, start=1)
        }
        """Short id -> step, also of steps that are cut."""
        self._bodies = [_body(step) for step in steps]
        costs = [
            tokens_of(_rendered(id_, step, body, PLACEHOLDER)) + 1
            for (id_, step), (body, _) in zip(self.steps.items(), self._bodies, strict=True)
        ]
        cut = _cut(steps, costs, tokens)
        self.shown: Mapping[str, TranscriptStep] = {
            id_: step
            for place, (id_, step) in enumerate(self.steps.items())
            if place not in cut
        }
        """Short id -> step, of those that fit."""
        self.cut = CutCounts(
            messages=sum(not steps[place].is_call for place in cut),
            calls=missing + sum(steps[place].is_call for place in cut),
            tokens=sum(costs[place] for place in cut),
            characters=sum(
                gone for place, (_, gone) in enumerate(self._bodies) if place not in cut
            ),
        )

    @property
    def calls(self) -> int:
        """Number of tool calls of the session."""
        return self._missing + sum(step.is_call for step in self.steps.values())

    @property
    def calls_shown(self) -> int:
        return self.calls - self.cut.calls

    @cached_property
    def spans(self) -> Mapping[str, str]:
        """Short id of a step that is shown -> span id."""
        return {id_: step.span_id for id_, step in self.shown.items()}

    def id_of(self, trace_id: str, span_id: str) -> str | None:
        """The short id of a call that is shown; None if there is none."""
        return self._ids.get((trace_id, span_id))

    @cached_property
    def _ids(self) -> Mapping[tuple[str, str], str]:
        return {
            (step.trace_id, step.span_id): id_
            for id_, step in self.shown.items()
            if step.is_call
        }

    def text(self, nonce: str) -> str:
        """The steps that fit, each between fences with the nonce; cuts are marked with their numbers."""
        return "\n".join(self._parts(nonce))

    def texts(self) -> Iterator[str]:
        """All texts that spans brought, for the choice of a nonce."""
        for step in self.steps.values():
            yield from (step.agent, step.name, step.text, step.result or "")

    def _parts(self, nonce: str) -> Iterator[str]:
        gap: list[TranscriptStep] = []
        if self._missing:
            yield f"<<cut {nonce}: 0 messages and {self._missing} tool calls>>"
        for (id_, step), (body, _) in zip(self.steps.items(), self._bodies, strict=True):
            if id_ not in self.shown:
                gap.append(step)
                continue
            if gap:
                yield _mark(gap, nonce)
                gap = []
            yield _rendered(id_, step, body, nonce)
        if gap:
            yield _mark(gap, nonce)


def _mark(gap: Sequence[TranscriptStep], nonce: str) -> str:
    calls = sum(step.is_call for step in gap)
    return f"<<cut {nonce}: {len(gap) - calls} messages and {calls} tool calls>>"


def _rendered(id_: str, step: TranscriptStep, body: str, nonce: str) -> str:
    kind: str = step.kind
    if step.is_call:
        kind += " failed" if step.failed else f" {step.state}" if step.state else ""
    return fenced(f"{id_} {kind}", nonce, body)


def _body(step: TranscriptStep) -> tuple[str, int]:
    """The indented lines of a step, and how many characters were cut out of them."""
    fields = [("agent", step.agent)] if step.agent else []
    if step.is_call:
        fields += [("tool", step.name), ("arguments", step.text)]
        fields += [("result", step.result)] if step.result is not None else []
    elif step.kind == "message":
        fields += [("role", step.name), ("text", step.text)]
    else:
        fields.append(("tools", step.text))
    lines, gone = [], 0
    for name, text in fields:
        short, cut = _short(clean(text))
        gone += cut
        lines.append(
            f"  {name}:\n{indented(short, '    ')}" if "\n" in short else f"  {name}: {short}"
        )
    return "\n".join(lines), gone


def _short(text: str) -> tuple[str, int]:
    """The text, without its middle if it is long, and how many characters that takes away."""
    if len(text) <= TEXT_MAX:
        return text, 0
    gone = len(text) - TEXT_MAX
    half = TEXT_MAX // 2
    return f"{text[:half]} [{gone} characters cut] {text[-half:]}", gone


def _cut(
    steps: Sequence[TranscriptStep], costs: Sequence[int], tokens: int | None
) -> frozenset[int]:
    """Places of the steps that do not fit: from the middle outwards, messages first."""
    left = sum(costs) - (tokens if tokens is not None else sum(costs))
    gone: set[int] = set()
    for place in _from_middle(steps):
        if left <= 0:
            break
        gone.add(place)
        # A gap of its own is one more mark, one that joins two gaps is one less.
        beside = (place - 1 in gone) + (place + 1 in gone)
        left -= costs[place] - _MARK_TOKENS * (1 - beside)
    return frozenset(gone)


def _from_middle(steps: Sequence[TranscriptStep]) -> list[int]:
    middle = (len(steps) - 1) / 2
    return sorted(
        range(len(steps)), key=lambda place: (steps[place].is_call, abs(place - middle), place)
    )
