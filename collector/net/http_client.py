"""The shared parts of all HTTP clients: certificates, credentials, proxies, and error texts.

Sinks use `httpx.AsyncClient`, verbs use `httpx.Client`, both made from `options`. A client follows no
redirect, keeps no cookie and reads no .netrc. Only `proxy_of` chooses proxies, so all verbs and sinks
take the same way to a host.

httpx is imported when a client is made, since it needs memory and time.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from collector.net.watched_files import UnusableFileError, read_file

__all__ = [
    "basic",
    "options",
    "proxy_of",
    "reason",
    "tls_context",
    "without_user",
]

NO_RESPONSE: Final = "the connection was closed without response"


# --- where to, and on whose behalf ----------------------------------------------------------------


def basic(user: str, password: str) -> str:
    """The value of `Authorization` for a user and a password (RFC 7617, UTF-8)."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def without_user(url: str) -> tuple[str, str]:
    """A URL without user and password, and their `Authorization` value; "" if there are none."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    name, _, password = user.partition(":")
    authorization = basic(unquote(name), unquote(password)) if user.strip(":") else ""
    return parts._replace(netloc=host).geturl(), authorization


def proxy_of(url: str, given: str = "") -> str | None:
    """The proxy for a URL; None if the client connects directly.

    The environment has HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, and exceptions in NO_PROXY: hosts,
    domains and networks. These proxies are never used for this machine.

    Args:
        url: the target.
        given: the configured proxy, used for all hosts; "off" for none; "" for the environment's.

    Raises:
        ValueError: the environment's proxy is not an HTTP proxy.
    """
    from urllib.request import getproxies_environment

    if given:
        return None if given == "off" else given
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies_environment()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or _is_loopback(host) or _is_excepted(host, parts.netloc, proxies):
        return None
    proxy = found if "://" in found else f"http://{found}"
    try:
        named = urlsplit(proxy)
        usable = named.scheme in ("http", "https") and named.hostname and (named.port or 1)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("the environment's proxy is no URL of http or https")
    return proxy


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _is_loopback(host: str) -> bool:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    found = _address(host)
    return found is not None and (found.is_loopback or found.is_unspecified)


def _is_excepted(host: str, netloc: str, proxies: dict[str, str]) -> bool:
    """True if NO_PROXY names the host, its domain, or the network of its address."""
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    place = netloc.rpartition("@")[2]
    if any(proxy_bypass_environment(each, proxies) for each in (host, place)):
        return True
    address = _address(host)
    for entry in proxies.get("no", "").split(",") if address is not None else ():
        try:
            network = ipaddress.ip_network(entry.strip().strip("[]"), strict=False)
        except ValueError:
            continue
        if address in network:
            return True
    return False


# --- what a client is made of ---------------------------------------------------------------------


def tls_context(
    ca_file: Path | None = None,
    cert_file: Path | None = None,
    key_file: Path | None = None,
    setting: str = "",
) -> ssl.SSLContext:
    """A context that trusts the system's authorities, or those of a file. Takes 20 to 60 ms.

    Args:
        ca_file: trusted authorities, PEM.
        cert_file: the client's certificate, PEM.
        key_file: the certificate's key, not encrypted; None if `cert_file` has it.
        setting: the section that names the files.

    Raises:
        UnusableFileError: a file cannot be read, or certificate and key do not match.
    """
    files = {"ca_file": ca_file, "client_cert_file": cert_file, "client_key_file": key_file}
    for name, file in files.items():
        if file is not None:  # unlike ssl's errors, these name the file
            read_file(file, f"{setting}.{name}")
    context = _trusting(ca_file, setting)
    if cert_file is not None:
        try:
            context.load_cert_chain(cert_file, key_file, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            given = ", ".join(str(file) for file in (cert_file, key_file) if file is not None)
            why = getattr(error, "reason", None) or str(error)
            raise UnusableFileError(f"{setting}.client_cert_file", given, why) from error
    return context


def _trusting(ca_file: Path | None, setting: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except ssl.SSLError as error:
        why = error.reason or "expected certificates in PEM"
        raise UnusableFileError(f"{setting}.ca_file", str(ca_file), why) from error


def _no_password() -> str:
    """Instead of OpenSSL's prompt on the terminal."""
    raise ValueError("the key is encrypted; expected one without a password")


def options(
    url: str,
    *,
    timeout_seconds: float,
    proxy: str | None = None,
    context: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The arguments of `httpx.Client` and `httpx.AsyncClient`.

    Args:
        url: the target; only its scheme is allowed.
        timeout_seconds: for connecting, and for each read and write.
        proxy: the result of `proxy_of`.
        context: certificates; None for the system's authorities.
        headers: sent with each request.
    """
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx

    _note_no_sniffio()
    with_tls = url.startswith("https:") or (proxy or "").startswith("https:")
    if context is None:  # without TLS it is unused, and an empty context costs nothing
        context = tls_context() if with_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    via = None
    if proxy is not None:
        secure = context if proxy.startswith("https:") else None
        via = httpx.Proxy(proxy, ssl_context=secure)
    return {
        "headers": {"user-agent": "offrails", "accept-encoding": "identity", **(headers or {})},
        "timeout": timeout_seconds,
        "verify": context,
        "proxy": via,
        "trust_env": False,
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    }


def _note_no_sniffio() -> None:
    """Has imports of sniffio fail at once where it is not installed.

    httpcore tries to import it several times in each request. Python does not remember that there is none, and
    goes through all folders each time: a third of the CPU time of a request.
    """
    if "sniffio" not in sys.modules and find_spec("sniffio") is None:
        sys.modules["sniffio"] = None  # type: ignore[assignment]


# --- what went wrong ------------------------------------------------------------------------------


def reason(problem: BaseException) -> str:
    """Why a request failed, in a few words: by its first cause of a known type, else by its own text."""
    for error in _chain(problem):
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the certificate is not trusted: {error.verify_message}"
        if isinstance(error, ssl.SSLError) and error.reason:
            return f"TLS: {error.reason.replace('_', ' ').lower()}"
        if isinstance(error, socket.gaierror):
            return str(error.strerror)
        if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
            return os.strerror(error.errno)
    name, text = type(problem).__name__, str(problem)
    if name.endswith("Timeout"):
        return "no answer in time"
    if name == "ProxyError":
        return f"the proxy answers {text}"
    return NO_RESPONSE if "without sending a response" in text else text or name


def _chain(problem: BaseException) -> Iterator[BaseException]:
    """An error and its causes, outermost first; of a group, the first error."""
    seen: set[int] = set()
    found: BaseException | None = problem
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        if isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        else:
            found = found.__cause__ or found.__context__
