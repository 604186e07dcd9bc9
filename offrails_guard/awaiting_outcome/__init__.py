"""Ids of decisions whose calls are on their way, in this process or in files."""
