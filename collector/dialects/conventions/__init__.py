"""Conventions that many frameworks share."""
