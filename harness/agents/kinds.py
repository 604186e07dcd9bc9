"""Agents by the words of `--agent`."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from harness.agents.openai import ENDPOINT, OpenAIAgent
from harness.agents.reactive import InjectedAgent, RandomAgent
from harness.agents.scripted import (
    Faults,
    ScriptedAgent,
    ScriptError,
    faulty,
    golden,
    read_script,
)
from harness.scaffold.scaffold import Scaffold
from harness.scaffold.turn import RolloutAgent
from harness.tasks.read import BenchTask

__all__ = ["FORMS", "AgentKind", "agent_kind"]

FORMS: Final = "golden, scripted:FILE, random, faulty:RATE[,FAULT...], injected or openai:MODEL"

_Make = Callable[[BenchTask, int, random.Random], RolloutAgent]


class AgentKind(NamedTuple):
    """A kind of agent, of which each rollout gets one."""

    name: str
    """The word that names it in results."""
    make: _Make
    check: Callable[[BenchTask], object] = lambda _: None
    """Raises ScriptError for a task that it knows nothing of."""
    close: Callable[[], object] = lambda: None
    """Gives up its connections, when all rollouts are over."""


def agent_kind(text: str, scaffold: Scaffold, endpoint: str | None = None) -> AgentKind:
    """The kind that `--agent` names.

    Args:
        text: one of `FORMS`.
        scaffold: of agents with a model.
        endpoint: of the model.

    Raises:
        ScriptError: there is no such kind, or what it names cannot be used.
    """
    word, _, rest = text.partition(":")
    if word == "openai" and rest:
        client = httpx.Client(limits=httpx.Limits(max_connections=64))
        make = _openai(rest, scaffold, endpoint or ENDPOINT, client)
        return AgentKind(text, make, close=client.close)
    if word == "scripted" and rest:
        turns_of = read_script(Path(rest))
        return AgentKind(
            f"scripted:{Path(rest).stem}",
            lambda task, _seed, _chance: ScriptedAgent(turns_of(task)),
            turns_of,
        )
    if word == "faulty" and rest:
        faults = Faults.read(rest)
        return AgentKind(
            text,
            lambda task, seed, chance: ScriptedAgent(
                faulty(task, seed, faults, chance), task.document.final
            ),
            faults.check,
        )
    if text not in _PLAIN:
        raise ScriptError(f"--agent: expected {FORMS}, found {text!r}")
    return AgentKind(text, _PLAIN[text])


_PLAIN: Final[dict[str, _Make]] = {
    "golden": lambda task, seed, _: ScriptedAgent(golden(task, seed), task.document.final),
    "random": lambda task, _, chance: RandomAgent(task, chance),
    "injected": lambda task, seed, _: InjectedAgent(task, golden(task, seed)),
}


def _openai(model: str, scaffold: Scaffold, endpoint: str, client: httpx.Client) -> _Make:
    def make(task: BenchTask, seed: int, _: random.Random) -> RolloutAgent:
        return OpenAIAgent(
            task, model=model, endpoint=endpoint, scaffold=scaffold, seed=seed, client=client
        )

    return make
