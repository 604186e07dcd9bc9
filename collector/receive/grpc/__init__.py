"""OTLP over gRPC: a server of our own (builtin_server.py), or grpcio's (grpcio_server.py)."""
