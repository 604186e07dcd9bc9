"""What a tool returned, as its span has it: it is decoded and read once a spec asks for it.

Idea: a spec asks for results of a tool, and few of the sessions that call the tool are judged under it. To decode a result,
to take off what frameworks put around it, and to keep what specs ask for takes a third of a span's time. So a span hands on
the undecoded value, and the session's specs have it read.

Invariant: nothing depends on when a result is read. What holds unread results reads them before it drops anything for a bound.

Example: a result of 4 KB of JSON, of a session whose specs ask for none, is kept as bytes as long as its call may get
further spans or its session another spec, and then freed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mypy_extensions import mypyc_attr

from collector.decode.span import Codec
from collector.dialects.values.returned import returned
from monitor.records import Returned, UnreadResult, result_in
from monitor.value_paths import ValuePath, pruned
from monitor.weights import ITEM_BYTES, result_bytes, value_bytes

__all__ = ["FirstResult", "SpanResult"]

_BYTES: Final = 2 * ITEM_BYTES
"""What such a result takes beside its value."""

_UNREAD_BYTES: Final = 6 * ITEM_BYTES
"""The same while it is unread: as much as a short result takes once it is read, so that it is read once."""


@mypyc_attr(acyclic=True)
class SpanResult(UnreadResult):
    """What an attribute of a span says of its tool's result.

    Args:
        codec: that decodes the value.
        raw: value of the attribute.
        quoted: whether all values are written as JSON there.
        paths: what specs ask for of the result.
        other: what counts if this cannot be read; None for nothing.
    """

    __slots__ = ("_codec", "_kept", "_other", "_paths", "_quoted", "_raw", "_size")

    def __init__(
        self,
        codec: Codec,
        raw: Any,
        quoted: bool,
        paths: tuple[ValuePath, ...],
        other: SpanResult | None = None,
    ) -> None:
        self._codec = codec
        self._raw = raw
        self._quoted = quoted
        self._paths = paths
        self._other = other
        self._kept: tuple[Any, ...] | None = None
        """What was read, if it is lighter than the raw value: then it takes its place."""
        self._size = _UNREAD_BYTES + (len(raw) if type(raw) is bytes else value_bytes(raw))
        if other is not None:
            self._size += other.size()

    def read(self) -> tuple[Any, ...]:
        """The result as far as specs ask for it."""
        if self._kept is not None:
            return self._kept
        found = returned(self._codec.value(self._raw), quoted=self._quoted)
        if found:
            found = (pruned(found[0], self._paths),)
        elif self._other is not None:
            found = self._other.read()
        size = _BYTES + value_bytes(found)
        if size <= self._size:
            self._kept, self._raw, self._other, self._size = found, None, None, size
        return found

    def size(self) -> int:
        """Approximate bytes."""
        return self._size


@mypyc_attr(acyclic=True)
class FirstResult(UnreadResult):
    """What several spans of one call say of its result, best first: the first that is known counts."""

    __slots__ = ("_each",)

    def __init__(self, each: Sequence[Returned]) -> None:
        self._each = each

    def read(self) -> tuple[Any, ...]:
        """The result as far as specs ask for it."""
        return next((known for each in self._each if (known := result_in(each))), ())

    def size(self) -> int:
        """Approximate bytes."""
        return _BYTES + sum(map(result_bytes, self._each))
