"""MCP: Traceloop's instrumentation, and the spans of the Python SDK and of FastMCP.

The SDK's own spans never carry arguments. There a call is a chain of up to three spans: client
over transport over server. Only its name identifies the transport span.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping, request_form
from collector.dialects.values.results import of_mcp

__all__ = ["MCP", "MCP_SEND", "MCP_TRACELOOP"]

_NAME = "(?:MCP send )?tools/call (?P<tool>.+)"
_ARGUMENTS = (
    ArgumentSource("gen_ai.tool.call.arguments", mapping),
    ArgumentSource("mcp.tool.arguments", mapping),
)

MCP_TRACELOOP = Dialect(
    name="mcp_traceloop",
    scopes=("opentelemetry.instrumentation.mcp", "@traceloop/instrumentation-mcp"),
    when=("traceloop.span.kind",),
    values={"traceloop.span.kind": frozenset({"tool"})},
    tool=("traceloop.entity.name",),
    span_name="(?P<tool>.+?)(?:\\.tool)?",
    arguments=(ArgumentSource("traceloop.entity.input", request_form),),
    failed_result=("traceloop.entity.output",),
    says_failed=of_mcp,
    switch="TRACELOOP_TRACE_CONTENT=true",
)

_FAILED = {"mcp.result.is_error": frozenset({"true"})}

MCP = Dialect(
    name="mcp",
    when=("mcp.method.name",),
    values={"mcp.method.name": frozenset({"tools/call"})},
    tool=("gen_ai.tool.name", "mcp.tool.name"),
    span_name=_NAME + "|.*",
    arguments=_ARGUMENTS,
    call_id=("gen_ai.tool.call.id",),
    request_id=("jsonrpc.request.id", "mcp.request.id"),
    version="mcp.protocol.version",
    failed=_FAILED,
)

MCP_SEND = Dialect(
    name="mcp",
    scopes=("mcp-python-sdk", "fastmcp"),
    unless=("mcp.method.name",),
    tool=("gen_ai.tool.name",),
    span_name=_NAME,
    arguments=_ARGUMENTS,
    call_id=("gen_ai.tool.call.id",),
    request_id=("jsonrpc.request.id", "mcp.request.id"),
    version="mcp.protocol.version",
    failed=_FAILED,
)
