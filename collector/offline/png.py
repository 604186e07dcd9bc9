"""SVG to PNG: by a small library where it is installed, else by a program of the system."""

from __future__ import annotations

import shutil
import subprocess

__all__ = ["NoRenderer", "png"]

ZOOM = 2
"""Pixels of the picture for each of the drawing: small letters stay readable."""

SECONDS_MAX = 60


class NoRenderer(Exception):  # noqa: N818 - it names what is missing
    """Nothing here turns SVG into PNG; the message says what would."""


def png(svg: str) -> bytes:
    """The picture as PNG.

    Raises:
        NoRenderer: there is neither the library nor a program.
    """
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        return _by_program(svg)
    return bytes(svg_to_bytes(svg_string=svg, zoom=ZOOM))


def _by_program(svg: str) -> bytes:
    if found := shutil.which("rsvg-convert"):
        command = [found, "--format=png", f"--zoom={ZOOM}"]
    elif found := shutil.which("resvg"):
        command = [found, f"--zoom={ZOOM}", "-", "-c"]
    else:
        raise NoRenderer(
            "PNG needs the extra offrails[png] (resvg-py), or rsvg-convert or resvg on the "
            "path; SVG needs nothing"
        )
    try:
        done = subprocess.run(  # noqa: S603 - the program was looked up, the text is ours
            command, input=svg.encode(), capture_output=True, timeout=SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise NoRenderer(f"{found} did not make a PNG: {problem}") from None
    return done.stdout
