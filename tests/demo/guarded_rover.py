"""The rover, which asks before each call and reads what it is told.

`asking` is all that a guard needs of an agent. The rest is the rover's: where a call is denied, it reads which
tools are allowed now, and goes on with the first step of its plan that is.

    GUARD_URL=http://...    where decisions are made; the other variables are the rover's
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from offrails_guard import DeniedError, Guard
from tests.demo.rover import Plan, Stuck, call_tool, instrument, jobs
from tests.demo.words import CALL_WIDTH, call

DEADLINE_SECONDS = 30.0
"""More than the default: a machine that is busy with other things shows the same demo."""

CONVERSATION: ContextVar[str] = ContextVar("conversation")
"""The job that is played; decisions and spans name it alike."""

CallTool = Callable[[str, dict[str, Any]], str]
MakeCall = Callable[[Tracer, str, str, dict[str, Any]], str]

# --- what makes an agent ask -----------------------------------------------------------------------


def asking(guard: Guard, tracer: Tracer, make: MakeCall = call_tool) -> CallTool:
    """Each call is asked for before it is made and traced; a denied one raises `DeniedError`, with the reason."""

    def ask(tool: str, arguments: dict[str, Any]) -> str:
        def made(**arguments: Any) -> str:
            return make(tracer, CONVERSATION.get(), tool, arguments)

        return guard.wrap(made, name=tool)(**arguments)

    return ask


# --- the rover -------------------------------------------------------------------------------------


def play(plan: Plan, call_tool: CallTool, who: str = "rover") -> None:
    """One job. Each call is printed, with what became of it and what the agent reads of it."""
    allowed: set[str] | None = None
    for tool, arguments in plan:
        if allowed is not None and tool not in allowed:
            continue
        allowed = None
        line = f"      {call(tool, arguments):<{CALL_WIDTH}}"
        try:
            call_tool(tool, arguments)
        except Stuck as problem:
            print(f"{line}  failed: {problem}", flush=True)
        except DeniedError as denied:
            print(f"{line}  DENIED", flush=True)
            print(f"        the {who} reads: {denied}", flush=True)
            allowed = tools_allowed(str(denied))
        else:
            print(f"{line}  ok", flush=True)


def tools_allowed(message: str) -> set[str]:
    """The tools that a denial names as allowed now: what a model would read there."""
    return set(re.findall(r"`(\w+)`", message.partition("Allowed now:")[2]))


def main() -> int:
    """Plays all jobs, then sends what is still waiting."""
    provider = TracerProvider()
    tracer = instrument(provider)
    with Guard(
        os.environ["GUARD_URL"],
        agent="rover",
        service=os.environ["OTEL_SERVICE_NAME"],
        session=CONVERSATION.get,
        deadline_seconds=DEADLINE_SECONDS,
    ) as guard:
        for job, plan in jobs().items():
            CONVERSATION.set(job)
            print(f"\nsession {job}", flush=True)
            with tracer.start_as_current_span("invoke_agent rover"):
                play(plan, asking(guard, tracer))
    provider.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
