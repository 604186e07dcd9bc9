"""The Dockerfile's steps without a container engine, then its process as a stranger to the tree."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import urllib.request
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
    return {
        each.path
        for folder in ("/tmp", "/var/tmp", "/dev/shm")
        for each in os.scandir(folder)
        if each.stat(follow_symlinks=False).st_uid == USER
    }


def _all_files(folder: Path) -> set[str]:
    return {str(file) for file in folder.rglob("*")}
