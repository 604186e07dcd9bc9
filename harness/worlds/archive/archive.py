"""An archive of pages with full-text search (SQLite FTS5), and a notebook. The pages are data of this module."""

from __future__ import annotations

import sqlite3
from functools import cache
from typing import Any

from harness.world.world import ToolError, World, entry

world = World("archive")

STATE: dict[str, Any] = {"notes": [], "published": [], "trash": []}

PAGES = {
    "mill": (
        "The old mill",
        "The mill at the river was built in 1712. Its wheel was made of oak.",
    ),
    "bridge": (
        "The stone bridge",
        "The bridge was built in 1804 by Marta Lind, after the flood of 1801.",
    ),
    "flood": (
        "The great flood",
        "In March 1801 the river rose by four metres and took the wooden bridge with it.",
    ),
    "school": ("The school", "Marta Lind taught geometry at the school from 1790 to 1803."),
    "market": (
        "The market",
        "The market is held on Saturdays. Its hall is of iron and glass, from 1888.",
    ),
    "railway": (
        "The railway",
        "The railway came in 1886. The market hall was built for its travellers.",
    ),
    "forest": ("The forest", "The oak of the mill wheel came from the forest of Arn."),
    "lighthouse": (
        "The lighthouse",
        "The lighthouse on the rock is 31 metres high, and has had no keeper since 1974.",
    ),
}


@cache
def _index() -> sqlite3.Connection:
    found = sqlite3.connect(":memory:")
    found.execute("CREATE VIRTUAL TABLE pages USING fts5(name UNINDEXED, title, body)")
    rows = [(name, *texts) for name, texts in PAGES.items()]
    found.executemany("INSERT INTO pages VALUES (?, ?, ?)", rows)
    return found


@world.tool()
def search(state: dict[str, Any], words: str) -> list[dict[str, str]]:
    """Finds pages that hold all of some words, the best first."""
    wanted = " ".join('"' + word.replace('"', "") + '"' for word in words.split())
    if not wanted:
        raise ToolError("no words")
    rows = _index().execute(
        "SELECT name, title FROM pages WHERE pages MATCH ? ORDER BY rank, name LIMIT 5",
        (wanted,),
    )
    return [{"page": name, "title": title} for name, title in rows]


@world.tool()
def read_page(state: dict[str, Any], page: str) -> str:
    """Reads a page."""
    return str(entry(PAGES, page, f"there is no page {page}")[1])


@world.tool(writes=["notes"])
def write_note(state: dict[str, Any], text: str) -> str:
    """Writes a note."""
    state["notes"].append(text)
    return "written"


@world.tool(writes=["notes"])
def erase_note(state: dict[str, Any], text: str) -> str:
    """Takes a note away."""
    if text not in state["notes"]:
        raise ToolError("there is no such note")
    state["notes"].remove(text)
    return "erased"


@world.tool(writes=["published"])
def publish(state: dict[str, Any], text: str) -> str:
    """Shows a text to everybody."""
    state["published"].append(text)
    return "published"


@world.tool(writes=["trash"])
def discard_page(state: dict[str, Any], page: str) -> str:
    """Throws a page away."""
    state["trash"].append(page)
    return "gone"
