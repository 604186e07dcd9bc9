"""What the archive keeps of a session: plain rows, as they are written and read."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "ArchiveRecord",
    "ArchivedJudgement",
    "ArchivedSession",
    "HourlyCalls",
    "Label",
    "ModelJudgement",
    "SessionName",
    "SortKeys",
]


class SessionName(NamedTuple):
    """What a session of the archive is known by, as it is shown."""

    namespace: str
    session: str
    begun: int
    """Start of its first call, Unix nanoseconds."""


class HourlyCalls(NamedTuple):
    """Calls of one judgement that began in one hour."""

    hour: int
    """Hours since 1970."""
    calls: int
    harmful: int
    possible: int


class ArchivedJudgement(NamedTuple):
    """One session under one spec. Names are as they are shown."""

    agent: str
    spec: str
    """"" where no spec matches."""
    spec_version: str
    service_version: str
    """`service.version` of its calls' resource, if they say one."""
    mode: str
    kind: str
    calls: int
    harmful: int
    possible: int
    harm_rate: float | None
    prefix_crit: float | None
    not_judged: int
    harms: tuple[tuple[str, str, str], ...]
    """Tool, reason and severity of its harmful calls, each combination once."""
    tools: tuple[str, ...]
    hours: tuple[HourlyCalls, ...]
    summary: bytes
    """What lists show, as JSON."""
    object: bytes
    """The judgement object, as JSON; of its latest state."""


class SortKeys(NamedTuple):
    """What sessions are sorted by: the greatest of a session's judgements."""

    severity: int
    """Severity of its worst harmful call: 0 for none, 1 info, 2 warning, 3 critical."""
    harmful: int
    harm_rate: float
    lost: float
    """1 - PrefixCrit."""
    risk: float
    """-1 for none."""


class ArchivedSession(NamedTuple):
    """A session with its judgements, ended or at a harm."""

    name: SessionName
    last: int
    """End of its last call, Unix nanoseconds."""
    touched: int
    """Receipt of its last call, Unix nanoseconds."""
    ended: str | None
    """Why it ended; None while it lives."""
    keys: SortKeys
    traces: tuple[bytes, ...]
    spans: tuple[bytes, ...]
    judgements: tuple[ArchivedJudgement, ...]

    @property
    def size(self) -> int:
        """Bytes that it takes while it waits, about."""
        return 512 + sum(len(each.summary) + len(each.object) for each in self.judgements)


class ModelJudgement(NamedTuple):
    """What a model says of a session: a record of its own, beside the judgements by specs."""

    name: SessionName
    judge: str
    model: str
    at: int
    """Unix nanoseconds."""
    object: bytes
    """The judgement as the API shows it, as JSON."""

    @property
    def size(self) -> int:
        """Bytes that it takes while it waits, about."""
        return 512 + len(self.object)


class Label(NamedTuple):
    """What somebody says of the verdict on a session."""

    name: SessionName
    spec: str | None
    """None: under all specs."""
    label: str | None
    """right or wrong; None takes the label back."""
    note: str
    who: str
    at: int
    """Unix nanoseconds."""

    def as_json(self) -> dict[str, Any]:
        """The label as the API shows it."""
        said = self._asdict()
        return {**said.pop("name")._asdict(), **said}

    @property
    def size(self) -> int:
        """Bytes that it takes while it waits, about."""
        return 512


ArchiveRecord = ArchivedSession | ModelJudgement | Label
"""What the archive keeps."""
