"""The board of the judges: what models say of sessions, how far it can be trusted, what it costs."""

from __future__ import annotations

from typing import Final

from grafana.boards.queries import AGENT, INSTANCE, JOB, PLAIN, PROCESS, of_processes, rate_by
from grafana.boards.replicas import once
from grafana.panels import AMBER, GREEN, RED, Board, Panel, Row, Target

__all__ = ["JUDGES_BOARD"]


def _scored(more: str = "") -> str:
    """Scores of the chosen agents, as a suffix is put behind the name of the histogram."""
    return f'{{{PROCESS},agent=~"$agent"{"," + more if more else ""}}}'


def _mean_score(by: str, window: str) -> str:
    total, count = (
        f"sum by ({by}) (increase(offrails_judge_score_{part}{_scored()}[{window}]))"
        for part in ("sum", "count")
    )
    return f"{total} / ({count} > 0)"


def _stats() -> Row:
    canaries = of_processes("judge_canary_total")
    passed = of_processes("judge_canary_total", 'passed="true"')
    second = of_processes("judge_second_scores_total")
    disputed = of_processes("judge_second_scores_total", 'disputed="true"')
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
                (
                    Target(
                        f"sum(increase({of_processes('judge_cost_total')}[$__range]))",
                        instant=True,
                    ),
                ),
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
                (Target(f"sum({of_processes('judge_queue_length')})", instant=True),),
                4,
                PLAIN,
                may_be_empty=True,
            ),
        ),
        5,
    )


def _scores() -> Row:
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


def _trust() -> Row:
    failed = of_processes("judge_canary_total", 'passed="false"')
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
                        f"sum by (outcome) (increase({of_processes('judge_requests_total')}[1h]))",
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
                        f"sum by (reason) (increase({of_processes('judge_sessions_dropped_total')}[1h]))",
                        "sessions: {{reason}}",
                    ),
                    Target(
                        f"sum by (reason) (increase({of_processes('judge_spans_dropped_total')}[1h]))",
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


def _means() -> Row:
    return Row(
        (
            rate_by(
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
                (Target(f"sum({of_processes('judge_spans_bytes')})", "bytes"),),
                8,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Waiting for judges",
                "timeseries",
                "Ended sessions. It grows where the endpoint is slower than sessions end.",
                "short",
                (Target(f"sum({of_processes('judge_queue_length')})", "sessions"),),
                8,
                low=0,
                may_be_empty=True,
            ),
        ),
        8,
        "What does it cost?",
    )


JUDGES_BOARD: Final = once(
    Board(
        "offrails-judges",
        "offrails / Judges",
        "What models say of sessions, how far it can be trusted, and what it costs.",
        (JOB, INSTANCE, AGENT),
        (_stats(), _scores(), _trust(), _means()),
        since="now-2d",
    )
)
