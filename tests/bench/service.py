"""Servers under test: the real service and, where they are installed, its peers.

Each is a process of its own on free loopback ports. What it costs is read from the kernel's own
accounting of its threads, in nanoseconds, so an idle machine is not needed to compare two of them
in one run.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import collector.calls.pipeline
from tests.bench.traffic import ROVER
from tests.end_to_end.loopback import free_port

__all__ = [
    "COLLECTOR",
    "COMPILED",
    "OURS",
    "PEERS",
    "PLAIN",
    "PLAIN_PATH",
    "ROVER",
    "Server",
    "peers",
    "service",
    "start",
]

COMPILED = not collector.calls.pipeline.__file__.endswith(".py")
"""Whether the compiled build is measured."""
OURS = "offrails"
PLAIN = "offrails, plain Python"
PLAIN_PATH = {"PYTHONPATH": str(Path(__file__).parents[2])}
"""In the environment of a process that is to use the source, where the benchmarks use the build."""
COLLECTOR = "Collector, spanmetrics"

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".peers"
"""Where `make bench-peers` puts what is not ours."""

ADDRESS = re.compile(r"(grpc|http|metrics|decide)=127\.0\.0\.1:(\d+)")
START_SECONDS = 20.0

_CONFIG = """\
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{grpc}", max_recv_msg_size_mib: 64}}
      http: {{endpoint: "127.0.0.1:{http}", max_request_body_size: 67108864}}
connectors:
  spanmetrics: {{metrics_flush_interval: 15s}}
exporters:
  prometheus: {{endpoint: "127.0.0.1:{metrics}"}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: error}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [spanmetrics]}}
    metrics: {{receivers: [spanmetrics], exporters: [prometheus]}}
"""
"""The Collector doing its nearest thing: every span into metrics for Prometheus."""


class Server(NamedTuple):
    """A running server."""

    name: str
    pid: int
    ports: dict[str, int]
    counts: bool = False
    """Its metrics count the spans it was sent, with some delay."""

    def metrics(self) -> str:
        """The present /metrics."""
        url = f"http://127.0.0.1:{self.ports['metrics']}/metrics"
        with urllib.request.urlopen(url) as page:
            text: str = page.read().decode()
        return text

    def cpu_ns(self) -> int:
        """CPU time of all its threads so far."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def resident_bytes(self) -> int:
        """Memory that it holds now."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4_096


class Peer(NamedTuple):
    """A server that is not ours: how to start it on given ports."""

    name: str
    command: tuple[str, ...]
    config: str = ""
    counts: bool = False


def peers() -> list[Peer]:
    """The peers that are installed here."""
    collector = Peer(
        COLLECTOR,
        (str(PEERS / "otelcol"), "--config", "{config}"),
        _CONFIG,
        counts=True,
    )
    agent = next(PEERS.glob("lib/*/site-packages/rotel/rotel-agent"), PEERS / "rotel")
    rotel = Peer(
        "rotel, blackhole",
        (
            str(agent),
            "start",
            "--exporter",
            "blackhole",
            "--otlp-grpc-endpoint",
            "127.0.0.1:{grpc}",
            "--otlp-http-endpoint",
            "127.0.0.1:{http}",
        ),
    )
    return [peer for peer in (collector, rotel) if Path(peer.command[0]).exists()]


@contextlib.contextmanager
def service(
    *arguments: str,
    specs: Path = ROVER,
    name: str = OURS,
    plain: bool = False,
    log: int = subprocess.DEVNULL,
) -> Iterator[Server]:
    """The service itself, ready, judging by one spec with a complete history.

    With `plain` it is the one of this folder in any case, not the compiled one. `log` takes its lines, a descriptor.
    """
    command = [sys.executable, "-m", "collector", "serve", "--specs", str(specs)]
    for listener in ("grpc", "http", "metrics"):
        command += [f"--{listener}", "127.0.0.1:0"]
    environment = {**os.environ, **(PLAIN_PATH if plain else {})}
    command += ["--admin", "off", "--decide", "off", "--history", "complete", *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ports = {found: int(port) for found, port in ADDRESS.findall(line)}
        assert ports, f"not ready: {line!r}"
        yield Server(name, process.pid, ports)
    finally:
        _stop(process)


@contextlib.contextmanager
def start(peer: Peer) -> Iterator[Server]:
    """A peer, ready."""
    ports = {name: free_port() for name in ("grpc", "http", "metrics")}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(peer.config.format(**ports))
        command = [part.format(config=config, **ports) for part in peer.command]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _await_port(process, ports["grpc"])
            _await_port(process, ports["http"])
            yield Server(peer.name, process.pid, ports, counts=peer.counts)
        finally:
            _stop(process)


def _await_port(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, f"ended with {process.returncode}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens on port {port}")


def _stop(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
