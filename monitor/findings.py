"""What the compiler says of a spec document: coded, placed, with the impact on the user.

The codes are stable: they may be searched for, counted and filtered on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["CODES", "Finding", "Severity", "finding", "has_errors"]

Severity = Literal["error", "warning"]

CODES: dict[str, tuple[Severity, str]] = {
    # --- reading the file ---
    "unreadable_file": ("error", "Nothing of this path is judged."),
    "no_specs": ("warning", "The folder adds no spec, so its agents are not judged by it."),
    "not_utf8": ("error", "The file cannot be read as text, so the spec is not loaded."),
    "too_large": ("error", "The document is refused before it can take memory or time."),
    "invalid_yaml": ("error", "The document cannot be read, so the spec is not loaded."),
    "duplicate_key": ("error", "One of the two entries would be dropped in silence."),
    "several_documents": ("error", "Only one spec per file: the others would be lost."),
    # --- the document's shape ---
    "invalid_document": ("error", "The document does not have the shape of a spec."),
    "duplicate_spec_id": (
        "error",
        "Verdicts and metrics of the two specs could not be told apart.",
    ),
    # --- the alphabet ---
    "invalid_pattern": ("error", "It is unclear which argument values are meant."),
    "invalid_regex": ("error", "RE2 cannot compile the expression, so no call can be matched."),
    "invalid_path": ("error", "It is unclear which part of a value is meant."),
    "invalid_each": ("error", "It is unclear what there is an automaton for each of."),
    "pattern_matches_nothing": ("error", "No call can ever match the symbol."),
    "undeclared_value": ("error", "Nothing is remembered under the name to compare with."),
    "unused_value": (
        "warning",
        "No argument is compared with the value; perhaps a typing error.",
    ),
    "undeclared_source": (
        "warning",
        "If no tool has the name, no value ever comes from it; perhaps a typing error.",
    ),
    "leading_zero": (
        "warning",
        "Ids are mostly texts, and no text is equal to a number: the pattern may never match.",
    ),
    "overlapping_patterns": (
        "warning",
        "A call can match both symbols; which one wins is not what the more specific pattern says.",
    ),
    "undeclared_tool": (
        "warning",
        "No symbol has the tool, so what is said of it is never used; perhaps a typing error.",
    ),
    # --- the automaton ---
    "undeclared_symbol": ("error", "No call can match a symbol the alphabet does not declare."),
    "undeclared_state": ("error", "The state is not declared, so no session can be there."),
    "duplicate_state": ("error", "Two states of one name cannot be told apart in verdicts."),
    "nondeterministic": (
        "error",
        "One call would lead to two states: the verdicts are ambiguous.",
    ),
    "read_and_edge": (
        "error",
        "One call would both stay and move: the verdicts are ambiguous.",
    ),
    "no_accepting_state_reachable": ("error", "No session can ever finish the task."),
    "too_many_golden_paths": (
        "error",
        "The path scores compare with every golden path: too many make each call slow.",
    ),
    "unreachable_state": ("warning", "No session can get there: its edges are never used."),
    "unused_symbol": (
        "warning",
        "In a task calling it is always harmful, in a policy never; perhaps an edge is missing.",
    ),
    "progress_cycle": (
        "warning",
        "An agent can go round without harm; golden paths leave the round out.",
    ),
    "trap": ("warning", "A session that gets there can no longer finish, and no call says so."),
    "unused_convention": (
        "warning",
        "The key changes nothing here: policies have no scores, references judge no harm.",
    ),
    "impossible_deadline": (
        "warning",
        "Every session that makes the first call misses the deadline, whatever it does.",
    ),
    # --- accepted calls ---
    "expired_acceptance": ("warning", "The call is harmful again where it was accepted."),
    "needless_acceptance": (
        "warning",
        "The entry changes nothing, because the call is allowed there; perhaps another was meant.",
    ),
    # --- constraints ---
    "invalid_constraint": (
        "error",
        "The constraint cannot be understood, so it guards nothing.",
    ),
    "impossible_call": (
        "warning",
        "The constraints together forbid the call, so it is harmful whenever it is made.",
    ),
    "too_many_joint_states": (
        "warning",
        "Where calls or arguments are unknown they are judged a few at a time: a harm, or a session "
        "that can no longer finish, is missed where only many of them together make it certain.",
    ),
    "unsatisfiable": ("error", "No session can ever satisfy the constraint."),
    # --- learnt references ---
    "broken_tree": ("error", "No session can be compared with a tree that is damaged."),
    "duplicate_tool": ("error", "Nodes of the tree could mean either: names are by number."),
    "contradicting_counts": (
        "warning",
        "Support, risk and pictures show these numbers: learn the reference anew.",
    ),
    "unseen_tool": (
        "warning",
        "A name that was mistyped is never met: the write is not watched.",
    ),
    "expected_read": (
        "warning",
        "Only writes are watched: that it did not come is never told.",
    ),
    "few_runs": ("warning", "With fewer than two usual runs every alarm is a hint."),
    "no_writes": ("warning", "The strongest alarm, an unexpected write, is never raised."),
    "no_risk": (
        "warning",
        "The risk warns of nothing: it is not told, or its alarm is never raised. Other alarms are as ever.",
    ),
    "noisy_alarm": (
        "warning",
        "People switch such a page off; its arguments may differ in every run. Leave tools whose "
        "arguments always differ out of the writes, or learn from more runs.",
    ),
}
"""Code -> (severity, what it means for whoever relies on the spec)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the compiler found. `line` and `column` start at 1; 0 if there is no place."""

    code: str
    severity: Severity
    message: str
    impact: str
    file: str
    line: int
    column: int
    key: str
    """Path of the key in the document, as `alphabet.pay.arguments.amount`."""

    def as_json(self) -> dict[str, str | int]:
        """The finding as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        key = f" ({self.key})" if self.key else ""
        return f"{where}: {self.severity} {self.code}: {self.message}{key}"


def finding(
    code: str, message: str, file: str, line: int = 0, column: int = 0, key: str = ""
) -> Finding:
    """A finding with the severity and impact of its code; KeyError for an unknown code."""
    severity, impact = CODES[code]
    return Finding(
        code, severity, printable(message), impact, file, line, column, printable(key)
    )


def printable(text: str, limit: int = 300) -> str:
    """The text on one line, without control characters, at most `limit` characters.

    Documents are written by strangers too, and findings are shown on terminals.
    """
    kept = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: limit + 1])
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def has_errors(findings: Iterable[Finding]) -> bool:
    """True when one of them refuses the spec."""
    return any(found.severity == "error" for found in findings)
