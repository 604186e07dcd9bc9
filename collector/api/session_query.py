"""What a list of sessions is asked for, read from a query string and compared with judgements."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from collector.api.access import ANYBODY, Access
from collector.api.list_fields import SORTS, agent_of, service_version, things_of
from collector.archive.record import SessionName
from collector.telemetry.json_text import as_json
from monitor.engine import Monitor
from monitor.records import SEVERITIES, Reason, SessionKey
from monitor.session.judgement.judgement import Judgement
from monitor.session.report.harms import harms
from monitor.session.session import Session

__all__ = [
    "FILTERS",
    "LISTED_MAX",
    "OFFSET_MAX",
    "RANKED",
    "WHOLE_MAX",
    "Follow",
    "Matcher",
    "Place",
    "SessionQuery",
    "follow_nothing",
    "whole_number",
]

Follow = Callable[[str, str | None], Sequence[SessionKey]]
"""A trace's id and a namespace (None: any) -> the sessions that its calls are in now."""

LISTED_MAX = 1_000
"""Sessions of one list."""
OFFSET_MAX: Final = 10_000
"""Sessions that a list may skip: what is kept while it is made has a bound."""

WHOLE_MAX: Final = (1 << 63) - 1
"""The greatest whole number: a database takes no greater one."""

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "sort": SORTS,
    "only": ("harmful", "live", "ended", "unjudged"),
    "reason": tuple(reason.value for reason in Reason),
    "severity": SEVERITIES,
    "mode": ("shadow", "page"),
    "state": ("live", "ended"),
    "label": ("right", "wrong"),
}
"""Parameters that take one of some words. All but `sort` may be empty."""

NUMBERS: Final = ("limit", "offset", "since", "until")

FILTERS: Final = (
    *("agent", "spec", "namespace", "q", "only", "reason", "severity", "tool", "mode"),
    *(
        "since",
        "until",
        "state",
        "trace_id",
        "span_id",
        "label",
        "spec_version",
        "service_version",
        "thing",
    ),
)
"""Parameters that choose among judgements."""

RANKED: Final = (*FILTERS, "sort", "limit", "offset", "cursor")
"""Parameters of a list that is ranked and cut."""


class Place(NamedTuple):
    """Where a session stands in a list; the greatest comes first."""

    key: tuple[float, float, int]
    """What the list is sorted by."""
    name: SessionName
    """Name of the session, as it is shown."""

    def as_cursor(self, sort: str) -> str:
        """The parameter `cursor` of the page behind it."""
        plain = [sort, *self.key, *self.name]
        return urlsafe_b64encode(as_json(plain)).decode().rstrip("=")

    @classmethod
    def read(cls, cursor: str, sort: str) -> Place:
        """Reads a cursor.

        Raises:
            ValueError: a sentence; it is none of a list that is sorted so.
        """
        try:
            text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            kind, first, second, touched, namespace, session, begun = _CURSOR.decode(text)
        except (ValueError, msgspec.DecodeError) as problem:
            raise ValueError("cursor must be `next` of the page before") from problem
        if kind != sort:
            raise ValueError(f"cursor is of a list with sort={kind}")
        return cls((first, second, touched), SessionName(namespace, session, begun))


_Whole = Annotated[int, msgspec.Meta(ge=-WHOLE_MAX, le=WHOLE_MAX)]
_CURSOR: Final = msgspec.json.Decoder(tuple[str, float, float, _Whole, str, str, _Whole])


class SessionQuery(NamedTuple):
    """What a list is to have; "" lets anything pass."""

    sort: str
    limit: int
    agent: str = ""
    spec: str = ""
    namespace: str | None = None
    text: str = ""
    """Part of a session's id, its agent, its spec, a tool it called or a reason of harm, in any case."""
    only: str = ""
    offset: int = 0
    """Sessions that match and are skipped."""
    reason: str = ""
    severity: str = ""
    tool: str = ""
    """Part of a tool's name, in any case."""
    mode: str = ""
    since: int = 0
    """Unix nanoseconds: sessions whose last call was later."""
    until: int = 0
    """Unix nanoseconds: sessions whose first call was earlier; 0: all."""
    state: str = ""
    """live or ended."""
    trace_id: bytes = b""
    span_id: bytes = b""
    label: str = ""
    spec_version: str = ""
    service_version: str = ""
    """`service.version` of the session's resource."""
    thing: str = ""
    """Value or digest of a thing; or its name, a space, and that."""
    after: Place | None = None
    """The last session of the page before."""
    access: Access = ANYBODY
    """Access of the client: sessions of hidden namespaces do not match."""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> SessionQuery:
        """Reads a query string's values.

        Raises:
            ValueError: a parameter is none that there is, or no whole number.
        """
        sort = query.get("sort", "recent")
        for name, known in CHOICES.items():
            given = sort if name == "sort" else query.get(name, "")
            if given not in known and (given or name == "sort"):
                raise ValueError(f"{name} must be one of {', '.join(known)}")
        limit, offset, since, until = (_number(query, name) for name in NUMBERS)
        if offset > OFFSET_MAX:
            raise ValueError(
                f"offset must be at most {OFFSET_MAX}: go on by cursor, which is `next` of the page before"
            )
        return cls(
            sort,
            min(limit, LISTED_MAX),
            agent=query.get("agent", ""),
            spec=query.get("spec", ""),
            namespace=query.get("namespace"),
            text=query.get("q", "").casefold(),
            only=query.get("only", ""),
            offset=offset,
            reason=query.get("reason", ""),
            severity=query.get("severity", ""),
            tool=query.get("tool", "").casefold(),
            mode=query.get("mode", ""),
            since=since,
            until=until,
            state=query.get("state", ""),
            trace_id=_id(query, "trace_id", 16),
            span_id=_id(query, "span_id", 8),
            label=query.get("label", ""),
            spec_version=query.get("spec_version", ""),
            service_version=query.get("service_version", ""),
            thing=query.get("thing", ""),
            after=Place.read(query["cursor"], sort) if query.get("cursor") else None,
        )

    @property
    def filters(self) -> bool:
        """True if some judgements do not match."""
        everything = SessionQuery(self.sort, self.limit, offset=self.offset, after=self.after)
        return self != everything

    @property
    def looks_at_calls(self) -> bool:
        """True if each call of a session may have to be looked at."""
        of_calls = (self.text, self.tool, self.reason, self.severity, self.trace_id)
        return any((*of_calls, self.span_id, self.thing, self.sort == "severity"))


def whole_number(text: str, name: str) -> int:
    """The number that a parameter holds; one that is too great for a time in nanoseconds is the greatest.

    Raises:
        ValueError: a sentence; it holds none.
    """
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{name} must be a whole number")
    digits = text.lstrip("0")[:20]  # Python refuses to read one of thousands of digits
    return min(int(digits or "0"), WHOLE_MAX)


def _id(query: Mapping[str, str], name: str, length: int) -> bytes:
    text = query.get(name, "")
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if text and (len(found) != length or len(text) != 2 * length):
        raise ValueError(f"{name} must be {2 * length} hexadecimal digits")
    return found


def _number(query: Mapping[str, str], name: str) -> int:
    return whole_number(query.get(name) or ("200" if name == "limit" else "0"), name)


def follow_nothing(_trace_id: str, _namespace: str | None = None) -> Sequence[SessionKey]:
    """Where no trace is known."""
    return ()


class Matcher:
    """Compares judgements with a query.

    Args:
        monitor: knows the tools' names.
        query: what is asked for.
        shown: what is shown of a tool's name: hidden names are not found by what they hide.
        follow: leads from a trace's id to its sessions.
        labelled: namespace and id, as they are shown, of sessions that have the label that is asked for.
    """

    def __init__(
        self,
        monitor: Monitor,
        query: SessionQuery,
        shown: Callable[[str], str] = str,
        follow: Follow = follow_nothing,
        labelled: Container[tuple[str, str]] = (),
    ) -> None:
        self._query = query
        self._labelled = labelled
        self._shown = shown
        self._of_trace = frozenset(follow(query.text, query.namespace) if query.text else ())
        self._text_of = monitor.reader.tool_name
        self._tools = _tools(monitor, query.tool, shown) if query.tool else None
        text = query.text
        self._text_tools = _tools(monitor, text, shown) if text else frozenset()
        words = text.replace(" ", "_")
        self._text_reasons = frozenset(each for each in Reason if words and words in each)
        by_tool = bool(query.tool) and query.only == "harmful"
        self._of_harm = bool(query.reason or query.severity or by_tool)

    def matches(self, session: Session, judgement: Judgement) -> bool:
        """True if a row of the list is about this judgement: what is cheap to see first."""
        query, spec = self._query, judgement.judge.spec
        return (
            query.access.sees(session.key.namespace)
            and (not query.agent or agent_of(session, judgement) == query.agent)
            and (not query.spec or spec.id == query.spec)
            and (query.namespace is None or session.key.namespace == query.namespace)
            and (
                not query.spec_version or (spec.version == query.spec_version and spec.id != "")
            )
            and (not query.service_version or self._is_of_version(session))
            and (not query.mode or (spec.mode == query.mode and spec.id != ""))
            and session.last_ns >= query.since
            and (not query.until or session.started_ns <= query.until)
            and self._is_part(session, judgement)
            and self._has_label(session)
            and self._has_calls(judgement)
            and self._has_ids(judgement)
            and (not query.thing or self._has_thing(judgement))
            and (not query.text or self._has_text(session, judgement))
        )

    def _is_part(self, session: Session, judgement: Judgement) -> bool:
        only, state = self._query.only, self._query.state
        if state and (session.ended is None) != (state == "live"):
            return False
        if only == "harmful":
            judged = judgement.judge.spec.kind != "reference"
            return judged and judgement.head.tally.harmful_steps > 0
        if only == "unjudged":
            return not judgement.judge.spec.id
        return not only or (session.ended is None) == (only == "live")

    def _is_of_version(self, session: Session) -> bool:
        return self._shown(service_version(session)) == self._query.service_version

    def _has_label(self, session: Session) -> bool:
        if not self._query.label:
            return True
        name = self._shown(session.key.namespace), self._shown(session.key.id)
        return name in self._labelled

    def _has_ids(self, judgement: Judgement) -> bool:
        """One call has the trace and the span that are asked for."""
        trace_id, span_id = self._query.trace_id, self._query.span_id
        if not (trace_id or span_id):
            return True
        rows = (judgement.log.row(place) for place in range(len(judgement.log)))
        return any(
            (not trace_id or row.trace_id == trace_id)
            and (not span_id or row.span_id == span_id)
            for row in rows
        )

    def _has_thing(self, judgement: Judgement) -> bool:
        wanted = self._query.thing
        return any(
            wanted in (text, f"{name} {text}")
            for name, text in things_of(judgement, self._shown)
        )

    def _has_calls(self, judgement: Judgement) -> bool:
        """With a reason, a severity or among harmful sessions, one harmful call has all that is asked for."""
        query, tools = self._query, self._tools
        if self._of_harm:
            return any(
                (not query.reason or harm.reason == query.reason)
                and (not query.severity or harm.severity == query.severity)
                and (tools is None or harm.tool in tools)
                for harm in harms(judgement, self._text_of)
            )
        return tools is None or _calls_any(judgement, tools)

    def _has_text(self, session: Session, judgement: Judgement) -> bool:
        agent, spec = agent_of(session, judgement), judgement.judge.spec.id
        if self._query.text in f"{session.key.id}\n{agent}\n{spec}".casefold():
            return True
        if session.key in self._of_trace:
            return True
        if _calls_any(judgement, self._text_tools):
            return True
        reasons = self._text_reasons
        return bool(reasons) and any(
            harm.reason in reasons for harm in harms(judgement, self._text_of)
        )


def _tools(monitor: Monitor, text: str, shown: Callable[[str], str]) -> frozenset[int]:
    return monitor.reader.tools_named(lambda name: text in shown(name).casefold())


def _calls_any(judgement: Judgement, tools: frozenset[int]) -> bool:
    return bool(tools) and not tools.isdisjoint(judgement.log.tools())
