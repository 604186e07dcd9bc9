"""OTLP over HTTP/1.1, and the HTTP server of every listener."""
