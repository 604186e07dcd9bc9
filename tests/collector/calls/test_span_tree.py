"""The trees of traces: ancestors are found in any order of arrival."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice, pairwise

import pytest

from collector.calls.call.call import LogicalCall
from collector.calls.call.piece import Piece
from collector.calls.tree.span_tree import (
    ASKED_A_SPAN,
    ASKED_MAX,
    DEPTH_MAX,
    FEW,
    SpanNode,
    SpanTree,
)
from collector.calls.tree.trace import Trace
from collector.calls.tree.trace_store import AT_ONCE, SOON, Traces
from collector.dialects.read import SpanReading
from monitor.records import Evidence


def _node(tree: SpanTree, span_id: bytes) -> SpanNode:
    found = tree.node(span_id)
    assert found is not None
    return found


def _above(tree: SpanTree, span_id: bytes) -> list[bytes]:
    return [each.span_id for each in tree.ancestors(_node(tree, span_id))]


def test_a_parent_that_comes_late_takes_its_place() -> None:
    """Until the parent arrives, a placeholder stands for it."""
    tree = SpanTree()
    below = tree.put(b"c", b"b")
    assert _above(tree, b"c") == [b"b"]
    assert not _node(tree, b"b").came

    above = tree.put(b"b", b"a")
    assert below.above is above
    assert above.came
    assert _above(tree, b"c") == [b"b", b"a"]
    assert [each.span_id for each in tree.spans()] == [b"c", b"b"]


def test_spans_that_are_their_own_ancestors_are_walked_round() -> None:
    """As far as any others; yet no node refers to itself, not even by others."""
    tree = SpanTree()
    for span_id, parent in ((b"a", b"b"), (b"b", b"c"), (b"c", b"a"), (b"x", b"x")):
        tree.put(span_id, parent)

    assert list(islice(_above(tree, b"a"), 4)) == [b"b", b"c", b"a", b"b"]
    assert _above(tree, b"x") == [b"x"] * DEPTH_MAX
    assert _node(tree, b"c").above is None
    assert _node(tree, b"x").above is None


def test_a_span_that_comes_again_elsewhere_leaves_the_ring() -> None:
    """A repeated span keeps the last parent that it named, so no cycle remains."""
    tree = SpanTree()
    tree.put(b"a", b"b")
    tree.put(b"b", b"a")
    tree.put(b"b", b"root")
    assert _above(tree, b"a") == [b"b", b"root"]

    tree.put(b"b", b"")
    assert _above(tree, b"a") == [b"b"]


def test_a_long_way_up_is_kept_as_it_is() -> None:
    """Parents that arrive after many descendants are found, at any depth."""
    tree = SpanTree()
    for number in range(100, 0, -1):
        tree.put(b"%d" % number, b"%d" % (number - 1))
    assert _above(tree, b"90") == [b"%d" % number for number in range(89, 89 - DEPTH_MAX, -1)]
    assert _above(tree, b"3") == [b"2", b"1", b"0"]

    tree.put(b"below", b"late")
    tree.put(b"late", b"90")
    assert _above(tree, b"below")[:3] == [b"late", b"90", b"89"]


def test_forgotten_spans_are_awaited_anew() -> None:
    """Of forgotten spans, only references to them and spans that wait for a parent remain."""
    tree = SpanTree()
    for span_id, parent in ((b"a", b"top"), (b"b", b"a"), (b"c", b"b"), (b"d", b"c")):
        tree.put(span_id, parent)
    _node(tree, b"b").agent = "rover"
    tree.wait(_node(tree, b"top"), b"d")
    tree.wait(_node(tree, b"top"), b"a")
    tree.shrink()

    assert [each.span_id for each in tree.spans()] == [b"c", b"d"]
    assert set(tree.nodes) == {b"b", b"c", b"d", b"top"}
    assert (_node(tree, b"b").came, _node(tree, b"b").agent) == (False, "")
    assert _above(tree, b"d") == [b"c", b"b"]
    assert tree.missing == 1
    assert tree.awaited(_node(tree, b"top")) == [_node(tree, b"d")]
    assert tree.missing == 0


def test_one_call_id_of_several_tools_is_several_calls() -> None:
    """Each tool has its own spans, which last as long as one of them does."""
    tree = SpanTree()
    first, second, third = (tree.put(each, b"") for each in (b"1", b"2", b"3"))
    tree.like("id", "move").keep([first, third])
    tree.like("id", "scan").keep([second])
    assert tree.like("id", "move").nodes() == [first, third]
    assert tree.like("id", "scan").nodes() == [second]

    tree.put(b"4", b"")
    tree.shrink()
    assert tree.like("id", "move").nodes() == [third]
    assert tree.like("id", "scan").nodes() == []
    tree.put(b"5", b"")
    tree.put(b"6", b"")
    tree.shrink()
    assert tree.alike is None
    made = [tree.like(f"id{number}", "move") for number in range(2 * FEW)]
    assert all(tree.like(f"id{number}", "move") is made[number] for number in range(2 * FEW))
    assert tree.like("id0", "scan") is not made[0]


def test_what_is_asked_for_is_noted_once() -> None:
    """With the spans of the call, whichever comes first; beyond the bound it is left to others."""
    tree = SpanTree()
    for number in range(ASKED_MAX // ASKED_A_SPAN):
        tree.put(number.to_bytes(8, "big"), b"")
    calls = [(f"c{number}", "look") for number in range(ASKED_MAX)]
    seen = tree.like(*calls[0])
    assert [tree.ask(*call) for call in calls] == [False] * ASKED_MAX
    assert [tree.ask(*call) for call in calls] == [True] * ASKED_MAX
    assert tree.like(*calls[0]) is seen

    assert tree.ask("c0", "move") is None
    assert tree.ask("more", "look") is None
    assert tree.ask(*calls[-1]) is True


def test_one_span_does_not_ask_for_hundreds() -> None:
    """The notes of a tree are bounded by the number of spans that came, like all it holds."""
    tree = SpanTree()
    tree.put(b"model---", b"")
    told = [tree.ask(f"c{number}", "look") for number in range(100)]

    assert told == [False] * ASKED_A_SPAN + [None] * (100 - ASKED_A_SPAN)
    assert tree.ask("c0", "look") is True
    tree.put(b"another-", b"")
    assert tree.ask("c50", "look") is False


def test_what_was_asked_for_stays_noted_when_its_spans_are_forgotten() -> None:
    """A model's output may be repeated at the end of a long trace."""
    tree = SpanTree()
    for number in range(20):
        node = tree.put(bytes([number]) * 8, b"")
        assert tree.ask(f"c{number}", "look") is False
        tree.like(f"c{number}", "look").first = node
        tree.like(f"other{number}", "look").first = node
    tree.shrink()

    assert all(tree.ask(f"c{number}", "look") for number in range(20))
    assert len(list(tree.alikes())) == 30


def test_traces_that_share_a_place_are_told_apart() -> None:
    """Traces in one cache place are distinguished by id and tenant."""
    traces = Traces()
    ids = [b"first--\0\0------x", b"second-\0\0------x"]
    made = {(name, each): traces.of(name, each) for name in ("", "tenant") for each in ids}
    assert len({id(trace) for trace in made.values()}) == 4
    for (name, trace_id), trace in [*made.items(), *reversed(made.items())]:
        assert traces.of(name, trace_id) is trace


def _grown(traces: Traces, name: int, now: int) -> Trace:
    """A trace with one span more, which waits for its parent."""
    trace = traces.of("", name.to_bytes(16, "big"))
    tree = traces.grow(trace, now)
    above = tree.put(b"span", b"above").above
    assert above is not None
    tree.wait(above, b"span")
    return trace


def _old(traces: Traces, count: int) -> list[Trace]:
    """Traces that may be forgotten from 2600 on, with a period of 800."""
    old = [_grown(traces, name, 1_000) for name in range(count)]
    _grown(traces, 1_000, 1_800)
    return old


def _kept(traces: list[Trace]) -> int:
    return sum(trace.tree is not None for trace in traces)


def test_an_old_tree_goes_for_each_new_one() -> None:
    """One old tree is dropped for each new one, so no call waits for thousands. Active ones stay."""
    traces = Traces(period_ns=800)
    old = _old(traces, 50)
    kept = []
    for name in range(2_000, 2_050):
        _grown(traces, name, 2_600)
        kept.append(_kept(old))
        if name == 2_010:
            _grown(traces, 0, 2_600)

    assert max(before - after for before, after in pairwise(kept)) <= 2
    assert kept[20] > 20
    assert kept[-1] == 1
    assert old[0].tree is not None


@pytest.mark.parametrize("step_ns", [0, 1])
def test_old_trees_go_where_no_new_ones_come(step_ns: int) -> None:
    """A few with each span, by the end of the period's spans, or soon in its time."""
    traces = Traces(period_ns=100 * SOON, spans_max=100)
    old = _old(traces, 90)
    kept = []
    for number in range(99):
        _grown(traces, 2_000, 2_600 + number * step_ns)
        kept.append(_kept(old))

    assert max(before - after for before, after in pairwise([90, *kept])) <= 1 + AT_ONCE
    assert kept[40] > 20
    assert kept[-1] <= 1


def test_all_that_is_due_is_forgotten_by_the_next_period() -> None:
    """All due traces are freed by the next period, even if few spans arrive."""
    traces = Traces(period_ns=100)
    old = [_grown(traces, name, 1_000) for name in range(50)]
    for number in range(4):
        _grown(traces, 100 + number, 1_100 + 100 * number)

    assert all(trace.tree is None for trace in old)


def test_traces_beyond_the_bound_go_one_for_each_that_comes() -> None:
    """One trace is dropped for each new one. Each call that still waited is reported once."""
    traces = Traces(traces_max=40)
    told = []
    for name in range(200):
        _grown(traces, name, 1_000)
        told.append(len(traces.broken()))
    traces.close()

    assert max(told) == 1
    assert sum(told) + len(traces.broken()) == 200


def test_a_trace_of_many_spans_finds_each() -> None:
    """The first ones are found as the last ones are, and one is never made twice."""
    tree = SpanTree()
    made = [tree.put(b"%d" % number, b"") for number in range(2 * FEW)]
    assert [tree.node(each.span_id) for each in made] == made
    assert tree.node(b"other") is None
    assert tree.put(b"0", b"1") is made[0]
    assert made[0].above is made[1]
    assert len(tree.nodes) == 2 * FEW


_DEEP = """
import gc

from collector.calls.tree.span_tree import TREE_MAX, SpanTree
from monitor import Limits, Monitor
from monitor.records import Evidence, SessionKey, ToolCall

tree = SpanTree()
for number in range(TREE_MAX, 0, -1):
    tree.put(number.to_bytes(8, "big"), (number - 1).to_bytes(8, "big"))
    tree.like(str(number), "move").keep([])
del tree

monitor = Monitor((), Limits())
for number in range(1, 300):
    key, own = SessionKey("", str(number)), number.to_bytes(8, "big")
    told = own * 2, own, b"", "", Evidence.EXECUTED
    call = ToolCall(key, "", "move", {}, False, number, number, *told, attributes={})
    monitor.observe(call, number)
del monitor, call
gc.collect()
"""


def test_a_deep_tree_is_freed_as_a_whole() -> None:
    """A deep tree and many sessions are freed as a whole, without writes to freed memory."""
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    command = [sys.executable, "-P", "-c", _DEEP]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_trees_are_bounded_in_bytes() -> None:
    """A period ends at a third of the bound, so three periods fit into it."""
    traces = Traces(trees_bytes_max=300 * 1_024)
    grown: list[Trace] = []
    for number in range(1_000):
        trace = traces.of("", number.to_bytes(16, "big"))
        traces.hold(traces.grow(trace, 0), None)
        grown.append(trace)
        assert traces.trees_bytes <= 300 * 1_024
    for number in range(1_200):
        _grown(traces, 5_000 + number, 0)

    assert not any(trace.tree for trace in grown)
    assert 0 < traces.trees_bytes <= 300 * 1_024


def test_traces_of_one_tenant_do_not_push_out_anothers() -> None:
    """One tenant's traces, however many, evict none of another's."""
    traces = Traces(traces_max=100)
    mine = [traces.of("quiet", number.to_bytes(16, "big")) for number in range(10)]
    for number in range(5_000):
        traces.of(f"loud/{number % 7}", number.to_bytes(16, "big"))

    assert [traces.of("quiet", number.to_bytes(16, "big")) for number in range(10)] == mine
    assert len(list(traces)) <= 100 + 10


def _called(traces: Traces, namespace: str, number: int, text: str) -> LogicalCall:
    """A judged call in a trace of its own."""
    trace = traces.of(namespace, number.to_bytes(16, "big"))
    tree = traces.grow(trace, 0)
    node = tree.put(number.to_bytes(8, "big"), b"")
    piece = Piece(
        node.span_id,
        b"",
        SpanReading("test", "t", {"text": text}),
        1,
        2,
        Evidence.EXECUTED,
        {},
    )
    call = node.call = LogicalCall(piece)
    call.judged = call.tool_call(trace.trace_id, trace.key, "trace", {}, gaps=False)
    traces.hold(tree, piece.arguments)
    return call


def test_the_largest_arguments_are_given_up_first() -> None:
    """Beyond the bound, the largest arguments are freed, down to three quarters. Verdicts stay."""
    traces = Traces(bytes_max=100_000)
    small = [_called(traces, "", number, "x" * 1_000) for number in range(1, 40)]
    large = [_called(traces, "", number, "x" * 30_000) for number in range(40, 42)]

    assert large[0].given_up
    assert large[0].judged is not None
    assert large[0].judged.arguments is None
    assert not any(each.given_up for each in small)
    assert traces.held <= 100_000
    assert traces.given_up() == len([each for each in large if each.given_up])
    assert traces.given_up() == 0


def test_the_arguments_of_a_tenant_that_holds_little_stay() -> None:
    """The tenant that holds most frees its own arguments, even if they are small."""
    traces = Traces(bytes_max=100_000)
    mine = _called(traces, "quiet", 1, "x" * 20_000)
    for number in range(2, 500):
        _called(traces, "loud", number, "x" * 1_000)

    assert not mine.given_up
    assert traces.held <= 100_000


def test_held_arguments_are_freed_after_silence() -> None:
    """After two periods of silence nothing is held, as long as somebody looks at the clock."""
    traces = Traces()
    for number in range(1, 10):
        _called(traces, "", number, "x" * 1_000)
    assert traces.held
    for minutes in range(1, 20):
        traces.expire(minutes * 60 * 1_000_000_000)

    assert traces.held == 0
    assert all(trace.tree is None for trace in traces)
