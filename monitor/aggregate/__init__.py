"""Sums and samples over sessions: per agent and spec, without walking sessions."""
