"""Names have a bound in bytes: a longer one is cut, stays apart from others that begin alike, and is counted."""

from __future__ import annotations

from threading import Thread

from hypothesis import example, given
from hypothesis import strategies as st

from collector.dialects.names.name_bound import CUT, NAME_MAX, bounded

WIDE = "\U0001f600"

names = st.text(max_size=40).map(lambda text: text * 40)


def size(name: str) -> int:
    return len(name.encode(errors="surrogatepass"))


@given(names, names)
@example("a" * NAME_MAX, "a" * (NAME_MAX + 1))
@example("a" * 9_000 + "b", "a" * 9_000 + "c")
@example(WIDE * 256, WIDE * 257)
@example("\ud800" * 2_000, "\ud801" * 2_000)
def test_names_are_bounded_and_stay_apart(one: str, other: str) -> None:
    """At most the bound; two names stay two, and what was cut is cut no more."""
    for name in (one, other):
        assert size(bounded(name)) <= NAME_MAX
        assert bounded(bounded(name)) == bounded(name)
        assert (bounded(name) == name) == (size(name) <= NAME_MAX)
    assert (bounded(one) == bounded(other)) == (one == other)


def test_a_cut_keeps_the_beginning_and_is_counted() -> None:
    """Who reads a name sees how it begins; what is as long as the bound is not counted."""
    CUT.taken()
    assert bounded("agent " + WIDE * 1_000).startswith("agent " + WIDE * 200)
    assert bounded("a" * NAME_MAX) == "a" * NAME_MAX
    assert (CUT.taken(), CUT.taken()) == (1, 0)


def test_threads_do_not_count_for_each_other() -> None:
    """What judges cut in their thread is not counted as cut on the wire, and takes nothing from that count."""
    CUT.taken()
    bounded("a" * 9_000)
    found: list[int] = []

    def work() -> None:
        found.append(CUT.taken())
        bounded("b" * 9_000)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert (found, CUT.taken()) == ([0], 1)
