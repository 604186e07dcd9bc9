"""Fixtures: services that are ended with the test, or with the whole run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Protocol

import pytest

from tests.end_to_end.service import Service
from tests.end_to_end.traffic import Rover


class Serve(Protocol):
    """Starts a service for one test; it must end with exit code 0.

    `wait` False returns at once, so that several start side by side.
    """

    def __call__(
        self,
        *arguments: str,
        program: Sequence[str] | None = None,
        wait: bool = True,
        **variables: str,
    ) -> Service: ...


@pytest.fixture(scope="session", autouse=True)
def _no_proxy() -> Iterator[None]:
    """Requests to the loopback bypass any proxy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        yield


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts services, as in `serve(OFFRAILS_HISTORY="complete")`; each is ended by SIGTERM."""
    started: list[Service] = []

    def start(
        *arguments: str,
        program: Sequence[str] | None = None,
        wait: bool = True,
        **variables: str,
    ) -> Service:
        started.append(Service(arguments or None, variables, program))
        return started[-1].wait_ready() if wait else started[-1]

    try:
        yield start
        assert [service.stop() for service in started] == [0] * len(started)
    finally:
        for service in started:
            service.kill()


@pytest.fixture(scope="session")
def shared() -> Iterator[Service]:
    """One service for tests that need nothing special: arguments shown, history complete, log unlimited."""
    service = Service(
        variables={
            "OFFRAILS_HISTORY": "complete",
            "OFFRAILS_SHOW_ARGUMENTS": "true",
            "OFFRAILS_SESSIONS_WINDOW_SECONDS": "0.2",
            "OFFRAILS_LOG_VERDICT_LINES_PER_SECOND": "1000",
            "OFFRAILS_LOG_NAMESPACE_LINES_PER_SECOND": "1000",
        }
    )
    try:
        yield service.wait_ready()
        assert service.stop() == 0
    finally:
        service.kill()


_NUMBERS = count(1)


@pytest.fixture
def rover(request: pytest.FixtureRequest) -> Callable[..., Rover]:
    """Makes sessions whose ids no other test uses."""

    def make(session: str = "", **options: object) -> Rover:
        number = next(_NUMBERS)
        name = session or f"{request.node.name}-{number}"
        return Rover(name, number, **options)  # type: ignore[arg-type]

    return make
