"""Spans to tool calls: which spans are one call, and whose session it belongs to."""
