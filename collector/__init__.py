"""The process: it receives spans, reads calls from them, and tells the world what they were.

    bytes -> Span        receivers/, decode/
    Span -> ToolCall     dialects/, one_call.py, sessions.py
    ToolCall -> Verdict  pipeline.py, which asks the library `monitor`
    Verdict -> people    metrics.py, admin.py, sinks/

`app.py` builds it, `cli.py` runs it.
"""

__version__ = "0.1.0"
"""Of the distribution. Asking the installed metadata for it would load 2 MB."""
