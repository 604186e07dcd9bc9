"""The metrics listener: what is counted, as text for Prometheus."""
