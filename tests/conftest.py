"""Settings of all tests: how hypothesis finds examples, and which tests share a process."""

from __future__ import annotations

import os
import pkgutil
from importlib import import_module
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

import collector
import monitor

# As in a service with a journal, before anybody loads grpcio.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# No test asks how long an example takes: some compile what they test, and machines are busy.
settings.register_profile("anywhere", deadline=None)
# Everywhere else each run tries new examples; what decides whether work lands repeats itself.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "anywhere")

if os.environ.get("CI"):
    # hypothesis takes constants of the loaded modules into its examples: all are loaded, so that
    # a test sees the same examples whichever tests run before it, and in whichever process.
    for package in (collector, monitor):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(".__main__"):
                import_module(found.name)


class Files(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Each file runs in one process, and so does all of `end_to_end`.

    The tests there share a service and time that passes beside them, and do not slow each other.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder = "tests/end_to_end/"
        return folder if nodeid.startswith(folder) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files:
    """How tests are shared out among the processes of `pytest -n`."""
    return Files(config, log)
