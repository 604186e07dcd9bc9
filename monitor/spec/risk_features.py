"""The features that a risk learnt on many tasks may ask for.

No feature names the task, the agent or a tool, and none says how many usual runs there are: an
odd number of them betrays that one was left out, and so the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["FEATURES", "Feature"]


class Feature(NamedTuple):
    """One feature: its group, which way it may move the risk, and what it says."""

    group: str
    direction: int
    """1: more of it never lowers the risk; -1: never raises it; 0: either."""
    words: str


FEATURES: Final[Mapping[str, Feature]] = {
    "surprise_mean": Feature("surprise", 1, "calls follow each other in unusual ways"),
    "surprise_most": Feature("surprise", 1, "one call hardly ever follows the one before it"),
    "surprise_last": Feature("surprise", 1, "the last call hardly ever follows the one before"),
    "departures": Feature("departures", 1, "calls depart from the usual runs"),
    "other_tools": Feature("departures", 1, "other tools than usual were called"),
    "other_arguments": Feature("departures", 1, "calls have other arguments than usual there"),
    "extra_calls": Feature("departures", 1, "calls were inserted"),
    "skipped_calls": Feature("departures", 1, "usual calls were left out"),
    "departed_first_two": Feature("departures", 1, "one of the first two calls departs"),
    "departed_early": Feature("departures", 1, "a call of the first half departs"),
    "departed_late": Feature("departures", 1, "calls of the second half depart"),
    "repeated_calls": Feature("repeats", 1, "calls were repeated as they were"),
    "repeated_tools": Feature("repeats", 1, "tools were called again"),
    "failed_calls": Feature("failures", 1, "calls failed"),
    "failed_share": Feature("failures", 1, "a large share of the calls failed"),
    "failed_last": Feature("failures", 1, "the last call failed"),
    "failed_writes": Feature("failures", 1, "writing calls failed"),
    "new_reads": Feature("news", 1, "tools were called that no usual run called"),
    "new_writes": Feature("news", 1, "a tool wrote that no usual run called"),
    "new_read_arguments": Feature("news", 1, "reading calls have arguments of no usual run"),
    "new_write_arguments": Feature("news", 1, "writing calls have arguments of no usual run"),
    "known_writes": Feature("news", -1, "few writes are those of usual runs"),
    "known_reads": Feature("news", -1, "few reading calls are those of usual runs"),
    "hasty_writes": Feature("order", 1, "it wrote before what usual runs do first"),
    "length": Feature("length", 0, "its length is not the usual one"),
    "over_length": Feature("length", 0, "it is longer than every usual run"),
    "left_out": Feature("coverage", 0, "tools that every usual run called are not called"),
    "behind": Feature("coverage", 1, "it is behind the usual runs"),
    "likeness": Feature("coverage", -1, "its tools are those of no usual run"),
    "calls_likeness": Feature("calls", -1, "its calls are those of no usual run"),
    "calls_covered": Feature("calls", -1, "no usual run made most of its calls"),
    "calls_done": Feature("calls", -1, "it has made few of the calls of any usual run"),
    "calls_likeness_mean": Feature(
        "calls", -1, "its calls are unlike those of most usual runs"
    ),
    "begun_alike": Feature("calls", -1, "it does not begin as usual runs do"),
    "ended": Feature("end", 0, "it has ended"),
    "ended_surprise": Feature("end", 1, "runs hardly ever end after such a call"),
    "ended_left_out": Feature("end", 1, "it ended without tools that every usual run called"),
    "ended_unwritten": Feature("end", 1, "it ended without a write that every usual run made"),
    "ended_short": Feature("end", 1, "it ended before any usual run did"),
    "ended_empty": Feature("end", 1, "it ended without a call"),
    "ended_elsewhere": Feature("end", 1, "it ended where no usual run ends"),
    "ended_failed": Feature("end", 1, "its last call failed"),
    "ended_likeness": Feature("end", -1, "it ended with tools of no usual run"),
    "ended_new_write": Feature("end", 1, "it ended with a write of no usual run"),
    "ended_known_write": Feature("end", -1, "it ended with few writes of usual runs"),
    "ended_calls_likeness": Feature("end", -1, "it ended with calls of no usual run"),
}
"""Features in the order of a vector. Their caps bound what one long run can say."""
