"""Network code that listeners and clients share."""
