"""A suite of AgentDojo (package `agentdojo`, MIT) as a world: its own environment, tools and success functions.

    world, STATE = world_of("banking", "v1")

The state says which user task and which injected texts the environment is made of, and, once a call was made, the
environment itself. This module is loaded in the sandbox.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from harness.world.world import State, Tool, ToolError, World

__all__ = ["START", "suite_of", "world_of"]

START: Final[State] = {"task": "", "injections": {}, "environment": None}
_READS: Final = ("task", "injections")
_ENVIRONMENT: Final = "environment"
_BEGUN_MAX: Final = 8
"""Environments at their start that are kept: a process makes one rollout after the other."""


def suite_of(name: str, version: str) -> Any:
    """A suite of the package.

    Raises:
        ImportError: the package is not installed.
        KeyError: there is no such suite or version.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from agentdojo.task_suite.load_suites import get_suites

    return get_suites(version)[name]


def world_of(name: str, version: str) -> tuple[World, State]:
    """The world of a suite, and the state that it begins with."""
    world, suite = World(name), _Suite(suite_of(name, version))
    for each in suite.tools.values():
        world.tools[each.name] = each
    for function in suite.checks():
        world.check(reads=(*_READS, _ENVIRONMENT))(function)
    return world, dict(START)


class _Suite:
    """One suite: environments from states, tools and checks over them."""

    def __init__(self, suite: Any) -> None:
        from agentdojo.functions_runtime import FunctionsRuntime

        self._suite = suite
        self._runtime = FunctionsRuntime(suite.tools)
        self.tools = {each.name: self._tool(each) for each in suite.tools}
        self._begun = lru_cache(_BEGUN_MAX)(self._first)

    def _tool(self, given: Any) -> Tool:
        schema = given.parameters.model_json_schema()
        schema.pop("title", None)
        return Tool(
            given.name,
            given.description,
            schema,
            _READS,
            (_ENVIRONMENT,),
            self._called(given.name),
            # Its arguments are held against its own model, which takes "7" for 7.
            lenient=True,
        )

    def _called(self, name: str) -> Callable[..., Any]:
        from agentdojo.agent_pipeline.tool_execution import tool_result_to_str

        def call(state: State, /, **arguments: Any) -> str:
            environment = self._environment(state)
            result, error = self._runtime.run_function(environment, name, arguments)
            if error:
                raise ToolError(error)
            state[_ENVIRONMENT] = environment.model_dump(mode="json")
            return str(tool_result_to_str(result))

        return call

    # --- environments ---------------------------------------------------------------------------

    def _first(self, task: str, injections: tuple[tuple[str, str], ...]) -> Any:
        environment = self._suite.load_and_inject_default_environment(dict(injections))
        return self._suite.user_tasks[task].init_environment(environment)

    def _start(self, state: Mapping[str, Any]) -> Any:
        begun = self._begun(state["task"], tuple(sorted(state["injections"].items())))
        return begun.model_copy(deep=True)

    def _environment(self, state: Mapping[str, Any]) -> Any:
        data = state[_ENVIRONMENT]
        if data is None:
            return self._start(state)
        environment = self._suite.environment_type.model_validate(data)
        _restore(environment, data)
        return environment

    # --- checks ---------------------------------------------------------------------------------

    def checks(self) -> list[Callable[..., bool]]:
        """A check for each user task and each injection task, under its id."""
        tasks = {**self._suite.user_tasks, **self._suite.injection_tasks}
        return [self._check(name, task) for name, task in tasks.items()]

    def _check(self, name: str, task: Any) -> Callable[..., bool]:
        of_user = name.startswith("user_task")
        by_state = task.utility if of_user else task.security
        by_traces = task.utility_from_traces if of_user else task.security_from_traces

        def check(
            state: State, start: State, answer: str, calls: Sequence[Mapping[str, Any]]
        ) -> bool:
            from agentdojo.functions_runtime import FunctionCall

            before, after = self._start(start), self._environment(state)
            traces = [
                FunctionCall(function=each["tool"], args=each["arguments"]) for each in calls
            ]
            found = by_traces(answer, before, after, traces)
            return bool(by_state(answer, before, after) if found is None else found)

        check.__name__ = name
        return check


def _restore(model: Any, data: Mapping[str, Any]) -> None:
    """Puts a model's fields back to what was kept of them.

    Some models make fields of others when they are read (an inbox its messages of the first ones): what calls have
    changed since would be lost. What is equal stays the object that it is, for two fields may share it.
    """
    from pydantic import BaseModel, TypeAdapter

    for name, field in type(model).model_fields.items():
        value, kept = getattr(model, name), data.get(name)
        if isinstance(value, BaseModel) and isinstance(kept, Mapping):
            _restore(value, kept)
        elif _plain(value) != kept:
            found = TypeAdapter(field.annotation).validate_python(kept)
            if isinstance(found, dict) and isinstance(value, dict):
                found = {key: _shared(value.get(key), each) for key, each in found.items()}
            setattr(model, name, found)


def _shared(old: Any, new: Any) -> Any:
    return old if old is not None and _plain(old) == _plain(new) else new


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)
