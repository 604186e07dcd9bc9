"""An agent that is a model behind any OpenAI-compatible endpoint, asked over httpx."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx

from harness.agents.turn_text import task_text, tools_text
from harness.scaffold.scaffold import Scaffold
from harness.scaffold.turn import (
    RESULT_SHOWN,
    AgentCall,
    AgentFault,
    MadeCall,
    Turn,
    result_text,
)
from harness.tasks.read import BenchTask

__all__ = ["ENDPOINT", "OpenAIAgent"]

ENDPOINT: Final = "https://api.openai.com/v1"
PLAN_AGAIN: Final = "Write your plan for what is left, and call nothing yet."
KEY_VARIABLE: Final = "OPENAI_API_KEY"
RESPONSE_MAX: Final = 8 * 1024**2
"""Bytes of one response; a longer one is a fault of the endpoint."""
_OVERFLOW: Final = ("context_length_exceeded", "maximum context length", "context window")


class OpenAIAgent:
    """Asks a model for each turn. For one rollout.

    Args:
        task: what it is to do.
        model: the endpoint's name of it.
        endpoint: URL, to which `/chat/completions` is added.
        scaffold: tells the model how to go about it.
        seed: for the model's sampling.
        client: what asks; one for all rollouts. Its own limits on time do not count.
    """

    def __init__(
        self,
        task: BenchTask,
        *,
        model: str,
        endpoint: str,
        scaffold: Scaffold,
        seed: int,
        client: httpx.Client,
    ) -> None:
        self._task = task
        self._model = model
        self._url = endpoint.rstrip("/") + "/chat/completions"
        self._scaffold = scaffold
        self._seed = seed
        self._client = client
        self._as_text = task.document.agent.calls == "text"
        self._tools: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []
        self._told = 0
        self._planned = not scaffold.plans
        self._answers = 0

    def set_up(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Says which tools there are, before the first turn."""
        system = self._scaffold.system
        if self._as_text:
            system += f"\n\n{self._scaffold.text_form}\n\nTools:\n{tools_text(tools)}"
        else:
            self._tools = [*map(_function, tools)]
        self._messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": task_text(self._task, plan=self._scaffold.plans)},
        ]

    def could_not_read(self, why: str) -> None:
        """The last text could not be read."""
        self._messages.append({"role": "user", "content": f"That could not be read: {why}"})

    def hear(self, text: str) -> None:
        """The user says something."""
        self._messages.append({"role": "user", "content": text})

    def get(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """There are more tools from now on."""
        if self._as_text:
            self.hear(f"More tools:\n{tools_text(tools)}")
        else:
            self._tools += map(_function, tools)

    def turn(self, seen: Sequence[MadeCall], left: float) -> Turn:
        """Asks the model for its next turn.

        Raises:
            AgentFault: no turn came.
        """
        for made in seen[self._told :]:
            self._messages.append(self._result(made))
        self._told = len(seen)
        if self._answers == self._task.document.agent.planning_interval:
            self._planned, self._answers = False, 0
            self._messages.append({"role": "user", "content": PLAN_AGAIN})
        if not self._planned:
            self._planned = True
            plan = self._turn(self._ask(left, tools=False))
            self._messages.append(
                {"role": "user", "content": "Now make the calls of your plan."}
            )
            return Turn(
                tokens_in=plan.tokens_in, tokens_out=plan.tokens_out, context=plan.context,
                model=self._model, text=plan.text,
            )  # fmt: skip
        self._answers += 1
        return self._turn(self._ask(left, tools=bool(self._tools)))

    def _result(self, made: MadeCall) -> dict[str, Any]:
        text = result_text(made.result)
        text = (f"error: {text}" if made.error else text)[:RESULT_SHOWN]
        if self._as_text:
            return {"role": "user", "content": f"Observation: {text}"}
        return {"role": "tool", "tool_call_id": made.call.id, "content": text}

    # --- the wire ---------------------------------------------------------------------------------

    def _ask(self, left: float, *, tools: bool) -> dict[str, Any]:
        given = self._task.document.model
        body: dict[str, Any] = {
            "model": self._model,
            "messages": self._messages,
            "temperature": given.temperature,
            "max_tokens": given.max_tokens,
            "seed": self._seed,
        }
        if tools:
            body["tools"] = self._tools
        try:
            status, content = self._post(body, left)
        except httpx.TimeoutException:
            raise AgentFault("timeout", f"no answer of the model in {left:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as problem:
            raise AgentFault("infrastructure", f"{type(problem).__name__}: {problem}") from None
        text = content.decode(errors="replace")
        if status != httpx.codes.OK:
            overflow = status in (400, 413, 422) and any(each in text for each in _OVERFLOW)
            kind = "context_overflow" if overflow else "infrastructure"
            raise AgentFault(kind, f"HTTP {status}: {text[:300]}")  # type: ignore[arg-type]
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise AgentFault("infrastructure", f"no JSON object: {text[:300]}") from None

    def _post(self, body: Mapping[str, Any], left: float) -> tuple[int, bytes]:
        key = os.environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        deadline = _Deadline(left)
        with self._client.stream(
            "POST", self._url, json=body, headers=headers, timeout=left
        ) as response:
            found = bytearray()
            for part in response.iter_bytes():
                found += part
                deadline.check()
                if len(found) > RESPONSE_MAX:
                    raise AgentFault("infrastructure", f"more than {RESPONSE_MAX} bytes")
            return response.status_code, bytes(found)

    def _turn(self, answer: Mapping[str, Any]) -> Turn:
        """The turn of an answer; what is not of the API's form is a fault of the endpoint."""
        try:
            message = answer["choices"][0]["message"]
            content = message.get("content") or ""
            asked = message.get("tool_calls") or []
            usage = answer.get("usage") or {}
            tokens = _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")
            texts = [
                (each["function"]["name"], each["function"]["arguments"], each.get("id") or "")
                for each in asked
            ]
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as problem:
            raise AgentFault("infrastructure", f"not of the API's form: {problem!r}") from None
        if not isinstance(content, str) or not all(
            isinstance(name, str) and isinstance(id_, str) for name, _, id_ in texts
        ):
            raise AgentFault("infrastructure", "not of the API's form: content or names")
        counted: dict[str, Any] = {
            "tokens_in": tokens[0], "tokens_out": tokens[1], "context": sum(tokens),
            "model": self._model, "text": content,
        }  # fmt: skip
        self._messages.append({"role": "assistant", "content": content})
        if self._as_text:
            return Turn(raw=content, **counted)
        if not texts:
            return Turn(say=content, **counted)
        return self._calls(content, texts, asked, counted)

    def _calls(
        self, content: str, texts: Sequence[tuple[str, Any, str]], asked: Any, counted: Any
    ) -> Turn:
        calls = []
        for place, (name, arguments, id_) in enumerate(texts):
            read = _arguments(arguments)
            if read is None:
                # No text of a scaffold's form either: it is told so, and asked again.
                return Turn(raw=f"{content} {name}({arguments})", **counted)
            calls.append(AgentCall(name, read, id_ or f"call_{len(self._messages)}_{place}"))
        known = [
            {**each, "id": call.id, "type": "function"}
            for each, call in zip(asked, calls, strict=True)
        ]
        self._messages[-1] |= {"tool_calls": known}
        return Turn(calls=tuple(calls), **counted)


def _tokens(usage: Mapping[str, Any], key: str) -> int:
    """Tokens that an endpoint says; none where it says nothing.

    Raises:
        ValueError, TypeError, OverflowError: it is no number, or below 0.
    """
    found = int(usage.get(key) or 0)
    if found < 0:
        raise ValueError(f"{key}: {found}")
    return found


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as the API has it."""
    function = {key: tool[key] for key in ("name", "description", "parameters")}
    return {"type": "function", "function": function}


class _Deadline:
    """A response that trickles is over at the same time as one that hangs."""

    def __init__(self, seconds: float) -> None:
        from collector.telemetry.clock import steady_ns

        self._clock = steady_ns
        self._end = steady_ns() + int(seconds * 1e9)

    def check(self) -> None:
        if self._clock() > self._end:
            raise AgentFault("timeout", "the model's answer did not end in time")


def _arguments(given: Any) -> dict[str, Any] | None:
    """Arguments as a model writes them; None if they are no JSON object."""
    if isinstance(given, dict):
        return given
    if not isinstance(given, str):
        return None
    try:
        found = json.loads(given or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
