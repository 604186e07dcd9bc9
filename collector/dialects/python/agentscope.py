"""AgentScope: the GenAI conventions; the status is always OK, so only the result shows a failure."""

from dataclasses import replace

from collector.dialects.conventions.gen_ai import GEN_AI
from collector.dialects.values.results import of_agentscope

__all__ = ["AGENTSCOPE"]

AGENTSCOPE = replace(
    GEN_AI,
    name="agentscope",
    scopes=("agentscope",),
    failed_result=("gen_ai.tool.call.result",),
    says_failed=of_agentscope,
    switch="",
)
