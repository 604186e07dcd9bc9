"""Every case against `offrails serve`: in plain text, with TLS and a token, on Unix sockets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.case import Case, cases
from tests.conformance.target import Target
from tests.end_to_end.certificates import authority, have_openssl, issue
from tests.end_to_end.service import Service

LIMIT = 2_000_000
TOKEN = "for-this-test-alone"


def _plain(_folder: Path) -> tuple[dict[str, str], Target]:
    return {}, Target(limit=LIMIT)


def _tls(folder: Path) -> tuple[dict[str, str], Target]:
    """TLS that asks for the client's certificate, and a bearer token."""
    signer = authority(folder)
    server, client = issue(signer, folder, "server"), issue(signer, folder, "client")
    tokens = folder / "tokens"
    tokens.write_text(f"tests: {TOKEN}\n")
    given = {
        "TLS_CERT": str(server.cert),
        "TLS_KEY": str(server.key),
        "TLS_CLIENT_CA": str(signer.cert),
        "AUTH_BEARER_TOKENS_FILE": str(tokens),
    }
    target = Target(ca=signer.cert, cert=client.together(), token=TOKEN, limit=LIMIT)
    return given, target


def _unix(folder: Path) -> tuple[dict[str, str], Target]:
    return {"GRPC": f"unix:{folder}/g", "HTTP": f"unix:{folder}/h"}, Target(limit=LIMIT)


VARIANTS = {"plain": _plain, "tls": _tls, "unix": _unix}
SERVERS = ("builtin", "grpcio")
SOME = {"builtin": 3, "grpcio": 6}
"""Of so many cases over TLS and Unix sockets, `make test` takes one. The cases of a server are the same over each."""
Kind = tuple[str, str]
"""Server and variant."""


class Started:
    """The services of one run, one of each kind, however the cases are ordered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._services: list[Service] = []
        self._targets: dict[Kind, Target] = {}

    def target(self, kind: Kind) -> Target:
        """How to reach the service of a kind, which is started with its first case."""
        if kind not in self._targets:
            self._targets[kind] = self._start(*kind)
        return self._targets[kind]

    def _start(self, server: str, variant: str) -> Target:
        if variant == "tls" and not have_openssl():
            pytest.skip("the openssl program makes the certificates")
        folder = self._folder / f"{server}-{variant}"
        folder.mkdir()
        given, described = VARIANTS[variant](folder)
        variables = {f"OFFRAILS_RECEIVER_{name}": value for name, value in given.items()}
        variables["OFFRAILS_RECEIVER_MAX_REQUEST_BYTES"] = str(LIMIT)
        variables["OFFRAILS_RECEIVER_GRPC_SERVER"] = server
        for short in ("GRPC", "HTTP"):
            if short in given:
                variables[f"OFFRAILS_{short}"] = given[short]
        self._services.append(Service(["--specs", "dfa_specs"], variables))
        addresses = self._services[-1].wait_ready().addresses
        return replace(described, grpc=addresses["grpc"], http=addresses["http"])

    def stop(self) -> None:
        """Each service has logged no error, and ends with exit code 0."""
        for service in self._services:
            assert [line for line in service.err if '"level": "error"' in line] == []
        assert [service.stop() for service in self._services] == [0] * len(self._services)

    def kill(self) -> None:
        for service in self._services:
            service.kill()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    services = Started(tmp_path_factory.mktemp("c"))
    try:
        yield services
        services.stop()
    finally:
        services.kill()


def _runs() -> Iterator[Any]:
    """Every case of every variant; those over HTTP once, since only the gRPC server differs.

    Over TLS and Unix sockets, `make test` takes some of the cases.
    """
    for server, variant in product(SERVERS, VARIANTS):
        ours = server == "builtin"
        chosen = [each for each in cases() if ours or each.name.startswith("grpc.")]
        names = (variant,) if ours else (server, variant)
        for number, each in enumerate(chosen):
            long = variant != "plain" and number % SOME[server]
            marks = [pytest.mark.long] if long else []
            yield pytest.param(
                (server, variant), each, marks=marks, id="-".join((*names, each.name))
            )


@pytest.mark.parametrize(("kind", "each"), list(_runs()))
def test_conformance(started: Started, kind: Kind, each: Case) -> None:
    """The receiver meets the requirement, as a client observes it."""
    each.check(started.target(kind))
