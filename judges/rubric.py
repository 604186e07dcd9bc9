"""Rubrics: what each judge looks at, as Markdown with front matter. A folder of yours overrides and adds some.

Front matter: `id`, `version`, `name`, `scale` (0 to 3), `criteria` (one text for 3, `1-2` and 0), `scope` (`in`: a list;
`out`: judge -> what that judge looks at), `output` (fields of the answer, in order), and as needed `plan` (asked only where a
plan is found), `statuses` (failures by status are given as facts), `validated`, `categories`. The body says how to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from judges.bounded_file import MARKDOWN_BYTES_MAX, BoundedFileError, bounded_text

__all__ = ["BUILT_IN", "JUDGES", "BadRubricError", "Rubric", "load_rubrics"]

JUDGES: Final = ("LC", "EE", "PA", "PQ", "TS", "TC", "TQ", "GF")
"""The judges that come with the package, in the order in which they are asked."""

BUILT_IN: Final = Path(__file__).parent / "rubrics"
SCALE: Final = (0, 3)

_FRONT: Final = re.compile(r"---\n(?P<front>.*?\n)---\n(?P<body>.*)", re.DOTALL)
_ID: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
_FIELDS: Final = ("applicable", "evidence", "findings", "criteria", "score")
_KEYS: Final = frozenset(
    {"id", "version", "name", "scale", "criteria", "scope", "output", "plan", "statuses", "validated", "categories"}
)  # fmt: skip
_LEVELS: Final = ("3", "1-2", "0")


class BadRubricError(Exception):
    """A rubric cannot be used; the message names the file, the key and what was expected."""


@dataclass(frozen=True, slots=True)
class Rubric:
    """One judge."""

    id: str
    version: str
    name: str
    criteria: Mapping[str, str]
    """Level (3, 1-2, 0) -> what it means."""
    inside: Sequence[str]
    outside: Mapping[str, str]
    """Other judge -> what that one looks at."""
    output: Sequence[str]
    procedure: str
    needs_plan: bool = False
    """True if sessions without a plan are not applicable."""
    statuses: bool = False
    validated: bool = False
    """True if a judge of this dimension was measured against people (papers/003)."""
    categories: Sequence[str] = ()


def load_rubrics(folder: Path | None = None) -> dict[str, Rubric]:
    """Id -> rubric: those of the package, then those of a folder, which override and add.

    Raises:
        BadRubricError: a file cannot be used.
    """
    found = {rubric.id: rubric for rubric in _in_folder(BUILT_IN)}
    ordered = {id_: found[id_] for id_ in JUDGES}
    if folder is not None:
        if not folder.is_dir():
            raise BadRubricError(f"{folder}: no such folder")
        ordered.update(_single(folder))
    return ordered


def _single(folder: Path) -> dict[str, Rubric]:
    found: dict[str, Rubric] = {}
    for rubric in _in_folder(folder):
        if rubric.id in found:
            raise BadRubricError(f"{folder}: id: expected one file for {rubric.id}, found two")
        found[rubric.id] = rubric
    return found


def _in_folder(folder: Path) -> Iterator[Rubric]:
    for file in sorted(folder.glob("*.md")):
        if file.name != "README.md":
            yield _rubric(file)


def _rubric(file: Path) -> Rubric:
    try:
        text = bounded_text(file, MARKDOWN_BYTES_MAX)
    except BoundedFileError as problem:
        raise BadRubricError(str(problem)) from None
    found = _FRONT.fullmatch(text.replace("\r\n", "\n"))
    if found is None:
        raise BadRubricError(
            f"{file}:1: expected front matter between two lines `---`, then a text"
        )
    try:
        front = yaml.safe_load(found["front"])
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise BadRubricError(f"{file}: front matter: {problem}") from None
    if not isinstance(front, dict):
        raise BadRubricError(f"{file}: front matter: expected keys")
    return _checked(file, front, found["body"].strip())


def _checked(file: Path, front: Mapping[str, Any], body: str) -> Rubric:
    def need(key: str, fits: bool, expected: str) -> None:
        if not fits:
            raise BadRubricError(
                f"{file}: {key}: expected {expected}, found {front.get(key)!r:.80}"
            )

    for key in front:
        need(str(key), key in _KEYS, f"one of {', '.join(sorted(_KEYS))}")
    id_ = front.get("id")
    need("id", isinstance(id_, str) and bool(_ID.fullmatch(id_)), "capital letters and digits")
    need("version", isinstance(front.get("version"), str | int | float), "a version")
    need("scale", front.get("scale") == list(SCALE), "[0, 3]")
    criteria = _texts(front.get("criteria"))
    need("criteria", set(criteria) == set(_LEVELS), "a text for each of 3, 1-2 and 0")
    scope = front.get("scope", {})
    need("scope", _is_scope(scope), "`in`, a list, and `out`, judges with what they look at")
    output = front.get("output", list(_FIELDS[1:]))
    need(
        "output",
        _is_output(output),
        f"fields in the order {', '.join(_FIELDS)}; `applicable` may be left out",
    )
    for key in ("plan", "statuses", "validated"):
        need(key, isinstance(front.get(key, False), bool), "true or false")
    need("categories", isinstance(front.get("categories", []), list), "a list")
    need("body", bool(body), "a text that says how to judge")
    return Rubric(
        id=str(id_),
        version=str(front["version"]),
        name=str(front.get("name", id_)),
        criteria={level: criteria[level] for level in _LEVELS},
        inside=[str(each) for each in scope.get("in") or ()],
        outside=_texts(scope.get("out")),
        output=output,
        procedure=body,
        needs_plan=front.get("plan", False),
        statuses=front.get("statuses", False),
        validated=front.get("validated", False),
        categories=[str(each) for each in front.get("categories", [])],
    )


def _texts(found: Any) -> dict[str, str]:
    return (
        {str(key): str(value) for key, value in found.items()}
        if isinstance(found, dict)
        else {}
    )


def _is_scope(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and set(found) <= {"in", "out"}
        and isinstance(found.get("in") or [], list)
        and isinstance(found.get("out") or {}, dict)
    )


def _is_output(found: Any) -> bool:
    return found in (list(_FIELDS), list(_FIELDS[1:]))
