"""Traces as trees: spans, what is known of each, and traces that are settled."""
