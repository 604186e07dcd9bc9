"""OTLP over gRPC and HTTP; both end in `export.Export`."""
