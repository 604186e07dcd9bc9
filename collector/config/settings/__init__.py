"""One file a section: its keys, what they default to, what is refused."""
