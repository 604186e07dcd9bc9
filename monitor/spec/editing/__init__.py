"""Changes of a spec's text that leave the rest as it was written."""
