"""Which spans are one call, and whether an execution is told twice.

What comes twice is told apart by what is equal:

    duplicate_spans (beside this folder)  a span with the ids of a judged span, sent again: dropped
    repeated_call_ids   another span whose call has the id of an earlier call: its call is in doubt
    lone_echoes         a span alone in its trace, without any id, while an equal call runs in another: its call is in doubt
    in_process_mcp      a span of an MCP server within the span of its agent's call: it is that call

A failed attempt that a framework retries within one call is none of these: `calls/call/retried_attempts`.
"""
