"""Overlapping calls: the orders they may have had, and the order that is taken."""
