"""Custom instructions: what a judge should know of your agents, from a Markdown file of yours.

What stands before the first `# Agent: NAME` or `# Judge: ID` is for every prompt. A section `# Agent: NAME` is for sessions
with an agent of that name, a section `# Judge: ID` for that judge. The text is trusted: it comes from you.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from judges.bounded_file import MARKDOWN_BYTES_MAX, BoundedFileError, bounded_text

__all__ = ["NO_INSTRUCTIONS", "BadInstructionsError", "Instructions", "read_instructions"]

_HEADING: Final = re.compile(r"^#\s*(?P<what>Agent|Judge):\s*(?P<name>.+?)\s*$", re.MULTILINE)


class BadInstructionsError(Exception):
    """The file cannot be used; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class InstructionSection:
    """A part of the file."""

    what: Literal["all", "agent", "judge"]
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Instructions:
    """The sections of a file."""

    sections: tuple[InstructionSection, ...] = ()

    def text(self, judge: str, agents: Collection[str]) -> str:
        """What one prompt is given; "" for nothing."""
        found = (
            f"## Agent {section.name}\n{section.text}"
            if section.what == "agent"
            else section.text
            for section in self.sections
            if section.what == "all"
            or (section.what == "judge" and section.name.upper() == judge)
            or (section.what == "agent" and section.name in agents)
        )
        return "\n\n".join(text for text in found if text)


NO_INSTRUCTIONS: Final = Instructions()


def read_instructions(file: Path) -> Instructions:
    """The instructions of a file.

    Raises:
        BadInstructionsError: it cannot be read, is no UTF-8 text, or is over 100 KB.
    """
    try:
        text = bounded_text(file, MARKDOWN_BYTES_MAX)
    except BoundedFileError as problem:
        raise BadInstructionsError(str(problem)) from None
    heads = list(_HEADING.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)] * bool(heads)
    sections = [
        InstructionSection("all", "", text[: heads[0].start() if heads else len(text)].strip())
    ]
    for head, end in zip(heads, ends, strict=True):
        what: Literal["agent", "judge"] = "agent" if head["what"] == "Agent" else "judge"
        sections.append(InstructionSection(what, head["name"], text[head.end() : end].strip()))
    return Instructions(tuple(sections))
