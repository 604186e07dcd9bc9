"""What Inspect loads: the hook, where its extra (`offrails[inspect]`) is installed, else nothing."""

from contextlib import suppress

with suppress(ImportError):
    from harness.exchange import inspect_hook as inspect_hook  # noqa: PLC0414 - it registers itself
