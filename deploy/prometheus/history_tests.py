"""Tests of the alerts that `loss_tests` does not have: each goes through the same six histories.

python deploy/prometheus/history_tests.py minutes > deploy/prometheus/history_test.yml
python deploy/prometheus/history_tests.py days > deploy/prometheus/slow_history_test.yml

A history is 120 samples of what a rule reads; alerts that look back for days take a sample each 9 minutes, the
others each minute. In one test every alert goes through the history of that name, each with an agent, a spec and an
instance of its own name, so that they do not see each other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

__all__ = ["ALERTS", "CLOCKS", "SIX", "text"]

SIX: Final = ("born at 1", "born at 500", "reset", "gap", "flood", "silence")
"""What every alert is held to."""

CLOCKS: Final[Mapping[str, int]] = {"minutes": 1, "days": 9}
"""By name: the minutes from one sample, and one evaluation, to the next."""

SAMPLES: Final = 120
_MONITOR: Final = 'job="{job}",instance="{alert}"'
_AGENT: Final = _MONITOR + ',agent="{alert}",spec="{alert}"'


class History(NamedTuple):
    """What series go through, and what the alert does.

    Attributes:
        series: values by series, as promtool writes them.
        fires: samples at which it fires, counted from 0.
        silent: samples at which it does not.
        up: whether the scrape succeeds.
        began: start of the process, in seconds.
    """

    series: Mapping[str, str]
    fires: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    up: str = "1x119"
    began: str = "-9999x119"


class Alert(NamedTuple):
    """An alert and its histories: of each name one, or the reason why there is none.

    Attributes:
        histories: by name.
        about: the label by which the alert is found, or "" if it has none.
        clock: one of `CLOCKS`.
        job: of its series; rules that compare the targets of a job need one of their own.
        firing: how many alerts of the name fire.
    """

    histories: Mapping[str, History | str]
    about: str = "instance"
    clock: str = "minutes"
    job: str = "offrails"
    firing: int = 1


_Spells = tuple[tuple[int, int, int], ...]
"""Samples, bad ones in each, and good ones."""

# --- shapes of rules: how each of them goes through the six -----------------------------------------


def _flat(*pieces: tuple[int, float | str]) -> str:
    """So many samples of each value; `_` is none, `stale` ends a series and is none from then on."""
    parts = []
    for number, value in pieces:
        if value == "stale":
            parts.append(f"stale _x{number - 1}" if number > 1 else "stale")
        else:
            parts.append(f"_x{number}" if value == "_" else f"{value}x{number - 1}")
    return " ".join(parts)


def _rising(start: int, *pieces: tuple[int, int]) -> str:
    """A counter: so many samples, each higher than the one before by so much."""
    parts = []
    for number, step in pieces:
        parts.append(f"{start}+{step}x{number - 1}")
        start += number * step
    return " ".join(parts)


def _counted(
    *series: str, first: int, last: int, over: int, least: int = 1
) -> dict[str, History | str]:
    """A rule on the increase of counters.

    Args:
        series: each goes through the same.
        first: samples from the event to one at which the alert fires.
        last: the same, of a late one.
        over: the same, of one at which it does not fire any more.
        least: the increase that it fires for.
    """
    event, one = 40, max(1, least)
    fires, silent = (event + first, event + last), (event - 1, event + over)
    restart = _flat((40, -9999), (80, 2_400))

    def all_(values: str) -> dict[str, str]:
        return dict.fromkeys(series, values)

    at_one = (
        History(all_(_flat((40, "_"), (80, 1))), fires, silent)
        if least == 1
        else History(all_(_flat((40, "_"), (80, 1))), silent=(*silent, *fires))
    )
    return {
        "born at 1": at_one,
        "born at 500": History(
            all_(_flat((40, "_"), (80, 500))),
            fires,
            silent,
            _flat((40, "_"), (80, 1)),
            _flat((40, "_"), (80, 2_400)),
        ),
        "reset": History(all_(_flat((40, 40), (80, one))), fires, silent, began=restart),
        "reset without an event": History(
            all_(_flat((40, 40), (80, 0))), silent=(*silent, *fires), began=restart
        ),
        "gap": History(
            all_(_flat((5, 7), (31, "stale"), (84, 7))),
            silent=(4, 20, 36, 37, 36 + first, 36 + last),
            up=_flat((5, 1), (31, 0), (84, 1)),
            began=_flat((5, -9999), (31, "stale"), (84, -9999)),
        ),
        "flood": History(all_("0x39 500+500x4 2500x74"), fires, (event - 1, event + over + 5)),
        "a missed scrape": History(
            all_(_flat((40, 0), (last, one), (1, "stale"), (79 - last, one))),
            (event + last - 1, event + last),
            (event - 1, event + over + 5),
            _flat((40 + last, 1), (1, 0), (79 - last, 1)),
            _flat((40 + last, -9999), (1, "stale"), (79 - last, -9999)),
        ),
        "silence": History(all_(_flat((120, 0))), silent=(1, 20, 60, 119)),
    }


class _Share(NamedTuple):
    """Counters of which a rule reads the share of bad ones."""

    bad: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    all: tuple[str, ...] = ()

    def of(self, *lives: str | tuple[int, _Spells]) -> dict[str, str]:
        """The series of lives of a process, one after the other.

        Args:
            lives: where the counters begin, and spells of so many samples, with so many bad ones and good ones in
                each; or values that all of them have.
        """
        found: dict[str, str] = {}
        for bad, good, series in ((1, 0, self.bad), (0, 1, self.good), (1, 1, self.all)):
            values = " ".join(
                life
                if isinstance(life, str)
                else _rising(
                    life[0] * (bad + good),
                    *((n, bad * ill + good * well) for n, ill, well in life[1]),
                )
                for life in lives
            )
            found |= dict.fromkeys(series, values)
        return found


def _shared(share: _Share, late: int = 45) -> dict[str, History | str]:
    """A rule on a share: four of five are bad from sample 20 to 60, none before and after.

    Args:
        share: the counters.
        late: a sample at which the alert fires.
    """
    fires, silent = (late, 59), (19, 21, 112)
    calm, ill, well = (20, 0, 2), (40, 8, 2), (60, 0, 2)
    return {
        "born at 1": History(share.of("_x20", (1, (ill, well))), fires, silent),
        "born at 500": History(
            share.of("_x20", (500, (ill, well))),
            fires,
            silent,
            _flat((20, "_"), (100, 1)),
            _flat((20, "_"), (100, 1_200)),
        ),
        "reset": History(
            share.of(
                (7_000, ((10, 0, 2),)),
                (0, ((10, 0, 2), (30, 8, 2))),
                (0, ((10, 8, 2), well)),
            ),
            (late, 50, 51, 59),
            (9, 10, 11, *silent),
        ),
        "gap": History(
            share.of((7, ((5, 0, 2),)), _flat((31, "stale")), (7, ((84, 0, 2),))),
            silent=(4, 20, 36, 37, 45, 60, 112),
            up=_flat((5, 1), (31, 0), (84, 1)),
            began=_flat((5, -9999), (31, "stale"), (84, -9999)),
        ),
        "flood": History(
            share.of((0, (calm, (40, 8_000, 2_000), (60, 0, 2_000)))), fires, silent
        ),
        "a missed scrape": History(
            share.of((0, (calm, (30, 8, 2))), "stale", (0, ((9, 8, 2), well))),
            (49, 50, 51, 59),
            silent,
            _flat((50, 1), (1, 0), (69, 1)),
            _flat((50, -9999), (1, "stale"), (69, -9999)),
        ),
        "silence": History(share.of((7, ((120, 0, 0),))), silent=(1, 20, 60, 119)),
    }


def _valued(first: int, values: Mapping[str, tuple[float, float]]) -> dict[str, History | str]:
    """A rule on gauges.

    Args:
        first: samples for which they must be bad until the alert fires.
        values: of each gauge, a good and a bad one.
    """

    def go(*pieces: tuple[int, bool | str]) -> dict[str, str]:
        return {
            series: _flat(
                *((n, each if isinstance(each, str) else ill[each]) for n, each in pieces)
            )
            for series, ill in values.items()
        }

    fires, silent = (20 + first, 59), (19, 20 + first - 1, 70)
    once = _flat((50, 1), (1, 0), (69, 1)), _flat((50, -9999), (1, "stale"), (69, -9999))
    return {
        "born at 1": History(go((20, "_"), (40, True), (60, False)), fires, silent),
        "born at 500": "a gauge has no past: its first value counts as any other",
        "reset": History(
            go((20, False), (30, True), (1, "stale"), (69, False)),
            (20 + first, 49),
            silent,
            *once,
        ),
        "gap": History(
            go((20, False), (31, "stale"), (69, False)),
            silent=(19, 20, 40, 51, 52, 60),
            up=_flat((20, 1), (31, 0), (69, 1)),
        ),
        "flood": History(
            go((20, False), (1, True), (99, False)), silent=(19, 20, 21, 20 + first)
        ),
        "a missed scrape": History(
            go((20, False), (30, True), (1, "stale"), (9, True), (60, False)),
            (49, 50, 51, 59),
            silent,
            *once,
        ),
        "silence": History(go((120, False)), silent=(1, 20, 60, 119)),
    }


def _missed(counter: str, first: int) -> dict[str, History | str]:
    """A rule on work that has ended, while others go on.

    Args:
        counter: of the work, with `{who}` for the one who does it.
        first: samples after the last work at which the alert fires.
    """

    def go(values: str) -> dict[str, str]:
        return {
            counter.replace("{who}", "{alert}"): values,
            counter.replace("{who}", "peer"): "0+10x119",
        }

    never = (25, 40, 60, 80, 119)
    return {
        "born at 1": History(go(_flat((20, "_"), (100, 1))), silent=never),
        "born at 500": History(go(_flat((20, "_"), (100, 500))), silent=never),
        "reset": History(go("100+10x39 0+10x79"), silent=(39, 40, 41, *never)),
        "gap": History(
            go(f"0+10x39 {_flat((31, 'stale'))} 710+10x48"),
            silent=(39, 40, 55, 70, 71, 72, 90, 119),
            up=_flat((40, 1), (31, 0), (49, 1)),
        ),
        "flood": History(go("0x19 5000+5000x4 25000x94"), silent=(24, 36, 45, 60, 119)),
        "silence": History(go("0+10x39 390x79"), (40 + first, 100), (39, 45, 50)),
    }


def _down() -> dict[str, History | str]:
    def up(*pieces: tuple[int, float | str]) -> str:
        return _flat(*pieces)

    return {
        "born at 1": History({}, (22, 60), (19, 20), up=up((20, "_"), (100, 0))),
        "born at 500": "a target is up or not",
        "reset": History({}, silent=(20, 21, 22, 25), up=up((20, 1), (1, 0), (99, 1))),
        "gap": History({}, (22, 50), (19, 20, 21, 51), up=up((20, 1), (31, 0), (69, 1))),
        "flood": "a flood in which scrapes fail is a gap",
        "silence": History({}, silent=(1, 20, 60, 119)),
    }


def _surge(bad: str, everything: str) -> dict[str, History | str]:
    """Of ten sessions none diverges early, and from sample 60 to 80 all do."""
    share = _Share((bad,), (), (everything,))
    ill = (20, 10, 0)
    never = (21, 30, 45, 65, 75, 112)
    at_first = _flat((20, "_"), (100, 1))
    return {
        "born at 1": History(share.of("_x20", (1, ((100, 8, 2),))), silent=never, up=at_first),
        "born at 500": History(
            share.of("_x20", (500, ((100, 8, 2),))), silent=never, up=at_first
        ),
        "reset": History(
            share.of((900, ((30, 0, 10),)), (0, ((30, 0, 10), ill, (40, 0, 10)))),
            (64, 75),
            (29, 30, 31, 59, 60, 90),
        ),
        "gap": History(
            share.of((7, ((30, 0, 10),)), _flat((31, "stale")), (7, ((59, 0, 10),))),
            silent=(29, 40, 61, 62, 70, 112),
            up=_flat((30, 1), (31, 0), (59, 1)),
        ),
        "flood": History(
            share.of((0, ((60, 1, 9), (20, 1_000, 9_000), (40, 1, 9)))), silent=never
        ),
        "silence": History(share.of((7, ((120, 0, 0),))), silent=never),
    }


def _fall(total: str, count: str) -> dict[str, History | str]:
    """A mean: each sample has ten more scores of 3, and from sample 60 to 100 of 0. Without a past nothing falls."""

    def go(*pieces: tuple[int, int] | str, start: int = 0) -> dict[str, str]:
        found: dict[str, list[str]] = {total: [], count: []}
        for piece in pieces:
            number, score = piece if isinstance(piece, tuple) else (0, 0)
            for series, step in ((total, 10 * score), (count, 10)):
                found[series].append(
                    piece if isinstance(piece, str) else f"{start}+{step}x{number - 1}"
                )
        return {series: " ".join(parts) for series, parts in found.items()}

    def fallen(calm: int, ill: int) -> dict[str, str]:
        """So many samples of 3, then of 0."""
        return {
            total: f"{_rising(0, (calm, 30), (ill, 0))} {30 * calm}x{119 - calm - ill}",
            count: _rising(0, (120, 10)),
        }

    never = (21, 40, 60, 80, 119)
    at_first = _flat((20, "_"), (100, 1))
    return {
        "born at 1": History(go("_x20", (100, 1), start=1), silent=never, up=at_first),
        "born at 500": History(go("_x20", (100, 1), start=500), silent=never, up=at_first),
        "reset": History(go((30, 3), (90, 3)), silent=(29, 30, 31, *never)),
        "gap": History(
            go((30, 3), _flat((31, "stale")), (59, 3), start=7),
            silent=(29, 61, 62, 80, 112),
            up=_flat((30, 1), (31, 0), (59, 1)),
        ),
        "flood": History(fallen(60, 40), (90, 99), (59, 60, 61)),
        "silence": History(
            {total: _flat((120, 7)), count: _flat((120, 7))}, silent=(1, 20, 60, 119)
        ),
    }


# --- the table --------------------------------------------------------------------------------------

_ALWAYS: Final = "it always fires: its absence is what alerts"
_BURNT: Final = _Share(
    bad=('offrails_calls_total{agent,verdict="harmful"}',),
    good=('offrails_calls_total{agent,verdict="progress"}',),
)
_WINDOW: Final = "offrails_session_score_window_sessions{agent}"

ALERTS: Final[Mapping[str, Alert]] = {
    # what agents did
    "AgentCriticalHarmfulCall": Alert(
        _counted(
            'offrails_harmful_calls_total{agent,reason="forbidden",severity="critical"}',
            first=0,
            last=2,
            over=6,
        ),
        "agent",
    ),
    "AgentUnexpectedWrite": Alert(
        _counted("offrails_paging_writes_total{agent}", first=0, last=5, over=9), "agent"
    ),
    "AgentSessionStuck": Alert(
        _counted(
            'offrails_session_verdicts_total{agent,verdict="stalled",reason="idle"}',
            first=0,
            last=10,
            over=20,
        ),
        "agent",
    ),
    "AgentHarmBudgetBurnFast": Alert(_shared(_BURNT), "agent"),
    "AgentHarmBudgetBurn6h": Alert(_shared(_BURNT), "agent"),
    "AgentHarmBudgetBurn1d": Alert(_shared(_BURNT), "agent", "days"),
    "AgentHarmBudgetBurnSlow": Alert(_shared(_BURNT), "agent", "days"),
    "AgentHarmRateHigh": Alert(
        _valued(2, {"offrails_harm_rate{agent}": (0.1, 0.5), _WINDOW: (5, 5)}), "agent"
    ),
    "AgentPrefixCritLow": Alert(
        _valued(5, {'offrails_prefix_crit{agent,beta="0.5"}': (0.9, 0.5), _WINDOW: (5, 5)}),
        "agent",
    ),
    "AgentSessionRunaway": Alert(
        _valued(
            1,
            {
                "offrails_harm_rate_max{agent}": (0.5, 0.75),
                "offrails_sessions_active{agent}": (5, 5),
            },
        ),
        "agent",
    ),
    "AgentSpecRot": Alert(
        _shared(
            _Share(
                bad=(
                    'offrails_harmful_calls_provisional_total{agent,reason="unknown_tool",severity="info"}',
                ),
                all=('offrails_calls_total{agent,verdict="progress"}',),
            )
        ),
        "agent",
    ),
    "AgentSessionsUnmatched": Alert(
        _valued(
            15,
            {
                'offrails_sessions_active{monitor,agent="{alert}",spec="__unmatched__"}': (
                    1,
                    9,
                ),
                "offrails_sessions_active{agent}": (9, 1),
            },
        ),
        "agent",
    ),
    "AgentJudgeScoreDrift": Alert(
        _fall(
            'offrails_judge_score_sum{monitor,agent="{alert}",judge="LC"}',
            'offrails_judge_score_count{monitor,agent="{alert}",judge="LC"}',
        ),
        "agent",
        "days",
    ),
    "AgentMonitorJudgeCanaries": Alert(
        _shared(
            _Share(
                bad=('offrails_judge_canary_total{monitor,kind="bad",passed="false"}',),
                good=('offrails_judge_canary_total{monitor,kind="bad",passed="true"}',),
            )
        ),
        clock="days",
    ),
    "AgentEarlyDivergenceSurge": Alert(
        _surge(
            'offrails_divergences_total{agent,phase="first_two",kind="wrong_tool"}',
            "offrails_sessions_started_total{agent}",
        ),
        "agent",
        "days",
    ),
    "AgentSilent": Alert(
        _missed(
            'offrails_calls_total{monitor,agent="{who}",spec="{alert}",verdict="progress"}', 17
        ),
        "agent",
        job="AgentSilent",
    ),
    # the monitor itself
    "AgentMonitorDown": Alert(_down()),
    "AgentMonitorWatchdog": Alert(dict.fromkeys(SIX, _ALWAYS)),
    "AgentMonitorStandby": Alert(_valued(1, {"offrails_standby{monitor}": (0, 1)})),
    "AgentMonitorSpecLoadFailed": Alert(
        _valued(1, {"offrails_spec_last_reload_successful{monitor}": (1, 0)})
    ),
    "AgentMonitorJournalRefusing": Alert(
        _valued(1, {"offrails_journal_refusing{monitor}": (0, 1)})
    ),
    "AgentMonitorSnapshotOverdue": Alert(
        _valued(1, {"offrails_snapshot_overdue_seconds{monitor}": (0, 700)})
    ),
    "AgentMonitorForwardFailing": Alert(
        _valued(
            5,
            {
                'offrails_forward_queue_bytes{monitor,destination="next"}': (0, 900),
                'offrails_forward_queue_bytes_max{monitor,destination="next"}': (1_000, 1_000),
            },
        )
    ),
    "AgentMonitorQueueNearFull": Alert(
        _valued(
            5,
            {
                'offrails_alert_queue_length{monitor,sink="webhook"}': (0, 900),
                'offrails_alert_queue_capacity{monitor,sink="webhook"}': (1_000, 1_000),
                'offrails_ingest_queue_length{monitor,queue="bytes"}': (1, 9),
                'offrails_ingest_queue_capacity{monitor,queue="bytes"}': (10, 10),
            },
        ),
        firing=2,
    ),
    "AgentMonitorIngestStalled": Alert(
        _missed(
            'offrails_ingest_spans_total{job="{job}",instance="{who}",transport="grpc",result="accepted"}',
            22,
        ),
        job="AgentMonitorIngestStalled",
    ),
    "AgentMonitorVerdictLatencyHigh": Alert(
        _shared(
            _Share(
                good=(
                    'offrails_verdict_latency_seconds_bucket{monitor,transport="grpc",le="0.01"}',
                ),
                all=(
                    'offrails_verdict_latency_seconds_bucket{monitor,transport="grpc",le="1.0"}',
                    'offrails_verdict_latency_seconds_bucket{monitor,transport="grpc",le="+Inf"}',
                ),
            )
        ),
        "",
    ),
    "AgentMonitorDecideSlow": Alert(
        _shared(
            _Share(
                good=('offrails_decision_seconds_bucket{monitor,le="0.01"}',),
                all=(
                    'offrails_decision_seconds_bucket{monitor,le="0.1"}',
                    'offrails_decision_seconds_bucket{monitor,le="+Inf"}',
                ),
            )
        )
    ),
    "AgentMonitorDecideUnavailable": Alert(
        _shared(
            _Share(
                bad=('offrails_decision_requests_total{monitor,code="503"}',),
                good=('offrails_decision_requests_total{monitor,code="200"}',),
            )
        )
    ),
    "AgentMonitorBlind": Alert(
        _shared(
            _Share(
                bad=('offrails_coverage_total{monitor,reason="arguments_missing"}',),
                all=('offrails_tool_calls_total{monitor,evidence="executed"}',),
            )
        )
    ),
    "AgentMonitorEvasion": Alert(
        _counted(
            'offrails_coverage_total{monitor,reason="operation_conflict"}',
            first=0,
            last=12,
            over=25,
            least=10,
        )
    ),
    "AgentMonitorSessionsSplit": Alert(
        _counted("offrails_sessions_split_total{monitor}", first=17, last=25, over=45)
    ),
    "AgentMonitorSessionsJoined": Alert(
        _shared(
            _Share(
                bad=("offrails_sessions_joined_total{agent}",),
                all=("offrails_sessions_started_total{agent}",),
            )
        ),
        "agent",
        "days",
    ),
    "AgentMonitorCertificateExpired": Alert(
        _valued(
            1,
            {
                'offrails_certificate_not_after_timestamp_seconds{monitor,listener="grpc"}': (
                    9_000_000_000,
                    1,
                )
            },
        )
    ),
    "AgentMonitorCertificateExpiring": Alert(
        _valued(
            5,
            {
                'offrails_certificate_not_after_timestamp_seconds{monitor,listener="grpc"}': (
                    9_000_000_000,
                    900_000,
                )
            },
        )
    ),
    "AgentMonitorHandshakesFailing": Alert(
        _counted(
            'offrails_tls_handshakes_failed_total{monitor,reason="client_certificate"}',
            first=6,
            last=8,
            over=20,
            least=4,
        )
    ),
    "AgentMonitorArgumentsMissing": Alert(
        _shared(
            _Share(
                bad=(
                    'offrails_agent_calls_total{monitor,agent="{alert}",arguments="missing"}',
                ),
                good=('offrails_agent_calls_total{monitor,agent="{alert}",arguments="known"}',),
                all=(),
            )
        ),
        "agent",
    ),
    "AgentMonitorSessionsEvicted": Alert(
        _counted(
            'offrails_sessions_ended_total{monitor,cause="evicted"}', first=6, last=13, over=25
        )
    ),
    "AgentMonitorLabelOverflow": Alert(
        _counted(
            'offrails_label_overflow_total{monitor,label="agent"}', first=6, last=13, over=25
        )
    ),
}
"""Every alert but those of `loss_tests.LOSSES`."""


# --- the files --------------------------------------------------------------------------------------


def text(clock: str, all_alerts: Mapping[str, Alert] = ALERTS) -> str:
    """The file for promtool with the alerts of a clock."""
    alerts = {name: alert for name, alert in all_alerts.items() if alert.clock == clock}
    names = dict.fromkeys(name for alert in alerts.values() for name in alert.histories)
    lines = [
        f"# Generated: python deploy/prometheus/history_tests.py {clock}",
        "rule_files: [rules/offrails.yml]",
        f"evaluation_interval: {CLOCKS[clock]}m",
        "group_eval_order: [offrails-recording, offrails-agents, offrails-monitor]",
        "tests:",
        *(line for name in names for line in _test(name, clock, alerts)),
    ]
    return "".join(f"{line}\n" for line in lines)


def _test(name: str, clock: str, alerts: Mapping[str, Alert]) -> Iterator[str]:
    yield f"  - name: {name}"
    yield f"    interval: {CLOCKS[clock]}m"
    yield "    input_series:"
    rows = [
        (alert, row, history)
        for alert, row in alerts.items()
        if isinstance(history := row.histories.get(name), History)
    ]
    for alert, row, history in rows:
        for series, values in _series(row, history):
            labels = series.replace("{monitor", f"{{{_MONITOR}").replace(
                "{agent,", f"{{{_AGENT},"
            )
            labels = labels.replace("{agent}", f"{{{_AGENT}}}")
            labels = labels.replace("{job}", row.job).replace("{alert}", alert)
            yield f"      - {{series: '{labels}', values: '{values}'}}"
    yield "    promql_expr_test:"
    # One question for each sample: questions are what takes time.
    for sample in sorted({each for *_, of in rows for each in (*of.fires, *of.silent)}):
        asked = [
            (alert, row, sample in of.fires)
            for alert, row, of in rows
            if sample in (*of.fires, *of.silent)
        ]
        expr = " or ".join(_firing(alert, row) for alert, row, _ in asked)
        yield f"      - expr: 'count by (alertname) ({expr})'"
        yield f"        eval_time: {sample * CLOCKS[clock]}m"
        expected = [(alert, row.firing) for alert, row, fires in asked if fires]
        yield "        exp_samples:" + ("" if expected else " []")
        for alert, count in expected:
            yield f"          - {{labels: '{{alertname=\"{alert}\"}}', value: {count}}}"


def _firing(alert: str, row: Alert) -> str:
    about = f',{row.about}="{alert}"' if row.about else ""
    return f'ALERTS{{alertname="{alert}",alertstate="firing"{about}}}'


def _series(row: Alert, history: History) -> Iterator[tuple[str, str]]:
    yield "up{monitor}", history.up
    yield "process_start_time_seconds{monitor}", history.began
    if row.about == "agent":
        always = f"1x{SAMPLES - 1}"
        yield 'offrails_spec_info{monitor,spec="{alert}",kind="reference",mode="page"}', always
        yield 'offrails_reference_runs{monitor,spec="{alert}"}', always.replace("1x", "2x")
    yield from history.series.items()


if __name__ == "__main__":
    sys.stdout.write(text(sys.argv[1]))
