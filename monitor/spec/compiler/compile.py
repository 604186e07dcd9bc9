"""A spec document's meaning: document -> automaton, alphabet and rules, with findings.

A bad document never raises: every fault is a finding with its place. The shape is checked first
(schema.py). If it is wrong, the meaning is not checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from monitor.alphabet.alphabet import build_alphabet
from monitor.automaton import paths
from monitor.automaton.dfa import Automaton, Machine
from monitor.findings import Finding
from monitor.records import PROFILES, Conventions
from monitor.spec.acceptance import accepting
from monitor.spec.compiler.accept import read_accept
from monitor.spec.compiler.data_rules import read_data_rules
from monitor.spec.compiler.each import read_each
from monitor.spec.compiler.machine import form_of, is_declared, no_state, read_machine
from monitor.spec.compiler.reachability import (
    can_finish,
    check_areas,
    check_graph,
    check_traps,
    states_max,
)
from monitor.spec.compiler.review import review
from monitor.spec.compiler.symbols import (
    check_overlaps,
    check_tools,
    read_pattern,
    read_symbols,
)
from monitor.spec.compiler.timing import read_timing
from monitor.spec.document import yaml_text
from monitor.spec.document.faults import Notes
from monitor.spec.document.match_document import RegexDocument
from monitor.spec.document.schema import (
    AcceptDocument,
    ConventionsDocument,
    DeadlineDocument,
    RememberDocument,
    SeverityDocument,
    SpecDocument,
    SymbolDocument,
    ThingPathDocument,
)
from monitor.spec.document.validation import DocumentFault, StrictModel, validated
from monitor.spec.document.yaml_text import Document, Path
from monitor.spec.spec import (
    GOLDEN_LISTED_MAX,
    GOLDEN_MAX,
    MatchRules,
    SeverityRules,
    Spec,
)
from monitor.spec.suggestions import closest

if TYPE_CHECKING:
    from monitor.spec.document.reference import ReferenceDocument

__all__ = ["compile_text"]

_Model = TypeVar("_Model", bound=StrictModel)


def compile_text(
    text: str, file: str, day: date | None = None
) -> tuple[Spec | None, tuple[Finding, ...]]:
    """The spec in a YAML (or JSON) text, and what was found; None if an error refuses it.

    Args:
        text: the whole document.
        file: its name, for the findings.
        day: accepted calls that have expired by then are harmful again; None: none has.
    """
    read, found = yaml_text.parse(text, file)
    if read is None:
        return None, tuple(found)
    notes = Notes(file, read, found)
    sha256_8 = hashlib.sha256(text.encode()).hexdigest()[:8]
    if _is_learnt(read.data):
        return _reference(read, notes, sha256_8), notes.sorted()
    model = _validate(read, notes)
    spec = _compile(model, notes, day, sha256_8) if model is not None else None
    found_all = notes.sorted()
    return spec and replace(spec, findings=found_all), found_all


# --- shape ------------------------------------------------------------------------------------

_NAMES: Final = ("id", "version", "initial", "accepting", "states", "transitions", "reads",
                 "golden", "undo", "accept")  # fmt: skip
"""Keys whose plain values are names: `1.10` is a version, `0` a state, as they are written."""


def _validate(read: Document, notes: Notes) -> SpecDocument | None:
    if not isinstance(read.data, dict):
        notes.add("invalid_document", "a spec is a mapping of keys: id, alphabet, ...")
        return None
    return _model(SpecDocument, read, notes)


def _model(model: type[_Model], read: Document, notes: Notes) -> _Model | None:
    data = {
        key: _as_written(value, (key,), read) if key in _NAMES else value
        for key, value in read.data.items()
    }
    found, faults = validated(model, data)
    for fault in faults[: yaml_text.FINDINGS_MAX]:
        notes.add("invalid_document", _say(fault), *_known_path(fault.path, read))
    return found


def _is_learnt(data: Any) -> bool:
    """Whether a document is a learnt reference, and not one written by hand."""
    return isinstance(data, dict) and data.get("kind") == "reference" and "learnt" in data


def _reference(read: Document, notes: Notes, sha256_8: str) -> Spec | None:
    """A learnt reference: it compares runs, and has no automaton that judges them."""
    # Loaded with a reference: its models take half a megabyte, and most services have none.
    from monitor.spec.document.reference import ReferenceDocument, learnt_of

    model = _model(ReferenceDocument, read, notes)
    if model is None:
        return None
    rules = _rules(model, notes)
    try:
        learnt = learnt_of(model)
    except ValueError as problem:
        notes.add("broken_tree", str(problem), "tree")
        return None
    review(learnt, notes)
    if notes.refuse:
        return None
    return replace(
        Spec.observer(),
        id=model.id,
        version=model.version,
        description=model.description,
        mode=model.mode,
        enforce=model.enforce,
        match=rules,
        file=notes.file,
        sha256_8=sha256_8,
        learnt=learnt,
        findings=notes.sorted(),
    )


def _as_written(value: Any, path: Path, read: Document) -> Any:
    if isinstance(value, list):
        return [_as_written(item, (*path, place), read) for place, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: _as_written(item, (*path, key), read) for key, item in value.items()}
    if value is None or isinstance(value, str):
        return value
    return read.texts.get(path, str(value))


def _known_path(path: Path, read: Document) -> Path:
    """The path without a key that is missing: it stands nowhere."""
    return path if path in read.places else path[:-1]


def _say(fault: DocumentFault) -> str:
    if fault.kind == "missing":
        return f"the key {fault.path[-1]!r} is missing"
    if fault.kind == "unknown":
        key = fault.path[-1]
        keys = _keys()
        if key in keys:
            return f"unknown key {key!r} here; it belongs into {keys[str(key)]}"
        close = closest(str(key), sorted(keys))
        return f"unknown key {key!r}" + (f"; did you mean {close!r}?" if close else "")
    return fault.said[:1].lower() + fault.said[1:]


@cache
def _keys() -> dict[str, str]:
    """Key -> where it stands."""
    from monitor.spec.document.reference import ReferenceDocument

    return {
        field.alias or name: where
        for model, where in (
            (ReferenceDocument, "`reference`"),
            (DeadlineDocument, "a deadline"),
            (ThingPathDocument, "a path of `each`"),
            (AcceptDocument, "an entry of `accept`"),
            (SymbolDocument, "a symbol of the `alphabet`"),
            (RememberDocument, "an entry of `remember`"),
            (SeverityDocument, "`severity`"),
            (ConventionsDocument, "`conventions`"),
            (SpecDocument, "the spec itself"),
        )
        for name, field in model.model_fields.items()
    }


# --- meaning ----------------------------------------------------------------------------------


def _compile(model: SpecDocument, notes: Notes, day: date | None, sha256_8: str) -> Spec | None:
    """What the document means; None if an error refuses it."""
    symbols = read_symbols(model, notes)
    check_overlaps(symbols, notes)
    data = read_data_rules(model, symbols, notes)
    rules = _rules(model, notes)
    for step, back in model.undo.items():
        for name in (step, back):
            is_declared(name, model, notes, "undo", step)
    check_tools(model, notes)
    each = read_each(model, notes)
    machine = read_machine(model, notes)
    if machine is None:
        return None
    _check_severity(model, machine, notes)
    if not can_finish(machine, notes):
        return None
    check_graph(model, machine, notes)
    accepted = read_accept(model, machine, notes, day)
    lenient = accepting(machine, accepted)
    traps = check_traps(model, lenient, notes)
    timing = read_timing(model, machine, notes)
    conventions = _conventions(model)
    _check_conventions(model, notes)
    alphabet = build_alphabet(
        symbols, conventions.failed_calls, open_world=model.kind == "policy"
    )
    check_areas(lenient, dict.fromkeys(token.symbols for token in alphabet.tokens), notes)
    golden = _golden(model, machine, notes)
    if golden is None or notes.refuse:
        return None
    listed, count, lengths = golden
    number = {name: index for index, name in enumerate(model.alphabet)}
    severity = model.severity
    concurrent: Literal["any_order", "strict"] = (
        "strict" if model.kind == "policy" else "any_order"
    )
    return Spec(
        id=model.id,
        version=model.version,
        description=model.description,
        kind=model.kind,
        mode=model.mode,
        enforce=model.enforce,
        severity=SeverityRules(
            severity.default,
            severity.tools,
            severity.states,
            {str(reason): level for reason, level in severity.reasons.items()},
        ),
        match=rules,
        scope=model.scope,
        again=model.again,
        alphabet=alphabet,
        machine=lenient,
        traps=traps,
        data=data,
        each=each,
        timing=timing,
        accepted=accepted,
        bare=machine if accepted else None,
        golden=listed,
        golden_count=count,
        golden_lengths=lengths,
        conventions=conventions,
        concurrent=model.concurrent or concurrent,
        order=model.order,
        undo={number[step]: number[back] for step, back in model.undo.items()},
        file=notes.file,
        sha256_8=sha256_8,
    )


def _golden(
    model: SpecDocument, machine: Machine, notes: Notes
) -> tuple[tuple[tuple[int, ...], ...] | None, int, tuple[int, ...]] | None:
    """The golden paths, how many they are, and their lengths, as `Spec` has them; None if they are too many.

    They are of tasks and references: a policy has no end to reach.
    """
    if model.kind == "policy":
        return (), 0, ()
    listed = paths.reachable(machine, (machine.initial,), states_max(machine))
    count = GOLDEN_MAX + 1 if listed is None else paths.count_golden(machine, GOLDEN_MAX)
    if count > GOLDEN_MAX:
        notes.add("too_many_golden_paths", _too_many(count), form_of(model))
        return None
    few = count <= GOLDEN_LISTED_MAX
    golden = paths.golden_paths(machine, GOLDEN_LISTED_MAX) if few else None
    return golden, count, paths.golden_lengths(machine, GOLDEN_MAX)


def _too_many(count: int) -> str:
    known = "at least " if count in {GOLDEN_MAX + 1, paths.COUNT_MAX} else ""
    return f"{known}{count:,} golden paths; at most {GOLDEN_MAX:,} can be scored"


def _conventions(model: SpecDocument) -> Conventions:
    chosen = model.conventions
    if isinstance(chosen, str):
        chosen = ConventionsDocument(profile=chosen)
    return Conventions(
        profile=chosen.profile,
        failed_calls=chosen.failed_calls or PROFILES[chosen.profile].failed_calls,
        tau_below_two=chosen.tau_below_two,
        undefined_efficiency=chosen.undefined_efficiency,
        beta=chosen.beta,
        lambda_=chosen.lambda_,
    )


_OF_SCORES: Final = ("tau_below_two", "undefined_efficiency", "beta", "lambda")


def _check_conventions(model: SpecDocument, notes: Notes) -> None:
    """Finds keys that say how something counts which the kind of spec does not have."""
    if model.kind == "reference" and ("enforce",) in notes.read.places:
        message = "a reference judges no harm, so 'enforce' is not used"
        notes.add("unused_convention", message, "enforce")
    if model.kind == "task" or isinstance(model.conventions, str):
        return
    of_scores = [key for key in _OF_SCORES if ("conventions", key) in notes.read.places]
    for key in of_scores:
        message = f"a {model.kind} has no scores, so {key!r} is not used"
        notes.add("unused_convention", message, "conventions", key)
    if model.kind == "reference" and model.conventions.failed_calls == "harmful":
        message = "a reference judges no harm: a failed call changes nothing"
        notes.add("unused_convention", message, "conventions", "failed_calls")


def _rules(model: SpecDocument | ReferenceDocument, notes: Notes) -> MatchRules:
    rules: list[tuple[str, Callable[[Any], bool]]] = []
    written: list[tuple[str, str]] = []
    for name, wanted in model.match.items():
        raw: Any = wanted
        if isinstance(wanted, list):
            raw = {"one_of": wanted}
        elif isinstance(wanted, RegexDocument):
            raw = {"regex": wanted.regex}
        parsed = read_pattern(raw, notes, "match", name)
        if parsed is not None:
            rules.append((name, parsed.matches))
            written.append((name, str(raw)))
    return MatchRules(tuple(rules), model.kind == "policy", tuple(written))


def _check_severity(model: SpecDocument, machine: Machine, notes: Notes) -> None:
    names = machine.states if isinstance(machine, Automaton) else ()
    for state in model.severity.states:
        if state not in names:
            notes.add("undeclared_state", no_state(state), "severity", "states", state)
