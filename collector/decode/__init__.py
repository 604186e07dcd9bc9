"""Decodes OTLP request bodies: two encodings, one record (`span.Span`), equal decoded values."""

from __future__ import annotations
