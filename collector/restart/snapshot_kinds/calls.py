"""What spans have become is in plain records: traces, calls, session ids, decided calls, agents."""

from __future__ import annotations

from functools import partial
from types import NoneType
from typing import Final

from collector.calls.awaited_outcomes import AwaitedOutcomes
from collector.calls.call.answers import ModelAnswer, ModelAnswers
from collector.calls.call.argument_digests import ArgumentDigests
from collector.calls.call.call import LogicalCall
from collector.calls.call.piece import Piece
from collector.calls.correlation.correlation import Correlation
from collector.calls.correlation.in_process_mcp import McpEcho, _AgentCall
from collector.calls.correlation.in_process_mcp import _Agent as _McpAgent
from collector.calls.correlation.lone_echoes import Echoes, _Row, _Service
from collector.calls.correlation.merge import CallMerge
from collector.calls.correlation.repeated_call_ids import RepeatedCallIds, Review, _Calls, _Seen
from collector.calls.correlation.session_moves import SessionMoves
from collector.calls.decisions.confirmation import Confirmation
from collector.calls.decisions.decided_calls import (
    DecidedCall,
    DecidedCalls,
    DecisionMatch,
    DecisionState,
    NewSession,
    QuestionCall,
)
from collector.calls.decisions.prevented_calls import PreventedCall, PreventedCalls
from collector.calls.duplicate_spans import DuplicateFilter, _Generation, _Part
from collector.calls.inventory.agent_changes import AgentChange, ArgumentsRun
from collector.calls.inventory.inventory import AgentRecord, Inventory
from collector.calls.inventory.near_misses import NearMisses
from collector.calls.model_requests import (
    JudgedRequest,
    ModelRequests,
    RequestPiece,
)
from collector.calls.model_requests import (
    _Agent as _RequestingAgent,
)
from collector.calls.pipeline import Pipeline
from collector.calls.question_handler import QuestionHandler
from collector.calls.records import Requester
from collector.calls.sessions.beginnings import Beginnings
from collector.calls.sessions.orphans import ConversationNaming, Orphans
from collector.calls.sessions.session_ids import SessionIds
from collector.calls.sessions.unplaced_calls import UnplacedCalls, _Place
from collector.calls.tree.session_claim import Claim, SpanClaim
from collector.calls.tree.settled_trace import SettledTrace
from collector.calls.tree.span_tree import AlikeSpans, Parts, SpanNode, SpanTree, WatchedRequest
from collector.calls.tree.trace import OpenRequest, Trace, TraceBeginning
from collector.calls.tree.trace_store import Traces
from collector.calls.unseen_calls import UnseenCalls
from collector.calls.unseen_calls import _Key as _UnseenPlace
from collector.decode.retained import RetainedAttributes
from collector.decode.span import Resource
from collector.dialects.values.arguments import BareValue
from collector.dialects.wrappers import WrappedCall
from collector.telemetry.counters import Tally
from collector.telemetry.duration_histogram import DurationHistogram
from monitor.plain_records.kinds import KindChange, kept

__all__ = ["CALL_KINDS"]

CALL_KINDS: Final = (
    kept(
        "pipeline",
        Pipeline,
        left="batch _counted _coverage _deliver _denied _derived _errors _failed_spans "
        "_asked _asked_of_any _foreign _hears _plans _rejects _remembered _resource_keys _stats _touched monitor "
        "quiet",
        parts="inventory traces _duplicates _session_ids decided decision_records "
        "_confirmation sessions _requests correlation _deciding _requested_calls",
    ),
    kept(
        "session ids",
        SessionIds,
        "_owners_bytes _claims _remembered",
        left="_last _namespace_keys _owners _requesters _resources_bytes_max _rungs _session_keys",
    ),
    kept("requester", Requester, "namespace service"),
    kept("claim of a session", Claim, "as_written key name rung"),
    kept("claim of a span", SpanClaim, "claim span_id start_ns"),
    kept(
        "sessions of calls",
        SessionMoves,
        "moved",
        left="_batch _confirmation _coverage _ids _inventory _monitor _stats span_keys",
        parts="beginnings orphans",
    ),
    kept("beginnings", Beginnings, "_forgetful", left="_batch _monitor"),
    kept(
        "orphans",
        Orphans,
        "_services _waiting _changed",
        left="_coverage _ids _monitor",
        parts="unplaced",
    ),
    kept(
        "naming",
        ConversationNaming,
        "agreed apart asks rung traces unplaced whole",
        changes=(KindChange(added={"unplaced": bool}), KindChange(added={"asks": bool})),
    ),
    kept(
        "unplaced calls",
        UnplacedCalls,
        "_places _of _emptied _reviewed_ns _count",
        left="_batch _idle_ns _window_ns",
    ),
    kept(
        "place of unplaced calls",
        _Place,
        "begin_ns calls end_ns gap lost namespace service told_ns tool",
        changes=(KindChange(added={"told_ns": int}),),
    ),
    kept("duplicate filter", DuplicateFilter, "_parts", left="_bound _period_ns _taken_max"),
    kept("part of a duplicate filter", _Part, "old since young"),
    kept("generation of span ids", _Generation, "count few many taken"),
    kept(
        "traces",
        Traces,
        "_taken _trees_bytes held _given_up _recent _older _names _near _gone _young "
        "_old _leaving _leaving_count _epoch _since _spans _broken continued",
        left="_bytes_max _period_bytes_max _period_ns _soon_ns _spans_max _traces_max",
        parts="_recent_held _older_held",
        changes=(KindChange(added={"continued": list}),),
    ),
    kept(
        "trace",
        Trace,
        "_extras _joined _key answered_ns beginning called_ns changed doubted epoch "
        "first first_by first_ns foreign given has_agent has_tools learnt learnt_early "
        "learnt_named missed modelled_ns named namespace noted open pinned requester sampled "
        "session_from spans split touched trace_id tree",
        changes=(KindChange(added={"given": int, "modelled_ns": int}),),
    ),
    kept(
        "beginning of a trace",
        TraceBeginning,
        "earlier_ns fresh_ns proof root_ns service",
        changes=(KindChange(added={"service": str}),),
    ),
    kept("open request", OpenRequest, "count newer older since tool trace"),
    kept(
        "settled trace",
        SettledTrace,
        "_beginning _key _learnt _learnt_named _named _packed _requester _session_from",
    ),
    kept(
        "span tree",
        SpanTree,
        "alike answers asked by_id claim clock early failing_ns heard_ns held last latest_ns lone looped matched missing mistimed "
        "nameless nodes of_clocks parts places plain released root runs shared size taken unsettled uprooted watched wrapped",
        changes=(
            KindChange(
                added={
                    "heard_ns": int,
                    "matched": NoneType,
                    "nameless": bool,
                    "watched": NoneType,
                }
            ),
            KindChange(added={"failing_ns": int}),
            KindChange(added={"runs": NoneType}),
            KindChange(added={"root": NoneType, "uprooted": bool}),
            KindChange(added={"clock": bytes, "mistimed": bool, "of_clocks": bool}),
        ),
    ),
    kept(
        "span",
        SpanNode,
        "above agent asked_ns asks call claim clock entry failed foreign model place span_id start_ns stops waiting",
        changes=(
            KindChange(added={"model": NoneType}),
            KindChange(added={"foreign": bool}),
            KindChange(added={"asked_ns": int, "clock": bytes}),
        ),
    ),
    kept(
        "alike spans", AlikeSpans, "answer asked call_id first number older others several tool"
    ),
    kept("answers of models", ModelAnswers, "_answers _size"),
    kept(
        "answer of a model",
        ModelAnswer,
        "start_ns span_id parent tools unnamed several requests",
        changes=(KindChange(added={"requests": tuple}),),
    ),
    kept(
        "parts of a tree",
        Parts,
        "hints loose models rival roots rung stale",
        made={"below": NoneType},
        changes=(
            KindChange(added={"models": dict, "rung": int}),
            KindChange(added={"stale": dict}, dropped=("loosened",)),
            KindChange(added={"rival": int, "roots": set}),
        ),
    ),
    kept(
        "call",
        LogicalCall,
        "_inner _made _pieces agent asked_by begun_anew beside chained decided doubled doubts "
        "echo given_up guessed judged lifted noted outer refused request request_span retold "
        "service shared together told twinned unplaced withdrawn",
        changes=(
            KindChange(added={"told": tuple}),
            KindChange(added={"request": bytes, "request_span": bytes}),
            KindChange(added={"noted": bytes, "retold": bool}),
            KindChange(added={"service": NoneType, "unplaced": bool}),
            KindChange(added={"begun_anew": bool}),
            KindChange(added={"twinned": bytes}),
        ),
    ),
    kept(
        "piece of a call",
        Piece,
        "agent apart arguments around attributes bare call_id control cut disputed "
        "end_ns error evidence freed parent request_id result returned says_ok scope session "
        "session_from source span_id start_ns tool version why",
        # Compiled, the setter of `returned` takes the place of a value: there must be one.
        made={"returns": tuple},
        changes=(KindChange(added={"returned": tuple}),),
    ),
    kept("digests of arguments", ArgumentDigests, "bare digest many values whole"),
    kept("value without a name", BareValue, "value"),
    kept("wrapped call", WrappedCall, "tool arguments call_id"),
    kept(
        "correlation",
        Correlation,
        "_reviews executed",
        left="_batch _confirmation _coverage _decided _failed _ids _inventory _monitor "
        "_requests _sessions _stats",
        parts="call_merge echoes _mcp_echo _near_misses repeated_ids",
    ),
    kept("merge of calls", CallMerge, "again", left="_retract _stats"),
    kept("echoes", Echoes, "_services awaits", left="_traces"),
    kept("calls of a service", _Service, "alone calls"),
    kept("call of a service", _Row, "tool start_ns end_ns trace_id span_id"),
    kept("echo of mcp", McpEcho, "_agents"),
    kept("agent of mcp", _McpAgent, "own served"),
    kept("agent's call of mcp", _AgentCall, "tool start_ns end_ns"),
    kept(
        "near misses",
        NearMisses,
        left="_detailed _known _monitor _named _numbers _spelt _variants",
    ),
    kept("repeats", RepeatedCallIds, "_calls", left="_traces", parts="_held"),
    kept("calls that may repeat", _Calls, "old old_count since young young_count"),
    kept(
        "call that may repeat",
        _Seen,
        "start_ns end_ns span_id error given place call session",
        changes=(KindChange(added={"session": NoneType}),),
    ),
    kept("review of a repeat", Review, "trace tree node call"),
    kept(
        "model requests",
        ModelRequests,
        "_agents _oldest _newest _count _due _lost oversized gaps answered overtaken",
        left="_given _latest by_answer is_named mode outcomes shortened",
        parts="_asked _bytes _unseen",
        changes=(KindChange(dropped=("_last",)),),
    ),
    kept(
        "unseen calls", UnseenCalls, "_gaps _ids", changes=(KindChange(added={"_ids": dict}),)
    ),
    kept("place of unseen calls", _UnseenPlace, "namespace trace_id tool"),
    kept("watched request", WatchedRequest, "call_id tool start_ns"),
    kept(
        "agent that requests",
        _RequestingAgent,
        "answered awaited bytes gaps has_tools held is_silent judged tools",
        changes=(KindChange(added={"awaited": AwaitedOutcomes}),),
    ),
    kept("awaited outcomes", AwaitedOutcomes, "_calls _count"),
    kept("piece of a request", RequestPiece, "trace piece"),
    kept("judged request", JudgedRequest, "trace call"),
    kept(
        "confirmation",
        Confirmation,
        "_made_anyway",
        left="_batch _gave_way _stats records table",
    ),
    kept(
        "deciding",
        QuestionHandler,
        "_last_ns",
        left="_batch _confirmation _ids _monitor _prevented _sessions _stats _table _traces",
    ),
    kept(
        "decided calls",
        DecidedCalls,
        "seed last_number size overflowed _by_number _by_tenant _open _beside _by_trace "
        "_by_session",
        # What is lost, or passed over, is so for a minute at most.
        left="bytes_max confirm_ns entries_max reservations _passed_over",
        parts="_counts _bytes beginnings",
    ),
    kept(
        "decided call",
        DecidedCall,
        "asked call decision expires_ns is_denied known met number own_bytes piece "
        "sender size state tenant",
    ),
    kept(
        "asked call",
        QuestionCall,
        "session agent tool arguments call_id trace_id span_id parent_span_id "
        "question_id place",
    ),
    kept("state of a decided call", DecisionState),
    kept("told beginning", NewSession, "proof expires_ns"),
    kept("met call", DecisionMatch, "call told trace state is_weak"),
    kept("decision records", PreventedCalls, parts="_sessions"),
    kept(
        "denied call",
        PreventedCall,
        "number decision_id session agent at_ns tool call_id trace_id found span_id hidden",
    ),
    kept(
        "inventory",
        Inventory,
        "_agents _last _attributes _namespace new _changed",
        left="_agents_max",
        parts="_counts",
    ),
    kept(
        "seen agent",
        AgentRecord,
        "_dialect _run _runs _scope _session_from _switch agent agents arguments "
        "attributes bytes calls changes control_tools dialects due first_ns "
        "is_introduced last_ns namespace scopes service switches tenant tools unlogged",
    ),
    kept(
        "run of arguments",
        ArgumentsRun,
        "_missing _missing_most agent calls dialect is_due is_stopped known since_ns "
        "started tool",
    ),
    kept(
        "change of an agent", AgentChange, "kind agent tool at_ns scope dialect earlier calls"
    ),
    kept("resource", Resource, "attributes"),
    kept(
        "attributes",
        RetainedAttributes,
        blank=partial(RetainedAttributes, {}),
        filled=RetainedAttributes.weigh,
    ),
    kept("tally", Tally, "_counts _first _labels _more _second _third"),
    kept(
        "histogram of seconds",
        DurationHistogram,
        "_above _place _up_to buckets counts sum_seconds",
    ),
)
