"""The documentation site: it is built of all pages, and every link and anchor on it leads somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs-material is not installed")

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "dfa_specs", "deploy", "examples", "grafana", "tests")


@pytest.mark.long
@pytest.mark.timeout(180)
def test_the_site_is_built(tmp_path: Path) -> None:
    """mkdocs gives no warning, each page and code block is rendered, and nothing is loaded from other sites."""
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    pages = [
        *ROOT.glob("*.md"),
        *(page for each in FOLDERS for page in (ROOT / each).rglob("*.md")),
    ]
    wanted = {
        site / page.relative_to(ROOT).with_suffix(".html")
        for page in pages
        if page.name != "README.md"
    }
    built = {page: page.read_text() for page in site.rglob("*.html")}
    assert wanted <= set(built)
    assert [page for page, text in built.items() if "<p>```" in text] == []
    assert [page for page, text in built.items() if 'src="http' in text] == []
    assert (site / "index.html").exists()
    assert (site / "examples" / "specs" / "support_rules.yaml").exists()


def test_the_parts_of_a_list_belong_to_it() -> None:
    """Blocks under a list item are indented by four; other blocks are unchanged."""
    from docs.site_pages import indented

    text = ["words", "- one", "", "  more", "", "  ```sh", "  - x", "  ```", "end", "  free"]

    assert list(indented(text)) == [
        "words",
        "",
        "- one",
        "",
        "    more",
        "",
        "    ```sh",
        "    - x",
        "    ```",
        "end",
        "  free",
    ]
