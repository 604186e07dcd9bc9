"""The example agents, really run: the service judges each of their runs as the recordings are judged."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.service import Service, eventually
from tests.live.conftest import RUN_SECONDS, Python

EXAMPLES = Path(__file__).parents[2] / "examples"
AGENTS = ("langgraph", "openai_agents", "pydantic_ai")
CALLS = {"good": 4, "careful": 6, "order": 5, "argument": 5, "forbidden": 5}
HARMFUL = {
    "order": (2, "refund", "out_of_order"),
    "argument": (3, "refund", "argument_mismatch"),
    "forbidden": (4, "delete_customer", "unknown_tool"),
}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def desk() -> Iterator[Service]:
    """A service with the specs of the examples."""
    found = Service(("--specs", str(EXAMPLES / "specs"), "--history", "complete"))
    try:
        yield found.wait_ready()
        assert found.stop() == 0
    finally:
        found.kill()


def packages(agent: str) -> tuple[str, ...]:
    """The packages of an example, beside the SDK that every agent here gets."""
    lines = (EXAMPLES / "requirements" / f"{agent}.txt").read_text().splitlines()
    return tuple(line for line in lines if not line.startswith("opentelemetry-"))


@pytest.mark.parametrize("run", CALLS)
@pytest.mark.parametrize("agent", AGENTS)
def test_an_example_is_judged_right(
    agent: str, run: str, python: Python, desk: Service
) -> None:
    """The agent runs without a key, and the one call that breaks a rule is the harmful one."""
    session = f"{agent}-{run}"
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "PYTHON"))}
    done = subprocess.run(
        [str(python(packages(agent))), str(EXAMPLES / f"agent_{agent}.py"), run, session],
        env={**clean, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{desk.addresses['http']}"},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]

    def probe() -> dict[str, Any] | None:
        found = [each for each in desk.judgements(session) if each["spec"] == "support_desk"]
        return found[0] if found and found[0]["calls"] >= CALLS[run] else None

    judged = eventually(probe, 20)
    harmful = [
        (step["index"], step["tool"], step["reason"])
        for step in judged["steps"]
        if step["kind"] == "harmful"
    ]
    assert judged["calls"] == CALLS[run]
    assert judged["accepting"]
    assert harmful == ([HARMFUL[run]] if run in HARMFUL else [])
