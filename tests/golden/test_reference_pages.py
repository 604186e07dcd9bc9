"""Pages that are generated from the code are as the code is."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import reference_pages as reference

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["settings", "metrics", "openapi"])
def test_the_page_is_fresh(page: str) -> None:
    """`docs/` holds what `python -m docs.reference_pages` prints."""
    assert (DOCS / f"{page}.md").read_text() == reference.PAGES[page]()
