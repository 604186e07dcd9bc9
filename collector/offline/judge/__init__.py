"""Judging recorded sessions by models: what judges are given of each, and the run."""
