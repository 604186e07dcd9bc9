"""Environments for agents of real frameworks: made once, kept in pytest's cache, never ours."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.service import SPECS, Service

AGENTS = Path(__file__).with_name("agents")

SDK = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")

INSTALL_SECONDS = 600
RUN_SECONDS = 120

Python = Callable[[tuple[str, ...]], Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests install packages, so they run only when asked for."""
    if os.environ.get("OFFRAILS_LIVE"):
        return
    skip = pytest.mark.skip(reason="installs packages: run `make test-live`")
    for item in items:
        if item.nodeid.startswith("tests/live/"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def python(request: pytest.FixtureRequest) -> Python:
    """Gives the interpreter of an environment with these packages, or skips with the reason."""

    def make(packages: tuple[str, ...]) -> Path:
        wanted = "\n".join((*packages, *SDK, sys.version))
        name = hashlib.sha256(wanted.encode()).hexdigest()[:12]
        place = request.config.cache.mkdir("live") / f"{packages[0].split('=')[0]}-{name}"
        found = place / "bin" / "python"
        if not (place / "done").exists():
            _install(place, packages)
            (place / "done").touch()
        return found

    return make


def _install(place: Path, packages: tuple[str, ...]) -> None:
    """Makes the environment; a registry out of reach is a reason to skip, not to fail."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    command = [
        str(place / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        *packages,
        *SDK,
    ]
    try:
        subprocess.run(
            command, check=True, timeout=INSTALL_SECONDS, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{packages[0]} could not be installed in {INSTALL_SECONDS} s")
    except subprocess.CalledProcessError as problem:
        lines = problem.stderr.strip().splitlines()
        pytest.skip(f"{packages[0]} could not be installed: {lines[-1] if lines else problem}")


@pytest.fixture(scope="session")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rover's task, and the same for an agent that names tools after their server."""
    folder = tmp_path_factory.mktemp("specs")
    text = (SPECS / "farm_rover.yaml").read_text()
    (folder / "farm_rover.yaml").write_text(text)
    text = text.replace("id: farm_rover", "id: claude_rover").replace(
        "service.name: farm-rover", "service.name: claude-rover"
    )
    text = text.replace("{tool: ", "{tool: mcp__farm__").replace(
        "water: crit", "mcp__farm__water: crit"
    )
    (folder / "claude_rover.yaml").write_text(text)
    return folder


@pytest.fixture(scope="session")
def service(specs: Path) -> Iterator[Service]:
    """One `offrails serve` for all agents."""
    found = Service(
        ("--specs", str(specs)),
        variables={
            "OFFRAILS_HISTORY": "complete",
            "OFFRAILS_SHOW_ARGUMENTS": "true",
            "OFFRAILS_SESSIONS_WINDOW_SECONDS": "0.2",
        },
    )
    try:
        yield found.wait_ready()
        assert found.stop() == 0
    finally:
        found.kill()


@pytest.fixture
def play(python: Python, service: Service) -> Callable[..., None]:
    """Runs an agent's script to its end, its spans going to the service."""

    def start(
        script: str, packages: tuple[str, ...], run: str, session: str, **variables: str
    ) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "PYTHON"))}
        done = subprocess.run(
            [str(python(packages)), str(AGENTS / script)],
            env={
                **clean,
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{service.addresses['http']}",
                "OTEL_SERVICE_NAME": "farm-rover",
                "ROVER_RUN": run,
                "ROVER_SESSION": session,
                "OPENAI_API_KEY": "none",
                "OPENAI_AGENTS_DISABLE_TRACING": "0",
                "no_proxy": "127.0.0.1",
                **variables,
            },
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]

    return start
