"""Frameworks for other languages."""
