"""What a snapshot keeps: state, and nothing that follows from settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.app.service import App
from collector.config.settings.alerts import AlertSettings, WebhookSettings
from collector.config.settings.decide import DecideSettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.sessions import SessionSettings
from collector.config.settings.settings import Settings
from collector.config.settings.state import StateSettings
from collector.restart.snapshot_layout import KINDS, judging
from monitor.limits import SECOND

PLAIN = (int, float, str, bytes, bool, type(None), tuple, frozenset)
RANDOM = "seed"
"""A field of decided calls that differs from process to process, and has to go on."""

CHANGED: dict[str, dict[str, Any]] = {
    "alerts": {
        "alerts": AlertSettings(
            webhook=WebhookSettings(url="http://127.0.0.1:9"),
            settle_seconds=9.0,
            repeat_seconds=99.0,
            pages_per_minute=7,
            resolve_seconds=9_999.0,
            queue=77,
            joined="page",
        )
    },
    "bounds": {
        "sessions": SessionSettings(
            max=777, max_bytes=7_777_777, max_argument_bytes=777_777, max_span_bytes=7_777_777
        )
    },
    "pairs": {"metrics_pairs_max": 77, "metrics_agents_max": 7},
    "answers": {"sessions": SessionSettings(group_by_answer=False)},
    "decide": {"decide": DecideSettings(confirm_seconds=7.0, max_call_bytes=7_777_777)},
    "log": {"log_level": "debug"},
    "stop": {"drain_seconds": 1.0, "last_scrape_seconds": 20.0},
    "state": {"state": StateSettings(dir=Path("elsewhere"), snapshot_seconds=5.0)},
}


def settings(folder: Path, **changes: Any) -> Settings:
    given: dict[str, Any] = {
        "receiver": ReceiverSettings(grpc="off", http="off"),
        "metrics": "off",
        "admin": "off",
        "alerts": AlertSettings(webhook=WebhookSettings(url="http://127.0.0.1:9")),
        **changes,
        "state": StateSettings(dir=folder),
    }
    return Settings(**given)


def fields(folder: Path, **changes: Any) -> dict[tuple[str, str], object]:
    """What is written of the parts of a service that has just been made, if it is plain: by part and field."""
    app = App(settings(folder, **changes), (), clock=lambda: SECOND, steady=lambda: SECOND)
    assert app.state is not None
    found: dict[tuple[str, str], object] = {}
    for part, each in app.state.snapshots.content.known.items():
        kind = KINDS.by_class.get(type(each))
        for name in kind.fields if kind is not None else ():
            value = getattr(each, name)
            if isinstance(value, PLAIN) and name != RANDOM:
                found[part, name] = value
    app.state.journal.release()
    return found


@pytest.mark.parametrize("what", CHANGED)
def test_what_follows_from_settings_is_not_in_a_snapshot(what: str, tmp_path: Path) -> None:
    """Where a setting that a snapshot does not depend on makes a difference to a part, the part keeps its own value."""
    before = fields(tmp_path / "a")
    after = fields(tmp_path / "b", **CHANGED[what])
    assert before == after


@pytest.mark.parametrize("what", CHANGED)
def test_settings_that_judge_nothing_keep_the_snapshot(what: str, tmp_path: Path) -> None:
    """The log level, receivers of alerts, bounds and paths are nothing that a snapshot depends on."""
    assert judging(settings(tmp_path)) == judging(settings(tmp_path, **CHANGED[what]))


@pytest.mark.parametrize(
    "changed",
    [
        {"history": "complete"},
        {"show_arguments": True},
        {"sessions": SessionSettings(window_seconds=1.0)},
        {"sessions": SessionSettings(id_attributes=("my.id",))},
    ],
)
def test_settings_that_judge_do_not(changed: dict[str, Any], tmp_path: Path) -> None:
    """With another window, another source of session ids or another history, a snapshot says what else."""
    assert judging(settings(tmp_path)) != judging(settings(tmp_path, **changed))
