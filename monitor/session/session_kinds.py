"""What a session and all that belongs to it are in plain records."""

from __future__ import annotations

from functools import partial
from typing import Final

from monitor.alphabet.alphabet import OwnFacts
from monitor.alphabet.things import CallThings
from monitor.partial import CutObject, PartialArguments
from monitor.plain_records.kinds import KindChange, kept, kept_growing
from monitor.records import (
    AgentName,
    Evidence,
    NamedThing,
    Obstacle,
    Proof,
    Reason,
    SessionKey,
    ToolCall,
    Verdict,
)
from monitor.records import (
    Kind as CallKind,
)
from monitor.reference.comparison import ComparisonState, Departure, Divergence
from monitor.reference.run_features import RunCalls, RunFeatures
from monitor.scores.running_scores import HarmTally, PathRows
from monitor.scores.score_records import Episode
from monitor.session.data.comparisons import ComparedValue
from monitor.session.data.seen_values import (
    AskingCall,
    Operand,
    SeenValues,
    Setting,
    SourceCall,
    UserText,
)
from monitor.session.data.session_data import SessionData
from monitor.session.judge.compensation import Compensation, Compensations
from monitor.session.judge.episodes import EpisodesTally
from monitor.session.judge.run import AutomatonRun, Lineage
from monitor.session.judgement.checkpoint import Checkpoint, FoldedScores
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.resume_points import ResumePoint, ResumePoints
from monitor.session.log.asked_together import StepAnswers
from monitor.session.log.log import SessionLog
from monitor.session.log.rows import StepTimes, Texts
from monitor.session.outside_calls import OutsideCalls
from monitor.session.session import Session, TenantSessions
from monitor.session.things.shared_judgement import SharedThingsJudgement, ToldCall
from monitor.session.things.thing_cell import ThingCell, ThingCounts
from monitor.session.things.thing_space import (
    SharedCall,
    SharedThing,
    SpaceMember,
    ThingSpace,
)
from monitor.session.things.thing_table import SettledThing, ThingTable
from monitor.session.things.thing_visit import Visit
from monitor.session.things.things_judgement import ThingsJudgement
from monitor.session.things.things_run import PlacedThing, ThingsRun
from monitor.session.time_limits.session_verdicts import SessionVerdict, SessionVerdicts
from monitor.session.time_limits.timing import ClockStart, MissedLimit, SessionTiming, _Running
from monitor.visibility.cause import Cause, Effect
from monitor.visibility.gap import EVER, Gap
from monitor.visibility.sight import Sight, Window

__all__ = ["SESSION_KINDS"]

_JUDGEMENT: Final = (
    "_held_back base behind counted declared doubts ending final_excess head is_behind judge late log pair "
    "part resume_points rival sampled session_verdicts share sight suspected suspicious swapped"
)

_EXCESS: Final = KindChange(added={"final_excess": int})

SESSION_KINDS: Final = (
    kept(
        "session",
        Session,
        "_index _mark _named_by _named_ns _others _outside _source _sources agent "
        "answer binder bound_as bound_late bound_on caller carried causes chain "
        "ended foreign fresh gaps held judged "
        "judgements judges key last_ns late ledger_version newer not_judged of_clocks older opened_ns owed proof "
        "queued seen session_from spans started_ns touched_ns weight data",
        changes=(
            KindChange(added={"data": type(None)}),
            KindChange(added={"carried": tuple}),
            KindChange(added={"caller": type(None), "of_clocks": bool}),
        ),
    ),
    kept("seen by a session", SessionData, "_words dropped seen texts"),
    kept(
        "seen under a spec",
        SeenValues,
        "_changed_ns _last_end_ns _leaves asking dropped partial setting sources",
        made={"_by_leaf": type(None), "_bytes": type(None)},
    ),
    kept(
        "source of values",
        SourceCall,
        "answer at begin_ns end_ns folded_words leaves received_ns settings span_id sure tool whole words",
    ),
    kept(
        "setting of a value",
        Setting,
        "name known values sure things",
        changes=(KindChange(added={"things": type(None)}),),
    ),
    kept(
        "compared value",
        ComparedValue,
        "digest number words is_part is_short items",
        changes=(KindChange(added={"is_short": bool}), KindChange(added={"items": tuple})),
    ),
    kept("operand", Operand, "known absent values"),
    kept(
        "asking call",
        AskingCall,
        "at begin_ns call end_ns operands own received_ns token things",
        changes=(KindChange(added={"things": type(None)}),),
    ),
    kept("own facts of a call", OwnFacts, "masks unanswered failed"),
    kept(
        "text of a user",
        UserText,
        "key at_ns is_cut words folded_words readings",
        changes=(KindChange(renamed={"numbers": "readings"}),),
    ),
    kept("sessions of a name", TenantSessions, "name newest oldest"),
    kept("calls outside", OutsideCalls, "_ends _kept _starts"),
    kept(
        "judgement",
        Judgement,
        _JUDGEMENT,
        made={"budget": type(None)},
        changes=(
            KindChange(dropped=("_is_stale",)),
            KindChange(
                renamed={
                    "_doubts": "doubts",
                    "_resume_points": "resume_points",
                    "_rival": "rival",
                    "_suspected": "suspected",
                    "_swapped": "swapped",
                }
            ),
            _EXCESS,
        ),
    ),
    kept(
        "log",
        SessionLog,
        "_contexts _far _ids _lag _moved _rows _texts _answers _newest _running "
        "by_answer grouped tail_end",
    ),
    kept(
        "texts of a step",
        Texts,
        "call_id arguments hashed note things",
        changes=(KindChange(added={"things": type(None)}),),
    ),
    kept("things of a call", CallThings, "keys is_open values"),
    kept("moved step", StepTimes, "start own"),
    kept("answers", StepAnswers, "by_span"),
    kept(
        "run",
        AutomatonRun,
        "exact lineage position progressed tally tracing watched ways whole",
    ),
    kept(
        "judgement with things",
        ThingsJudgement,
        _JUDGEMENT,
        made={"budget": type(None), "outcome": type(None)},
        changes=(_EXCESS,),
    ),
    kept(
        "runs of things",
        ThingsRun,
        "exact lineage position progressed tally tracing watched ways whole "
        "cells count expires_ns fresh fresh_unsure harms loose_ns nothing own slots substantive table unclaimed "
        "unseen_ns",
        changes=(
            KindChange(added={"expires_ns": int, "unseen_ns": int}),
            # It was not written: what may be of any thing counts as if it had been called just now.
            KindChange(added={"loose_ns": partial(int, EVER)}),
        ),
    ),
    kept(
        "judgement with shared things",
        SharedThingsJudgement,
        f"{_JUDGEMENT} changed folded_to is_live lacks last_of_all met number open_version space told visits",
        made={"budget": type(None), "outcome": type(None)},
        changes=(_EXCESS,),
    ),
    kept("call on a thing that was told", ToldCall, "call keys is_open"),
    kept("visit of another session", Visit, "at_ns end_ns span_id key token is_right"),
    kept("call on a shared thing", SharedCall, "at_ns end_ns span_id owner token is_right"),
    kept("shared thing", SharedThing, "calls members"),
    kept("member of a space", SpaceMember, "session judgement"),
    kept(
        "space of things",
        ThingSpace,
        "counted counted_bytes forgotten forgotten_ns held_bytes last_number latest_ns members moved open open_version since_ns things within_ns",
        changes=(
            KindChange(added={"forgotten_ns": partial(int, -1), "latest_ns": int}),
            KindChange(added={"counted_bytes": int, "held_bytes": int}),
        ),
    ),
    kept("cell of things", ThingCell, "first into offset run size unsure"),
    kept("counts of a thing", ThingCounts, "calls substantive harmful"),
    kept(
        "thing in a cell",
        PlacedThing,
        "cell offset value at_ns",
        changes=(KindChange(added={"at_ns": int}),),
    ),
    kept(
        "table of things",
        ThingTable,
        "forgotten next_slot things",
        changes=(KindChange(added={"forgotten": type(None)}),),
    ),
    kept(
        "settled thing",
        SettledThing,
        "slot calls substantive harmful value at_ns",
        changes=(KindChange(added={"at_ns": int}),),
    ),
    kept("lineage", Lineage, "before first places"),
    kept(
        "checkpoint",
        Checkpoint,
        "compensations condensed episodes exact rows tally trail apart at count doubted last others "
        "run started timing wide",
        changes=(KindChange(added={"apart": bool, "doubted": bool}),),
    ),
    kept(
        "scores of a way",
        FoldedScores,
        "compensations condensed episodes exact rows tally trail",
    ),
    kept("compensations", Compensations, "_open _undo count listed"),
    kept("compensation", Compensation, "do undo symbol undone_by"),
    kept_growing("episode", Episode, first=9),
    kept(
        "tally of episodes",
        EpisodesTally,
        "_lost beta calls harmful_steps substantive current finished",
    ),
    kept("tally of harm", HarmTally, "_lost beta calls harmful_steps substantive"),
    kept("paths compared", PathRows, "_inversions _matched _minus _plus goldens length"),
    kept(
        "reference compared",
        ComparisonState,
        "called calls departures features first flags node path wrote",
        changes=(
            KindChange(added={"features": type(None)}),
            KindChange(added={"path": int}),
        ),
    ),
    kept(
        "features of a run",
        RunFeatures,
        "calls counts last previous seen surprise worst",
        changes=(KindChange(added={"calls": RunCalls}),),
    ),
    kept("calls of a run", RunCalls, "beginning begun made strange"),
    kept("resume points", ResumePoints, "_last_group _resume_points"),
    kept(
        "resume point",
        ResumePoint,
        "place runs apart running",
        changes=(KindChange(added={"apart": bool}),),
    ),
    kept("timing", SessionTiming, "_idle_ns _judge _last _receipt_ns _running _trapped missed"),
    kept("timed step", ClockStart, "step at_ns receipt_ns tool token trace_id span_id"),
    kept("missed limit", MissedLimit, "kind obstacle rule mark due_ns limit_ns"),
    kept("running limit", _Running, "mark over"),
    kept("verdicts on a session", SessionVerdicts, "_shifts declared next_ns trapped"),
    kept("declared verdict", SessionVerdict, "missed fired_ns final"),
    kept("session key", SessionKey, "namespace id"),
    kept(
        "tool call",
        ToolCall,
        "agent answer arguments attributes call_id control doubts end_ns error evidence "
        "gaps parent_span_id result session session_from source span_id start_ns tool trace_id",
        # Compiled, the setter of `result` takes the place of a value: there must be one.
        made={"returned": tuple},
        changes=(KindChange(added={"result": tuple}),),
    ),
    kept("name of a session", AgentName, "agent span_id start_ns"),
    kept(
        "proof of a beginning",
        Proof,
        "holds resumed start_ns trace_id",
        changes=(KindChange(added={"resumed": bool}),),
    ),
    kept(
        "verdict",
        Verdict,
        "session agent spec spec_version mode kind reason severity step tool symbol "
        "skipped allowed state_before state final revised_from trace_id span_id "
        "constraint certain_call possible was_possible unless_before_ns unless detail thing",
        changes=(KindChange(added={"thing": type(None)}),),
    ),
    kept("named thing", NamedThing, "name value digest"),
    kept("kind of a call", CallKind),
    kept("reason of harm", Reason),
    kept("obstacle", Obstacle),
    kept("evidence", Evidence),
    kept("departure", Departure),
    kept("divergence", Divergence, "step kind write node"),
    kept(
        "gap",
        Gap,
        "cause since_ns until_ns tool namespace service agent received_ns told_ns",
        changes=(KindChange(added={"told_ns": int}),),
    ),
    kept("sight", Sight, "sure maybe since_ns until_ns received_ns told causes"),
    kept("window of a gap", Window, "since_ns until_ns tool received_ns"),
    kept("cause", Cause),
    kept("effect", Effect),
    kept("partial arguments", PartialArguments, "unread"),
    kept("cut object", CutObject),
)
