"""Which things a call is about: the values that an `each` finds in its arguments.

Idea: a spec with `each` has one automaton for each *thing* (parametric trace slicing): for an order, the calls that carry
its number, and the calls of tools that `each` does not name. `EachRule.of_call` says what a call carries, as small keys that
are compared instead of values.

Invariants:

- Two values have one key exactly if they are equal as patterns compare them: 5 is 5.0, and never "5" or true.
- A call of a named tool has some key, or may carry values that are not known. Without any value it is of the thing `none`
  (`NO_VALUE`).

Example: under `{order: {refund: order_id, cancel_many: "orders[*]"}}` the call `cancel_many(orders=["A1", "A1", "B7"])`
carries the keys of A1 and B7; `login` carries none, and is of every thing; `refund` without its arguments may be of any.

Source: parametric trace slicing, Chen and Roșu, TACAS 2009.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

from monitor.value_paths import ValuePath

__all__ = [
    "ACROSS",
    "KEY_BYTES",
    "NO_VALUE",
    "VALUES_MAX",
    "Across",
    "CallThings",
    "EachRule",
    "ThingPath",
    "thing_key",
    "thing_text",
]

KEY_BYTES: Final = 15
"""A key and its length take 48 bytes in all."""

NO_VALUE: Final = bytes(KEY_BYTES)
"""The key of the thing `none`: calls of named tools that are known to carry no value."""

VALUES_MAX: Final = 256
"""Values of one call. Further ones are unknown: the call may be of any thing."""

LONG_BITS: Final = 400

SHOWN_MAX: Final = 120
"""Characters of a value's text that are kept to be shown."""


Across = Literal["session", "agent", "namespace"]
"""Whose calls one thing has: those of one session, or of all sessions of an agent or a namespace."""

ACROSS: Final[dict[str, Across]] = {
    "session": "session",
    "agent": "agent",
    "namespace": "namespace",
}
"""The values of `across`, by themselves."""


class ThingPath(NamedTuple):
    """Where a tool's calls carry values."""

    path: ValuePath
    as_text: bool = False
    """True if texts are compared, without regard to case and outer space."""


class CallThings(NamedTuple):
    """The things that one call of a named tool is about."""

    keys: tuple[bytes, ...]
    """Keys of the values that it is known to carry, each once, in the order found."""
    is_open: bool
    """True if it may carry others, too: values that are not known."""
    values: tuple[Any, ...] = ()
    """The values, by `keys`, where they may be shown."""


class EachRule:
    """What one spec has an automaton for each of.

    Args:
        name: of the kind of thing, for people.
        tools: tool -> where its calls carry values.
        across: whose calls one thing has.
        within_ns: a thing is forgotten this long after its last call, in nanoseconds; 0: never.
    """

    __slots__ = ("across", "name", "tools", "within_ns")

    def __init__(
        self,
        name: str,
        tools: Mapping[str, Sequence[ThingPath]],
        across: Across = "session",
        within_ns: int = 0,
    ) -> None:
        self.name = name
        self.across: Across = across
        self.within_ns = within_ns
        self.tools: dict[str, tuple[ThingPath, ...]] = {
            tool: tuple(paths) for tool, paths in tools.items()
        }

    @property
    def written(self) -> tuple[object, ...]:
        """What two rules have in common that read alike."""
        tools = tuple(
            (tool, tuple((path.text, as_text) for path, as_text in paths))
            for tool, paths in sorted(self.tools.items())
        )
        return self.name, tools, self.across, self.within_ns

    @property
    def is_shared(self) -> bool:
        """True if several sessions have one thing in common."""
        return self.across != "session"

    def of_call(
        self, tool: str, arguments: Mapping[str, Any] | None, *, shown: bool = False
    ) -> CallThings | None:
        """The things of a call; None if its tool is not named.

        Args:
            tool: of the call.
            arguments: None if they are not known.
            shown: True keeps the values.
        """
        paths = self.tools.get(tool)
        if paths is None:
            return None
        if arguments is None:
            return CallThings((), is_open=True)
        found: dict[bytes, Any] = {}
        is_open = False
        for path, as_text in paths:
            values = path.of_call(arguments)
            is_open = is_open or values is None
            for value in values or ():
                key = thing_key(value, as_text=as_text)
                if key is None or len(found) >= VALUES_MAX:
                    is_open = is_open or value is not None
                else:
                    found.setdefault(key, value)
        if not found and not is_open:
            found[NO_VALUE] = None
        kept = tuple(_short(each) for each in found.values()) if shown else ()
        return CallThings(tuple(found), is_open, kept)


def thing_key(value: Any, *, as_text: bool = False) -> bytes | None:
    """What a value is known by; None for null, a list or a mapping, which are no things."""
    text = _canonical(value, as_text=as_text)
    if text is None:
        return None
    return blake2b(text.encode(errors="surrogatepass"), digest_size=KEY_BYTES).digest()


def _canonical(value: Any, *, as_text: bool) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or not isinstance(value, str | int | float):
        return None
    if as_text:
        value = thing_text(value).strip().casefold()
    return json.dumps(value) if isinstance(value, str) else thing_text(value)


def thing_text(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, str):
        return value
    # Python writes no decimal numbers of thousands of digits.
    return hex(value) if _is_long(value) else json.dumps(value)


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and value.bit_length() > LONG_BITS


def _short(value: Any) -> Any:
    """A value that is short enough to be kept."""
    text = value if isinstance(value, str) else hex(value) if _is_long(value) else ""
    if not text:
        return value
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"
