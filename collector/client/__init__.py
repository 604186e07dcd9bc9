"""Verbs that ask a running service."""
