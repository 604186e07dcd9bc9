"""Documents of tasks and specs that importers write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["write_document"]


def write_document(file: Path, document: Mapping[str, Any]) -> None:
    """Writes a document as YAML: a line a key, JSON behind it."""
    lines = [
        f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in document.items()
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
