from collections.abc import Callable, Sequence
from typing import Any, Final

from collector.decode.protobuf.recurring import ProtoCodec
from collector.decode.span import Resource, Span

class Reader:
    """Reads the bodies of requests whose every part is written as encoders usually write it."""

    def __init__(
        self,
        *,
        shape: Callable[[tuple[str, ...]], tuple[str, ...] | None],
        resource: Callable[[bytes, ProtoCodec], Resource],
        scope: Callable[[bytes], str],
        sampled: Callable[[str], bool],
        span: Callable[..., Span],
        unusual: type[Exception],
        name_max: int,
        attributes_max: int,
    ) -> None: ...
    def __call__(self, body: bytes, codec: ProtoCodec, /) -> list[Span]:
        """The spans; raises `unusual` where the protobuf runtime has to read the body."""

def text(pair: bytes, /) -> str | None:
    """The text of a KeyValue that is a key and a string, and nothing else; None for all others."""

TEXT_BYTES_MAX: Final[int]

def text_at(values: Sequence[Any], index: int, /) -> str | None:
    """The same of a span's value of at most TEXT_BYTES_MAX; None of values of another reader."""

def recurring_at(values: Sequence[Any], index: int, /) -> str | None:
    """The same of a short text, which is remembered: one object for all that come alike."""

def came_as(values: Sequence[Any], index: int, raw: Any, /) -> bool:
    """Whether a span's raw value is equal to this one, of whatever reader."""

def all_came_as(values: Sequence[Any], known: tuple[tuple[int, Any], ...], /) -> bool:
    """The same of several raw values: an index and a value each."""
