"""Counters: what is counted beside the dictionary is told all the same."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from collector.telemetry.counters import Stats, Tally

LABELS = st.sampled_from(("grpc", "http_proto", "http_json", ""))
READ = st.none()
COUNTED = st.tuples(st.integers(0, 600), LABELS, st.sampled_from(("accepted", "rejected")))


@given(st.lists(READ | COUNTED))
def test_a_tally_is_the_sum_of_what_was_counted_whenever_it_is_read(
    events: list[tuple[int, str, str] | None],
) -> None:
    """Reading in between changes nothing, and labels that were counted by 0 are there, too."""
    tally, wanted = Tally(2), Counter[tuple[str, str]]()
    for event in events:
        if event is not None:
            by, first, second = event
            # Equal texts are the same label, whatever object they are.
            tally.add(by, "".join(first), "".join(list(second)))
            wanted[first, second] += by
        else:
            assert tally.counts == wanted
    assert tally.counts == wanted
    assert set(tally.counts) == set(wanted)


def test_keys_are_the_labels_that_a_counter_has() -> None:
    """One label is a key itself; of several, all are."""
    stats = Stats()
    for _ in range(2):
        stats.received("grpc", 10)
        stats.span("grpc", "accepted", 3)
        stats.request("grpc", "traces", "OK")
    assert stats.bytes == {"grpc": 20}
    assert stats.spans == {("grpc", "accepted"): 6}
    assert stats.requests == {("grpc", "traces", "OK"): 2}
