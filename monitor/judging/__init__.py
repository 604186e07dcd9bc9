"""Judging: binds specs to sessions, judges calls, watches deadlines, updates the sums."""
