"""Overlapping calls: the orders they may have had, and the order that is taken. Which calls overlap: `log/overlap_groups`."""
