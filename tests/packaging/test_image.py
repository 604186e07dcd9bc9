"""The image has all that its program needs: every verb runs from a wheel of exactly the files that its build copies."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.packaging.builds import built
from tests.samples import sampled

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy" / "docker"
OPEN_LISTENERS = {
    f"OFFRAILS_{name}": "127.0.0.1:0" for name in ("GRPC", "HTTP", "METRICS", "ADMIN", "DECIDE")
}
NOBODY = "http://127.0.0.1:9"
EVENT = {
    "session_id": "s1",
    "hook_event_name": "PreToolUse",
    "tool_name": "water",
    "tool_input": {},
}
AUTOMATON = {
    "dfa": {
        "nodes": [
            {
                "name": "G0",
                "is_final": False,
                "transitions": [{"symbols": ["A"], "from": "G0", "to": "G1"}],
            },
            {"name": "G1", "is_final": True, "transitions": []},
        ]
    },
    "alphabet": {"A": {"name": "Door__open", "arguments": {}}},
}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "water"}}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of a wheel that was built of the image's files, and nothing else."""
    source = tmp_path_factory.mktemp("source")
    for name in copied():
        here, there = ROOT / name, source / name
        there.parent.mkdir(parents=True, exist_ok=True)
        if here.is_dir():
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(here, there, ignore=unwanted, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy(here, there)
    place = tmp_path_factory.mktemp("packages")
    with ZipFile(built(source, tmp_path_factory.mktemp("wheel"), tmp_path_factory)) as wheel:
        wheel.extractall(place)
    return place


def copied() -> list[str]:
    """What the build stage copies, and the ignore file lets in."""
    first = (DOCKER / "Dockerfile").read_text().partition("AS demo-build")[0]
    let_in = {
        line[1:]
        for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    lines = re.findall(r"^COPY (.+)$", first, re.MULTILINE)
    return [name for line in lines for name in line.split()[:-1] if name in let_in]


class Image:
    """Runs the program with what the image has of ours, and with the packages that it depends on."""

    def __init__(self, packages: Path, folder: Path) -> None:
        # Without `site`, so that no link leads to the source; what is not in the wheel is not there.
        self.command = [sys.executable, "-S", "-m", "collector"]
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{packages}:{sysconfig.get_path('purelib')}",
            "PYTHONSAFEPATH": "1",
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.folder = folder

    def run(self, *arguments: Any, given: str = "") -> tuple[int, str]:
        done = subprocess.run(
            [*self.command, *map(str, arguments)], env=self.environment, cwd=self.folder,
            input=given, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def start(self, *arguments: Any, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command, *map(str, arguments)], env={**self.environment, **variables},
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def image(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    return Image(packages, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def service(image: Image) -> Iterator[dict[str, str]]:
    """The addresses of `offrails serve`, which has a journal."""
    process = image.start(
        "serve", "--specs", ROOT / "dfa_specs", "--state", image.folder / "state",
        **OPEN_LISTENERS,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        yield dict(re.findall(r"(\w+)=(\S+)", process.stdout.readline()))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def _tail(image: Image, service: dict[str, str]) -> None:
    with image.start("tail", f"http://{service['admin']}") as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.terminate()
        assert "Traceback" not in line + process.communicate()[1]


def _serve(image: Image, service: dict[str, str]) -> None:
    assert {"http", "grpc", "metrics", "admin", "decide"} <= service.keys()


def _hook(image: Image, service: dict[str, str]) -> None:
    hook = ("hook", "claude-code", "--on-unavailable", "deny", "--deadline", "20")
    assert image.run(*hook, "--url", NOBODY, given=json.dumps(EVENT))[0] == 2
    url = f"http://{service['decide']}"
    code, text = image.run(
        *hook, "--url", url, "--service", "farm-rover", given=json.dumps(EVENT)
    )
    assert (code, "Traceback" in text) == (0, False)


def _proxy(image: Image, service: dict[str, str]) -> None:
    echo = "import sys; sys.stdout.write(sys.stdin.readline())"
    proxy = ("mcp-proxy", "--url", f"http://{service['decide']}", "--deadline", "20", "--")
    line = json.dumps(CALL) + "\n"
    code, text = image.run(*proxy, sys.executable, "-c", echo, given=line)
    assert code == 0
    assert line in text


def _learn(image: Image, _: dict[str, str]) -> None:
    runs = image.folder / "runs.jsonl"
    calls = [{"name": "scan", "arguments": {}}]
    runs.write_text(
        "".join(json.dumps({"session": f"s{n}", "calls": calls}) + "\n" for n in range(3))
    )
    code, text = image.run("learn", runs, "--id", "r", "--out", image.folder / "r.yaml")
    assert (code, (image.folder / "r.yaml").exists()) == (0, True), text


def _import(image: Image, _: dict[str, str]) -> None:
    (image.folder / "door_1.json").write_text(json.dumps(AUTOMATON))
    code, text = image.run("import", "core", "door_1.json", "--out", "imported")
    assert (code, len(list((image.folder / "imported").glob("*.yaml")))) == (0, 1), text


def _ends(*arguments: Any, code: int, says: str) -> Callable[[Image, dict[str, str]], None]:
    def run(image: Image, service: dict[str, str]) -> None:
        named = [str(each).format(**service) for each in arguments]
        found, text = image.run(*named)
        assert (found, says in text, "Traceback" in text) == (code, True, False), text

    return run


SPECS = ROOT / "dfa_specs"
RECORDING = ROOT / "examples" / "recordings" / "langgraph" / "bad.jsonl.gz"
DESK = ROOT / "examples" / "specs"

VERBS: dict[str, Callable[[Image, dict[str, str]], None]] = {
    "serve": _serve,
    "replay": _ends("replay", RECORDING, "--specs", DESK, "--table", code=0, says="harmful calls:"),
    "check": _ends("check", SPECS, code=0, says="0 errors"),
    "accept": _ends(
        "accept", "s#1", "--specs", DESK, "--runs", RECORDING, "--why", "x", "--until",
        "2999-12-31", code=1, says="no harmful call goes by that name",
    ),
    "draw": _ends("draw", SPECS / "farm_rover.yaml", code=0, says="stateDiagram"),
    "init": _ends("init", "--from", RECORDING, code=0, says="refund"),
    "learn": _learn,
    "tail": _tail,
    "doctor": _ends("doctor", "http://{http}", "--admin", "http://{admin}", code=0, says="ok"),
    "import": _import,
    "export": _ends("export", "--from", "nowhere", code=1, says="expected a folder with an archive"),
    "feedback": _ends(
        "feedback", "nobody", "right", "--url", "http://{admin}", code=1, says="set archive.dir"
    ),
    "judge": _ends("judge", RECORDING, "--dry-run", code=0, says="order-1 / LC: system"),
    "harness": _ends("harness", "list", code=0, says="shop/buy_tea"),
    "hook": _hook,
    "mcp-proxy": _proxy,
    "journal": _ends("journal", "verify", "state", code=0, says=""),
}  # fmt: skip


SAMPLE = ("serve", "replay", "harness", "hook")
"""`make test-long` runs all verbs: each needs no other module than those of the next test, but for what it reads."""

LOADS_ALL = """
import importlib, pkgutil, sys
for package in sys.argv[1:]:
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, package + '.'):
        if not found.name.endswith('.__main__'):
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as problem:
                if (problem.name or '').partition('.')[0] in sys.argv[1:]:
                    raise
            print(found.name)
"""


@pytest.mark.parametrize("verb", sampled(VERBS, SAMPLE))
def test_the_image_runs_each_verb(image: Image, service: dict[str, str], verb: str) -> None:
    """Each does its work, or says what is wrong with what it was given; none lacks a module."""
    VERBS[verb](image, service)


def test_no_module_lacks_another_of_ours(image: Image, packages: Path) -> None:
    """Each module of the image loads, with those alone that the image has: also where a verb loads it late."""
    ours = sorted(each.parent.name for each in packages.glob("*/__init__.py"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOADS_ALL, *ours], env=image.environment, cwd=image.folder,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = {
        ".".join(file.relative_to(packages).with_suffix("").parts).removesuffix(".__init__")
        for name in ours
        for file in (packages / name).rglob("*.py")
        if file.name != "__main__.py" and (file.parent / "__init__.py").exists()
    }
    assert {"collector", "monitor", "offrails_guard"} <= set(ours)
    assert files - set(ours) == set(done.stdout.split())


def test_no_verb_is_left_out(image: Image) -> None:
    """The program's own help names the verbs of the table above."""
    code, text = image.run("--help")
    named = re.findall(r"^    ([a-z][a-z-]*)(?: |$)", text, re.MULTILINE)

    assert (code, set(named)) == (0, set(VERBS))
