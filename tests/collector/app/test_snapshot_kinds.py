"""The kinds of plain records in snapshots: nothing of the state is forgotten, and each field has somebody who decided on it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from collector.app.service import App
from collector.config.settings.alerts import AlertSettings, WebhookSettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.settings import Settings
from collector.config.settings.state import StateSettings
from collector.restart.snapshot_layout import KINDS
from monitor.limits import SECOND
from monitor.plain_records.kinds import Form, PlainRecordKind
from monitor.scores.consistency import RollingConsistency

ROOT: Final = Path(__file__).parents[3]
OURS: Final = ("monitor.", "collector.")
DECLARED: Final = [each for each in KINDS.all if each.cls.__module__.startswith(OURS)]
RECORDS: Final = [each for each in DECLARED if each.form is Form.RECORD]
TUPLES: Final = [each for each in DECLARED if each.form is Form.VALUE]
NOT_WRITTEN: Final = {
    "Goldens": "belongs to a judge, and is named by it",
    "_Holder": "a protocol of judgements",
    "_Judgement": "a protocol of judgements",
}
"""Classes in the annotations of fields that need no kind, and why."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[type, object]:
    """An object of each class whose fields are in a dictionary."""
    app = App(
        Settings(
            receiver=ReceiverSettings(grpc="off", http="off"),
            metrics="off",
            admin="off",
            alerts=AlertSettings(webhook=WebhookSettings(url="http://127.0.0.1:9")),
            state=StateSettings(dir=tmp_path_factory.mktemp("state")),
        ),
        (),
        clock=lambda: SECOND,
        steady=lambda: SECOND,
    )
    assert app.state is not None
    known = [
        *app.state.snapshots.content.known.values(),
        app.monitor.binder,
        RollingConsistency(0),
    ]
    app.state.journal.release()
    return {type(each): each for each in known}


def fields_of(cls: type, an_object: object) -> set[str]:
    """All fields: slots, those that a compiled class has in their place, and those of a dictionary."""
    found = set(getattr(an_object, "__dict__", ()))
    for each in cls.__mro__:
        slots = each.__dict__.get("__mypyc_attrs__", each.__dict__.get("__slots__", ()))
        found |= {slots} if isinstance(slots, str) else set(slots)
    return found - {"__dict__", "__weakref__"}


def test_each_field_is_kept_or_left_on_purpose(parts: dict[type, object]) -> None:
    """A field of a kept class is written, or made anew, or left as it is, or leads to a part: each is in the table, once."""
    for kind in RECORDS:
        there = fields_of(kind.cls, parts.get(kind.cls))
        said = [*kind.fields, *kind.made, *kind.left, *kind.parts]
        if kind.only_parts:
            assert set(said) <= there, kind.name
        else:
            own = vars(kind.cls)
            read = {field for field in kind.fields if hasattr(own.get(field), "__set__")}
            assert sorted(said) == sorted(there | read), kind.name


def test_each_name_of_a_tuple_is_kept() -> None:
    """A tuple with names is written whole."""
    for kind in TUPLES:
        assert kind.fields == getattr(kind.cls, "_fields", None), kind.name


# --- what fields refer to -------------------------------------------------------------------------


def classes_in(kind: PlainRecordKind) -> Iterator[tuple[str, str]]:
    """Names in the annotations of a kind's fields, with the module in which they stand."""
    for cls in kind.cls.__mro__:
        if not cls.__module__.startswith(OURS):
            continue
        for node in classes_of(cls.__module__):
            if node.name == cls.__name__:
                for field, annotation in annotations_in(node):
                    if field in kind.fields:
                        for name in re.findall(r"\w+", ast.unparse(annotation)):
                            yield cls.__module__, name


@cache
def classes_of(module: str) -> list[ast.ClassDef]:
    """The classes that a module's text defines."""
    path = ROOT / Path(*module.split(".")).with_suffix(".py")
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.ClassDef)]


def annotations_in(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Fields and what their annotations say: their own, or those of the parameters that they are set to."""
    given: dict[str, ast.expr] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.arg) and each.annotation is not None:
            given.setdefault(each.arg, each.annotation)
        elif isinstance(each, ast.AnnAssign):
            yield ast.unparse(each.target).removeprefix("self."), each.annotation
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Name):
            for target in each.targets:
                if each.value.id in given:
                    yield ast.unparse(target).removeprefix("self."), given[each.value.id]


def meant(module: str, name: str) -> Iterator[type]:
    """Our classes that a name stands for, by itself or within an alias."""
    found: Any = getattr(import_module(module), name, None)
    if isinstance(found, type):
        if found.__module__.startswith(OURS):
            yield found
    elif hasattr(found, "__args__"):
        for there, cls in re.findall(r"((?:monitor|collector)[\w.]*)\.(\w+)", repr(found)):
            yield from meant(there, cls)


def test_what_a_kept_field_may_refer_to_is_kept() -> None:
    """Every class in the annotation of a written field has a kind: no rare state keeps a snapshot from being taken."""
    named = {found for kind in DECLARED for found in classes_in(kind)}
    assert len(named) > 100
    for module, word in named:
        for cls in meant(module, word):
            assert cls in KINDS.by_class or cls.__name__ in NOT_WRITTEN, (module, word)
