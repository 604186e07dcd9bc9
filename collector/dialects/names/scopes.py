"""Scope names that several dialects refer to: one reads the spans, another excludes them."""

from __future__ import annotations

from typing import Final

__all__ = ["AGENTOPS_CLIENTS", "DAPR_SCOPE"]

AGENTOPS_CLIENTS: Final = "agentops.instrumentation.providers."
DAPR_SCOPE: Final = "dapr_agents."
