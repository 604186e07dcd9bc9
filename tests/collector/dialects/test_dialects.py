"""Each instrumentation's own way to write a tool call, row by row."""

from __future__ import annotations

import base64
import json
from itertools import permutations, product
from typing import Any, NamedTuple

import msgspec
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.decode.json import otlp_json
from collector.decode.protobuf import otlp_proto
from collector.dialects.choose import MARK_MAX, SESSION_KEYS, SLOTS, Plans
from collector.dialects.outputs import outputs_of, requested
from collector.dialects.plan import Plan
from collector.dialects.read import agent_of

GUARDED = ("traceloop.span.kind", "gen_ai.operation.name")
MOVE = {"x": 3, "y": 4}
AS_JSON = json.dumps(MOVE)
OI = "openinference.instrumentation."
OI_JS = "@arizeai/openinference-instrumentation-"
OI_TOOL = {"tool.name": "move", "openinference.span.kind": "TOOL"}
SCHEMA = json.dumps({"type": "object", "properties": {"x": {"type": "integer"}}})
GEN = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "move"}
CALLBACK = json.dumps(
    {
        "input_str": "{'x': 3, 'y': 4}",
        "tags": ["seq:step:1"],
        "metadata": {},
        "inputs": MOVE,
        "kwargs": {"tool_call_id": "call_1", "color": "green"},
    }
)
CLAUDE_CODE = "com.anthropic.claude_code.tracing"
CLAUDE_LANGSMITH = {
    "langsmith.span.kind": "tool",
    "langsmith.metadata.ls_integration": "claude-agent-sdk",
}
TRACEABLE = {"langsmith.span.kind": "tool", "langsmith.traceable": "true"}
VERCEL_LANGSMITH = {**TRACEABLE, "langsmith.metadata.ls_integration": "vercel-ai-sdk"}
EXCEPTION = ("exception", {"exception.type": "Exception", "exception.message": "stuck"})

EXECUTED = {"toolCallId": "call_1", "messages": [{"role": "user", "content": "go"}]}
"""What the Vercel AI SDK gives to a tool beside its arguments."""

GEMINI = {
    "gen_ai.operation.name": "tool_call",
    "gen_ai.tool.name": "move",
    "gen_ai.tool.call_id": "call_1",
    "gen_ai.agent.name": "gemini-cli",
}
GEMINI_ASKED = json.dumps({"callId": "call_1", "name": "move", "args": MOVE, "display": {}})
OPENHANDS = {
    "lmnr.span.type": "TOOL",
    "lmnr.association.properties.metadata.tool_call_id": "call_1",
}
UPSONIC = {"upsonic.tool.name": "move", "upsonic.tool.call_id": "call_1"}
LLAMA_STACK = "llama_stack.providers.inline.responses.builtin.responses."
SEMANTIC_KERNEL_JAVA = {
    "semantic_kernel.function.invocation.name": "move",
    "semantic_kernel.function.invocation.plugin_name": "rover",
}
ADK_RUST = {
    "tool.name": "move",
    "gcp.vertex.agent.invocation_id": "inv-1",
    "gcp.vertex.agent.session_id": "field-7",
}
EINO = "github.com/cloudwego/eino-ext/callbacks/apmplus"
EINO_TOOL = {"runinfo.component": "Tool", "runinfo.name": "move", "runinfo.type": "Move"}
AGENTSCOPE = "\"ToolResponse(content=[TextBlock(text='stuck')], state=<ToolResultState.{}>)\""
DAPR = "dapr_agents.observability.instrumentor"
DAPR_TOOL = {
    **GEN,
    **OI_TOOL,
    "agent.name": "AgentToolExecutor",
    "input.value": json.dumps({"tool_name": "move", "args": [], "kwargs": MOVE}),
}
LETTA = {"parameter.function_name": "move", "parameter.function_args": str(MOVE)}
NEMO_FUNCTION = {
    "openinference.span.kind": "CHAIN",
    "nat.event_type": "FUNCTION_START",
    "nat.framework": "unknown",
    "nat.function.name": "move",
    "nat.function.parent_id": "a31d",
    "nat.subspan.name": "move",
    "input.value": AS_JSON,
    "input.mime_type": "application/json",
}
NEMO_RETURNED = {**NEMO_FUNCTION, "output.value": "at 3,4"}
NEMO_TOOL = {
    "openinference.span.kind": "TOOL",
    "nat.event_type": "TOOL_START",
    "nat.framework": "langchain",
    "nat.function.name": "<workflow>",
    "nat.subspan.name": "move",
    "input.value": str(MOVE),
    "output.value": "at 3,4",
}
CODEX = {"codex.tool.phase": "dispatch", "tool_name": "move", "call_id": "call_1"}


class Row(NamedTuple):
    """A span as an instrumentation writes it, and what it says."""

    name: str
    scope: str
    attributes: dict[str, Any]
    arguments: Any = MOVE
    tool: str = "move"
    call_id: str | None = None
    error: bool = False
    kind: int = 1
    status: int = 0
    events: tuple[Any, ...] = ()


BEEAI_JS = {"openinference.span.kind": "TOOL", "traceId": "380fed81"}
GEN_ID = {**GEN, "gen_ai.tool.call.id": "call_1"}
ARGS = {"gen_ai.tool.call.arguments": AS_JSON}
VERCEL_PROCESSED = {**OI_TOOL, "ai.toolCall.name": "move", "ai.toolCall.id": "call_1"}
VERCEL_7_PROCESSED = {**OI_TOOL, **GEN_ID, "gen_ai.execute_tool.duration": 0.01}
UNCONFIRMED = '{"error": "This tool call requires confirmation, please approve or reject."}'
CALL_FORM = json.dumps({"args": [], "kwargs": MOVE})

ROWS = {
    "semconv": Row("execute_tool move", "my.app", {**GEN_ID, **ARGS}, call_id="call_1"),
    "semconv-structured": Row(
        "execute_tool move", "my.app", {**GEN, "gen_ai.tool.call.arguments": MOVE}
    ),
    "semconv-nocontent": Row("execute_tool move", "my.app", GEN_ID, None, call_id="call_1"),
    "semconv-error-type": Row(
        "execute_tool move", "my.app", {**GEN, "error.type": "ValueError"}, None, error=True
    ),
    "pydantic-ai": Row(
        "execute_tool move", "pydantic-ai", {**GEN_ID, **ARGS}, call_id="call_1"
    ),
    "pydantic-ai-v2": Row(
        "running tool",
        "pydantic-ai",
        {
            "gen_ai.tool.name": "move",
            "gen_ai.tool.call.id": "call_1",
            "tool_arguments": AS_JSON,
            "tool_response": "at 3,4",
        },
        call_id="call_1",
    ),
    "logfire-pydantic-ai": Row(
        "execute_tool move",
        "pydantic-ai",
        {**GEN_ID, **ARGS, "logfire.span_type": "span", "logfire.msg": "running tool: move"},
        call_id="call_1",
    ),
    "openai-agents-otel-v2": Row(
        "execute_tool move", "opentelemetry.instrumentation.openai_agents", {**GEN, **ARGS}
    ),
    "openai-agents-traceloop": Row(
        "move.tool",
        "opentelemetry.instrumentation.openai_agents",
        {
            "traceloop.span.kind": "tool",
            "gen_ai.tool.name": "move",
            "gen_ai.tool.type": "FunctionTool",
            **ARGS,
        },
    ),
    "openai-agents-openinference": Row(
        "move",
        OI + "openai_agents",
        {**OI_TOOL, "input.value": AS_JSON, "tool.parameters": SCHEMA},
    ),
    "openai-agents-openinference-hidden": Row(
        "move",
        OI + "openai_agents",
        {**OI_TOOL, "input.value": "__REDACTED__", "tool.parameters": SCHEMA},
        None,
    ),
    "langchain-openinference": Row(
        "move",
        OI + "langchain",
        {**OI_TOOL, "input.value": AS_JSON, "input.mime_type": "application/json"},
    ),
    "langchain-openinference-bare": Row(
        "move", OI + "langchain", {**OI_TOOL, "input.value": '{"x": 3, "y": 4}'}, None
    ),
    "langchain-traceloop": Row(
        "execute_tool move",
        "opentelemetry.instrumentation.langchain",
        {
            **GEN,
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "move",
            "gen_ai.tool.call.arguments": CALLBACK,
            "traceloop.entity.input": CALLBACK,
            "gen_ai.task.status": "success",
        },
        call_id="call_1",
    ),
    "langchain-langsmith": Row(
        "move",
        "langsmith",
        {
            "langsmith.span.kind": "tool",
            **GEN_ID,
            "gen_ai.prompt": AS_JSON,
            "gen_ai.completion": "at 3,4",
        },
        call_id="call_1",
        status=1,
    ),
    "langchain-langsmith-error": Row(
        "move",
        "langsmith",
        {"langsmith.span.kind": "tool", **GEN_ID, "gen_ai.prompt": AS_JSON},
        call_id="call_1",
        status=1,
        events=(EXCEPTION,),
        error=True,
    ),
    "langsmith-traceable": Row(
        "move", "langsmith", {**TRACEABLE, **GEN, "gen_ai.prompt": AS_JSON}
    ),
    "langsmith-traceable-no-arguments": Row(
        "move", "langsmith", {**TRACEABLE, **GEN, "gen_ai.prompt": "{}"}, {}
    ),
    "langsmith-traceable-by-position": Row(
        "move", "langsmith", {**TRACEABLE, **GEN, "gen_ai.prompt": '{"args":[3,4]}'}, None
    ),
    "langsmith-traceable-deep-by-position": Row(
        "move",
        "langsmith",
        {**TRACEABLE, **GEN, "gen_ai.prompt": f'{{"args":[{"[" * 99}{"]" * 99},4]}}'},
        None,
    ),
    "langsmith-traceable-text": Row(
        "move", "langsmith", {**TRACEABLE, **GEN, "gen_ai.prompt": '{"input":"north"}'}, None
    ),
    "langsmith-traceable-object-named-input": Row(
        "move",
        "langsmith",
        {**TRACEABLE, **GEN, "gen_ai.prompt": json.dumps({"input": MOVE})},
        {"input": MOVE},
    ),
    "langsmith-input": Row(
        "move",
        "langsmith",
        {"langsmith.span.kind": "tool", **GEN, "gen_ai.prompt": '{"input":"north"}'},
        {"input": "north"},
    ),
    "vercel-ai-langsmith": Row(
        "move",
        "langsmith",
        {**VERCEL_LANGSMITH, **GEN, "gen_ai.prompt": json.dumps({"args": [MOVE, EXECUTED]})},
        call_id="call_1",
    ),
    "vercel-ai-langsmith-deep-messages": Row(
        "move",
        "langsmith",
        {
            **VERCEL_LANGSMITH,
            **GEN,
            "gen_ai.prompt": json.dumps(
                {"args": [MOVE, {**EXECUTED, "messages": [json.loads("[" * 98 + "]" * 98)]}]}
            ),
        },
        call_id="call_1",
    ),
    "vercel-ai-langsmith-error": Row(
        "move",
        "langsmith",
        {**VERCEL_LANGSMITH, **GEN, "gen_ai.prompt": json.dumps({"args": [{}, EXECUTED]})},
        {},
        call_id="call_1",
        status=1,
        events=(EXCEPTION,),
        error=True,
    ),
    "vercel-ai-langsmith-traceable-within": Row(
        "move",
        "langsmith",
        {**VERCEL_LANGSMITH, **GEN, "gen_ai.prompt": json.dumps({"args": [MOVE, {"a": 1}]})},
        None,
    ),
    "mcp-traceloop": Row(
        "move.tool",
        "opentelemetry.instrumentation.mcp.instrumentation",
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "move",
            "traceloop.entity.input": json.dumps({"tool_name": "move", "arguments": MOVE}),
            "traceloop.entity.output": json.dumps({"result": "at 3,4"}),
        },
    ),
    "mcp-traceloop-error": Row(
        "move.tool",
        "opentelemetry.instrumentation.mcp.instrumentation",
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "move",
            "traceloop.entity.input": json.dumps({"tool_name": "move", "arguments": MOVE}),
            "traceloop.entity.output": json.dumps({"result": "stuck", "is_error": True}),
        },
        error=True,
    ),
    "mcp-traceloop-js-error": Row(
        "move.tool",
        "@traceloop/instrumentation-mcp",
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "move",
            "traceloop.entity.input": json.dumps({"tool_name": "move", "arguments": MOVE}),
            "traceloop.entity.output": json.dumps({"result": "stuck", "is_error": True}),
        },
        kind=3,
        status=2,
        error=True,
    ),
    "mcp2-native-server": Row(
        "tools/call move",
        "mcp-python-sdk",
        {
            "gen_ai.tool.name": "move",
            "mcp.method.name": "tools/call",
            "jsonrpc.request.id": "2",
        },
        None,
        call_id="2",
        kind=2,
    ),
    "mcp2-native-client": Row("MCP send tools/call move", "mcp-python-sdk", {}, None, kind=3),
    "fastmcp-client": Row(
        "tools/call move",
        "fastmcp",
        {"gen_ai.tool.name": "move", "mcp.method.name": "tools/call"},
        None,
        kind=3,
    ),
    "fastmcp-server": Row(
        "tools/call move", "fastmcp", {"fastmcp.component.key": "tool:move@"}, None, kind=2
    ),
    "smolagents": Row(
        "SimpleTool",
        OI + "smolagents",
        {
            **OI_TOOL,
            "input.value": json.dumps(
                {"args": [], "sanitize_inputs_outputs": True, "kwargs": MOVE}
            ),
            "tool.parameters": SCHEMA,
        },
    ),
    "strands": Row(
        "execute_tool move",
        "strands.telemetry.tracer",
        {**GEN_ID, "gen_ai.system": "strands-agents", "gen_ai.tool.status": "success"},
        call_id="call_1",
        events=(("gen_ai.tool.message", {"role": "tool", "content": AS_JSON, "id": "call_1"}),),
    ),
    "strands-error": Row(
        "execute_tool move",
        "strands.telemetry.tracer",
        {**GEN_ID, "gen_ai.tool.status": "error"},
        call_id="call_1",
        status=2,
        events=(("gen_ai.tool.message", {"content": AS_JSON}), EXCEPTION),
        error=True,
    ),
    "strands-genai-latest": Row(
        "execute_tool move",
        "strands.telemetry.tracer",
        {**GEN_ID, **ARGS, "gen_ai.provider.name": "strands-agents"},
        call_id="call_1",
        events=(
            (
                "gen_ai.client.inference.operation.details",
                {"gen_ai.output.messages": json.dumps([{"role": "tool", "parts": []}])},
            ),
        ),
    ),
    "strands-genai-latest-event": Row(
        "execute_tool move",
        "strands.telemetry.tracer",
        GEN_ID,
        call_id="call_1",
        events=(
            (
                "gen_ai.client.inference.operation.details",
                {
                    "gen_ai.input.messages": json.dumps(
                        [
                            {
                                "role": "tool",
                                "parts": [
                                    {"type": "tool_call", "name": "move", "arguments": MOVE}
                                ],
                            }
                        ]
                    )
                },
            ),
        ),
    ),
    "strands-openinference-processor": Row(
        "execute_tool move",
        "strands.telemetry.tracer",
        {
            **GEN_ID,
            **OI_TOOL,
            "gen_ai.tool.status": "success",
            "tool.name": "move",
            "tool.parameters": AS_JSON,
            "input.value": AS_JSON,
        },
        call_id="call_1",
    ),
    "strands-openinference-processor-hidden": Row(
        "execute_tool move",
        "strands.telemetry.tracer",
        {**GEN_ID, **OI_TOOL, "input.value": "__REDACTED__"},
        None,
        call_id="call_1",
    ),
    "gen-ai-openinference-processor": Row(
        "execute_tool move",
        "someone",
        {**GEN_ID, **OI_TOOL, "input.value": AS_JSON},
        call_id="call_1",
    ),
    "strands-0.2": Row(
        "Tool: move",
        "strands-agents",
        {"gen_ai.tool.name": "move", "gen_ai.tool.call.id": "call_1", "tool.status": "error"},
        call_id="call_1",
        status=1,
        events=(("gen_ai.tool.message", {"role": "tool", "content": AS_JSON}),),
        error=True,
    ),
    "strands-0.2-other-scope": Row(
        "Tool: move",
        "my.tracer",
        {"gen_ai.tool.name": "move", "tool.status": "error"},
        status=1,
        events=(("gen_ai.tool.message", {"role": "tool", "content": AS_JSON}),),
        error=True,
    ),
    "agent-framework": Row(
        "execute_tool move", "agent_framework", {**GEN_ID, **ARGS}, call_id="call_1"
    ),
    "agent-framework-no-arguments": Row(
        "execute_tool move",
        "agent_framework",
        {**GEN_ID, "gen_ai.tool.call.arguments": "None"},
        {},
        call_id="call_1",
    ),
    "semantic-kernel": Row(
        "execute_tool rover-move",
        "semantic_kernel.functions.kernel_function",
        {**GEN_ID, **ARGS, "gen_ai.tool.name": "rover-move"},
        tool="rover-move",
        call_id="call_1",
    ),
    "beeai-js": Row(
        "tool.dynamic.move.success-2",
        OI_JS + "beeai",
        {**BEEAI_JS, "tool.parameters": AS_JSON, "output.value": '{"result":"at 3,4"}'},
    ),
    "beeai-js-error": Row(
        "tool.dynamic.move.error-1",
        OI_JS + "beeai",
        {**BEEAI_JS, "tool.parameters": AS_JSON},
        status=2,
        error=True,
    ),
    "semantic-kernel-java": Row(
        "function_invocation rover-move",
        "SemanticKernel",
        SEMANTIC_KERNEL_JAVA,
        None,
        tool="rover-move",
    ),
    "semantic-kernel-java-error": Row(
        "function_invocation rover-move",
        "my.app",
        SEMANTIC_KERNEL_JAVA,
        None,
        tool="rover-move",
        error=True,
        status=2,
        events=(EXCEPTION,),
    ),
    "beeai": Row(
        "CustomTool",
        OI + "beeai",
        {**OI_TOOL, "input.value": json.dumps({"input": MOVE, "options": None})},
    ),
    "dspy": Row(
        "move.__call__",
        OI + "dspy",
        {"openinference.span.kind": "TOOL", "input.value": json.dumps({"kwargs": MOVE})},
    ),
    "dspy-async": Row(
        "move.acall",
        OI + "dspy",
        {"openinference.span.kind": "TOOL", "input.value": json.dumps({"kwargs": MOVE})},
    ),
    "ag2": Row(
        "move",
        OI + "ag2",
        {
            **OI_TOOL,
            "tool_call.function.arguments": AS_JSON,
            "input.value": json.dumps({"name": "move", "arguments": AS_JSON}),
        },
    ),
    "haystack": Row(
        "haystack.agent.step.tool",
        "haystack",
        {
            "haystack.tool.name": "move",
            "haystack.agent.step.tool.input": AS_JSON,
            "haystack.tool.error": False,
        },
    ),
    "haystack-error": Row(
        "haystack.agent.step.tool",
        "haystack",
        {
            "haystack.tool.name": "move",
            "haystack.agent.step.tool.input": AS_JSON,
            "haystack.tool.error": True,
        },
        error=True,
    ),
    "mlflow": Row(
        "move",
        "mlflow.tracing.provider",
        {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": AS_JSON},
    ),
    "datadog": Row(
        "move",
        "",
        {
            "_dd.llmobs.artificial_gen_ai_tags": "true",
            "gen_ai.operation.name": "tool",
            "_llmobs": msgspec.msgpack.encode(
                {"meta": {"input": {"value": AS_JSON}, "output": {"value": "{}"}}, "tags": {}}
            ),
        },
    ),
    "agentscope": Row(
        "execute_tool move",
        "agentscope",
        {**GEN_ID, **ARGS, "gen_ai.tool.call.result": AGENTSCOPE.format("SUCCESS: 'success'")},
        call_id="call_1",
        status=1,
    ),
    "agentscope-raised": Row(
        "execute_tool move",
        "agentscope",
        {**GEN_ID, **ARGS, "gen_ai.tool.call.result": AGENTSCOPE.format("ERROR: 'error'")},
        call_id="call_1",
        error=True,
        status=1,
    ),
    "dapr-agents": Row("execute_tool move", DAPR, {**DAPR_TOOL, "output.value": "at 3,4"}),
    "dapr-agents-raised": Row(
        "execute_tool move",
        DAPR,
        {
            **DAPR_TOOL,
            "output.value": "content=[TextContent(type='text', text=\"Error executing tool"
            " 'move': stuck\")] structuredContent=None isError=True",
        },
        error=True,
        status=1,
    ),
    "dapr-agents-tells-of-errors": Row(
        "execute_tool move", DAPR, {**DAPR_TOOL, "output.value": "isError=True"}
    ),
    "dapr-agents-another-program": Row(
        "execute_tool move",
        DAPR,
        {
            **DAPR_TOOL,
            "gen_ai.tool.call.id": "call_1",
            "input.value": json.dumps({"tool_name": "dig", "args": [], "kwargs": {}}),
        },
        {"tool_name": "dig", "args": [], "kwargs": {}},
        call_id="call_1",
    ),
    "letta": Row("ToolExecutionManager.execute_tool_async", "letta.otel.tracing", LETTA),
    "letta-empty": Row(
        "ToolExecutionManager.execute_tool_async",
        "letta.otel.tracing",
        {**LETTA, "parameter.function_args": "{}"},
        {},
    ),
    "nemo-function": Row("move", "nat", NEMO_RETURNED, status=1),
    "nemo-function-raised": Row("move", "nat", NEMO_FUNCTION, error=True, status=1),
    "nemo-function-shown-otherwise": Row("Moving", "nat", NEMO_RETURNED),
    "nemo-function-given-a-prompt": Row(
        "move",
        "nat",
        {key: each for key, each in NEMO_RETURNED.items() if key != "input.mime_type"},
        None,
    ),
    "nemo-tool": Row(
        "move", "nat", {**NEMO_TOOL, "nat.metadata": json.dumps({"tool_inputs": MOVE})}
    ),
    "nemo-tool-as-python-writes-it": Row(
        "move", "nat", {**NEMO_TOOL, "nat.metadata": str({"tool_inputs": MOVE})}
    ),
    "nemo-tool-given-a-text": Row(
        "move", "nat", {**NEMO_TOOL, "nat.metadata": json.dumps({"tool_inputs": None})}, None
    ),
    "agentops-decorator": Row(
        "move.tool",
        "agentops",
        {
            "agentops.span.kind": "tool",
            "operation.name": "move",
            "agentops.tool.input": json.dumps({"args": [], "kwargs": MOVE}),
        },
    ),
    "agentops-langchain": Row(
        "tool.tool",
        "agentops",
        {
            "agentops.span.kind": "tool",
            "agentops.operation.name": "tool",
            "langchain.tool.name": "move",
            "langchain.tool.input": str(MOVE),
        },
    ),
    "agentops-openai-agents": Row(
        "move",
        "openai-agents",
        {
            "agentops.span.kind": "tool",
            "tool.name": "move",
            "tool.parameters": AS_JSON,
            "tool.status": "succeeded",
        },
        kind=3,
    ),
    "agentops-openai-agents-raised": Row(
        "move",
        "openai-agents",
        {
            "agentops.span.kind": "tool",
            "tool.name": "move",
            "tool.parameters": AS_JSON,
            "tool.status": "succeeded",
        },
        kind=3,
        status=1,
        error=True,
        events=(EXCEPTION,),
    ),
    "langwatch": Row(
        "move",
        "langwatch",
        {
            "langwatch.span.type": "tool",
            "langwatch.input": json.dumps({"type": "json", "value": MOVE}),
        },
    ),
    "openai-agents-logfire": Row(
        "Function: {name}",
        "logfire.openai_agents",
        {"logfire.msg_template": "Function: {name}", "name": "move", "input": AS_JSON},
    ),
    "logfire-scrubbed": Row(
        "execute_tool move",
        "pydantic-ai",
        {
            **GEN,
            "gen_ai.tool.call.arguments": json.dumps({"x": "[Scrubbed due to 'session']"}),
            "logfire.scrubbed": json.dumps([{"path": ["attributes", "x"]}]),
        },
        None,
    ),
    "logfire-scrubbed-elsewhere": Row(
        "execute_tool move",
        "pydantic-ai",
        {**GEN, **ARGS, "logfire.scrubbed": json.dumps([{"path": ["attributes", "y"]}])},
    ),
    "langchain-openinference-failure-told": Row(
        "move",
        OI + "langchain",
        {
            **OI_TOOL,
            "tool.name": "move",
            "input.value": AS_JSON,
            "input.mime_type": "application/json",
            "output.value": json.dumps(
                {"data": {"content": "stuck", "tool_call_id": "call_1", "status": "error"}}
            ),
        },
        error=True,
    ),
    "langfuse-langchain": Row(
        "move",
        "langfuse-sdk",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.input": AS_JSON,
            "langfuse.observation.metadata.tool_call_id": '"call_1"',
        },
        call_id="call_1",
    ),
    "langfuse-message": Row(
        "move",
        "langfuse-sdk",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.input": AS_JSON,
            "langfuse.observation.output": json.dumps(
                {"content": "no", "type": "tool", "tool_call_id": "call_1", "status": "error"}
            ),
            "langfuse.observation.metadata.tool_call_id": '"call_1"',
        },
        call_id="call_1",
        error=True,
    ),
    "an-agent-that-says-scrubbed": Row(
        "execute_tool move",
        "pydantic-ai",
        {
            **GEN,
            "gen_ai.tool.call.arguments": json.dumps({"x": "[Scrubbed due to 'session']"}),
        },
        {"x": "[Scrubbed due to 'session']"},
    ),
    "mastra": Row(
        "execute_tool move", "@mastra/otel-exporter", {**GEN_ID, **ARGS}, call_id="call_1"
    ),
    "voltagent": Row(
        "tool.execution:move",
        "@voltagent/core",
        {
            "tool.name": "move",
            "tool.call.id": "call_1",
            "tool.parameters": SCHEMA,
            "input": AS_JSON,
        },
        call_id="call_1",
        kind=3,
    ),
    "genkit": Row(
        "move",
        "genkit-tracer",
        {
            "genkit:type": "action",
            "genkit:metadata:subtype": "tool",
            "genkit:name": "move",
            "genkit:input": AS_JSON,
            "genkit:state": "success",
        },
    ),
    "genkit-error": Row(
        "move",
        "genkit-tracer",
        {
            "genkit:metadata:subtype": "tool",
            "genkit:name": "move",
            "genkit:input": AS_JSON,
            "genkit:state": "error",
        },
        error=True,
    ),
    "eino": Row(
        "move", EINO, {**EINO_TOOL, "gen_ai.prompt.0.content": json.dumps(AS_JSON)}, kind=3
    ),
    "eino-error": Row(
        "move",
        EINO,
        {**EINO_TOOL, "gen_ai.prompt.0.content": json.dumps(AS_JSON)},
        error=True,
        kind=3,
        status=2,
        events=(EXCEPTION,),
    ),
    "eino-no-arguments": Row(
        "move", EINO, {**EINO_TOOL, "gen_ai.prompt.0.content": '"{}"'}, {}, kind=3
    ),
    "eino-many-media": Row(
        "move",
        EINO,
        {**EINO_TOOL, "gen_ai.prompt.0.content": json.dumps({"text": AS_JSON})},
        kind=3,
    ),
    "eino-own-callback": Row(
        "move",
        EINO,
        {
            **EINO_TOOL,
            "gen_ai.prompt.0.content": json.dumps({"ArgumentsInJSON": AS_JSON, "Extra": None}),
        },
        kind=3,
    ),
    "eino-an-argument-named-text": Row(
        "move",
        EINO,
        {**EINO_TOOL, "gen_ai.prompt.0.content": json.dumps('{"text": "{}"}')},
        {"text": "{}"},
        kind=3,
    ),
    "eino-a-text-that-is-none": Row(
        "move", EINO, {**EINO_TOOL, "gen_ai.prompt.0.content": '{"text": 1}'}, None, kind=3
    ),
    "eino-cut-off": Row(
        "move", EINO, {**EINO_TOOL, "gen_ai.prompt.0.content": '{"text": "{'}, None, kind=3
    ),
    "adk-rust": Row(
        "execute_tool move",
        "adk-telemetry",
        ADK_RUST,
        events=(("tool_call", {"level": "DEBUG", "tool.name": "move", "tool.args": AS_JSON}),),
    ),
    "adk-rust-retried": Row(
        "execute_tool move",
        "my.app",
        ADK_RUST,
        events=(
            ("tool_call", {"tool.args": AS_JSON, "attempt": 0}),
            ("tool_call", {"tool.args": AS_JSON, "attempt": 1}),
        ),
    ),
    "adk-rust-no-debugging": Row("execute_tool move", "adk-telemetry", ADK_RUST, None),
    "adk-rust-cut-off": Row(
        "execute_tool move",
        "adk-telemetry",
        ADK_RUST,
        None,
        events=(("tool_call", {"tool.args": '{"x": 3, "y...[truncated 9 bytes]'}),),
    ),
    "tanstack-ai": Row(
        "execute_tool move",
        "my.app",
        {
            "gen_ai.tool.name": "move",
            "gen_ai.tool.call.id": "call_1",
            "gen_ai.input.messages": json.dumps([{"role": "tool", "content": AS_JSON}]),
            "gen_ai.output.messages": json.dumps([{"role": "tool", "content": '{"error": 1}'}]),
            "tanstack.ai.tool.outcome": "success",
        },
        call_id="call_1",
    ),
    "tanstack-ai-failed": Row(
        "execute_tool move",
        "my.app",
        {"gen_ai.tool.name": "move", "tanstack.ai.tool.outcome": "error"},
        None,
        error=True,
    ),
    "trpc-agent": Row("execute_tool move", "trpc.agent.go", {**GEN, **ARGS}),
    "langchain-js": Row(
        "move",
        OI_JS + "langchain",
        {**OI_TOOL, "input.value": AS_JSON, "input.mime_type": "application/json"},
    ),
    "langchain-js-one-text": Row(
        "scan",
        OI_JS + "langchain",
        {
            **OI_TOOL,
            "tool.name": "scan",
            "input.value": "field 3",
            "input.mime_type": "text/plain",
        },
        None,
        tool="scan",
    ),
    "google-adk": Row(
        "execute_tool move",
        "gcp.vertex.agent",
        {**GEN_ID, "gen_ai.tool.type": "FunctionTool", "gen_ai.agent.name": "rover"},
        None,
        call_id="call_1",
    ),
    "google-adk-content": Row(
        "execute_tool move", "gcp.vertex.agent", {**GEN_ID, **ARGS}, call_id="call_1"
    ),
    "google-adk-1.14": Row(
        "execute_tool move",
        "gcp.vertex.agent",
        {**GEN_ID, "gcp.vertex.agent.tool_call_args": AS_JSON},
        call_id="call_1",
    ),
    "google-adk-1.14-raised": Row(
        "execute_tool move",
        "gcp.vertex.agent",
        {},
        None,
        status=2,
        events=(EXCEPTION,),
        error=True,
    ),
    "google-adk-openinference": Row(
        "execute_tool move",
        OI + "google_adk",
        {
            **GEN_ID,
            **OI_TOOL,
            "tool.id": "call_1",
            "input.value": AS_JSON,
            "tool.parameters": AS_JSON,
        },
        call_id="call_1",
    ),
    "google-adk-openinference-empty": Row(
        "execute_tool move", OI + "google_adk", {**GEN_ID, **OI_TOOL}, None, call_id="call_1"
    ),
    "crewai": Row(
        "move.run",
        OI + "crewai",
        {**OI_TOOL, "input.value": AS_JSON, "tool.parameters": SCHEMA},
    ),
    "crewai-splunk": Row(
        "execute_tool move",
        "opentelemetry.util.genai.handler",
        {
            **GEN_ID,
            "gen_ai.system": "crewai",
            "gen_ai.tool.call.arguments": str(
                {"input": {**MOVE, "security_context": {"a": {}}}}
            ),
        },
    ),
    "crewai-splunk-cut-off": Row(
        "execute_tool move",
        "opentelemetry.util.genai.handler",
        {**GEN_ID, "gen_ai.system": "crewai", "gen_ai.tool.call.arguments": "{'input': {'x'"},
        None,
    ),
    "autogen-native": Row(
        "execute_tool move",
        "autogen-core",
        {**GEN_ID, "gen_ai.system": "autogen"},
        None,
        call_id="call_1",
    ),
    "autogen-openinference": Row(
        "rover.move",
        OI + "autogen_agentchat",
        {**OI_TOOL, "input.value": AS_JSON, "tool.parameters": AS_JSON},
        status=1,
    ),
    "agno": Row(
        "move", OI + "agno", {**OI_TOOL, "input.value": AS_JSON, "tool.parameters": AS_JSON}
    ),
    "agno-traceloop": Row(
        "move.tool",
        "opentelemetry.instrumentation.agno",
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "move",
            "traceloop.entity.input": AS_JSON,
            "traceloop.entity.output": "status='success' result='at 3,4' error=None",
        },
    ),
    "agno-traceloop-error": Row(
        "move.tool",
        "opentelemetry.instrumentation.agno",
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "move",
            "traceloop.entity.input": AS_JSON,
            "traceloop.entity.output": "status='failure' result=None error='stuck'",
        },
        error=True,
    ),
    "llama-index-traceloop": Row(
        "FunctionAgent.task",
        "opentelemetry.instrumentation.llamaindex",
        {
            "traceloop.span.kind": "task",
            "tool.name": "move",
            "tool.arguments": AS_JSON,
            "traceloop.entity.output": json.dumps(
                {"tool_name": "move", "tool_output": {"is_error": False}}
            ),
        },
    ),
    "llama-index-traceloop-error": Row(
        "FunctionAgent.task",
        "opentelemetry.instrumentation.llamaindex",
        {
            "traceloop.span.kind": "task",
            "tool.name": "move",
            "tool.arguments": AS_JSON,
            "traceloop.entity.output": json.dumps(
                {"tool_name": "move", "tool_output": {"is_error": True}}
            ),
        },
        error=True,
    ),
    "langchain-openinference-interrupted": Row(
        "move",
        OI + "langchain",
        {**OI_TOOL, "input.value": AS_JSON, "input.mime_type": "application/json"},
        error=True,
        status=1,
        events=(("exception", {"exception.type": "langgraph.errors.GraphInterrupt"}),),
    ),
    "pydantic-ai-unapproved": Row(
        "execute_tool move",
        "pydantic-ai",
        {**GEN_ID, **ARGS, "pydantic_ai.tool.deferral.name": "ApprovalRequired"},
        call_id="call_1",
        error=True,
    ),
    "pydantic-ai-deferred": Row(
        "execute_tool move",
        "pydantic-ai",
        {**GEN_ID, **ARGS, "pydantic_ai.tool.deferral.name": "CallDeferred"},
        call_id="call_1",
    ),
    "adk-unconfirmed": Row(
        "execute_tool move",
        "gcp.vertex.agent",
        {**GEN_ID, **ARGS, "gen_ai.tool.call.result": UNCONFIRMED},
        call_id="call_1",
        error=True,
    ),
    "adk-openinference-unconfirmed": Row(
        "execute_tool move",
        OI + "google_adk",
        {
            **OI_TOOL,
            **GEN_ID,
            "input.value": AS_JSON,
            "output.value": f'{{"name": "move", "response": {UNCONFIRMED}}}',
        },
        call_id="call_1",
        error=True,
    ),
    "agno-parameters": Row("move", OI + "agno", {**OI_TOOL, "tool.parameters": AS_JSON}),
    "llama-index": Row(
        "FunctionTool.acall",
        OI + "llama_index",
        {**OI_TOOL, "input.value": json.dumps({"kwargs": MOVE}), "tool.parameters": SCHEMA},
    ),
    "llama-index-empty": Row(
        "FunctionTool.acall", OI + "llama_index", {**OI_TOOL, "input.value": "{}"}, {}
    ),
    "llama-index-is-error": Row(
        "FunctionTool.acall",
        OI + "llama_index",
        {
            **OI_TOOL,
            "input.value": json.dumps({"kwargs": MOVE}),
            "output.value": json.dumps(
                {"tool_name": "move", "raw_output": "stuck", "is_error": True}
            ),
        },
        error=True,
    ),
    "vercel-ai": Row(
        "ai.toolCall",
        "ai",
        {
            "ai.operationId": "ai.toolCall",
            "operation.name": "ai.toolCall",
            "ai.toolCall.name": "move",
            "ai.toolCall.id": "call_1",
            "ai.toolCall.args": AS_JSON,
        },
        call_id="call_1",
    ),
    "vercel-ai-openinference-after-another's-error": Row(
        "ai.toolCall rover",
        "ai",
        {**VERCEL_PROCESSED, "ai.toolCall.args": AS_JSON, "ai.toolCall.result": '"at 3,4"'},
        call_id="call_1",
        status=2,
    ),
    "vercel-ai-openinference-error": Row(
        "ai.toolCall rover",
        "ai",
        {**VERCEL_PROCESSED, "ai.toolCall.args": AS_JSON},
        call_id="call_1",
        status=2,
        error=True,
    ),
    "vercel-ai-status": Row(
        "ai.toolCall",
        "ai",
        {"ai.toolCall.name": "move", "ai.toolCall.args": AS_JSON, "ai.toolCall.result": "1"},
        status=2,
        error=True,
    ),
    "vercel-ai-7-openinference-after-another's-error": Row(
        "execute_tool move",
        "gen_ai",
        {**VERCEL_7_PROCESSED, **ARGS, "gen_ai.tool.call.result": '"at 3,4"'},
        call_id="call_1",
        status=2,
    ),
    "vercel-ai-7-openinference-error": Row(
        "execute_tool move",
        "gen_ai",
        {**VERCEL_7_PROCESSED, **ARGS},
        call_id="call_1",
        status=2,
        error=True,
    ),
    "semconv-openinference-status": Row(
        "execute_tool move",
        "my.app",
        {**VERCEL_7_PROCESSED, **ARGS, "gen_ai.tool.call.result": "stuck"},
        call_id="call_1",
        status=2,
        error=True,
    ),
    "sentry-vercel-ai": Row(
        "execute_tool move",
        "ai",
        {
            **GEN_ID,
            "sentry.op": "gen_ai.execute_tool",
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.args": AS_JSON,
        },
        call_id="call_1",
    ),
    "sentry-input": Row(
        "execute_tool move",
        "@sentry/node",
        {**GEN, "sentry.op": "gen_ai.execute_tool", "gen_ai.tool.input": AS_JSON},
    ),
    "sentry-text": Row(
        "execute_tool move",
        "@sentry/node",
        {**GEN, "sentry.op": "gen_ai.execute_tool", "gen_ai.tool.input": "north"},
        None,
    ),
    "sentry-conventions": Row(
        "execute_tool move", "my.app", {**GEN, "sentry.op": "default", **ARGS}
    ),
    "vercel-ai-noio": Row(
        "ai.toolCall",
        "ai",
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "move", "ai.toolCall.id": "c"},
        None,
        call_id="c",
    ),
    "gemini-cli": Row(
        "tool_call",
        "gemini-cli",
        {
            **GEMINI,
            "gen_ai.input.messages": GEMINI_ASKED,
            "gen_ai.output.messages": '{"status":"success","response":{"status":"error"}}',
        },
        call_id="call_1",
        status=1,
    ),
    "gemini-cli-off": Row("tool_call", "gemini-cli", GEMINI, None, call_id="call_1", status=1),
    "gemini-cli-cut-off": Row(
        "tool_call",
        "gemini-cli",
        {
            **GEMINI,
            "gen_ai.input.messages": GEMINI_ASKED[:40] + "...[TRUNCATED: original length 99]",
            "gen_ai.output.messages": '{"status":"error","request":{"ar...[TRUNCATED: original',
        },
        None,
        call_id="call_1",
        error=True,
        status=1,
    ),
    "gemini-cli-cancelled": Row(
        "tool_call",
        "gemini-cli",
        {
            **GEMINI,
            "gen_ai.input.messages": GEMINI_ASKED,
            "gen_ai.output.messages": '{"status":"cancelled","request":{}}',
        },
        call_id="call_1",
        error=True,
        status=1,
    ),
    "codex": Row("move", "codex_exec", {**CODEX, "aborted": False}, None, call_id="call_1"),
    "codex-aborted": Row(
        "move", "codex-tui", {**CODEX, "aborted": True}, None, call_id="call_1", error=True
    ),
    "codex-mcp": Row(
        "mcp.tools.call",
        "codex_exec",
        {
            "rpc.method": "tools/call",
            "mcp.server.name": "farm",
            "tool.name": "move",
            "tool.call_id": "call_1",
        },
        None,
        call_id="call_1",
        kind=3,
    ),
    "openhands": Row(
        "MoveAction",
        "lmnr.tracer",
        {
            **OPENHANDS,
            "lmnr.span.input": json.dumps({"action": {**MOVE, "kind": "MoveAction"}}),
            "lmnr.span.output": '{"content":[],"is_error":false,"kind":"MoveObservation"}',
        },
        tool="MoveAction",
        call_id="call_1",
    ),
    "openhands-off": Row(
        "MoveAction", "lmnr.tracer", OPENHANDS, None, tool="MoveAction", call_id="call_1"
    ),
    "openhands-refused": Row(
        "MoveAction",
        "lmnr.tracer",
        {
            **OPENHANDS,
            "lmnr.span.input": json.dumps({"tool_input": {**MOVE, "kind": "MoveAction"}}),
            "lmnr.span.output": '{"role":"tool","content":[],"tool_call_id":"call_1"}',
        },
        tool="MoveAction",
        call_id="call_1",
        error=True,
    ),
    "openhands-mcp": Row(
        "MCPToolAction",
        "lmnr.tracer",
        {
            **OPENHANDS,
            "lmnr.span.input": json.dumps({"action": {"data": MOVE, "kind": "MCPToolAction"}}),
        },
        tool="MCPToolAction",
        call_id="call_1",
    ),
    "opencode": Row(
        "Tool.execute",
        "opencode",
        {"tool.name": "move", "tool.call_id": "call_1", "message.id": "msg_1"},
        None,
        call_id="call_1",
    ),
    "upsonic": Row(
        "tool.execute",
        "upsonic",
        {
            **UPSONIC,
            "langfuse.observation.input": AS_JSON,
            "upsonic.tool.success": True,
            "langfuse.observation.output": json.dumps(str({"func": "at 3,4"})),
        },
        call_id="call_1",
        status=1,
    ),
    "llama-stack-mcp": Row(
        "invoke_mcp_tool",
        LLAMA_STACK + "tool_executor",
        {"server_label": "farm", "server_url": "http://farm/mcp", "tool_name": "move"},
        None,
    ),
    "llama-stack-raised": Row(
        "invoke_tool",
        LLAMA_STACK + "tool_executor",
        {"tool_name": "move"},
        None,
        error=True,
        status=2,
    ),
    "llama-stack-search": Row(
        "file_search", LLAMA_STACK + "tool_executor", {}, None, tool="file_search"
    ),
    "upsonic-hooked": Row(
        "tool.execute",
        "upsonic",
        {
            **UPSONIC,
            "langfuse.observation.output": json.dumps(
                str({"func_before": 1, "func": "at 3,4"})
            ),
        },
        None,
        call_id="call_1",
    ),
    "upsonic-raised": Row(
        "tool.execute",
        "upsonic",
        {
            **UPSONIC,
            "langfuse.observation.input": AS_JSON,
            "upsonic.tool.success": True,
            "langfuse.observation.output": json.dumps("wheel stuck"),
        },
        call_id="call_1",
        error=True,
        status=1,
    ),
    "upsonic-off": Row(
        "tool.execute",
        "upsonic",
        {**UPSONIC, "upsonic.tool.success": True},
        None,
        call_id="call_1",
    ),
    "traceloop-sdk": Row(
        "move.tool",
        "traceloop.tracer",
        {
            "traceloop.span.kind": "tool",
            "gen_ai.tool.name": "move",
            "traceloop.entity.name": "move",
            "traceloop.entity.input": CALL_FORM,
        },
    ),
    "traceloop-sdk-positional": Row(
        "move.tool",
        "traceloop.tracer",
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "move",
            "traceloop.entity.input": json.dumps({"args": [3, 4], "kwargs": {}}),
        },
        None,
    ),
    "langfuse": Row(
        "move",
        "langfuse-sdk",
        {"langfuse.observation.type": "tool", "langfuse.observation.input": CALL_FORM},
    ),
    "langfuse-error": Row(
        "move",
        "langfuse-sdk",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.input": CALL_FORM,
            "langfuse.observation.level": "ERROR",
        },
        error=True,
    ),
    # What nobody wrote a row for, but follows a convention in part.
    "part-of-gen-ai": Row(
        "do it", "unknown", {"gen_ai.tool.name": "move", "gen_ai.tool.call.arguments": AS_JSON}
    ),
    "rig-error": Row(
        "execute_tool move",
        "rig",
        {**GEN_ID, "gen_ai.tool.call.outcome": "error"},
        None,
        call_id="call_1",
        error=True,
    ),
    "mcp-agent": Row(
        "OpenAIAugmentedLLM.rover.execute_tool_call",
        "rover",
        {"gen_ai.tool.name": "move", "gen_ai.tool.call.id": "call_1", "tool_args": AS_JSON},
        call_id="call_1",
    ),
    "spring-ai-1": Row(
        "tool_call move",
        "org.springframework.boot",
        {
            "gen_ai.operation.name": "framework",
            "spring.ai.kind": "tool_call",
            "spring.ai.tool.definition.name": "move",
            "spring.ai.tool.call.arguments": AS_JSON,
            "spring.ai.tool.call.result": '"at 3,4"',
        },
    ),
    "spring-ai-2": Row(
        "execute_tool move",
        "org.springframework.boot",
        {
            "gen_ai.operation.name": "execute_tool",
            "spring.ai.tool.definition.name": "move",
            "spring.ai.tool.call.id": "call_1",
            "spring.ai.tool.call.arguments": AS_JSON,
        },
        call_id="call_1",
    ),
    "quarkus-langchain4j-error": Row(
        "langchain4j.tools.move",
        "io.quarkus.opentelemetry",
        {**GEN_ID, **ARGS},
        call_id="call_1",
        error=True,
        events=(EXCEPTION,),
    ),
    "laminar": Row(
        "move",
        "lmnr.tracer",
        {"lmnr.span.type": "TOOL", "lmnr.span.input": AS_JSON, "lmnr.span.output": '"at 3,4"'},
    ),
    "laminar-js-raised": Row(
        "move",
        "lmnr.tracer",
        {"lmnr.span.type": "TOOL", "lmnr.span.input": AS_JSON},
        error=True,
        events=(EXCEPTION,),
    ),
    "laminar-caught": Row(
        "move",
        "lmnr.tracer",
        {"lmnr.span.type": "TOOL", "lmnr.span.input": AS_JSON, "lmnr.span.output": '"at 3,4"'},
        events=(EXCEPTION,),
    ),
    "langchain-openlit": Row(
        "execute_tool move",
        "openlit.instrumentation.langchain",
        {**GEN_ID, "gen_ai.tool.call.arguments": "{'x': 3, 'y': 4}"},
        call_id="call_1",
    ),
    "langchain-openlit-no-literal": Row(
        "execute_tool move",
        "openlit.instrumentation.langchain",
        {**GEN_ID, "gen_ai.tool.call.arguments": "{'x': open('/etc/passwd')}"},
        None,
        call_id="call_1",
    ),
    "claude-code": Row(
        "claude_code.tool",
        CLAUDE_CODE,
        {
            "span.type": "tool",
            "tool_name": "mcp__farm__move",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "move",
            "gen_ai.tool.call.id": "toolu_1",
        },
        None,
        tool="mcp__farm__move",
        call_id="toolu_1",
    ),
    "claude-code-before-conventions": Row(
        "claude_code.tool",
        CLAUDE_CODE,
        {"span.type": "tool", "tool_name": "Bash", "full_command": "ls"},
        None,
        tool="Bash",
    ),
    "claude-openinference": Row(
        "mcp__farm__move",
        OI + "claude_agent_sdk",
        {
            **OI_TOOL,
            "tool.name": "mcp__farm__move",
            "tool.id": "toolu_1",
            "input.value": AS_JSON,
        },
        tool="mcp__farm__move",
        call_id="toolu_1",
    ),
    "claude-openinference-call-form": Row(
        "Run",
        OI + "claude_agent_sdk",
        {**OI_TOOL, "input.value": CALL_FORM},
        json.loads(CALL_FORM),
    ),
    "claude-logfire": Row(
        "execute_tool move",
        "logfire.claude_agent_sdk",
        {**GEN_ID, **ARGS, "gen_ai.tool.call.result": "[]"},
        call_id="call_1",
    ),
    "claude-logfire-not-carried-out": Row(
        "execute_tool move",
        "logfire.claude_agent_sdk",
        {**GEN_ID, **ARGS},
        call_id="call_1",
        error=True,
    ),
    "claude-langsmith": Row(
        "move",
        "langsmith",
        {**CLAUDE_LANGSMITH, **GEN_ID, "gen_ai.prompt": json.dumps({"input": MOVE})},
        call_id="call_1",
    ),
    "claude-langsmith-no-arguments": Row(
        "move", "langsmith", {**CLAUDE_LANGSMITH, **GEN, "gen_ai.prompt": "{}"}, {}
    ),
    "claude-langsmith-input-of-its-own": Row(
        "move",
        "langsmith",
        {**CLAUDE_LANGSMITH, **GEN, "gen_ai.prompt": json.dumps({"input": {"input": MOVE}})},
        {"input": MOVE},
    ),
    "claude-langsmith-error": Row(
        "move",
        "langsmith",
        {**CLAUDE_LANGSMITH, **GEN, "gen_ai.prompt": json.dumps({"input": MOVE})},
        error=True,
        status=1,
        events=(EXCEPTION,),
    ),
    "gen-ai-by-name": Row(
        "execute_tool move", "unknown", {"gen_ai.operation.name": "execute_tool"}, None
    ),
    "part-of-openinference": Row(
        "move", "unknown", {"openinference.span.kind": "TOOL", "input.value": AS_JSON}
    ),
    "tool-name-alone": Row("x", "unknown", {"tool.name": "move", "input.value": AS_JSON}),
    "other-traceloop": Row(
        "move.tool",
        "opentelemetry.instrumentation.other",
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "move"},
        None,
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_is_read_as_its_instrumentation_writes_it(
    wire: Any, bench: Any, row: Row
) -> None:
    """Tool, arguments, call id and error are found where this instrumentation puts them."""
    span = wire.span(
        row.name,
        row.attributes,
        scope=row.scope,
        kind=row.kind,
        status=row.status,
        events=row.events,
    )
    (step,) = bench().send(span).steps()

    assert (row.tool, row.arguments) == (step["tool"], step["arguments"])
    assert (row.error, row.call_id) == (step["error"], step["call_id"])


LOOK_ALIKES = {
    "chat": ("chat gpt-4o", "", {"gen_ai.operation.name": "chat", "gen_ai.tool.name": "move"}),
    "definitions": ("invoke_agent x", "", {"gen_ai.operation.name": "invoke_agent"}),
    "execute-task": (
        "execute_task tools",
        "opentelemetry.instrumentation.langchain",
        {"gen_ai.operation.name": "execute_task", "traceloop.span.kind": "task"},
    ),
    "tools-list": ("tools/list", "mcp-python-sdk", {"mcp.method.name": "tools/list"}),
    "tools-list-send": ("MCP send tools/list", "mcp-python-sdk", {}),
    "initialize": (
        "initialize.mcp",
        "opentelemetry.instrumentation.mcp.instrumentation",
        {"traceloop.entity.input": '{"method": "initialize"}'},
    ),
    "stream-writer": (
        "ResponseStreamWriter",
        "opentelemetry.instrumentation.mcp.instrumentation",
        {"mcp.request.id": "2"},
    ),
    "langfuse-span": (
        "move",
        "langfuse-sdk",
        {"langfuse.observation.type": "span", "langfuse.observation.input": CALL_FORM},
    ),
    "chain": ("tools", OI + "langchain", {"openinference.span.kind": "CHAIN"}),
    "call-tool": (
        "BaseWorkflowAgent.call_tool",
        OI + "llama_index",
        {"openinference.span.kind": "CHAIN", "input.value": "ToolCall(...)"},
    ),
    "langchain-js-openlit": (
        "execute_tool DynamicTool",
        "@openlit/instrumentation-langchain",
        {**GEN_ID, "gen_ai.tool.name": "DynamicTool"},
    ),
    "agentops-client": (
        "tool_call.move",
        "agentops.instrumentation.providers.openai.wrappers.chat",
        {"tool.name": "move", "tool.parameters": AS_JSON, "tool.call.id": "call_1"},
    ),
    "beeai-js-start": (
        "tool.dynamic.move.start-1",
        OI_JS + "beeai",
        {**BEEAI_JS, "tool.parameters": AS_JSON},
    ),
    "beeai-js-finish": ("tool.dynamic.move.finish-1", OI_JS + "beeai", BEEAI_JS),
    "beeai-js-agent": (
        "agent.react.toolStart-1",
        OI_JS + "beeai",
        {**BEEAI_JS, "tool.name": "move", "tool.parameters": AS_JSON},
    ),
    "beeai-js-main": ("beeai-framework-main", OI_JS + "beeai", BEEAI_JS),
    "dapr-step": (
        "rover.run_tool",
        DAPR,
        {
            "openinference.span.kind": "TOOL",
            "gen_ai.operation.name": "execute_tool",
            "agent.name": "rover",
            "workflow.activity": "run_tool",
            "input.value": json.dumps({"tool_call": {"id": "call_1"}, "order": 0}),
        },
    ),
    "letta-below": ("SandboxToolExecutor.execute", "letta.otel.tracing", LETTA),
    "nemo-workflow": (
        "<workflow>",
        "nat",
        {**NEMO_RETURNED, "nat.function.parent_id": "root"},
    ),
    "nemo-chain": (
        "RunnableSequence",
        "nat",
        {**NEMO_RETURNED, "nat.framework": "langchain"},
    ),
    "nemo-run": ("rover", "nat", {**NEMO_RETURNED, "nat.event_type": "WORKFLOW_START"}),
    "beeai-error": ("error", OI + "beeai", {"openinference.span.kind": "TOOL"}),
    "openai-agents-js-tools-list": (
        "mcp_tools",
        OI_JS + "openai-agents",
        {"openinference.span.kind": "TOOL", "output.value": '["move"]'},
    ),
    "mlflow-agent": ("move", "mlflow", {"mlflow.spanType": '"AGENT"'}),
    "logfire-turn": (
        "Turn {turn} for agent rover",
        "logfire.openai_agents",
        {"logfire.msg_template": "Turn {turn} for agent {name!r}", "name": "rover"},
    ),
    "genkit-flow": (
        "water",
        "genkit-tracer",
        {"genkit:metadata:subtype": "flow", "genkit:name": "water", "genkit:input": AS_JSON},
    ),
    "adk-rust-part": (
        "execute",
        "adk-telemetry",
        {"tool.name": "move", "function_call.id": "c"},
    ),
    "eino-tools": (
        "Tools",
        EINO,
        {"runinfo.component": "ToolsNode", "runinfo.name": "Tools", "runinfo.type": ""},
    ),
    "adk-llm": ("call_llm", "gcp.vertex.agent", {"gen_ai.system": "gcp.vertex.agent"}),
    "vercel-generate": ("ai.generateText", "ai", {"ai.operationId": "ai.generateText"}),
    "laminar-agent": ("agent", "lmnr.tracer", {"lmnr.span.type": "DEFAULT"}),
    "spring-ai-advisor": (
        "call",
        "org.springframework.boot",
        {"gen_ai.operation.name": "framework", "spring.ai.kind": "advisor"},
    ),
    "claude-execution": (
        "claude_code.tool.execution",
        CLAUDE_CODE,
        {"span.type": "tool.execution", "gen_ai.tool.call.id": "toolu_1", "success": True},
    ),
    "gemini-cli-schedule": (
        "schedule_tool_calls",
        "gemini-cli",
        {
            "gen_ai.operation.name": "schedule_tool_calls",
            "gen_ai.input.messages": f"[{GEMINI_ASKED}]",
        },
    ),
    "codex-part": (
        "unified_exec.exec_command",
        "codex_exec",
        {"call_id": "call_1", "tool_name": "move", "outcome": "exited"},
    ),
    "openhands-part": ("MCPToolExecutor.call_tool", "lmnr.tracer", OPENHANDS),
    "llama-stack-list": (
        "list_mcp_tools",
        LLAMA_STACK + "streaming",
        {"server_label": "farm", "mcp_list_tools_id": "mcp_list_1"},
    ),
    "tool-name-of-another": ("invoke_mcp_tool", "my.app", {"tool_name": "move"}),
    "upsonic-step": (
        "pipeline.step.tool_setup",
        "upsonic",
        {"upsonic.step.name": "tool_setup", "langfuse.trace.name": "go"},
    ),
    "opencode-part": ("ReadTool.execute", "opencode", {"tool.name": "read"}),
    "http": ("POST /tools/call", "opentelemetry.instrumentation.fastapi", {"http.route": "/"}),
    "plain-function": ("move", "my.app", {"code.function": "move"}),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_look_alike_is_no_call(wire: Any, bench: Any, name: str) -> None:
    """Spans that only look like tool calls give none."""
    span_name, scope, attributes = LOOK_ALIKES[name]
    assert bench().send(wire.span(span_name, attributes, scope=scope)).tools() == []


CONTROL = {
    "pydantic-ai": ("pydantic-ai", {**GEN, "gen_ai.tool.name": "final_result"}),
    "pydantic-ai-output": (
        "pydantic-ai",
        {**GEN, "logfire.msg": "running output function: make"},
    ),
    "openai-agents": (OI + "openai_agents", {"openinference.span.kind": "TOOL"}),
    "smolagents": (OI + "smolagents", {**OI_TOOL, "tool.name": "final_answer"}),
    "strands": ("strands.telemetry.tracer", {**GEN, "gen_ai.tool.name": "handoff_to_agent"}),
    "agent-framework": ("agent_framework", {**GEN, "gen_ai.tool.name": "handoff_to_billing"}),
    "semantic-kernel": (
        "semantic_kernel.functions.kernel_function",
        {**GEN_ID, "gen_ai.tool.name": "Handoff-transfer_to_billing"},
    ),
    "adk": ("gcp.vertex.agent", {**GEN, "gen_ai.tool.name": "transfer_to_agent"}),
    "adk-merged": ("gcp.vertex.agent", {**GEN, "gen_ai.tool.name": "(merged tools)"}),
    "adk-merged-openinference": (
        OI + "google_adk",
        {**GEN, "gen_ai.tool.name": "(merged tools)", "session.id": "s1"},
    ),
    "strands-structured-output": (
        "strands.telemetry.tracer",
        {
            **GEN,
            "gen_ai.tool.description": "IMPORTANT: This StructuredOutputTool should only be invoked last",
        },
    ),
    "agno": (OI + "agno", {**OI_TOOL, "tool.name": "delegate_task_to_member"}),
    "agno-openlit": (
        "openlit.instrumentation.agno",
        {**GEN, "gen_ai.tool.name": "delegate_task_to_member"},
    ),
    "agno-traceloop": (
        "opentelemetry.instrumentation.agno",
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "delegate_task_to_member"},
    ),
    "llama-index-traceloop": (
        "opentelemetry.instrumentation.llamaindex",
        {"traceloop.span.kind": "task", "tool.name": "handoff"},
    ),
    "llama-index": (OI + "llama_index", {**OI_TOOL, "tool.name": "handoff"}),
    "llama-index-genai": (
        "opentelemetry.instrumentation.genai.llama_index",
        {**GEN, "gen_ai.tool.name": "handoff"},
    ),
    "agno-genai": (
        "opentelemetry.instrumentation.genai.agno",
        {**GEN, "gen_ai.tool.name": "delegate_task_to_member"},
    ),
    "langgraph-genai": (
        "opentelemetry.instrumentation.genai.langchain",
        {**GEN, "gen_ai.tool.name": "transfer_to_billing"},
    ),
    "langgraph-azure": (
        "AzureAIOpenTelemetryTracer",
        {**GEN, "gen_ai.tool.name": "transfer_to_billing"},
    ),
    "langgraph-langfuse": (
        "langfuse-sdk",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.metadata.langgraph_node": '"tools"',
            "gen_ai.tool.name": "transfer_to_billing",
        },
    ),
    "openai-agents-js": (
        OI_JS + "openai-agents",
        {**OI_TOOL, "tool.name": "handoff_to_billing"},
    ),
    "langgraph-js": (OI_JS + "langchain", {**OI_TOOL, "tool.name": "transfer_to_billing"}),
    "semantic-kernel-by-program": (
        "semantic_kernel.functions.kernel_function",
        {**GEN, "gen_ai.tool.name": "chatbot-ask"},
    ),
    "beeai": (OI + "beeai", {**OI_TOOL, "tool.name": "final_answer"}),
    "claude-code": (CLAUDE_CODE, {"span.type": "tool", "tool_name": "Agent"}),
    "claude-openinference": (OI + "claude_agent_sdk", {**OI_TOOL, "tool.name": "Task"}),
    "claude-openinference-js": (
        OI_JS + "claude-agent-sdk",
        {**OI_TOOL, "tool.name": "Agent"},
    ),
    "claude-logfire": (
        "logfire.claude_agent_sdk",
        {**GEN, "gen_ai.tool.name": "StructuredOutput"},
    ),
    "claude-langsmith": (
        "langsmith",
        {**CLAUDE_LANGSMITH, **GEN, "gen_ai.tool.name": "TodoWrite"},
    ),
    "gemini-cli": ("gemini-cli", {**GEMINI, "gen_ai.tool.name": "invoke_agent"}),
    "codex": ("codex_exec", {**CODEX, "tool_name": "multi_agent_v1spawn_agent"}),
    "copilot": ("github.copilot", {**GEN, "gen_ai.tool.name": "task"}),
    "qwen-code": ("qwen-code", {**GEN, "gen_ai.tool.name": "todo_write"}),
    "codex-plan": ("codex_exec", {**CODEX, "tool_name": "update_plan"}),
    "opencode": (
        "opencode",
        {"tool.name": "task", "tool.call_id": "call_1", "message.id": "msg_1"},
    ),
    "upsonic": ("upsonic", {**UPSONIC, "upsonic.tool.name": "plan_and_execute"}),
    "dspy": (OI + "dspy", {**OI_TOOL, "tool.name": "finish"}),
    "mastra": ("@mastra/otel-exporter", {**GEN, "gen_ai.tool.name": "agent-billing"}),
    "voltagent": ("@voltagent/core", {"tool.name": "delegate_task", "tool.call.id": "c"}),
    "trpc-agent-merged": (
        "trpc.agent.go",
        {**GEN, "gen_ai.tool.name": "(merged tools)", "gen_ai.tool.call.arguments": "N/A"},
    ),
    "trpc-agent-unknown": ("trpc.agent.go", {**GEN, "gen_ai.tool.name": "<not found>"}),
    "eino-transfer": (EINO, {**EINO_TOOL, "runinfo.name": "transfer_to_agent"}),
    "eino-exit": (EINO, {**EINO_TOOL, "runinfo.name": "exit", "runinfo.type": "ExitTool"}),
    "autogen": ("autogen-core", {**GEN, "gen_ai.tool.name": "transfer_to_billing"}),
    "langgraph": (OI + "langchain", {**OI_TOOL, "tool.name": "transfer_to_billing"}),
}


@pytest.mark.parametrize("name", CONTROL)
def test_a_frameworks_own_tool_is_a_control_call(wire: Any, bench: Any, name: str) -> None:
    """Hand-offs, final answers and merged responses are shown, and counted apart."""
    scope, attributes = CONTROL[name]
    found = bench().send(wire.span("handoff to irrigator", attributes, scope=scope))

    assert len(found.steps()) == 1
    assert found.covered("control") == 1


def test_a_prompt_of_semantic_kernel_for_java_is_a_control_call(wire: Any, bench: Any) -> None:
    """It is of no plugin, so it was the program that called it."""
    key = {"semantic_kernel.function.invocation.name": "ask"}
    found = bench().send(wire.span("function_invocation null-ask", key, scope="SemanticKernel"))

    assert found.tools() == ["null-ask"]
    assert found.covered("control") == 1


def test_a_transfer_is_an_ordinary_tool_elsewhere(wire: Any, bench: Any) -> None:
    """`transfer_to_savings` of a bank's own agent is judged like any other tool."""
    found = bench().send(wire.tool("transfer_to_savings"))
    assert found.covered("control") == 0


UNREADABLE = ['{"x": 3, "y"', "[1, 2]", "3", '"move"', "not json", [1], 7, True, 1.5]


@pytest.mark.parametrize("value", UNREADABLE, ids=repr)
def test_unreadable_arguments_are_none_and_counted(wire: Any, bench: Any, value: Any) -> None:
    """What cannot be understood is never guessed."""
    span = wire.span("execute_tool move", {**GEN, "gen_ai.tool.call.arguments": value})
    found = bench().send(span)

    assert found.steps()[0]["arguments"] is None
    assert found.covered("arguments_unreadable") == 1


DATADOG = {"_dd.llmobs.artificial_gen_ai_tags": "true", "gen_ai.operation.name": "tool"}


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x81\xa4meta\x05", "text", 7], ids=repr)
def test_what_is_not_packed_as_datadog_does_is_unknown(
    wire: Any, bench: Any, value: Any
) -> None:
    """Bytes that were cut off, and values of other types."""
    found = bench().send(wire.span("move", {**DATADOG, "_llmobs": value}))
    assert found.steps()[0]["arguments"] is None
    assert found.covered("arguments_unreadable") == 1


def test_a_tool_of_nemo_is_one_call_with_the_function_below_it(wire: Any, bench: Any) -> None:
    """Of one that raised the function's span alone is sent, below one that never comes."""
    found = bench().send(
        wire.span("move", NEMO_RETURNED, id="function", parent="tool", start=1),
        wire.span("move", NEMO_TOOL, id="tool", parent="root", end=1.5),
        wire.span("dig", NEMO_FUNCTION | {"nat.function.name": "dig"}, parent="lost", start=2),
    )
    assert found.tools() == ["move", "dig"]
    assert [step["arguments"] for step in found.steps()] == [MOVE, MOVE]
    assert [step["error"] for step in found.steps()] == [False, True]


def test_what_dapr_calls_its_parts_names_no_agent(wire: Any, bench: Any) -> None:
    """The agent is named by the step of its workflow, where there is one."""
    step = {"openinference.span.kind": "TOOL", "agent.name": "rover"}
    alone = wire.span("execute_tool move", DAPR_TOOL, scope=DAPR, trace="alone")
    below = wire.span("execute_tool move", DAPR_TOOL, scope=DAPR, parent="step", start=1)
    found = bench().send(alone, below, wire.span("rover.run_tool", step, id="step", scope=DAPR))
    assert found.tools() == ["move", "move"]
    agents = {judgement["agent"] for judgement in found.monitor.judgements()}
    assert agents == {"svc", "rover"}


def test_an_agent_of_datadog_is_named_by_its_span(wire: Any, bench: Any) -> None:
    """Models' spans and the workflow around all are no calls, and name nobody."""
    spans = [
        wire.span(
            name,
            {**DATADOG, "gen_ai.operation.name": operation},
            id=name,
            parent=parent,
            start=start,
        )
        for start, (name, operation, parent) in enumerate(
            [
                ("flow", "workflow", ""),
                ("rover", "agent", "flow"),
                ("ask", "llm", "rover"),
                ("move", "tool", "rover"),
            ]
        )
    ]
    found = bench().send(*spans)
    assert [step["tool"] for step in found.steps()] == ["move"]
    assert {each["agent"] for each in found.monitor.judgements()} == {"rover"}


OPENCODES = {"tool.name": "move", "tool.call_id": "call_1", "message.id": "msg_1"}


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ({"openinference.span.kind": "TOOL", "input.value": AS_JSON}, [MOVE]),
        ({"input.value": AS_JSON}, [MOVE]),
        ({**GEN, **ARGS}, [MOVE]),
        ({"openinference.span.kind": "LLM"}, []),
        ({"gen_ai.operation.name": "chat"}, []),
    ],
)
def test_keys_that_anybody_may_write_hide_no_convention(
    wire: Any, bench: Any, says: dict[str, Any], told: list[Any]
) -> None:
    """OpenCode's own keys are such: elsewhere they are what somebody has added."""
    found = bench().send(wire.span("move", {**OPENCODES, **says}, scope="my.app"))
    assert [step["arguments"] for step in found.steps()] == told


@pytest.mark.parametrize("value", ["[]", "{}", '[{"role": "tool"}, {}]', '["{}"]', "no json"])
def test_arguments_in_messages_to_the_tool_are_of_one_message(
    wire: Any, bench: Any, value: str
) -> None:
    """Which of several it would be is not ours to say."""
    told = {"tanstack.ai.tool.outcome": "success", "gen_ai.input.messages": value}
    found = bench().send(wire.span("move", {"gen_ai.tool.name": "move", **told}))

    assert found.steps()[0]["arguments"] is None
    assert found.covered("arguments_unreadable") == 1


def test_arguments_encoded_twice_are_read(wire: Any, bench: Any) -> None:
    """A JSON text inside a JSON text is still the same arguments."""
    span = wire.span(
        "execute_tool move", {**GEN, "gen_ai.tool.call.arguments": json.dumps(AS_JSON)}
    )
    assert bench().send(span).steps()[0]["arguments"] == MOVE


def test_the_node_around_a_bare_argument_tells_its_name(wire: Any, bench: Any) -> None:
    """LangGraph's node lists the call as the model made it: name, id and arguments come from it."""
    tool = wire.span(
        "scan",
        {**OI_TOOL, "tool.name": "scan", "input.value": "field 3"},
        parent="node",
        scope=OI + "langchain",
    )
    listed = [
        {"name": "scan", "args": {"area": "field 3"}, "id": "call_1", "type": "tool_call"}
    ]
    node = wire.span(
        "tools",
        {"openinference.span.kind": "CHAIN", "input.value": json.dumps(listed)},
        id="node",
        parent="root",
        scope=OI + "langchain",
    )
    for spans in ((tool, node), (node, tool)):
        (step,) = bench().send(*spans).steps()
        assert step["arguments"] == {"area": "field 3"}
        assert step["call_id"] == "call_1"


_SCAN = {"name": "scan", "args": {"area": "field 3"}, "id": "call_1", "type": "tool_call"}


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"messages": [], "lg_tool_call": _SCAN}, {"area": "field 3"}),
        ({"messages": [{}, {"kwargs": {"tool_calls": [_SCAN]}}]}, {"area": "field 3"}),
        ({"messages": [{"kwargs": {"tool_calls": [_SCAN]}}, {}]}, None),
        ({"messages": [{"kwargs": {"tool_calls": [_SCAN]}}, {"id": ["ToolMessage"]}]}, None),
        ({"messages": [7]}, None),
        ({"messages": {}}, None),
        ([_SCAN], None),
        ("{", None),
    ],
)
def test_a_node_in_javascript_is_given_the_conversation(
    wire: Any, bench: Any, given: Any, arguments: Any
) -> None:
    """The call is beside it, or in the last message; anything else tells nothing."""
    text = given if isinstance(given, str) else json.dumps(given, separators=(",", ":"))
    tool = wire.span(
        "scan",
        {
            **OI_TOOL,
            "tool.name": "scan",
            "input.value": "field 3",
            "input.mime_type": "text/plain",
        },
        parent="node",
        scope=OI_JS + "langchain",
    )
    node = wire.span(
        "act",
        {"openinference.span.kind": "CHAIN", "input.value": text},
        id="node",
        scope=OI_JS + "langchain",
    )
    for spans in ((tool, node), (node, tool)):
        (step,) = bench().send(*spans).steps()
        assert step["arguments"] == arguments


def _message(kind: str, **parts: Any) -> dict[str, Any]:
    return {"type": kind, "data": {"content": "", "type": kind, **parts}}


_ASKS = _message("ai", tool_calls=[_SCAN], invalid_tool_calls=[])
_ANSWERS = _message("tool", tool_call_id="call_1", artifact={"tool_calls": [_SCAN]})
_SAYS = _message("human", content=json.dumps({"tool_calls": [_SCAN]}))


@pytest.mark.parametrize(
    ("messages", "value", "told"),
    [
        ([_SAYS, _ASKS], "field 3", True),
        ([_ANSWERS, _ASKS], "field 3", True),
        ([_ASKS], "field 9", False),
        ([_ASKS, _ANSWERS], "field 3", False),
        ([_SAYS], "field 3", False),
        ([_message("ai", tool_calls=[{**_SCAN, "name": "move"}])], "field 3", False),
        ([_message("ai", tool_calls=[{**_SCAN, "args": {"area": "field 3", "deep": 1}}])], "field 3", False),
        ([_message("ai", tool_calls=[_SCAN, {**_SCAN, "id": "call_2"}])], "field 3", True),
        ([_message("ai", tool_calls=[7])], "field 3", False),
        ([_message("ai", tool_calls=[_SCAN], usage="x" * 16_384)], "field 3", True),
        ([_message("ai", tool_calls=[_SCAN], usage="x" * 2**20)], "field 3", False),
    ],
)  # fmt: skip
def test_a_node_in_python_is_given_the_state(
    wire: Any, bench: Any, messages: Any, value: str, told: bool
) -> None:
    """Its last message may ask for the call; what it asked is the call's only if it is given that."""
    tool = {**OI_TOOL, "tool.name": "scan", "input.value": value}
    state = {
        "openinference.span.kind": "CHAIN",
        "input.value": json.dumps({"messages": messages}),
    }
    spans = [
        wire.span("scan", tool, parent="node", scope=OI + "langchain"),
        wire.span("act", state, id="node", parent="root", scope=OI + "langchain"),
    ]
    for order in permutations(spans):
        (step,) = bench().send(*order).steps()
        assert step["arguments"] == ({"area": "field 3"} if told else None)


@pytest.mark.parametrize("end", ["", "[", "[{", "[" * 10_000])
def test_a_state_that_is_cut_off_tells_nothing(wire: Any, bench: Any, end: str) -> None:
    """Long attributes are cut by whoever sends them."""
    cut = '{"messages": [{"data": {"tool_calls": [' + end
    tool = {**OI_TOOL, "tool.name": "scan", "input.value": "field 3"}
    state = {"openinference.span.kind": "CHAIN", "input.value": cut}
    found = bench().send(
        wire.span("scan", tool, parent="node", scope=OI + "langchain"),
        wire.span("act", state, id="node", scope=OI + "langchain"),
    )
    assert found.steps()[0]["arguments"] is None


@pytest.mark.parametrize("workflow", ["Agent workflow", "farm work"])
def test_an_agent_in_javascript_is_named_by_its_node(
    wire: Any, bench: Any, workflow: str
) -> None:
    """The workflow around it is none, whatever its program calls it."""
    kind = {"openinference.span.kind": "AGENT"}
    node = {**kind, "graph.node.id": "farm_rover"}
    scope = OI_JS + "openai-agents"
    found = bench().send(
        wire.span(workflow, kind, id="root", scope=scope),
        wire.span("farm_rover", node, id="agent", parent="root", scope=scope),
        wire.span("move", OI_TOOL, id="tool", parent="agent", scope=scope),
    )
    assert {each["agent"] for each in found.monitor.judgements()} == {"farm_rover"}


@pytest.mark.parametrize(
    ("language", "error"), [("python", False), ("nodejs", True), (1, True)]
)
def test_a_span_of_adk_that_has_a_name_alone_failed_but_in_python(
    wire: Any, bench: Any, language: Any, error: bool
) -> None:
    """There it is also what is left of a long running tool that has not answered yet."""
    resource = {"service.name": "svc", "telemetry.sdk.language": language}
    span = wire.span("execute_tool move", scope="gcp.vertex.agent", resource=resource)

    assert [step["error"] for step in bench().send(span).steps()] == [error]


def test_an_agent_of_upsonic_is_named_by_its_run(wire: Any, bench: Any) -> None:
    """By a key of its own, on a span of a server."""
    found = bench().send(
        wire.span("tool.execute", UPSONIC, scope="upsonic", parent="run", start=2),
        wire.span(
            "agent.run",
            {"upsonic.agent.name": "rover", "session.id": "s1"},
            id="run",
            kind=2,
            scope="upsonic",
            start=1,
        ),
    )
    assert list(found.sessions()) == ["s1"]
    assert [each["agent"] for each in found.monitor.judgements()] == ["rover"]


def test_an_agent_of_voltagent_is_named_on_its_spans(wire: Any, bench: Any) -> None:
    """What else has a name there, as a workflow, is no agent."""
    scope, call = "@voltagent/core", {"tool.name": "move", "tool.call.id": "call_1"}
    agent = {"entity.type": "agent", "entity.name": "farm_rover"}
    flow = {"entity.type": "workflow", "entity.name": "farm work"}
    found = bench().send(
        wire.span("farm work", flow, id="root", scope=scope),
        wire.span("farm_rover", agent, id="agent", parent="root", scope=scope),
        wire.span("tool.execution:move", call, id="tool", parent="agent", scope=scope),
    )
    assert {each["agent"] for each in found.monitor.judgements()} == {"farm_rover"}


def test_an_agent_of_eino_is_named_by_its_run(wire: Any, bench: Any) -> None:
    """What else is run by a name, as a chain or a graph, is no agent; its conversation is on every span."""

    def run(name: str, component: str, parent: str) -> Any:
        told = {
            "runinfo.name": name,
            "runinfo.component": component,
            "gen_ai.session.id": "field-7",
        }
        return wire.span(name, told, id=component, parent=parent, scope=EINO, kind=3)

    found = bench().send(
        run("move", "Tool", "Graph"),
        run("ReAct", "Graph", "Agent"),
        run("farm_rover", "Agent", ""),
    )
    assert list(found.sessions()) == ["field-7"]
    assert {each["agent"] for each in found.monitor.judgements()} == {"farm_rover"}


def test_two_instrumentations_of_langchain_are_one_call(wire: Any, bench: Any) -> None:
    """A tool that raised leaves no message: that the node lists the call with its id is enough.

    Of two calls at once each finds its own, by its arguments, and a repeat of one stays.
    """
    places = [MOVE, {"x": 5, "y": 5}]
    listed = [
        {"name": "move", "args": args, "id": f"call_{number}", "type": "tool_call"}
        for number, args in enumerate(places)
    ]
    scope = OI + "langchain"
    chain = {"openinference.span.kind": "CHAIN", "input.value": json.dumps(listed)}
    spans = [wire.span("tools", chain, id="node", scope=scope, start=0, end=3)]
    for number, args in enumerate(places):
        attributes = {**OI_TOOL, "input.value": json.dumps(args), "input.mime_type": "x"}
        known = {"parent": "node", "status": 2, "scope": scope, "end": 2.5}
        spans.append(wire.span("move", attributes, id=f"oi{number}", start=1 + number, **known))
        spans.append(
            wire.tool(
                "move", call_id=f"call_{number}", id=f"g{number}", start=1.1 + number, end=2.4
            )
        )
    again = {"call_id": "call_0", "arguments": MOVE, "start": 3, "end": 4}
    spans.append(wire.tool("move", id="again", **again))

    for order in permutations(spans):
        steps = bench().send(*order).steps()
        assert [step["arguments"] for step in steps] == [*places, MOVE]
        assert [step["error"] for step in steps] == [True, True, False]
        assert [step["call_id"] for step in steps] == ["call_0", "call_1", "call_0"]


def test_a_bare_argument_below_another_instrumentation_has_its_name(
    wire: Any, bench: Any
) -> None:
    """The node is around the inner span alone: what it lists is of the whole call."""
    listed = [
        {"name": "scan", "args": {"area": "field 3"}, "id": "call_1", "type": "tool_call"}
    ]
    scope = OI + "langchain"
    chain = {"openinference.span.kind": "CHAIN", "input.value": json.dumps(listed)}
    inner = {**OI_TOOL, "tool.name": "scan", "input.value": "field 3"}
    spans = [
        wire.tool("scan", call_id="call_1", id="a", start=1, end=3),
        wire.span("tools", chain, id="node", scope=scope, start=1, end=3),
        wire.span("scan", inner, id="b", parent="node", scope=scope, start=1.5, end=2.5),
    ]
    for order in permutations(spans):
        (step,) = bench().send(*order).steps()
        assert (step["arguments"], step["call_id"]) == ({"area": "field 3"}, "call_1")


def test_a_node_of_two_like_calls_tells_only_what_is_certain(wire: Any, bench: Any) -> None:
    """Where the bare value fits one listed call it is that one, else the name stays unknown."""
    listed = [
        {"name": "scan", "args": {"area": area}, "id": area, "type": "tool_call"}
        for area in ("north", "south")
    ]
    node = wire.span(
        "tools",
        {"openinference.span.kind": "CHAIN", "input.value": json.dumps(listed)},
        id="node",
        scope=OI + "langchain",
    )
    fits, other = (
        wire.span(
            "scan",
            {**OI_TOOL, "tool.name": "scan", "input.value": value},
            parent="node",
            start=start,
            scope=OI + "langchain",
        )
        for start, value in ((1, "south"), (2, "west"))
    )
    steps = bench().send(fits, other, node).steps()

    assert [step["arguments"] for step in steps] == [{"area": "south"}, None]


def test_dropped_attributes_are_counted(wire: Any, bench: Any) -> None:
    """A span that lost attributes on its way says that it is not whole."""
    assert bench().send(wire.tool("move", dropped=2)).covered("truncated_attributes") == 1


def test_each_span_names_its_own_agent() -> None:
    """A name may be the one before it, another one, nobody's, or longer than is remembered."""
    names = ["rover", "rover", "mower", "OpenAI Agent", "rover", "", "x" * MARK_MAX, "rover"]
    message = ExportTraceServiceRequest()
    for number, name in enumerate(names, start=1):
        span = message.resource_spans.add().scope_spans.add().spans.add()
        span.trace_id, span.span_id = bytes([number]) * 16, bytes([number]) * 8
        span.attributes.add(key="gen_ai.agent.name").value.string_value = name

    plans = Plans(SESSION_KEYS, ())
    spans = otlp_proto.decode(message.SerializeToString()).spans
    found = [agent_of(span, plans.of(span)) for span in spans]
    assert found == [name if name != "OpenAI Agent" else "" for name in names]


@pytest.mark.parametrize(("parent", "agent"), [("", "svc"), ("http", "helper")])
def test_a_root_agent_without_a_name_is_its_services(
    wire: Any, bench: Any, parent: str, agent: str
) -> None:
    """A session is no sub-agent's, unless the agent's own span has others above it."""
    op = "gen_ai.operation.name"
    root = wire.span("invoke_agent", {op: "invoke_agent"}, id="root", parent=parent, end=9)
    helper = {op: "invoke_agent", "gen_ai.agent.name": "helper"}
    spans = [
        wire.tool("move", id="inner", parent="helper", start=3, end=4),
        wire.span("invoke_agent helper", helper, id="helper", parent="task", start=2, end=5),
        wire.tool("task", id="task", parent="root", start=1, end=6),
        root,
    ]
    for order in permutations(spans):
        (found,) = bench().send(*order).monitor.judgements()
        assert found["agent"] == agent


def _told(plan: Plan) -> tuple[Any, ...]:
    calls = [each.dialect.name for each in plan.calls]
    return calls, plan.stop, plan.silent, plan.outputs is None, len(plan.agents), plan.session


@pytest.mark.parametrize("decode", [otlp_proto.decode, otlp_json.decode])
def test_spans_of_one_shape_have_the_plan_of_their_own_values(decode: Any) -> None:
    """However they alternate, and in either encoding: nothing is left over from the one before."""
    kinds, operations = ("tool", "agent", 1), ("execute_tool", "chat", b"chat", "")
    pairs = [*product(kinds, operations), *product(kinds, operations[::-1]), ("tool", "chat")]
    spans = _spans(decode, [dict(zip(GUARDED, pair, strict=True)) for pair in pairs])
    plans = Plans(SESSION_KEYS, ())

    assert len({id(span.shape) for span in spans}) == 1
    for span in spans:
        expected = _told(Plans(SESSION_KEYS, ()).of(span))
        assert _told(plans.of(span)) == expected == _told(plans.of(span))


def test_many_shapes_have_each_their_plan() -> None:
    """More of them than there are slots, of which several share each."""
    keys = [f"gen_ai.key{number}" for number in range(SLOTS * 2)]
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "a"}
    given = [tool | {key: 1} if number % 2 else {key: 1} for number, key in enumerate(keys)]
    plans, spans = Plans(SESSION_KEYS, ()), _spans(otlp_proto.decode, given)

    for span in (*spans, *spans):
        assert bool(plans.of(span).calls) is (len(span.shape) == 3)


def _spans(decode: Any, given: list[dict[str, Any]]) -> list[Any]:
    """Spans with these attributes, as one of the decoders reads them."""
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add().scope_spans.add()
    for number, attributes in enumerate(given, start=1):
        span = group.spans.add()
        span.trace_id, span.span_id = bytes(15) + b"1", number.to_bytes(8, "big")
        for key, value in attributes.items():
            kind = {str: "string_value", int: "int_value", bytes: "bytes_value"}[type(value)]
            setattr(span.attributes.add(key=key).value, kind, value)
    if decode is otlp_proto.decode:
        return list(decode(message.SerializeToString()).spans)
    document = json_format.MessageToDict(message)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId"):
            span[key] = base64.b64decode(span[key]).hex()
    return list(decode(json.dumps(document).encode()).spans)


@pytest.mark.parametrize("decode", [otlp_proto.decode, otlp_json.decode])
@pytest.mark.parametrize("size", [10, 5_000, 20_000])
def test_requests_are_found_in_messages_of_any_length(decode: Any, size: int) -> None:
    """A long text is only looked through, and tells the same as a short one."""
    key = "gen_ai.output.messages"
    outputs = outputs_of({key: 0})
    assert outputs is not None
    said = {"type": "text", "content": "a" * size}
    asked = {"type": "tool_call", "id": "c1", "name": "move", "arguments": MOVE}
    for parts, names in (([said], []), ([said, asked], ["move"])):
        (span,) = _spans(decode, [{key: json.dumps([{"parts": parts}])}])
        for names_only in (True, False):
            found = requested(span, outputs, names_only=names_only)
            assert [each.tool for each in found] == names


def test_what_was_seen_of_a_service(wire: Any, bench: Any) -> None:
    """Dialects, tools with their arguments, agents and the source of session ids are kept."""
    found = bench().send(
        wire.tool("move", arguments=MOVE, attributes={"gen_ai.conversation.id": "s1"}),
        wire.tool("log", start=2, attributes={"gen_ai.agent.name": "rover"}),
    )
    (seen,) = found.pipeline.inventory
    shown = seen.as_json()

    assert shown["service"] == "svc"
    assert shown["agents"] == ["rover"]
    assert shown["dialects"] == ["gen_ai"]
    assert shown["tools"] == {"move": ["x", "y"], "log": []}
    assert shown["calls"] == 2
    assert shown["calls_with_arguments"] == 1
    assert shown["session_from"] == {"gen_ai.conversation.id": 2}
    assert shown["switches"] == ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"]


FORGED = {
    "callback": {"x": 3, "input_str": "", "inputs": {"x": 1}},
    "callback-in-full": {"x": 3, "input_str": "", "tags": [], "metadata": {}, "kwargs": {}},
    "request": {"tool_name": "move", "arguments": {"x": 1}, "x": 3},
    "call": {"args": [], "kwargs": {"x": 1}, "x": 3},
    "input": {"input": {"x": 1}, "x": 3},
}
OF_MODELS = {
    "agno-traceloop": ("opentelemetry.instrumentation.agno", "traceloop.entity.input"),
    "openai-agents-traceloop": (
        "opentelemetry.instrumentation.openai_agents",
        "traceloop.entity.input",
    ),
    "traceloop": ("opentelemetry.instrumentation.other", "traceloop.entity.input"),
    "gen-ai": ("any", "gen_ai.tool.call.arguments"),
    "openinference": ("any", "input.value"),
    "mcp-traceloop": ("opentelemetry.instrumentation.mcp", "traceloop.entity.input"),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize(("scope", "key"), OF_MODELS.values(), ids=OF_MODELS)
def test_a_model_cannot_wrap_its_arguments_as_a_framework_does(
    wire: Any, bench: Any, scope: str, key: str, forged: dict[str, Any]
) -> None:
    """Members that look like a framework's own are arguments like the others."""
    attributes = {
        "gen_ai.tool.call.arguments": {**GEN},
        "traceloop.entity.input": {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "move",
            "gen_ai.tool.name": "move",
        },
        "input.value": OI_TOOL,
    }[key]
    span = wire.span("move.tool", {**attributes, key: json.dumps(forged)}, scope=scope)
    (step,) = bench().send(span).steps()
    assert step["arguments"] == forged
