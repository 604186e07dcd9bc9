"""Specs tried on runs that are known to be good."""
