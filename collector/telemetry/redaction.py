"""What must not be seen is taken out of texts, at the edges: before anything is shown, sent or kept.

Judging sees the texts of agents; people and other programs see this. A rule is an RE2 expression, and
what it matches becomes `[redacted]`, or under a `hash` rule a digest, so that equal texts stay
equal. Names (sessions, agents, tools, namespaces) always get the digest: two sessions must not
become one because their names are hidden.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from monitor.records import SessionKey

__all__ = [
    "REDACTED",
    "Redaction",
    "Rule",
    "hide",
    "key_of",
    "redacted",
    "redacted_names",
    "redacted_text",
    "rules",
]

REDACTED: Final = "[redacted]"
DIGEST_LETTERS: Final = 12
"""48 bits: of a million different texts two get one digest with a chance of one in five hundred."""
LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")
"""Digests without digits: no rule for numbers matches them again."""
KNOWN_MAX: Final = 100_000
"""Names that can be asked for by what is shown of them; the oldest are forgotten."""
PLAIN_KEYS: Final = frozenset({"trace_id", "span_id", "parent_span_id", "sha256_8", "version"})
"""Keys of objects whose values are no text of an agent, and useful only unchanged."""
AGENT_KEYS: Final = frozenset({"arguments", "tools"})
"""Keys of objects whose own keys are texts of an agent."""
VALUE_KEY: Final = "value"
"""Key of an agent's own value, in things."""
ASKED_KEYS: Final = frozenset({"session", "sessions", "namespace", "agent", "agents"})
"""Keys with names that the API can be asked for."""

_ASKED_BY: Final = ("agent", "namespace", "q")
"""Parameters of the API that hold such a name."""
NUMBER_KEYS: Final = frozenset({"intValue", "int_value", "doubleValue", "double_value"})
BYTES_KEYS: Final = frozenset({"bytesValue", "bytes_value"})
KEPT_ENDINGS: Final = ("raceId", "panId", "race_id", "pan_id", "UnixNano", "_unix_nano")
"""Endings of OTLP's own fields for ids and times."""

_PROCESS_KEY: Final = os.urandom(32)
"""Digests are keyed: else who guesses a text could check it. Without a key file, as long as the
process lives."""


class Rule(NamedTuple):
    """One expression, and what becomes of what it matches."""

    pattern: Any
    hashed: bool
    key: bytes

    def sub(self, mark: str, text: str) -> str:
        """The text without what matches; as compiled expressions have it."""
        found: str = self.pattern.sub(self.digest if self.hashed else mark, text)
        return found

    def digest(self, match: Any) -> str:
        found = match.group(0)
        if not found:
            return ""
        raw = hmac.new(self.key, found.encode(errors="surrogatepass"), hashlib.sha256)
        return f"[redacted:{raw.hexdigest()[:DIGEST_LETTERS].translate(LETTERS)}]"


def key_of(key_file: Path | None) -> bytes:
    """The key of digests: what the key file has, or one for as long as the process lives.

    A file may be a pipe, which can be read once.

    Raises:
        OSError: the key file cannot be read.
    """
    return _PROCESS_KEY if key_file is None else key_file.read_bytes().strip()


def rules(
    replace: Sequence[str], hashed: Sequence[str], key: bytes = _PROCESS_KEY
) -> tuple[Rule, ...]:
    """The rules of the settings, in order.

    Raises:
        ValueError: an expression is none.
    """
    given = [(each, False) for each in replace] + [(each, True) for each in hashed]
    if not given:
        return ()
    import re2  # only who has something to hide pays for it

    try:
        return tuple(Rule(re2.compile(each), of_hash, key) for each, of_hash in given)
    except re2.error as problem:
        raise ValueError(f"an expression is none of RE2: {problem}") from None


def redacted(text: str, by: Sequence[Rule]) -> str:
    """A text without what the rules match."""
    for rule in by:
        text = rule.sub(REDACTED, text)
    return text


def redacted_text(text: str, by: Sequence[Rule]) -> str:
    """A text of an agent without what the rules match; JSON stays JSON where that hides as much."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            whole = json.loads(text)
            hidden = _redacted_value(whole, partial(redacted_text, by=by))
        except (ValueError, RecursionError):
            return redacted(text, by)
        if hidden != whole:
            text = json.dumps(hidden, ensure_ascii=False)
    return redacted(text, by)


def hide(request: Any, by: Sequence[Rule]) -> None:
    """Take what the rules match out of an OTLP/JSON request, in place.

    All texts of it: names, keys, values, messages; numbers where they are an attribute's. Ids and
    times are left.
    """
    text = partial(redacted_text, by=by)
    waiting = [request]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            for key in [*each]:
                _hide_member(each, key, text)
            waiting += each.values()


def _hide_member(holder: dict[str, Any], key: str, text: Callable[[str], str]) -> None:
    value = holder[key]
    if key in NUMBER_KEYS:
        shown = text(str(value))
        if shown != str(value):
            del holder[key]
            holder["stringValue"] = shown
    elif key in BYTES_KEYS and isinstance(value, str):
        holder[key] = _hidden_bytes(value, text)
    elif isinstance(value, str) and not key.endswith(KEPT_ENDINGS):
        holder[key] = text(value)
    elif isinstance(value, list):
        holder[key] = [text(each) if isinstance(each, str) else each for each in value]


def _hidden_bytes(value: str, text: Callable[[str], str]) -> str:
    """Bytes may be a text; what is none is left."""
    try:
        decoded = base64.b64decode(value + "==").decode()
    except ValueError:
        return value
    shown = text(decoded)
    return value if shown == decoded else base64.b64encode(shown.encode()).decode()


def redacted_names(text: str, by: Sequence[Rule]) -> str:
    """A name without what the rules match; different names stay different."""
    for rule in by:
        text = rule._replace(hashed=True).sub(REDACTED, text)
    return text


Event = TypeVar("Event", bound=NamedTuple)


class Redaction:
    """The rules, as the edges use them.

    Args:
        by: the rules; without any, all is as it was.
        key: of digests.
    """

    def __init__(self, by: Sequence[Rule] = (), key: bytes = _PROCESS_KEY) -> None:
        self.rules = tuple(by)
        self.digest_key = hashlib.sha256(key).digest()
        """Key of the digests of values that are not shown, 32 bytes."""
        self._known: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.rules)

    def text(self, text: str) -> str:
        """What is shown of a text of an agent."""
        return redacted_text(text, self.rules)

    def name(self, text: str) -> str:
        """What is shown of a session's, an agent's or a tool's name."""
        return redacted_names(text, self.rules)

    def askable(self, text: str) -> str:
        """The same, of a name that somebody may ask for by what is shown of it."""
        shown = self.name(text)
        if shown != text and shown not in self._known:
            if len(self._known) >= KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[shown] = text
        return shown

    def original(self, shown: str) -> str:
        """The name behind what is shown, for whoever asks by it."""
        return self._known.get(shown, shown)

    def originals(self, query: Mapping[str, str]) -> dict[str, str]:
        """Parameters of a request that name something, with the names behind what is shown."""
        return {key: self.original(query[key]) for key in _ASKED_BY if key in query}

    def named(self, event: Event) -> Event:
        """A verdict, or the end of a session: what has a session, an agent, maybe a tool and a detail."""
        if not self.rules:
            return event
        record: Any = event
        key = SessionKey(*map(self.askable, record.session))
        more = {"tool": self.name(record.tool)} if hasattr(record, "tool") else {}
        if detail := getattr(record, "detail", ""):
            more["detail"] = self.text(detail)
        if (thing := getattr(record, "thing", None)) is not None:
            more["thing"] = thing._replace(value=self.value(thing.value))
        found: Event = record._replace(session=key, agent=self.askable(record.agent), **more)
        return found

    def shown(self, value: Any) -> Any:
        """A JSON-like value: names everywhere, and all values of agents' own."""
        return self._tree(value, self.name) if self.rules else value

    def value(self, value: Any) -> Any:
        """A JSON-like value of an agent's own: its texts, its numbers and its keys."""
        return _redacted_value(value, self.text) if self.rules else value

    def _tree(self, value: Any, name: Callable[[str], str]) -> Any:
        if isinstance(value, str):
            return name(value)
        if isinstance(value, Mapping):
            return {key: self._member(key, each, name) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._tree(each, name) for each in value]
        return value

    def _member(self, key: str, value: Any, name: Callable[[str], str]) -> Any:
        if key in PLAIN_KEYS:
            return value
        if key == VALUE_KEY:
            return self.value(value)
        if key in AGENT_KEYS:
            return _redacted_value(value, self.text if key == "arguments" else self.name)
        return self._tree(value, self.askable if key in ASKED_KEYS else name)


def _redacted_value(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {text(key): _redacted_value(each, text) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted_value(each, text) for each in value]
    if value is None or isinstance(value, bool):
        return value
    digits = str(value)
    shown = text(digits)
    return value if shown == digits else shown
