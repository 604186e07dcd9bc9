"""What the monitor is in plain records: its sessions, its sums and what it judges with."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from monitor.aggregate.consistency_sample import ConsistencySample
from monitor.aggregate.drift import Drift, DriftSample
from monitor.aggregate.score_histogram import Exemplar, ScoreHistogram
from monitor.aggregate.top_k import TopK
from monitor.aggregate.totals import Pair, SessionFinished, Share, Totals, _Held
from monitor.decision import Answer, CallDecision, SpecDecision, ThingClaim
from monitor.judging.accounting import Accounting
from monitor.judging.clocks.clocks_ahead import SenderClocks
from monitor.judging.clocks.lagging_calls import LaggingCalls
from monitor.judging.clocks.leading_calls import LeadingCalls
from monitor.judging.deciding.decide_calls import CallDecider
from monitor.judging.judging_state import JudgingState
from monitor.judging.reference_alarms import Alarms, _Call
from monitor.judging.shared_gaps import SharedGaps
from monitor.judging.thing_spaces import ThingSpaces
from monitor.live.deadline_timer import DeadlineTimer
from monitor.live.due_queue import DueQueue
from monitor.live.mention import Mention
from monitor.live.monitor_state import MonitorState
from monitor.plain_records.kinds import KindChange, kept, kept_growing
from monitor.records import ReferenceAlarm, ReferenceReason
from monitor.scores.consistency import Consistency, RollingConsistency, TraceCall, _Pair
from monitor.scores.score_records import FinalScores, SessionScores
from monitor.session.arguments_eviction import ShownArguments
from monitor.session.dropped_sessions import DroppedSessions
from monitor.session.judge.judge import Judge
from monitor.session.spec_binding import BoundSpecs, SpecBinder
from monitor.session.table import Table, _Chains, _Ended
from monitor.session.things.thing_reservations import ThingReservation, ThingReservations
from monitor.session.tool_names import Names
from monitor.tenants import Holdings, SharedBytes, SharedValues, _Share
from monitor.visibility.ledger import Ledger

__all__ = ["MONITOR_KINDS"]

MONITOR_KINDS: Final = (
    kept(
        "monitor",
        MonitorState,
        "without_spec ended sweep_ns timed_verdicts resumed without_calls "
        "arguments_given_up news evicted swept",
        left="stale limits judging on_end is_behind",
        parts="totals names table accounting deadline_timer judging_state decider due quiet",
        changes=(
            KindChange(
                dropped=("started_ns", "binder"),
                renamed={
                    "_sweep_ns": "sweep_ns",
                    "_news": "news",
                    "_evicted": "evicted",
                    "_swept": "swept",
                },
            ),
        ),
    ),
    kept(
        "mention",
        Mention,
        "attributes named now start_ns texts",
        changes=(KindChange(added={"texts": tuple}),),
    ),
    kept(
        "table of sessions",
        Table,
        "_live",
        left="_near bytes_max fold sessions_max tombstones_max",
        parts="_active _ended _remembered _forgotten _shown",
    ),
    kept("chains of sessions", _Chains, "chains", parts="bytes sessions"),
    kept("ended sessions", _Ended, "_by_tenant _tenants sessions", parts="bytes count"),
    kept("dropped sessions", DroppedSessions, "_next _rows lost"),
    kept("shown arguments", ShownArguments, "_by_tenant _tenants"),
    kept(
        "tool names",
        Names,
        "_free _numbers _owners _texts overflowed",
        left="_bytes_max",
        parts="_held",
    ),
    kept(
        "specs",
        SpecBinder,
        "_by_agent judges _asked",
        made={"_cache": dict, "_cached_bytes": int},
    ),
    kept("bound specs", BoundSpecs, "attributes judges more"),
    kept("judge", Judge, "skewed left_out numbers", parts="goldens", only_parts=True),
    kept(
        "call judge",
        JudgingState,
        "binder folded_young out_of_order skewed_before left_out_before started_ns "
        "held holders held_under shown_bytes held_given_up errors",
        left="accounting data digest_key limits names show sights",
        parts="ledger clocks unbound held_bytes spaces shared_gaps reservations",
        changes=(
            KindChange(
                renamed={
                    "_skewed_before": "skewed_before",
                    "_left_out_before": "left_out_before",
                    "_started_ns": "started_ns",
                    "_held": "held",
                    "_holders": "holders",
                    "_held_under": "held_under",
                },
            ),
        ),
    ),
    kept("call decider", CallDecider, left="_state _calls _names"),
    kept(
        "accounting",
        Accounting,
        "_sampled",
        left="_names _totals on_final spaces",
        parts="alarms _shares",
    ),
    kept(
        "spaces of things",
        ThingSpaces,
        "by_key held_bytes things _since",
        left="bytes_max since_ns things_max within_ns",
        changes=(KindChange(added={"held_bytes": int}),),
    ),
    kept("gaps of shared things", SharedGaps, "_version _gaps"),
    kept("alarms", Alarms, "_shares", left="_names on_alarm"),
    kept("call behind an alarm", _Call, "step tool trace_id span_id"),
    kept("deadline timer", DeadlineTimer, "busy _due _next", left="_accounting _window_ns"),
    kept("due queue", DueQueue, "_done _keys _last _others _times"),
    kept("lagging calls", LaggingCalls, "behind_ns first_ns until_ns late_ns"),
    kept("leading calls", LeadingCalls, "lead_ns first_ns last_ns late_ns sender is_mixed"),
    kept(
        "sender clocks",
        SenderClocks,
        "ahead_max_ns corrections lagging leading _ahead",
        left="_sessions_max",
        changes=(
            KindChange(added={"leading": OrderedDict}),
            KindChange(added={"lagging": OrderedDict}),
        ),
    ),
    kept(
        "ledger of gaps", Ledger, "version merged counts _forgotten_ns _gaps", left="_linger_ns"
    ),
    kept(
        "totals",
        Totals,
        "pairs folded by_tool read_in_parts sampled left_early _agents _spare _held "
        "_held_order _endings _sweep_ns _to_clear",
        left="_agents_max _hold_ns _label _pairs_max",
        parts="_counts _held_by",
    ),
    kept(
        "pair of agent and spec",
        Pair,
        "_behind _clean _harm_rate _harmful _lost _worst _worst_prefix_crit active "
        "agent beta bounded compensations controls drift exemplars final finished harms "
        "idle_since joined late loops namespace outcomes possible progress provisional "
        "repeats revisions scored_calls scores session_verdicts sessions severities "
        "spec spreads started tenant things_dropped",
        changes=(KindChange(added={"things_dropped": int}),),
    ),
    kept("share of a session", Share, "sessions harm_rate prefix_crit harmful risk"),
    kept("held ending", _Held, "until pair share calls scores"),
    kept(
        "finished session",
        SessionFinished,
        "session agent spec spec_version ended scores unsatisfied missed",
    ),
    kept_growing("finished scores", FinalScores, first=9),
    kept("worst sessions", TopK, "_badness _changed _heap _number"),
    kept("histogram", ScoreHistogram, "bounds counts exemplars total"),
    kept("exemplar", Exemplar, "trace_id span_id at_ns"),
    kept(
        "drift",
        Drift,
        "_last _similar divergences exemplars first_two missing_writes new_arguments "
        "new_tools paging_writes riskiest risks similar steps unexpected_writes ways",
        changes=(KindChange(added={"paging_writes": int}),),
    ),
    kept("way seen", DriftSample, "way similarity new_tools new_arguments"),
    kept(
        "consistency sample",
        ConsistencySample,
        "_answers _had_arguments _next_ns _rolling live value",
    ),
    kept("rolling consistency", RollingConsistency, "_keep _runs _pairs"),
    kept("call of a sample", TraceCall, "tool pairs"),
    kept("pair of runs", _Pair, "similarity steps paper repository differ first_two"),
    kept(
        "consistency",
        Consistency,
        "runs tss ac_paper ac_repository unique_sequences divergence_point first_two_agreement",
    ),
    kept_growing("scores of a session", SessionScores, first=6),
    kept(
        "alarm",
        ReferenceAlarm,
        "session agent spec spec_version mode alarm level severity withdrawn step tool "
        "kind phase write expected support precision false_per_1000 risk trace_id "
        "span_id",
    ),
    kept(
        "decision",
        CallDecision,
        "answer specs claims",
        changes=(KindChange(added={"claims": tuple}),),
    ),
    kept(
        "claim on shared things",
        ThingClaim,
        "at_ns end_ns span_id space token keys is_open is_right",
    ),
    kept("reservation of things", ThingReservation, "session claims until_ns"),
    kept("reservations of things", ThingReservations, "by_span by_thing", left="beside lost"),
    kept(
        "decision under a spec",
        SpecDecision,
        "spec spec_version mode enforce answer kind reason severity symbol skipped "
        "allowed constraint state certain missing until thing",
        changes=(KindChange(added={"thing": type(None)}),),
    ),
    kept("answer", Answer),
    kept("reason of a reference", ReferenceReason),
    kept("holdings of tenants", Holdings, "_shares _tenants_max total"),
    kept("share of a tenant", _Share, "amount"),
    kept("shared values", SharedValues, "_by_tenant _most _values", parts="_counts"),
    kept(
        "shared bytes",
        SharedBytes,
        "_by_tenant _values",
        left="_most",
        parts="_held",
        changes=(KindChange(dropped=("_most",)),),
    ),
)
