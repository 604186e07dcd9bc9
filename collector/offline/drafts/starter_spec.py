"""`offrails init`: a starter spec in shadow mode, from what was seen of an agent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from collector.calls.inventory.inventory import UNKNOWN
from collector.client.api_client import ask, pages
from collector.client.verb_error import VerbError
from collector.dialects.names.name_bound import bounded
from collector.offline.drafts.common_values import SeenArguments, proposed_each
from collector.offline.plain_runs import AgentRun
from monitor.session.spec_binding import AGENT_ATTRIBUTE
from monitor.spec.document.write import name as plain

__all__ = ["Agent", "NothingSeen", "agents", "agents_of_runs", "choose", "fetch", "starter"]

SEQUENCES_MAX = 5
"""Different runs written down as golden; the author chooses from more."""

LENGTH_MAX = 40

JUDGEMENTS_MAX = 5_000
"""Judgements of a service that are read, the most recent first: an archive may have millions."""


class NothingSeen(VerbError):  # noqa: N818 - it says what is the case
    """There is nothing to start from; the message says why."""


class Agent(NamedTuple):
    """One service of one namespace: what its calls carry, and the runs that were seen."""

    service: str
    tools: Mapping[str, Sequence[str]]
    dialects: Sequence[str]
    session_from: Mapping[str, int]
    arguments: bool
    """True if some call had its arguments on the wire."""
    switches: Sequence[str]
    runs: Sequence[tuple[str, ...]]
    """Runs of this service only."""
    named_by: str = "service.name"
    """The attribute that has its name; "" if nothing has a name."""
    control_tools: Sequence[str] = ()
    """Tools of its framework itself, which no spec needs to name."""
    namespace: str = ""
    """Namespace of the runs' sessions."""
    arguments_of_runs: Sequence[Sequence[SeenArguments]] = ()
    """Calls of its runs with their arguments, as far as these are shown."""


def fetch(url: str, token_file: Path | None = None) -> list[Agent]:
    """What a running service has seen, by its admin address.

    Raises:
        NothingSeen: it cannot be reached, or answers something else.
    """
    try:
        seen = ask(url, "/api/v1/seen", token_file)["agents"]
        listed = pages(url, "/api/v1/sessions", token_file)
        found = (each for page in listed for each in page["sessions"])
        sessions = list(islice(found, JUDGEMENTS_MAX))
    except KeyError as problem:
        raise NothingSeen(f"{url}: its answer has no {problem}") from None
    return agents(seen, sessions)


def agents(
    seen: Iterable[Mapping[str, Any]], sessions: Iterable[Mapping[str, Any]]
) -> list[Agent]:
    """Agents with their runs; `seen` as `/api/v1/seen` gives it, `sessions` as the API does."""
    runs: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    carried: dict[tuple[str, str], list[list[SeenArguments]]] = {}
    listed: set[tuple[str, str]] = set()
    for each in sessions:
        key = (each["namespace"], each["session"])
        if key in listed or each["steps_folded"]:
            continue
        listed.add(key)
        tools = tuple(step["tool"] for step in each["steps"] if step["kind"] != "control")
        services = each.get("services") or [UNKNOWN]
        if len(services) == 1:  # a run of several services is no example of one
            whose = (each["namespace"], bounded(services[0]))
            runs.setdefault(whose, []).append(tools)
            calls = [SeenArguments(s["tool"], s.get("arguments")) for s in each["steps"]]
            carried.setdefault(whose, []).append(calls)
    return [
        Agent(
            namespace=each["namespace"],
            service=each["service"],
            tools=each["tools"],
            dialects=each["dialects"],
            session_from=each["session_from"],
            arguments=bool(each["calls_with_arguments"]),
            switches=each["switches"],
            runs=runs.get((each["namespace"], each["service"]), ()),
            control_tools=each.get("control_tools", ()),
            arguments_of_runs=carried.get((each["namespace"], each["service"]), ()),
        )
        for each in seen
    ]


def agents_of_runs(runs: Iterable[AgentRun]) -> list[Agent]:
    """The agents of plain runs, by the names in the runs."""
    by_name: dict[str, list[AgentRun]] = {}
    for run in runs:
        if run.calls:
            by_name.setdefault(run.agent, []).append(run)
    return [_agent(name, its) for name, its in by_name.items()]


def _agent(name: str, runs: Sequence[AgentRun]) -> Agent:
    tools: dict[str, dict[str, None]] = {}
    calls = [call for run in runs for call in run.calls]
    for call in calls:
        tools.setdefault(call.tool, {}).update(dict.fromkeys(call.arguments or ()))
    return Agent(
        service=name or "agent",
        tools={tool: sorted(arguments) for tool, arguments in tools.items()},
        dialects=["plain runs"],
        session_from={"run": len(calls)},
        arguments=any(call.arguments is not None for call in calls),
        switches=[],
        runs=[tuple(call.tool for call in run.calls) for run in runs],
        named_by=AGENT_ATTRIBUTE if name else "",
        arguments_of_runs=[
            [SeenArguments(call.tool, call.arguments) for call in run.calls] for run in runs
        ],
    )


def choose(found: Sequence[Agent], service: str | None, namespace: str | None = None) -> Agent:
    """The agent of that service and namespace, or the only one.

    Raises:
        NothingSeen: there is none, or more than one to choose from.
    """
    if not found:
        raise NothingSeen("no tool call was seen yet")
    of_service = [agent for agent in found if service in (None, agent.service)]
    if not of_service:
        seen = _names(agent.service for agent in found)
        raise NothingSeen(f"no agent of service {service!r} was seen; seen were: {seen}")
    fitting = [agent for agent in of_service if namespace in (None, agent.namespace)]
    if not fitting:
        seen = _names(agent.namespace for agent in of_service)
        raise NothingSeen(f"no agent of namespace {namespace!r} was seen; seen were: {seen}")
    if len(fitting) == 1:
        return fitting[0]
    several = dict.fromkeys(agent.service for agent in fitting)
    if len(several) > 1:
        raise NothingSeen(
            f"several agents were seen; choose one with --service: {_names(several)}"
        )
    seen = _names(agent.namespace for agent in fitting)
    raise NothingSeen(
        f"{fitting[0].service} was seen in several namespaces; choose one with --namespace: {seen}"
    )


def _names(found: Iterable[str]) -> str:
    """Each name once; the empty one in quotes."""
    return ", ".join(name or "''" for name in dict.fromkeys(found))


def starter(agent: Agent) -> str:
    """A commented spec document that accepts what was seen, and waits for an author.

    Raises:
        NothingSeen: the agent made no call.
    """
    if not agent.tools:
        raise NothingSeen(f"{agent.service}: no tool call was seen")
    symbols = _symbols(agent.tools)
    lines = [
        f"# What {_comment(agent.service)} was seen to do. A start, not a judgement: strike out what is wrong,",
        "# add what is missing, then `offrails check` it, and `offrails replay` recorded runs on it.",
        f"# Read by: {_comment(', '.join(agent.dialects), 300)}; session id from: {_comment(', '.join(agent.session_from))}.",
        *_about_arguments(agent),
        "",
        f"id: {plain(_identifier(agent.service))}",
        'version: "1"',
        "kind: task",
        "",
        "# shadow: verdicts and metrics only. Change it to `page` once you trust the spec.",
        "mode: shadow",
        "",
        *_match(agent),
        "",
        "# Which calls cannot be taken back? Name them here, and they page as critical:",
        "# severity: {default: warning, tools: {some_tool: critical}}",
        "",
        *_about_things(agent),
        "# A short name for each kind of call. Where an argument decides, name it, for instance",
        "#   pay_little: {tool: pay, arguments: {amount: {max: 100}}}",
        "alphabet:",
        *(_symbol(name, tool, agent.tools[tool]) for tool, name in symbols.items()),
        *_about_control(agent),
        "",
        *_golden(agent, symbols),
        "",
        "# Calls that change nothing may be made anywhere: move their names here.",
        "reads: []",
    ]
    return "\n".join(lines) + "\n"


def _match(agent: Agent) -> list[str]:
    if agent.named_by:
        return ["match:", f"  {agent.named_by}: {plain(agent.service)}"]
    return [
        "# Whose sessions? These runs do not say it. Without a match it judges those that name it:",
        "# match: {service.name: some-agent}",
    ]


def _about_arguments(agent: Agent) -> list[str]:
    if agent.arguments:
        return []
    how = (
        " or ".join(_comment(each, 300) for each in agent.switches) or "see docs/frameworks.md"
    )
    return [f"# Its calls carry no arguments. To see them: {how}"]


def _about_things(agent: Agent) -> list[str]:
    """What there may be an automaton for each of."""
    known = [
        [call for call in run if call.tool in agent.tools] for run in agent.arguments_of_runs
    ]
    found = proposed_each(known)
    if not found:
        return []
    return [
        "# These arguments carry the same values in several tools. A policy with `each` judges each value by itself:",
        *(f"# {_comment(line, 400)}" for line in found),
        "",
    ]


def _about_control(agent: Agent) -> list[str]:
    """Why a tool that was seen is not in the alphabet."""
    if not agent.control_tools:
        return []
    names = ", ".join(_comment(each) for each in agent.control_tools)
    return [
        f"# Left out: {names[:300]}. The framework's own tools are judged only if they are named here."
    ]


def _symbols(tools: Mapping[str, Any]) -> dict[str, str]:
    """Tool -> a symbol that is easy to type, each another."""
    taken: set[str] = set()
    names: dict[str, str] = {}
    for tool in tools:
        base = symbol = _identifier(tool)
        number = 2
        while symbol in taken:
            symbol, number = f"{base}_{number}", number + 1
        taken.add(symbol)
        names[tool] = symbol
    return names


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("_")[:80] or "agent"


def _symbol(name: str, tool: str, arguments: Sequence[str]) -> str:
    seen = f" # arguments seen: {', '.join(map(_comment, arguments))}" if arguments else ""
    return f"  {plain(name)}: {{tool: {plain(tool)}}}{seen}"


def _comment(text: str, most: int = 60) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:most])


def _golden(agent: Agent, symbols: Mapping[str, str]) -> list[str]:
    """The runs that were seen, most frequent first."""
    counted = Counter(run for run in agent.runs if 0 < len(run) <= LENGTH_MAX)
    known = [(run, n) for run, n in counted.most_common() if all(t in symbols for t in run)]
    if not known:
        first = ", ".join(map(plain, symbols.values()))
        return [
            "# No whole run was seen: this is only the order in which its tools were first called.",
            "golden:",
            f"  - [{first}]",
        ]
    shown = known[:SEQUENCES_MAX]
    return [
        f"# The runs that were seen ({len(shown)} of {len(known)} different ones). Are all of them right?",
        "golden:",
        *(
            f"  - [{', '.join(plain(symbols[t]) for t in run)}] # seen {'once' if n == 1 else f'{n} times'}"
            for run, n in shown
        ),
    ]
