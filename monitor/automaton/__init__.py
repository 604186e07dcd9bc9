"""Automata: the table (dfa.py), its graph (paths.py), positions (position.py)."""
