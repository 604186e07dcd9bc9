"""The board of the sessions of one agent: the worst of them, what goes wrong, how they end."""

from __future__ import annotations

from typing import Final

from grafana.boards.queries import (
    AGENTS,
    ANY_IS_BAD,
    DOWN_IS_BAD,
    OPEN_WORST,
    PLAIN,
    PROCESS,
    UP_IS_BAD,
    of_agents,
    of_processes,
    rate,
)
from grafana.boards.replicas import once
from grafana.panels import AMBER, BLUE, GREEN, RED, Board, Panel, Row, Target

__all__ = ["SESSIONS_BOARD"]


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
                        f"sum by (instance, rank) ({of_processes('worst_session_' + name)})",
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
                    Target(f"max({of_agents('harm_rate_max')})", "HarmRate"),
                    Target(f"min({of_agents('prefix_crit_min')})", "PrefixCrit"),
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
                        f"sum by (outcome) ({rate(of_agents('sessions_finished_total'))})",
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
                f"histogram_quantile({q}, sum by (le) ({rate(of_agents(metric + '_bucket'))}))",
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
                        f"sum by (reason) ({rate(of_agents('harmful_calls_provisional_total'))})",
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


SESSIONS_BOARD: Final = once(
    Board(
        "offrails-sessions",
        "offrails / Sessions",
        "The sessions of one agent: the worst of them, what goes wrong, how they end.",
        AGENTS,
        (_worst(), _calls(), _shape()),
    )
)
