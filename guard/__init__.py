"""`offrails_guard` under the name that it had before: each module and each name is the same object. For one release.

A plain name such as `guard` is any program's own; whoever has a `guard.py` hides this package, and nothing of ours asks
for it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import offrails_guard

if TYPE_CHECKING:
    from offrails_guard import *  # noqa: F403 - what it offers, and nothing else

__all__ = list(offrails_guard.__all__)

HERE: Final = f"{__name__}."


class FormerNames(MetaPathFinder, Loader):
    """Finds `guard.X` where `offrails_guard.X` is."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if not fullname.startswith(HERE) or find_spec(_name(fullname)) is None:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(_name(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It ran when it was imported. The import of the former name has left its mark, which goes."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


def _name(former: str) -> str:
    """The name of today."""
    return f"{offrails_guard.__name__}.{former.removeprefix(HERE)}"


def __getattr__(name: str) -> Any:
    return getattr(offrails_guard, name)


sys.meta_path.insert(0, FormerNames())
warnings.warn(
    "the package `guard` is `offrails_guard` now: import that; the former name is gone with the next release",
    DeprecationWarning,
    stacklevel=2,
)
