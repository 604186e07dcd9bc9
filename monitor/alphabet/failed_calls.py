"""What a failed call means under a spec: nothing, a harm, or what it would mean if it had not failed.

The convention `failed_calls` says it for all symbols. A symbol with the condition that its calls failed takes them as calls
that did not fail (`match`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from monitor.alphabet.call_facts import FAILED
from monitor.alphabet.pattern import Pattern
from monitor.alphabet.token import Token, add_token
from monitor.records import Reason

__all__ = ["FailedCalls", "failed_versions", "is_upset"]

FailedCalls = Literal["no_effect", "harmful", "ordinary"]


def failed_versions(
    plain: Sequence[Token],
    first: int,
    tokens: list[Token],
    failed_calls: FailedCalls,
    *,
    open_world: bool,
) -> tuple[int, ...]:
    """Appends the failed versions of some tokens, of which the first has a given id."""
    if failed_calls == "ordinary":
        return tuple(range(first, first + len(plain)))
    if failed_calls == "harmful":
        return tuple(
            add_token(tokens, _harmful(token, open_world=open_world)) for token in plain
        )
    return tuple(
        add_token(tokens, replace(token, effect=False)) if token.symbols else index
        for index, token in enumerate(plain, first)
    )


def _harmful(token: Token, *, open_world: bool) -> Token:
    """A failed call, under `failed_calls: harmful`. In an open world only calls of the symbols are harmful."""
    return Token(
        (),
        reason=Reason.FAILED_CALL,
        # If it is harmful under every reading, nothing about it is unknown.
        exact=token.sure or not open_world,
        symbol=token.symbol,
        sure=token.sure,
        alike=token.alike,
        named=bool(token.symbols),
    )


def is_upset(patterns: Mapping[str, Pattern] | None) -> bool:
    """True for a symbol of calls that failed."""
    found = (patterns or {}).get(FAILED)
    return found is not None and found.operand is True
