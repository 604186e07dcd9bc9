"""Where tasks are: the bundled ones by name, any others by path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.tasks.read import BenchTask, TaskError, read_task

__all__ = ["WORLDS", "bundled", "find_tasks"]

WORLDS: Final = Path(__file__).parents[1] / "worlds"
"""Folder of the bundled worlds: one folder a world, with its module, its tasks and their specs."""


def bundled() -> list[BenchTask]:
    """All bundled tasks, by name."""
    return sorted(map(read_task, _documents(WORLDS)), key=lambda task: task.name)


def find_tasks(names: Sequence[str]) -> list[BenchTask]:
    """The tasks that are named; all bundled ones for none.

    Args:
        names: of bundled tasks, of bundled worlds, or paths of task documents and folders of them.

    Raises:
        TaskError: there is no such task, or it cannot be used, or two have one name.
    """
    if not names:
        return bundled()
    found: dict[str, BenchTask] = {}
    for name in names:
        for task in _named(name):
            known = found.setdefault(task.name, task)
            if known.file.resolve() != task.file.resolve():
                raise TaskError(f"{task.at('task')}: {known.file} has this name, too")
    return list(found.values())


def _named(name: str) -> list[BenchTask]:
    path = Path(name)
    documents = _documents(path) if path.is_dir() else []
    if documents:
        return [*map(read_task, documents)]
    if path.is_file() or path.suffix in (".yaml", ".yml"):
        return [read_task(path)]
    tasks = [
        task
        for task in _of_world(name.partition("/")[0])
        if name in (task.name, task.document.world)
    ]
    if not tasks:
        found = "no task document in this folder" if path.is_dir() else "no file"
        raise TaskError(f"{name}: {found}, and no task or world of `offrails harness list`")
    return tasks


def _of_world(name: str) -> list[BenchTask]:
    """Bundled tasks of the world with this name. Others are not read."""
    documents = [
        file
        for folder in WORLDS.iterdir()
        if folder.name == name
        for file in _documents(folder)
    ]
    return sorted(map(read_task, documents), key=lambda task: task.name)


def _documents(folder: Path) -> list[Path]:
    """Task documents of a folder; specs beside them end in `.spec.yaml`."""
    return sorted(
        file for file in folder.rglob("*.yaml") if not file.name.endswith(".spec.yaml")
    )
