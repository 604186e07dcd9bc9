"""PC and PC-KTC of one condensed path against very many golden paths at once.

If there are too many golden paths for running rows, their scores are computed from the condensed
path on request. The condensed path is the pattern, and the golden paths are the texts; common
prefixes are computed once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["columns", "path_scores"]

Path = tuple[int, ...]


def path_scores(
    condensed: Sequence[int], golden: Iterable[Path], lambda_: float, tau_below_two: float
) -> tuple[float, float]:
    """PC and PC-KTC (equations 4 and 5) of a condensed path; 0 and 0 without golden paths."""
    path = tuple(condensed)
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, token in enumerate(path):
        places[token].append(place)
    best, best_ktc = 0.0, 0.0
    for word, plus, minus in columns(path, set(golden)):
        distance = len(word) + plus.bit_count() - minus.bit_count()
        total = len(path) + len(word) + distance
        similarity = 1 - 2 * distance / total if total else 1.0
        order = _tau_plus(places, word, tau_below_two)
        best = max(best, similarity)
        best_ktc = max(best_ktc, lambda_ * similarity + (1 - lambda_) * order)
    return best, best_ktc


def _tau_plus(places: dict[int, list[int]], word: Path, below_two: float) -> float:
    """tau+ (section 3.2): the k-th place of a token in `word` matches its k-th in x."""
    used: dict[int, int] = {}
    matched = inversions = matches = 0
    for token in word:
        k = used.get(token, 0)
        if token not in places or k >= len(places[token]):
            continue
        place = places[token][k]
        used[token] = k + 1
        inversions += (matched >> place).bit_count()
        matched |= 1 << place
        matches += 1
    if matches < 2:
        return below_two
    return 1 - inversions / (matches * (matches - 1) // 2)


def columns(path: Path, words: Iterable[Path]) -> Iterator[tuple[Path, int, int]]:
    """The last column of each word's distance table against x, read from the ends.

    Myers' bit-vector algorithm with x as the pattern. Words that end alike share their columns.
    LD(x, word) is the word's length, plus the rises, minus the falls.

    Yields:
        A word, and the places where its column rises and falls: with D(b) = LD(the last b
        tokens of x, word), bit b - 1 of the first says D(b) = D(b - 1) + 1, of the second - 1.
    """
    full = (1 << len(path)) - 1
    masks: dict[int, int] = {}
    for place, token in enumerate(reversed(path)):
        masks[token] = masks.get(token, 0) | 1 << place
    table = [(full, 0)]
    last: Path = ()
    for word in sorted(word[::-1] for word in words):
        shared = _shared(last, word)
        del table[shared + 1 :]
        for token in word[shared:]:
            table.append(_next_column(*table[-1], masks.get(token, 0), full))
        yield word[::-1], *table[-1]
        last = word


def _shared(first: Path, second: Path) -> int:
    """Length of the common prefix."""
    pairs = enumerate(zip(first, second, strict=False))
    shorter = min(len(first), len(second))
    return next((place for place, (a, b) in pairs if a != b), shorter)


def _next_column(plus: int, minus: int, equal: int, full: int) -> tuple[int, int]:
    """One more token of the word: Hyyrö's form of the step for the global distance."""
    diagonal = ((((equal & plus) + plus) ^ plus) | equal) & full
    right = (minus | (full ^ (diagonal | plus))) << 1 | 1
    either = equal | minus
    return ((plus & diagonal) << 1 | ~(either | right)) & full, right & either
