from collections.abc import Callable

from collector.decode.recurring import ProtoCodec
from collector.decode.span import Resource, Span

class Reader:
    """Reads the bodies of requests whose every part is written as encoders usually write it."""

    def __init__(
        self,
        *,
        shape: Callable[[bytes], tuple[str, ...] | None],
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
