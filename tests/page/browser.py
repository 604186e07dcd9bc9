"""A headless Chromium, driven by Playwright: the distribution's own, so nothing is downloaded.

Playwright's event loop runs in a thread of its own: its synchronous interface would leave a running loop in
the tests' thread, and no other test could start one.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import time
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from playwright.async_api import Browser as Driven
    from playwright.async_api import BrowserContext, CDPSession, ConsoleMessage, Dialog
    from playwright.async_api import Page as Tab

__all__ = ["CHROMIUM", "MISSING", "Browser", "Page"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = (
    "there is no chromium here (apt-get install chromium)"
    if CHROMIUM is None
    else "playwright is not installed"
    if find_spec("playwright") is None
    else ""
)
"""Why there is no browser; "" where there is one."""
WAIT_SECONDS = 45

Found = TypeVar("Found")
Wait = Callable[[Coroutine[Any, Any, Any]], Any]


class Page:
    """One tab with its own profile: English, in UTC."""

    def __init__(
        self, wait: Wait, context: BrowserContext, tab: Tab, devtools: CDPSession
    ) -> None:
        self._wait = wait
        self._context = context
        self._tab = tab
        self._devtools = devtools
        self.problems: list[str] = []
        """Errors and policy violations that the page reported."""
        self.is_as_new = True
        """Whether `clear` makes the tab as a new one: nothing was set that it does not take back."""
        tab.on("pageerror", lambda error: self.problems.append(str(error)))
        tab.on("console", self._note)
        tab.on("dialog", self._refuse)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.append(f"{message.text} {message.location.get('url', '')}")

    async def _refuse(self, dialog: Dialog) -> None:
        self.problems.append(f"a dialog: {dialog.message}")
        await dialog.dismiss()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its answer."""
        self.is_as_new &= method in ("Runtime.evaluate", "Page.captureScreenshot")
        found: dict[str, Any] = self._wait(self._devtools.send(method, parameters))
        return found

    def open(self, url: str) -> None:
        """Goes to an address. A fragment of the page that is open is only a new state of it."""
        self._wait(self._tab.goto(url, wait_until="commit"))

    def window(self, wide: int, high: int, *, dark: bool = False) -> None:
        """Sets the size of the window and the light."""
        self._wait(self._tab.set_viewport_size({"width": wide, "height": high}))
        self._wait(self._tab.emulate_media(color_scheme="dark" if dark else "light"))

    def still(self, at: float) -> None:
        """The page's clock shows one time for ever, in Unix seconds, and nothing moves: for pictures."""
        self.is_as_new = False
        self._wait(self._tab.emulate_media(reduced_motion="reduce"))
        self._wait(self._tab.clock.set_fixed_time(at))

    def run(self, script: str) -> Any:
        """The value of an expression. The page's content policy does not apply to it."""
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        """The text of the first element that matches a selector; empty if there is none, or if it is not painted yet.

        Rows of the list are laid out when their frame is drawn (`content-visibility`), so a test waits for them.
        """
        found: str = self.run(
            f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"
        )
        return found

    def click(self, selector: str) -> None:
        """Clicks as a person does: the element is visible, and nothing covers it."""
        self._wait(self._tab.click(selector, timeout=1e3 * WAIT_SECONDS))

    def choose(self, selector: str, value: str) -> None:
        """Chooses one option of a select, or fills a field."""
        if self.run(f"document.querySelector({json.dumps(selector)}).tagName") == "SELECT":
            self._wait(self._tab.select_option(selector, value))
        else:
            self._wait(self._tab.fill(selector, value))

    def allow_clipboard(self) -> None:
        """Lets the page and the test use the clipboard."""
        self.is_as_new = False
        self._wait(self._context.grant_permissions(["clipboard-read", "clipboard-write"]))

    def until(self, probe: Callable[[], Found]) -> Found:
        """The first truthy value of `probe`."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := probe()):
            assert time.monotonic() < deadline, f"still {found!r}; {self.problems}"
            time.sleep(0.05)
        return found

    def press(self, key: str) -> None:
        """Presses and releases one key by its name."""
        self._wait(self._tab.keyboard.press(key))

    def screenshot(self) -> bytes:
        """A PNG of the window, without the style that Playwright would add and the page refuses."""
        found = self.ask("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])

    def clear(self) -> None:
        """Leaves the page, with nothing kept of it, in a window of a usual size."""
        self.run("try { localStorage.clear(); sessionStorage.clear() } catch {}")
        self.open("about:blank")
        self.window(1280, 900)
        self.problems.clear()

    def close(self) -> None:
        """Closes the tab, and with it its connections."""
        self._wait(self._context.close())


class Browser:
    """A headless Chromium."""

    def __init__(self) -> None:
        assert not MISSING, MISSING
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stop: Callable[[], Coroutine[Any, Any, None]]
        self._driven: Driven = self._wait(self._start())

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(4 * WAIT_SECONDS)

    async def _start(self) -> Driven:
        from playwright.async_api import async_playwright

        started = await async_playwright().start()
        self._stop = started.stop
        quiet = (
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
        )
        return await started.chromium.launch(executable_path=CHROMIUM, args=[*quiet])

    def page(self) -> Page:
        """A new tab."""
        page: Page = self._wait(self._open())
        return page

    async def _open(self) -> Page:
        context = await self._driven.new_context(locale="en-GB", timezone_id="UTC")
        tab = await context.new_page()
        devtools = await context.new_cdp_session(tab)
        await devtools.send("Page.enable")
        return Page(self._wait, context, tab, devtools)

    def close(self) -> None:
        self._wait(self._driven.close())
        self._wait(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()
