"""Specs reload while calls arrive: no call is lost, and running sessions keep their version."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import Mapping
from datetime import date
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collector.api.actions.reload import ReloadEndpoint
from collector.config.spec_reload import Reloader, look
from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.records import Evidence, Kind, SessionKey, ToolCall
from monitor.spec.editing.add_acceptance import with_acceptance
from monitor.spec.read import load_specs
from monitor.spec.spec import Acceptance

GOOD, EVIL, OTHER = "[a, b, c]", "[c, b, a]", "[b, a, c]"
ATTRIBUTES = {"service.name": "shop"}


def text(golden: str, version: str, name: str = "shop") -> str:
    return (
        f"id: {name}\nversion: '{version}'\nmatch: {{service.name: shop}}\n"
        "alphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}}\n"
        f"golden: [{golden}]\n"
    )


class Log:
    """Records the reload's log calls."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, Any]]] = []

    def _tell(self, level: str, event: str, **fields: Any) -> None:
        self.events.append((level, event, fields))

    def info(self, event: str, **fields: Any) -> None:
        self._tell("info", event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._tell("warning", event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        self._tell("error", event, **fields)


_NUMBERS = count(1)


def call(session: str, tool: str, attributes: Mapping[str, Any] = ATTRIBUTES) -> ToolCall:
    number = next(_NUMBERS)
    return ToolCall(
        session=SessionKey("", session),
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=number,
        end_ns=number,
        trace_id=bytes(16),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes=attributes,
    )


class Shop:
    """A monitor and its reloader over one folder."""

    def __init__(
        self, folder: Path, poll_seconds: float = 0.01, limits: Limits | None = None
    ) -> None:
        self.file = folder / "shop.yaml"
        self.log = Log()
        limits = limits or Limits(history_complete=True, window_ns=0, idle_ns=SECOND)
        self.monitor = Monitor(load_specs([folder]).specs, limits)
        self.reloader = Reloader(
            [folder], self.monitor.use, self.log, lambda: 7 * SECOND, poll_seconds
        )
        self.reloader.loaded(len(self.monitor.binder.judges))

    def kinds(self, session: str, *tools: str) -> list[tuple[str, str]]:
        calls = (call(session, tool) for tool in tools)  # each is received as it ends
        verdicts = (self.monitor.observe(each, each.end_ns) for each in calls)
        return [(v.spec_version, v.kind.value) for found in verdicts for v in found]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    (tmp_path / "shop.yaml").write_text(text(GOOD, "1"))
    return Shop(tmp_path)


def test_a_running_session_keeps_its_version(shop: Shop) -> None:
    """Sessions that began under version 1 stay under it; new sessions are judged under version 2."""

    async def play() -> None:
        assert shop.kinds("old", "a") == [("1", "progress")]
        shop.file.write_text(text(EVIL, "2"))
        done = await shop.reloader.reload("request")
        assert (done.success, done.changed, done.specs) == (True, True, 1)

    asyncio.run(play())
    assert shop.kinds("new", "a", "c") == [("2", "harmful"), ("2", "progress")]
    assert shop.kinds("old", "b", "c") == [("1", "progress"), ("1", "progress")]


def test_attributes_learnt_late_choose_among_the_specs_of_the_beginning(shop: Shop) -> None:
    """A second resource of the session, after a reload, adds no second judgement."""
    shop.kinds("s", "a")
    shop.file.write_text(text(EVIL, "2"))
    shop.file.with_name("more.yaml").write_text(text(EVIL, "1", "more"))
    asyncio.run(shop.reloader.reload("signal"))

    verdicts = shop.monitor.observe(call("s", "b", {**ATTRIBUTES, "pod": "other"}), 1)
    assert [(v.spec, v.spec_version) for v in verdicts] == [("shop", "1")]


def test_a_refused_file_changes_nothing(shop: Shop) -> None:
    """All or nothing: a good new file beside a broken one is not taken either."""
    shop.file.write_text("id: [")
    shop.file.with_name("more.yaml").write_text(text(GOOD, "1", "more"))

    done = asyncio.run(shop.reloader.reload("request"))

    assert (done.success, done.changed, done.specs) == (False, False, 1)
    assert [each.code for each in done.findings] == ["invalid_yaml"]
    assert shop.kinds("s", "a") == [("1", "progress")]
    reloads = shop.reloader.reloads
    assert (reloads.failed, reloads.errors, reloads.last_succeeded) == (1, 1, False)
    assert [event for _, event, _ in shop.log.events] == ["spec_finding", "specs_not_reloaded"]


def test_a_file_that_says_the_same_changes_nothing(shop: Shop) -> None:
    """Specs that did not change keep their judge, so nothing is built anew."""
    binder = shop.monitor.binder
    done = asyncio.run(shop.reloader.reload("signal"))

    assert (done.success, done.changed) == (True, False)
    assert shop.monitor.binder is binder
    shop.file.with_name("more.yaml").write_text(text(GOOD, "1", "more"))
    asyncio.run(shop.reloader.reload("signal"))
    assert shop.monitor.binder.judges["shop"] is binder.judges["shop"]


def test_severities_of_the_new_version_are_counted_from_zero(shop: Shop) -> None:
    """A known pair gets counters at zero for severities that only the new version has."""
    shop.kinds("s", "a")
    shop.file.write_text(text(GOOD, "2") + "severity: {default: critical}\n")
    asyncio.run(shop.reloader.reload("signal"))
    [pair] = shop.monitor.totals.pairs.values()
    assert pair.severities == ("critical", "warning")


# --- files that change ------------------------------------------------------------------------


async def _until(probe: Any) -> None:
    async with asyncio.timeout(10):
        while not probe():  # noqa: ASYNC110 - what is waited for happens in another thread
            await asyncio.sleep(0.005)


def test_a_changed_file_is_read(shop: Shop) -> None:
    """A file that is written, broken, mended, removed and put back is noticed each time."""

    async def play() -> None:
        watcher = asyncio.create_task(shop.reloader.watch())
        reloads = shop.reloader.reloads
        await asyncio.sleep(0.03)
        shop.file.write_text(text(GOOD, "2"))
        await _until(lambda: reloads.succeeded == 1)
        shop.file.write_text("id: [")
        await _until(lambda: reloads.failed == 1)
        shop.file.write_text(text(GOOD, "3"))
        await _until(lambda: reloads.succeeded == 2)
        shop.file.rename(shop.file.with_suffix(".off"))
        await _until(lambda: not shop.monitor.binder.judges)
        watcher.cancel()

    asyncio.run(play())
    assert shop.reloader.reloads.last_succeeded


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    """A file is read only after two checks find it unchanged."""
    (tmp_path / "shop.yaml").write_text(text(GOOD, "1"))
    shop = Shop(tmp_path, 0.02)

    async def play() -> int:
        watcher = asyncio.create_task(shop.reloader.watch())
        await asyncio.sleep(0.05)
        for size in range(30):
            shop.file.write_text(text(GOOD, "2") + "#" * size)
            await asyncio.sleep(0.005)
        early = shop.reloader.reloads.succeeded
        await _until(lambda: shop.reloader.reloads.succeeded > early)
        watcher.cancel()
        return shop.reloader.reloads.failed

    assert asyncio.run(play()) == 0


def test_the_look_sees_a_replaced_file(tmp_path: Path) -> None:
    """A file moved over another with the same time and size is another file."""
    one, two = tmp_path / "one.yaml", tmp_path / "two"
    one.write_text("a: 1")
    two.write_text("a: 2")
    for each in (one, two):
        os.utime(each, (1, 1))
    before = look([tmp_path])
    two.rename(one)
    assert look([tmp_path]) != before
    assert look([tmp_path / "missing"]) == {}


def test_a_folder_that_cannot_be_read_keeps_the_specs_in_use(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreadable folder is logged and keeps the specs; once it is readable, it is read."""
    list_folder, refused = os.scandir, [True]

    def scandir(path: Any) -> Any:
        if refused and Path(path) == shop.file.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", scandir)
    done = asyncio.run(shop.reloader.reload("signal"))
    assert (done.success, done.specs) == (False, 1)
    assert [each.code for each in done.findings] == ["unreadable_file"]
    assert shop.kinds("s", "a") == [("1", "progress")]

    async def play() -> None:
        watcher = asyncio.create_task(shop.reloader.watch())
        await _until(lambda: shop.reloader.reloads.failed >= 2)
        refused.clear()
        await _until(lambda: shop.reloader.reloads.succeeded == 1)
        watcher.cancel()

    asyncio.run(play())
    assert [event for _, event, _ in shop.log.events][:2] == [
        "spec_finding",
        "specs_not_reloaded",
    ]


def test_the_look_sees_a_change_of_permissions(tmp_path: Path) -> None:
    """A file that may be read now was not, when its specs were refused."""
    file = tmp_path / "one.yaml"
    file.write_text("a: 1")
    before = look([tmp_path])
    file.chmod(0o600 if file.stat().st_mode & 0o044 else 0o644)
    assert look([tmp_path]) != before


# --- asked for over HTTP ------------------------------------------------------------------------


def ask(shop: Shop, method: str, path: str, **headers: str) -> tuple[int, Any]:
    sent: list[Any] = []

    async def inner(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"status": 200, "inner": True})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
    }
    asyncio.run(ReloadEndpoint(inner, shop.reloader)(scope, None, send))  # type: ignore[arg-type]
    return sent[0]["status"], json.loads(sent[1]["body"]) if len(sent) > 1 else None


def test_post_reloads_and_says_what_was_found(shop: Shop) -> None:
    """The response is 200 with the specs in use, or 422 with the findings if the old specs stay."""
    shop.file.write_text(text(GOOD, "2"))
    expected = {
        "success": True,
        "changed": True,
        "specs": 1,
        "sessions": {"kept": 0, "rejudged": 0},
        "findings": [],
    }
    assert ask(shop, "POST", "/-/reload") == (200, expected)
    shop.file.write_text("id: [")
    status, answer = ask(shop, "POST", "/-/reload")
    assert (status, answer["success"], answer["specs"]) == (422, False, 1)
    assert answer["findings"][0]["code"] == "invalid_yaml"


def test_only_post_and_never_from_a_web_page(shop: Shop) -> None:
    """Other methods and pages in a browser are refused; other paths are not ours."""
    assert ask(shop, "GET", "/-/reload")[0] == 405
    assert ask(shop, "POST", "/-/reload", origin="https://evil.example")[0] == 403
    assert shop.reloader.reloads.succeeded == 0
    assert ask(shop, "GET", "/api/v1/sessions") == (200, None)


# --- many -----------------------------------------------------------------------------------


async def _storm(shop: Shop, reloads: int, calls: int) -> tuple[int, int, list[int]]:
    """Calls of many sessions while specs change under them; every third file is broken.

    Returns how many verdicts there were, how many were not those of the session's first
    version, and how many objects there were, now and then.
    """
    chance = Random(7)
    orders = {"1": "abc"}
    begun: dict[str, tuple[str, str]] = {}
    wrong = verdicts = 0
    objects: list[int] = []
    version = "1"
    for number in range(calls):
        if number % (calls // reloads) == 0:
            round_ = number // (calls // reloads)
            shop.monitor.tick(number)
            if round_ % 3 == 2:
                shop.file.write_text(chance.choice(("id: [", "", "{}", text("[a, x]", "9"))))
                assert not (await shop.reloader.reload("signal")).success
            else:
                order = chance.choice(("abc", "cba", "bac"))
                version = str(round_ + 2)
                orders[version] = order
                shop.file.write_text(text(f"[{', '.join(order)}]", version))
                assert (await shop.reloader.reload("signal")).changed
            if round_ % 10 == 9:
                gc.collect()
                objects.append(len(gc.get_objects()))
        session = f"s{number // 40 * 4 + chance.randrange(4)}-{chance.randrange(3)}"
        began, done = begun.get(session, (version, ""))
        tool = chance.choice("abc")
        [verdict] = shop.monitor.observe(call(session, tool, dict(ATTRIBUTES)), number)
        verdicts += 1
        expected = Kind.HARMFUL
        if len(done) < 3 and orders[began][len(done)] == tool:
            expected, done = Kind.PROGRESS, done + tool
        begun[session] = (began, done)
        wrong += verdict.spec_version != began or verdict.kind is not expected
    return verdicts, wrong, objects


def test_reloads_during_calls_lose_nothing_and_change_nothing(shop: Shop) -> None:
    """10 reloads during 1,000 calls, a third of broken files: every verdict is as without."""
    verdicts, wrong, _ = asyncio.run(_storm(shop, 10, 1_000))
    assert (verdicts, wrong) == (1_000, 0)
    assert shop.reloader.reloads.failed == 3


@pytest.mark.long
def test_many_reloads_take_no_memory(tmp_path: Path) -> None:
    """Over 200 reloads and 20,000 calls, old versions are freed with their last session."""
    (tmp_path / "shop.yaml").write_text(text(GOOD, "1"))
    limits = Limits(
        history_complete=True, window_ns=0, idle_ns=200, remember_ns=200, hold_ns=200
    )
    shop = Shop(tmp_path, limits=limits)
    verdicts, wrong, objects = asyncio.run(_storm(shop, 200, 20_000))
    assert (verdicts, wrong) == (20_000, 0)
    assert max(objects[10:]) < 1.2 * max(objects[2:10])


def test_an_accepted_call_is_taken_at_the_next_reload(shop: Shop) -> None:
    """An entry that `offrails accept` wrote holds for sessions that begin after the reload."""
    assert shop.kinds("old", "b") == [("1", "harmful")]
    entry = Acceptance("b", "G0", None, "ana", "a test", date(2026, 1, 31))
    shop.file.write_text(with_acceptance(shop.file.read_text(), entry))

    done = asyncio.run(shop.reloader.reload("change"))

    assert (done.success, done.changed) == (True, True)
    assert shop.kinds("old", "b") == [("1", "harmful")]
    assert shop.kinds("new", "b", "a") == [("1", "self_loop"), ("1", "progress")]
