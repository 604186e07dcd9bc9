"""The catalogue of the world's faults, by family.

It was written without reading the code that it tests. It assumes, beside what docs/ promise:

- A conversation is what its agent names by one id. Without an id and without messages of models, it is a trace.
- Calls that one answer of a model asks for have no order of their own: a task takes the best one, whatever their
  times. Under `strict`, the truth lies between the worst order of those that overlapped and the worst of all.
- What a call executes within itself begins once all calls of its answer have begun, and comes after them.
- A failed call changes nothing, and begins no episode.
- `history: complete` is not set where spans are lost, nor where the trace of a call names no session.
- A verdict may be wrong until it is final, and a page for as long as pages wait (0.5 s): spans that come later, with
  nothing on the wire that says that they will (no missing parent), may withdraw a page; those that come after the
  window (10 s) may contradict a final count.
- Harm is told by a possible harm, by any reason of `offrails_coverage_total` but `duplicate`, `no_dialect`,
  `control` and `arguments_late`, or by a counter of `service.TELLING`.
- Harm of a call of which nothing arrives is not asked for, nor harm that only such a call makes of another one; nor that of a call
  without a span of which one process hears the request, and no process the result, or the next one, without a journal. What a model is
  given later tells of a call that was lost before a start, not of one that was lost while the process was down: it counts for how long it was.
  Of executions with one id, a model is given one result: those without spans are no part of the truth. So is a lost call that another
  call's tool made.
- What did not come is counted minutes later; so is what a killed process would have counted then.
- A call with the id, tool, arguments and outcome of an earlier one of its conversation is written as one that is told again:
  that its harm is certain is not asked for.
- Of spans that are written twice, both tell of the same requests to a server. Of two servers, each has some of the tools.
- A clock that is set back by less than the window looks like spans that come late: that is not asked for.
- When spans arrive tells nothing of their calls: a request may be late, or sent again. So a false certain harm is no fault where
  a twin of the world is written with the same spans, and has the harm (`worlds.twins`).
"""

from tests.simulation.worlds.catalogue import (
    arguments,
    arrival,
    clocks,
    context,
    identity,
    process,
    tools,
)
from tests.simulation.worlds.fault import CATALOGUE

FAMILIES = (arrival, context, process, clocks, tools, identity, arguments)

# All entries, by name.
FAULTS = CATALOGUE

# Entries that hold by themselves, and are known not to hold together, by the reason.
_REASONS: dict[str, tuple[str, ...]] = {
    "MCP's own spans have no ids of calls: a request that is told once more in another turn is one that was sent again": (
        "replayed + mcp_round_trips",
    ),
    "each connection to a server counts its requests anew: an equal id in another turn does not tell one that is told once more from another one": (
        "replayed + mcp_calls",
    ),
    "another service's span names a conversation of its own: a call that no span names yet is taken there, and the specs of its service with it": (
        "another_agent_in_the_trace + attributes_dropped",
        "another_agent_in_the_trace + better_name_above",
        "another_agent_in_the_trace + id_on_parents_later",
        "another_agent_in_the_trace + id_on_parents_soon",
        "another_agent_in_the_trace + id_never",
        "another_agent_in_the_trace + no_id_but_history",
        "another_agent_in_the_trace + later_turns_without_id",
    ),
    "another service's call comes before the first request of a model, which then proves no new session: its harm is possible harm": (
        "another_agent_in_the_trace + started_just_before_first_requests",
    ),
    "which answer asked for a call is known within a trace alone": (
        "context_lost_with_ids + answer_one_by_one",
        "context_lost_with_ids + answer_one_by_one_without_ids",
        "context_lost_with_ids + lost_and_answered",
    ),
    "a call without a span may have run until its model is asked again: under `strict` its worst order counts, also behind an execution that came after it": (
        "made_again + client_tool",
    ),
    "undecidable: the agent's span that tells a call once more makes its trace a run of an agent, and so a session": (
        "a_trace_a_call + told_twice",
        "context_lost + told_twice",
    ),
    "undecidable: the other entry takes the better name off the wire, or the call from below the span with it": (
        "id_on_parents_later + better_name_above",
        "id_on_parents_soon + better_name_above",
        "better_name_above + equal_calls_without_parents",
        "id_never + better_name_above",
    ),
    "undecidable: `chained` takes spans from below those that tell of the same call": (
        "told_twice + chained",
        "told_twice + chained_without_models",
        "mcp_calls + chained",
        "mcp_calls + chained_without_models",
        "mcp_round_trips + chained",
        "mcp_round_trips + chained_without_models",
        "told_in_two_traces + chained",
        "told_in_two_traces + chained_without_models",
        "executed_twice + chained",
    ),
    "MCP's own spans have no ids of calls: workers' spans above executions of one request are those of several agents, whose calls are ordered by their times (docs/uncertainty.md)": (
        "executed_twice + mcp_calls",
        "executed_twice + mcp_round_trips",
    ),
    "undecidable: the other entry takes the history off the wire, which alone shows earlier turns: then each turn is a session (docs/uncertainty.md)": (
        "no_id_but_history + client_tool_unanswered",
    ),
    "one of several equal executions is lost: another one's span is taken for it": (
        "lost_and_answered + executed_twice",
        "lost_and_answered + made_again",
        "made_again + parallel_tools_without_spans",
        "lost_and_answered + repeats_below_one_call",
    ),
    "a trace whose root names another session is proven to be new by no request: harm after the start stays possible": (
        "worse_name_above + started_just_before_first_requests",
    ),
    "undecidable: a replay of a call that was judged before a start without a journal, or lost while the process was down, looks like a call of its own": (
        "replayed + started_in_mid_session",
        "replayed + restarted_and_lost",
        "replayed + restarted_and_retried",
        "replayed + down_and_lost",
    ),
    "a span above that is lost is awaited for a minute: then the trace is the conversation": (
        "id_on_parents_later + lost_with_parents",
        "id_on_parents_soon + lost_with_parents",
        "better_name_above + lost_with_parents",
        "lost_with_parents + id_never",
        "lost_with_parents + attributes_dropped",
        "id_never + resumed_after_its_end",
    ),
    "the agent's span, which shows that the clock was set, and names the conversation, comes when verdicts are final, or never": (
        "id_on_parents_later + clock_set_back",
        "clock_set_back + id_never",
        "id_on_parents_later + tools_on_a_host_behind",
    ),
    "after the start, a harm that a later call makes certain is told of the earlier call that is harmful if nothing is missing (docs/uncertainty-rules.md), and a page may come before it is known that something is": (
        "ids_by_turn + started_in_mid_session",
        "arguments_twice_in_one_text + started_in_mid_session",
        "better_name_above + started_in_mid_session",
        "mcp_calls + started_in_mid_session",
        "ids_by_answer + restarted_and_retried",
    ),
    "its calls came before the start, and a conversation has rested for longer than sessions live (docs/uncertainty.md): it looks like a new one": (
        "started_in_mid_session + resumed_after_its_end",
        "restarted_and_lost + resumed_after_its_end",
        "restarted_and_retried + resumed_after_its_end",
    ),
    "the turn that names the conversation came before the start, and the root of a later one proves a trace without an id to be new (docs/uncertainty.md)": (
        "later_turns_without_id + started_in_mid_session",
        "later_turns_without_id + restarted_and_lost",
        "later_turns_without_id + restarted_and_retried",
    ),
    "no twin is proven: what the other entry writes depends on the calls that are lost, or on their times (times of further executions, parents that are calls)": (
        "lost_with_parents + executed_twice",
        "lost_with_parents + made_again",
        "lost_with_parents + repeats_below_one_call",
        "lost_with_parents + chained_without_models",
        "lost_with_parents + calls_within_calls",
        "lost_with_parents + sub_agents",
        "clock_set_back + client_tool_unanswered",
    ),
    "undecidable: both hosts' clocks are behind ours, so nothing shows that one is ahead of the other": (
        "clock_behind + tools_on_another_host",
        "clock_behind_the_start + tools_on_another_host",
    ),
    "undecidable: where no id names conversations, a turn with equal ids of calls is one that is told again, or another conversation's": (
        "no_id_but_history + replayed",
    ),
    "no world: a sub-agent's span is in one trace, and calls below it are in others": (
        "a_trace_a_call + sub_agents",
        "context_lost + sub_agents",
    ),
    "undecidable: a clock is ahead by more than is seen of it and the window, as its spans take longer to arrive (docs/uncertainty.md)": (
        "later_than_the_window + tools_on_another_host",
        "later_than_the_window + clock_ahead",
        "later_than_the_window + clock_set_forward",
    ),
    "a clock is ahead by less than its spans take to arrive (docs/uncertainty.md): what models were given shows it, and is not read for that": (
        "delayed + tools_on_another_host",
        "down_and_retried + tools_on_another_host",
    ),
    "a process without a journal counts a call again whose span comes again: the sum over both processes has it twice": (
        "duplicated + restarted_and_lost",
        "duplicated + restarted_and_retried",
    ),
    "a gap begins no more than the window before the process was down: spans that would have come later than that are not missed": (
        "later_than_the_window + down_and_lost",
    ),
    "no world: a call makes calls within itself before the next call of its answer is made; in the truth they come after all of them": (
        "repeats_below_one_call + answer_one_by_one",
        "repeats_below_one_call + answer_one_by_one_without_ids",
    ),
    "undecidable: an equal call with one id, written below another one, looks like a part of it": (
        "one_id_for_an_answer + chained",
        "one_id_for_an_answer + chained_without_models",
        "one_id_for_all_calls + chained_without_models",
    ),
    "a gap is known for as long as sessions live: a request that is taken back after that, as its tool turns out to have spans, leaves none": (
        "resumed_after_its_end + parallel_tools_without_spans",
    ),
    "the agent's span, which names the conversation, comes when verdicts are final: a harm that moves there counts once more": (
        "turn_id_under_the_same_name + down_and_retried",
    ),
    "verdicts of the first process are final before the span comes, which another one gets that has no journal": (
        "later_than_the_window + restarted_and_lost",
        "later_than_the_window + restarted_and_retried",
    ),
    "a call without times was made in the window before its receipt, as far as is known: this one came later than that": (
        "later_than_the_window + no_times",
    ),
    "undecidable: the other entry takes the right arguments off the wire, and those of the second instrumentation are all there is": (
        "arguments_missing + arguments_under_two_conventions",
    ),
    "undecidable: of two calls with one id, the arguments of one cannot be read: the other may be the same call": (
        "arguments_as_models_write_them + ids_by_answer",
    ),
    "no world: each entry sets the one first start of the process": (
        "started_in_mid_session + started_just_before",
        "started_in_mid_session + started_just_before_first_requests",
    ),
    "several doubts at once, of which the number of harms is right (docs/uncertainty.md): a harm was told of this call for certain while its request stood beside it": (
        "clock_behind_the_start + lost_and_answered",
    ),
    "without ids of calls, which answer asked for a call is told by times, and those of two hosts are not one clock's": (
        "answer_one_by_one_without_ids + tools_on_another_host",
        "answer_one_by_one_without_ids + tools_on_a_host_behind",
    ),
    "undecidable: without an id each trace is a session, of which some have no span that shows that a clock is behind by over a second": (
        "no_id_but_history + tools_on_a_host_behind",
    ),
    "undecidable: an equal id in a trace whose conversation nobody ever names is one call told again, or another conversation's": (
        "id_never + ids_by_answer",
        "id_never + ids_by_turn",
    ),
}

# The same, by the pair.
KNOWN_PAIRS = {
    frozenset(pair.split(" + ")): reason for reason, pairs in _REASONS.items() for pair in pairs
}
