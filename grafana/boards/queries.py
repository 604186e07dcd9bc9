"""What all boards ask with: selectors, variables, colours of thresholds, links."""

from __future__ import annotations

from typing import Final

from grafana.panels import AMBER, BLUE, GREEN, GREY, RED, Link, Panel, Steps, Target, Variable

__all__ = [
    "AGENT",
    "AGENTS",
    "ANY_IS_BAD",
    "BUDGET",
    "DOWN_IS_BAD",
    "HARMFUL",
    "INSTANCE",
    "JOB",
    "JUDGED",
    "NAMES",
    "NEWS",
    "OPEN_AGENT",
    "OPEN_WORST",
    "PAIR",
    "PLAIN",
    "PROCESS",
    "RULE",
    "SPEC",
    "UP_IS_BAD",
    "VERDICTS",
    "by_pair",
    "of_agents",
    "of_processes",
    "rate",
    "rate_by",
]

BUDGET: Final = 0.01
"""Share of calls that may be harmful, as in deploy/prometheus/rules."""
PROCESS: Final = 'job=~"$job",instance=~"$instance"'
PAIR: Final = PROCESS + ',agent=~"$agent",spec=~"$spec"'

JUDGED: Final = 'verdict!="control"'
HARMFUL: Final = 'verdict="harmful"'
NEWS: Final = 'reason!="duplicate"'
RULE: Final = '{agent=~"$agent",spec=~"$spec"}'
"""Recording rules sum over processes, so they have no job and no instance."""

UP_IS_BAD: Final[Steps] = ((None, GREEN), (BUDGET, AMBER), (0.1, RED))
DOWN_IS_BAD: Final[Steps] = ((None, RED), (0.7, AMBER), (0.9, GREEN))
ANY_IS_BAD: Final[Steps] = ((None, GREEN), (1, RED))
PLAIN: Final[Steps] = ((None, BLUE),)
VERDICTS: Final = {"progress": GREEN, "self_loop": GREY, "harmful": RED, "control": AMBER}

JOB = Variable("job", "Job", "label_values(offrails_build_info, job)")
INSTANCE = Variable(
    "instance", "Instance", 'label_values(offrails_build_info{job=~"$job"}, instance)'
)
AGENT = Variable(
    "agent", "Agent", f"label_values(offrails_sessions_active{{{PROCESS}}}, agent)"
)
SPEC = Variable(
    "spec", "Spec", f'label_values(offrails_sessions_active{{{PROCESS},agent=~"$agent"}}, spec)'
)
AGENTS = (JOB, INSTANCE, AGENT, SPEC)

OPEN_AGENT = Link("agent", "Session view", "${session_view}/?agent=${__data.fields.agent}")
OPEN_WORST = Link("rank", "Session view", "${session_view}/")
"""The list of sessions, the worst first."""


def of_agents(name: str, more: str = "") -> str:
    """A metric of the chosen agents and specs."""
    return f"offrails_{name}{{{PAIR}{',' + more if more else ''}}}"


def of_processes(name: str, more: str = "") -> str:
    """A metric of the chosen processes."""
    return f"offrails_{name}{{{PROCESS}{',' + more if more else ''}}}"


def rate(selector: str) -> str:
    """How fast a counter grows, each second."""
    return f"rate({selector}[$__rate_interval])"


def by_pair(function: str, selector: str) -> str:
    """A value for each agent and spec."""
    return f"{function} by (agent, spec, namespace) ({selector})"


NAMES = "{{agent}} / {{spec}} {{namespace}}"
"""The namespace is there where it is not empty."""


def rate_by(label: str, metric: str, *, title: str, why: str, unit: str, **more: bool) -> Panel:
    """A line for each value of a label: how fast a counter grows."""
    return Panel(
        title,
        "timeseries",
        why,
        unit,
        (Target(f"sum by ({label}) ({rate(of_processes(metric))})", f"{{{{{label}}}}}"),),
        8,
        stack=more.get("stack", False),
        low=0,
        may_be_empty=more.get("may_be_empty", False),
    )
