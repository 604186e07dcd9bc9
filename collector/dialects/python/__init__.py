"""Frameworks for Python."""
