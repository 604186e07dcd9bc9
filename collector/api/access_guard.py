"""Asks who it is before the API, the session view and reload; health is for anybody.

Programs send `Authorization: Bearer TOKEN`. Browsers ask their user themselves: the token is the password of
basic authentication, and they send it with every request of the page, its stream of changes too.

A proxy in front (OIDC, say) tells the user and the user's groups in headers. They are believed from its addresses alone.
Anybody else who sends them needs a token, as if they were not there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

from collector.api.access import ACCESS, Access, AccessRules
from collector.net.asgi import Application, Receive, Scope, Send, send_json
from collector.net.host_guard import HostGuard
from collector.receive.bearer_tokens import Tokens
from collector.receive.status_codes import ExportStatus, Refusal

__all__ = ["AccessGuard", "ProxyHeaders"]

NAME_MAX: Final = 256
"""Bytes of a user's name, and of each group, that a proxy gives; longer ones are refused."""
GROUPS_MAX: Final = 256
"""Groups of one user."""

_OPEN: Final = ("/-/healthy", "/-/ready")
_CHALLENGES: Final = (
    (b"www-authenticate", b'Bearer realm="offrails"'),
    (b"www-authenticate", b'Basic realm="offrails: the token is the password"'),
)


class ProxyHeaders(NamedTuple):
    """Which headers are believed, and from whom."""

    header: bytes
    """Lower-case name of the header with the user's name."""
    roles_header: bytes
    """Name of the header with roles and groups, separated by commas; b"" for none."""
    networks: Sequence[IPv4Network | IPv6Network]
    """Networks of the proxy's addresses."""

    def access(self, scope: Scope, rules: AccessRules) -> Access | None:
        """What the proxy says of who asks; None if it is not the proxy, or says nothing.

        Raises:
            Refusal: the headers are ambiguous, or too long.
        """
        if not self._is_from_proxy(scope):
            return None
        who = _only(scope, self.header)
        if not who:
            return None
        if not self.roles_header:
            return rules.of(who)
        groups = [each.strip() for each in _only(scope, self.roles_header).split(",")]
        if len(groups) > GROUPS_MAX or max(map(len, groups)) > NAME_MAX:
            raise Refusal(
                ExportStatus.UNAUTHENTICATED, "the proxy names too many roles or groups"
            )
        return rules.of(who, tuple(filter(None, groups)), default="none")

    def _is_from_proxy(self, scope: Scope) -> bool:
        client = scope.get("client")
        try:
            address = ip_address(str(client[0])) if client else None
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return address is not None and any(address in network for network in self.networks)


def _only(scope: Scope, name: bytes) -> str:
    """The value of a header; "" without one.

    Raises:
        Refusal: there are several, of which a client may have sent one.
    """
    found = [value for key, value in scope["headers"] if key.lower() == name]
    if len(found) > 1 or sum(map(len, found)) > NAME_MAX * GROUPS_MAX:
        raise Refusal(
            ExportStatus.UNAUTHENTICATED,
            f"expected one header {name.decode('latin-1')} of the proxy",
        )
    return found[0].decode("utf-8", "replace").strip() if found else ""


class AccessGuard:
    """An ASGI application in front of the admin application.

    Args:
        inner: the admin application.
        tokens: who may ask with a token; None if nobody may.
        proxy: what a proxy in front says; None if there is none.
        rules: what they may see and do.
        guard: the names accepted as Host: nobody is asked under another's name.
    """

    def __init__(
        self,
        inner: Application,
        tokens: Tokens | None,
        proxy: ProxyHeaders | None,
        rules: AccessRules,
        guard: HostGuard,
    ) -> None:
        self._inner = inner
        self._tokens = tokens
        self._proxy = proxy
        self._rules = rules
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in _OPEN or self._guard.refuses(scope) is not None:
            await self._inner(scope, receive, send)
            return
        try:
            access = self._access(scope)
        except Refusal as refusal:
            challenges = _CHALLENGES if self._tokens is not None else ()
            await send_json(send, 401, {"error": str(refusal)}, *challenges)
            return
        needed = access.lacks(scope["method"])
        if needed is not None:
            problem = (
                f"this needs the role {needed}; {access.who or 'this token'} has {access.role}"
            )
            await send_json(send, 403, {"error": problem, "role": needed})
            return
        scope[ACCESS] = access
        await self._inner(scope, receive, send)

    def _access(self, scope: Scope) -> Access:
        """Who asks.

        Raises:
            Refusal: nobody who is known.
        """
        found = self._proxy.access(scope, self._rules) if self._proxy is not None else None
        if found is not None:
            return found
        if self._tokens is None:
            raise Refusal(ExportStatus.UNAUTHENTICATED, "expected a user's name from the proxy")
        return self._rules.of(self._tokens.sender(_bearer(scope)))


def _bearer(scope: Scope) -> str:
    """The request's authorization; a password of basic authentication is read as a token."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    given = headers.get(b"authorization", b"").decode("latin-1")
    scheme, _, encoded = given.partition(" ")
    if scheme.lower() != "basic":
        return given
    try:
        found = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return f"Bearer {found.partition(':')[2]}"
