"""Every case against `offrails serve`: in plain text, with TLS and a token, on Unix sockets."""

from __future__ import annotations

from collections.abc import Iterator
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


@pytest.fixture(scope="module")
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """A service of one kind, and how to reach it; it must end with exit code 0."""
    variant, server = request.param
    if variant == "tls" and not have_openssl():
        pytest.skip("the openssl program makes the certificates")
    given, described = VARIANTS[variant](tmp_path_factory.mktemp("c"))
    variables = {f"OFFRAILS_RECEIVER_{name}": value for name, value in given.items()}
    variables["OFFRAILS_RECEIVER_MAX_REQUEST_BYTES"] = str(LIMIT)
    variables["OFFRAILS_RECEIVER_GRPC_SERVER"] = server
    for short in ("GRPC", "HTTP"):
        if short in given:
            variables[f"OFFRAILS_{short}"] = given[short]
    service = Service(["--specs", "dfa_specs"], variables)
    try:
        addresses = service.wait_ready().addresses
        yield Target(
            addresses["grpc"],
            addresses["http"],
            described.ca,
            described.cert,
            described.token,
            LIMIT,
        )
        assert [line for line in service.err if '"level": "error"' in line] == []
        assert service.stop() == 0
    finally:
        service.kill()


def _runs() -> Iterator[Any]:
    """Every case of every variant; those over HTTP once, since only the gRPC server differs."""
    for server, variant, each in product(SERVERS, VARIANTS, cases()):
        if server == "builtin" or each.name.startswith("grpc."):
            names = (
                (variant, each.name) if server == "builtin" else (server, variant, each.name)
            )
            yield pytest.param((variant, server), each, id="-".join(names))


@pytest.mark.parametrize(("target", "each"), list(_runs()), indirect=["target"])
def test_conformance(target: Target, each: Case) -> None:
    """The receiver meets the requirement, as seen from outside."""
    each.check(target)
