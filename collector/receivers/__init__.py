"""OTLP over gRPC and HTTP; both end in `export.Export`."""

from __future__ import annotations
