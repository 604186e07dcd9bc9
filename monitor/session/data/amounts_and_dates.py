"""What a value says however it is written: amounts, dates and times of the day.

Idea: a user says "May 1, 2024", and an agent writes 2024-05-01, as its tool asks. Both have one digest here. A value consists of
items: an amount, or a date and a time. An item has one or several readings, and a text says a value if it says a reading of each.

Invariants:

- Only what consists of such items alone has readings: "room 5" has none.
- What is ambiguous has all its readings: 01/05/2024 is the first of May, and the fifth of January.
- A day without a year is the day of any year. A day that was said with one year is no day of another.

Example: `2024-05-01 10:00` is said by "on 1 May at 10 am", and neither by "on 1 May" nor by "on 1 May 2023 at 10 am".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Final

from monitor.session.data.value_digests import digest_of, text_digest

__all__ = ["READ_LENGTH_MAX", "ReadItem", "items_of", "readings_in", "wholes_of"]

ReadItem = tuple[int, ...]
"""Digests of the readings of one amount, date or time."""

READ_LENGTH_MAX: Final = 48
"""Characters of the longest value that is read."""

_MONTHS: Final = ("jan(?:uary)?", "feb(?:ruary)?", "mar(?:ch)?", "apr(?:il)?", "may", "june?", "july?",
                  "aug(?:ust)?", "sept?(?:ember)?", "oct(?:ober)?", "nov(?:ember)?", "dec(?:ember)?")  # fmt: skip
_NUMBER_OF: Final = {month[:3]: number for number, month in enumerate(_MONTHS, start=1)}

_DAY: Final = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR: Final = r"(?:19|20)\d\d"
_MONTH: Final = rf"(?:{'|'.join(_MONTHS)})\b\.?"
_NTH: Final = rf"{_DAY}(?:st|nd|rd|th)?(?!\w)"
_MERIDIEM: Final = r"\s?(?P<{}>[ap])\.?m\b\.?"

_ISO: Final = rf"(?P<y>{_YEAR})(?P<s>[-/.])(?P<m>{_DAY})(?P=s)(?P<d>{_DAY})(?![\w/-])"
_SLASHED: Final = rf"(?P<a>{_DAY})(?P<r>[-/.])(?P<b>{_DAY})(?P=r)(?P<ab>{_YEAR})(?![\w/-])"
_MONTH_FIRST: Final = rf"(?P<mm>{_MONTH})\s*(?P<md>{_NTH})(?!:)(?:,?\s+(?P<my>{_YEAR})(?!\w))?"
_DAY_FIRST: Final = (
    rf"(?P<dd>{_NTH})(?:\s+of)?[\s-]+(?P<dm>{_MONTH})(?:,?[\s-]+(?P<dy>{_YEAR})(?!\w))?"
)
_CLOCK: Final = rf"(?P<h>[01]?\d|2[0-3]):(?P<i>[0-5]\d)(?::(?P<sec>[0-5]\d)(?:\.0+)?)?(?:{_MERIDIEM.format('p')})?(?:z|\+00:00)?(?![\w:])"
_HOUR: Final = rf"(?P<hh>0?[1-9]|1[0-2]){_MERIDIEM.format('pp')}"

_TIMED: Final = re.compile(
    rf"(?<![\w.:/-])(?:{_ISO}|{_SLASHED}|{_MONTH_FIRST}|{_DAY_FIRST}|{_CLOCK}|{_HOUR})"
)
"""A date or a time, in a text whose case is folded."""

_BETWEEN: Final = re.compile(r"(?:[\s,]|\bat\b|\bon\b)*")
"""What may stand between a date and a time."""

_OF_BOTH: Final = re.compile(r"(?<=\d)t(?=\d\d:)")
"""Parts the date and the time of ISO 8601."""

_AMOUNT: Final = re.compile(
    r"(?P<sign>[-+]?)[$€£¥]?\s?(?P<whole>\d{1,3}(?:[,'\u2019\u00a0\u202f]\d{3})+|\d{1,15})(?P<part>\.\d{1,15})?\s?(?:[$€£¥]|usd|eur|gbp)?"
)
_DIGIT: Final = re.compile(r"\d")


@lru_cache(maxsize=1_024)
def items_of(text: str, *, was_said: bool = False) -> tuple[ReadItem, ...]:
    """The items that a short value consists of; none if it says anything else, too.

    Args:
        text: of the value, with its case folded and without outer space.
        was_said: whether the value is one that others are compared with.
    """
    readings = _said if was_said else _asked
    if len(text) > READ_LENGTH_MAX or not _DIGIT.search(text):
        return ()
    amount = _AMOUNT.fullmatch(text)
    if amount is not None:
        digits = "".join(_DIGIT.findall(amount["whole"]))
        number = float(f"{amount['sign']}{digits}{amount['part'] or ''}")
        return ((digest_of(number), text_digest(number)),)
    items: list[ReadItem] = []
    end, text = 0, _OF_BOTH.sub(" ", text)
    for found in _TIMED.finditer(text):
        if not _BETWEEN.fullmatch(text, end, found.start()):
            return ()
        items.append(tuple(map(digest_of, readings(found))))
        end = found.end()
    return tuple(items) if items and _BETWEEN.fullmatch(text, end) else ()


def wholes_of(items: tuple[ReadItem, ...]) -> Iterator[int]:
    """Digests of a value of one item or two as a whole, in each reading."""
    for each in product(*items) if 0 < len(items) <= 2 else ():
        yield each[0] if len(each) == 1 else digest_of(each)


def readings_in(text: str) -> list[int]:
    """The digests of the dates and times in a text."""
    if not _DIGIT.search(text):
        return []
    folded = _OF_BOTH.sub(" ", text.casefold())
    return [digest_of(each) for found in _TIMED.finditer(folded) for each in _said(found)]


def _said(found: re.Match[str]) -> Iterator[str]:
    """The readings of a date or time where it was said."""
    for year, day in _days(found):
        yield f"{year} {day}"
        if year:  # asked for by who names no year
            yield f"any {day}"
    yield from _time(found)


def _asked(found: re.Match[str]) -> Iterator[str]:
    """The readings by which a date or time that a value has may have been said."""
    for year, day in _days(found):
        yield f"{year} {day}"
        yield f" {day}" if year else f"any {day}"
    yield from _time(found)


def _days(found: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Year, or "", and the day of the year."""
    if found["y"]:
        yield from _day(found["y"], found["m"], found["d"])
    elif found["a"]:
        yield from _day(found["ab"], found["a"], found["b"])
        yield from _day(found["ab"], found["b"], found["a"])
    elif found["mm"] or found["dm"]:
        month = _NUMBER_OF[(found["mm"] or found["dm"])[:3]]
        day = (found["md"] or found["dd"]).rstrip("stndrh")
        yield from _day(found["my"] or found["dy"] or "", str(month), day)


def _day(year: str, month: str, day: str) -> Iterator[tuple[str, str]]:
    if int(month) <= 12:
        yield year, f"{int(month)}-{int(day)}"


def _time(found: re.Match[str]) -> Iterator[str]:
    hour = found["h"] or found["hh"]
    if hour:
        half = found["p"] or found["pp"]
        number = int(hour) % 12 + 12 * (half == "p") if half and int(hour) <= 12 else int(hour)
        yield f"{number}:{found['i'] or '00'}:{found['sec'] or '00'}"
