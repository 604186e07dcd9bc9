"""What a snapshot keeps: state, and nothing that follows from settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.app.service import App
from collector.app.snapshot_layout import LAYOUT, judging
from collector.config.settings import (
    Alerts,
    Decide,
    Receiver,
    Sessions,
    Settings,
    State,
    Webhook,
)
from monitor.limits import SECOND
from monitor.session.spec_binding import SpecBinder

PLAIN = (int, float, str, bytes, bool, type(None), tuple, frozenset)
RANDOM = "seed"
"""A field of decided calls that differs from process to process, and has to go on."""

CHANGED: dict[str, dict[str, Any]] = {
    "alerts": {
        "alerts": Alerts(
            webhook=Webhook(url="http://127.0.0.1:9"),
            settle_seconds=9.0,
            repeat_seconds=99.0,
            pages_per_minute=7,
            resolve_seconds=9_999.0,
            queue=77,
            joined="page",
        )
    },
    "bounds": {
        "sessions": Sessions(
            max=777, max_bytes=7_777_777, max_argument_bytes=777_777, max_span_bytes=7_777_777
        )
    },
    "pairs": {"metrics_pairs_max": 77, "metrics_agents_max": 7},
    "answers": {"sessions": Sessions(group_by_answer=False)},
    "decide": {"decide": Decide(confirm_seconds=7.0)},
    "log": {"log_level": "debug"},
    "stop": {"drain_seconds": 1.0, "last_scrape_seconds": 20.0},
    "state": {"state": State(dir=Path("elsewhere"), snapshot_seconds=5.0)},
}


def settings(folder: Path, **changes: Any) -> Settings:
    given: dict[str, Any] = {
        "receiver": Receiver(grpc="off", http="off"),
        "metrics": "off",
        "admin": "off",
        "alerts": Alerts(webhook=Webhook(url="http://127.0.0.1:9")),
        **changes,
        "state": State(dir=folder),
    }
    return Settings(**given)


def parts(folder: Path, **changes: Any) -> dict[str, object]:
    """The parts of a service that has just been made, by path."""
    app = App(settings(folder, **changes), (), clock=lambda: SECOND, steady=lambda: SECOND)
    assert app._state is not None
    app._state.journal.release()
    return app._state.snapshots._known


def fields(folder: Path, **changes: Any) -> dict[tuple[str, str, str], object]:
    """The plain values in its parts: path, class and field of each."""
    found: dict[tuple[str, str, str], object] = {}
    for path, each in parts(folder, **changes).items():
        cls = type(each)
        if LAYOUT.is_record(cls):
            for name in LAYOUT.kept(cls, each):
                value = getattr(each, name, None)
                if isinstance(value, PLAIN) and name != RANDOM:
                    found[path, f"{cls.__module__}.{cls.__qualname__}", name] = value
    return found


@pytest.mark.parametrize("what", CHANGED)
def test_what_follows_from_settings_is_not_taken_from_a_snapshot(
    what: str, tmp_path: Path
) -> None:
    """Where a setting that a snapshot does not depend on makes a difference to a part, the part keeps its own value."""
    before = fields(tmp_path / "a")
    after = fields(tmp_path / "b", **CHANGED[what])
    differing = {key for key in before if before[key] != after[key]}
    assert not [key for key in differing if key[2] not in LAYOUT.own.get(key[1], ())]


@pytest.mark.parametrize("what", CHANGED)
def test_settings_that_judge_nothing_keep_the_snapshot(what: str, tmp_path: Path) -> None:
    """The log level, receivers of alerts, bounds and paths are nothing that a snapshot depends on."""
    assert judging(settings(tmp_path)) == judging(settings(tmp_path, **CHANGED[what]))


@pytest.mark.parametrize(
    "changed",
    [
        {"history": "complete"},
        {"show_arguments": True},
        {"sessions": Sessions(window_seconds=1.0)},
        {"sessions": Sessions(id_attributes=("my.id",))},
    ],
)
def test_settings_that_judge_do_not(changed: dict[str, Any], tmp_path: Path) -> None:
    """With another window, another source of session ids or another history, a snapshot says what else."""
    assert judging(settings(tmp_path)) != judging(settings(tmp_path, **changed))


def test_what_the_layout_names_is_there(tmp_path: Path) -> None:
    """Each field that is not taken from a snapshot is one of its class: a misspelt one would be taken."""
    named = {name: [*fields] for name, fields in LAYOUT.own.items()}
    for name, caches in LAYOUT.caches.items():
        named.setdefault(name, []).extend(caches)
    for each in (*parts(tmp_path).values(), SpecBinder(())):
        for field in named.pop(f"{type(each).__module__}.{type(each).__qualname__}", ()):
            assert hasattr(each, field), field
    assert not named
