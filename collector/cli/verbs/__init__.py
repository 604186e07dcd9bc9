"""The verbs, a module each: `add` declares its options, `run` does it. What does the work is loaded when asked for."""
