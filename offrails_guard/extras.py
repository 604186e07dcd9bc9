"""What the guard has beside a service, in this process: packages of offrails, which an extra installs."""

from __future__ import annotations

import sys

__all__ = ["missing"]


def missing(what: str, extra: str, problem: ImportError) -> ImportError:
    """An error that says how to have it.

    Args:
        what: is wanted.
        extra: that installs what it needs.
        problem: what its import has met.
    """
    name = (problem.name or "").partition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return ImportError(
            f"{what} needs {name or 'more'}: pip install 'offrails-guard[{extra}]'", name=name
        )
    return ImportError(
        f"{what} needs the package `{name}` of offrails, and `{name}` is {file} here ({problem}). If that file is a "
        "program's own, it hides the package: give it another name, or ask a service (`Guard`), which needs no such "
        "package",
        name=name,
        path=file,
    )
