"""The settings of learning and of the risk score. Frozen: docs/references.md explains them."""

from __future__ import annotations

from typing import Final

__all__ = [
    "AGREED_FROM",
    "AHEAD_MAX",
    "CANDIDATES_MAX",
    "COMPARED_MAX",
    "LIKELY_MAX",
    "LIKELY_SHARE",
    "NODES_MAX",
    "PRIOR_RUNS_MAX",
    "PSEUDO_RUNS",
    "RECORD_PSEUDO_RUNS",
    "RISK_ALARM",
    "RISK_FALSE_PER_1000",
    "SAMPLE_MAX",
    "SPEC_CONFIDENCE",
    "SPEC_FOLDS",
    "SPEC_PRUNED",
    "SPEC_RUNS_MAX",
    "SPLIT_DRAWS",
    "SPLIT_RUNS_MAX",
    "SURPRISED_MAX",
    "UNKNOWN_MAX",
    "USUAL_CALLS_MAX",
    "VARIANTS_MAX",
    "VERSION",
    "WRITES_MAX",
    "WRITE_WEIGHT",
]

VERSION: Final = "1"
"""Version of these settings; a document names the one it was learnt with."""

PSEUDO_RUNS: Final = 4.0
"""Runs of either outcome that are imagined before any is seen, for every rate of the risk."""

RECORD_PSEUDO_RUNS: Final = 10.0
"""Runs of the mean agent that are imagined beside the record of each."""

PRIOR_RUNS_MAX: Final = 4
"""The share of failures weighs as that of this many runs at most."""

WRITE_WEIGHT: Final = 2.0
"""Log-odds an unexpected write adds to the risk."""

UNKNOWN_MAX: Final = 32
"""Tools that no learning run called, of all sessions under a reference, that are distinguished; of
more than these, two may count as one in the risk."""

RISK_ALARM: Final = 0.6
"""Risk from which an alarm is raised, of a document that does not say it: it was learnt before they did."""

RISK_FALSE_PER_1000: Final = 50.0
"""Usual runs, of 1,000, in which the risk may raise its alarm: it is advice, and pages nobody."""

AHEAD_MAX: Final = 3
"""Expected calls that may be skipped before a call counts as another tool, not a later one."""

NODES_MAX: Final = 5_000
"""Nodes of a prefix tree that are kept, those of most runs first."""

VARIANTS_MAX: Final = 8
"""Different arguments at one node; beyond it they count as varying."""

AGREED_FROM: Final = 5
"""Usual runs that must have given an argument of a writing tool the same value, before another value pages."""

WRITES_MAX: Final = 10_000
"""Different writing calls that are kept."""

USUAL_CALLS_MAX: Final = 256
"""Calls that are kept of one usual run, the first ones."""

CANDIDATES_MAX: Final = 128
"""Sequences that may be the medoid, the most frequent first."""

SAMPLE_MAX: Final = 512
"""Sequences a candidate for the medoid is compared with."""

COMPARED_MAX: Final = 128
"""Runs the consistency is computed from, each pair of them."""

SPEC_CONFIDENCE: Final = 0.05
"""Significance of the Hoeffding test by which ALERGIA merges states: its authors' and the library's
default."""

SPEC_PRUNED: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Shares of runs below which edges are left out of a drafted spec: the first that compiles."""

SPEC_FOLDS: Final = 5
"""Parts of the runs, each tried on what the others teach."""

SPEC_RUNS_MAX: Final = 2_000
"""Runs a spec is drafted from."""

SPLIT_DRAWS: Final = 8
"""Draws of runs that lend a reference, by which the others are judged."""

SPLIT_RUNS_MAX: Final = 256
"""Runs of a task that are split so."""

SURPRISED_MAX: Final = 512
"""Usual runs whose surprise is computed, each under the others."""

LIKELY_MAX: Final = 5
LIKELY_SHARE: Final = 0.05
"""The next calls that are told, the likeliest first, and the least share of them."""
