"""A document's meaning: automaton, alphabet, limits, and findings."""
