"""Errors of the monitor.

OffrailsError
├── CallError        a plain call is not of the form that `judge_calls` reads
└── SpecError        a spec document cannot be used; carries its findings
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monitor.findings import Finding

__all__ = ["CallError", "OffrailsError", "SpecError"]


class OffrailsError(Exception):
    """Base of every error this library raises on purpose."""


class CallError(OffrailsError):
    """A plain call cannot be read; the message says which one and why."""


class SpecError(OffrailsError):
    """A spec document was refused. `findings` say where and why; `str()` has a line for each."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))
