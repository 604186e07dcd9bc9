"""The metrics listener: counters and sums as text for Prometheus."""
