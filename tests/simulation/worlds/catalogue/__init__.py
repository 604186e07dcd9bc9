"""The catalogue of the world's faults, by family.

It was written without reading the code that it tests. It assumes, beside what docs/ promise:

- A conversation is what its agent names by one id. Without an id and without messages of models, it is a trace.
- Calls that one answer of a model asks for have no order of their own: a task takes the best one, whatever their
  times. Under `strict`, the truth lies between the worst order of those that overlapped and the worst of all.
- A failed call changes nothing, and begins no episode.
- `history: complete` is not set where spans are lost.
- A verdict may be wrong until it is final, and a page for as long as pages wait (0.5 s): spans that come later, with
  nothing on the wire that says that they will (no missing parent), may withdraw a page; those that come after the
  window (10 s) may contradict a final count.
- Harm is told by a possible harm, by any reason of `offrails_coverage_total` but `duplicate`, `no_dialect`,
  `control` and `arguments_late`, or by a counter of `service.TELLING`.
- Harm of a call of which nothing arrives is not asked for.
- A clock that is set back by less than the window looks like spans that come late: that is not asked for.
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

# Entries that hold by themselves, and are known not to hold together.
KNOWN_PAIRS = {
    frozenset(names.split(" + "))
    for names in (
        # A verdict on a span that turns out to be a part of another one's call is not taken back.
        "one_request_a_turn + told_twice",
        # `certain_call` of a verdict that was told is not corrected when it turns out to be this call or an earlier one.
        "arguments_twice_in_one_text + started_in_mid_session",
        "arguments_under_two_conventions + provisional_then_final",
        "failures_in_results + no_id_but_history",
        "no_id_but_history + started_just_before",
        "ids_by_turn + started_in_mid_session",
        # MCP's own spans have no ids of calls: a request that is told once more in another turn is one that was sent again.
        "replayed + mcp_round_trips",
        # The other agent's conversation is named below the span that names the user's session.
        "better_name_above + another_agent_in_the_trace",
        # Requests to a server have no ids of the model's calls: which tool leaves no spans is learnt too late.
        "mcp_calls + client_tool_unanswered",
    )
}
