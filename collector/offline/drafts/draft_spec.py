"""`offrails learn --spec`: a task spec drafted by passive automata learning, with findings.

ALERGIA (Carrasco and Oncina 1994) merges states of the runs' prefix tree that go on alike; it needs
no runs that failed. Its Markov chain becomes an automaton: an edge per call, accepting where runs
ended. A person reviews it: what was seen is not what is right.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from collector.client.verb_error import VerbError
from monitor.findings import Finding, has_errors
from monitor.reference.draft import DraftAutomaton, accepts, draft_text, pruned
from monitor.reference.runs import SeenRun, sample
from monitor.reference.settings import (
    SPEC_CONFIDENCE,
    SPEC_FOLDS,
    SPEC_PRUNED,
    SPEC_RUNS_MAX,
)
from monitor.spec.compiler.compile import compile_text

__all__ = ["Draft", "NoLearner", "draft", "learner"]

Word = tuple[str, ...]
Learner = Any
"""`aalpy.run_Alergia`: an extra, without types."""

_START, _END = -2, -1
"""Letters of the chain that no tool has; tools are numbered from 0."""


class NoLearner(VerbError):  # noqa: N818 - it names what is missing
    """The library is not installed; the message says how it comes."""

    code = 2


class Draft(NamedTuple):
    """A drafted spec."""

    text: str
    notes: tuple[str, ...]
    """Notes for the user of the draft."""
    findings: tuple[Finding, ...]
    """Findings of the compiler."""


def learner() -> Learner:
    """The learning algorithm.

    Raises:
        NoLearner: the extra is not installed.
    """
    try:
        from aalpy.learning_algs import run_Alergia
    except ImportError:
        raise NoLearner(
            "--spec needs the extra offrails[learn] (AALpy): pip install 'offrails[learn]'"
        ) from None
    return run_Alergia


def draft(
    runs: Sequence[SeenRun], id_: str, match: Mapping[str, Any], alergia: Learner
) -> Draft:
    """A task spec of the runs that are usual, tried on those that failed.

    Args:
        runs: as `monitor.reference.learn` takes them.
        id_: of the spec.
        match: which sessions it judges.
        alergia: from `learner`.
    """
    labelled = any(run.success is not None for run in runs)
    usual = [run for run in runs if run.success or not labelled]
    failed = [run.names for run in runs if labelled and not run.success]
    learning = sample(usual, SPEC_RUNS_MAX)
    words = sorted(run.names for run in learning)
    whole = _learnt(words, alergia)
    for share in SPEC_PRUNED:
        model = pruned(whole, words, share * len(words))
        notes = tuple(_notes(model, whole, usual, learning, failed, share, alergia))
        text = draft_text(model, id_, match, _wrapped(notes))
        _, findings = compile_text(text, f"{id_}.yaml")
        if not has_errors(findings):
            break
    return Draft(text, notes, findings)


def _wrapped(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        printable = "".join(c if c.isprintable() else "?" for c in line)
        yield from textwrap.wrap(printable, 96, subsequent_indent="  ")


# --- learning ---------------------------------------------------------------------------------


def _learnt(words: Sequence[Word], alergia: Learner) -> DraftAutomaton:
    """The automaton of some runs; their order makes no difference, as they come sorted."""
    if not words:
        return DraftAutomaton({}, frozenset())
    tools = sorted({tool for word in words for tool in word})
    number = {tool: place for place, tool in enumerate(tools)}
    data = [[_START, *(number[tool] for tool in word), _END] for word in words]
    chain = alergia(data, automaton_type="mc", eps=SPEC_CONFIDENCE, print_info=False)
    return _model(chain.initial_state, tools)


def _model(first: Any, tools: Sequence[str]) -> DraftAutomaton:
    """The Markov chain as an automaton: the letter of a state is the call that leads to it."""
    numbers, found = {id(first): 0}, [first]
    edges: dict[tuple[int, str], int] = {}
    ends: set[int] = set()
    for state in found:  # grows while it is read
        source = numbers[id(state)]
        for target, _ in sorted(state.transitions, key=lambda each: int(each[0].output)):
            if target.output == _END:
                ends.add(source)
                continue
            if id(target) not in numbers:
                numbers[id(target)] = len(found)
                found.append(target)
            edges[source, tools[target.output]] = numbers[id(target)]
    return DraftAutomaton(edges, frozenset(ends))


# --- notes ------------------------------------------------------------------------------------


def _notes(
    model: DraftAutomaton,
    whole: DraftAutomaton,
    usual: Sequence[SeenRun],
    learning: Sequence[SeenRun],
    failed: Sequence[Word],
    share: float,
    alergia: Learner,
) -> Iterator[str]:
    of = f", {len(learning)} of {len(usual)}" if len(learning) < len(usual) else ""
    yield (
        f"learnt by ALERGIA (confidence {SPEC_CONFIDENCE}) from {len(usual)} usual runs{of}: "
        f"{len(model.states)} states, {len(model.edges)} edges"
    )
    if left := len(whole.edges) - len(model.edges):
        yield f"left out: {left} edges that fewer than {share:.0%} of the runs take, or lead to"
    accepted = sum(accepts(model, run.names) for run in usual)
    yield f"accepts {accepted} of the {len(usual)} usual runs"
    if failed:
        passed = sum(accepts(model, word) for word in failed)
        yield f"accepts {passed} of the {len(failed)} runs that failed, too"
    held_out = _held_out(learning, share, alergia)
    if held_out is not None:
        yield (
            f"learnt without them, it accepts {held_out} of {len(learning)} usual runs: "
            "the rest would be false alarms"
        )
    unknown = {tool for word in failed for tool in word} - {tool for _, tool in model.edges}
    if unknown:
        yield f"unknown to it, so always harmful: {', '.join(sorted(unknown))}"


def _held_out(runs: Sequence[SeenRun], share: float, alergia: Learner) -> int | None:
    """How many runs are accepted by what is learnt from the other folds."""
    if len(runs) < 2 * SPEC_FOLDS:
        return None
    found = 0
    for fold in range(SPEC_FOLDS):
        words = sorted(run.names for n, run in enumerate(runs) if n % SPEC_FOLDS != fold)
        model = pruned(_learnt(words, alergia), words, share * len(words))
        found += sum(accepts(model, run.names) for run in runs[fold::SPEC_FOLDS])
    return found
