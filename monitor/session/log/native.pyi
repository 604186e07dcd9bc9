def append(
    rows: bytearray, at: int, times: int, span: bytes, meta: int, tool: int, token: int, /
) -> None:
    """Adds a row behind all others: what it holds, in its order (`rows.py`)."""

def add_id(ids: bytes, span_id: bytes, call_id: str, /) -> bytes | None:
    """The ids and one more, if it is ASCII and fits (`call_ids.py`); None of all others."""

def names(contexts: bytes, span_id: bytes, /) -> bool:
    """Whether a span id, of eight bytes, is the parent in one of the contexts (`rows.py`)."""
