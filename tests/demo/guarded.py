"""A rover that asks before each call: what would be harmful is denied, and the task is finished all the same.

The rover prints what it does and reads. The service is asked at the end: each session has no harmful call,
is finished, and shows what was prevented.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from collector.offline.tables import printable
from tests.demo.observed import GAUGES, TASK
from tests.demo.processes import SPECS, Service, agent, say, serving, stay
from tests.demo.words import Paint, places, report

__all__ = ["Prevented", "blocking", "faults", "prevented_lines", "show"]

DECISIONS = 'offrails_decisions_total{decision="deny",spec="farm_rover"}'

Prevented = Mapping[str, Sequence[Mapping[str, Any]]]
"""Session -> calls that were denied and not made."""


def show(paint: Paint, *, staying: bool) -> int:
    """Runs the demo; 0 when the service agrees that nothing harmful was done and every task is finished."""
    with (
        TemporaryDirectory() as folder,
        serving(blocking(Path(folder))) as service,
        agent(
            "tests.demo.guarded_rover", service, GUARD_URL=f"http://{service.places['decide']}"
        ) as rover,
    ):
        say(
            "A farm rover asks offrails before each of its tool calls. The spec says enforce: block."
        )
        say(f"  asks     http://{service.places['decide']}/api/v1/decide")
        for line in places(service.places):
            say(line)
        rover.wait()
        judgements = service.judgements(TASK)
        prevented = {each["session"]: service.prevented(each["session"]) for each in judgements}
        for line in _closing(service, judgements, prevented, paint):
            say(line)
        found = faults(judgements, prevented)
        for line in found:
            say(f"NOT as promised: {line}")
        if staying:
            stay(service)
    return rover.returncode or service.process.returncode or int(bool(found))


def blocking(folder: Path) -> Path:
    """A folder with the bundled specs of the rover, of which the task blocks."""
    for name in ("farm_rover.yaml", "rover_policy.yaml"):
        text = (SPECS / name).read_text()
        if name == "farm_rover.yaml":
            text = text.replace("mode: shadow", "mode: shadow\nenforce: block")
        (folder / name).write_text(text)
    return folder


def faults(judgements: Sequence[Mapping[str, Any]], prevented: Prevented) -> list[str]:
    """What is not as the demo promises, in words; nothing where all is well."""
    found = [
        f"session {each['session']} has {each['harmful']} harmful calls and ended in {each['state']}"
        for each in judgements
        if each["harmful"] or not each["accepting"]
    ]
    if not any(prevented.values()):
        found.append("no call was prevented")
    return found


def _closing(
    service: Service,
    judgements: Sequence[Mapping[str, Any]],
    prevented: Prevented,
    paint: Paint,
) -> Iterator[str]:
    counts = Counter({session: len(calls) for session, calls in prevented.items()})
    yield from report(judgements, service.samples(*GAUGES, DECISIONS), paint, counts)
    yield from prevented_lines(prevented, paint)


def prevented_lines(prevented: Prevented, paint: Paint) -> Iterator[str]:
    """What was denied and not made, session by session."""
    yield ""
    yield paint("what was prevented, as the sessions show it", "1")
    for session, calls in prevented.items():
        for call in calls:
            why = (call["reason"] or "").replace("_", " ")
            yield f"  {printable(session):<34}{printable(call['tool']):<16}{why}"
