"""OTLP in JSON: request bodies to spans."""
