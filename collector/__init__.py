"""The process: receives spans, reads tool calls from them, and delivers verdicts.

    bytes -> Span        receive/, decode/
    Span -> ToolCall     dialects/, calls/
    ToolCall -> Verdict  calls/batch, which gives the calls to the library `monitor`
    Verdict -> people    sinks/, metrics/, api/

`app/` builds and runs the service, `cli/` has the verbs. ARCHITECTURE.md has the layers.
"""

__version__ = "0.2.0"
"""Version of the distribution. Reading it from the installed metadata would load 2 MB."""
