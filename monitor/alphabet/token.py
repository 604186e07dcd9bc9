"""What a call is under a spec: made by `match` when the spec is compiled, its failed version by `failed_calls`."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.records import Reason

__all__ = ["Token", "add_token"]


@dataclass(frozen=True, slots=True)
class Token:
    """What a call is, by its tool, arguments and status."""

    symbols: tuple[int, ...]
    """Possible readings; () if nothing matches or the failure alone decides."""
    effect: bool = True
    """False for a failed call that changes nothing where it is defined."""
    reason: Reason | None = None
    """Why the call is harmful in every state; None if it is not."""
    exact: bool = True
    """False if arguments that decide on the symbol are unknown."""
    symbol: int | None = None
    """The symbol that tool and arguments match, also if the call failed; None for none or several."""
    sure: bool = True
    """False if the call may be none of the symbols, because arguments are unknown, or the tool is."""
    alike: bool = False
    """True if the call's name is only nearly that of the symbols' tools: it may mean another one."""
    named: bool = False
    """True for a failed call of one of the spec's symbols that is harmful because it failed."""
    falters: bool = False
    """True if it is not known whether the call failed."""
    vanishes: bool = False
    """True if the call may not have been made here at all."""


def add_token(tokens: list[Token], token: Token) -> int:
    """Appends a token; returns its id."""
    tokens.append(token)
    return len(tokens) - 1
