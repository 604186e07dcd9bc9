"""Sums as Prometheus families."""
