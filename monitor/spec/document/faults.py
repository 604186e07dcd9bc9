"""Findings of one document, collected with their places."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.findings import CODES, Finding, finding, has_errors
from monitor.spec.document.yaml_text import FINDINGS_MAX, Document

__all__ = ["Notes"]


@dataclass(slots=True)
class Notes:
    """Collects findings with their places."""

    file: str
    read: Document
    found: list[Finding] = field(default_factory=list)

    def add(self, code: str, said: str, *path: str | int) -> None:
        """Notes a finding. Beyond the bound only the first error: it refuses the spec."""
        refuses = CODES[code][0] == "error" and not self.refuse
        if len(self.found) < FINDINGS_MAX or refuses:
            key = ".".join(map(str, path))
            self.found.append(finding(code, said, self.file, *self.read.place(path), key))

    def sorted(self) -> tuple[Finding, ...]:
        return tuple(sorted(self.found, key=lambda found: (found.line, found.column)))

    @property
    def refuse(self) -> bool:
        """True when an error was found."""
        return has_errors(self.found)
