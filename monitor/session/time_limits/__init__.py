"""Limits on time, and the verdicts on a session that they give: which there are is in `judge/deadlines_and_traps`."""
