"""LangChain4j in Quarkus: the GenAI conventions; only an event shows that a tool raised."""

from dataclasses import replace

from collector.dialects.conventions.gen_ai import GEN_AI

__all__ = ["QUARKUS_LANGCHAIN4J"]

QUARKUS_LANGCHAIN4J = replace(
    GEN_AI,
    name="quarkus_langchain4j",
    scopes=("io.quarkus.opentelemetry",),
    failed_by_exception=True,
    switch="quarkus.langchain4j.tracing.include-tool-arguments=true",
)
