"""Names of scopes that several dialects ask for: one reads their spans, and another leaves them alone."""

from __future__ import annotations

from typing import Final

__all__ = ["AGENTOPS_CLIENTS", "DAPR_SCOPE"]

AGENTOPS_CLIENTS: Final = "agentops.instrumentation.providers."
DAPR_SCOPE: Final = "dapr_agents."
