"""References: what repeated runs of an agent look like, and how a session departs from it."""
