"""Verbs that work on files: recorded runs, specs and references."""
