"""A support desk under rules over data: which order was looked up, and where an address comes from.

The desk prints what it does and reads. The service is asked at the end: no session has a harmful call, and the
calls that were denied are those that these rules alone can deny.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from collector.offline.tables import printable
from tests.demo.desk import POLICIES
from tests.demo.guarded import Prevented, prevented_lines
from tests.demo.processes import SPECS, agent, say, serving, stay
from tests.demo.words import Paint, places

__all__ = ["PREVENTED", "blocking", "faults", "show"]

PREVENTED: Final = {
    "1 by the book": [],
    "2 an order that was not looked up": ["refund"],
    "3 one order twice": ["refund"],
    "4 an address that a page named": ["send_email"],
}
"""Session -> the tools whose calls are denied."""


def show(paint: Paint, *, staying: bool) -> int:
    """Runs the demo; 0 when the service agrees that what should be was denied, and nothing else."""
    with (
        TemporaryDirectory() as folder,
        serving(blocking(Path(folder))) as service,
        agent(
            "tests.demo.desk",
            service,
            GUARD_URL=f"http://{service.places['decide']}",
            OTEL_SERVICE_NAME="support-desk",
            OTEL_EXPORTER_OTLP_TIMEOUT="30",
            OTEL_RESOURCE_ATTRIBUTES=f"offrails.policies={' '.join(POLICIES)}",
        ) as desk,
    ):
        say("A support desk asks offrails before each of its tool calls. Two policies block:")
        say(f"  {', '.join(POLICIES)} (dfa_specs/policies)")
        for line in places(service.places):
            say(line)
        desk.wait()
        judgements = [each for policy in POLICIES for each in service.judgements(policy)]
        prevented = {session: service.prevented(session) for session in PREVENTED}
        for line in _closing(judgements, prevented, paint):
            say(line)
        found = faults(judgements, prevented)
        for line in found:
            say(f"NOT as promised: {line}")
        if staying:
            stay(service)
    return desk.returncode or service.process.returncode or int(bool(found))


def blocking(folder: Path) -> Path:
    """A folder with the two bundled policies, which block."""
    for policy in POLICIES:
        text = (SPECS / "policies" / f"{policy}.yaml").read_text()
        text = text.replace("mode: shadow", "mode: shadow\nenforce: block")
        (folder / f"{policy}.yaml").write_text(text)
    return folder


def faults(judgements: Sequence[Mapping[str, Any]], prevented: Prevented) -> list[str]:
    """What is not as the demo promises, in words; nothing where all is well."""
    found = [
        f"session {each['session']} has {each['harmful']} harmful calls under {each['spec']}"
        for each in judgements
        if each["harmful"]
    ]
    for session, expected in PREVENTED.items():
        tools = [call["tool"] for call in prevented.get(session, ())]
        if tools != expected:
            found.append(f"session {session} had {tools} denied, not {expected}")
    return found


def _closing(
    judgements: Sequence[Mapping[str, Any]], prevented: Prevented, paint: Paint
) -> Iterator[str]:
    yield ""
    yield paint("the orders of each session", "1")
    yield f"  {'session':<34}{'order':<16}{'calls':>5}{'harmful':>9}"
    for judgement in judgements:
        for thing in judgement.get("things") or ():
            order = printable(str(thing["value"]))
            row = f"  {printable(judgement['session']):<34}{order:<16}"
            yield f"{row}{thing['calls']:>5}{thing['harmful']:>9}"
    yield from prevented_lines(prevented, paint)
