"""What verbs say of the first minutes of a running service: what the service itself answers."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from collector.client.doctor import api_beside, sender
from collector.client.first_minutes import limitation
from tests.end_to_end.loopback import Loopback, Quiet


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'{"history": {"joined_until": 4000000000000000000}}', "until 2096-10-02T07:06:40Z"),
        (b'{"history": {"joined_until": 1}}', None),
        (b'{"history": {"complete": true, "joined_until": null}}', None),
        (b'{"version": "0.1"}', "for 30 minutes after a start"),
        (b"[]", "for 30 minutes after a start"),
    ],
)
def test_a_service_is_asked_until_when(answer: bytes, said: str | None) -> None:
    """Its own limit is named while it lasts; without an answer, the default is."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

    service = Loopback(Handler)
    try:
        found = limitation(service.url)
    finally:
        service.close()
    assert found == "" if said is None else said in found


@pytest.mark.parametrize(
    ("endpoint", "api"),
    [
        (None, "127.0.0.1:4319"),
        ("http://localhost:4318", "localhost:4319"),
        ("http://[::1]:4318", "[::1]:4319"),
        ("unix:/run/otlp", "127.0.0.1:4319"),
        ("https://monitor.example:4317", None),
    ],
)
def test_only_a_service_of_this_machine_is_asked(endpoint: str | None, api: str | None) -> None:
    """The API is on loopback by default, so one on another machine is not looked for."""
    assert api_beside(sender(endpoint, {})) == api
