"""What a session keeps for rules over data, of all its specs: what was seen under each, and what the user said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from monitor.session.data.amounts_and_dates import readings_in
from monitor.session.data.seen_values import SeenValues, UserText
from monitor.session.data.value_digests import digest_of, numbers_in, words_of
from monitor.session.judge.judge import Judge

__all__ = ["SessionData", "earliest", "news_of"]

TEXTS_MAX: Final = 1_024
"""Messages of the user that one session keeps."""

FIRST_TEXTS_MAX: Final = 16
"""Messages of the user that are kept before the first call of a session."""

FIRST_WORDS_BYTES_MAX: Final = 1 << 18
"""Bytes of all words that are kept of them. A longest message fits: a session without calls is weighed by nobody."""

TEXT_LENGTH_MAX: Final = 65_536
"""Characters of one message that are read."""

WORDS_BYTES_MAX: Final = 1 << 20
"""Bytes of all words that a session keeps of its user."""

_TEXT_BYTES: Final = 300


class SessionData:
    """What one session has seen of values."""

    __slots__ = ("_words", "dropped", "seen", "texts")

    def __init__(self) -> None:
        self.seen: dict[Judge, SeenValues] = {}
        """Values seen, by the judge of a spec with rules over data."""
        self.texts: dict[int, UserText] = {}
        """Messages of the user, by the digest of the text."""
        self.dropped = False
        """True if messages, or ends of them, were dropped for a bound."""
        self._words = 0
        """Bytes of the words in `texts`."""

    def copy(self) -> SessionData:
        """The same, to be changed apart from now on."""
        twin = SessionData()
        twin.seen = {judge: each.copy() for judge, each in self.seen.items()}
        twin.texts, twin.dropped, twin._words = dict(self.texts), self.dropped, self._words
        return twin

    def size(self) -> int:
        """Approximate bytes."""
        seen = sum([each.size() for each in self.seen.values()])
        return seen + self._words + _TEXT_BYTES * len(self.texts)

    def of(self, judge: Judge) -> SeenValues:
        """What was seen under a spec."""
        found = self.seen.get(judge)
        if found is None:
            found = self.seen[judge] = SeenValues()
        return found

    def hear(self, text: UserText) -> None:
        """Takes a message of the user; of equal ones the earliest counts."""
        known = self.texts.get(text.key)
        if known is not None and known.at_ns <= text.at_ns:
            return
        # To the calls before it a message is nothing; but the first one shows that messages are seen.
        since_ns = text.at_ns if self.texts else 0
        self._take_out(text.key)
        self.texts[text.key] = text
        self._words += _weight(text)
        if self._make_room() or (text.is_cut and not self.dropped):
            self.dropped, since_ns = True, 0
        self.touch(since_ns)

    def _make_room(self) -> bool:
        """Drops the earliest messages beyond the bounds; True if there were some."""
        count = len(self.texts)
        while len(self.texts) > TEXTS_MAX or (
            self._words > WORDS_BYTES_MAX and len(self.texts) > 1
        ):
            self._take_out(min(self.texts, key=self._time))
        return len(self.texts) < count

    def _take_out(self, key: int) -> None:
        known = self.texts.pop(key, None)
        if known is not None:
            self._words -= _weight(known)

    def _time(self, key: int) -> tuple[int, int]:
        return self.texts[key].at_ns, key

    def keep(self, judges: Collection[Judge]) -> None:
        """Forgets what was seen under specs that are the session's no more."""
        for judge in [each for each in self.seen if each not in judges]:
            del self.seen[judge]

    def touch(self, since_ns: int = 0) -> None:
        """Something has changed that calls from a time on may depend on."""
        for each in self.seen.values():
            each.touch(since_ns)

    def absorb(self, other: SessionData) -> int:
        """Takes over what another session has seen; returns how many records went for a bound."""
        for text in other.texts.values():
            self.hear(text)
        self.dropped = self.dropped or other.dropped
        count = sum([self.of(judge).absorb(each) for judge, each in other.seen.items()])
        self.touch()
        return count


def _weight(text: UserText) -> int:
    return len(text.words) + len(text.folded_words) + 40 * len(text.readings)


def news_of(texts: Iterable[str], at_ns: int, known: Mapping[int, UserText]) -> list[UserText]:
    """Those of some messages that are not known, or were said earlier than is known, as they are kept.

    Each request of a model tells the whole conversation again: what is known is not split into words once more.

    Args:
        texts: of the messages.
        at_ns: by when they were said, Unix nanoseconds.
        known: messages by the digests of their texts.
    """
    found: list[UserText] = []
    for text in texts:
        key = digest_of(text)
        before = known.get(key)
        if before is None:
            found.append(_user_text(key, text, at_ns))
        elif at_ns < before.at_ns:
            found.append(before._replace(at_ns=at_ns))
    return found


def _user_text(key: int, text: str, at_ns: int) -> UserText:
    cut = text[:TEXT_LENGTH_MAX]
    words, folded = words_of(cut), words_of(cut, folded=True)
    readings = (*numbers_in(cut), *readings_in(cut))
    return UserText(key, at_ns, len(cut) < len(text), words, folded, readings)


def earliest(texts: Iterable[UserText]) -> tuple[UserText, ...]:
    """The first of some messages, each once: as many as are kept of a session without calls."""
    found: dict[int, UserText] = {}
    for each in sorted(texts, key=lambda each: (each.at_ns, each.key)):
        found.setdefault(each.key, each)
    kept = list(found.values())
    count = min(FIRST_TEXTS_MAX, _fitting(kept))
    if len(kept) > count:  # what the others said is not known
        kept[count - 1 :] = [kept[count - 1]._replace(is_cut=True)]
    return tuple(kept)


def _fitting(texts: Sequence[UserText]) -> int:
    """How many of some messages are kept for their words' bytes: one at least."""
    weights = accumulate(_weight(each) for each in texts)
    return max(1, sum(weight <= FIRST_WORDS_BYTES_MAX for weight in weights))
