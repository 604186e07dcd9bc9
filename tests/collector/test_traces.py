"""The trees of traces: who is above whom, in whatever order spans come."""

from __future__ import annotations

from itertools import islice

from collector.traces import DEPTH_MAX, Tree


def _above(tree: Tree, span_id: bytes) -> list[bytes]:
    return [each.span_id for each in tree.ancestors(tree.nodes[span_id])]


def test_a_parent_that_comes_late_takes_its_place() -> None:
    """Until then it is known as one that has not come."""
    tree = Tree()
    below = tree.put(b"c", b"b")
    assert _above(tree, b"c") == [b"b"]
    assert not tree.nodes[b"b"].came

    above = tree.put(b"b", b"a")
    assert below.above is above
    assert above.came
    assert _above(tree, b"c") == [b"b", b"a"]
    assert [each.span_id for each in tree.spans] == [b"c", b"b"]


def test_spans_that_are_their_own_ancestors_are_walked_round() -> None:
    """As far as any others; yet no node refers to itself, not even by others."""
    tree = Tree()
    for span_id, parent in ((b"a", b"b"), (b"b", b"c"), (b"c", b"a"), (b"x", b"x")):
        tree.put(span_id, parent)

    assert list(islice(_above(tree, b"a"), 4)) == [b"b", b"c", b"a", b"b"]
    assert _above(tree, b"x") == [b"x"] * DEPTH_MAX
    assert tree.nodes[b"c"].above is None
    assert tree.nodes[b"x"].above is None


def test_a_span_that_comes_again_elsewhere_leaves_the_ring() -> None:
    """Its parent is the one it named last."""
    tree = Tree()
    tree.put(b"a", b"b")
    tree.put(b"b", b"a")
    tree.put(b"b", b"root")
    assert _above(tree, b"a") == [b"b", b"root"]

    tree.put(b"b", b"")
    assert _above(tree, b"a") == [b"b"]


def test_a_long_way_up_is_kept_as_it_is() -> None:
    """Parents that come after very many below them are found, however deep that is."""
    tree = Tree()
    for number in range(100, 0, -1):
        tree.put(b"%d" % number, b"%d" % (number - 1))
    assert _above(tree, b"90") == [b"%d" % number for number in range(89, 89 - DEPTH_MAX, -1)]
    assert _above(tree, b"3") == [b"2", b"1", b"0"]

    tree.put(b"below", b"late")
    tree.put(b"late", b"90")
    assert _above(tree, b"below")[:3] == [b"late", b"90", b"89"]


def test_forgotten_spans_are_awaited_anew() -> None:
    """What is left of them is that others name them, or wait for one above them."""
    tree = Tree()
    for span_id, parent in ((b"a", b"top"), (b"b", b"a"), (b"c", b"b"), (b"d", b"c")):
        tree.put(span_id, parent)
    tree.nodes[b"b"].agent = "rover"
    tree.nodes[b"top"].wait(b"d")
    tree.nodes[b"top"].wait(b"a")
    tree.shrink()

    assert [each.span_id for each in tree.spans] == [b"c", b"d"]
    assert set(tree.nodes) == {b"b", b"c", b"d", b"top"}
    assert (tree.nodes[b"b"].came, tree.nodes[b"b"].agent) == (False, "")
    assert _above(tree, b"d") == [b"c", b"b"]
    assert tree.missing() == 1
    assert tree.awaited(tree.nodes[b"top"]) == [tree.nodes[b"d"]]
    assert tree.missing() == 0
