"""OTLP over gRPC, on HTTP/2 connections of our own."""
