"""The published data beside the repo, and its tasks as imported specs."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from monitor.spec.compiler.compile import compile_text
from monitor.spec.core_import.dataset import Repair, Task, document
from monitor.spec.core_import.forms import read_task, records
from monitor.spec.core_import.repairs import repair
from monitor.spec.spec import Spec

__all__ = ["CORE", "DATASET", "load", "needs_core", "repaired", "spec", "specs", "tasks"]

CORE = Path(__file__).parents[2] / ".." / "shared" / "core"
DATASET = CORE / "all_worlds_dataset.json"

needs_core = pytest.mark.skipif(
    not DATASET.exists(), reason="the published data is not beside the repo"
)


@cache
def load(name: str) -> Any:
    return json.loads((CORE / name).read_text(encoding="utf-8"))


@cache
def tasks() -> dict[str, Task]:
    """All tasks as published."""
    found = records(load("all_worlds_dataset.json"), "all_worlds_dataset")
    return {id_: read_task(id_, record) for id_, record in found}


@cache
def repaired(id_: str) -> tuple[Task, tuple[Repair, ...]]:
    return repair(tasks()[id_])


@cache
def spec(id_: str) -> Spec:
    """One imported task."""
    task, repairs = repaired(id_)
    found, findings = compile_text(document(task, repairs), f"{id_}.yaml")
    assert found is not None, findings
    return found


def specs() -> list[Spec]:
    return [spec(id_) for id_ in tasks()]
