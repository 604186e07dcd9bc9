"""Clocks of senders: calls whose times are not ours, are wrong, or are of several clocks."""
