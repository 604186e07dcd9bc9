"""The session page: three static files, served under a policy that lets nothing else in.

index.html   the frame
page.js      asks the API, draws; what agents say enters as text, never as markup
page.css     light and dark, wide and narrow
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from collector.asgi import Send, send_status

__all__ = ["FILES", "POLICY", "send_file"]

POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: no inline script or style, no other host, no frames."""

_HEADERS: Final = (
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

FILES: Final = {
    b"/": ("index.html", b"text/html; charset=utf-8"),
    b"/page/page.js": ("page.js", b"text/javascript; charset=utf-8"),
    b"/page/page.css": ("page.css", b"text/css; charset=utf-8"),
    b"/page/icon.svg": ("icon.svg", b"image/svg+xml"),
}
"""Path -> file and content type: a fixed list, so no path leads elsewhere."""


async def send_file(send: Send, path: bytes) -> None:
    """One of `FILES`."""
    name, content_type = FILES[path]
    body = (Path(__file__).parent / name).read_bytes()
    await send_status(send, 200, body, content_type, *_HEADERS)
