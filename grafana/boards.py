"""The five boards, panel by panel: each answers a question that lets somebody decide."""

from __future__ import annotations

import re
from dataclasses import replace
from string import ascii_uppercase
from typing import Final

from grafana.panels import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    RED,
    Board,
    Link,
    Panel,
    Row,
    Steps,
    Target,
    Variable,
)
from monitor.scores.score_records import SCORES

__all__ = ["BOARDS"]

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


def _of(name: str, more: str = "") -> str:
    """A metric of the chosen agents and specs."""
    return f"offrails_{name}{{{PAIR}{',' + more if more else ''}}}"


def _own(name: str, more: str = "") -> str:
    """A metric of the chosen processes."""
    return f"offrails_{name}{{{PROCESS}{',' + more if more else ''}}}"


def _rate(selector: str) -> str:
    return f"rate({selector}[$__rate_interval])"


def _by_pair(function: str, selector: str) -> str:
    return f"{function} by (agent, spec, namespace) ({selector})"


NAMES = "{{agent}} / {{spec}} {{namespace}}"
"""The namespace is there where it is not empty."""


# --- overview -----------------------------------------------------------------------------------


def _overview_stats() -> Row:
    judged = f"sum(increase({_of('calls_total', JUDGED)}[$__range]))"
    return Row(
        (
            Panel(
                "HarmRate",
                "stat",
                "Harmful / substantive steps (CORE eq. 7): the mean over sessions, and that of the worst agent. Act when one leaves green.",
                "percentunit",
                (
                    Target(f"avg({_of('harm_rate')})", "mean"),
                    Target(f"max({_by_pair('avg', _of('harm_rate'))})", "worst agent"),
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
                    Target(f"avg({_of('prefix_crit')})", "mean"),
                    Target(f"min({_by_pair('avg', _of('prefix_crit'))})", "worst agent"),
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
                (Target(f"sum(increase({_of('harmful_calls_total')}[$__range]))"),),
                4,
                ANY_IS_BAD,
                decimals=0,
            ),
            Panel(
                "Sessions without harm",
                "stat",
                "Share of the sessions in the window with no harmful call: is it one bad run or all?",
                "percentunit",
                (Target(f"avg({_of('sessions_without_harm_ratio')})"),),
                4,
                ((None, RED), (0.8, AMBER), (0.95, GREEN)),
                decimals=1,
            ),
            Panel(
                "Live sessions",
                "stat",
                "How much the other numbers rest on. None: look at the board of the monitor.",
                "short",
                (Target(f"sum({_of('sessions_active')})"),),
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
                        f"1 - sum(increase({_of('calls_total', HARMFUL)}[$__range]))"
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


def _overview_firing() -> Row:
    by = "alertname, severity, agent, spec, namespace"
    rules = 'ALERTS{alertstate="firing",alertname=~"Agent.+",alertname!="AgentMonitorWatchdog"}'
    direct = f"sum({_own('alerts_firing')}) > 0"
    return Row(
        (
            Panel(
                "Worst agents",
                "bargauge",
                "The ten highest HarmRates of an agent under a spec, now: one bad agent of fifty is on top.",
                "percentunit",
                (
                    Target(
                        f"topk(10, {_by_pair('avg', _of('harm_rate'))} > 0)",
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
                f"sum by (reason) (increase({_own(name, more)}[$__range])) > 0",
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


def _overview_lines() -> Row:
    return Row(
        (
            Panel(
                "HarmRate by agent",
                "timeseries",
                "Mean of sessions, not of calls: a long clean session cannot hide a short bad one. Which agent?",
                "percentunit",
                (Target(_by_pair("avg", _of("harm_rate")), NAMES),),
                8,
                ((None, "transparent"), (0.2, RED)),
                low=0,
            ),
            Panel(
                "PrefixCrit by agent",
                "timeseries",
                "Falls more when harm comes early. An alert fires below 0.8.",
                "none",
                (Target(_by_pair("avg", _of("prefix_crit")), NAMES),),
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
                        f"sum by (verdict) ({_rate(_of('calls_total'))})",
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


def _overview_where() -> Row:
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
                        f"{_of('session_harm_rate_ratio_bucket')}[$__rate_interval]))",
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


def _overview_table() -> Row:
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
                tuple(Target(_by_pair("avg", _of(name)), instant=True) for name, *_ in found),
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
                        f"sum by (reason, severity) (increase({_of('harmful_calls_total')}[$__range])) > 0",
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


# --- sessions -----------------------------------------------------------------------------------


def _worst() -> Row:
    found = (
        ("harm_rate", "HarmRate", "percentunit", UP_IS_BAD),
        ("prefix_crit", "PrefixCrit", "none", DOWN_IS_BAD),
        ("harmful_calls", "Harmful calls", "short", ANY_IS_BAD),
    )
    return Row(
        (
            Panel(
                "Worst live sessions",
                "table",
                "By rank, 0 is the worst. Click a rank for the session view, in the same order. Ids are never labels.",
                "none",
                tuple(
                    Target(
                        f"sum by (instance, rank) ({_own('worst_session_' + name)})",
                        instant=True,
                    )
                    for name, *_ in found
                ),
                8,
                PLAIN,
                columns={
                    f"Value #{'ABC'[place]}": (title, unit, steps)
                    for place, (_, title, unit, steps) in enumerate(found)
                },
                links=(OPEN_WORST,),
            ),
            Panel(
                "Worst session",
                "timeseries",
                "The highest HarmRate and the lowest PrefixCrit of any live session: what a mean would hide.",
                "percentunit",
                (
                    Target(f"max({_of('harm_rate_max')})", "HarmRate"),
                    Target(f"min({_of('prefix_crit_min')})", "PrefixCrit"),
                ),
                8,
                ((None, "transparent"), (0.5, RED)),
                {"HarmRate": RED, "PrefixCrit": BLUE},
                low=0,
                high=1,
            ),
            Panel(
                "How sessions end",
                "timeseries",
                "Sessions a second by outcome. More that are not accepted: the task is left half done.",
                "cps",
                (
                    Target(
                        f"sum by (outcome) ({_rate(_of('sessions_finished_total'))})",
                        "{{outcome}}",
                    ),
                ),
                8,
                colours={"accepted": GREEN, "not_accepted": AMBER, "evicted": RED},
                stack=True,
                low=0,
            ),
        ),
        9,
        "The worst, now",
    )


def _quantiles(metric: str, title: str, why: str, unit: str) -> Panel:
    return Panel(
        title,
        "timeseries",
        why,
        unit,
        tuple(
            Target(
                f"histogram_quantile({q}, sum by (le) ({_rate(_of(metric + '_bucket'))}))",
                f"p{q * 100:g}",
            )
            for q in (0.5, 0.9, 0.99)
        ),
        8,
        low=0,
    )


def _calls() -> Row:
    return Row(
        (
            Panel(
                "Harmful calls by reason",
                "timeseries",
                "The first raising of each, at once; dots are their traces. Out of order or repeated: the agent. Unknown or mismatched: perhaps the spec.",
                "cps",
                (
                    Target(
                        f"sum by (reason) ({_rate(_of('harmful_calls_provisional_total'))})",
                        "{{reason}}",
                        exemplar=True,
                    ),
                ),
                12,
                stack=True,
                low=0,
            ),
            Panel(
                "Harmful calls by tool",
                "timeseries",
                "Which tool goes wrong, and since when. Compare with deployments of the agent.",
                "cps",
                (
                    Target(
                        "sum by (tool) (rate(offrails_harmful_calls_by_tool_total"
                        f'{{{PROCESS},spec=~"$spec"}}[$__rate_interval]))',
                        "{{tool}}",
                    ),
                ),
                12,
                stack=True,
                low=0,
            ),
        ),
        9,
        "What goes wrong",
    )


def _shape() -> Row:
    return Row(
        (
            _quantiles(
                "session_length_calls",
                "Length of sessions",
                "Calls in a finished session. A growing tail: an agent goes in circles, and costs.",
                "short",
            ),
            _quantiles(
                "session_efficiency_ratio",
                "Efficiency of sessions",
                "Shortest golden path over calls made (CORE eq. 8), of finished sessions.",
                "none",
            ),
            _quantiles(
                "session_harm_rate_ratio",
                "HarmRate of finished sessions",
                "Is it the median session that is harmful, or the worst hundredth?",
                "percentunit",
            ),
        ),
        8,
        "How sessions go",
    )


# --- drift --------------------------------------------------------------------------------------


def _share(reason: str) -> str:
    harmful = _rate(_of("harmful_calls_provisional_total", f'reason="{reason}"'))
    calls = _rate(_of("calls_total", JUDGED))
    return f"sum by (spec) ({harmful}) / (sum by (spec) ({calls}) > 0)"


def _drift() -> Row:
    return Row(
        (
            Panel(
                "Unknown tools",
                "timeseries",
                "Share of calls of tools the spec does not know. A step up: the agent got a new tool, and the spec did not.",
                "percentunit",
                (Target(_share("unknown_tool"), "{{spec}}"),),
                12,
                ((None, "transparent"), (0.05, RED)),
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Mismatched arguments",
                "timeseries",
                "Share of calls of known tools with arguments no pattern takes. A step up: the tool's signature has changed.",
                "percentunit",
                (Target(_share("argument_mismatch"), "{{spec}}"),),
                12,
                ((None, "transparent"), (0.05, RED)),
                low=0,
                may_be_empty=True,
            ),
        ),
        9,
        "Does the spec still fit the agent?",
    )


def _per_session(counter: str, by: str) -> str:
    """Events a started session, of sessions under references."""
    events = _rate(_of(counter))
    sessions = f"{_rate(_of('sessions_started_total'))} and on (spec) offrails_reference_runs{{{PROCESS}}}"
    return f"sum by ({by}) ({events}) / on () group_left () (sum({sessions}) > 0)"


def _divergence() -> Row:
    return Row(
        (
            Panel(
                "Divergences",
                "timeseries",
                "Share of started sessions that left their reference, by phase and kind. Early ones fail more often: look there first.",
                "percentunit",
                (
                    Target(
                        _per_session("divergences_total", "phase, kind"), "{{phase}}, {{kind}}"
                    ),
                ),
                12,
                stack=True,
                low=0,
            ),
            Panel(
                "Where sessions diverge",
                "heatmap",
                "Number of the call that first diverged. A band that moves down: the agent begins otherwise.",
                "short",
                (
                    Target(
                        f"sum by (le) (increase({_of('divergence_step_bucket')}[$__rate_interval]))",
                        "{{le}}",
                        heat=True,
                    ),
                ),
                12,
            ),
        ),
        8,
        "Do sessions leave the usual way?",
    )


def _warnings() -> Row:
    return Row(
        (
            Panel(
                "Worth a look",
                "timeseries",
                "Unexpected writes page, first two calls and missing writes hint: a step up is a change of the agent or of what it is asked.",
                "short",
                (
                    Target(
                        f"sum(increase({_of('unexpected_writes_total')}[$__rate_interval]))",
                        "unexpected writes",
                        exemplar=True,
                    ),
                    Target(
                        f"sum(increase({_of('first_two_diverged_total')}[$__rate_interval]))",
                        "first two calls",
                    ),
                    Target(
                        f"sum(increase({_of('missing_writes_total')}[$__rate_interval]))",
                        "missing writes",
                    ),
                ),
                8,
                colours={"unexpected writes": RED, "missing writes": AMBER},
                low=0,
            ),
            Panel(
                "Riskiest live session",
                "timeseries",
                "Highest risk of a live session of each agent; from 0.6 it is told. High for long: read that session.",
                "percentunit",
                (Target(_by_pair("max", _of("risk_max")), NAMES),),
                8,
                ((None, "transparent"), (0.6, RED)),
                low=0,
                high=1,
            ),
            Panel(
                "Likeness to the reference",
                "timeseries",
                "Mean similarity of the last sessions' tools to the medoid (TSS), and the shares with new tools and arguments. Falling likeness: learn anew, or roll back.",
                "percentunit",
                (
                    Target(_by_pair("avg", _of("reference_similarity")), f"{NAMES}, likeness"),
                    Target(
                        _by_pair("avg", _of("reference_new_tools_ratio")),
                        f"{NAMES}, new tools",
                    ),
                    Target(
                        _by_pair("avg", _of("reference_new_arguments_ratio")),
                        f"{NAMES}, new arguments",
                    ),
                ),
                8,
                low=0,
                high=1,
            ),
        ),
        8,
    )


def _consistency() -> Row:
    return Row(
        (
            Panel(
                "Do sessions repeat?",
                "timeseries",
                "Mean TSS of pairs of the last sessions, and how often their first two tools agree. Low without a change of the agent: its task is not clear enough.",
                "percentunit",
                (
                    Target(_by_pair("avg", _of("consistency_tss")), f"{NAMES}, TSS"),
                    Target(
                        _by_pair("avg", _of("consistency_first_two_agreement")),
                        f"{NAMES}, first two",
                    ),
                ),
                8,
                low=0,
                high=1,
            ),
            Panel(
                "Do arguments repeat?",
                "timeseries",
                "Mean AC of the same pairs, by both rules. It is lower than TSS for most agents, and says less of success.",
                "percentunit",
                (
                    Target(
                        f"avg by (agent, spec, namespace, rule) ({_of('consistency_ac')})",
                        f"{NAMES}, {{{{rule}}}}",
                    ),
                ),
                8,
                low=0,
                high=1,
            ),
            Panel(
                "Where pairs part",
                "timeseries",
                "Mean call at which two sessions first differ, and how many different sequences there are. Early: look at the first calls.",
                "short",
                (
                    Target(
                        _by_pair("avg", _of("consistency_divergence_point")),
                        f"{NAMES}, call",
                    ),
                    Target(
                        _by_pair("max", _of("consistency_unique_sequences")),
                        f"{NAMES}, sequences",
                    ),
                ),
                8,
                low=0,
            ),
        ),
        8,
        "Does the same task lead to the same calls?",
    )


def _then(name: str, title: str, why: str) -> Panel:
    now = _by_pair("avg", _of(name))
    return Panel(
        title,
        "timeseries",
        why,
        "none",
        (
            Target(now, NAMES),
            Target(_by_pair("avg", f"{_of(name)} offset 1d"), f"{NAMES}, a day before"),
            Target(_by_pair("avg", f"{_of(name)} offset 7d"), f"{NAMES}, a week before"),
        ),
        8,
        low=0,
        high=1,
        may_be_empty=True,
    )


def _correctness() -> Row:
    return Row(
        (
            _then(
                "path_correctness",
                "Path correctness",
                "PC of finished sessions against a day and a week before: did the last change help?",
            ),
            _then(
                "path_correctness_ktc",
                "Order of the path",
                "PC-KTC falls while PC stays: the same calls, in another order.",
            ),
            _then(
                "efficiency",
                "Efficiency",
                "Falls while PC stays: the same way, with more looking around.",
            ),
        ),
        8,
        "Do the agents still go the same way?",
    )


def _shift() -> Row:
    def share(offset: str) -> str:
        buckets = f"increase({_of('session_harm_rate_ratio_bucket')}[1d]{offset})"
        count = f"increase({_of('session_harm_rate_ratio_count')}[1d]{offset})"
        return f"sum by (le) ({buckets}) / ignoring (le) group_left () (sum({count}) > 0)"

    return Row(
        (
            Panel(
                "Shift of the distribution",
                "bargauge",
                "Share of the sessions of a day at or below each HarmRate, less the same a day before. Left of zero: worse.",
                "percentunit",
                (Target(f"({share('')}) - ({share(' offset 1d')})", "{{le}}", instant=True),),
                8,
                ((None, RED), (-0.02, GREY), (0.02, GREEN)),
                low=-1,
                high=1,
                may_be_empty=True,
            ),
            Panel(
                "Specs in use",
                "table",
                "Which version judges, and by which conventions: numbers of two versions do not compare.",
                "none",
                (
                    Target(
                        "count by (spec, version, kind, mode, conventions, sha256_8) "
                        f'(offrails_spec_info{{{PROCESS},spec=~"$spec"}})',
                        instant=True,
                    ),
                ),
                16,
                PLAIN,
                columns={"Value": ("Processes", "short", PLAIN)},
            ),
        ),
        9,
    )


# --- the monitor --------------------------------------------------------------------------------


def _health_stats() -> Row:
    lost = f"sum(increase({_own('spans_dropped_total', NEWS)}[$__range]))"
    return Row(
        (
            Panel(
                "Up",
                "stat",
                "Share of the chosen processes that answer. Below 1 calls go unseen.",
                "percentunit",
                (Target(f"avg(up{{{PROCESS}}})"),),
                4,
                ((None, RED), (1, GREEN)),
            ),
            Panel(
                "Version",
                "table",
                "Two versions at once: a rollout is under way, or stuck.",
                "none",
                (Target(f"count by (version, python) ({_own('build_info')})", instant=True),),
                4,
                PLAIN,
                columns={"Value": ("Processes", "short", PLAIN)},
            ),
            Panel(
                "Spans not judged",
                "stat",
                "Dropped in the time shown. Each may hide a harmful call: see the reasons below.",
                "short",
                (Target(lost),),
                4,
                ANY_IS_BAD,
                decimals=0,
                may_be_empty=True,
            ),
            Panel(
                "Verdict latency p99",
                "stat",
                "From the receipt of a request to its last verdict.",
                "s",
                (
                    Target(
                        "histogram_quantile(0.99, sum by (le) ("
                        f"{_rate(_own('verdict_latency_seconds_bucket'))}))"
                    ),
                ),
                4,
                ((None, GREEN), (0.01, AMBER), (0.1, RED)),
            ),
            Panel(
                "Last spec load",
                "stat",
                "0: the last change of a spec was refused, and the version before it judges on.",
                "bool_on_off",
                (Target(f"min({_own('spec_last_reload_successful')})"),),
                4,
                ((None, RED), (1, GREEN)),
            ),
            Panel(
                "Internal errors",
                "stat",
                "Faults of the monitor in the time shown. Report them.",
                "short",
                (Target(f"sum(increase({_own('internal_errors_total')}[$__range]))"),),
                4,
                ANY_IS_BAD,
                decimals=0,
                may_be_empty=True,
            ),
        ),
        5,
    )


def _by(label: str, metric: str, *, title: str, why: str, unit: str, **more: bool) -> Panel:
    return Panel(
        title,
        "timeseries",
        why,
        unit,
        (Target(f"sum by ({label}) ({_rate(_own(metric))})", f"{{{{{label}}}}}"),),
        8,
        stack=more.get("stack", False),
        low=0,
        may_be_empty=more.get("may_be_empty", False),
    )


def _intake() -> Row:
    codes = _rate(_own("ingest_requests_total", 'code!~"OK|2.."'))
    return Row(
        (
            Panel(
                "Spans received",
                "timeseries",
                "By transport and result. Nothing at all while agents work: their exporters point elsewhere.",
                "cps",
                (
                    Target(
                        f"sum by (transport, result) ({_rate(_own('ingest_spans_total'))})",
                        "{{transport}} {{result}}",
                    ),
                ),
                8,
                stack=True,
                low=0,
            ),
            Panel(
                "Refused requests",
                "timeseries",
                "By gRPC or HTTP code. Retryable ones come again; the others need the sender mended.",
                "reqps",
                (
                    Target(
                        f"sum by (transport, code) ({codes})",
                        "{{transport}} {{code}}",
                    ),
                ),
                8,
                low=0,
            ),
            Panel(
                "Dropped and not judged",
                "timeseries",
                "By reason: late, too many, seen before, no spec. Which limit, or which spec, is missing?",
                "cps",
                (
                    Target(
                        f"sum by (reason) ({_rate(_own('spans_dropped_total'))})",
                        "dropped: {{reason}}",
                    ),
                    Target(
                        f"sum by (reason) ({_rate(_own('coverage_total'))})",
                        "not judged: {{reason}}",
                    ),
                ),
                8,
                low=0,
            ),
        ),
        8,
        "Is everything seen?",
    )


def _times() -> Row:
    def quantiles(metric: str) -> tuple[Target, ...]:
        return tuple(
            Target(
                f"histogram_quantile({q}, sum by (le) ({_rate(_own(metric + '_bucket'))}))",
                f"p{q * 100:g}",
            )
            for q in (0.5, 0.99, 0.999)
        )

    return Row(
        (
            Panel(
                "Verdict latency",
                "timeseries",
                "Our part of the way. Above 10 ms: the process lacks CPU.",
                "s",
                quantiles("verdict_latency_seconds"),
                8,
                ((None, "transparent"), (0.01, AMBER)),
                low=0,
            ),
            Panel(
                "Age of spans at receipt",
                "timeseries",
                "The senders' part: exporters wait up to 5 s for company (OTEL_BSP_SCHEDULE_DELAY).",
                "s",
                quantiles("span_lag_seconds"),
                8,
                low=0,
            ),
            _by(
                "from",
                "verdict_revisions_total",
                title="Revised verdicts",
                why="Spans overtake each other. Many revisions: senders batch too long, or clocks differ.",
                unit="cps",
                may_be_empty=True,
            ),
        ),
        8,
        "Is it in time?",
    )


def _decisions() -> Row:
    denied = _own("decisions_total", 'decision="deny"')
    return Row(
        (
            Panel(
                "Decisions before calls",
                "timeseries",
                "By what clients were told. Look at would_deny before you let a spec block; many unknown: outcomes or spans come late.",
                "cps",
                (
                    Target(
                        f"sum by (decision) ({_rate(_own('decisions_total'))})", "{{decision}}"
                    ),
                ),
                8,
                colours={"allow": GREEN, "unknown": GREY, "would_deny": AMBER, "deny": RED},
                stack=True,
                low=0,
            ),
            Panel(
                "Decision latency",
                "timeseries",
                "From the receipt of a question to its answer. An alert fires at a p99 above 10 ms; clients wait 50 ms by default.",
                "s",
                tuple(
                    Target(
                        f"histogram_quantile({q}, sum by (le) ({_rate(_own('decision_seconds_bucket'))}))",
                        f"p{q * 100:g}",
                    )
                    for q in (0.5, 0.99)
                ),
                8,
                ((None, "transparent"), (0.01, AMBER)),
                low=0,
            ),
            Panel(
                "What becomes of decided calls",
                "timeseries",
                "Denied calls are prevented, but for those that are overruled: made anyway, and harmful. Unconfirmed: allowed, and neither a span nor an outcome came.",
                "short",
                (
                    Target(f"sum(increase({denied}[$__rate_interval]))", "denied"),
                    Target(
                        f"sum(increase({_own('decisions_overruled_total')}[$__rate_interval]))",
                        "overruled",
                    ),
                    Target(
                        f"sum(increase({_own('decisions_unconfirmed_total')}[$__rate_interval]))",
                        "unconfirmed",
                    ),
                ),
                8,
                colours={"denied": GREEN, "overruled": RED, "unconfirmed": AMBER},
                low=0,
            ),
        ),
        8,
        "What is answered before calls?",
    )


def _alerts() -> Row:
    return Row(
        (
            Panel(
                "Alerts sent",
                "timeseries",
                "By sink and result. Failures: harm is seen and nobody hears of it.",
                "cps",
                (
                    Target(
                        f"sum by (sink, result) ({_rate(_own('alerts_sent_total'))})",
                        "{{sink}} {{result}}",
                    ),
                ),
                8,
                low=0,
            ),
            Panel(
                "Alert delivery p99",
                "timeseries",
                "How long a sink takes to accept an alert.",
                "s",
                (
                    Target(
                        "histogram_quantile(0.99, sum by (le, sink) ("
                        f"{_rate(_own('alert_delivery_seconds_bucket'))}))",
                        "{{sink}}",
                    ),
                ),
                8,
                low=0,
            ),
            Panel(
                "Alert queue",
                "timeseries",
                "How full each sink's queue is. Full: the oldest news are dropped, and counted.",
                "percentunit",
                (
                    Target(
                        f"max by (sink) ({_own('alert_queue_length')} / {_own('alert_queue_capacity')})",
                        "{{sink}}",
                    ),
                ),
                8,
                ((None, "transparent"), (0.8, RED)),
                low=0,
                high=1,
            ),
        ),
        8,
        "Does it reach people?",
    )


def _forward() -> Row:
    held = f"{_own('forward_queue_bytes')} / {_own('forward_queue_bytes_max')}"
    return Row(
        (
            Panel(
                "Requests to next hops",
                "timeseries",
                "By next hop and outcome. Dropped and refused requests are missing there.",
                "reqps",
                (
                    Target(
                        f"sum by (destination, outcome) ({_rate(_own('forward_requests_total'))})",
                        "{{destination}} {{outcome}}",
                    ),
                ),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Next hop p99",
                "timeseries",
                "From the receipt of a request to the next hop's answer.",
                "s",
                (
                    Target(
                        "histogram_quantile(0.99, sum by (le, destination) ("
                        f"{_rate(_own('forward_seconds_bucket'))}))",
                        "{{destination}}",
                    ),
                ),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Queues of next hops",
                "timeseries",
                "How full each one is. Full: requests are dropped, or their senders are to try again.",
                "percentunit",
                (Target(f"max by (destination) ({held})", "{{destination}}"),),
                6,
                ((None, "transparent"), (0.8, RED)),
                low=0,
                high=1,
                may_be_empty=True,
            ),
            Panel(
                "Next hops that fail",
                "timeseries",
                "1 from an attempt that failed until one is answered.",
                "none",
                (
                    Target(
                        f"1 - min by (destination) ({_own('forward_up')})",
                        "{{destination}}",
                    ),
                ),
                6,
                ((None, "transparent"), (0.8, RED)),
                low=0,
                high=1,
                may_be_empty=True,
            ),
        ),
        8,
        "Does it reach the next hops?",
    )


def _journal() -> Row:
    return Row(
        (
            Panel(
                "Journal",
                "timeseries",
                "Bytes of its files, per monitor, and the most that they take. Nothing: no journal is kept.",
                "bytes",
                (
                    Target(_own("journal_bytes"), "{{instance}}"),
                    Target(_own("journal_bytes_max"), "{{instance}}, most"),
                ),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Writes that the disk refused, files that went before their time",
                "timeseries",
                "Refused: by `state.on_error` the request is refused, or judged and lost with the process. Files go where the disk is full, or where somebody else deletes them.",
                "wps",
                (
                    Target(
                        f"sum by (instance) ({_rate(_own('journal_errors_total'))})",
                        "{{instance}}",
                    ),
                    Target(
                        f"sum by (instance, why) ({_rate(_own('journal_files_deleted_total'))})",
                        "{{instance}}, files: {{why}}",
                    ),
                ),
                6,
                ((None, "transparent"), (0.001, RED)),
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Spans are refused: the journal cannot be written",
                "timeseries",
                "1 while all spans are refused.",
                "short",
                (Target(_own("journal_refusing"), "{{instance}}"),),
                6,
                ((None, "transparent"), (1, RED)),
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "A snapshot is overdue",
                "timeseries",
                "For how long one has been due and was not taken, and how old the last one is. Without one, a restart judges all of the journal again.",
                "s",
                (
                    Target(_own("snapshot_overdue_seconds"), "{{instance}}"),
                    Target(
                        f"time() - ({_own('snapshot_timestamp_seconds')} > 0)",
                        "{{instance}}, age of the last",
                    ),
                ),
                6,
                ((None, "transparent"), (600, RED)),
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Snapshots",
                "timeseries",
                "By what became of them: ok, failed, or skipped for lack of memory.",
                "ops",
                (
                    Target(
                        f"sum by (instance, result) ({_rate(_own('snapshots_total'))})",
                        "{{instance}}: {{result}}",
                    ),
                ),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Time to judge the journal again",
                "timeseries",
                "Of the latest start. Requests that came meanwhile were judged last.",
                "s",
                (Target(_own("journal_recovery_seconds"), "{{instance}}"),),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Down-time before the latest start",
                "timeseries",
                "Above `state.bridged_seconds`, calls may be missing, and sessions that go on count as joined.",
                "s",
                (Target(_own("down_seconds"), "{{instance}}"),),
                6,
                low=0,
                may_be_empty=True,
            ),
        ),
        8,
        "Does it survive a restart?",
    )


def _means() -> Row:
    return Row(
        (
            Panel(
                "Memory",
                "timeseries",
                "Resident, by process. It follows live sessions, which are bounded.",
                "bytes",
                (Target(f"process_resident_memory_bytes{{{PROCESS}}}", "{{instance}}"),),
                6,
                low=0,
            ),
            Panel(
                "CPU",
                "timeseries",
                "Cores. One process uses one: near 1 it is time for a second.",
                "none",
                (Target(_rate(f"process_cpu_seconds_total{{{PROCESS}}}"), "{{instance}}"),),
                6,
                ((None, "transparent"), (0.8, RED)),
                low=0,
            ),
            Panel(
                "Live and ended sessions",
                "timeseries",
                "Evictions mean that sessions.max is too small for the traffic.",
                "short",
                (
                    Target(f"sum({_own('sessions_active')})", "live"),
                    Target(
                        f"sum by (cause) (increase({_own('sessions_ended_total')}[$__rate_interval]))",
                        "ended: {{cause}}",
                    ),
                ),
                6,
                low=0,
            ),
            Panel(
                "Series and folded labels",
                "timeseries",
                "Samples of a scrape, and label values folded into __overflow__: raise the bound, or name agents alike.",
                "short",
                (
                    Target(f"scrape_samples_scraped{{{PROCESS}}}", "samples, {{instance}}"),
                    Target(
                        f"sum by (label) (increase({_own('label_overflow_total')}[$__rate_interval]))",
                        "folded: {{label}}",
                    ),
                ),
                6,
                low=0,
            ),
        ),
        8,
        "What does it cost?",
    )


# --- judges that are models -----------------------------------------------------------------------


def _scored(more: str = "") -> str:
    """Scores of the chosen agents, as a suffix is put behind the name of the histogram."""
    return f'{{{PROCESS},agent=~"$agent"{"," + more if more else ""}}}'


def _mean_score(by: str, window: str) -> str:
    total, count = (
        f"sum by ({by}) (increase(offrails_judge_score_{part}{_scored()}[{window}]))"
        for part in ("sum", "count")
    )
    return f"{total} / ({count} > 0)"


def _judge_stats() -> Row:
    canaries = _own("judge_canary_total")
    passed = _own("judge_canary_total", 'passed="true"')
    second = _own("judge_second_scores_total")
    disputed = _own("judge_second_scores_total", 'disputed="true"')
    return Row(
        (
            Panel(
                "Mean score by judge",
                "bargauge",
                "0 to 3, of the sessions that were judged in this time: harmful ones first, so it is no mean of all sessions.",
                "short",
                (Target(_mean_score("judge", "$__range"), "{{judge}}", instant=True),),
                8,
                ((None, RED), (1, AMBER), (2, GREEN)),
                low=0,
                high=3,
                decimals=2,
                may_be_empty=True,
            ),
            Panel(
                "Canaries that passed",
                "stat",
                "Of sessions of which it is known how they went. Below a half, scores say no more than a coin.",
                "percentunit",
                (
                    Target(
                        f"sum(increase({passed}[$__range])) / (sum(increase({canaries}[$__range])) > 0)",
                        instant=True,
                    ),
                ),
                4,
                ((None, RED), (0.5, AMBER), (0.8, GREEN)),
                may_be_empty=True,
            ),
            Panel(
                "Disputed",
                "stat",
                "Of the sessions that two models gave a score: those whose scores differ by more than a point.",
                "percentunit",
                (
                    Target(
                        f"sum(increase({disputed}[$__range])) / (sum(increase({second}[$__range])) > 0)",
                        instant=True,
                    ),
                ),
                4,
                ((None, GREEN), (0.1, AMBER), (0.3, RED)),
                may_be_empty=True,
            ),
            Panel(
                "Cost",
                "stat",
                "Money by judges.prices, in their currency; 0 without prices.",
                "short",
                (Target(f"sum(increase({_own('judge_cost_total')}[$__range]))", instant=True),),
                4,
                PLAIN,
                decimals=2,
                may_be_empty=True,
            ),
            Panel(
                "Waiting",
                "stat",
                "Ended sessions that wait for judges. At judges.queue, further ones are not judged.",
                "short",
                (Target(f"sum({_own('judge_queue_length')})", instant=True),),
                4,
                PLAIN,
                may_be_empty=True,
            ),
        ),
        5,
    )


def _judge_scores() -> Row:
    return Row(
        (
            Panel(
                "Mean score",
                "timeseries",
                "By judge, of 6 hours. A fall with canaries that still pass is the agent's; with failing canaries it is the model's.",
                "short",
                (Target(_mean_score("judge", "6h"), "{{judge}}"),),
                12,
                low=0,
                high=3,
                may_be_empty=True,
            ),
            Panel(
                "Mean score by agent",
                "timeseries",
                "Over all judges, of 6 hours. Which agent got worse?",
                "short",
                (Target(_mean_score("agent", "6h"), "{{agent}}"),),
                12,
                low=0,
                high=3,
                may_be_empty=True,
            ),
        ),
        8,
        "Does it get worse?",
    )


def _judge_trust() -> Row:
    failed = _own("judge_canary_total", 'passed="false"')
    return Row(
        (
            Panel(
                "Canaries that failed",
                "timeseries",
                "By kind, an hour. good: finds fault with everything; bad: praises everything; injected alone: obeys what it reads.",
                "short",
                (Target(f"sum by (kind) (increase({failed}[1h]))", "{{kind}}"),),
                8,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Judgements by outcome",
                "timeseries",
                "An hour. unparsable: the model is too weak for the schema; failed: the endpoint; over_budget: raise judges.budget_tokens.",
                "short",
                (
                    Target(
                        f"sum by (outcome) (increase({_own('judge_requests_total')}[1h]))",
                        "{{outcome}}",
                    ),
                ),
                8,
                stack=True,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Not judged",
                "timeseries",
                "An hour. queue_full: the endpoint is too slow for as many sessions; spans: transcripts lack them.",
                "short",
                (
                    Target(
                        f"sum by (reason) (increase({_own('judge_sessions_dropped_total')}[1h]))",
                        "sessions: {{reason}}",
                    ),
                    Target(
                        f"sum by (reason) (increase({_own('judge_spans_dropped_total')}[1h]))",
                        "spans: {{reason}}",
                    ),
                ),
                8,
                low=0,
                may_be_empty=True,
            ),
        ),
        8,
        "How far can it be trusted?",
    )


def _judge_means() -> Row:
    return Row(
        (
            _by(
                "direction",
                "judge_tokens_total",
                title="Tokens",
                why="A second, canaries included. The budget is judges.budget_tokens a day.",
                unit="short",
                stack=True,
                may_be_empty=True,
            ),
            Panel(
                "Spans that are kept",
                "timeseries",
                "Bytes for transcripts, compressed. At judges.keep_bytes those of quiet traces go first.",
                "bytes",
                (Target(f"sum({_own('judge_spans_bytes')})", "bytes"),),
                8,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Waiting for judges",
                "timeseries",
                "Ended sessions. It grows where the endpoint is slower than sessions end.",
                "short",
                (Target(f"sum({_own('judge_queue_length')})", "sessions"),),
                8,
                low=0,
                may_be_empty=True,
            ),
        ),
        8,
        "What does it cost?",
    )


_RATED: Final = re.compile(
    r"\b(?:rate|increase)\(offrails_\w+\{[^{}]*\}\[[^\]]+\](?: offset [^)]+)?\)"
)
_SUMMED: Final = re.compile(r"(\bsum(?: by \([^)]*\) )?\()(offrails_\w+\{[^{}]*\})(?=\))")
"""What two replicas would count twice: means and extremes of both are those of one."""


def _once(board: Board) -> Board:
    """The board, on which monitors that get the same spans (label `replica`) count once; others lack the label."""
    rows = tuple(
        replace(row, panels=tuple(_panel_once(panel) for panel in row.panels))
        for row in board.rows
    )
    return replace(board, rows=rows)


def _panel_once(panel: Panel) -> Panel:
    return replace(
        panel,
        targets=tuple(replace(each, expr=_expr_once(each.expr)) for each in panel.targets),
    )


def _expr_once(expr: str) -> str:
    """Each rate, and each gauge that is summed, of the replica that has most."""
    rated = _RATED.sub(r"max without (replica) (\g<0>)", expr)
    return _SUMMED.sub(r"\1max without (replica) (\2)", rated)


BOARDS: Final = (
    _once(
        Board(
            "offrails-overview",
            "offrails / Agents",
            "How harmful the agents' calls are, whether it gets worse, and where it comes from.",
            AGENTS,
            (
                _overview_stats(),
                _overview_firing(),
                _overview_lines(),
                _overview_where(),
                _overview_table(),
            ),
        )
    ),
    _once(
        Board(
            "offrails-sessions",
            "offrails / Sessions",
            "The sessions of one agent: the worst of them, what goes wrong, how they end.",
            AGENTS,
            (_worst(), _calls(), _shape()),
        )
    ),
    _once(
        Board(
            "offrails-drift",
            "offrails / Drift",
            "Whether agents still do what they did, and whether specs still fit them.",
            AGENTS,
            (
                _divergence(),
                _warnings(),
                _consistency(),
                _drift(),
                _correctness(),
                _shift(),
            ),
            since="now-2d",
        )
    ),
    _once(
        Board(
            "offrails-judges",
            "offrails / Judges",
            "What models say of sessions, how far it can be trusted, and what it costs.",
            (JOB, INSTANCE, AGENT),
            (_judge_stats(), _judge_scores(), _judge_trust(), _judge_means()),
            since="now-2d",
        )
    ),
    Board(
        "offrails-monitor",
        "offrails / Monitor",
        "Whether the monitor itself sees everything, in time, and reaches people.",
        (JOB, INSTANCE),
        (
            *(_health_stats(), _intake(), _times(), _decisions(), _alerts(), _forward()),
            *(_journal(), _means()),
        ),
        since="now-3h",
    ),
)
