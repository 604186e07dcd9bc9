"""Addresses of listeners, HOST:PORT or unix:PATH: parsed and bound."""

from __future__ import annotations

import errno
import re
import socket
import stat
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Address", "AddressInUse", "bind", "claim_path", "parse_address"]

_HOST_PORT: Final = re.compile(
    r"(?:\[(?P<six>[^\]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})"
)


class AddressInUse(OSError):  # noqa: N818 - named after EADDRINUSE
    """Another process listens there."""

    def __init__(self, address: Address) -> None:
        super().__init__(errno.EADDRINUSE, f"address already in use: {address}")
        self.address = address

    def __str__(self) -> str:
        return str(self.strerror)


class Address(NamedTuple):
    """The address of a listener: host and port, or the path of a Unix socket."""

    host: str = ""
    """"" is every interface."""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parses HOST:PORT, [IPV6]:PORT, :PORT (every interface) or unix:PATH. Port 0 takes any free port.

    Raises:
        ValueError: a sentence that says what was expected.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        path = "/" + path.lstrip("/") if path.startswith("//") else path
        if not path:
            raise ValueError(f"expected a path after unix:, found {text!r}")
        return Address(path=path)
    match = _HOST_PORT.fullmatch(text)
    if match is None:
        raise ValueError(f"expected HOST:PORT, [IPV6]:PORT or unix:PATH, found {text!r}")
    port = int(match["port"])
    if port > 65535:
        raise ValueError(f"expected a port from 0 to 65535, found {port} in {text!r}")
    return Address(host=match["six"] or match["host"] or "", port=port)


def bind(address: Address, mode: int | None = None) -> socket.socket:
    """A bound socket that does not listen yet.

    Args:
        address: where.
        mode: permissions of a Unix socket; None: as the process's mask has it.

    Raises:
        AddressInUse: another process listens there.
        OSError: the address is not ours, not allowed, or does not resolve.
    """
    try:
        return _bind_unix(address, mode) if address.path else _bind_tcp(address)
    except AddressInUse:
        raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(address) from error
        raise OSError(error.errno, f"cannot listen on {address}: {error.strerror}") from error


def _bind_tcp(address: Address) -> socket.socket:
    host, family = address.host, socket.AF_INET
    if not host and socket.has_dualstack_ipv6():
        family = socket.AF_INET6
    elif host:
        # As bytes if possible: for text, Python loads the tables of international names.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name, address.port, type=socket.SOCK_STREAM)
        # "localhost" often resolves to IPv4 and IPv6; senders try both, or 127.0.0.1.
        family = min((entry[0] for entry in found), key=lambda item: item != socket.AF_INET)
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # SO_REUSEADDR: a restart must not wait for old connections. Not SO_REUSEPORT: a second
        # process could bind the same port, and each would receive half of the spans.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bool(host)))
        bound.bind((host, address.port))
    except BaseException:
        bound.close()
        raise
    return bound


def _bind_unix(address: Address, mode: int | None) -> socket.socket:
    claim_path(address)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(address.path)
        if mode is not None:  # nobody can connect before the socket listens
            Path(address.path).chmod(mode)
    except BaseException:
        bound.close()
        raise
    return bound


def claim_path(address: Address) -> None:
    """Removes the socket that a dead process left at a Unix address.

    Raises:
        AddressInUse: a live one answers there.
        OSError: the path is something else than a socket.
    """
    path = Path(address.path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "the path exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(address.path)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise AddressInUse(address)
