"""Clocks of senders: calls whose times are not ours, are wrong, or are of several clocks.

    clocks_ahead    ahead by more than 60 s: corrected
    leading_calls   ahead by less: the order of calls is open
    lagging_calls   behind: the order is open; `collector/calls/correlation/clock_contradictions` finds them
    mistimed_calls  no start, or an end before it: the order is open

A clock that is set back in mid-session is found by `collector/calls/set_clocks`. One that is set forward is ahead from then
on (`leading_calls.set_meanwhile`: of a call that was under way).
"""
