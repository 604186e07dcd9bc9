"""HTTP clients of the sinks and the verbs against real receivers: TLS, credentials, proxies."""

from __future__ import annotations

import asyncio
import base64
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from collector.client.api_client import NoAnswerError, ask
from collector.client.doctor import run as doctor
from collector.client.tail import Filters, tail
from collector.config.settings.alerts import AlertSettings, WebhookSettings
from collector.config.settings.http_client import HttpClientSettings
from collector.net.http_client import proxy_of, without_user
from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.http_client import DeliveryError, HttpSender
from collector.sinks.otlp_logs import OtlpLogs, of_verdict
from collector.sinks.sink_dispatch import SinkDispatch
from tests.collector.sinks.test_delivery import NOW, SECOND, verdict
from tests.end_to_end.certificates import Pair, authority, have_openssl, issue
from tests.end_to_end.loopback import Loopback, Quiet
from tests.end_to_end.service import run as run_verb

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Heard:
    """The requests that a server had, and by how many connections."""

    def __init__(self) -> None:
        self.heads: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.url = ""
        self.port = 0


async def _one(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    fields = (each.split(": ", 1) for each in rest)
    headers = {name.lower(): value for name, value in fields}
    await reader.readexactly(int(headers.get("content-length", "0")))
    return line, headers


@asynccontextmanager
async def receiver(
    context: ssl.SSLContext | None = None, answer: bytes = OK
) -> AsyncIterator[Heard]:
    """A receiver that keeps its connections, with TLS if there is a context."""
    heard = Heard()
    open_ones: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.connections += 1
        open_ones.append(writer)
        try:
            while True:
                heard.heads.append(await _one(reader))
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=context)
    heard.port = server.sockets[0].getsockname()[1]
    heard.url = f"{'https' if context else 'http'}://localhost:{heard.port}"
    yield heard
    server.close()
    for writer in open_ones:
        writer.close()
    await asyncio.sleep(0.01)


@asynccontextmanager
async def proxy(refuses: bool = False) -> AsyncIterator[Heard]:
    """A proxy that knows CONNECT and requests in absolute form."""
    heard = Heard()
    tasks: list[asyncio.Task[None]] = []

    async def pump(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            while part := await source.read(65536):
                to.write(part)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            to.close()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        line, *rest = head.decode().strip().split("\r\n")
        fields = (each.split(": ", 1) for each in rest)
        heard.heads.append((line, {name.lower(): value for name, value in fields}))
        if refuses:
            writer.write(
                b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
            )
            writer.close()
            return
        method, target, _ = line.split(" ")
        place = target if method == "CONNECT" else target.split("/")[2]
        host, _, port = place.rpartition(":")
        other, out = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            out.write(head)
        tasks.append(asyncio.create_task(pump(reader, out)))
        tasks.append(asyncio.create_task(pump(other, writer)))

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    heard.port = server.sockets[0].getsockname()[1]
    heard.url = f"http://127.0.0.1:{heard.port}"
    yield heard
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.sleep(0.01)


async def posted(url: str, client: HttpClientSettings, times: int = 1) -> None:
    sender = HttpSender(url, 5, client, "alerts.webhook_http")
    try:
        for _ in range(times):
            await sender.post(b"{}", {"content-type": "application/json"})
    finally:
        await sender.close()


def run(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(main())  # type: ignore[arg-type]


# --- TLS ------------------------------------------------------------------------------------------


class Keys:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ours = authority(folder, "ours")
        self.other = authority(folder, "other")
        self.server: Pair = issue(self.ours, folder, "server")
        self.client: Pair = issue(self.ours, folder, "client")

    def context(self, *, mutual: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server.cert, self.server.key)
        if mutual:
            context.load_verify_locations(self.ours.cert)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    if not have_openssl():
        pytest.skip("certificates are made by openssl")
    return Keys(tmp_path_factory.mktemp("keys"))


def test_posts_go_over_one_kept_tls_connection(keys: Keys) -> None:
    """With the authority's certificate a receiver with TLS is reached, and connected to once."""

    async def main() -> None:
        async with receiver(keys.context()) as heard:
            await posted(heard.url + "/x", HttpClientSettings(ca_file=keys.ours.cert), times=5)
        assert [line for line, _ in heard.heads] == ["POST /x HTTP/1.1"] * 5
        assert heard.connections == 1

    run(main)


def test_a_client_certificate_is_shown(keys: Keys) -> None:
    """A receiver that wants a client certificate gets it; without one, the error gives the reason."""

    async def main() -> None:
        async with receiver(keys.context(mutual=True)) as heard:
            shown = HttpClientSettings(
                ca_file=keys.ours.cert,
                client_cert_file=keys.client.cert,
                client_key_file=keys.client.key,
            )
            await posted(heard.url, shown)
            await posted(
                heard.url,
                HttpClientSettings(ca_file=keys.ours.cert, client_cert_file=_both(keys)),
            )
            assert len(heard.heads) == 2
            with pytest.raises(DeliveryError, match=r"certificate required|reset by peer"):
                await posted(heard.url, HttpClientSettings(ca_file=keys.ours.cert))

    run(main)


def _both(keys: Keys) -> Path:
    """Certificate and key in one file."""
    file = keys.folder / "both.pem"
    file.write_bytes(keys.client.cert.read_bytes() + keys.client.key.read_bytes())
    return file


def test_an_untrusted_certificate_is_named_in_the_error(keys: Keys) -> None:
    """The error says that the certificate is not trusted, and is retryable."""

    async def main() -> None:
        async with receiver(keys.context()) as heard:
            for client in (HttpClientSettings(), HttpClientSettings(ca_file=keys.other.cert)):
                with pytest.raises(
                    DeliveryError, match="the certificate is not trusted"
                ) as told:
                    await posted(heard.url, client)
                assert told.value.again
            wrong = heard.url.replace("localhost", "127.0.0.2")
            with pytest.raises(DeliveryError, match=r"not trusted|refused"):
                await posted(wrong, HttpClientSettings(ca_file=keys.ours.cert))

        async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()

        plain = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = plain.sockets[0].getsockname()[1]
        with pytest.raises(DeliveryError, match=r"TLS: .*wrong version number"):
            await posted(f"https://localhost:{port}", HttpClientSettings())
        plain.close()

    run(main)


def test_certificates_are_read_once_and_not_on_the_event_loop(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sink has one TLS context, made in a thread before the first page, however many it sends."""
    made: list[int] = []
    create = ssl.create_default_context

    def recorded(*args: Any, **named: Any) -> ssl.SSLContext:
        made.append(threading.get_ident())
        return create(*args, **named)

    monkeypatch.setattr(ssl, "create_default_context", recorded)

    async def main() -> None:
        async with receiver(keys.context()) as manager, receiver(keys.context()) as hook:
            client = HttpClientSettings(ca_file=keys.ours.cert)
            settings = AlertSettings(
                alertmanager=(manager.url,),
                alertmanager_http=client,
                webhook=WebhookSettings(url=hook.url),
                webhook_http=client,
                settle_seconds=0,
            )
            alerts = SinkDispatch(settings, AlertLinks(), 60 * SECOND, lambda: NOW)
            await alerts.prepare()
            assert len(made) == 2
            alerts.start()
            for number in range(10):
                alerts.deliver([verdict(number=number)._replace(tool=f"t{number}")])
                await asyncio.sleep(0.02)
            async with asyncio.timeout(10):
                while not (manager.heads and hook.heads):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await alerts.stop(5)
        assert (manager.connections, hook.connections) == (1, 1)

    run(main)
    assert len(made) == 2
    assert threading.get_ident() not in made


def test_a_first_post_does_not_stall_the_event_loop(keys: Keys) -> None:
    """The first post loads certificates off the event loop, even if it was not prepared."""

    async def main() -> None:
        async with receiver(keys.context()) as heard:
            loop = asyncio.get_running_loop()
            gaps: list[float] = []

            async def tick() -> None:
                while True:
                    began = loop.time()
                    await asyncio.sleep(0)
                    gaps.append(loop.time() - began)

            ticker = asyncio.create_task(tick())
            await posted(heard.url, HttpClientSettings(ca_file=keys.ours.cert), times=3)
            ticker.cancel()
        assert len(gaps) > 10

    run(main)


def test_a_renewed_certificate_is_used(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed files are read again; unusable ones change nothing."""
    monkeypatch.setattr("collector.net.watched_files.LOOK_SECONDS", 0.0)
    ca = keys.folder / "rotated.pem"
    ca.write_bytes(keys.other.cert.read_bytes())

    async def main() -> None:
        async with receiver(keys.context()) as heard:
            sender = HttpSender(
                heard.url, 5, HttpClientSettings(ca_file=ca), "alerts.webhook_http"
            )
            with pytest.raises(DeliveryError, match="not trusted"):
                await sender.post(b"", {})
            ca.write_bytes(keys.ours.cert.read_bytes() + b"\n")
            await sender.post(b"", {})
            ca.unlink()
            await sender.post(b"", {})
            await sender.close()

    run(main)


# --- credentials ----------------------------------------------------------------------------------


def _basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        ("rover:s3cret@", _basic("rover:s3cret")),
        ("rover:s%40%C3%A9@", _basic("rover:s@é")),
        ("token@", _basic("token:")),
        (":s3cret@", _basic(":s3cret")),
        ("a:b:c@", _basic("a:b:c")),
        ("", None),
        (":@", None),
    ],
)
def test_a_user_in_the_url_is_sent(user: str, sent: str | None) -> None:
    """The user is sent as `Authorization`, and neither in the target nor in the host."""

    async def main() -> None:
        async with receiver() as heard:
            await posted(
                heard.url.replace("://", f"://{user}") + "/x?y=1", HttpClientSettings()
            )
        ((line, headers),) = heard.heads
        assert (line, headers.get("authorization")) == ("POST /x?y=1 HTTP/1.1", sent)
        assert headers["host"] == f"localhost:{heard.port}"

    run(main)


def test_users_tokens_and_headers_of_the_settings_are_sent(tmp_path: Path) -> None:
    """A password and a token are read from files, without their line's end."""
    password, token = tmp_path / "password", tmp_path / "token"
    password.write_text("s3cret\n")
    token.write_text("t0ken\r\n")

    async def main() -> None:
        async with receiver() as heard:
            await posted(
                heard.url, HttpClientSettings(username="rover", password_file=password)
            )
            await posted(
                heard.url,
                HttpClientSettings(
                    bearer_token_file=token, headers={"x-tenant": SecretStr("farm")}
                ),
            )
        sent = [headers["authorization"] for _, headers in heard.heads]
        assert sent == [_basic("rover:s3cret"), "Bearer t0ken"]
        assert heard.heads[1][1]["x-tenant"] == "farm"

    run(main)


def test_a_renewed_token_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token file is read again when it changes."""
    monkeypatch.setattr("collector.net.watched_files.LOOK_SECONDS", 0.0)
    token = tmp_path / "token"
    token.write_text("first")

    async def main() -> None:
        async with receiver() as heard:
            sender = HttpSender(heard.url, 5, HttpClientSettings(bearer_token_file=token), "a")
            await sender.post(b"", {})
            token.write_text("second")
            await sender.post(b"", {})
            token.write_text("")
            await sender.post(b"", {})
            await sender.close()
        sent = [headers["authorization"] for _, headers in heard.heads]
        assert sent == ["Bearer first", "Bearer second", "Bearer second"]

    run(main)


def test_a_redirect_is_not_followed_and_no_cookie_is_kept() -> None:
    """Credentials go only to the configured address."""
    answer = (
        b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\nset-cookie: a=b\r\n"
        b"content-length: 0\r\n\r\n"
    )

    async def main() -> None:
        async with receiver(answer=answer) as heard:
            sender = HttpSender(heard.url, 5)
            for _ in range(2):
                with pytest.raises(DeliveryError, match="status 302"):
                    await sender.post(b"", {})
            await sender.close()
        assert len(heard.heads) == 2
        assert all("cookie" not in headers for _, headers in heard.heads)

    run(main)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("bearer_token_file", None, "No such file"),
        ("bearer_token_file", "\n", "the file is empty"),
        ("bearer_token_file", "a b", "expected one token in ASCII"),
        ("ca_file", "no certificate", "alerts.webhook_http.ca_file: "),
        ("client_cert_file", "no certificate", "alerts.webhook_http.client_cert_file: "),
        ("ca_file", None, "No such file"),
    ],
)
def test_files_that_cannot_be_used_are_said_at_the_start(
    tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    """The service does not start: the message names the setting and the file."""
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    variable = f"OFFRAILS_ALERTS_WEBHOOK_HTTP_{name.upper()}"
    done = run_verb(
        *("serve", "--grpc", "off", "--http", "127.0.0.1:0"),
        *("--metrics", "off", "--admin", "off", "--decide", "off"),
        OFFRAILS_ALERTS_WEBHOOK_URL="http://127.0.0.1:1",
        **{variable: str(file)},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"offrails: {variable}: ")
    assert said in done.stderr
    assert str(file) in done.stderr


# --- proxies --------------------------------------------------------------------------------------


def test_a_proxy_that_is_set_is_used(keys: Keys) -> None:
    """For plain receivers in absolute form, for those with TLS by CONNECT, with its own user."""

    async def main() -> None:
        async with receiver() as plain, receiver(keys.context()) as secure, proxy() as way:
            via = way.url.replace("://", "://me:pw@")
            await posted(plain.url + "/x", HttpClientSettings(proxy=via))
            await posted(
                secure.url + "/y", HttpClientSettings(proxy=via, ca_file=keys.ours.cert)
            )
        (first, _), (second, _) = way.heads
        assert first == f"POST {plain.url}/x HTTP/1.1"
        assert second == f"CONNECT localhost:{secure.port} HTTP/1.1"
        assert {h["proxy-authorization"] for _, h in way.heads} == {_basic("me:pw")}
        assert plain.heads[0][0].endswith("/x HTTP/1.1")
        assert secure.heads[0][0] == "POST /y HTTP/1.1"
        assert "proxy-authorization" not in secure.heads[0][1]

    run(main)


def test_a_proxy_that_refuses_is_named(keys: Keys) -> None:
    """The error holds the proxy's response, and not its password."""

    async def main() -> None:
        async with receiver(keys.context()) as secure, proxy(refuses=True) as way:
            client = HttpClientSettings(proxy=way.url.replace("://", "://me:pw-1@"))
            with pytest.raises(DeliveryError, match="the proxy answers 407") as told:
                await posted(secure.url, client)
            assert "pw-1" not in str(told.value)

    run(main)


def test_log_events_have_credentials_and_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exporter gets the credentials and the proxy of the other sinks."""
    token = tmp_path / "token"
    token.write_text("t0ken")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    async def main() -> None:
        async with receiver() as logs, proxy() as way:
            with_user = logs.url.replace("://", "://me:pw@")
            for url, client in (
                (
                    logs.url,
                    HttpClientSettings(
                        bearer_token_file=token, headers={"x-tenant": SecretStr("farm")}
                    ),
                ),
                (with_user, HttpClientSettings(proxy=way.url)),
            ):
                await OtlpLogs(url, 5, client).send([of_verdict(verdict(), NOW)])
        assert [h["authorization"] for _, h in logs.heads] == ["Bearer t0ken", _basic("me:pw")]
        assert logs.heads[0][1]["x-tenant"] == "farm"
        assert len(way.heads) == 1

    run(main)


@pytest.mark.parametrize(
    ("url", "environ", "found"),
    [
        ("http://am.example:9093", {"http_proxy": "http://p:1"}, "http://p:1"),
        ("https://am.example", {"http_proxy": "http://p:1"}, None),
        ("https://am.example", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("https://am.example", {"ALL_PROXY": "p:1"}, "http://p:1"),
        ("http://am.example", {"HTTP_PROXY": "http://a:1", "http_proxy": "http://b:1"}, "http://b:1"),
        ("http://am.example", {"http_proxy": "http://p:1", "no_proxy": "example"}, None),
        ("http://am.example", {"http_proxy": "http://p:1", "NO_PROXY": "*"}, None),
        ("http://am.example:9093", {"http_proxy": "http://p:1", "NO_PROXY": "am.example:9093"}, None),
        ("http://am.example", {"http_proxy": "http://p:1", "NO_PROXY": "ample"}, "http://p:1"),
        ("http://10.1.2.3", {"http_proxy": "http://p:1", "NO_PROXY": "x, 10.0.0.0/8"}, None),
        ("http://[fd00::1]:80", {"http_proxy": "http://p:1", "NO_PROXY": "fd00::/8"}, None),
        *(
            (f"http://{host}:1", {"http_proxy": "http://p:1", "all_proxy": "http://p:1"}, None)
            for host in (
                "localhost", "LocalHost.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]",
                "0.0.0.0", "[::ffff:127.0.0.1]",
            )
        ),
    ],
)  # fmt: skip
def test_the_environments_proxy(
    url: str, environ: dict[str, str], found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy is chosen by scheme, except for NO_PROXY and the loopback; the setting takes precedence."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert proxy_of(url) == found
    assert proxy_of(url, "http://q:2") == "http://q:2"
    assert proxy_of(url, "off") is None


@pytest.mark.parametrize("wrong", ["socks5://p:1", "http://", "http://p:port"])
def test_an_environments_proxy_that_cannot_be_used(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service starts, and each failed delivery gives the reason."""
    monkeypatch.setenv("all_proxy", wrong)

    async def main() -> None:
        sender = HttpSender("http://am.example", 5)
        await sender.prepare()
        with pytest.raises(DeliveryError, match="proxy is no URL of http or https"):
            await sender.post(b"", {})

    run(main)
    with pytest.raises(NoAnswerError, match="proxy is no URL"):
        ask("http://am.example", "/")


@pytest.fixture
def service() -> Iterator[Loopback]:
    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}\n")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()

    running = Loopback(Handler)
    yield running
    running.close()


def test_verbs_reach_this_machine_without_a_proxy(
    service: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`init`, `accept`, `tail` and `doctor` reach the loopback directly, whatever the environment says."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ask(service.url, "/api/v1/seen") == {}
    shown: list[str] = []
    tail(service.url, Filters(), shown.append, colour=False, raw=True)
    assert shown == ["{}"]
    findings = doctor(f"http://{service.url.removeprefix('http://')}")
    assert findings in (True, False)


def test_verbs_take_the_proxy_to_other_hosts(
    service: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that only the proxy can resolve is reached through it."""
    monkeypatch.setenv("http_proxy", service.url)
    assert ask("http://offrails.invalid:4319", "/api/v1/seen") == {}
    shown: list[str] = []
    tail("offrails.invalid:4319", Filters(), shown.append, colour=False, raw=True)
    assert shown == ["{}"]
    monkeypatch.setenv("no_proxy", "offrails.invalid")
    with pytest.raises(NoAnswerError):
        ask("http://offrails.invalid:4319", "/")


def test_passwords_are_in_no_message_of_the_verbs() -> None:
    """Error messages show the address without its user."""
    for url in ("http://me:pw-1@127.0.0.1:9", "me:pw-1@127.0.0.1:9", "ftp://me:pw-1@x/y"):
        with pytest.raises(NoAnswerError) as asked:
            ask(url, "/")
        with pytest.raises(NoAnswerError) as tailed:
            tail(url, Filters(), print, colour=False)
        for told in (asked, tailed):
            assert "pw-1" not in str(told.value)
            assert "127.0.0.1:9: Connection refused" in str(told.value) or "ftp://x/y" in str(
                told.value
            )


def test_a_user_is_taken_out_of_a_url() -> None:
    """Host, port, path and query stay as they are."""
    assert without_user("https://a:b@[::1]:1/p?q#f")[0] == "https://[::1]:1/p?q#f"
    assert without_user("https://h/p@q") == ("https://h/p@q", "")


def test_a_missing_module_is_looked_for_once() -> None:
    """What httpcore tries to import with each request fails at once where it is not installed."""
    program = (
        "import importlib.util, sys\n"
        "from collector.net.http_client import options\n"
        "is_there = importlib.util.find_spec('sniffio') is not None\n"
        "options('http://a', timeout_seconds=1)\n"
        "print(is_there or sys.modules['sniffio'] is None)\n"
        "try:\n"
        "    import sniffio\n"
        "except ImportError:\n"
        "    print(not is_there)\n"
        "else:\n"
        "    print(is_there)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["True", "True"]
