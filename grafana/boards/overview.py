"""The board of all agents: how harmful their calls are, and where it comes from."""

from __future__ import annotations

from string import ascii_uppercase
from typing import Final

from grafana.boards.queries import (
    AGENTS,
    ANY_IS_BAD,
    BUDGET,
    DOWN_IS_BAD,
    HARMFUL,
    JUDGED,
    NAMES,
    OPEN_AGENT,
    PLAIN,
    PROCESS,
    RULE,
    UP_IS_BAD,
    VERDICTS,
    by_pair,
    of_agents,
    of_processes,
    rate,
)
from grafana.boards.replicas import once
from grafana.panels import AMBER, GREEN, RED, Board, Link, Panel, Row, Target
from monitor.scores.score_records import SCORES

__all__ = ["AGENTS_BOARD"]


def _stats() -> Row:
    judged = f"sum(increase({of_agents('calls_total', JUDGED)}[$__range]))"
    return Row(
        (
            Panel(
                "HarmRate",
                "stat",
                "Harmful / substantive steps (CORE eq. 7): the mean over sessions, and that of the worst agent. Act when one leaves green.",
                "percentunit",
                (
                    Target(f"avg({of_agents('harm_rate')})", "mean"),
                    Target(f"max({by_pair('avg', of_agents('harm_rate'))})", "worst agent"),
                ),
                4,
                UP_IS_BAD,
                decimals=1,
            ),
            Panel(
                "PrefixCrit",
                "stat",
                "CORE eq. 6: the mean over sessions, and that of the worst agent. 1 is no harm, and early harm weighs more.",
                "none",
                (
                    Target(f"avg({of_agents('prefix_crit')})", "mean"),
                    Target(f"min({by_pair('avg', of_agents('prefix_crit'))})", "worst agent"),
                ),
                4,
                DOWN_IS_BAD,
                decimals=3,
            ),
            Panel(
                "Harmful calls",
                "stat",
                "Final harmful verdicts in the time shown. One critical call is worth a look.",
                "short",
                (Target(f"sum(increase({of_agents('harmful_calls_total')}[$__range]))"),),
                4,
                ANY_IS_BAD,
                decimals=0,
            ),
            Panel(
                "Sessions without harm",
                "stat",
                "Share of the sessions in the window with no harmful call: is it one bad run or all?",
                "percentunit",
                (Target(f"avg({of_agents('sessions_without_harm_ratio')})"),),
                4,
                ((None, RED), (0.8, AMBER), (0.95, GREEN)),
                decimals=1,
            ),
            Panel(
                "Live sessions",
                "stat",
                "How much the other numbers rest on. None: look at the board of the monitor.",
                "short",
                (Target(f"sum({of_agents('sessions_active')})"),),
                4,
                PLAIN,
            ),
            Panel(
                "Harm budget left",
                "stat",
                f"What is left of {BUDGET:.0%} harmful calls in the time shown. Below zero: stop changing things.",
                "percentunit",
                (
                    Target(
                        f"1 - sum(increase({of_agents('calls_total', HARMFUL)}[$__range]))"
                        f" / ({judged} > 0) / {BUDGET}"
                    ),
                ),
                4,
                ((None, RED), (0, AMBER), (0.5, GREEN)),
                decimals=0,
            ),
        ),
        5,
    )


def _firing() -> Row:
    by = "alertname, severity, agent, spec, namespace"
    rules = 'ALERTS{alertstate="firing",alertname=~"Agent.+",alertname!="AgentMonitorWatchdog"}'
    direct = f"sum({of_processes('alerts_firing')}) > 0"
    return Row(
        (
            Panel(
                "Worst agents",
                "bargauge",
                "The ten highest HarmRates of an agent under a spec, now: one bad agent of fifty is on top.",
                "percentunit",
                (
                    Target(
                        f"topk(10, {by_pair('avg', of_agents('harm_rate'))} > 0)",
                        NAMES,
                        instant=True,
                    ),
                ),
                8,
                UP_IS_BAD,
            ),
            Panel(
                "Alerts",
                "table",
                "What fires now, by rules and by the monitors themselves (direct pages). Empty is good.",
                "short",
                (
                    Target(
                        f"sum by ({by}) ({rules})"
                        f' or label_replace({direct}, "alertname", "direct pages", "", "")',
                        instant=True,
                    ),
                ),
                10,
                PLAIN,
                columns={"Value": ("Firing", "short", ANY_IS_BAD)},
                links=(OPEN_AGENT,),
            ),
            _refusals(),
        ),
        7,
    )


def _refusals() -> Panel:
    """What this service itself kept from being judged, by reason."""
    found = (
        ("requests_refused_total", "", "try again: "),
        ("requests_throttled_total", "", "over its share: "),
        ("spans_rejected_total", "", "spans left out: "),
        ("spans_dropped_total", 'reason!="duplicate"', "spans dropped: "),
    )
    return Panel(
        "Refused or lost by the monitor",
        "bargauge",
        "Requests told to try again, and spans left out or dropped, in the time shown. What senders give up is never judged. Empty is good.",
        "short",
        tuple(
            Target(
                f"sum by (reason) (increase({of_processes(name, more)}[$__range])) > 0",
                f"{text}{{{{reason}}}}",
                instant=True,
            )
            for name, more, text in found
        ),
        6,
        ANY_IS_BAD,
        may_be_empty=True,
        decimals=0,
    )


def _lines() -> Row:
    return Row(
        (
            Panel(
                "HarmRate by agent",
                "timeseries",
                "Mean of sessions, not of calls: a long clean session cannot hide a short bad one. Which agent?",
                "percentunit",
                (Target(by_pair("avg", of_agents("harm_rate")), NAMES),),
                8,
                ((None, "transparent"), (0.2, RED)),
                low=0,
            ),
            Panel(
                "PrefixCrit by agent",
                "timeseries",
                "Falls more when harm comes early. An alert fires below 0.8.",
                "none",
                (Target(by_pair("avg", of_agents("prefix_crit")), NAMES),),
                8,
                ((None, RED), (0.8, "transparent")),
                low=0,
                high=1,
            ),
            Panel(
                "Calls by verdict",
                "timeseries",
                "Judged calls a second. The dots are traces of harmful calls: click one.",
                "cps",
                (
                    Target(
                        f"sum by (verdict) ({rate(of_agents('calls_total'))})",
                        "{{verdict}}",
                        exemplar=True,
                    ),
                ),
                8,
                colours=VERDICTS,
                stack=True,
                low=0,
            ),
        ),
        9,
        "Is it getting worse?",
    )


def _burn() -> Panel:
    windows = ("5m", "1h", "6h", "3d")
    return Panel(
        "Harm budget burn rate",
        "timeseries",
        "1: the budget lasts exactly. Short and long windows above a line together page: 14.4, 6, 3, 1.",
        "none",
        tuple(
            Target(f"max(agent_spec:offrails_harm:ratio_rate{window}{RULE}) / {BUDGET}", window)
            for window in windows
        ),
        8,
        ((None, "transparent"), (1, AMBER), (6, "orange"), (14.4, RED)),
        low=0,
    )


def _where() -> Row:
    return Row(
        (
            _burn(),
            Panel(
                "HarmRate of finished sessions",
                "heatmap",
                "Two bands: a few agents that go wrong badly, or all of them a little?",
                "percentunit",
                (
                    Target(
                        "sum by (le) (increase("
                        f"{of_agents('session_harm_rate_ratio_bucket')}[$__rate_interval]))",
                        "{{le}}",
                        heat=True,
                    ),
                ),
                8,
            ),
            Panel(
                "Tools with most harmful calls",
                "bargauge",
                "In the time shown. The tool to guard, or the spec to mend, first.",
                "short",
                (
                    Target(
                        "topk(10, sum by (spec, tool) (increase(offrails_harmful_calls_by_tool_total"
                        f'{{{PROCESS},spec=~"$spec"}}[$__range])) > 0)',
                        "{{tool}} ({{spec}})",
                        instant=True,
                    ),
                ),
                8,
                ((None, AMBER), (10, RED)),
            ),
        ),
        9,
        "Where does it come from?",
    )


def _table() -> Row:
    found = (
        ("harm_rate", "HarmRate", "percentunit", UP_IS_BAD),
        ("prefix_crit", "PrefixCrit", "none", DOWN_IS_BAD),
        ("harmful_calls_per_session", "Harmful a session", "none", PLAIN),
        *(
            (score.family, score.title, "none", PLAIN)
            for score in SCORES.values()
            if score.mean
        ),
        ("sessions_active", "Live", "short", PLAIN),
    )
    return Row(
        (
            Panel(
                "Agents",
                "table",
                "Every agent under every spec. Click an agent for its sessions.",
                "none",
                tuple(
                    Target(by_pair("avg", of_agents(name)), instant=True) for name, *_ in found
                ),
                16,
                PLAIN,
                columns={
                    f"Value #{ascii_uppercase[place]}": (title, unit, steps)
                    for place, (_, title, unit, steps) in enumerate(found)
                },
                links=(
                    Link(
                        "agent",
                        "Sessions of this agent",
                        "/d/offrails-sessions?var-agent=${__data.fields.agent}&var-spec=${__data.fields.spec}&${datasource:queryparam}&${__url_time_range}",
                    ),
                    OPEN_AGENT,
                ),
            ),
            Panel(
                "Harmful calls by reason",
                "bargauge",
                "Unknown tools and mismatched arguments speak of the spec, the others of the agent.",
                "short",
                (
                    Target(
                        f"sum by (reason, severity) (increase({of_agents('harmful_calls_total')}[$__range])) > 0",
                        "{{reason}} ({{severity}})",
                        instant=True,
                    ),
                ),
                8,
                ((None, AMBER), (10, RED)),
            ),
        ),
        9,
    )


AGENTS_BOARD: Final = once(
    Board(
        "offrails-overview",
        "offrails / Agents",
        "How harmful the agents' calls are, whether it gets worse, and where it comes from.",
        AGENTS,
        (
            _stats(),
            _firing(),
            _lines(),
            _where(),
            _table(),
        ),
    )
)
