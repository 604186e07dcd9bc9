"""A real PostgreSQL server, on a free port of loopback, in a folder of its own, ended by who started it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["missing", "server"]

NAMES: Final = ("postgres", "nobody")
"""Users that a server may run as: it refuses to be root's."""
READY_SECONDS: Final = 60.0


@cache
def _program(name: str) -> str:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return str(found[0]) if found else shutil.which(name) or ""


@cache
def _user() -> str:
    """Whom the server runs as; "" as we are."""
    if os.geteuid():
        return ""
    for name in NAMES:
        with contextlib.suppress(KeyError):
            pwd.getpwnam(name)
            return name
    return "root"


def missing() -> str:
    """Why no server can be started here; "" if one can."""
    if not (_program("initdb") and _program("postgres")):
        return "PostgreSQL's server is not installed: apt-get install postgresql"
    if _user() == "root" or (_user() and not shutil.which("setpriv")):
        return "PostgreSQL's server does not run as root, and there is nobody else"
    return ""


def _as_user(command: list[str]) -> list[str]:
    if not _user():
        return command
    return [
        *("setpriv", f"--reuid={_user()}", "--clear-groups", "--pdeathsig=KILL"),
        *(f"--regid={pwd.getpwnam(_user()).pw_gid}", *command),
    ]


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a server's database, whose owner is no superuser."""
    folder = Path(tempfile.mkdtemp(prefix="offrails-postgres-"))
    try:
        if _user():
            os.chown(folder, pwd.getpwnam(_user()).pw_uid, -1)
        made = [
            "-D",
            str(folder / "data"),
            "-U",
            "admin",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run(
            _as_user([_program("initdb"), *made]), check=True, capture_output=True, cwd="/"
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        options += ["-c", f"unix_socket_directories={folder}", "-D", str(folder / "data")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                _as_user([_program("postgres"), *options]), stdout=log, stderr=log, cwd="/"
            )
        try:
            _prepare(port, process)
            yield f"postgresql://monitor@127.0.0.1:{port}/history"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(port: int, process: subprocess.Popen[bytes]) -> None:
    import psycopg

    until = time.monotonic() + READY_SECONDS
    while True:
        try:
            admin = psycopg.connect(
                f"postgresql://admin@127.0.0.1:{port}/postgres", autocommit=True
            )
            break
        except psycopg.OperationalError:
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.05)
    with admin:
        admin.execute("CREATE ROLE monitor LOGIN")
        admin.execute("CREATE DATABASE history OWNER monitor")
