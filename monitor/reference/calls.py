"""One call as references see it: a digest of its arguments, and whether its tool writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from typing import Any, Final

__all__ = ["digest", "digest_of_text", "seems_to_write"]

DIGEST_BYTES: Final = 6
"""Bytes of a digest. Among ten thousand different arguments, two collide with a chance of one in
five million."""

WRITING: Final = frozenset(
    [
        "add",
        "append",
        "apply",
        "approve",
        "archive",
        "assign",
        "book",
        "buy",
        "cancel",
        "change",
        "charge",
        "close",
        "commit",
        "confirm",
        "copy",
        "create",
        "deactivate",
        "decline",
        "delete",
        "deploy",
        "disable",
        "drop",
        "edit",
        "enable",
        "execute",
        "exchange",
        "grant",
        "insert",
        "install",
        "invite",
        "issue",
        "kill",
        "lock",
        "merge",
        "modify",
        "move",
        "open",
        "order",
        "pay",
        "post",
        "publish",
        "purchase",
        "push",
        "put",
        "redeem",
        "refund",
        "register",
        "reject",
        "release",
        "remove",
        "rename",
        "replace",
        "reply",
        "reschedule",
        "reset",
        "reserve",
        "restart",
        "resume",
        "return",
        "revoke",
        "save",
        "schedule",
        "send",
        "set",
        "share",
        "start",
        "stop",
        "submit",
        "subscribe",
        "suspend",
        "terminate",
        "transfer",
        "uninstall",
        "unlock",
        "unsubscribe",
        "update",
        "upload",
        "upsert",
        "withdraw",
        "write",
    ]
)
"""Verbs that change something, as tools are named by."""

READING: Final = frozenset(
    [
        "check",
        "calculate",
        "compute",
        "count",
        "describe",
        "exists",
        "fetch",
        "find",
        "get",
        "has",
        "inspect",
        "is",
        "list",
        "load",
        "lookup",
        "look",
        "query",
        "read",
        "retrieve",
        "scan",
        "search",
        "select",
        "show",
        "think",
        "validate",
        "verify",
        "view",
    ]
)

_HAND_OVER: Final = re.compile(r"(?:transfer|hand_?off|escalate)(?:_|\b).*(?:human|agent)")
"""A change of speaker writes nothing."""

_FLOAT: Final = re.compile(rb"[0-9][.eE]")
"""What every number has that is not written as an integer, and some texts."""

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def digest(arguments: Mapping[str, Any]) -> str:
    """A short digest of arguments: the same for equal ones, whatever their order; 1 is 1.0.

    Arguments are the user's data: a reference holds their digests, never themselves.
    """
    text = _text(arguments)
    if _FLOAT.search(text):
        text = _text(_plain(arguments))
    return blake2b(text, digest_size=DIGEST_BYTES).hexdigest()


def digest_of_text(text: str) -> str:
    """A short digest of one argument, by its text (`monitor.scores.consistency.text_of`); 3 and 3.0 have the same."""
    whole = text.removesuffix(".0")
    text = whole if whole.removeprefix("-").isdecimal() else text
    return blake2b(text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


@cache
def _encoder() -> Any:
    # Loaded with the first reference: judging alone needs no JSON.
    import msgspec

    return msgspec.json.Encoder(order="deterministic")


def _text(value: Any) -> bytes:
    try:
        text: bytes = _encoder().encode(value)
    except (TypeError, ValueError, OverflowError):
        # Numbers beyond 64 bits, halves of surrogate pairs: rare, so that it may be slow.
        return json.dumps(value, sort_keys=True, default=str).encode()
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def seems_to_write(tool: str) -> bool:
    """A guess from the tool's name: the first verb that is known decides; without one, no."""
    if _HAND_OVER.search(tool.lower()):
        return False
    for word in map(str.lower, _WORDS.findall(tool)):
        if word in WRITING:
            return True
        if word in READING:
            return False
    return False
