"""`receiver.grpc_server`: what each server loads, and what is said where its packages are missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.service import run
from tests.end_to_end.traffic import send
from tests.samples import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service
    from tests.end_to_end.traffic import Rover

IDLE_MB_MAX = {"builtin": 57, "grpcio": 72}
OWN_MB_MAX = {"builtin": 39.5, "grpcio": 43}
"""Without the pages of libraries' files, of which the kernel maps more or fewer, by what it has read ahead."""
READ_AHEAD_MB = {"builtin": 3, "grpcio": 5}
"""How much more of them was seen on other machines, and beside other tests."""


def resident_mb(service: Service, what: str) -> float:
    [line] = [
        line
        for line in Path(f"/proc/{service.process.pid}/status").read_text().splitlines()
        if line.startswith(f"{what}:")
    ]
    return int(line.split()[1]) / 1024


@pytest.mark.plain  # compiled modules are tested with an allocator that keeps more
@pytest.mark.parametrize("server", sampled(IDLE_MB_MAX, ["builtin"]))
def test_memory_and_modules(
    serve: Serve, server: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Idle memory is bounded; the builtin server loads nothing of grpcio."""
    # An installed service has bytecode. One that compiles its source at the start keeps a megabyte more.
    variables: dict[str, Any] = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(tmp_path_factory.getbasetemp() / "bytecode"),
    }
    serve(OFFRAILS_RECEIVER_GRPC_SERVER=server, **variables).stop()
    service = serve(OFFRAILS_RECEIVER_GRPC_SERVER=server, **variables)
    assert resident_mb(service, "RssAnon") < OWN_MB_MAX[server]
    assert resident_mb(service, "VmRSS") < IDLE_MB_MAX[server] + READ_AHEAD_MB[server]
    loaded = Path(f"/proc/{service.process.pid}/maps").read_text()
    assert ("cygrpc" in loaded) == (server == "grpcio")


def test_spans_are_judged(serve: Serve, rover: Callable[..., Rover]) -> None:
    """grpcio's server judges the spans like the builtin one, under the same transport label."""
    service = serve(OFFRAILS_RECEIVER_GRPC_SERVER="grpcio")
    one = rover().calls("undock")
    send(service, one.spans, "grpc", compress=True)
    assert service.judgement(one.session)["session"] == one.session
    assert service.metric("offrails_ingest_spans_total", transport="grpc") == 1


@pytest.mark.parametrize("package", ["grpc_health", "grpc_status"])
def test_missing_packages(tmp_path: Path, package: str) -> None:
    """Exit code 2, with the setting and the packages to install."""
    (tmp_path / f"{package}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')\n"
    )
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    ended = run("serve", OFFRAILS_RECEIVER_GRPC_SERVER="grpcio", PYTHONPATH=paths)
    assert ended.returncode == 2
    assert "OFFRAILS_RECEIVER_GRPC_SERVER" in ended.stderr
    assert f"No module named '{package}'; pip install 'offrails[grpcio]'" in ended.stderr


def test_an_unknown_server() -> None:
    ended = run("serve", OFFRAILS_RECEIVER_GRPC_SERVER="other")
    assert ended.returncode == 2
    assert "builtin" in ended.stderr


def test_an_address_in_use(serve: Serve) -> None:
    """The error has the same text as the builtin server's."""
    service = serve()
    place = service.addresses["grpc"]
    for server in IDLE_MB_MAX:
        free = "127.0.0.1:0"
        ended = run(
            *("serve", "--grpc", place, "--http", free, "--metrics", free, "--admin", free),
            *("--decide", free),
            OFFRAILS_RECEIVER_GRPC_SERVER=server,
        )
        assert ended.returncode == 1
        assert f"address already in use: {place}" in ended.stderr
