"""What the guard has beside a service, in this process: packages of offrails, which an extra installs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

__all__ = ["missing"]

PACKAGES: Final = ("collector", "monitor")
"""Packages of offrails. These are plain names, so a file of a program may hide them."""


def missing(what: str, package: str, extra: str, problem: ImportError) -> ImportError:
    """An error that says what to do.

    Args:
        what: is wanted.
        package: of offrails, which has it.
        extra: that installs it.
        problem: what the import of the package has met.
    """
    name = (problem.name or "").partition(".")[0]
    if name == __name__.partition(".")[0]:
        name = package  # a program of that name imports us, and is imported in place of the package
    file = _file(name) if name in PACKAGES else None
    if file is None:
        return ImportError(
            f"{what} needs {name or package}: pip install 'offrails-guard[{extra}]'", name=name
        )
    return ImportError(
        f"{what} needs the package `{name}` of offrails, and `{name}` is {file} here ({problem}). If that file is a "
        "program's own, it hides the package: give it another name, or ask a service (`Guard`), which needs no such "
        "package",
        name=name,
        path=file,
    )


def _file(name: str) -> str | None:
    try:
        spec = find_spec(name)
    except ValueError:  # a module that somebody has made by hand
        return None
    return spec.origin if spec is not None else None
