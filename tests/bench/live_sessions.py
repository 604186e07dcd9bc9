"""The memory that a live session costs the whole service.

    python -m tests.bench live_sessions            # 100,000 sessions
    python -m tests.bench.live_sessions 500000     # so many

The resident memory of a service that is fed over OTLP, less what it had when it was idle, by the sessions that are
live. Each session is one trace with an agent's span, five models' spans and five calls, in one of four dialects.
Nothing ends and nothing is evicted: what is bounded by default below so many sessions is raised by settings
(`SETTINGS`), as a user would. The calls, the harmful verdicts and the live sessions are checked.
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import Outcome, of_metrics
from tests.bench.sender import Sender, prepared
from tests.bench.service import COMPILED, OURS, PLAIN, Server, service
from tests.bench.speakers import SPEAKERS, Said, Talk, prose
from tests.bench.traffic import GROUPS, SECOND, call_of, harms
from tests.bench.wire import request, span

__all__ = ["Cost", "bodies", "bounds_of", "measure", "measure_all", "table"]

SESSIONS: Final = 100_000
BYTES_MAX: Final = 3_072
"""What a live session may take."""

SPANS_A_REQUEST: Final = 100
IN_FLIGHT: Final = 200
"""Sessions whose spans come in turn."""

RUNS: Final = (
    ("unlock_safety", "move", "scan", "open_valve", "water"),
    ("unlock_safety", "log", "move", "scan", "open_valve"),
    ("unlock_safety", "move", "scan", "scan", "open_valve"),
    ("unlock_safety", "move", "water", "scan", "open_valve"),
)
"""What the agents do; one run in four does harm."""

SETTINGS: Final = """\
sessions:
  max: {sessions}
  max_bytes: {max_bytes}
  idle_seconds: 86400
"""
_SESSION_BYTES: Final = 4_096
"""More than any session is counted for."""

_OWNERS: Final = re.compile(r'^offrails_memory_bytes\{of="(\w+)"\} (\S+)$', re.MULTILINE)
_LIVE: Final = re.compile(r"^offrails_sessions_active(?:\{.*\})? (\S+)$", re.MULTILINE)


class Cost(NamedTuple):
    """Bytes a live session."""

    server: str
    sessions: int
    resident: float
    owners: dict[str, float]
    """Estimated by the service."""


class _Form(NamedTuple):
    """The spans of a session, with ids that stand for others."""

    speaker: int
    spans: list[bytes]
    ids: list[bytes]
    """Of the trace and its spans."""
    texts: list[bytes]
    """Of the calls and the conversation, in hexadecimal digits."""
    harmful: int


def _form(speaker: int, tools: tuple[str, ...], start: int, chance: random.Random) -> _Form:
    """One session of an instrumentation, to be copied."""
    says, conversation = SPEAKERS[speaker], chance.randbytes(16).hex()
    calls = [call_of(tool, chance) for tool in tools]
    trace, root = chance.randbytes(16), chance.randbytes(8)
    talk = Talk(conversation, "run", prose(chance, 40, 600), 1, [])
    spans, ids = [], [trace, root]

    def add(said: Said, own: bytes, above: bytes, begin: int) -> None:
        end = begin + SECOND // 2
        spans.append(span(trace, own, above, said.name, said.kind, begin, end, *said[2:]))

    for place, call in enumerate(calls):
        ids += chance.randbytes(8), chance.randbytes(8)
        add(says.chat(talk, call), ids[-2], root, start + 2 * place * SECOND)
        add(says.tool(talk, call), ids[-1], root, start + (2 * place + 1) * SECOND)
        talk.calls.append(call)
    add(says.agent(talk), root, b"", start)
    texts = [call.call_id.removeprefix("call_").encode() for call in calls]
    return _Form(speaker, spans, ids, [*texts, conversation.encode()], harms(tools))


def _copied(form: _Form, chance: random.Random) -> list[bytes]:
    """The spans of another session that says the same."""
    joined = b"".join(form.spans)
    for known in form.ids:
        joined = joined.replace(known, chance.randbytes(len(known)))
    for known in form.texts:
        joined = joined.replace(known, chance.randbytes(len(known) // 2).hex().encode())
    ends = list(accumulate(map(len, form.spans)))
    return [joined[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def bodies(sessions: int, start: int, seed: int = 1) -> Iterator[tuple[bytes, int, int]]:
    """Requests, and of each how many calls it begins and how many of them do harm in the end."""
    chance = random.Random(seed)
    forms = [_form(at, run, start, chance) for at in range(len(SPEAKERS)) for run in RUNS]
    for first in range(0, sessions, IN_FLIGHT):
        now = [
            forms[number % len(forms)]
            for number in range(first, min(first + IN_FLIGHT, sessions))
        ]
        copies = [(form.speaker, _copied(form, chance)) for form in now]
        in_turn = [(at, spans[n]) for n in range(len(forms[0].spans)) for at, spans in copies]
        harm = sum(form.harmful for form in now)
        calls = len(now) * len(RUNS[0])
        for begin in range(0, len(in_turn), SPANS_A_REQUEST):
            groups: defaultdict[int, list[bytes]] = defaultdict(list)
            for at, encoded in in_turn[begin : begin + SPANS_A_REQUEST]:
                groups[at].append(encoded)
            yield request((GROUPS[at], found) for at, found in groups.items()), calls, harm
            calls = harm = 0


@contextlib.contextmanager
def _roomy(sessions: int, *, plain: bool) -> Iterator[Server]:
    """A service with room for so many sessions."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "offrails.yaml"
        config.write_text(
            SETTINGS.format(sessions=sessions + 1, max_bytes=(sessions + 1) * _SESSION_BYTES)
        )
        name = PLAIN if plain else OURS
        with service("--config", str(config), plain=plain, name=name) as server:
            yield server


def measure(sessions: int = SESSIONS, *, plain: bool = False) -> Cost:
    """Feeds a service, and asks the kernel what it holds before and after."""
    with _roomy(sessions, plain=plain) as server:
        server.metrics()
        with contextlib.closing(Sender(server.ports["http"])) as sender:
            for body, _, _ in bodies(IN_FLIGHT, time.time_ns(), seed=2):
                sender.post(prepared(body))  # what all sessions share
            before, idle = of_metrics(server.metrics()), server.resident_bytes()
            calls = harmful = 0
            for body, begun, harm in bodies(sessions - IN_FLIGHT, time.time_ns()):
                sender.post(prepared(body))
                calls, harmful = calls + begun, harmful + harm
        text = server.metrics()
        found = of_metrics(text).since(before)
        assert found == Outcome(calls, harmful), (found, calls, harmful)
        live = sum(int(float(count)) for count in _LIVE.findall(text))
        assert live == sessions, (live, sessions)
        held = (server.resident_bytes() - idle) / (sessions - IN_FLIGHT)
        owners = {of: float(size) / sessions for of, size in _OWNERS.findall(text)}
        return Cost(server.name, sessions, held, owners)


def measure_all(counts: Sequence[int] = (SESSIONS,)) -> list[Cost]:
    """Of this build, and of the plain one beside it."""
    costs = [measure(count) for count in counts]
    return [*costs, *(measure(count, plain=True) for count in counts if COMPILED)]


def bounds_of(cost: Cost) -> list[Bound]:
    """The bounds."""
    what = f"a live session of 5 calls, one of {cost.sessions:,}, {cost.server}"
    return [Bound(what, cost.resident, BYTES_MAX, "bytes")]


def table(costs: list[Cost]) -> str:
    """The rows as a Markdown table."""
    heads = [f"{cost.server}, {cost.sessions:,}" for cost in costs]
    lines = ["| bytes a live session | " + " | ".join(heads) + " |"]
    lines.append("|---" * (len(costs) + 1) + "|")
    rows = {"resident": [cost.resident for cost in costs]}
    for name in dict.fromkeys(name for cost in costs for name in cost.owners):
        rows[f"estimated: `{name}`"] = [cost.owners.get(name, 0) for cost in costs]
    for what, sizes in rows.items():
        lines.append(f"| {what} | " + " | ".join(f"{size:,.0f}" for size in sizes) + " |")
    return "\n".join(lines)


def main() -> None:
    """Prints all, and fails where the work was not done."""
    print("compiled" if COMPILED else "plain")
    counts = [int(each) for each in sys.argv[1:]] or [SESSIONS]
    costs = measure_all(counts)
    print(table(costs))
    print(bounds.lines(bound for cost in costs for bound in bounds_of(cost)))


if __name__ == "__main__":
    main()
