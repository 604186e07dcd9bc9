"""h2spec against the gRPC port: what others take HTTP/2 to be."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.conformance.target import TRACES
from tests.end_to_end.service import Service

MODULE: Final = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
BUILD_SECONDS: Final = 240
RUN_SECONDS: Final = 120
CASES_MIN: Final = 146
"""Of that version, with those that it calls strict."""


def _installed(_folder: Path) -> str:
    """Where the program is, if it is on the path."""
    found = shutil.which("h2spec")
    return found or pytest.skip("h2spec is not installed")


def _built(folder: Path) -> str:
    """The program, built by Go where that is at hand."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go builds h2spec")
    given = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"}
    built = subprocess.run(
        [go, "install", MODULE],
        env=given,
        capture_output=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"h2spec cannot be built: {built.stderr.decode()[-200:]}")
    return str(folder / "h2spec")


@pytest.mark.timeout(BUILD_SECONDS + RUN_SECONDS)
@pytest.mark.parametrize(
    "program",
    [_installed, pytest.param(_built, marks=pytest.mark.long)],
    ids=["installed", "built"],
)
def test_every_case_passes(program: object, tmp_path: Path) -> None:
    """All cases pass, strict ones included; none fails and none is skipped."""
    assert callable(program)
    path = str(program(tmp_path))
    service = Service(["--specs", "dfa_specs"]).wait_ready()
    try:
        port = service.addresses["grpc"].rsplit(":", 1)[1]
        report = tmp_path / "report.xml"
        subprocess.run(
            [path, "-S", "-p", port, "-P", TRACES, "-o", "5", "-j", str(report)],
            capture_output=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    finally:
        assert service.stop() == 0
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    assert len(cases) >= CASES_MIN
    assert [case.attrib for case in cases if len(case)] == []
