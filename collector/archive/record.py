"""What the archive keeps of a session: plain rows, as they are written and read."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

__all__ = [
    "AGENT",
    "HOUR_NS",
    "NO_FIGURES",
    "ArchiveRecord",
    "ArchiveUnreadError",
    "ArchivedJudgement",
    "ArchivedSession",
    "FigureGroup",
    "Figures",
    "HarmShare",
    "Label",
    "ModelJudgement",
    "SessionName",
    "SessionShare",
    "SortKeys",
    "VerdictLabels",
]

HOUR_NS: Final = 3_600 * 1_000_000_000

AGENT: Final = "agent"
"""Kind of the groups that hold an agent's sessions under all specs together."""


class ArchiveUnreadError(Exception):
    """The archive cannot be read now; the message says why."""


class SessionName(NamedTuple):
    """What a session of the archive is known by, as it is shown."""

    namespace: str
    session: str
    begun: int
    """Start of its first call, Unix nanoseconds."""


class FigureGroup(NamedTuple):
    """Whose figures are added up: an agent's under one spec, or (`AGENT`) under all of them. Names are as they are shown."""

    kind: str
    """task, policy, reference, "" for no spec, or `AGENT`."""
    namespace: str
    agent: str
    spec: str
    spec_version: str
    service_version: str
    """`service.version` of the calls' resource, if they say one."""
    mode: str


class Figures(NamedTuple):
    """Sums over sessions and their calls."""

    sessions: int
    harmed: int
    """Sessions with a harmful call."""
    scored: int
    """Sessions with scores."""
    harm_rate: float
    """Sum of the sessions' HarmRate, each the worst of its judgements."""
    prefix_crit: float
    calls: int
    harmful: int
    possible: int
    prevented: int
    """Calls that were denied and not made."""
    not_judged: int

    def plus(self, other: Figures, sign: int = 1) -> Figures:
        """The sum; with `sign` -1 the difference."""
        return Figures._make(one + sign * two for one, two in zip(self, other, strict=True))


NO_FIGURES: Final = Figures(0, 0, 0, 0.0, 0.0, 0, 0, 0, 0, 0)


class SessionShare(NamedTuple):
    """What a session adds to one hour of a group: calls to the hour in which they began, the rest to that of its last call."""

    hour: int
    """Hours since 1970."""
    group: FigureGroup
    figures: Figures


class HarmShare(NamedTuple):
    """A session of a group has a harmful call with this reason, tool or severity; in the hour of its last call."""

    hour: int
    group: FigureGroup
    what: Literal["reason", "tool", "severity"]
    name: str


class ArchivedJudgement(NamedTuple):
    """One session under one spec. Names are as they are shown."""

    group: FigureGroup
    harmful: int
    harms: tuple[tuple[str, str, str], ...]
    """Tool, reason and severity of its harmful calls, each combination once."""
    tools: tuple[str, ...]
    summary: bytes
    """What lists show, as JSON."""
    object: bytes
    """The judgement object, as JSON; of its latest state."""
    things: tuple[tuple[str, str], ...] = ()
    """Name and value (or digest) of each thing that the object lists."""


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
    shares: tuple[SessionShare, ...]
    harms: tuple[HarmShare, ...]

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


class VerdictLabels(NamedTuple):
    """Sessions that a spec found harmful, by what people say of that."""

    right: int = 0
    wrong: int = 0

    @property
    def precision(self) -> float | None:
        """The share that is right; None without a label."""
        labelled = self.right + self.wrong
        return self.right / labelled if labelled else None


ArchiveRecord = ArchivedSession | ModelJudgement | Label
"""What the archive keeps."""
