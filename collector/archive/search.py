"""Which sessions of the archive a question is about, as conditions in SQL.

Idea: a filter is written in two ways. As a set it finds its sessions by an index, and stops at `MATCHING_MAX` + 1 of them. As a
condition it is looked at for one session. The smallest set that did not have to stop leads; the others are conditions on its
sessions. Where each had to stop, sessions that match are frequent, and a walk in the order of the list finds a page of them soon.
A count has no order to walk in: it goes on to `LOOKED_AT_MAX`, and stops in the first set where each is larger.
"""

# ruff: noqa: S608 - conditions are texts of ours; what is asked for is bound
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, product
from typing import Any, Final, NamedTuple

from collector.archive.record import FigureGroup
from collector.archive.schema import IS_LONG, LONG_NS
from monitor.records import SEVERITIES, Reason

__all__ = [
    "ANY_WALK",
    "LATEST",
    "LOOKED_AT_MAX",
    "MATCHING_MAX",
    "SHORT_TEXT_LOOKED_AT_MAX",
    "ArchiveSearch",
    "SqlText",
    "SumsSearch",
    "conditions",
    "judged",
    "sets",
    "walks",
    "with_part_of_id",
    "with_short_part_of_id",
]

MATCHING_MAX: Final = 10_000
"""Sessions that are counted, at most."""
LOOKED_AT_MAX: Final = 20_000
"""Sessions that are looked at for a count, at most: a tenth of a second."""


SHORT_TEXT_LOOKED_AT_MAX: Final = 200_000
"""Sessions, those that were written last, whose ids are looked at for a text of one or two characters: a twentieth of a second."""

DAY: Final = 24
"""Hours."""


class SqlText(NamedTuple):
    """A part of a statement, with the values for its question marks."""

    text: str
    values: tuple[Any, ...] = ()

    @classmethod
    def all_of(cls, parts: Iterable[SqlText]) -> SqlText:
        """All conditions; "1 = 1" for none."""
        found = list(parts)
        text = " AND ".join(each.text for each in found) or "1 = 1"
        return cls(text, tuple(value for each in found for value in each.values))


class ArchiveSearch(NamedTuple):
    """Which sessions, and in what order. "" and None let anything pass."""

    sort: str = "recent"
    agent: str = ""
    spec: str = ""
    namespace: str | None = None
    text: str = ""
    """Part of a session's id, its agent, its spec, a tool or a reason, in lower case; or the whole id of a trace."""
    harmful: bool = False
    unjudged: bool = False
    """Sessions that no spec matches."""
    reason: str = ""
    severity: str = ""
    tool: str = ""
    """Part of a tool's name, in lower case."""
    mode: str = ""
    since: int = 0
    """Sessions whose last call ended then or later, Unix nanoseconds."""
    until: int = 0
    """Sessions whose first call began then or earlier; 0: all."""
    ids: tuple[bytes, ...] = ()
    """Ids of traces and spans that the session all has."""
    label: str = ""
    namespaces: tuple[str, ...] | None = None
    """Visible namespaces, each with all below it; None: all."""
    ended: bool = True
    """True leaves out sessions that live by their rows."""
    spec_version: str = ""
    service_version: str = ""
    thing: str = ""
    """Value or digest of a thing; or its name, a space, and that."""

    @property
    def is_short(self) -> bool:
        """True if the text is too short for an index."""
        return 0 < len(self.text) < 3 or "\0" in self.text

    @property
    def of_harm(self) -> bool:
        """True if one harmful call has all that is asked for."""
        return bool(self.reason or self.severity or (self.tool and self.harmful))


class SumsSearch(NamedTuple):
    """Which sums, and in what steps. "" and None let anything pass."""

    since: int
    """First hour since 1970."""
    until: int
    """Hour behind the last."""
    step: int = 1
    """Hours of one step."""
    offset: int = 0
    """Hours by which steps begin before multiples of `step`."""
    namespace: str | None = None
    agent: str = ""
    spec: str = ""
    spec_version: str = ""
    service_version: str = ""
    namespaces: tuple[str, ...] | None = None
    """Visible namespaces, each with all below it; None: all."""

    @property
    def unit(self) -> str:
        """hour, or day where whole days are asked for: their sums are fewer."""
        whole = all(
            each % DAY == 0 for each in (self.since, self.until, self.step, self.offset)
        )
        return "day" if whole else "hour"

    @property
    def _hours(self) -> int:
        return DAY if self.unit == "day" else 1

    @property
    def place(self) -> SqlText:
        """The number of the step of a sum `u`."""
        values = self.offset // self._hours, self.step // self._hours
        return SqlText(f"(u.{self.unit} + ?) / ?", values)

    def table(self, name: str) -> str:
        """The table of sums, or of harms, by hour or by day."""
        return f"day_{name}" if self.unit == "day" else name

    def step_of(self, hour: int) -> int:
        """The number of the step that an hour is in."""
        return (hour + self.offset) // self.step

    def takes(self, hour: int, group: FigureGroup) -> bool:
        """True if the sums of this hour and group are asked for, by whoever may see them all."""
        return (
            self.since <= hour < self.until
            and all(
                not wanted or wanted == getattr(group, name) for name, wanted in self._asked()
            )
            and self.namespace in (None, group.namespace)
        )

    def conditions(self, alias: str) -> SqlText:
        """What is looked at for one sum `alias` of a group `g`."""
        parts = [
            SqlText(
                f"{alias}.{self.unit} >= ? AND {alias}.{self.unit} < ?",
                (self.since // self._hours, self.until // self._hours),
            ),
            self.groups,
        ]
        return SqlText.all_of(parts)

    @property
    def groups(self) -> SqlText:
        """What is looked at for a group `g`."""
        parts = [SqlText(f"g.{name} = ?", (value,)) for name, value in self._asked() if value]
        if self.namespace is not None:
            parts.append(SqlText("g.namespace = ?", (self.namespace,)))
        seen = groups_of(self.namespaces, "g")
        return SqlText.all_of(parts if seen is None else [*parts, seen])

    def _asked(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (name, getattr(self, name))
            for name in ("agent", "spec", "spec_version", "service_version")
        )


def conditions(search: ArchiveSearch) -> SqlText:
    """What is looked at for one session `s`."""
    parts = [*_of_session(search)]
    found = judged(search)
    if found.values or found.text != "1 = 1":
        text = f"EXISTS (SELECT 1 FROM judgements j WHERE j.sid = s.id AND {found.text})"
        parts.append(SqlText(text, found.values))
    if search.text:
        parts.append(_has_text(search.text))
    return SqlText.all_of(parts)


def sets(search: ArchiveSearch, with_part_of_id: Callable[[str], SqlText]) -> Iterator[SqlText]:
    """Statements that each find the ids of sessions by an index; all that match are in each of these sets.

    Args:
        search: what is asked for.
        with_part_of_id: finds sessions by a part of their id.
    """
    if search.of_harm:
        yield _harmed(search)
    elif search.tool:
        yield SqlText(
            "SELECT DISTINCT j.sid FROM judgements j WHERE j.words IN"
            " (SELECT id FROM words WHERE instr(text, ?) > 0)",
            (search.tool,),
        )
    grouped = _grouped(search)
    if grouped is not None:
        harmful = " AND j.harmful > 0" if search.harmful else ""
        text = (
            f"SELECT DISTINCT j.sid FROM judgements j WHERE j.grp IN ({grouped.text}){harmful}"
        )
        yield SqlText(text, grouped.values)
    if search.text:
        yield _with_text(search.text, with_part_of_id)
    if search.label:
        yield SqlText(
            "SELECT s.id FROM labels l JOIN sessions s ON s.session = l.session AND s.namespace = l.namespace"
            " AND s.begun = l.begun WHERE l.label = ?",
            (search.label,),
        )
    if search.thing:
        thing = _thing(search.thing)
        yield SqlText(f"SELECT DISTINCT t.sid FROM things t WHERE {thing.text}", thing.values)
    for each in search.ids:
        yield SqlText("SELECT sid FROM ids WHERE hash = ?", (each,))
    if search.since and search.until:
        yield _within(search.since, search.until)
    elif search.since:
        yield SqlText("SELECT id FROM sessions WHERE last >= ?", (search.since,))
    elif search.until:
        yield SqlText("SELECT id FROM sessions WHERE begun <= ?", (search.until,))
    if search.harmful:
        yield SqlText("SELECT id FROM sessions WHERE harmful > 0")


def judged(search: ArchiveSearch) -> SqlText:
    """What is looked at for one judgement `j`."""
    parts: list[SqlText] = []
    grouped = _grouped(search)
    if grouped is not None:
        parts.append(SqlText(f"j.grp IN ({grouped.text})", grouped.values))
    if search.harmful:
        parts.append(SqlText("j.harmful > 0"))
    if search.of_harm:
        harm = _harm(search)
        text = f"EXISTS (SELECT 1 FROM harms h WHERE h.jid = j.id AND {harm.text})"
        parts.append(SqlText(text, harm.values))
    elif search.tool:
        text = "j.words IN (SELECT id FROM words WHERE instr(text, ?) > 0)"
        parts.append(SqlText(text, (search.tool,)))
    if search.thing:
        thing = _thing(search.thing)
        text = f"EXISTS (SELECT 1 FROM things t WHERE t.jid = j.id AND {thing.text})"
        parts.append(SqlText(text, thing.values))
    return SqlText.all_of(parts)


def groups_of(namespaces: tuple[str, ...] | None, alias: str) -> SqlText | None:
    """The condition that a row is of a visible namespace; None if all are."""
    if namespaces is None:
        return None
    each = " OR ".join(
        f"{alias}.namespace = ? OR ({alias}.namespace >= ? AND {alias}.namespace < ?)"
        for _ in namespaces
    )
    # 0 is the character behind /.
    seen = [text for name in namespaces for text in (name, f"{name}/", f"{name}0")]
    return SqlText(f"({each or '1 = 0'})", tuple(seen))


ANY_WALK: Final = (SqlText("1 = 1"),)
"""A walk in one part."""


def walks(search: ArchiveSearch, latest: int) -> tuple[SqlText, ...]:
    """Parts of the walk over sessions `s` in the order of the list, which make up all that match.

    In the order of recency none passes over all that came after `until`: the last call of a session that is not long was
    received soon after it, and long ones have an index of their own.

    Args:
        search: what is asked for.
        latest: no later receipt is asked for.
    """
    if not search.until or search.sort != "recent":
        return ANY_WALK
    soon = min(search.until + LONG_NS, latest)
    # The times of long ones stand in their index: what has another time is passed over there.
    return (
        SqlText(f"s.touched <= ? AND NOT {IS_LONG}", (soon,)),
        SqlText(f"{IS_LONG} AND +s.begun <= ? AND +s.last >= ?", (search.until, search.since)),
    )


def _of_session(search: ArchiveSearch) -> Iterator[SqlText]:
    # + keeps the walk in the order of the list: by the index of a time all that match would be sorted.
    if search.ended:
        yield SqlText("s.ended IS NOT NULL")
    if search.namespace is not None:
        yield SqlText("s.namespace = ?", (search.namespace,))
    seen = groups_of(search.namespaces, "s")
    if seen is not None:
        yield seen
    if search.since:
        yield SqlText("+s.last >= ?", (search.since,))
    if search.until:
        yield SqlText("+s.begun <= ?", (search.until,))
    for each in search.ids:
        yield SqlText("EXISTS (SELECT 1 FROM ids i WHERE i.hash = ? AND i.sid = s.id)", (each,))
    if search.label:
        yield SqlText(LABELLED, (search.label,))


LATEST: Final = (
    "NOT EXISTS (SELECT 1 FROM labels m WHERE m.session = l.session AND m.namespace = l.namespace"
    " AND m.begun = l.begun AND coalesce(m.spec, '') = coalesce(l.spec, '') AND m.id > l.id)"
)
"""No later label than `l` is of the same session and spec."""
LABELLED: Final = (
    "EXISTS (SELECT 1 FROM labels l WHERE l.session = s.session AND l.namespace = s.namespace"
    f" AND l.begun = s.begun AND l.label = ? AND {LATEST})"
)
"""The latest label under a spec, or under all, is this one."""


def _grouped(search: ArchiveSearch) -> SqlText | None:
    """The groups of judgements that are asked for; None if all are."""
    asked = {
        name: getattr(search, name)
        for name in ("agent", "spec", "mode", "spec_version", "service_version")
    }
    parts = [SqlText(f"{name} = ?", (value,)) for name, value in asked.items() if value]
    if search.namespace is not None:
        parts.append(SqlText("namespace = ?", (search.namespace,)))
    seen = groups_of(search.namespaces, "groups")
    if seen is not None:
        parts.append(seen)
    if search.unjudged:
        parts.append(SqlText("spec = ''"))
    if not parts:
        return None
    found = SqlText.all_of(parts)
    return SqlText(
        f"SELECT id FROM groups WHERE kind <> 'agent' AND {found.text}", found.values
    )


def _harm(search: ArchiveSearch) -> SqlText:
    """One harmful call `h` has all that is asked for."""
    asked = {
        "h.reason = ?": search.reason,
        "h.severity = ?": search.severity,
        "instr(h.folded, ?) > 0": search.tool,
    }
    return SqlText.all_of(SqlText(text, (value,)) for text, value in asked.items() if value)


def _within(since: int, until: int) -> SqlText:
    """Sessions of a time: those that are not long began in it, or shortly before."""
    return SqlText(
        "SELECT id FROM sessions WHERE begun >= ? AND begun <= ? AND +last >= ?"
        f" AND NOT {IS_LONG} UNION ALL SELECT id FROM sessions WHERE begun <= ? AND last >= ? AND {IS_LONG}",
        (since - LONG_NS, until, since, until, since),
    )


def _thing(text: str) -> SqlText:
    """A thing `t` is the one that is asked for."""
    name, space, value = text.partition(" ")
    if not space:
        return SqlText("t.value = ?", (text,))
    return SqlText("(t.value = ? OR (t.value = ? AND t.name = ?))", (text, value, name))


_TOOL: Final = "(SELECT n.folded FROM harms n WHERE n.reason = k.reason AND n.severity = k.severity{} ORDER BY n.folded LIMIT 1)"
_KINDS: Final = (
    "(WITH RECURSIVE kinds(reason, severity, folded) AS"
    f" (SELECT reason, severity, {_TOOL.format('')} FROM ({{}}) k UNION ALL"
    f" SELECT reason, severity, {_TOOL.format(' AND n.folded > k.folded')} FROM kinds k WHERE folded IS NOT NULL)"
    " SELECT reason, severity, folded FROM kinds WHERE folded IS NOT NULL)"
)
"""The tools of harmful calls with a reason and a severity, found by going from one to the next in an index."""


def _harmed(search: ArchiveSearch) -> SqlText:
    harm = _harm(search)
    if len(harm.values) == 1 and not search.tool:
        return SqlText(f"SELECT DISTINCT h.sid FROM harms h WHERE {harm.text}", harm.values)
    # However many have the reason, or the severity: kinds are few, and the tool, or both, may be of none.
    reasons = (search.reason,) if search.reason else tuple(each.value for each in Reason)
    severities = (search.severity,) if search.severity else SEVERITIES
    pairs = [*product(reasons, severities)]
    asked = " UNION ALL ".join(["SELECT ? AS reason, ? AS severity"] * len(pairs))
    own = " AND ".join(f"e.{name} = h.{name}" for name in ("reason", "severity", "folded"))
    return SqlText(
        f"SELECT DISTINCT e.sid FROM {_KINDS.format(asked)} h CROSS JOIN harms e WHERE {own} AND {harm.text}",
        (*chain(*pairs), *harm.values),
    )


def _reasons(text: str) -> tuple[str, ...]:
    words = text.replace(" ", "_")
    return tuple(each.value for each in Reason if words in each.value)


def _id(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text) if len(text) in (16, 32) else None
    except ValueError:
        return None


def _with_text(text: str, with_part_of_id: Callable[[str], SqlText]) -> SqlText:
    parts = [
        SqlText(
            "SELECT j.sid FROM judgements j WHERE j.grp IN"
            " (SELECT id FROM groups WHERE kind <> 'agent' AND instr(folded, ?) > 0)",
            (text,),
        ),
        SqlText(
            "SELECT j.sid FROM judgements j WHERE j.words IN"
            " (SELECT id FROM words WHERE instr(text, ?) > 0)",
            (text,),
        ),
        with_part_of_id(text),
    ]
    parts += [
        SqlText("SELECT h.sid FROM harms h WHERE h.reason = ?", (each,))
        for each in _reasons(text)
    ]
    id_ = _id(text)
    if id_ is not None:
        parts.append(SqlText("SELECT sid FROM ids WHERE hash = ?", (id_,)))
    return SqlText(
        " UNION ALL ".join(each.text for each in parts),
        tuple(value for each in parts for value in each.values),
    )


def with_part_of_id(text: str) -> SqlText:
    """Sessions with this part of an id: those that have all its runs of three characters are looked at.

    This is how a file finds them. A database does it another way (`collector.archive.postgresql`).
    """
    if len(text) < 3 or "\0" in text:
        return with_short_part_of_id(text)
    runs = sorted({text[at : at + 3] for at in range(len(text) - 2)})
    match = " AND ".join('"' + each.replace('"', '""') + '"' for each in runs)
    return SqlText(
        "SELECT t.id FROM found JOIN sessions t ON t.id = found.rowid"
        " WHERE found MATCH ? AND instr(t.folded, ?) > 0",
        (match, text),
    )


def with_short_part_of_id(text: str) -> SqlText:
    """Sessions with this part of an id, of those that were written last."""
    return SqlText(
        "SELECT t.id FROM sessions t WHERE t.id > (SELECT max(id) FROM sessions) - ? AND instr(t.folded, ?) > 0",
        (SHORT_TEXT_LOOKED_AT_MAX, text),
    )


def _has_text(text: str) -> SqlText:
    parts = [
        SqlText("instr(s.folded, ?) > 0", (text,)),
        SqlText(
            "EXISTS (SELECT 1 FROM judgements j WHERE j.sid = s.id AND (j.grp IN"
            " (SELECT id FROM groups WHERE instr(folded, ?) > 0)"
            " OR j.words IN (SELECT id FROM words WHERE instr(text, ?) > 0)))",
            (text, text),
        ),
    ]
    parts += [
        SqlText(
            "EXISTS (SELECT 1 FROM harms h WHERE h.reason = ? AND h.sid = s.id)",
            (each,),
        )
        for each in _reasons(text)
    ]
    id_ = _id(text)
    if id_ is not None:
        parts.append(
            SqlText("EXISTS (SELECT 1 FROM ids i WHERE i.hash = ? AND i.sid = s.id)", (id_,))
        )
    return SqlText(
        f"({' OR '.join(each.text for each in parts)})",
        tuple(value for each in parts for value in each.values),
    )
