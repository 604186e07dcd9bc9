"""structlog without what it loads for tracebacks, colours and greenlets wherever that is installed.

We render exceptions ourselves, and rich with what it needs takes 3 MB and a tenth of a second. Colours on Windows need
colorama, which takes another half megabyte. Nothing here runs in greenlets.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["BoundLoggerBase", "ConsoleRenderer"]

_modules: dict[str, Any] = sys.modules
_unused = {"rich", "better_exceptions", "greenlet"}
if sys.platform != "win32":
    _unused.add("colorama")
_unused -= _modules.keys()
for _name in _unused:
    _modules[_name] = None  # an import fails as if it were not installed

from structlog import BoundLoggerBase  # noqa: E402
from structlog.dev import ConsoleRenderer  # noqa: E402

for _name in _unused:
    del _modules[_name]
