"""What only a real process shows: it is killed, stopped, or refuses spans while agents work.

Two dozen conversations at once, a quarter as long as in other worlds, are sent to `offrails serve` as time passes.
"""

from __future__ import annotations

import contextlib
import http.client
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import yaml

from tests.end_to_end.service import Service
from tests.simulation.worlds import laws, specs
from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.emitters import Emission, Emitter
from tests.simulation.worlds.fault import Hides
from tests.simulation.worlds.laws import Broken
from tests.simulation.worlds.service import TELLING, Told
from tests.simulation.worlds.spans import BEGIN, Request, body, requests
from tests.simulation.worlds.truth import Conversation, conversations, renumber
from tests.simulation.worlds.world import World

_CONVERSATIONS = 24
_SPEED = 4
# Sessions that begin later than this after the start are known to be new.
_IDLE = 5
_WINDOW = 2


@dataclass
class Running:
    """A service, and what it needs to be started again."""

    arguments: list[str]
    variables: dict[str, str]
    service: Service = field(init=False)
    told: Told = field(default_factory=Told)

    def start(self) -> None:
        self.service = Service(self.arguments, self.variables).wait_ready()

    def send(self, request: Request, seconds: float = 2.0) -> bool:
        """Whether a request is taken, by a sender that waits for so long."""
        host, port = self.service.addresses["http"].rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=seconds)
        with (
            contextlib.closing(connection),
            contextlib.suppress(OSError, http.client.HTTPException),
        ):
            headers = {"content-type": "application/json"}
            connection.request("POST", "/v1/traces", body(request.spans), headers)
            return connection.getresponse().status == 200
        return False


@dataclass(frozen=True)
class Outage:
    """One way in which the service takes nothing for a while.

    Args:
        item: its family, as in `catalogue`.
        story: what happens.
        begin: makes it happen.
        end: ends it.
        history: the setting.
        journal: whether one is kept.
        retries: whether senders send again what was not taken.
        holds: whether both laws hold today.
    """

    item: str
    story: str
    begin: Callable[[Running], None]
    end: Callable[[Running], None]
    history: str = "auto"
    journal: bool = True
    retries: bool = False
    holds: bool = True


def _kill(running: Running) -> None:
    running.told.judgements += [{**j, "killed": True} for j in running.service.judgements()]
    running.service.kill()


def _start(running: Running) -> None:
    running.start()


def _freeze(running: Running) -> None:
    running.service.process.send_signal(signal.SIGSTOP)


def _thaw(running: Running) -> None:
    running.service.process.send_signal(signal.SIGCONT)


def _fill_disk(running: Running) -> None:
    """Writes fail beyond the size that every file has already."""
    resource.prlimit(running.service.process.pid, resource.RLIMIT_FSIZE, (1, _ANY))


def _free_disk(running: Running) -> None:
    resource.prlimit(running.service.process.pid, resource.RLIMIT_FSIZE, (_ANY, _ANY))


_ANY = resource.RLIM_INFINITY

OUTAGES = {
    "killed_without_a_journal": Outage(
        "B4", "`history: complete`, no journal: killed and started again", _kill, _start,
        history="complete", journal=False,
    ),
    "killed_with_a_journal": Outage("B5", "killed and started again; what came is lost", _kill, _start),
    "killed_and_retried": Outage(
        "B5", "killed and started again; senders send again", _kill, _start, retries=True
    ),
    "disk_full": Outage("B5", "the disk is full: spans are refused, and lost", _fill_disk, _free_disk),
    "disk_full_and_retried": Outage(
        "B5", "the disk is full: spans are refused, and come again", _fill_disk, _free_disk, retries=True
    ),
    "frozen": Outage("B5", "the process is stopped for a second (SIGSTOP)", _freeze, _thaw),
}  # fmt: skip


def play(outage: Outage, seed: int, folder: Path) -> list[Broken]:
    """Every way in which the world of an outage breaks a law."""
    world = _world(Random(seed))
    running = Running(*_settings(world, outage, folder))
    running.start()
    try:
        if outage.history == "auto":
            time.sleep(_IDLE + 0.2)
        _send_all(world, outage, running)
        time.sleep(_WINDOW + 1)
        _read(running.told, running.service)
        assert world.gone or outage.retries, "the outage hid nothing"
        return laws.check(world, running.told)
    finally:
        running.service.kill()


def _world(random: Random) -> World:
    task = specs.task(random)
    found: list[Conversation] = []
    while len(found) < _CONVERSATIONS:
        for each in conversations(random, task):
            each.id = f"conversation-{len(found)}"
            found.append(each)
    renumber(found)
    world = World([task, specs.policy(random)], found, Emission(), hides=Hides.ORDER)
    emitter = Emitter(world.emission, Chance(f"{random.random()}"), {})
    for conversation in found:
        emitter.write(conversation)
    world.spans = emitter.spans
    return world


def _settings(world: World, outage: Outage, folder: Path) -> tuple[list[str], dict[str, str]]:
    for document in world.documents:
        (folder / f"{document['id']}.yaml").write_text(yaml.safe_dump(document))
    arguments = ["--specs", str(folder), "--history", outage.history]
    if outage.journal:
        arguments += ["--state", str(folder / "state")]
    variables = {
        "OFFRAILS_SESSIONS_IDLE_SECONDS": str(_IDLE),
        "OFFRAILS_SESSIONS_WINDOW_SECONDS": str(_WINDOW),
        "OFFRAILS_STATE_SNAPSHOT_SECONDS": "0",
    }
    return arguments, variables


def _send_all(world: World, outage: Outage, running: Running) -> None:
    """Sends each request at its time; for a second in the middle, the service is out."""
    begun = time.time() + 0.1  # noqa: TID251 - the service is in another process, and has the same clock
    for span in world.spans:
        for name in ("start", "end", "sent"):
            setattr(span, name, begun - BEGIN + getattr(span, name) / _SPEED)
    waiting = requests(world.spans)
    since = waiting[len(waiting) * 2 // 5].at
    until, out, missed = since + 1.0, False, list[Request]()
    for request in [*waiting, None]:
        at = request.at if request else max(until, waiting[-1].at)
        for moment, happens in ((since, not out), (until, out)):
            if happens and moment <= at:
                _wait(moment)
                (outage.end if out else outage.begin)(running)
                out = not out
        if request:
            _wait(at)
            if not running.send(request, 0.02 if out else 2.0):
                missed.append(request)
        if not out and outage.retries:
            missed = [each for each in missed if not running.send(each)]
    if not outage.retries:
        lost = [span for each in missed for span in each.spans]
        world.gone |= {
            call.number for span in lost if span.role == "tool" for call in span.calls
        }


def _wait(at: float) -> None:
    time.sleep(max(0.0, BEGIN + at - time.time()))  # noqa: TID251 - as above


def _read(told: Told, service: Service) -> None:
    """What the last process tells at the end."""
    told.judgements += [{**each, "killed": False} for each in service.judgements()]
    for (name, labels), value in service.metrics().items():
        of = dict(labels)
        if name == "offrails_harmful_calls_total":
            told.finals[of["spec"]] = told.finals.get(of["spec"], 0) + int(value)
        elif name == "offrails_coverage_total" and value:
            told.reasons[of["reason"]] = int(value)
        elif name in TELLING and value:
            told.reasons[name] = int(value)


def shown(broken: list[Broken]) -> str:
    """What is wrong, a line each."""
    return "\n".join(f"{each.law}: {each.what}" for each in broken)
