"""Deciding: what calls would be, before they are made."""
