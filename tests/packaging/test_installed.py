"""An installed offrails reports its version, serves and judges, however it was installed.

`OFFRAILS_PROGRAM` names the program (a path), `OFFRAILS_BUILD` the build it must be; without them it is the one that
is installed beside these tests.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.end_to_end.service import OFFRAILS, Service
from tests.end_to_end.traffic import Rover, send

ROVER = Path(__file__).parents[2] / "dfa_specs" / "farm_rover.yaml"
BUILD = os.environ.get("OFFRAILS_BUILD", "plain|compiled")


def test_the_wheel_names_its_version_and_build() -> None:
    """The version and the build; no compiler is asked for."""
    told = subprocess.run(
        [*OFFRAILS, "--version"], capture_output=True, text=True, check=True
    ).stdout

    assert re.fullmatch(rf"offrails \d+\.\d+\.\d+\S* \(({BUILD})\)\n", told)


def test_it_serves_and_judges() -> None:
    """Spans of a real exporter, over both transports, become verdicts; the build is shown on /metrics."""
    service = Service(("--specs", str(ROVER)), {"OFFRAILS_HISTORY": "complete"})
    try:
        service.wait_ready()
        over_grpc = Rover("over_grpc", 1).calls("unlock_safety", "fly")
        over_http = Rover("over_http", 2).calls("unlock_safety", "fly")
        send(service, over_grpc.spans, "grpc")
        send(service, over_http.spans, "http_proto")
        for session in (over_grpc, over_http):
            assert service.judgement(session.session)["harmful"] == 1
        exposed = service.get("/metrics", "metrics").body.decode()
        assert re.search(rf'offrails_build_info\{{.*build="({BUILD})"', exposed)
        assert service.stop() == 0
    finally:
        service.kill()
