"""What the service puts into its archive, and how the API gives it back."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.api.overview import overview_answers
from collector.app.service import App
from collector.archive.reader import ArchiveReader
from collector.archive.record import HOUR_NS
from collector.config.settings.archive import ArchiveSettings
from collector.config.settings.sessions import SessionSettings
from collector.config.settings.state import StateSettings
from collector.config.settings.tls_and_auth import AdminAuthSettings, AdminBearerSettings
from collector.net.watched_files import UnusableFileError
from monitor.limits import SECOND
from tests.collector.app.test_service import Clock, body, http, running
from tests.collector.archive.sessions import made
from tests.collector.event_loop import until


async def get(app: App, path: str) -> Any:
    """The answer, or the status where it is none."""
    async with httpx.AsyncClient(verify=False) as client:
        answer = await client.get(f"http://{app.addresses['admin']}{path}")
    return answer.json() if answer.status_code == 200 else answer.status_code


async def send(app: App, tool: str) -> None:
    status, _ = await http(app.addresses["http"], "POST", "/v1/traces", body(tool))
    assert status == 200


def kept(folder: Path, **more: Any) -> dict[str, Any]:
    """Settings with an archive; a session ends after a second and is forgotten after another."""
    return {
        "archive": ArchiveSettings(dir=folder),
        "sessions": SessionSettings(idle_seconds=1, remember_seconds=1),
        **more,
    }


async def written(app: App, count: int) -> None:
    assert app.archive is not None
    writer = app.archive.writer
    await until(lambda: writer.written >= count)


async def end(app: App, clock: Clock) -> None:
    """The session ends, is written, and is gone from the monitor."""
    clock.now += 2 * SECOND
    app.step()
    await written(app, 1)
    app.step()  # what it was held back for is written


def test_an_ended_session_is_found_as_before(tmp_path: Path) -> None:
    """What the API gave of a session while the monitor had it, it gives when only the archive has it."""

    async def use(app: App, clock: Clock) -> None:
        await send(app, "unlock_safety")
        live = await get(app, "/api/v1/sessions/s")
        short = await get(app, "/api/v1/sessions?steps=0")
        await end(app, clock)
        assert not list(app.monitor.reader.named("s"))
        past = await get(app, "/api/v1/sessions/s")
        [before], [after] = live["sessions"], past["sessions"]
        assert after["ended"] == "idle"
        changed = {"ended", "missed"}
        same = before.keys() - changed
        steps = [{**step, "final": True} for step in before["steps"]]
        assert {k: after[k] for k in same} == {
            **{k: before[k] for k in same},
            "steps": [{**step, "final": after["steps"][0]["final"]} for step in steps],
        }
        assert await get(app, "/api/v1/sessions/" + "01" * 16) == past
        begun = before["started"]
        assert await get(app, f"/api/v1/sessions/s?begun={begun}") == past
        assert await get(app, f"/api/v1/sessions/s?begun={begun + 1}") == 404
        listed = await get(app, "/api/v1/sessions?steps=0")
        assert listed["matching"] == short["matching"] == 1
        assert listed["live"] == 0
        assert {**listed["sessions"][0], "ended": None} == short["sessions"][0]
        whole = await get(app, "/api/v1/sessions")
        assert whole["sessions"] == past["sessions"]

    running(use, **kept(tmp_path / "a"))


def test_a_live_session_is_written_at_its_harm(tmp_path: Path) -> None:
    """A process that is gone after a harm has left the session, and its end is not known."""

    async def harm(app: App, clock: Clock) -> None:
        await send(app, "water")
        await written(app, 1)
        listed = await get(app, "/api/v1/sessions?steps=0&state=live")
        assert listed["matching"] == 1  # as the monitor has it, once

    async def later(app: App, clock: Clock) -> None:
        found = await get(app, "/api/v1/sessions/s")
        assert found["sessions"][0]["harmful"] == 1
        assert found["sessions"][0]["ended"] == "unknown"
        assert found["sessions"][0]["steps"][0]["tool"] == "water"
        listed = await get(app, "/api/v1/sessions?steps=0&state=ended")
        assert [each["ended"] for each in listed["sessions"]] == ["unknown"]
        listed = await get(app, "/api/v1/sessions?steps=0&severity=critical&state=ended")
        worst = [each["worst_harm"]["tool"] for each in listed["sessions"]]
        assert worst in (["water"], [])

    running(harm, **kept(tmp_path / "a"))
    running(later, **kept(tmp_path / "a"))


def test_a_session_of_the_journal_is_there_once(tmp_path: Path) -> None:
    """An archive that lost its last sessions has them again, each once, when the journal is gone through from its beginning."""
    state = StateSettings(dir=tmp_path / "j", snapshot_seconds=0)

    async def first(app: App, clock: Clock) -> None:
        await send(app, "water")
        clock.now += 2 * SECOND
        app.step()
        await written(app, 1)

    async def second(app: App, clock: Clock) -> None:
        await written(app, 1)
        listed = await get(app, "/api/v1/sessions?steps=0")
        assert listed["matching"] == 1
        assert app.archive is not None
        found = app.archive.past.reader.session("s")
        assert len(found) == 1

    running(first, **kept(tmp_path / "a", state=state))
    for file in (tmp_path / "a").iterdir():
        file.unlink()
    running(second, **kept(tmp_path / "a", state=state))


def test_pages_of_live_and_past_sessions_follow_each_other(tmp_path: Path) -> None:
    """Each session is on one page, by `next`, whether the monitor has it, the archive, or both."""

    async def use(app: App, clock: Clock) -> None:
        for number in range(7):
            text = body("unlock_safety").replace(b'"s"', b'"s%d"' % number)
            text = text.replace(b"02" * 8, b"%016x" % (number + 1)).replace(
                b"01" * 16, b"%032x" % (number + 1)
            )
            await http(app.addresses["http"], "POST", "/v1/traces", text)
            clock.now += SECOND
            app.step()
        assert app.archive is not None
        await written(app, 5)
        seen: list[str] = []
        cursor = ""
        while True:
            page = await get(app, f"/api/v1/sessions?steps=0&limit=2&cursor={cursor}")
            assert page["matching"] == 7
            seen += [each["session"] for each in page["sessions"]]
            cursor = page["next"]
            if not cursor:
                break
        assert seen == [f"s{number}" for number in (6, 5, 4, 3, 2, 1, 0)]
        assert await get(app, "/api/v1/sessions?steps=0&cursor=x") == 400

    running(use, **kept(tmp_path / "a"))


async def post(app: App, path: str, said: bytes, **headers: str) -> tuple[int, Any]:
    async with httpx.AsyncClient(verify=False) as client:
        url = f"http://{app.addresses['admin']}{path}"
        answer = await client.post(url, content=said, headers=headers)
    return answer.status_code, answer.json()


def stop_looking_soon(monkeypatch: pytest.MonkeyPatch, stretch: int) -> None:
    """The archive has no time to look beyond so many sessions for a page."""
    monkeypatch.setattr("collector.archive.reader.LOOKED_AT_MAX", 0)
    monkeypatch.setattr("collector.archive.page_search.STRETCH", stretch)
    monkeypatch.setattr("collector.api.archive.past_sessions.LOOK_SECONDS", 0.0)


def test_short_pages_of_live_and_past_sessions_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the archive stops looking after each session: live and past ones come once each, in order, and `next` ends."""
    stop_looking_soon(monkeypatch, stretch=1)

    async def use(app: App, clock: Clock) -> None:
        assert app.archive is not None
        for number in range(6):
            app.archive.writer.put(
                made(
                    f"p{number}",
                    begun=clock.now - (2 * number + 9) * SECOND,
                    agent=("other", "farm-rover")[number % 2],
                )
            )
        await written(app, 6)
        await send(app, "water")
        found: list[str] = []
        cursor, pages = "", 0
        while cursor is not None:
            path = f"/api/v1/sessions?steps=0&limit=2&agent=farm-rover&cursor={cursor}"
            page = await get(app, path)
            found += [each["session"] for each in page["sessions"]]
            cursor, pages = page["next"], pages + 1
        assert found == ["s", "p1", "p3", "p5"]
        assert pages > 3

    running(use, **kept(tmp_path / "a"))


def test_the_overview_has_the_worst_sessions_however_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the archive stops looking after each session: those of the time are found behind all that came later."""
    stop_looking_soon(monkeypatch, stretch=2)

    async def use(app: App, clock: Clock) -> None:
        assert app.archive is not None
        for number in range(1, 31):
            begun = number if number <= 6 else 3 * HOUR_NS + number
            whole = {"session": f"p{number}", "namespace": "", "started": begun}
            app.archive.writer.put(
                made(f"p{number}", begun=begun, harmful=1, summary=json.dumps(whole).encode())
            )
        await written(app, 30)
        found = await get(app, f"/api/v1/overview?since=0&until={2 * HOUR_NS}")
        assert [each["session"] for each in found["worst"]] == ["p6", "p5", "p4", "p3", "p2"]

    running(use, **kept(tmp_path / "a"))


def test_labels_are_kept_with_who_and_when(tmp_path: Path) -> None:
    """A live and a past session take labels; all are kept, the latest first, and the filter takes the latest."""

    async def use(app: App, clock: Clock) -> None:
        await send(app, "water")
        status, said = await post(
            app, "/api/v1/sessions/s/label", b'{"label": "wrong", "note": "n"}'
        )
        assert status == 200
        assert (said["session"], said["label"], said["note"]) == ("s", "wrong", "n")
        assert said["who"]
        await end(app, clock)
        assert (await get(app, "/api/v1/sessions?label=wrong"))["matching"] == 1
        await post(app, "/api/v1/sessions/s/label", b'{"label": "right"}')
        assert app.archive is not None
        writer = app.archive.writer
        await until(lambda: not len(writer))
        found = await get(app, "/api/v1/sessions/s")
        assert [each["label"] for each in found["labels"]] == ["right", "wrong"]
        assert (await get(app, "/api/v1/sessions?label=wrong"))["matching"] == 0
        assert (await get(app, "/api/v1/sessions?label=right"))["matching"] == 1

    running(use, **kept(tmp_path / "a"))


def test_labels_are_the_precision_of_a_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/specs` counts a harmful session, live or past, by its latest label; not if its last call is too long ago."""

    async def use(app: App, clock: Clock) -> None:
        async def holds(right: int, wrong: int, precision: float | None) -> None:
            for query in ("", f"?{TIME}"):  # its time does not count
                [spec] = (await get(app, f"/api/v1/specs{query}"))["specs"]
                assert spec["labels"] == {"right": right, "wrong": wrong}
                assert spec["precision"] == precision

        async def label(session: str, said: str) -> None:
            text, before = json.dumps({"label": said}).encode(), writer.done
            assert (await post(app, f"/api/v1/sessions/{session}/label", text))[0] == 200
            await until(lambda: writer.done > before)

        assert app.archive is not None
        writer = app.archive.writer
        await send(app, "water")
        await written(app, 1)
        await holds(0, 0, None)
        await label("s", "wrong")
        await holds(0, 0, None)  # calls of 1970
        monkeypatch.setattr(overview_answers, "LABELS_NS", 1 << 61)
        await holds(0, 1, 0.0)
        await end(app, clock)
        await label("s", "right")
        await holds(1, 0, 1.0)
        [spec] = (await get(app, f"/api/v1/overview?{TIME}"))["specs"]
        assert (spec["labels"], spec["precision"]) == ({"right": 1, "wrong": 0}, 1.0)

    running(use, **kept(tmp_path / "a"))


WRONG_LABELS: list[tuple[str, bytes, dict[str, str], int]] = [
    ("s/label", b'{"label": "maybe"}', {}, 400),
    ("s/label", b'{"label": null, "by": "me"}', {}, 400),
    ("s/label", b"{", {}, 400),
    ("s/label", b"{}", {}, 400),
    ("s/label", b'{"label": "right", "note": "' + b"x" * 3_000 + b'"}', {}, 400),
    ("s/label", b" " * 20_000, {}, 400),
    ("s/label?begun=x", b'{"label": "right"}', {}, 400),
    ("s/label?begun=7", b'{"label": "right"}', {}, 404),
    ("other/label", b'{"label": "right"}', {}, 404),
    ("s/label", b'{"label": "right"}', {"origin": "https://evil.example"}, 403),
    ("s/label", b'{"label": "right"}', {"origin": "null"}, 403),
    (
        "s/label",
        b'{"label": "right"}',
        {"origin": "http://evil.example", "host": "evil.example"},
        403,
    ),
]


def test_wrong_labels_are_told(tmp_path: Path) -> None:
    """The protocol's own error, in a sentence; nothing is kept."""

    async def use(app: App, clock: Clock) -> None:
        await send(app, "water")
        for path, said, headers, status in WRONG_LABELS:
            found, answer = await post(app, f"/api/v1/sessions/{path}", said, **headers)
            assert found == status, (path, said)
            assert answer["error"]
            assert (await get(app, "/api/v1/sessions/s"))["labels"] == []

    running(use, **kept(tmp_path / "a"))


def test_without_an_archive_there_are_no_labels() -> None:
    """409 says which setting keeps them."""

    async def use(app: App, clock: Clock) -> None:
        await send(app, "water")
        found = await post(app, "/api/v1/sessions/s/label", b'{"label": "right"}')
        assert found[0] == 409
        assert "archive.dir" in found[1]["error"]

    running(use)


def test_two_services_do_not_share_a_folder(tmp_path: Path) -> None:
    """The second one does not start, and its error names the setting."""

    async def use(app: App, clock: Clock) -> None:
        other = App(app.settings, (), clock)
        with pytest.raises(UnusableFileError, match="another process") as told:
            await other.start()
        assert told.value.setting == "archive.dir"

    running(use, **kept(tmp_path / "a"))


BOB, EVE, SAM = ({"authorization": f"Bearer {each}"} for each in ("t-1", "t-2", "t-3"))


def guarded(folder: Path) -> dict[str, Any]:
    """Settings by which bob may read all, eve what is of the south, and sam label that."""
    tokens = folder / "tokens"
    tokens.write_text("bob: t-1\neve: t-2\nsam: t-3\n")
    auth = AdminAuthSettings(
        bearer=AdminBearerSettings(tokens_file=tokens),
        roles={"bob": "viewer", "eve": "viewer"},
        namespaces={"eve": ("south",), "sam": ("south",)},
    )
    return kept(folder / "a", admin_auth=auth)


async def send_from(app: App, number: int, namespace: str) -> None:
    """A session of a namespace, harmful, whose id is the namespace's."""
    service = b'{"key": "service.name"'
    tenant = b'{"key": "service.namespace", "value": {"stringValue": "%b"}}, '
    text = body("water").replace(service, tenant % namespace.encode() + service)
    text = text.replace(b'"s"', b'"s-%b"' % namespace.encode())
    text = text.replace(b"02" * 8, b"%016x" % number).replace(b"01" * 16, b"%032x" % number)
    assert (await http(app.addresses["http"], "POST", "/v1/traces", text))[0] == 200


def test_roles_hold_for_past_sessions_and_labels(tmp_path: Path) -> None:
    """A viewer labels nothing; who is kept to a namespace finds, counts, exports and labels past sessions of it alone."""

    async def use(app: App, clock: Clock) -> None:
        for number, namespace in enumerate(("north", "south", "southern"), 1):
            await send_from(app, number, namespace)
        clock.now += 2 * SECOND
        app.step()
        await written(app, 3)
        app.step()
        assert not list(app.monitor.reader.open_judgements())

        async def ask(path: str, who: dict[str, str]) -> Any:
            async with httpx.AsyncClient(headers=who, verify=False) as client:
                answer = await client.get(f"http://{app.addresses['admin']}{path}")
            return answer.json() if answer.status_code == 200 else answer.status_code

        for who in (BOB, EVE):
            label = "/api/v1/sessions/s-south/label"
            status, said = await post(app, label, b'{"label": "right"}', **who)
            assert (status, said["role"]) == (403, "operator")
        roles = [(await ask("/api/v1/about", who))["role"] for who in (BOB, SAM)]
        assert roles == ["viewer", "operator"]  # the view has buttons for the one alone
        assert (await ask("/api/v1/sessions", BOB))["matching"] == 3
        for query in (
            "",
            "&namespace=south",
            f"&span_id={2:016x}",
            "&q=water",
            "&only=harmful",
        ):
            listed = await ask(f"/api/v1/sessions?steps=0{query}", EVE)
            assert {each["session"] for each in listed["sessions"]} == {"s-south"}, query
            assert (listed["matching"], listed["live"]) == (1, 0)
        whole = await ask("/api/v1/sessions", EVE)
        assert [each["namespace"] for each in whole["sessions"]] == ["south"]
        hidden = ("&namespace=north", f"&span_id={1:016x}", "&q=s-north", "&label=right")
        for query in hidden:
            listed = await ask(f"/api/v1/sessions?steps=0{query}", EVE)
            assert (listed["sessions"], listed["matching"]) == ([], 0), query
        for name in ("s-north", "s-southern", f"{1:032x}"):
            assert await ask(f"/api/v1/sessions/{name}", EVE) == 404
        assert len((await ask(f"/api/v1/sessions/{2:032x}", EVE))["sessions"]) == 1
        said = b'{"label": "right"}'
        assert (await post(app, "/api/v1/sessions/s-north/label", said, **SAM))[0] == 404
        status, kept_label = await post(app, "/api/v1/sessions/s-south/label", said, **SAM)
        assert (status, kept_label["who"]) == (200, "sam")

    running(use, **guarded(tmp_path))


TIME = "since=0&until=7200000000000"
"""The first hours of 1970, in which the calls of these tests begin."""


def test_figures_count_each_session_once(tmp_path: Path) -> None:
    """Live, at a harm, ended, forgotten: agents, specs and times have a session once, as it is by then."""

    async def use(app: App, clock: Clock) -> None:
        async def holds(calls: int, harmful: int) -> None:
            [found] = (await get(app, f"/api/v1/agents?{TIME}"))["agents"]
            assert (found["agent"], found["calls"]) == ("farm-rover", calls)
            assert (found["sessions"], found["harmful"]) == (1, harmful)

        await send(app, "unlock_safety")
        await holds(1, 0)
        second = body("water").replace(b"02" * 8, b"03" * 8)
        assert (await http(app.addresses["http"], "POST", "/v1/traces", second))[0] == 200
        await holds(2, 1)
        await written(app, 1)
        await holds(2, 1)
        clock.now += 2 * SECOND
        app.step()
        await written(app, 2)
        await holds(2, 1)
        app.step()
        assert not list(app.monitor.reader.named("s"))
        await holds(2, 1)
        whole = await get(app, f"/api/v1/overview?{TIME}")
        assert (whole["total"]["harmed_sessions"], whole["archive"]) == (1, True)
        assert whole["reasons"] == [{"name": "out_of_order", "sessions": 1}]
        assert [each["session"] for each in whole["worst"]] == ["s"]
        assert [each["id"] for each in whole["specs"]] == ["farm_rover"]
        steps = (await get(app, f"/api/v1/timeline?step=hour&{TIME}"))["steps"]
        assert [each["calls"] for each in steps] == [2, 0, 0]
        [version] = (await get(app, f"/api/v1/versions?spec=farm_rover&{TIME}"))["versions"]
        assert (version["version"], version["tools"]) == (
            "1",
            [{"name": "water", "sessions": 1}],
        )
        for query in ("spec_version=1", "spec_version=1&only=harmful", "agent=farm-rover"):
            assert (await get(app, f"/api/v1/sessions?steps=0&{query}"))["matching"] == 1, query
        for query in ("spec_version=2", "service_version=1", "only=unjudged"):
            assert (await get(app, f"/api/v1/sessions?steps=0&{query}"))["matching"] == 0, query

    running(use, **kept(tmp_path / "a"))


def test_who_asks_the_same_shares_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many look at the overview and the specs at once: the archive is asked for them twice at most."""
    asked: Counter[str] = Counter()

    def counted(name: str) -> None:
        inner = getattr(ArchiveReader, name)

        def call(self: ArchiveReader, *given: Any, **more: Any) -> Any:
            asked[name] += 1
            return inner(self, *given, **more)

        monkeypatch.setattr(ArchiveReader, name, call)

    async def use(app: App, clock: Clock) -> None:
        await send(app, "water")
        await end(app, clock)
        for name in ("page", "label_counts", "sums"):
            counted(name)
        found = await asyncio.gather(*[get(app, f"/api/v1/overview?{TIME}") for _ in range(8)])
        assert [each["worst"][0]["session"] for each in found] == ["s"] * 8
        assert 1 <= asked["page"] <= 2
        found = await asyncio.gather(*[get(app, "/api/v1/specs") for _ in range(8)])
        assert [each["specs"][0]["labels"]["right"] for each in found] == [0] * 8
        assert 1 <= asked["label_counts"] <= 2
        assert asked["sums"] <= 4

    running(use, **kept(tmp_path / "a"))


def test_figures_keep_to_namespaces(tmp_path: Path) -> None:
    """Who is kept to a namespace gets no figure of another, of live sessions or of past ones."""

    async def use(app: App, clock: Clock) -> None:
        async def agents(who: dict[str, str], query: str = "") -> list[str]:
            async with httpx.AsyncClient(headers=who, verify=False) as client:
                path = f"http://{app.addresses['admin']}/api/v1/overview?{TIME}{query}"
                found = (await client.get(path)).json()
            counts = [found["total"]["sessions"], len(found["worst"])]
            assert counts == [len(found["agents"])] * 2
            return sorted(each["namespace"] for each in found["agents"])

        async def hold() -> None:
            assert await agents(BOB) == ["north", "south", "southern"]
            assert await agents(EVE) == ["south"]
            assert await agents(EVE, "&namespace=north") == []
            assert await agents(BOB, "&namespace=north") == ["north"]

        for number, namespace in enumerate(("north", "south", "southern"), 1):
            await send_from(app, number, namespace)
        await hold()
        clock.now += 2 * SECOND
        app.step()

        def is_past() -> bool:
            app.step()
            return not list(app.monitor.reader.open_judgements())

        await until(is_past)
        assert app.archive is not None
        writer = app.archive.writer
        await until(lambda: not len(writer))
        await hold()

    running(use, **guarded(tmp_path))
