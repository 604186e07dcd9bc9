"""What verbs read: settings, specs and recordings. Where these are bad, the program ends with a clear answer.

Exit codes: 0 fine, 1 it did not work, 2 usage or configuration.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collector.config.settings.settings import Settings
    from collector.offline.replay import DocumentForm
    from monitor.spec.read import LoadedSpecs

__all__ = [
    "FAILED",
    "OK",
    "USAGE",
    "default_settings",
    "load_settings",
    "load_specs_or_quit",
    "loaded_or_quit",
    "only_task",
    "quit_with",
    "read_specs",
    "recordings",
    "writing",
]

OK, FAILED, USAGE = 0, 1, 2


def load_settings(file: Path | None, options: dict[tuple[str, ...], Any]) -> Settings:
    """The settings of a file, the environment and options; a fault in them ends the program."""
    from collector.config.sources import SettingsError, load

    try:
        return load(file, os.environ, options)
    except SettingsError as problem:
        quit_with(str(problem))


def default_settings() -> Settings:
    """The settings where nothing is set."""
    from collector.config.settings.settings import Settings

    return Settings()


def load_specs_or_quit(paths: Sequence[Path]) -> tuple[Any, ...]:
    """The specs of files and folders; refused ones end the program, warnings do not."""
    return loaded_or_quit(paths).specs if paths else ()


def loaded_or_quit(paths: Sequence[Path]) -> LoadedSpecs:
    """The same with what was found in them."""
    loaded = read_specs(paths)
    if loaded.refused:
        errors = [found for found in loaded.findings if found.severity == "error"]
        quit_with("\n".join(f"{found}\n    {found.impact}" for found in errors))
    return loaded


def read_specs(paths: Sequence[Path]) -> LoadedSpecs:
    """The same, but refused ones are left out, and are among what was found."""
    from collector.telemetry.clock import now_ns
    from monitor.spec.acceptance import day_of
    from monitor.spec.read import load_specs

    return load_specs(paths, day_of(now_ns()))


def only_task(specs: Sequence[Any]) -> str:
    """The spec of plain runs that name none."""
    tasks = [spec.id for spec in specs if spec.kind != "policy"]
    return tasks[0] if len(tasks) == 1 else ""


def recordings(paths: Sequence[Path], *forms: DocumentForm) -> list[Path]:
    """Files, and the recordings of folders; with these other forms of documents, if any."""
    from collector.offline.replay import files_of

    for path in paths:
        if not path.exists():
            quit_with(f"{path}: no such file or folder")
    return files_of(paths, forms)


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """Quits where this file, or another one, cannot be written or read; not where standard output's reader has left."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        quit_with(f"{problem.filename or out}: {problem.strerror or problem}")


def quit_with(message: str, code: int = USAGE) -> NoReturn:
    """Prints a message and ends the program, as a rule with the exit code for usage and configuration."""
    from collector.telemetry.log_writer import FLUSH_SECONDS, print_in_thread

    # Whether anybody reads it or not, the exit code shows it as well.
    print_in_thread(f"offrails: {message}", sys.stderr).join(FLUSH_SECONDS)
    raise SystemExit(code)
