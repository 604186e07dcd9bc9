"""OTLP bodies to spans: two encodings, one record (`span.Span`), the same decoded values."""

from __future__ import annotations
