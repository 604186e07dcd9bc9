"""Guarded functions: asked for before each call, and their outcome sent after it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from offrails_guard import DeniedError
from tests.offrails_guard.conftest import Make
from tests.offrails_guard.double import DENIED, Double


def test_an_allowed_function_runs(double: Double, make: Make) -> None:
    """Its arguments are asked for by name, defaults left out; it returns what it returns, and ran."""
    guard = make()

    @guard.tool
    def scan(area: str, depth: int = 1, *marks: str, **more: Any) -> str:
        return f"{area} {depth} {more}"

    assert scan("field", more=3) == "field 1 {'more': 3}"
    assert double.asked()["arguments"] == {"area": "field", "more": 3}
    assert double.outcome() == ("d1", "ran")


def test_a_denied_function_does_not_run(double: Double, make: Make) -> None:
    """The exception has the words for the model, and the decision; the service learns that it did not run."""
    ran = []
    guard = make()

    @guard.tool
    def water(field: int) -> None:
        ran.append(field)

    with pytest.raises(DeniedError, match="open_valve was skipped") as caught:
        water(3)

    assert (ran, caught.value.decision.decision) == ([], "deny")
    assert double.outcome() == ("d1", "skipped")


def test_a_denied_function_can_return_the_message(make: Make) -> None:
    """For frameworks that hand a tool's result to the model, and stop for its exceptions."""
    guard = make()

    @guard.tool(name="water", denied="message")
    def pour() -> str:
        return "poured"

    assert pour() == DENIED


def test_a_function_that_fails_says_so(double: Double, make: Make) -> None:
    """Its exception goes on to the caller, and the outcome is `failed`."""

    def scan() -> None:
        raise KeyError("mud")

    with pytest.raises(KeyError, match="mud"):
        make().wrap(scan)()

    assert double.outcome() == ("d1", "failed")


def test_a_coroutine_function_stays_one(double: Double, make: Make) -> None:
    """An async tool is asked for in its event loop; denied, failed and done alike."""
    guard = make()

    @guard.tool
    async def scan(area: str) -> str:
        if area == "mud":
            raise KeyError(area)
        return area

    @guard.tool
    async def water() -> None:
        raise AssertionError("it ran")

    assert inspect.iscoroutinefunction(scan)
    assert asyncio.run(scan("field")) == "field"
    assert double.outcome() == ("d1", "ran")
    with pytest.raises(KeyError):
        asyncio.run(scan("mud"))
    assert double.outcome() == ("d2", "failed")
    with pytest.raises(DeniedError):
        asyncio.run(water())


def test_a_method_is_asked_for_without_its_object(double: Double, make: Make) -> None:
    """`self` is no argument of the call."""
    guard = make()

    class Rover:
        @guard.tool
        def scan(self, area: str) -> str:
            return area

    assert Rover().scan("field") == "field"
    assert double.asked()["arguments"] == {"area": "field"}


def test_arguments_that_do_not_fit_raise_as_ever(double: Double, make: Make) -> None:
    """The function itself says what is wrong; the call is asked for without arguments, and failed."""

    def scan(area: str) -> str:
        return area

    with pytest.raises(TypeError):
        make().wrap(scan)()  # type: ignore[call-arg]

    assert "arguments" not in double.asked()
    assert double.outcome() == ("d1", "failed")


def test_a_guarded_function_keeps_its_face(make: Make) -> None:
    """Frameworks read name, words and parameters of a tool from the function."""

    def scan(area: str) -> str:
        """Scan an area."""
        return area

    wrapped = make().wrap(scan)

    assert (wrapped.__name__, wrapped.__doc__) == ("scan", "Scan an area.")
    assert inspect.signature(wrapped) == inspect.signature(scan)
