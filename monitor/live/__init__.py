"""All sessions of a monitor: one state, and what is done with it."""
