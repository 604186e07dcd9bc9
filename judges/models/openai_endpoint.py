"""Any OpenAI-compatible endpoint, by the `openai` client: three tries, whole-answer timeout, bounded answers.

The answer's form is asked for by the strongest means that the endpoint takes: a JSON schema, then any JSON object, then
the prompt alone. A means is given up only if the endpoint refuses it (4xx, but 401, 403 and 429) and takes the next
one; that is remembered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeGuard
from urllib.parse import urlsplit

from judges.models.budget import Estimate, TokenBudget
from judges.models.model import ModelFailure, ModelReply, ModelRequest, Usage
from judges.models.transport import transport_to

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = [
    "ANSWER_BYTES_MAX",
    "INSTALL",
    "RETRY_AFTER_MAX",
    "TRIES",
    "BadEndpointError",
    "OpenAIEndpoint",
    "SamplingOptions",
    "is_installed",
]

INSTALL: Final = "install offrails[judges], which has the client of models"
"""What to do where `is_installed` is False."""

TRIES: Final = 3
ANSWER_BYTES_MAX: Final = 1 << 20
RETRY_AFTER_MAX: Final = 60.0
"""Seconds: an endpoint that asks for more is not waited for."""

_PAUSE_SECONDS: Final = 0.5
_NO_RUNG: Final = frozenset({401, 403, 429})
"""Client errors that say nothing about the form that was asked for."""
_AGAIN: Final = frozenset({408, 409, 429})
_SERVER_ERROR: Final = 500
_RUNGS: Final = ("json_schema", "json_object", "text")
_FILTERED: Final = "content_filter"
_BODY_LOOKED_AT: Final = 10_000
"""Bytes of a body that is no answer: gateways say there what is wrong, with a status 200."""
_BYTES_A_TOKEN: Final = 4
_UNREACHED: Final = frozenset({"ConnectError", "ConnectTimeout"})
"""Causes in the client's transport, whichever version of it is installed."""
_OVERHEAD: Final = 64
"""Tokens that a chat template adds, at most."""


def is_installed() -> bool:
    """True if the extra is there, which has the client of models and what reads their answers."""
    try:
        import json_repair
        import openai
    except ImportError:
        return False
    _ = json_repair, openai
    return True


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Settings of the model; None leaves one to the endpoint."""

    temperature: float | None = None
    seed: int | None = None
    answer_tokens: int = 4_096

    def of(self, repeat: int) -> dict[str, Any]:
        """The parameters of a repetition."""
        seed = None if self.seed is None else self.seed + repeat - 1
        found = {"temperature": self.temperature, "seed": seed}
        return {name: value for name, value in found.items() if value is not None}


class BadEndpointError(Exception):
    """The endpoint's URL cannot be used; the message says why."""


class _RefusedFormError(Exception):
    """The endpoint does not take the request as it is."""


class _RejectedError(ModelFailure):
    """The endpoint says no, and no other try and no other form helps."""


class _PassingFailure(Exception):  # noqa: N818
    """Another try may succeed, after some seconds. What was answered, if anything, is lost."""

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


class _NotTakenError(_PassingFailure):
    """The same, and the endpoint did not begin an answer: it said no, or was not reached."""


class OpenAIEndpoint:
    """A model behind an OpenAI-compatible endpoint.

    Args:
        endpoint: URL, as a rule ending in `/v1`.
        model: its name there.
        key: None asks without one.
        timeout: seconds for one whole answer.
        sampling: settings of the model.
        budget: what may be used.

    Raises:
        BadEndpointError: the URL is none.
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        *,
        key: str | None,
        timeout: float,
        sampling: SamplingOptions,
        budget: TokenBudget,
    ) -> None:
        self.name = model
        self._key = key
        self._endpoint, self._timeout = endpoint, timeout
        self._sampling, self._budget = sampling, budget
        self._client = _client(endpoint, key, timeout)
        self._extra = {} if key else _without_key()
        self._rung = 0
        self._limit = "max_tokens"
        """The parameter that bounds an answer; newer models of OpenAI refuse the older name."""

    @property
    def identity(self) -> Sequence[str]:
        return (self._endpoint.rstrip("/"), self.name, repr(self._sampling))

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    async def ask(self, request: ModelRequest) -> ModelReply:
        """See `Model.ask`. Goes down the rungs until the endpoint takes one."""
        for rung in range(self._rung, len(_RUNGS)):
            try:
                answer = await self._with_tries(request, rung)
            except _RefusedFormError as problem:
                if rung == len(_RUNGS) - 1:
                    raise ModelFailure(str(problem)) from None
            else:
                self._rung = max(self._rung, rung)
                return answer
        raise AssertionError("the last rung returns or raises")

    async def _with_tries(self, request: ModelRequest, rung: int) -> ModelReply:
        for number in range(1, TRIES + 1):
            try:
                return await self._within_budget(request, rung)
            except _PassingFailure as problem:
                if number == TRIES:
                    raise ModelFailure(f"{TRIES} tries: {self._said(problem)}") from None
                pause = _PAUSE_SECONDS * 2 ** (number - 1)
                seconds = pause if problem.seconds is None else problem.seconds
            if seconds > RETRY_AFTER_MAX:
                raise ModelFailure(f"the endpoint asks to wait {seconds:.0f} s")
            await asyncio.sleep(seconds)
        raise AssertionError("the last try returns or raises")

    async def _within_budget(self, request: ModelRequest, rung: int) -> ModelReply:
        """One try, for which there is room. An answer that is lost may be charged, so it counts as its estimate."""
        estimate = self._estimate(request)
        if not await self._budget.reserve(estimate):
            raise ModelFailure("the budget has no room for another answer", over_budget=True)
        used = estimate.likely
        try:
            answer = await self._bounded(request, rung)
        except (_RefusedFormError, _RejectedError, _NotTakenError):
            used = Usage()
            raise
        else:
            used = answer.usage
            return answer
        finally:
            await self._budget.settle(estimate, used)

    def _estimate(self, request: ModelRequest) -> Estimate:
        # Endpoints that keep a schema count it as part of the prompt.
        size = _size(request) + len(json.dumps(request.schema))
        out = self._sampling.answer_tokens
        return Estimate(
            Usage(size // _BYTES_A_TOKEN + _OVERHEAD, out), Usage(size + _OVERHEAD, out)
        )

    async def _bounded(self, request: ModelRequest, rung: int) -> ModelReply:
        """One try, within the timeout; another name of a parameter is no further try."""
        try:
            async with asyncio.timeout(self._timeout):
                try:
                    return _answer(await self._send(request, rung), request)
                except _RefusedFormError as problem:
                    if self._limit != "max_tokens" or "max_completion_tokens" not in str(
                        problem
                    ):
                        raise
                    self._limit = "max_completion_tokens"
                return _answer(await self._send(request, rung), request)
        except TimeoutError:
            raise _PassingFailure(f"no whole answer in {self._timeout:g} s") from None

    async def _send(self, request: ModelRequest, rung: int) -> bytes:
        """The body of one answer."""
        import openai

        parameters = {
            "model": self.name,
            "messages": list(request.messages),
            self._limit: self._sampling.answer_tokens,
            **self._sampling.of(request.repeat),
            **_response_format(_RUNGS[rung], request.schema),
            **self._extra,
        }
        create: Callable[..., Any] = (
            self._client.chat.completions.with_streaming_response.create
        )
        try:
            async with create(**parameters) as response:
                return await _read(response)
        except openai.APIStatusError as problem:
            raise _of_status(problem, self._said(problem)) from None
        except openai.APIError as problem:
            kind = _NotTakenError if _is_unreached(problem) else _PassingFailure
            raise kind(f"{type(problem).__name__}: {self._said(_cause(problem))}") from None

    def _said(self, problem: BaseException) -> str:
        """What went wrong, in short; endpoints may repeat the key that they refuse, which is not told on."""
        text = str(getattr(problem, "message", problem))
        return (text.replace(self._key, "[key]") if self._key else text)[:300]


def _is_unreached(problem: Exception) -> bool:
    """True if there was no connection that a request could be sent by."""
    return type(problem.__cause__).__name__ in _UNREACHED


def _cause(problem: Exception) -> BaseException:
    """What the transport says went wrong, if anything: the client says no more than "Connection error."."""
    cause = problem.__cause__
    return cause if cause is not None and str(cause) else problem


async def _read(response: Any) -> bytes:
    """The body, up to its bound."""
    from openai import APIError

    body = bytearray()
    try:
        async for part in response.iter_bytes():
            body += part
            if len(body) > ANSWER_BYTES_MAX:
                break
    except APIError:
        raise
    except Exception as problem:  # noqa: BLE001 - whatever the client's transport raises
        raise _PassingFailure(f"the answer broke off: {type(problem).__name__}") from None
    if len(body) > ANSWER_BYTES_MAX:
        raise ModelFailure(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
    return bytes(body)


def _client(endpoint: str, key: str | None, timeout: float) -> AsyncOpenAI:
    """The client. Its own timeout, of ten minutes, would end a longer one of ours."""
    from openai import AsyncOpenAI

    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port  # which raises, if it is none
        client = AsyncOpenAI(
            base_url=endpoint,
            api_key=key or "none",
            max_retries=0,
            timeout=timeout,
            http_client=transport_to(host or ""),
        )
    except Exception as problem:  # noqa: BLE001 - whatever the client's parser of URLs raises
        raise BadEndpointError(str(problem)) from None
    if not host:
        raise BadEndpointError("there is no host in it")
    return client


def _without_key() -> dict[str, Any]:
    from openai import omit

    return {"extra_headers": {"Authorization": omit}}


def _response_format(rung: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    if rung == "text":
        return {}
    if rung == "json_object":
        return {"response_format": {"type": rung}}
    named = {"name": "judgement", "strict": True, "schema": schema}
    return {"response_format": {"type": rung, "json_schema": named}}


def _of_status(problem: Any, said: str) -> Exception:
    """What a status means: another try, another form, or no answer."""
    status = problem.status_code
    message = f"status {status}: {said}"
    if status >= _SERVER_ERROR or status == 429:
        return _NotTakenError(message, _retry_after(problem.response.headers))
    if status in _NO_RUNG:
        return _RejectedError(message)
    if status in _AGAIN:
        return _NotTakenError(message)
    return _RefusedFormError(message)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the endpoint asks to wait; None if it does not say. A date counts from the answer's own."""
    with suppress(ValueError, TypeError):
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1_000)
    after = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(after))
    with suppress(ValueError, TypeError):
        until = parsedate_to_datetime(after) - parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, until.total_seconds())
    return None


def _size(request: ModelRequest) -> int:
    """Bytes of the prompt."""
    return sum(len(each["content"].encode(errors="replace")) for each in request.messages)


def _answer(body: bytes, request: ModelRequest) -> ModelReply:
    """The answer of a chat completion; one without an answer in it may come right at another try."""
    try:
        found = json.loads(body)
        choice = found["choices"][0]
        reason, message = choice.get("finish_reason"), choice.get("message")
        if message is None and reason == _FILTERED:  # as some endpoints say it
            message = {}
        content, refusal = message.get("content"), message.get("refusal")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        said = body[:_BODY_LOOKED_AT].decode(errors="replace")
        raise _PassingFailure(f"the body is no chat completion: {said}") from None
    text = content if isinstance(content, str) else _joined(content)
    return ModelReply(
        text=text,
        usage=_usage(found.get("usage"), request, text),
        refused=bool(refusal) or reason == _FILTERED,
        truncated=reason == "length",
    )


def _joined(content: Any) -> str:
    """The text of content that comes in parts."""
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _usage(found: Any, request: ModelRequest, text: str) -> Usage:
    """Tokens as the endpoint counts them; where it does not count, a token is four bytes."""
    fields = found if isinstance(found, dict) else {}
    tokens_in, tokens_out = fields.get("prompt_tokens"), fields.get("completion_tokens")
    return Usage(
        tokens_in if _is_count(tokens_in) else _size(request) // _BYTES_A_TOKEN,
        tokens_out if _is_count(tokens_out) else len(text) // _BYTES_A_TOKEN,
    )


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
