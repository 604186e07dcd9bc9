"""Agents and specs over days: what the session view shows first."""
