"""A tiny client of Chromium's DevTools protocol: enough WebSocket (RFC 6455) to drive one page."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

__all__ = ["CHROMIUM", "Browser", "Page"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
START_SECONDS = 30
WAIT_SECONDS = 15

Found = TypeVar("Found")


class _Socket:
    """One WebSocket connection; texts only."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._socket = socket.create_connection((place.hostname, place.port), WAIT_SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._stream = self._socket.makefile("rb")
        assert b"101" in self._stream.readline()
        while self._stream.readline() not in (b"\r\n", b""):
            pass

    def send(self, text: str) -> None:
        body = text.encode()
        size = len(body)
        head = b"\x81" + (
            bytes([0x80 | size])
            if size < 126
            else b"\xfe" + struct.pack(">H", size)
            if size < 1 << 16
            else b"\xff" + struct.pack(">Q", size)
        )
        self._socket.sendall(head + bytes(4) + body)  # a mask of zeros is a mask

    def receive(self) -> str:
        parts = []
        while True:
            first, second = self._stream.read(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self._stream.read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self._stream.read(8))
            parts.append(self._stream.read(size))
            if first & 0x80:
                return b"".join(parts).decode()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class Page:
    """One tab."""

    def __init__(self, connection: _Socket, session: str, target: str = "") -> None:
        self.target = target
        self._connection = connection
        self._session = session
        self._number = 0
        self.problems: list[str] = []
        """Errors and policy violations that the page reported."""

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._connection.send(json.dumps(message))
        while True:
            answer = json.loads(self._connection.receive())
            if answer.get("id") == self._number and self._mine(answer):
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _mine(self, message: dict[str, Any]) -> bool:
        found: str = message.get("sessionId", "")
        return found == self._session

    def _note(self, event: dict[str, Any]) -> None:
        name, told = event.get("method"), event.get("params", {})
        if not self._mine(event):
            return
        if name == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(told["exceptionDetails"]))
        elif name == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.problems.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif name == "Page.javascriptDialogOpening":
            self.problems.append(f"a dialog: {told['message']}")

    def open(self, url: str) -> None:
        self.ask("Page.navigate", url=url)

    def window(self, wide: int, high: int, *, dark: bool = False, factor: float = 1) -> None:
        """Sets the size of the window and the light."""
        size = {"width": wide, "height": high, "deviceScaleFactor": factor, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        light = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[light])

    def run(self, script: str) -> Any:
        """The value of an expression."""
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        """The text of the first element that a selector finds; "" where there is none."""
        found: str = self.run(
            f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"
        )
        return found

    def until(self, probe: Callable[[], Found]) -> Found:
        """The first truthy value of `probe`."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := probe()):
            assert time.monotonic() < deadline, f"still {found!r}; {self.problems}"
            time.sleep(0.05)
        return found

    def press(self, key: str) -> None:
        """Presses and releases one key by its name."""
        code = {"ArrowDown": 40, "ArrowUp": 38, "Enter": 13, "Tab": 9}[key]
        text = {"Enter": {"text": "\r"}}.get(key, {})
        for kind in ("keyDown", "keyUp"):
            more = text if kind == "keyDown" else {}
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **more,
            )

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Writes a PNG of the window."""
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))


class Browser:
    """A headless Chromium with a profile of its own."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
        quiet = ("--no-first-run", "--disable-extensions", "--disable-background-networking")
        self.process = subprocess.Popen(
            [
                CHROMIUM,
                *options,
                *quiet,
                "--no-proxy-server",
                "--remote-debugging-port=0",
                f"--user-data-dir={self._folder.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._connection = _Socket(self._address())
        self._browser = Page(self._connection, "")

    def _address(self) -> str:
        """Chromium writes its port and path into its profile."""
        file = Path(self._folder.name) / "DevToolsActivePort"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if file.exists() and (found := re.match(r"(\d+)\n(/\S+)", file.read_text())):
                return f"ws://127.0.0.1:{found[1]}{found[2]}"
            assert self.process.poll() is None, "Chromium ended"
            time.sleep(0.05)
        raise AssertionError("Chromium did not start")

    def page(self) -> Page:
        """A new tab."""
        target = self._browser.ask("Target.createTarget", url="about:blank")["targetId"]
        found = self._browser.ask("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self._connection, found["sessionId"], target)
        for domain in ("Page", "Runtime", "Log"):
            page.ask(f"{domain}.enable")
        return page

    def leave(self, page: Page) -> None:
        """Closes a tab, and with it its connections."""
        self._browser.ask("Target.closeTarget", targetId=page.target)

    def close(self) -> None:
        self._connection.close()
        self.process.terminate()
        self.process.wait(WAIT_SECONDS)
        self._folder.cleanup()
