"""Admission: bearer tokens, files that change, free places, and names on spans."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decode.protobuf import otlp_proto
from collector.net import watched_files
from collector.net.watched_files import WatchedFiles
from collector.receive.admission import Admission, Client
from collector.receive.bearer_tokens import UNNAMED, Tokens
from collector.receive.status_codes import ExportStatus, Refusal
from collector.receive.tenant_stamp import SENDER_KEY, TenantStamp
from collector.telemetry.logs import captured
from tests.conformance.bodies import proto_body


def test_room_is_given_back() -> None:
    """Bytes and requests count while they are held, whatever ends them."""
    admission = Admission(max_inflight_bytes=10, requests_max=2)
    with contextlib.suppress(KeyError), admission.enter() as place:
        place.grow(10)
        assert (admission.bytes, admission.requests) == (10, 1)
        raise KeyError
    assert (admission.bytes, admission.requests) == (0, 0)
    with admission.enter() as first, admission.enter() as second:
        first.grow(6)
        with pytest.raises(Refusal) as full:
            second.grow(5)
        assert (full.value.status, full.value.retry_seconds) == (ExportStatus.UNAVAILABLE, 1)
        first.release()
        second.grow(5)
        with pytest.raises(Refusal), admission.enter():
            pass
    assert (admission.bytes, admission.requests) == (0, 0)


def test_without_tokens_anyone_may_send() -> None:
    """Any sender is accepted, and has no name."""
    assert Admission().sender("") is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("one\ntwo\n", {"one": "", "two": ""}),
        ("a: one\n two \n", {"one": "a", "two": UNNAMED}),
        ("a:one\r\nb : two\r\n#three\n", {"one": "a", "two": "b"}),
    ],
)
def test_names_of_tokens(tmp_path: Path, text: str, names: dict[str, str]) -> None:
    """Each line may name its sender. Tokens without a name still differ from requests without a token."""
    file = tmp_path / "tokens"
    file.write_text(text)
    tokens = Tokens(file)
    assert {token: tokens.sender(f"Bearer {token}") for token in names} == names
    assert tokens.sender("bEARER   one ") == names["one"]
    for wrong in (
        "",
        "one",
        "Basic one",
        "Bearer",
        "Bearer ",
        "Bearer three",
        "Bearer on\udcff",
    ):
        with pytest.raises(Refusal) as refused:
            tokens.sender(wrong)
        assert refused.value.status is ExportStatus.UNAUTHENTICATED


def test_a_file_without_tokens_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty, commented or missing file leaves the old tokens valid and is logged."""
    monkeypatch.setattr("collector.net.watched_files.LOOK_SECONDS", 0.0)
    file = tmp_path / "tokens"
    file.write_text("one\n")
    tokens = Tokens(file)
    with captured() as events:
        for change in (
            lambda: file.write_text(""),
            lambda: file.write_text("# none\n"),
            file.unlink,
        ):
            change()
            assert tokens.sender("Bearer one") == ""
        assert [event["event"] for event in events] == ["tokens_not_reloaded"] * 3

        file.write_text("nobodys\n")
        with pytest.raises(Refusal):
            tokens.sender("Bearer one")


def test_a_change_is_told_once(tmp_path: Path) -> None:
    """Files are checked at most once a second. Creation and deletion are changes."""
    file, now = tmp_path / "file", [0.0]
    watched = WatchedFiles(file, clock=lambda: now[0])
    file.write_text("a")
    assert not watched.changed()
    now[0] += watched_files.LOOK_SECONDS
    assert watched.changed()
    now[0] += watched_files.LOOK_SECONDS
    assert not watched.changed()
    os.utime(file, ns=(1, 1))
    now[0] += watched_files.LOOK_SECONDS
    assert watched.changed()
    file.unlink()
    now[0] += watched_files.LOOK_SECONDS
    assert watched.changed()


def test_stamps() -> None:
    """Equal senders and resources share one resource. A name claimed by the sender is replaced."""
    stamp = TenantStamp()
    spans = otlp_proto.decode(proto_body(2)).spans
    one, two = stamp.stamp(spans, "blue")
    (other, _) = stamp.stamp(spans, "")
    assert one.resource is two.resource
    assert one.resource.attributes == {"service.name": "conformance", SENDER_KEY: "blue"}
    assert other.resource.attributes[SENDER_KEY] == ""
    assert SENDER_KEY not in spans[0].resource.attributes
    assert stamp.stamp([one], "red")[0].resource.attributes[SENDER_KEY] == "red"


class _Request:
    """One that came in, and may be crowded out."""

    def __init__(self, admission: Admission, client: Client, token: str | None = None) -> None:
        self.is_out = False
        self.place = admission.enter(token, client, self)
        self.place.grow(1)

    def crowd_out(self, refusal: Refusal) -> None:
        assert refusal.status is ExportStatus.UNAVAILABLE
        self.is_out = True


def test_a_head_takes_no_place() -> None:
    """Requests that were opened and left, however many, leave all places to others."""
    admission, idler = Admission(requests_max=2), Client("192.0.2.1")
    left = [admission.enter(None, idler) for _ in range(1_000)]
    with admission.enter(None, Client("192.0.2.2")) as place:
        place.grow(1)
        assert admission.requests == 1
    for each in left:
        each.leave()
    assert (admission.requests, admission.waiting) == (0, {})


@given(
    places=st.integers(1, 100),
    asked=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=200),
)
def test_nobody_takes_the_last_places(places: int, asked: list[tuple[int, int]]) -> None:
    """In whatever order some ask for all, another finds a place while one of them holds two."""
    counts: Counter[str] = Counter()
    admission = Admission(
        requests_max=places, count=lambda _name, reason: counts.update([reason])
    )
    clients = {(s, c): Client(f"192.0.2.{s}") for s in range(4) for c in range(3)}
    made: list[tuple[int, _Request]] = []
    for each in asked:
        with contextlib.suppress(Refusal):
            made.append((each[0], _Request(admission, clients[each])))
    held = Counter(sender for sender, request in made if not request.is_out)
    assert held.total() == admission.requests <= places
    assert counts["crowded_out"] == sum(request.is_out for _, request in made)
    assert counts["requests"] == len(asked) - len(made)
    if admission.requests < places or max(held.values()) > 1:
        _Request(admission, Client("198.51.100.7")).place.leave()
    else:
        with pytest.raises(Refusal):
            admission.enter(None, Client("198.51.100.7"))
    for _, request in made:
        request.place.leave()
    assert (admission.requests, admission.bytes) == (0, 0)
    assert not admission.waiting


def test_who_gives_up_a_place() -> None:
    """It is the oldest request of the largest connection of the largest sender, never one being judged."""
    admission = Admission(requests_max=6)
    near, other, far = Client("2001:db8::1"), Client("2001:db8::2"), Client("192.0.2.1")
    first, second, third = (_Request(admission, near) for _ in range(3))
    one, two = _Request(admission, other), _Request(admission, far)
    named = _Request(admission, Client("2001:db8::3"), "blue")  # a sender of its own
    _Request(admission, Client("2001:db8::3"), "red")
    assert first.is_out
    second.place.keep()
    _Request(admission, Client("2001:db8::3"), "green")
    assert third.is_out
    assert not any(each.is_out for each in (one, two, second, named))
    with pytest.raises(Refusal):
        admission.enter("yellow", Client("2001:db8::3"))
