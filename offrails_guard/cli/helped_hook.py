"""A hook for which a helper answers. Every hook loads this file, so it loads little."""

from __future__ import annotations

import io
import sys

from offrails_guard.cli.resident import EVENT_BYTES_MAX, answer_of

__all__ = ["answered"]


def answered(arguments: list[str]) -> int | None:
    """The exit code, once the helper's answer is printed; None if the hook is to ask for itself.

    It finds the event on standard input then, too.
    """
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        return None
    found = answer_of(arguments, lambda: sys.stdin.buffer.read(EVENT_BYTES_MAX))
    if found is None:
        return None
    if isinstance(found, bytes):
        sys.stdin = io.TextIOWrapper(io.BytesIO(found))
        return None
    code, out, err = found
    for stream, text in ((sys.stdout, out), (sys.stderr, err)):
        if text:
            stream.buffer.write(text.encode(errors="replace") + b"\n")
            stream.flush()
    return code
