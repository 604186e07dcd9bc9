"""Limits on time, and the verdicts on a session that they give."""
