"""Functions that are asked for before each call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeVar

from offrails_guard.decision import Decision, DeniedError, Outcome

__all__ = ["OnDenied", "wrapped"]

OnDenied = Literal["raise", "message"]

Function = TypeVar("Function", bound=Callable[..., Any])

_RECEIVERS: Final = ("self", "cls")
"""Names of first parameters that are no argument of the call."""


class Decider(Protocol):
    """Who decides."""

    def check(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Decision:
        """Decides on one call."""

    async def acheck(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Decision:
        """As `check`, in an event loop."""

    def outcome(self, decision_id: str, outcome: Outcome) -> None:
        """Says what became of a call."""

    def refused(self, decision: Decision) -> None:
        """Says that a call that was not allowed is not made."""


def wrapped(guard: Decider, function: Function, name: str, denied: OnDenied) -> Function:
    """The function, asked for before each call; its outcome is sent after it."""
    tool = name or getattr(function, "__name__", type(function).__name__)
    signature = inspect.signature(function)

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        decision = guard.check(tool, _arguments(signature, args, kwargs))
        if not decision.allowed:
            return _refuse(guard, decision, denied)
        with _Outcome(guard, decision):
            return function(*args, **kwargs)

    @functools.wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        decision = await guard.acheck(tool, _arguments(signature, args, kwargs))
        if not decision.allowed:
            return _refuse(guard, decision, denied)
        with _Outcome(guard, decision):
            return await function(*args, **kwargs)

    return awaited if inspect.iscoroutinefunction(function) else plain  # type: ignore[return-value]


class _Outcome:
    """Sends what became of a call when its block ends."""

    def __init__(self, guard: Decider, decision: Decision) -> None:
        self._guard = guard
        self._decision = decision

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._guard.outcome(self._decision.decision_id, "ran" if kind is None else "failed")


def _refuse(guard: Decider, decision: Decision, denied: OnDenied) -> str:
    guard.refused(decision)
    if denied == "raise":
        raise DeniedError(decision)
    return decision.message


def _arguments(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The arguments by name, as a model gives them: defaults are left out. None where they do not fit."""
    try:
        found = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:
        return None  # the call itself says what is wrong with them
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in _RECEIVERS:
        found.pop(parameters[0].name, None)
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= found.pop(parameter.name, {})
    return found
