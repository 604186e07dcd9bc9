"""What a judge asks a model, and what comes back. Any model that keeps this protocol can judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Model", "ModelFailure", "ModelReply", "ModelRequest", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several requests."""

    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request: the messages, and the JSON schema that the answer should keep."""

    messages: Sequence[Mapping[str, str]]
    """Each with `role` and `content`."""
    schema: Mapping[str, Any]
    repeat: int = 1
    """Number of the repetition, from 1: with a seed, each repetition has its own."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One answer, as the endpoint gave it."""

    text: str
    usage: Usage
    refused: bool = False
    """True if the model refused, or a content filter stopped it."""
    truncated: bool = False
    """True if the answer stops at the largest number of tokens."""


class ModelFailure(Exception):  # noqa: N818 - an outcome of a judgement
    """There is no answer.

    Args:
        message: why, without texts of the session and without keys.
        over_budget: True if nothing was sent, since the budget has no room for it.
    """

    def __init__(self, message: str, *, over_budget: bool = False) -> None:
        super().__init__(message)
        self.over_budget = over_budget


class Model(Protocol):
    """A model that can be asked."""

    @property
    def name(self) -> str:
        """Name of the model, as records have it."""

    @property
    def identity(self) -> Sequence[str]:
        """What besides the prompt an answer depends on: endpoint, model, sampling settings."""

    async def ask(self, request: ModelRequest) -> ModelReply:
        """The model's answer.

        Raises:
            ModelFailure: there is none.
        """
