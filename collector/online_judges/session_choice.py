"""Which of the sessions that have ended are judged, and why."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

from collector.config.settings.judges import JudgesSettings
from monitor.engine import Monitor
from monitor.records import SessionKey
from monitor.session.session import Session

__all__ = ["SessionChoice"]

_DIGEST_BYTES: Final = 8
_WHOLE: Final = float(1 << 8 * _DIGEST_BYTES)


class SessionChoice:
    """Chooses sessions.

    Args:
        settings: the reasons.
        monitor: has the sessions.
    """

    def __init__(self, settings: JudgesSettings, monitor: Monitor) -> None:
        self._settings = settings
        self._monitor = monitor
        self._by_end = settings.harmful or settings.diverged or settings.risk is not None
        """True if it depends on a session's calls whether it is chosen."""

    def may_be_judged(self, key: SessionKey) -> bool:
        """False if a session will not be chosen, whatever its calls are."""
        return self._by_end or self._is_sampled(key)

    def reason(self, session: Session) -> str:
        """Why a session is judged, the first that applies: harmful, diverged, risk, share; "" if it is not."""
        if self._settings.harmful and self._is_harmful(session):
            return "harmful"
        compared = self._compared(session)
        if self._settings.diverged and any(_left(each) for each in compared):
            return "diverged"
        least = self._settings.risk
        if least is not None and any((each.get("risk") or 0) >= least for each in compared):
            return "risk"
        return "share" if self._is_sampled(session.key) else ""

    def _is_harmful(self, session: Session) -> bool:
        return any(
            each.judge.spec.kind != "reference" and each.head.tally.harmful_steps
            for each in session.judgements
        )

    def _compared(self, session: Session) -> list[dict[str, Any]]:
        """The judgement objects under learnt references, where they may be a reason."""
        if not self._settings.diverged and self._settings.risk is None:
            return []
        return [
            self._monitor.reader.as_object(session, each)
            for each in session.judgements
            if each.judge.comparison is not None
        ]

    def _is_sampled(self, key: SessionKey) -> bool:
        share = self._settings.share
        if not share:
            return False
        text = f"{key.namespace}\0{key.id}".encode("utf-8", "surrogatepass")
        digest = blake2b(text, digest_size=_DIGEST_BYTES).digest()
        return int.from_bytes(digest) < share * _WHOLE


def _left(found: dict[str, Any]) -> bool:
    """Whether a session left its reference."""
    return bool(found["divergences"] or found["unexpected_write"] or found["missing_writes"])
