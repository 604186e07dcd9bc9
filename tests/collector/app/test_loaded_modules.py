"""A service loads what its settings ask for: one process that is started and stopped with next to nothing on tells of all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
PROGRAM: Final = f"""
import asyncio, json, sys
from pathlib import Path
from collector.app import serve
from collector.cli import inputs, main
from collector.app.service import App

SPECS = inputs.load_specs_or_quit([Path({str(ROOT / "dfa_specs" / "farm_rover.yaml")!r})])
FREE = "127.0.0.1:0"

async def run(grpc):
    options = {{("receiver", "grpc"): grpc, ("receiver", "http"): FREE, ("metrics",): FREE, ("decide", "listen"): FREE, ("admin",): "off"}}
    app = App(inputs.load_settings(None, options), SPECS)
    await app.start()
    await app.stop()

loaded = []
for grpc in ("off", FREE):
    asyncio.run(run(grpc))
    loaded.append(list(sys.modules))
import collector.app.listening.admin
print(json.dumps([*loaded, list(sys.modules)]))
"""
UNUSED: Final = {
    "sinks": ("opentelemetry.sdk", "opentelemetry.exporter", "requests"),
    "a client of HTTP": ("httpx", "httpcore", "anyio", "urllib.request", "http.cookiejar"),
    "an archive": ("sqlite3",),
    "judges": ("judges",),
    "pushed metrics": ("collector.metrics.otlp",),
    "next hops": ("collector.forward", "grpc."),
    "kept state": ("collector.state", "collector.restart.recovery"),
}
"""Names that begin so are of what is off here, with gRPC and the admin listener or without."""
OTHERS: Final = {
    *("grpc", "opentelemetry", "google.protobuf.text_format"),
    *("google.protobuf.descriptor_pb2", "rich", "prometheus_client"),
    *("zstandard", "difflib", "encodings.idna", "http.server", "re2", "gzip"),
    *("collector.api.session_view.routes", "collector.api.session_view.files"),
    *("collector.receive.grpc.builtin_server", "collector.sinks.recorder"),
    *("collector.offline.replay", "collector.offline.learn", "collector.client.doctor"),
    *("collector.offline.draw", "monitor.spec.document.reference"),
}


@pytest.fixture(scope="module")
def loaded() -> list[list[str]]:
    """What is loaded: serving HTTP alone, gRPC too, and once the admin listener is imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: list[list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("names", UNUSED.values(), ids=UNUSED)
def test_what_is_off_is_not_loaded(loaded: list[list[str]], names: tuple[str, ...]) -> None:
    """Neither our module nor the library that it is for."""
    for each in loaded:
        assert not [name for name in each if name.startswith(names)]


def test_serving_loads_what_serves(loaded: list[list[str]]) -> None:
    """Of gRPC, of the page, of learnt references and of other verbs nothing, where they are not asked for."""
    assert not OTHERS & set(loaded[0])
    assert "collector.receive.grpc.builtin_server" in loaded[1]
