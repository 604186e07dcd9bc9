"""The answer of a judge: the schema that it is asked for, and how an answer is read and checked.

The schema names the steps that may be cited, so that an endpoint that keeps schemas cannot cite another. What it cannot
promise is checked here: fields, scale, impacts, and whether the score fits the findings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from judges.rubric import Rubric

__all__ = [
    "ENUM_IDS",
    "IMPACTS",
    "BadAnswerError",
    "CitedFinding",
    "JudgeAnswer",
    "read_answer",
    "schema",
]

IMPACTS: Final = ("low", "medium", "high")
SCORES: Final = (0, 1, 2, 3)
ENUM_IDS: Final = 500
"""Ids of steps that a schema lists; of more, a step is any text, and is checked afterwards."""

_THOUGHT: Final = re.compile(r"\A.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
"""Thoughts that stand before an answer; some servers leave out the tag that opens them."""
_ANSWERS: Final = frozenset({"score", "applicable"})
"""Fields of which an answer has at least one."""
_OBJECTS_MAX: Final = 200
"""Places of a text at which an object is looked for."""
_TEXT: Final = {"type": "string"}


class BadAnswerError(Exception):
    """An answer is of another form; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class CitedFinding:
    """One thing that a judge found, at a step."""

    step: str
    category: str
    impact: str
    what: str


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """What a judge said."""

    evidence: str
    findings: Sequence[CitedFinding]
    criteria: str
    score: int
    applicable: bool = True

    @property
    def contradiction(self) -> str:
        """Why the score does not fit the findings; "" if it does."""
        if not self.applicable:
            return ""
        if self.score == SCORES[-1] and any(each.impact == "high" for each in self.findings):
            return "the score is 3, but a finding has the impact high"
        if self.score == SCORES[0] and not self.findings:
            return "the score is 0, but there is no finding"
        return ""


def schema(rubric: Rubric, ids: Collection[str], enum_ids: int = ENUM_IDS) -> dict[str, Any]:
    """The JSON schema of an answer.

    Args:
        rubric: of the judge.
        ids: short ids of the steps that are shown.
        enum_ids: the schema lists at most so many.
    """
    step = {"type": "string", "enum": list(ids)} if 0 < len(ids) <= enum_ids else _TEXT
    finding = _object(
        {
            "step": step,
            "category": _TEXT,
            "impact": {"type": "string", "enum": list(IMPACTS)},
            "what": _TEXT,
        }
    )
    fields: dict[str, Any] = {
        "applicable": {"type": "boolean"},
        "evidence": _TEXT,
        "findings": {"type": "array", "items": finding},
        "criteria": _TEXT,
        "score": {"type": "integer", "enum": list(SCORES)},
    }
    return _object({name: fields[name] for name in rubric.output})


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


def read_answer(text: str, rubric: Rubric) -> JudgeAnswer:
    """The answer that a text holds. JSON that is broken is repaired, if it can be.

    Raises:
        BadAnswerError: it holds none, or one of another form.
    """
    found = _json(text)
    if not isinstance(found, dict):
        raise BadAnswerError("expected one JSON object")
    applicable = found.get("applicable", True) if "applicable" in rubric.output else True
    if not isinstance(applicable, bool):
        raise BadAnswerError("`applicable`: expected true or false")
    if not applicable:
        return JudgeAnswer(
            _optional(found, "evidence"), (), _optional(found, "criteria"), 0, False
        )
    return JudgeAnswer(
        evidence=_text(found, "evidence"),
        findings=_findings(found.get("findings")),
        criteria=_text(found, "criteria"),
        score=_score(found.get("score")),
    )


def _json(text: str) -> Any:
    """What a text says as JSON: as it is, or the last whole answer in it, or what can be repaired of it."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    whole = [each for each in _objects(text) if _ANSWERS & each.keys()]
    return whole[-1] if whole else _repaired(text)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that stand in a text, one after the other."""
    decoder, at = json.JSONDecoder(), text.find("{")
    for _ in range(_OBJECTS_MAX):
        if at < 0:
            return
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield found
        at = text.find("{", end)


def _repaired(text: str) -> Any:
    from json_repair import loads

    bare = text if text.lstrip().startswith("{") else _THOUGHT.sub("", text)
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        return loads(bare)
    return None


def _optional(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def _text(found: Mapping[str, Any], key: str, where: str = "") -> str:
    value = found.get(key)
    if not isinstance(value, str):
        raise BadAnswerError(f"`{where}{key}`: expected a text")
    return value


def _score(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in SCORES:
        raise BadAnswerError("`score`: expected a whole number from 0 to 3")
    return int(value)


def _findings(found: Any) -> tuple[CitedFinding, ...]:
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadAnswerError("`findings`: expected a list of objects")
    return tuple(_finding(each, f"findings[{at}].") for at, each in enumerate(found))


def _finding(found: Mapping[str, Any], where: str) -> CitedFinding:
    impact = _text(found, "impact", where).strip().lower()
    if impact not in IMPACTS:
        raise BadAnswerError(f"`{where}impact`: expected low, medium or high")
    return CitedFinding(
        step=_text(found, "step", where),
        category=_text(found, "category", where).strip(),
        impact=impact,
        what=_text(found, "what", where),
    )
