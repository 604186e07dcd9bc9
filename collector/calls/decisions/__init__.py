"""Calls that an agent asked about: decided, confirmed, denied."""
