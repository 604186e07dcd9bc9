"""With a log that is unread or unwritable, the service starts, judges, answers and ends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.service import OFFRAILS, SPECS, Service, eventually
from tests.end_to_end.traffic import Rover, as_json

REQUESTS = 10
OVER_THE_QUEUE = 100
"""With more lines than the queue holds."""
CALLS = 50

Start = Callable[..., Service]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts services whose streams are given, and ends them."""
    begun: list[Service] = []

    def one(stderr: int, **variables: str) -> Service:
        service = Service(
            ("--specs", str(SPECS), "--history", "complete"),
            {"OFFRAILS_SESSIONS_WINDOW_SECONDS": "0", **variables},
            stderr=stderr,
        )
        begun.append(service)
        return service

    yield one
    for each in begun:
        each.kill()


def harmful(number: int) -> bytes:
    """A request of harmful calls."""
    return as_json(Rover(f"bad-{number}", number).calls(*["water"] * CALLS).spans)


def judge_all(service: Service, requests: int = REQUESTS) -> None:
    """Every request is answered, and the service is healthy during and after them."""
    for number in range(requests):
        assert service.post(harmful(number)).status == 200
        if number % 10 == 0:
            assert service.get("/-/healthy", "metrics").status == 200
    assert service.get("/-/healthy", "metrics").status == 200
    eventually(lambda: service.metric("offrails_harmful_calls_total") >= requests)


def full_pipe() -> tuple[int, int]:
    """A full pipe that no process reads."""
    reader, end = os.pipe()
    os.set_blocking(end, False)
    try:
        while True:
            os.write(end, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(end, True)
    return reader, end


def test_standard_error_that_nobody_reads(start: Start) -> None:
    """With a full pipe of 64 KiB, requests are answered, and SIGTERM ends the service."""
    reader, end = full_pipe()
    service = start(stderr=end).wait_ready()
    judge_all(service)

    assert service.stop() == 0
    os.close(reader)
    os.close(end)


def test_lines_that_nobody_reads_are_counted(start: Start) -> None:
    """More lines than the queue holds: those that are lost are counted, by the reason."""
    reader, end = full_pipe()
    service = start(
        stderr=end,
        OFFRAILS_LOG_VERDICT_LINES_PER_SECOND="1000000",
        OFFRAILS_LOG_NAMESPACE_LINES_PER_SECOND="1000000",
    ).wait_ready()
    judge_all(service, OVER_THE_QUEUE)

    lost = service.metric("offrails_log_lines_dropped_total", reason="queue_full")
    assert lost > 0
    assert service.metric("offrails_log_lines_dropped_total", reason="write_failed") == 0
    assert service.stop() == 0
    os.close(reader)
    os.close(end)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_standard_error_on_a_full_disk(start: Start) -> None:
    """Lines are lost and counted, and nothing else happens."""
    full = os.open("/dev/full", os.O_WRONLY)
    service = start(stderr=full).wait_ready()
    judge_all(service)

    assert service.metric("offrails_log_lines_dropped_total", reason="write_failed") > 0
    assert service.stop() == 0
    os.close(full)


def test_standard_output_that_cannot_be_written(start: Start, tmp_path: Path) -> None:
    """The line that says where the service listens is lost; the service is there, and ends well."""
    reader, end = full_pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    for number, out in enumerate((end, full)):
        path = f"unix:{tmp_path}/http-{number}"
        metrics = f"unix:{tmp_path}/metrics-{number}"
        service = Service(
            ("--specs", str(SPECS), "--http", path, "--metrics", metrics), stdout=out
        )
        try:
            service.addresses = {"http": path, "metrics": metrics}
            wait_healthy(service)
            assert service.post(harmful(1)).status == 200
            lost = service.metric("offrails_log_lines_dropped_total", reason="write_failed")
            assert lost == number
            assert service.stop() == 0
        finally:
            service.kill()
    for each in (reader, end, full):
        os.close(each)


def wait_healthy(service: Service) -> None:
    """Waits until the service answers."""

    def healthy() -> bool:
        try:
            return service.get("/-/healthy", "metrics").status == 200
        except OSError:
            return False

    eventually(healthy, 30)


def test_closed_streams(tmp_path: Path) -> None:
    """With both output streams closed, the service serves and ends with exit code 0."""
    path, metrics = f"unix:{tmp_path}/http", f"unix:{tmp_path}/metrics"
    arguments = ("--specs", str(SPECS), "--http", path, "--metrics", metrics)
    program = ("sh", "-c", 'exec "$@" >&- 2>&-', "sh", *OFFRAILS)
    service = Service(arguments, program=program, stdout=subprocess.DEVNULL)
    try:
        service.addresses = {"http": path, "metrics": metrics}
        wait_healthy(service)
        assert service.post(harmful(1)).status == 200
        assert service.stop() == 0
    finally:
        service.kill()


def test_a_start_that_fails_ends_though_nobody_reads_why(tmp_path: Path) -> None:
    """The exit code says it."""
    reader, end = full_pipe()
    failing = {("--http", "unix:/nonexistent/socket"): 1, ("--specs", "x.y"): 2}
    services = [Service(arguments, stderr=end) for arguments in failing]
    codes = [service.process.wait(60) for service in services]
    assert codes == list(failing.values())
    os.close(reader)
    os.close(end)


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize(
    ("arguments", "code"), [(("tail", "http://127.0.0.1:1"), 1), (("tail", "--twice"), 2)]
)
def test_a_verb_that_fails_says_so_by_its_code_though_nobody_reads_why(
    arguments: tuple[str, ...], code: int, *, is_full: bool
) -> None:
    """Whoever would read standard error has gone, or does not read: the exit code is the same."""
    reader, end = full_pipe() if is_full else os.pipe()
    if not is_full:
        os.close(reader)
    ended = subprocess.run((*OFFRAILS, *arguments), stderr=end, check=False, timeout=60)
    assert ended.returncode == code
    os.close(end)
    if is_full:
        os.close(reader)
