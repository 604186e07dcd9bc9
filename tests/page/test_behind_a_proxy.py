"""The session view behind a reverse proxy: one setting sends people to it, and all of it works there."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from collector.config.settings.settings import Settings
from collector.sinks.alert.alert_links import links_of
from tests.end_to_end.service import Service, eventually, request
from tests.end_to_end.traffic import Rover, send
from tests.page.browser import Page

PREFIX = "/tools/offrails"
NAME = "monitor.example.com"


@contextmanager
def proxy(target: list[str], *, strips: bool) -> Iterator[str]:
    """A reverse proxy below a path, which hands the path on or not, under its own name; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            rest = self.path.removeprefix(PREFIX) if strips else self.path
            connection = http.client.HTTPConnection(target[0], timeout=20)
            connection.request("GET", rest or "/", headers={"Host": NAME})
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.end_headers()
            try:
                while part := answer.read1(65536):
                    self.wfile.write(part)
                    self.wfile.flush()
            except OSError:
                pass  # the browser has gone
            finally:
                connection.close()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A service that people reach under another name and a path."""
    public = f"https://{NAME}{PREFIX}/"
    variables = {"OFFRAILS_HISTORY": "complete", "OFFRAILS_PUBLIC_URL": public}
    found = Service(variables=variables)
    try:
        found.wait_ready()
        send(found, Rover("a/b c", 1).calls("unlock_safety", "water").spans)
        eventually(lambda: found.judgements("a/b c"))
        yield found
    finally:
        found.kill()


@pytest.mark.parametrize("strips", [True, False])
def test_the_link_of_an_alert_opens_its_session(
    service: Service, page: Page, strips: bool
) -> None:
    """Through a proxy that strips the path or hands it on: page, list, session, stream and runbooks are there."""
    template = links_of(Settings(public_url=f"https://{NAME}{PREFIX}/")).session
    link = template.replace("{namespace}", "").replace("{session}", "a%2Fb%20c")
    assert link == f"https://{NAME}{PREFIX}/#//a%2Fb%20c"
    with proxy([service.addresses["admin"]], strips=strips) as address:
        page.open(link.replace(f"https://{NAME}", f"http://{address}"))
        page.until(lambda: page.text("main h2") == "a/b c")
        page.until(lambda: page.text("#live") == "live")
        page.until(lambda: page.text("#range") == "1 session")
        page.click(".home")
        page.until(lambda: "Overview" in page.text("main h2"))
        found = request(address, "GET", f"{PREFIX}/runbooks/AgentMonitorDown")
        assert (found.status, found.body[:2]) == (200, b"# ")
        assert page.problems == []
        page.open("about:blank")


def test_the_path_without_a_slash_leads_to_the_page(service: Service) -> None:
    """Addresses within the page are relative, so the slash matters."""
    found = request(service.addresses["admin"], "GET", PREFIX)
    assert (found.status, found.headers["location"]) == (308, f"{PREFIX}/")


def test_other_names_and_paths_are_refused_as_before(service: Service) -> None:
    """The public name is accepted on loopback, and no other one: a page elsewhere cannot rebind its own."""
    admin = service.addresses["admin"]
    for name, status in ((NAME, 200), ("evil.example.com", 403), (f"x.{NAME}", 403)):
        assert request(admin, "GET", "/api/v1/about", headers={"Host": name}).status == status
    for path in (f"{PREFIX}x/api/v1/about", f"{PREFIX}/api/v1/nothing", "/tools/api/v1/about"):
        assert request(admin, "GET", path).status == 404, path
