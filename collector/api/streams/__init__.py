"""Responses that stay open: verdicts, and changes of sessions, as they happen."""
