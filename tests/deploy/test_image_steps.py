"""The Dockerfile's steps without a container engine, then its process as a stranger to the tree."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tomllib
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
USER = 10001


@pytest.mark.long
@pytest.mark.timeout(600)
def test_image_steps_make_a_service(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Installed as the image installs it, it runs as 10001 and writes nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("no interpreter that another user may run")
    source, home = (
        _copied(tmp_path_factory.mktemp("image")),
        Path("/tmp") / f"image-{os.getpid()}",
    )
    home.mkdir(mode=0o755)
    try:
        _installed(python, source, home)
        _serves(home)
    finally:
        shutil.rmtree(home)


def _copied(folder: Path) -> Path:
    """The files that `COPY` brings into the first stage."""
    for line in re.findall(r"^COPY (.+)$", _first_stage(), re.MULTILINE):
        *names, target = line.split()
        for name in names:
            if (ROOT / name).is_dir():
                unwanted = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, folder / target, ignore=unwanted, symlinks=True)
            else:
                shutil.copy(ROOT / name, folder / target)
    return folder


def _first_stage() -> str:
    return DOCKERFILE.read_text().partition("AS demo-build")[0]


def _installed(python: str, source: Path, home: Path) -> None:
    """The stage's RUN lines, with another place for /opt."""
    steps = _first_stage().replace("\\\n", "").replace("/opt/offrails", str(home / "offrails"))
    for line in re.findall(r"^RUN (.+)$", steps, re.MULTILINE):
        done = subprocess.run(
            ["sh", "-c", re.sub("^python ", f"{shlex.quote(python)} ", line)],
            cwd=source,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr[-2000:])
    shutil.copytree(ROOT / "dfa_specs", home / "specs")


def _serves(home: Path) -> None:
    variables = {
        f"OFFRAILS_{name}": "127.0.0.1:0"
        for name in ("GRPC", "HTTP", "METRICS", "ADMIN", "DECIDE")
    }
    before = _all_files(home)
    process = subprocess.Popen(
        [home / "offrails" / "bin" / "offrails", "serve"],
        cwd="/",
        env={**variables, "OFFRAILS_SPECS": str(home / "specs"), "PYTHONSAFEPATH": "1"},
        user=USER,
        group=USER,
        extra_groups=[],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert "specs=2" in line, (line, process.stderr.read() if process.stderr else "")
        address = dict(re.findall(r"(\w+)=(\S+)", line))["admin"]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{address}/page/page.js", timeout=5) as answer:
            assert answer.status == 200
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0
    assert _all_files(home) == before
    assert _written() == set()


def _written() -> set[str]:
    """The files that the user left in world-writable folders."""
    found = set()
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        for each in os.scandir(folder):
            with suppress(FileNotFoundError):  # another process has taken its own away
                if each.stat(follow_symlinks=False).st_uid == USER:
                    found.add(each.path)
    return found


def _all_files(folder: Path) -> set[str]:
    return {str(file) for file in folder.rglob("*")}


# --- what it is made of ---------------------------------------------------------------------------


def _pins(name: str) -> dict[str, str]:
    """Package and version of each requirement of a file; the same package may have one for other systems."""
    text = (ROOT / name).read_text()
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["requirements", "build-requirements"])
def test_what_is_installed_is_checked_against_hashes(name: str) -> None:
    """Each requirement has hashes, and the version of constraints.txt; the image installs nothing without."""
    file = f"deploy/docker/{name}.txt"
    lines = (ROOT / file).read_text().replace("\\\n", " ").splitlines()
    assert all("--hash=sha256:" in line for line in lines if line.strip())
    known = {key.lower().replace("_", "-"): n for key, n in _pins("constraints.txt").items()}
    assert {key: n for key, n in _pins(file).items() if known.get(key, n) != n} == {}
    installs = re.findall(r"pip install ([^\n&]+)", DOCKERFILE.read_text())
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


def test_what_the_program_needs_is_in_the_image() -> None:
    """Each dependency and each extra of the image has its line, so that the wheel needs no index."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["otlp"], *extras["guard"], *extras["demo"]]
    names = {re.split(r"[^A-Za-z0-9_.-]", each)[0].lower() for each in wanted}
    assert names <= set(_pins("deploy/docker/requirements.txt"))
    assert {"hatchling", "mypy", "setuptools"} <= set(
        _pins("deploy/docker/build-requirements.txt")
    )


def test_actions_are_named_by_their_commits() -> None:
    """A tag can be moved to other code; the release still has an SBOM and says where it was built."""
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        for used in re.findall(r"uses: (.+)", file.read_text()):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", used), (file.name, used)
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "provenance: mode=max" in release
    assert "sbom: true" in release
    assert "BASE=${{ steps.base.outputs.image }}" in release
