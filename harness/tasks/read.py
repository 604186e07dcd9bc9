"""Task documents read: a file in, a `Task` out, or what is wrong with it, by file, line and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.tasks.document import TaskDocument
from monitor import Spec, SpecError, load_spec
from monitor.spec.document.validation import DocumentFault, validated
from monitor.spec.document.yaml_text import Document, parse

__all__ = ["BenchTask", "TaskError", "read_task"]


class TaskError(Exception):
    """A task cannot be used; the message says where, and what was expected."""


@dataclass(frozen=True, slots=True)
class BenchTask:
    """One task, ready to be run."""

    document: TaskDocument
    file: Path
    module: Path
    """File of the world's module."""
    spec_file: Path
    spec: Spec
    places: Document
    """Lines and columns of the document's keys."""

    @property
    def name(self) -> str:
        """The task's name."""
        return self.document.task

    def start(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """The state that the task begins in.

        Args:
            own: the state that its world's module has.
        """
        environment = self.document.environment
        return {} if environment.kind == "none" else {**own, **environment.state}

    def at(self, *path: str | int) -> str:
        """File, line and column of a key, for messages."""
        line, column = self.places.place(path)
        return f"{self.file}:{line}:{column}: {'.'.join(map(str, path))}"


def read_task(file: Path) -> BenchTask:
    """Reads one task document and its spec. The world's module is not loaded.

    Raises:
        TaskError: it cannot be read, or a key is missing, unknown or wrong.
    """
    places = _parsed(file)
    document, faults = validated(TaskDocument, places.data)
    if document is None:
        raise TaskError("\n".join(_said(fault, places, file) for fault in faults))
    # The sandbox has another working folder, and sees no links to the world's own.
    module = file.parent.resolve() / f"{document.world}.py"
    if not module.is_file():
        line, column = places.place(("world",))
        raise TaskError(f"{file}:{line}:{column}: world: expected a module {module.name} here")
    spec_file = file.parent / document.spec
    try:
        spec = load_spec(spec_file)
    except SpecError as problem:
        line, column = places.place(("spec",))
        raise TaskError(f"{file}:{line}:{column}: spec: {problem}") from None
    task = BenchTask(document, file, module, spec_file, spec, places)
    if fault := _criterion(task) or _environment(task):
        raise TaskError(fault)
    if spec.kind != "task" or spec.match.written:
        raise TaskError(f"{task.at('spec')}: expected a task spec without `match`")
    return task


_BESIDE: Final = {
    "end_state": "end_state or end_state_hash",
    "answer": "an answer with contains or regex",
    "check": "the name of a check",
    "judge": "a judge",
}
"""What a criterion cannot do without."""


def _criterion(task: BenchTask) -> str:
    """What is missing of the criteria; "" for nothing."""
    evaluation, attack = task.document.evaluation, task.document.attack
    answer = evaluation.answer
    lacks = {
        "end_state": not evaluation.end_state and evaluation.end_state_hash is None,
        "answer": answer is None or not (answer.contains or answer.regex),
        "check": evaluation.check is None,
        "judge": evaluation.judge is None,
    }
    if lacks.get(evaluation.criterion, False):
        return f"{task.at('evaluation', 'criterion')}: expected {_BESIDE[evaluation.criterion]} beside it"
    if attack is not None and not attack.end_state and attack.check is None:
        return f"{task.at('attack')}: expected end_state or check"
    return ""


def _environment(task: BenchTask) -> str:
    """What does not go together; "" for nothing."""
    document = task.document
    if document.environment.kind != "per_task" and document.environment.state:
        return f"{task.at('environment', 'state')}: expected none with kind {document.environment.kind}"
    if (document.agent.kind == "multi") != bool(document.agent.members):
        return (
            f"{task.at('agent')}: expected members with kind multi, and none with kind single"
        )
    return _held_back(task)


def _held_back(task: BenchTask) -> str:
    """What is wrong with tools that come later; "" for nothing."""
    document = task.document
    if document.held_back and document.environment.user is None:
        return f"{task.at('held_back')}: expected environment.user beside it: they come with an answer"
    unknown = set(document.held_back).difference(document.toolkit or document.held_back)
    if unknown:
        return f"{task.at('held_back')}: toolkit has no {', '.join(sorted(unknown))}"
    return ""


def _parsed(file: Path) -> Document:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise TaskError(f"{file}: {getattr(problem, 'strerror', None) or problem}") from None
    document, findings = parse(text, str(file))
    if document is None or findings:
        raise TaskError("\n".join(map(str, findings)) or f"{file}:1:1: expected a mapping")
    return document


def _said(fault: DocumentFault, places: Document, file: Path) -> str:
    line, column = places.place(fault.path)
    key: Any = ".".join(map(str, fault.path)) or "document"
    return f"{file}:{line}:{column}: {key}: {fault.said}"
