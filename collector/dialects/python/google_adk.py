"""Google ADK: its own spans, old and new, and OpenInference's over them.

A tool that raises leaves a span without attributes in version 1.14, and in JavaScript even without a status: only
the name is left. In Python a long-running tool that has not answered yet leaves such a span, too. A turn of parallel
calls adds a span for the merged response, which is not a call. OpenInference replaces the scope of every span but
adds no attributes to that one. A tool that needs a confirmation runs twice: only the first result shows that it was
waiting.
"""

from collector.dialects.base import ArgumentSource, Dialect, Freshness
from collector.dialects.conventions.openinference import SWITCH, TOOL
from collector.dialects.values.arguments import mapping
from collector.dialects.values.results import of_adk

__all__ = ["GOOGLE_ADK", "GOOGLE_ADK_BARE", "GOOGLE_ADK_OPENINFERENCE"]

_CONTROL = frozenset({"transfer_to_agent", "(merged tools)", "(merged)"})
_NAME = "execute_tool (?P<tool>.+)"
_RESULTS = ("gen_ai.tool.call.result", "gcp.vertex.agent.tool_response")
_OPENINFERENCE = ("openinference.instrumentation.google_adk",)

_SCOPES = ("gcp.vertex.agent",)

GOOGLE_ADK = Dialect(
    name="google_adk",
    scopes=_SCOPES,
    when=("gen_ai.tool.name",),
    tool=("gen_ai.tool.name",),
    arguments=(
        ArgumentSource("gen_ai.tool.call.arguments", mapping),
        ArgumentSource("gcp.vertex.agent.tool_call_args", mapping),
    ),
    call_id=("gen_ai.tool.call.id",),
    failed_result=_RESULTS,
    says_failed=of_adk,
    control=_CONTROL,
    switch=(
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY and "
        "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"
    ),
    freshness=Freshness(messages=("gen_ai.input.messages",), scopes=_SCOPES),
)

GOOGLE_ADK_BARE = Dialect(
    name="google_adk",
    scopes=(*_SCOPES, *_OPENINFERENCE),
    unless=("gen_ai.tool.name", "tool.name"),
    span_name=_NAME,
    arguments=GOOGLE_ADK.arguments,
    call_id=("gen_ai.tool.call.id",),
    failed_result=_RESULTS,
    says_failed=of_adk,
    failed_without=("gen_ai.tool.name",),
    failed_without_but_in=frozenset({"python"}),
    control=_CONTROL,
    switch=GOOGLE_ADK.switch,
    freshness=Freshness(messages=("gcp.vertex.agent.llm_request",), scopes=_SCOPES),
)

GOOGLE_ADK_OPENINFERENCE = Dialect(
    name="google_adk_openinference",
    scopes=_OPENINFERENCE,
    some=("tool.name", "gen_ai.tool.name"),
    values=TOOL,
    tool=("gen_ai.tool.name", "tool.name"),
    arguments=(
        ArgumentSource("input.value", mapping),
        ArgumentSource("tool.parameters", mapping),
        ArgumentSource("gen_ai.tool.call.arguments", mapping),
        ArgumentSource("gcp.vertex.agent.tool_call_args", mapping),
    ),
    call_id=("gen_ai.tool.call.id", "tool.id"),
    failed_result=(*_RESULTS, "output.value"),
    says_failed=of_adk,
    control=_CONTROL,
    switch=SWITCH,
)
