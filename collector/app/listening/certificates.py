"""When the listeners' certificates end: as metrics, and a line of the log before and after.

Connections that are open go on with an expired certificate, and senders that come anew do not: without a word,
agents would be lost one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from collector.app.listening.listeners import Server
from collector.receive.listener.validity import Validity
from collector.sinks.printable_text import stamp
from collector.telemetry.counters import MetricReading
from collector.telemetry.logs import log
from monitor.limits import SECOND

__all__ = ["CertificateWatch"]

LOOK_NS: Final = 60 * SECOND
DAY: Final = 86_400
EXPIRING_DAYS: Final = 14
EXPIRING_SHARE: Final = 4
"""A certificate expires soon in its last two weeks, and in the last quarter of its time where that is shorter: those that
live for a day are replaced each day. AgentMonitorCertificateExpiring has the same bounds."""


class CertificateWatch:
    """The certificates of all listeners.

    Args:
        servers: the listeners by name.
        lines: where events are written to.
    """

    def __init__(self, servers: Mapping[str, Server], lines: Any = log) -> None:
        self._servers = servers
        self._next_ns = 0
        self._logged: dict[str, tuple[str, int]] = {}
        """Last logged finding and end of each certificate, by listener."""
        self._log = lines

    def _found(self) -> Iterator[tuple[str, str, Validity]]:
        """Name of the listener, file, and when it is valid."""
        for name, server in self._servers.items():
            certificates = server.certificates
            validity = certificates.validity() if certificates is not None else None
            if certificates is not None and validity is not None:
                yield name, str(certificates.cert), validity

    def tick(self, now: int) -> None:
        """Logs, once for each listener, that its certificate ends soon, that it has ended, and that it is not valid yet."""
        if 0 <= self._next_ns - now <= LOOK_NS:
            return
        self._next_ns = now + LOOK_NS
        for listener, cert, validity in self._found():
            event = _event(validity, now // SECOND)
            before = self._logged.get(listener)
            self._logged[listener] = event, validity.ends
            if event and before != (event, validity.ends):
                self._log.warning(
                    event,
                    listener=listener,
                    cert=cert,
                    not_before=stamp(validity.begins * SECOND),
                    not_after=stamp(validity.ends * SECOND),
                )

    def readings(self) -> Iterator[MetricReading]:
        """From when and until when each listener's certificate is valid."""
        found = list(self._found())
        begins = [((name,), validity.begins) for name, _, validity in found]
        ends = [((name,), validity.ends) for name, _, validity in found]
        yield MetricReading("certificate_not_before_timestamp_seconds", begins)
        yield MetricReading("certificate_not_after_timestamp_seconds", ends)


def _event(validity: Validity, now: int) -> str:
    """What the log says of a certificate at a moment, in Unix seconds; "" for nothing."""
    if now < validity.begins:
        return "certificate_not_valid_yet"
    left = validity.ends - now
    if left <= 0:
        return "certificate_expired"
    share = (validity.ends - validity.begins) // EXPIRING_SHARE
    return "certificate_expires_soon" if left < min(EXPIRING_DAYS * DAY, share) else ""
