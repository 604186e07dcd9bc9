"""One module per verb: `add` declares its options, `run` runs it and imports what it needs."""
