"""pydantic without its search for plugins.

The first model that is made loads `importlib.metadata` and reads the entry points of all installed distributions.
That takes 2 MB, and the more time the more is installed. Plugins watch validation; ours is done once, at the start.
`PYDANTIC_DISABLE_PLUGINS` turns the plugins off, but not the search.
"""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["skip_plugins"]

_LOADER = "pydantic.plugin._loader"


def skip_plugins() -> None:
    """Pydantic finds no plugins in this process. Does nothing once it has looked for them."""
    if _LOADER in sys.modules:
        return
    loader = ModuleType(_LOADER, skip_plugins.__doc__)
    loader.get_plugins = lambda: ()  # type: ignore[attr-defined]
    sys.modules[_LOADER] = loader
