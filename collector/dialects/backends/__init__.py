"""SDKs of tracing services."""
