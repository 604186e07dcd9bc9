"""OTLP in protobuf: request bodies to spans."""
