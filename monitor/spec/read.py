"""Spec files and folders: the only file access of the monitor."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from monitor.errors import SpecError
from monitor.findings import Finding, finding, has_errors
from monitor.spec.compiler.compile import compile_text
from monitor.spec.document.yaml_text import SIZE_MAX
from monitor.spec.spec import Spec

__all__ = ["LoadedSpecs", "load_spec", "load_specs", "spec_files"]

SUFFIXES = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class LoadedSpecs:
    """Specs of some files, and everything that was found in them, refused files included.

    It is what a `Monitor` takes: to go through it gives its specs.
    """

    specs: tuple[Spec, ...]
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> bool:
        """True when a file was refused."""
        return has_errors(self.findings)

    def __iter__(self) -> Iterator[Spec]:
        """The specs.

        Raises:
            SpecError: a file was refused. `specs` has those of the others.
        """
        if self.refused:
            raise SpecError([each for each in self.findings if each.severity == "error"])
        return iter(self.specs)


def load_specs(paths: Iterable[Path | str], day: date | None = None) -> LoadedSpecs:
    """Compiles the specs of files and folders, each file by itself.

    Folders are read recursively (*.yaml and *.yml, by name, hidden ones left out); a file that is
    named is read whatever its suffix. A folder or a file that cannot be read is an error. A file that is reached twice counts once. Of two specs
    with one id the second is refused. Accepted calls that have expired by `day` are harmful again.
    """
    specs: dict[str, Spec] = {}
    findings: list[Finding] = []
    for path in _files(paths, findings):
        spec, found = _load(path, day)
        findings += found
        if spec is None:
            continue
        if spec.id in specs:
            message = f"{spec.id!r} is already the id of {specs[spec.id].file}"
            findings.append(finding("duplicate_spec_id", message, str(path), 1, 1, "id"))
        else:
            specs[spec.id] = spec
    return LoadedSpecs(tuple(specs.values()), tuple(findings))


def load_spec(path: Path | str, day: date | None = None) -> Spec:
    """The spec in one file, on a day.

    Raises:
        SpecError: the file cannot be read, or the spec is refused.
    """
    spec, found = _load(Path(path), day)
    if spec is None:
        raise SpecError([each for each in found if each.severity == "error"])
    return spec


def spec_files(paths: Iterable[Path | str]) -> list[Path]:
    """The files that `load_specs` would read."""
    return _files(paths, [])


def _files(paths: Iterable[Path | str], findings: list[Finding]) -> list[Path]:
    """Files in order, each once; a path that leads to none is a finding."""
    files: dict[str, Path] = {}
    for path in map(Path, paths):
        if not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where it may not look
            # A missing file is found out by reading it.
            files.setdefault(_real(path), path)
            continue
        before = len(findings)
        inside = _inside(path, findings)
        if not inside and len(findings) == before:
            findings.append(finding("no_specs", "no *.yaml or *.yml file in it", str(path)))
        for each in inside:
            files.setdefault(_real(each), each)
    return list(files.values())


def _real(path: Path) -> str:
    """Where a path leads, by which two ways to one file are known."""
    try:
        return os.path.realpath(path)
    except ValueError:  # no path at all, such as one with a NUL
        return str(path)


def _inside(folder: Path, findings: list[Finding]) -> list[Path]:
    """The spec files of a folder and of those in it, by name; one that cannot be listed is a finding.

    Hidden folders are left out: Kubernetes keeps the versions of a mounted ConfigMap in
    `..2026_01_31`, beside the links that are meant. Links to folders are not followed.
    """
    found: list[Path] = []
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(here / entry.name)
                    elif _may_be_spec(entry):
                        found.append(here / entry.name)
        except OSError as problem:
            message = f"this folder cannot be listed: {problem.strerror or problem}"
            findings.append(finding("unreadable_file", message, str(here)))
    return sorted(found)


def _may_be_spec(entry: os.DirEntry[str]) -> bool:
    """True for a spec file, and for what may be one: reading it says what is wrong with it."""
    if Path(entry.name).suffix not in SUFFIXES:
        return False
    try:
        mode = entry.stat().st_mode
    except OSError:  # a link that leads nowhere, or where nobody may look
        return True
    return stat.S_ISREG(mode)


def _load(path: Path, day: date | None) -> tuple[Spec | None, tuple[Finding, ...]]:
    file = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(SIZE_MAX + 1)
    except (
        OSError,
        ValueError,
    ) as problem:  # ValueError: no path at all, such as one with a NUL
        message = getattr(problem, "strerror", None) or str(problem)
        return None, (finding("unreadable_file", message, file),)
    if len(raw) > SIZE_MAX:
        return None, (finding("too_large", f"more than {SIZE_MAX:,} bytes", file),)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        column = problem.start - raw.rfind(b"\n", 0, problem.start)
        message = f"byte 0x{raw[problem.start]:02x} is not UTF-8"
        return None, (finding("not_utf8", message, file, line, column),)
    return compile_text(text, file, day)
