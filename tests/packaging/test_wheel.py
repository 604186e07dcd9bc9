"""The wheels have the right contents, and work in an empty environment without a compiler."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Iterator
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.builds import ROOT, built, pip

OF_THE_GUARD_ALONE = {
    f"offrails_guard/{name}" for name in ("LICENSE", "README.md", "pyproject.toml")
}
OUR_PATHS = ("PYTHONPATH", "PYTHONSAFEPATH")
pytestmark = pytest.mark.timeout(900)
BUILDS = [
    "plain",
    pytest.param("plain, with what the package index has", marks=pytest.mark.long),
    pytest.param("compiled", marks=pytest.mark.long),
]


class Built(NamedTuple):
    """A wheel, which build it must be, and whether what it needs comes from the package index."""

    file: Path
    build: str
    from_index: bool


@pytest.fixture(scope="module", params=BUILDS)
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Plain, or the one that `make wheel` has left in dist/; else one is compiled untrained."""
    if request.param != "compiled":
        file = built(ROOT, tmp_path_factory.mktemp("wheel"), tmp_path_factory)
        return Built(file, "plain", request.param != "plain")
    ours = f"cp{sys.version_info.major}{sys.version_info.minor}"
    made = sorted((ROOT / "dist").glob(f"offrails-*-{ours}-*.whl"), key=os.path.getmtime)
    if made:
        return Built(made[-1], "compiled", True)
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("no compiler, and no compiled wheel in dist/")
    place = tmp_path_factory.mktemp("wheel")
    untrained = {**os.environ, "OFFRAILS_NATIVE": "untrained"}
    pip("wheel", "--no-deps", "--wheel-dir", place, ROOT, environment=untrained)
    [file] = place.glob("*.whl")
    return Built(file, "compiled", True)


@pytest.fixture(scope="module")
def empty(wheel: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs of an environment that holds the wheel and what it needs, and nothing else."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place)
    programs = place / "bin"
    without = {"PATH": str(programs), "CC": "/nonexistent", "CXX": "/nonexistent"}
    given: tuple[str, ...] = ("--constraint", str(ROOT / "constraints.txt"))
    if not wheel.from_index:
        given = ("--no-deps",)
        [packages] = place.glob("lib/python3*/site-packages")
        for name in _closure(_metadata(wheel).get_all("Requires-Dist", []), "demo", "grpcio"):
            _link(name, packages)
    # What is loaded of it is compiled as it is loaded: that is a part of it.
    pip(
        "--python", programs / "python", "install", "--no-compile", "--only-binary", ":all:",
        *given, f"{wheel.file}[demo,grpcio]",
        environment={**_bare(), **without},
    )  # fmt: skip
    yield programs
    shutil.rmtree(place)


def test_it_holds_the_program_and_nothing_else(wheel: Built) -> None:
    """Each module and data file of all packages, as machine code where it is compiled; no tests, no caches."""
    with ZipFile(wheel.file) as archive:
        names = set(archive.namelist())
    sources = {
        str(file.relative_to(ROOT))
        for folder in ("collector", "guard", "harness", "judges", "monitor", "offrails_guard")
        for file in _tracked(folder)
    } | {
        f"collector/api/session_view/runbooks/{file.name}" for file in _tracked("docs/runbooks")
    }
    compiled = {name for name in names if name.endswith(".so")}

    assert sources <= names
    assert {name for name in names - sources - compiled if ".dist-info/" not in name} == set()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    wanted = (
        {f"{module}{suffix}" for module in _hot_modules()}
        if wheel.build == "compiled"
        else set()
    )
    # mypyc adds one module in which the code of all others is.
    assert {name for name in compiled if "/" in name} == wanted
    assert len(compiled - wanted) == (wheel.build == "compiled")


def test_its_metadata_is_complete(wheel: Built) -> None:
    """The tag names this machine if compiled, the licence is in it, and dependencies equal pyproject.toml's."""
    metadata = _metadata(wheel)
    with ZipFile(wheel.file) as archive:
        names = archive.namelist()

    assert ("-py3-none-any" in wheel.file.name) == (wheel.build == "plain")
    assert metadata["Name"] == "offrails"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert any(need.startswith("pydantic") for need in metadata.get_all("Requires-Dist", []))


def test_it_serves_in_an_empty_environment(wheel: Built, empty: Path) -> None:
    """It says which build it is, serves and judges."""
    _tests("tests/packaging/test_installed.py", empty, wheel)


def test_the_training_of_a_build_needs_nothing_that_the_program_does_not() -> None:
    """A compiled build is trained where there is no pytest, and nothing else that is for tests alone."""
    there = _needed("offrails")
    absent = [
        name
        for name, of in packages_distributions().items()
        if there.isdisjoint(canonicalize_name(each) for each in of)
    ]
    assert "pytest" in absent
    code = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); import tests.bench.training"
    subprocess.run([sys.executable, "-c", code, *absent], cwd=ROOT, check=True, timeout=60)


def _needed(name: str, *extras: str) -> set[str]:
    """A distribution, and what it needs with some of its extras, directly or not."""
    found: set[str] = {canonicalize_name(name)}
    return found | _closure(distribution(name).requires or (), *extras)


def _closure(requires: Iterable[str], *extras: str) -> set[str]:
    """What lines of metadata ask for with some extras, directly or not."""
    found: set[str] = set()
    for line in requires:
        one = Requirement(line)
        if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in ("", *extras)):
            found |= _needed(one.name, *one.extras)
    return found


def _metadata(wheel: Built) -> Message:
    with ZipFile(wheel.file) as archive:
        [info] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(info))


def _link(name: str, packages: Path) -> None:
    """Makes a distribution of our own environment one of another, whose packages are in a folder."""
    for file in distribution(name).files or ():
        if ".." not in file.parts and (there := Path(str(file.locate()))).exists():
            here = packages / file
            here.parent.mkdir(parents=True, exist_ok=True)
            here.symlink_to(there)


@pytest.mark.long
def test_it_passes_the_conformance_suite(wheel: Built, empty: Path) -> None:
    """Every case of the receiver, against the installed program."""
    _tests("tests/conformance/test_conformance.py", empty, wheel)


@pytest.mark.long
def test_it_shows_the_demo(wheel: Built, empty: Path, tmp_path: Path) -> None:
    """`make demo`, with the installed packages in place of the source."""
    for folder in ("tests", "dfa_specs"):
        shutil.copytree(
            ROOT / folder,
            tmp_path / folder,
            ignore=shutil.ignore_patterns("__pycache__"),
            symlinks=True,
        )
    shown = subprocess.run(
        [empty / "python", "-m", "tests.demo"],
        cwd=tmp_path, env=_bare(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert shown.returncode == 0, shown.stderr
    assert "harmful" in shown.stdout


def _tests(path: str, programs: Path, wheel: Built) -> None:
    """Runs tests of ours against the installed program."""
    environment = _bare() | {
        "OFFRAILS_PROGRAM": str(programs / "offrails"),
        "OFFRAILS_BUILD": wheel.build,
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:randomly", "-m", "not long", path],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def _bare() -> dict[str, str]:
    """The environment without our paths, so a program loads what is installed beside it."""
    return {key: value for key, value in os.environ.items() if key not in OUR_PATHS}


def _tracked(folder: str) -> list[Path]:
    """Files of a package, without what Python and editors leave."""
    return [
        file
        for file in (ROOT / folder).rglob("*")
        if file.is_file()
        and "__pycache__" not in file.parts
        and file.suffix != ".so"
        and str(file.relative_to(ROOT)) not in OF_THE_GUARD_ALONE
    ]


def _hot_modules() -> set[str]:
    """Paths, without suffix, of the modules that hatch_build.py compiles."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse((ROOT / "hatch_build.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("COMPILED", "IN_C"):
                found[name] = ast.literal_eval(node.value)
    ours = {
        f"{folder}/{name}"
        for folder, names in found["COMPILED"].items()
        for name in names.split()
    }
    return ours | {module.replace(".", "/") for module in found["IN_C"]}
