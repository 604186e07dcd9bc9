"""`offrails import core`: published automata -> spec files, each repair and refusal listed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitor.alphabet.alphabet import Alphabet
from monitor.automaton.dfa import UNDEFINED
from monitor.findings import printable
from monitor.spec.compiler.compile import compile_text
from monitor.spec.core_import.dataset import Defect, Repair, Task, defects, document
from monitor.spec.core_import.forms import FormError, read_task, records, without_world
from monitor.spec.core_import.repairs import repair
from monitor.spec.spec import Spec

__all__ = ["ImportResult", "import_core", "report"]


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What became of one record."""

    id: str
    file: Path | None
    """Path of the written spec; None if it was refused."""
    repairs: tuple[Repair, ...] = ()
    refusals: tuple[Defect, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes on a spec that is written in spite of its faults."""


def import_core(files: Sequence[Path], out: Path, *, mend: bool) -> Iterator[ImportResult]:
    """Writes a spec for each record of the files; one that is refused spoils no other.

    Args:
        files: the published data set, or files of one automaton each.
        out: the folder to write to; made if need be.
        mend: repair defective tasks; else they are refused.

    Raises:
        OSError: the folder cannot be written to.
    """
    out.mkdir(parents=True, exist_ok=True)
    written: dict[str, str] = {}
    for file in files:
        try:
            found = list(records(_json(file), file.stem))
        except FormError as problem:
            yield _refused(str(file), "invalid_document", str(problem))
            continue
        for id_, record in found:
            target = out / f"{_file_name(id_)}.yaml"
            other = written.get(target.name.lower())
            if other is not None:
                why = f"{file.name}: {other!r} was written to {target.name} already"
                yield _refused(id_, "duplicate_spec_id", why)
                continue
            imported = _import(id_, record, target, mend=mend)
            if imported.file is not None:
                written[target.name.lower()] = id_
            yield imported


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except OSError as problem:
        raise FormError(problem.strerror or str(problem)) from None
    except (ValueError, RecursionError) as problem:
        raise FormError(f"no JSON: {problem}") from None


def _file_name(id_: str) -> str:
    """The id with whatever could lead out of the folder, or not be written, made harmless."""
    return re.sub(r"[^\w.-]", "_", id_)[:200].lstrip(".") or "_"


def _import(id_: str, record: Any, target: Path, *, mend: bool) -> ImportResult:
    try:
        task = read_task(id_, record)
    except FormError as problem:
        return _refused(id_, "invalid_document", str(problem))
    task, repairs = repair(task) if mend else (task, ())
    settled = {done.defect for done in repairs}
    left = tuple(defect for defect in defects(task) if defect not in settled)
    if left:
        return ImportResult(id_, None, refusals=left)
    text = document(task, repairs)
    spec, findings = compile_text(text, target.name)
    if spec is None:
        errors = (found for found in findings if found.severity == "error")
        refusals = tuple(
            Defect(found.code, f"{found.message} ({found.key})") for found in errors
        )
        return ImportResult(id_, None, refusals=refusals)
    target.write_text(text, encoding="utf-8")
    return ImportResult(id_, target, repairs=repairs, notes=tuple(_notes(task, spec)))


def _refused(id_: str, code: str, why: str) -> ImportResult:
    return ImportResult(id_, None, refusals=(Defect(code, why),))


# --- the expected sequence --------------------------------------------------------------------


def _notes(task: Task, spec: Spec) -> Iterator[str]:
    """Expected sequences that the automaton does not accept: one of the two is wrong."""
    for word in _words(task.expected):
        tokens = [_token(each, spec.alphabet) for each in word]
        wrong = _first_wrong(spec, tokens)
        if wrong is not None:
            what = f"step {wrong + 1}" if wrong < len(tokens) else "it does not end the task"
            yield f"the expected sequence is not accepted: {what}"


def _words(expected: Any) -> list[list[Any]]:
    """One sequence, or a list of alternatives."""
    if not isinstance(expected, list) or not expected:
        return []
    return expected if all(isinstance(each, list) for each in expected) else [expected]


def _token(step: Any, alphabet: Alphabet) -> int:
    """The symbol a step of an expected sequence means; UNDEFINED for none."""
    if isinstance(step, str):
        return alphabet.symbols.index(step) if step in alphabet.symbols else UNDEFINED
    if not isinstance(step, dict) or not isinstance(step.get("name"), str):
        return UNDEFINED
    tool = without_world(step["name"])
    arguments = step.get("arguments")
    token = alphabet.match(tool, arguments if isinstance(arguments, dict) else {}, failed=False)
    return token if token < len(alphabet.symbols) else UNDEFINED


def _first_wrong(spec: Spec, tokens: Sequence[int]) -> int | None:
    """Place of the first step that is not allowed; the length where the end is not accepting."""
    state = spec.machine.initial
    for place, token in enumerate(tokens):
        target = UNDEFINED if token == UNDEFINED else spec.machine.step(state, token)
        if target == UNDEFINED:
            return place
        state = target
    return None if spec.machine.accepts(state) else len(tokens)


# --- telling ----------------------------------------------------------------------------------


def report(found: Iterable[ImportResult], out: Path) -> Iterator[tuple[bool, str]]:
    """Lines for people, each with whether it is a refusal; the last one sums up."""
    written = repaired = refused = 0
    for each in found:
        name = printable(each.id)
        for done in each.repairs:
            yield False, f"repaired {name}: {printable(str(done))}"
        for note in each.notes:
            yield False, f"note {name}: {note}"
        for defect in each.refusals:
            yield True, f"refused {name}: {printable(str(defect))}"
        written += each.file is not None
        repaired += bool(each.repairs)
        refused += each.file is None
    yield (
        False,
        f"{written} specs written to {out}, {repaired} of them repaired; {refused} refused",
    )
