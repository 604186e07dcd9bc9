"""Spec files and folders: the only file access of the monitor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from monitor.errors import SpecError
from monitor.spec.compile import compile_text
from monitor.spec.document import SIZE_MAX
from monitor.spec.findings import Finding, finding, has_errors
from monitor.spec.spec import Spec

__all__ = ["Loaded", "load_spec", "load_specs", "spec_files"]

SUFFIXES = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class Loaded:
    """Specs of some files, and everything that was found in them, refused files included."""

    specs: tuple[Spec, ...]
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> bool:
        """True when a file was refused."""
        return has_errors(self.findings)


def load_specs(paths: Iterable[Path | str], day: date | None = None) -> Loaded:
    """Compiles the specs of files and folders, each file by itself.

    Folders are read recursively (*.yaml and *.yml, by name, hidden ones left out); a file that is
    named is read whatever its suffix. A file that is reached twice counts once. Of two specs
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
            said = f"{spec.id!r} is already the id of {specs[spec.id].file}"
            findings.append(finding("duplicate_spec_id", said, str(path), 1, 1, "id"))
        else:
            specs[spec.id] = spec
    return Loaded(tuple(specs.values()), tuple(findings))


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
    files: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            files.setdefault(path.resolve(), path)  # a missing file is found out by reading it
            continue
        inside = _inside(path)
        if not inside:
            findings.append(finding("no_specs", "no *.yaml or *.yml file in it", str(path)))
        for each in inside:
            files.setdefault(each.resolve(), each)
    return list(files.values())


def _inside(folder: Path) -> list[Path]:
    # A link that leads nowhere is found out by reading it. Hidden folders are left out: Kubernetes keeps the versions of a mounted ConfigMap in
    # `..2026_01_31`, beside the links that are meant.
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES
        and (path.is_file() or (path.is_symlink() and not path.exists()))
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _load(path: Path, day: date | None) -> tuple[Spec | None, tuple[Finding, ...]]:
    file = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(SIZE_MAX + 1)
    except OSError as problem:
        said = problem.strerror or str(problem)
        return None, (finding("unreadable_file", said, file),)
    if len(raw) > SIZE_MAX:
        return None, (finding("too_large", f"more than {SIZE_MAX:,} bytes", file),)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        column = problem.start - raw.rfind(b"\n", 0, problem.start)
        said = f"byte 0x{raw[problem.start]:02x} is not UTF-8"
        return None, (finding("not_utf8", said, file, line, column),)
    return compile_text(text, file, day)
