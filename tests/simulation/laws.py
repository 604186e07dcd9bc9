"""The laws a round of the simulation is held to. Each raises `Broken` with what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from random import Random
from typing import Any

from collector.decode.span import Span
from monitor import Limits, Monitor, SessionKey
from monitor.limits import SECOND
from monitor.records import Reason
from monitor.spec.spec import Spec
from tests.monitor.test_engine import call
from tests.simulation.asking import CONFIRM_NS, Question, questions
from tests.simulation.ends import WINDOW_NS, Service, State
from tests.simulation.exporter import Request, Road, deliver
from tests.simulation.naive import judge
from tests.simulation.world import GOOD_HABITS, SPECS, START, Habits, World

__all__ = [
    "ROUNDS",
    "Broken",
    "any_arrival",
    "asked",
    "beyond_the_window",
    "moved",
    "restart",
    "sampled",
]

TICK_NS = SECOND

AT_ONCE = (Reason.UNKNOWN_TOOL, Reason.ARGUMENT_MISMATCH, Reason.FORBIDDEN)
"""These do not depend on order, so they may page before they are final."""


_Numbers = dict[tuple[Any, ...], tuple[int, int, tuple[str, ...]]]


class Broken(AssertionError):  # noqa: N818 - the outcome's name
    """A law does not hold."""


def any_arrival(seed: int) -> int:
    """Batches that overtake each other, duplicates, loss and skewed clocks change no result.

    The live run equals one request with all that was delivered, in order, nothing folded; and
    both equal the naive model. Returns the number of calls judged.
    """
    chance = Random(seed)
    road = Road(lost=chance.choice((0, 0, 0.1)), skew_ns=chance.choice((0, 0, SECOND)))
    # A long turn is named at its start; where that span is lost, the name comes after the window.
    long = not road.lost and chance.random() < 0.1
    helped = 0.0 if road.lost else 0.1
    spans = _traffic(chance, sessions=chance.randint(1, 6), long=long, helped=helped)
    requests = deliver(spans, road, chance)
    live, ordered = run(requests), sorted_run(requests)
    if _has_orphans(requests):
        ordered = _final_in_time(ordered, live)
    _equal(ordered, live)
    _equal_naive(requests, live)
    return sum(each["calls"] for each in live.objects)


def beyond_the_window(seed: int) -> int:
    """Requests that come minutes late: what differs from the truth is counted as late."""
    chance = Random(seed)
    spans = _traffic(chance, sessions=3, long=True)
    road = Road(delay_ns=20 * WINDOW_NS, again_ns=60 * SECOND, batch_max=6)
    requests = deliver(spans, road, chance)
    # A name that is told minutes late binds its spec late, whatever was kept of the calls.
    specs = [spec for spec in SPECS if spec.id != "clerks"]
    live, ordered = _by_key(run(requests, specs)), _by_key(sorted_run(requests, specs))
    if live.keys() != ordered.keys():
        raise Broken(f"judgements of {sorted(live)}, not of {sorted(ordered)}")
    late, orphaned = 0, _orphaned(requests)
    for key, found in live.items():
        late += found["late_calls"]
        hidden = found["steps_folded"] and not orphaned.isdisjoint(_traces(found))
        if not found["late_calls"] and not hidden:
            _equal_object(ordered[key], found)
    return late


def _orphaned(requests: Sequence[Request]) -> set[str]:
    """Traces with a call that came long before the call it was made by, and began before it by its host's clock.

    It may have been folded by then. So it cannot be moved behind the other one, and nobody sees that it ought to be.
    """
    calls: dict[bytes, tuple[int, Span]] = {}
    for request in requests:
        for span in request.spans:
            if "gen_ai.tool.name" in span.shape:
                calls.setdefault(span.span_id, (request.now, span))
    found = set()
    for came, span in calls.values():
        made_by = calls.get(span.parent_span_id)
        if made_by is None or made_by[0] - came <= WINDOW_NS:
            continue
        if span.start_ns < made_by[1].start_ns:
            found.add(span.trace_id.hex())
    return found


def _traces(found: dict[str, Any]) -> set[str]:
    return {step["trace_id"] for step in found["steps"]}


def moved(seed: int) -> int:
    """Sessions that go to another process and come back, at any moment, are judged as if they had stayed.

    There, tools have other numbers. Returns how many sessions were moved.
    """
    chance = Random(seed)
    long = chance.random() < 0.3
    spans = _traffic(chance, sessions=chance.randint(1, 6), long=long, helped=0.1)
    requests = deliver(spans, Road(), chance)
    service, away, ticked, count = Service(SPECS), _elsewhere(), 0, 0
    for request in requests:
        if request.now - ticked >= TICK_NS:
            ticked = request.now
            service.monitor.tick(ticked)
        service.send(request.spans, request.now)
        if chance.random() < 0.3:
            count += _there_and_back(service.monitor, away, chance, request.now)
    if requests:
        service.monitor.tick(requests[-1].now + WINDOW_NS + 1)
    _equal(sorted_run(requests), service.state())
    return count


def _elsewhere() -> Monitor:
    """Another monitor, under the same specs; it has seen tools that nobody else calls."""
    monitor = Monitor(SPECS, Limits(history_complete=True))
    for number in range(5):
        key = SessionKey("", "own")
        monitor.observe(call(number, f"elsewhere{number}", session=key), START)
    return monitor


def _there_and_back(monitor: Monitor, away: Monitor, chance: Random, now: int) -> int:
    keys = [key for key in monitor.kept.known_keys() if chance.random() < 0.5]
    monitor.gaps.look_again()  # a session that moves takes up what is known to be missing by now
    shown = _shown(monitor, keys)
    data = monitor.kept.handover("1").hand_over(keys)
    if not set(monitor.kept.known_keys()).isdisjoint(keys):
        raise Broken("a session that was handed over is still there")
    found = away.kept.handover("1").take_over(data, now)
    if _shown(away, keys) != shown:
        raise Broken("a session is shown otherwise where it went")
    monitor.kept.handover("1").take_over(away.kept.handover("1").hand_over(found), now)
    if any(pair.active for pair in away.totals.pairs.values() if pair.agent != "unknown"):
        raise Broken("a session that came back is still counted as active there")
    return len(found)


def _shown(monitor: Monitor, keys: Sequence[SessionKey]) -> list[str]:
    sessions = {key.id for key in keys}
    return sorted(repr(each) for each in monitor.judgements() if each["session"] in sessions)


def asked(seed: int) -> int:
    """Clients that ask before calls, and commit them, change nothing of what is judged in the end.

    They give some of the calls' ids, tell some outcomes, and ask about calls that nobody makes; the spans come
    as in `any_arrival`. What pages in the end is what sessions show. Returns the number of questions.
    """
    chance = Random(seed)
    road = Road(lost=chance.choice((0, 0, 0.1)))
    world, spans, names = World(chance, Habits(helped=0.0)), list[Span](), dict[bytes, str]()
    for number in range(chance.randint(1, 4)):
        made = world.session(f"s{number}", START + chance.randrange(8 * SECOND))
        spans += made.spans
        for span in made.spans:
            if "gen_ai.conversation.id" in span.shape:
                names[span.trace_id] = made.name
    # The senders' clocks are ahead of the receiver's, or behind.
    skew = chance.choice((0, 0, chance.randint(-SECOND, SECOND)))
    # By skewed clocks, a denied call that fails may seem to have been refused.
    blocks = not skew and chance.random() < 0.5
    specs = [replace(spec, enforce="block" if blocks else "advise") for spec in SPECS]
    requests = [each._replace(now=each.now - skew) for each in deliver(spans, road, chance)]
    # Who gives a session that no span tells has the trace belong to it: see docs/before-the-call.md.
    come = [span for request in requests for span in request.spans]
    told = {span.trace_id for span in come if "gen_ai.conversation.id" in span.shape}
    asks = questions(
        spans,
        {trace: name for trace, name in names.items() if trace in told},
        chance,
        is_lossy=bool(road.lost),
    )
    asks = [each.earlier(skew) for each in asks]
    if seed % 2:  # questions that tell nothing of their calls but that they are asked about
        asks = [each.without_news() for each in asks]
    end = max([START, *(each.now for each in requests), *(each.told_ns for each in asks)])
    plain = _asked_run(requests, (), specs, end)
    live = _asked_run(requests, asks, specs, end)
    if _tells_early(requests, asks, is_lossy=bool(road.lost)):
        _equal(plain.state().objects_alone(), live.state().objects_alone())
    else:
        _equal(plain.state().without_times(), live.state().without_times())
        _equal_gauges(plain, live)
    _equal_pages(plain, live)
    return len(asks)


def _tells_early(
    requests: Sequence[Request], asks: Sequence[Question], *, is_lossy: bool
) -> bool:
    """True if a client may tell what spans tell only after a call is final, or never.

    The session of a trace: where spans are lost, those that are left may not show it before. Or that a call was made:
    it may be final before its agent is named, and beside calls that may be elsewhere.
    """
    if is_lossy and any(ask.names_session for ask in asks):
        return True
    named = [
        request.now
        for request in requests
        if any("gen_ai.agent.name" in span.shape for span in request.spans)
    ]
    first = min((ask.now for ask in asks if ask.tells_made), default=None)
    return first is not None and max(named, default=0) - first > WINDOW_NS


def _asked_run(
    requests: Sequence[Request], asks: Sequence[Question], specs: Sequence[Spec], end: int
) -> Service:
    """Requests and questions as they come, until all that nobody confirmed was taken back."""
    service, ticked = Service(specs), 0
    due: list[tuple[int, int, Callable[[], None]]] = []
    for request in requests:
        due.append((request.now, len(due), partial(service.send, request.spans, request.now)))
    for each in asks:
        ids: list[str] = []
        due.append((each.now, len(due), partial(_ask, each, service, ids)))
        if each.outcome is not None:
            due.append((each.told_ns, len(due), partial(each.tell, service, ids)))
    for now, _, act in sorted(due, key=lambda item: item[:2]):
        if now - ticked >= TICK_NS:
            ticked = now
            service.tick(ticked)
        act()
    for later in range(0, CONFIRM_NS + 2 * WINDOW_NS, WINDOW_NS):
        service.tick(end + later)
    return service


def _ask(question: Question, service: Service, ids: list[str]) -> None:
    ids += question.ask(service)


def restart(seed: int, sessions: int = 6) -> tuple[int, int]:
    """A monitor that is killed amid good sessions, and restarted without state, pages nobody.

    Then each session does what no spec knows: that is flagged in each. Returns how many of the
    sessions went on after the restart, and how many of those are shown as joined.
    """
    chance = Random(seed)
    world, requests = _good(chance, sessions)
    killed = requests[len(requests) // 2].now if len(requests) > 1 else START
    service = Service(SPECS, Limits(), started_ns=killed)
    seen = [request for request in requests if request.now > killed]
    known = _harmless(service, world, seen)
    for each in known.values():
        if each["exact"] and each["started"] < killed:
            raise Broken(f"{each['session']} began before the restart and is called exact")
    return len(known), sum(each["joined"] for each in known.values())


def sampled(seed: int, sessions: int = 6) -> int:
    """Of good sessions a share of the turns is kept, and marked so; or attributes are dropped.

    What is missing is no harm; what no spec knows is flagged all the same. Returns how many
    sessions there were.
    """
    chance = Random(seed)
    world, requests = _good(chance, sessions, thin=chance.choice((_sample, _cut)))
    known = _harmless(Service(SPECS, Limits()), world, requests)
    for each in known.values():
        if each["exact"] or each["harm_rate"] is not None:
            raise Broken(f"{each['session']} may have more calls and is called exact")
    return len(known)


Thin = Callable[[list[Span], Random], list[Span]]


def _good(
    chance: Random, sessions: int, thin: Thin | None = None
) -> tuple[World, list[Request]]:
    """Sessions that do no harm, and the requests they come in."""
    world = World(chance, GOOD_HABITS)
    made = [
        world.session(f"s{number}", START + chance.randrange(5 * SECOND))
        for number in range(sessions)
    ]
    spans = [span for each in made for span in each.spans]
    return world, deliver(thin(spans, chance) if thin else spans, Road(), chance)


def _sample(spans: list[Span], chance: Random) -> list[Span]:
    """Keeps half of the traces, and marks their spans in the trace state."""
    traces = sorted({span.trace_id for span in spans})
    kept = {trace for trace in traces if chance.random() < 0.5}
    return [span.but(sampled=True) for span in spans if span.trace_id in kept]


def _cut(spans: list[Span], chance: Random) -> list[Span]:
    """Tool spans have room for few attributes; some calls have no room for any and are lost."""
    found = []
    for span in spans:
        if "gen_ai.tool.name" not in span.shape:
            found.append(span)
        elif chance.random() < 0.7:
            found.append(span.but(shape=span.shape[:2], values=span.values[:2], dropped=2))
    return found


def _harmless(
    service: Service, world: World, requests: Sequence[Request]
) -> dict[str, dict[str, Any]]:
    """Good sessions, of which something is missing, are called good; a certain harm is flagged.

    Returns:
        Judgements by session, as they were before the harm.
    """
    now = START
    for request in requests:
        now = request.now
        service.monitor.tick(now)
        service.send(request.spans, now)
    service.monitor.tick(now + WINDOW_NS + 1)
    judged = list(service.monitor.judgements())
    told = [verdict for verdict in service.told if verdict.reason in AT_ONCE]
    harmful = [*service.final, *told, *(each for each in judged if each["harmful"])]
    if harmful:
        raise Broken(f"a good session is called harmful: {harmful[0]}")
    known = {each["session"]: each for each in judged}
    _certain_harm(service, world, known, now + WINDOW_NS + 2 * SECOND)
    return known


def _certain_harm(service: Service, world: World, known: dict[str, Any], now: int) -> None:
    """A tool that no spec names, and a policy forbids, is harmful wherever a session may be."""
    for name in known:
        spans = world.lone_call(name, known[name]["agent"], "wipe", now - SECOND)
        service.send(spans, now)
    service.monitor.tick(now + WINDOW_NS + 1)
    flagged = {verdict.session.id for verdict in service.final}
    if flagged != set(known):
        raise Broken(f"not flagged: {sorted(set(known) - flagged)}")


# --- runs -------------------------------------------------------------------------------------


def _traffic(chance: Random, sessions: int, *, long: bool, helped: float = 0.0) -> list[Span]:
    """Sessions of all kinds; a helper whose greeting may be lost or late binds its specs late."""
    world = World(chance, Habits(helped=helped))
    spans = []
    for number in range(sessions):
        begin = START + chance.randrange(8 * SECOND)
        spans += world.session(f"s{number}", begin).spans
    if long:
        spans += world.long_session("long", START, chance.randint(70, 220)).spans
    return spans


def run(requests: Sequence[Request], specs: Sequence[Spec] = SPECS) -> State:
    """The requests as they come, with time going on between them."""
    service, ticked = Service(specs), 0
    for request in requests:
        if request.now - ticked >= TICK_NS:
            ticked = request.now
            service.monitor.tick(ticked)
        service.send(request.spans, request.now)
    if requests:
        service.monitor.tick(requests[-1].now + WINDOW_NS + 1)
    return service.state()


def sorted_run(requests: Sequence[Request], specs: Sequence[Spec] = SPECS) -> State:
    """All that was delivered, in one request, in order of start; nothing is folded."""
    service = Service(specs, Limits(history_complete=True, fold=False))
    spans = {
        (span.trace_id, span.span_id): span for request in requests for span in request.spans
    }
    now = max((request.now for request in requests), default=START)
    service.send(sorted(spans.values(), key=lambda span: span.start_ns), now)
    service.monitor.tick(now + WINDOW_NS + 1)
    return service.state()


# --- comparing --------------------------------------------------------------------------------


def _equal(true: State, found: State) -> None:
    if len(true.objects) != len(found.objects):
        raise Broken(f"{len(found.objects)} judgements, not {len(true.objects)}")
    for one, other in zip(true.objects, found.objects, strict=True):
        _equal_object(one, other)
    if true.counters != found.counters:
        raise Broken(f"final counters: {found.counters}, not {true.counters}")
    if true.events != found.events:
        pairs = zip_longest(true.events, found.events)
        expected, event = next(pair for pair in pairs if pair[0] != pair[1])
        raise Broken(f"final event {event}, not {expected}")


def _final_in_time(true: State, found: State) -> State:
    """`true` with no more finals than were `found`, and none that is another one.

    Which conversation a call belongs to whose spans above are lost is learnt of other traces of its service. If these come
    after the call is final, the session shows a harm that no final count has. All at once, they come in time.
    """
    late = Counter(true.events) - Counter(found.events)
    counters = {
        key: each & found.counters.get(key, Counter()) for key, each in true.counters.items()
    }
    return true._replace(
        events=[each for each in true.events if not late[each]],
        counters={key: each for key, each in counters.items() if each},
    )


def _equal_gauges(plain: Service, live: Service) -> None:
    if plain.gauges() != live.gauges():
        raise Broken(f"gauges: {live.gauges()}, not {plain.gauges()}")


def _equal_pages(*services: Service) -> None:
    """Pages are what sessions show as harmful, whoever asked."""
    for service in services:
        wrong = service.pages() ^ service.harms()
        if wrong:
            raise Broken(f"pages that sessions do not show, or harms that page nobody: {wrong}")


def _by_key(state: State) -> dict[tuple[str, ...], dict[str, Any]]:
    """Objects of judgements that have a call."""
    return {
        (each["session"], str(each["spec"]), str(each["turn"])): each
        for each in state.objects
        if each["calls"]
    }


def _equal_object(true: dict[str, Any], found: dict[str, Any]) -> None:
    """Equal but for what was folded, which is no longer listed."""
    listed = {**true, "steps_folded": found["steps_folded"]}
    listed["steps"] = true["steps"][found["steps_folded"] :]
    for key, value in listed.items():
        if not _close(value, found[key]):
            where = f"{found['session']} under {found['spec']}"
            raise Broken(f"{where}: {key} is {found[key]}, not {value}")


def _close(one: Any, other: Any) -> bool:
    """Sums of floats may differ in their last bits where a log was folded."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-12
    return bool(one == other)


def _equal_naive(requests: Sequence[Request], live: State) -> None:
    """Calls, harms and states are those of the model that keeps everything."""
    spans = (span for request in requests for span in request.spans)
    true = judge(spans, SPECS)
    found = {
        (each["session"], each["spec"], each["turn"]): (
            each["calls"],
            each["harmful"],
            tuple(sorted(each["position"])),
        )
        for each in live.objects
        if each["spec"] is not None
    }
    expected = {
        key: (each.calls, each.harmful, tuple(sorted(each.states)))
        for key, each in true.items()
    }
    if _has_orphans(requests):
        # A call without the spans above it may be of any conversation: all that is certain is true, not the reverse.
        found, expected = _bounded(found, expected)
    if found != expected:
        keys = sorted(found.keys() | expected.keys(), key=str)
        key = next(key for key in keys if found.get(key) != expected.get(key))
        raise Broken(f"{key}: {found.get(key)}, naively {expected.get(key)}")


def _has_orphans(requests: Sequence[Request]) -> bool:
    """True if a span above a call was lost, and no root of its trace names the conversation: one beside it may name a part."""
    spans = {span.span_id: span for request in requests for span in request.spans}
    named = {
        each.trace_id
        for each in spans.values()
        if "gen_ai.conversation.id" in each.shape and not each.parent_span_id
    }
    return any(
        "gen_ai.tool.name" in span.shape
        and span.trace_id not in named
        and _is_cut_off(span, spans)
        for span in spans.values()
    )


def _is_cut_off(span: Span, spans: Mapping[bytes, Span]) -> bool:
    above: Span | None = span
    while above is not None and above.parent_span_id:
        above = spans.get(above.parent_span_id)
    return above is None


def _bounded(found: _Numbers, expected: _Numbers) -> tuple[_Numbers, _Numbers]:
    """The same without positions, and with no more harms expected than found."""
    return (
        {key: (calls, harms, ()) for key, (calls, harms, _) in found.items()},
        {
            key: (calls, min(harms, found[key][1]) if key in found else harms, ())
            for key, (calls, harms, _) in expected.items()
        },
    )


ROUNDS: dict[str, Callable[[int], object]] = {
    "any arrival": any_arrival,
    "beyond the window": beyond_the_window,
    "asked": asked,
    "restart": restart,
    "sampled": sampled,
}
"""By name, what one round of the simulation holds to each seed."""
