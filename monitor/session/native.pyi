def append(
    rows: bytearray, at: int, times: int, span: bytes, meta: int, tool: int, token: int, /
) -> None:
    """Adds a row behind all others: what it holds, in its order (`log.py`)."""

def names(contexts: bytes, span_id: bytes, /) -> bool:
    """Whether a span id, of eight bytes, is the parent in one of the contexts (`log.py`)."""
