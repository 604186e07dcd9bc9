"""Automata: the table (dfa.py), questions about it (paths.py), positions and pictures."""
