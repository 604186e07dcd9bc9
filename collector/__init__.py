"""The process: it receives spans, reads calls from them, and tells the world what they were.

    bytes -> Span        receivers/, decode/
    Span -> ToolCall     dialects/, one_call.py, sessions.py
    ToolCall -> Verdict  pipeline.py, which asks the library `monitor`
    Verdict -> people    metrics.py, admin.py, sinks/

`app.py` builds it, `cli.py` runs it.
"""
