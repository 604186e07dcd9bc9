"""Past sessions as a data frame of pandas or polars (extras `pandas` and `polars`).

Example: `sessions_frame("127.0.0.1:4319").groupby("agent").harm_rate.mean()`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from collector.offline.past_sessions.export import columns, read_sessions, rows, since_ns

__all__ = ["TIMES", "sessions_frame"]

TIMES: Final = frozenset({"started", "last", "start_ns", "end_ns"})


def sessions_frame(
    place: str | Path,
    since: str = "",
    *,
    steps: bool = False,
    library: Literal["pandas", "polars"] = "pandas",
    token_file: Path | None = None,
) -> Any:
    """A frame with a row a judgement, or with `steps` a row a call; the columns are those of `offrails export`.

    Whole numbers, numbers, switches and texts have the library's own types, and what is not defined is its missing value. Times
    (`started`, `last`, `start_ns`, `end_ns`) are times in UTC with nanoseconds.

    Args:
        place: folder or database of an archive, or address of a service's API.
        since: an age as in 7d, or a date: sessions whose last call ended then or later; "" for all.
        steps: a row for each call.
        library: which makes the frame.
        token_file: has the token that the service asks for.

    Raises:
        ExportError: there is no archive, or `since` is no time.
        NoAnswerError: the service does not answer.
        ModuleNotFoundError: the library is not installed.
    """
    start = since_ns(since) if since else 0
    found = list(rows(read_sessions(str(place), start, token_file), steps=steps))
    types = columns(steps=steps)
    lists = {name: [row[name] for row in found] for name in types}
    return _polars(lists, types) if library == "polars" else _pandas(lists, types)


def _pandas(lists: dict[str, list[Any]], types: Any) -> Any:
    import pandas

    own = {"text": "string", "whole": "Int64", "number": "Float64", "switch": "boolean"}
    made = {
        name: pandas.to_datetime(pandas.array(values, dtype="Int64"), unit="ns", utc=True)
        if name in TIMES
        else pandas.array(values, dtype=own[types[name]])
        for name, values in lists.items()
    }
    return pandas.DataFrame(made)


def _polars(lists: dict[str, list[Any]], types: Any) -> Any:
    import polars

    own = {
        "text": polars.String,
        "whole": polars.Int64,
        "number": polars.Float64,
        "switch": polars.Boolean,
    }
    made = {
        name: polars.Series(name, values, dtype=polars.Int64).cast(
            polars.Datetime("ns", time_zone="UTC")
        )
        if name in TIMES
        else polars.Series(name, values, dtype=own[types[name]])
        for name, values in lists.items()
    }
    return polars.DataFrame(made)
