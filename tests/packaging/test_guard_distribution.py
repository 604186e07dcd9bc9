"""The guard's own distribution: small, on each Python from 3.10 on, beside any file of a user, and beside offrails."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.offrails_guard.double import DENIED, Double, running
from tests.packaging.builds import ROOT, built, pip

FOLDER = ROOT / "offrails_guard"
OURS = f"3.{sys.version_info.minor}"
OLDEST = "3.10"
PYTHONS = [
    OLDEST,
    *(pytest.param(f"3.{minor}", marks=pytest.mark.long) for minor in range(11, 15)),
]
NEEDS = {"anyio", "certifi", "exceptiongroup", "h11", "httpcore", "idna", "typing-extensions"}
"""What httpcore with an event loop needs; two of these only before Python 3.13."""

pytestmark = pytest.mark.timeout(300)

PROGRAM = """
import sys
import guard, monitor  # of this folder
from offrails_guard import DeniedError, Guard

assert guard.MINE and monitor.MINE
asked = Guard(sys.argv[1], session="s1", agent="rover", deadline_seconds=20)

@asked.tool
def scan(area: str) -> str:
    return f"scanned {area}"

@asked.tool(denied="message")
async def water(field: int) -> str:
    raise AssertionError("it is denied")

assert scan(area="field 3") == "scanned field 3"

import asyncio
print(asyncio.run(water(field=3)))
asked.close()

try:
    import offrails_guard.in_process.local_guard
except ImportError as problem:
    print(problem)
"""

LOCAL = """
from offrails_guard import LocalGuard, MonitorSpanProcessor
from monitor import Limits, Monitor, load_spec

guard = LocalGuard(
    Monitor([load_spec("farm_rover.yaml")], Limits(history_complete=True)), session="s1", service="farm-rover"
)
assert guard.check("unlock_safety", {}).decision == "allow"
found = guard.check("water", {"field": 3, "liters": 10})
assert found.decision == "deny" or found.would_deny, found
assert MonitorSpanProcessor.__module__.startswith("collector.sdk")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guard's wheel."""
    return built(FOLDER, tmp_path_factory.mktemp("guard"), tmp_path_factory)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plain wheel of offrails."""
    return built(ROOT, tmp_path_factory.mktemp("offrails"), tmp_path_factory)


@pytest.fixture(scope="module", params=PYTHONS)
def python(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Python in an environment that holds the wheel and what it needs, and nothing else."""
    base = _interpreter(request.param)
    if base is None and request.param != OLDEST:
        pytest.skip(f"no Python {request.param} here")
    base = base or Path(sys.executable)  # the quick tests are run with one at least
    found = _environment(base, tmp_path_factory.mktemp("environment"))
    constraints = ROOT / "constraints.txt"
    pip("--python", found, "install", "--no-compile", "--constraint", constraints, wheel)
    return found


@pytest.fixture
def service() -> Iterator[Double]:
    """What decides: `water` is denied."""
    with running() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder, whose files have our names."""
    for name in ("guard", "monitor", "collector"):
        (tmp_path / f"{name}.py").write_text("MINE = True\n")
    (tmp_path / "agent.py").write_text(PROGRAM)
    return tmp_path


# --- what is in it -----------------------------------------------------------------------------------


def test_it_needs_httpcore_alone(wheel: Path) -> None:
    """Its metadata: Python 3.10, one dependency, extras that install offrails of the same release, our licence."""
    with ZipFile(wheel) as archive:
        [info] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(info))
        [licence] = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    version = metadata["Version"]
    needs = metadata.get_all("Requires-Dist", [])

    assert wheel.name == f"offrails_guard-{version}-py3-none-any.whl"
    assert metadata["Requires-Python"] == ">=3.10"
    assert [each for each in needs if "extra" not in each] == ["httpcore[asyncio]>=1.0"]
    assert [each for each in needs if "extra" in each] == [
        f"offrails=={version}; extra == 'local'",
        f"offrails[sdk]=={version}; extra == 'sdk'",
    ]


def test_both_wheels_have_the_same_files(wheel: Path, whole: Path) -> None:
    """So it makes no difference which was installed last: each module and the mark of types, byte for byte."""
    files = _files(wheel)

    assert files == _files(whole)
    assert set(files) == {
        str(file.relative_to(ROOT))
        for file in FOLDER.rglob("*")
        if file.suffix == ".py" or file.name == "py.typed"
    }


def test_the_source_distribution_builds_the_same_wheel(
    wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What is published as source needs nothing of the repository around it."""
    alone = tmp_path / "alone"
    shutil.copytree(FOLDER, alone, ignore=shutil.ignore_patterns("__pycache__"))

    assert _files(built(alone, tmp_path / "built", tmp_path_factory)) == _files(wheel)


def test_the_extra_of_offrails_needs_the_same() -> None:
    """`offrails[guard]` installs what the guard's distribution needs."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]

    assert extra["optional-dependencies"]["guard"] == own["dependencies"]


def test_its_source_is_of_the_oldest_python() -> None:
    """Type checkers find nothing in it that Python 3.10 has not; what needs offrails needs a newer one anyway."""
    checked = ("mypy", "--python-version", OLDEST, "--follow-imports", "skip", "offrails_guard")
    done = subprocess.run(
        [sys.executable, "-m", *checked],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if ": error:" in line]

    assert "checked" in done.stdout or "no issues" in done.stdout, done.stdout + done.stderr
    assert [
        line
        for line in found
        if not line.startswith("offrails_guard/in_process/local_guard.py")
    ] == []


# --- alone -------------------------------------------------------------------------------------------


def test_nothing_else_is_installed(python: Path) -> None:
    """The environment has httpcore and what that needs, and no package of offrails."""
    told = _run(
        python,
        "-c",
        "import importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))",
    )
    names = {each.lower().replace("_", "-") for each in told.stdout.split()}

    assert "offrails-guard" in names
    assert names - {"offrails-guard"} <= NEEDS


def test_it_asks_beside_files_of_a_user(python: Path, folder: Path, service: Double) -> None:
    """`guard.py`, `monitor.py` and `collector.py` of a user are theirs, and the guard works; `LocalGuard` names the file that hides what it needs."""
    done = _run(python, "agent.py", service.url, folder=folder)

    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == DENIED
    assert str(folder / "monitor.py") in second
    assert "LocalGuard needs the package `monitor` of offrails" in second
    assert {service.outcome(), service.outcome()} == {("d1", "ran"), ("d2", "skipped")}


@pytest.mark.parametrize("mode", ["hang", "silent", "503"])
def test_a_service_that_fails_is_no_error(
    python: Path, folder: Path, service: Double, mode: str
) -> None:
    """Where nobody answers a question, or even says hello, and where the service has too much to do, the setting decides."""
    service.mode = mode
    url, listener = service.url, socket.create_server(("127.0.0.1", 0))
    if mode == "silent":
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    (folder / "agent.py").write_text(
        "import asyncio, sys\n"
        "from offrails_guard import Guard\n"
        "asked = Guard(sys.argv[1], session='s1', on_unavailable='deny', deadline_seconds=0.2)\n"
        "print(asked.check('scan', {}).unavailable, asyncio.run(asked.acheck('scan', {})).unavailable)\n"
        "import os; os._exit(0)\n"
    )
    done = _run(python, "-u", "agent.py", url, folder=folder)
    service.resume.set()
    listener.close()

    word = "overloaded" if mode == "503" else "deadline"
    assert done.stdout == f"{word} {word}\n", done.stderr


def test_a_missing_extra_is_named(python: Path, tmp_path: Path) -> None:
    """What to install is said where `LocalGuard` or the span processor is asked for without it."""
    for name, extra in (("LocalGuard", "local"), ("MonitorSpanProcessor", "sdk")):
        done = _run(python, "-c", f"from offrails_guard import {name}", folder=tmp_path)

        assert done.returncode == 1
        assert f"{name} needs" in done.stderr
        assert f"pip install 'offrails-guard[{extra}]'" in done.stderr


@pytest.mark.parametrize("program", ["agent.py", "{}.py"])
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"])
@pytest.mark.parametrize("name", ["monitor", "collector"])
def test_a_file_that_hides_a_package_is_named(
    tmp_path: Path, name: str, file: str, program: str
) -> None:
    """A module, a package, or the program itself: who asks for what needs offrails' package reads which file hides it."""
    wanted = {"monitor": "LocalGuard", "collector": "MonitorSpanProcessor"}[name]
    hiding, run = tmp_path / file.format(name), tmp_path / program.format(name)
    hiding.parent.mkdir(exist_ok=True)
    hiding.touch()
    run.write_text(f"from offrails_guard import {wanted}\n")
    done = subprocess.run(
        [sys.executable, run],
        env={**_bare(), "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = done.stderr.splitlines()[-1]

    assert f"{wanted} needs the package `{name}` of offrails" in last
    assert f"`{name}` is {hiding} here" in last


@pytest.mark.parametrize("program", ["script", "module"])
def test_its_program_has_both_verbs(
    python: Path, folder: Path, service: Double, program: str
) -> None:
    """A hook denies with exit code 2 and the reason; the proxy asks for a server's tool, and answers in its place."""
    run = (
        [str(python.parent / "offrails-guard")]
        if program == "script"
        else [str(python), "-m", "offrails_guard"]
    )
    options = ("--url", service.url, "--deadline", "20", "--session", "s1")
    event = {
        "session_id": "s1", "hook_event_name": "PreToolUse", "tool_name": "water", "tool_input": {},
    }  # fmt: skip
    hook = _call([*run, "hook", "claude-code", *options], folder, json.dumps(event))
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "water"}}
    server = ("--", sys.executable, "-c", "import sys; sys.stdin.read()")
    proxy = _call([*run, "mcp-proxy", *options, *server], folder, json.dumps(call) + "\n")

    assert (hook.returncode, hook.stderr) == (2, f"{DENIED}\n")
    assert proxy.returncode == 0, proxy.stderr
    assert json.loads(proxy.stdout)["result"]["content"][0]["text"] == DENIED


def test_what_its_program_cannot_use_is_said(python: Path, tmp_path: Path) -> None:
    """An address that is none, and a proxy without a server: exit code 2 and one line."""
    verbs = (
        (("hook", "--url", "nowhere", "--on-unavailable", "deny"), "'nowhere': expected"),
        (("mcp-proxy",), "mcp-proxy: expected -- COMMAND..."),
    )
    for arguments, words in verbs:
        done = _call([str(python), "-m", "offrails_guard", *arguments], tmp_path, "{}")

        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert words in done.stderr


# --- beside offrails ---------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("last", ["guard", "offrails"])
def test_both_can_be_installed(wheel: Path, whole: Path, tmp_path: Path, last: str) -> None:
    """In either order: `LocalGuard`, the span processor and each verb work; the guard alone can be uninstalled.

    Then the files are gone that both have: `offrails` says so where a verb needs them, and its other verbs go on.
    """
    both = [wheel, whole] if last == "offrails" else [whole, wheel]
    place = _environment(sys.executable, tmp_path / "environment")
    for each in both:
        pip("--python", place, "install", "--no-compile", "--no-deps", each)
    shutil.copy(ROOT / "dfa_specs" / "farm_rover.yaml", tmp_path)

    assert _beside(place, tmp_path, "-c", LOCAL).stderr == ""
    assert (
        "offrails hook claude-code"
        in _beside(place, tmp_path, "-m", "collector", "hook", "--help").stdout
    )
    pip("--python", place, "uninstall", "--yes", "offrails-guard")
    hook = _beside(place, tmp_path, "-m", "collector", "hook", "claude-code")
    checked = _beside(place, tmp_path, "-m", "collector", "check", "farm_rover.yaml")

    assert hook.returncode == 1
    assert "hook needs the package offrails_guard, which is gone" in hook.stderr
    assert checked.returncode == 0, checked.stderr


def _beside(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs what is installed in an environment, with the packages that it depends on from ours."""
    [packages] = python.parents[1].glob("lib/python3*/site-packages")
    # Without `site`, so that no link leads to the source.
    paths = f"{packages}:{sysconfig.get_path('purelib')}"
    environment = {**_bare(), "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, input="{}",
    )  # fmt: skip


def _run(
    python: Path, *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return _call([str(python), *arguments], folder or python.parent)


def _call(
    command: list[str], folder: Path, given: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = {**_bare(), "XDG_RUNTIME_DIR": str(folder)}
    return subprocess.run(
        command,
        cwd=folder, env=environment, input=given, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def _bare() -> dict[str, str]:
    """The environment without our paths."""
    ours = ("PYTHONPATH", "PYTHONSAFEPATH", "OFFRAILS_NATIVE")
    return {key: value for key, value in os.environ.items() if key not in ours}


def _files(wheel: Path) -> dict[str, bytes]:
    """Path -> content of the guard's files in a wheel."""
    with ZipFile(wheel) as archive:
        names = [each for each in archive.namelist() if each.startswith("offrails_guard/")]
        return {name: archive.read(name) for name in names}


def _environment(base: str | Path, place: Path) -> Path:
    """Python of a new virtual environment without pip."""
    subprocess.run([base, "-m", "venv", "--without-pip", place], check=True)
    return place / "bin" / "python"


def _interpreter(version: str) -> Path | None:
    """A Python of a version: on the PATH, or one of pyenv's."""
    if version == OURS:
        return Path(sys.executable)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *versions.glob(f"{version}.*/bin/python")]
    for each in found:
        if each is None:
            continue
        told = subprocess.run([each, "--version"], capture_output=True, text=True, check=False)
        if re.match(rf"Python {re.escape(version)}\.", told.stdout):
            return Path(each)
    return None
