"""structlog without rich, which it loads for tracebacks wherever it is installed.

We render exceptions ourselves, and rich with what it needs takes 3 MB and a tenth of a second.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["BoundLoggerBase", "ConsoleRenderer"]

_modules: dict[str, Any] = sys.modules
_loaded = "rich" in _modules
if not _loaded:
    _modules["rich"] = None  # an import fails as if it were not installed

from structlog import BoundLoggerBase  # noqa: E402
from structlog.dev import ConsoleRenderer  # noqa: E402

if not _loaded:
    del _modules["rich"]
