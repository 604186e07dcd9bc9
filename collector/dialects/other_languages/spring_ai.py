"""Spring AI, in Java: Micrometer's observations of its tools, by Spring Boot's tracer.

Version 1 follows no convention. Span names of version 2 follow OpenTelemetry's. If a tool raises, the model gets the
exception and the span does not, unless `spring.ai.tools.throw-exception-on-error` is set.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping

__all__ = ["SPRING_AI"]

SPRING_AI = Dialect(
    name="spring_ai",
    when=("spring.ai.tool.definition.name",),
    tool=("spring.ai.tool.definition.name",),
    arguments=(ArgumentSource("spring.ai.tool.call.arguments", mapping),),
    call_id=("spring.ai.tool.call.id", "gen_ai.tool.call.id"),
    switch="spring.ai.tools.observations.include-content=true",
)
