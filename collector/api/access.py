"""Who asks, and what they may see and do.

A viewer reads. An operator also has specs read anew, and ends sessions. Either may be kept to some namespaces: then
no list, stream or count has anything of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from collector.net.asgi import Scope

__all__ = ["ACCESS", "ANYBODY", "Access", "AccessRules", "Role", "access_of"]

Role = Literal["none", "viewer", "operator"]
"""`none`: a proxy knows who it is, and gives no role."""

ACCESS: Final = "offrails.access"
"""Key of the request's scope that has its `Access`."""

READS: Final = ("GET", "HEAD")


class Access(NamedTuple):
    """Of one request."""

    who: str
    """The name of the token, or of the user as a proxy gives it; else the client's address."""
    role: Role = "operator"
    namespaces: tuple[str, ...] | None = None
    """Visible namespaces, each with all below it (`a` includes `a/b`); None: all."""

    def sees(self, namespace: str) -> bool:
        """True if sessions of a namespace may be shown."""
        if self.namespaces is None:
            return True
        return any(
            namespace == each or namespace.startswith(f"{each}/") for each in self.namespaces
        )

    @property
    def view(self) -> Access:
        """The same for all who see the same: what is made for one of them is made for each."""
        return ANYBODY if self.namespaces is None else Access("", "viewer", self.namespaces)

    def lacks(self, method: str) -> Role | None:
        """The role that a request with this method needs and does not have; None if it has it."""
        needed: Role = "viewer" if method in READS else "operator"
        return None if self.role in ("operator", needed) else needed


ANYBODY: Final = Access("")
"""Sees everything."""


def access_of(scope: Scope) -> Access:
    """Who asks. Where nobody has to say it: the client's address, as an operator of everything."""
    found = scope.get(ACCESS)
    if isinstance(found, Access):
        return found
    client = scope.get("client")
    return Access((str(client[0] or "") if client else "") or "unknown")


class AccessRules(NamedTuple):
    """What names of tokens, users and groups may see and do."""

    roles: Mapping[str, Role]
    namespaces: Mapping[str, tuple[str, ...]]

    def of(
        self, who: str, groups: tuple[str, ...] = (), *, default: Role = "operator"
    ) -> Access:
        """The access of one who is also a member of groups: the highest role, and the namespaces of all names.

        Args:
            who: the name.
            groups: further names; `viewer` and `operator` stand for themselves, unless they are given a role.
            default: the role where no name has one.
        """
        names = (who, *groups)
        found = {self.roles[name] for name in names if name in self.roles}
        found |= {role for role in _ROLES if role in groups and role not in self.roles}
        role: Role = "operator" if "operator" in found else "viewer" if found else default
        limits = [self.namespaces[name] for name in names if name in self.namespaces]
        seen = tuple(dict.fromkeys(each for some in limits for each in some))
        return Access(who, role, seen if limits else None)


_ROLES: Final[tuple[Role, ...]] = ("viewer", "operator")
