"""Coding agents, by the spans of their own programs."""
