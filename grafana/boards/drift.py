"""The board of drift: whether agents still do what they did, and whether specs still fit them."""

from __future__ import annotations

from typing import Final

from grafana.boards.queries import (
    AGENTS,
    JUDGED,
    NAMES,
    PLAIN,
    PROCESS,
    by_pair,
    of_agents,
    rate,
)
from grafana.boards.replicas import once
from grafana.panels import AMBER, GREEN, GREY, RED, Board, Panel, Row, Target

__all__ = ["DRIFT_BOARD"]


def _share(reason: str) -> str:
    harmful = rate(of_agents("harmful_calls_provisional_total", f'reason="{reason}"'))
    calls = rate(of_agents("calls_total", JUDGED))
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
    events = rate(of_agents(counter))
    sessions = f"{rate(of_agents('sessions_started_total'))} and on (spec) offrails_reference_runs{{{PROCESS}}}"
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
                        f"sum by (le) (increase({of_agents('divergence_step_bucket')}[$__rate_interval]))",
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
                        f"sum(increase({of_agents('unexpected_writes_total')}[$__rate_interval]))",
                        "unexpected writes",
                        exemplar=True,
                    ),
                    Target(
                        f"sum(increase({of_agents('first_two_diverged_total')}[$__rate_interval]))",
                        "first two calls",
                    ),
                    Target(
                        f"sum(increase({of_agents('missing_writes_total')}[$__rate_interval]))",
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
                (Target(by_pair("max", of_agents("risk_max")), NAMES),),
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
                    Target(
                        by_pair("avg", of_agents("reference_similarity")), f"{NAMES}, likeness"
                    ),
                    Target(
                        by_pair("avg", of_agents("reference_new_tools_ratio")),
                        f"{NAMES}, new tools",
                    ),
                    Target(
                        by_pair("avg", of_agents("reference_new_arguments_ratio")),
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
                    Target(by_pair("avg", of_agents("consistency_tss")), f"{NAMES}, TSS"),
                    Target(
                        by_pair("avg", of_agents("consistency_first_two_agreement")),
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
                        f"avg by (agent, spec, namespace, rule) ({of_agents('consistency_ac')})",
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
                        by_pair("avg", of_agents("consistency_divergence_point")),
                        f"{NAMES}, call",
                    ),
                    Target(
                        by_pair("max", of_agents("consistency_unique_sequences")),
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
    now = by_pair("avg", of_agents(name))
    return Panel(
        title,
        "timeseries",
        why,
        "none",
        (
            Target(now, NAMES),
            Target(by_pair("avg", f"{of_agents(name)} offset 1d"), f"{NAMES}, a day before"),
            Target(by_pair("avg", f"{of_agents(name)} offset 7d"), f"{NAMES}, a week before"),
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
        buckets = f"increase({of_agents('session_harm_rate_ratio_bucket')}[1d]{offset})"
        count = f"increase({of_agents('session_harm_rate_ratio_count')}[1d]{offset})"
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


DRIFT_BOARD: Final = once(
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
)
