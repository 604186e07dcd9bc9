"""Settings of all tests: how hypothesis finds examples, which tests share a process, and which come first."""

from __future__ import annotations

import gc
import os
import pkgutil
from collections.abc import Generator
from importlib import import_module
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadScopeScheduling

import collector
import monitor

# As in a service with a journal, before anybody loads grpcio.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# Each law has as many examples as a run has time for: no test sets a number of its own. `make test` takes the same few
# each time, so that a red run can be repeated; `make test-long` takes new ones (`--hypothesis-profile many`).
# No test asks how long an example takes: some compile what they test, and machines are busy.
PATIENT: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", PATIENT, max_examples=12, derandomize=True)
settings.register_profile("many", PATIENT, max_examples=500)
settings.load_profile("few")


def load_all_modules() -> None:
    """Loads each module of the product, but those of an extra that is not installed here."""
    for package in (collector, monitor):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(".__main__"):
                try:
                    import_module(found.name)
                except ModuleNotFoundError as problem:
                    if (problem.name or "").partition(".")[0] != "inspect_ai":
                        raise


@pytest.hookimpl(trylast=True)
def pytest_sessionstart() -> None:
    """A test sees the same examples whichever tests run before it, and in whichever process.

    hypothesis takes constants of the loaded modules into its examples, and which are loaded depends on timing. So it gets
    those of all modules before the first test, or none: to read them takes seconds in each process, and few examples hold one.
    """
    if settings.get_current_profile_name() != "few":
        load_all_modules()
        providers._get_local_constants()  # noqa: SLF001 - hypothesis has no setting for it
    providers._get_local_constants = lambda: providers._local_constants  # noqa: SLF001 - hypothesis has no setting for it


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and all modules are never looked at for garbage.

    While they are collected, that would take a fifth of the time; later, a third of a second each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class Files(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Each file runs in one process, as fixtures of a file are made once."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files:
    """How tests are shared out among the processes of `pytest -n`."""
    config.option.loadscopereorder = False
    return Files(config, log)


# Their files take long, some half a minute: begun first, they leave no process alone at the end.
SLOW: Final = ("end_to_end", "packaging", "page", "simulation")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow folders come first, in whatever order the rest is."""
    items.sort(
        key=lambda item: not item.nodeid.startswith(tuple(f"tests/{each}/" for each in SLOW))
    )
