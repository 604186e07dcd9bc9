"""From a tool call to a token: argument patterns (pattern.py) and the alphabet (alphabet.py)."""
