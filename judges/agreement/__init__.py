"""How far the scores of judges can be trusted: agreement with themselves, with people, and with each other.

Pure functions over the records that `offrails judge --json` prints, one for each session, judge and repeat.
"""

from judges.agreement.comparison import comparisons
from judges.agreement.label_figures import label_lines
from judges.agreement.label_files import read_labels
from judges.agreement.labels import BadLabelError, ErrorLabel, Labels, ScoreLabel
from judges.agreement.summary import summary

__all__ = [
    "BadLabelError",
    "ErrorLabel",
    "Labels",
    "ScoreLabel",
    "comparisons",
    "label_lines",
    "read_labels",
    "summary",
]
