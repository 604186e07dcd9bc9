"""The files of the session view, served under a policy that lets nothing else in.

index.html   the frame; the style goes into it, so that the first paint waits for nothing more
page.css     light and dark, wide and narrow
script/      asks the API, draws; what agents say enters as text, never as markup; sent as one file
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Final

from collector.net.asgi import Send, send_status

__all__ = ["FILES", "POLICY", "send_file"]

_FOLDER: Final = Path(__file__).parent
_STYLE: Final = (_FOLDER / "page.css").read_bytes()
_SCRIPT: Final = b"\n".join(
    (_FOLDER / "script" / f"{name}.js").read_bytes()
    for name in (
        *("text", "copy", "ask", "words", "glossary", "address", "filters", "list", "setup"),
        *(
            "times",
            "session",
            "scores",
            "automaton",
            "tree",
            "plot",
            "calls",
            "prevented",
            "things",
            "judged",
            "labels",
            "trace_link",
            "why",
            "overview",
            "compare",
            "live",
        ),
    )
)
_FRAME: Final = (_FOLDER / "index.html").read_bytes().replace(b"/* page.css */", _STYLE)

POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'sha256-%b'; connect-src 'self'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
) % b64encode(sha256(_STYLE).digest())
"""Content-Security-Policy: our one script, our one style to the letter, no other host, no frames."""

_HEADERS: Final = (
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

FILES: Final = {
    b"/": (_FRAME, b"text/html; charset=utf-8"),
    b"/page/page.js": (_SCRIPT, b"text/javascript; charset=utf-8"),
    b"/page/icon.svg": ((_FOLDER / "icon.svg").read_bytes(), b"image/svg+xml"),
}
"""Path -> body and content type: a fixed list, so no path leads elsewhere; read once, at the start."""


async def send_file(send: Send, path: bytes) -> None:
    """One of `FILES`."""
    body, content_type = FILES[path]
    await send_status(send, 200, body, content_type, *_HEADERS)
