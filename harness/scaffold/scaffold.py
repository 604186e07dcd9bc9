"""A scaffold: its template, its version, and how it reads a model's text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from harness.scaffold.turn import AgentCall, Turn

__all__ = ["Scaffold", "ScaffoldName", "UnreadableTextError", "load_scaffold"]

ScaffoldName = Literal["react", "plan"]

_ACTION: Final = re.compile(r"^\s*Action:\s*(?P<tool>\S+)\s*$", re.MULTILINE)
_INPUT: Final = re.compile(r"^\s*Action Input:\s*(?P<json>\{.*)", re.MULTILINE | re.DOTALL)
_FINAL: Final = re.compile(r"^\s*Final Answer:\s*(?P<text>.*)", re.MULTILINE | re.DOTALL)


class UnreadableTextError(ValueError):
    """A text holds neither a call nor an end; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Scaffold:
    """How a model is told of its task, and how its texts are read."""

    version: str
    """Name and number: a changed template is another version."""
    system: str
    """What a model is told with its API's tool calls."""
    text_form: str
    """What it is told beside that where it writes its calls as text."""

    @property
    def plans(self) -> bool:
        """Whether a plan is asked for before the first call."""
        return self.version.startswith("plan/")

    def read(self, text: str) -> Turn:
        """The turn that a text writes.

        Raises:
            UnreadableTextError: there is none in it.
        """
        action, given = _ACTION.search(text), _INPUT.search(text)
        if action is not None and given is not None:
            return Turn(calls=(AgentCall(action["tool"], _arguments(given["json"])),))
        final = _FINAL.search(text)
        if final is not None:
            return Turn(say=final["text"].strip())
        raise UnreadableTextError(
            "expected `Action:` and `Action Input:` with a JSON object, or `Final Answer:`"
        )


def _arguments(text: str) -> dict[str, Any]:
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as problem:
        raise UnreadableTextError(f"`Action Input:` holds no JSON object: {problem}") from None
    return dict(found)


@cache
def load_scaffold(name: ScaffoldName) -> Scaffold:
    """The scaffold of a template file."""
    text = (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8")
    head, _, rest = text.partition("\n")
    system, _, text_form = rest.partition("\n---\n")
    return Scaffold(head.removeprefix("version: "), system.strip(), text_form.strip())
