"""Recordings of real agents, beside the checkout: `../shared/captures`, one folder an instrumentation, one file a run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.samples import sampled

__all__ = ["CAPTURES", "FEW", "NO_CAPTURES", "SAMPLED_CAPTURES", "capture_name"]

ENDING: Final = ".otlp.jsonl"
FOLDER: Final = Path(__file__).parents[1] / ".." / "shared" / "captures"
CAPTURES: Final = sorted(FOLDER.glob(f"*/*{ENDING}"))
NO_CAPTURES: Final = "no captures beside the repository"
FEW: Final = [
    FOLDER / f"{name}{ENDING}"
    for name in (
        "langchain-openinference/parallel",
        "langchain-traceloop/error_raise",
        "mcp-traceloop/error",
        "openai-agents-openinference/handoff",
        "otel-genai-semconv-nocontent/harmful",
        "otel-genai-semconv-structured-grpc/golden",
        "otel-genai-semconv/two_sessions",
        "pydantic-ai/session",
    )
]
SAMPLED_CAPTURES: Final = sampled(CAPTURES, FEW)
"""All of them as parameters: each instrumentation and each kind of run once in `make test`."""


def capture_name(path: Path) -> str:
    """Instrumentation and run."""
    return f"{path.parent.name}/{path.name.removesuffix(ENDING)}"
