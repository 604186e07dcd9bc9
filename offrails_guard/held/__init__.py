"""Decisions that are kept until their calls are made, in this process or in files."""
