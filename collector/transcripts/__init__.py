"""A session's spans as one text that a reader can follow: steps in time order, with short ids and a budget of tokens."""
