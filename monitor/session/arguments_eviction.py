"""Which live sessions hold arguments of calls to be shown, the ones that called last at the end.

Idea: arguments decide nothing once their call is judged. So they are the first to go where sessions are over their bound
in bytes: those of the session that has not called for longest, of the tenant that holds more than its share, and of its
calls the earliest ones.
"""

from __future__ import annotations

from collections import OrderedDict

from monitor.session.session import Session

__all__ = ["ShownArguments"]


class ShownArguments:
    """The sessions, by tenant."""

    __slots__ = ("_by_tenant", "_tenants")

    def __init__(self) -> None:
        self._by_tenant: dict[str, OrderedDict[Session, None]] = {}
        self._tenants: dict[Session, str] = {}

    def __len__(self) -> int:
        return len(self._tenants)

    def keep(self, session: Session, tenant: str) -> None:
        """A session holds arguments of one more call."""
        if session not in self._tenants:
            self._tenants[session] = tenant
            self._by_tenant.setdefault(tenant, OrderedDict())[session] = None
        else:
            self._by_tenant[self._tenants[session]].move_to_end(session)

    def forget(self, session: Session) -> None:
        """A session holds none any more, or is not live."""
        tenant = self._tenants.pop(session, None)
        if tenant is not None:
            sessions = self._by_tenant[tenant]
            del sessions[session]
            if not sessions:
                del self._by_tenant[tenant]

    def oldest(self, tenant: str) -> Session | None:
        """The session of a tenant that has not called for longest; None if none of it holds any."""
        sessions = self._by_tenant.get(tenant)
        return next(iter(sessions)) if sessions else None
