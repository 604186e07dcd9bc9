"""The former name of `offrails_guard` leads to it, for one release."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SAME = """
import importlib, unittest.mock
import guard
import guard.client
import guard.mcp.gate as gate
import offrails_guard.client, offrails_guard.mcp.gate, offrails_guard.adapters.claude_code
from guard import Denied, DeniedError, Guard, LocalGuard
from guard.adapters import claude_code
from guard.adapters.claude_code import reply

assert Guard is guard.Guard is offrails_guard.Guard is guard.client.Guard
assert LocalGuard is offrails_guard.LocalGuard
assert Denied is DeniedError is offrails_guard.DeniedError
assert gate is offrails_guard.mcp.gate
assert claude_code is offrails_guard.adapters.claude_code
assert reply is claude_code.reply
assert guard.client.__spec__.name == guard.client.__name__ == "offrails_guard.client"
with unittest.mock.patch("guard.client.Guard") as patched:
    assert offrails_guard.client.Guard is patched
assert importlib.reload(guard.client).__name__ == "offrails_guard.client"
assert set(guard.__all__) == set(offrails_guard.__all__)
try:
    import guard.nothing_of_the_kind
except ModuleNotFoundError as problem:
    assert problem.name == "guard.nothing_of_the_kind", problem.name
else:
    raise AssertionError
"""


def _run(code: str, *options: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_each_name_and_module_is_the_same_object() -> None:
    """Modules of any depth, classes and the release before's names are one object under both names; a gap is one still."""
    done = _run(SAME)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_it_says_once_what_to_import() -> None:
    """One DeprecationWarning, at the line that imports it, names the new package."""
    done = _run("import guard\nfrom guard import Guard\nimport guard.client", "-Walways")

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("DeprecationWarning") == 1
    assert "<string>:1:" in done.stderr
    assert "`offrails_guard`" in done.stderr


def test_the_former_name_loads_no_library() -> None:
    """Who asks a service by the former name does not load the monitor either."""
    done = _run("import sys, guard; guard.Guard; assert 'monitor' not in sys.modules")

    assert done.returncode == 0, done.stderr


def test_a_users_own_module_of_that_name_is_theirs(tmp_path: Path) -> None:
    """A `guard.py` beside a program hides the former name, and nothing of ours asks for it: the guard works."""
    (tmp_path / "guard.py").write_text("raise RuntimeError('a program of its own')")
    (tmp_path / "monitor.py").write_text("raise RuntimeError('a program of its own')")

    done = _run(
        "from offrails_guard import Guard; Guard('http://127.0.0.1:9')", folder=tmp_path
    )

    assert done.returncode == 0, done.stderr
