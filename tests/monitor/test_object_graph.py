"""Objects that are written as bytes and read again."""

from __future__ import annotations

import pickle
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.object_graph import (
    Block,
    Change,
    Kind,
    Layout,
    UnkeptError,
    finished,
    fixtures,
    read,
    write,
)


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    left: Any
    right: Any


class Known(dict[str, Any]):
    """A plain value, as it is a dictionary."""


class Node:
    """A record: what follows it, and any value."""

    __slots__ = ("__private", "next", "value")

    def __init__(self, value: Any = None, following: Node | None = None) -> None:
        self.value = value
        self.next = following
        self.__private = value

    @property
    def private(self) -> Any:
        return self.__private


class Part:
    """A part: it exists once in each process."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self.nodes: list[Node] = []
        self.by_node: dict[Node, Node] = {}
        self.cache: dict[int, Node] = {}
        self.number = 0


class Judge:
    """Its fields follow from what it was made of, but for one."""

    __slots__ = ("count", "limits")

    def __init__(self) -> None:
        self.count = 0
        self.limits = object()


HERE = f"{__name__}."
LAYOUT = Layout(
    packages=("tests", "monitor"),
    records=(HERE,),
    still=(),
    caches={f"{HERE}Part": {"cache": dict}},
    only={f"{HERE}Judge": ("count",)},
)


def _nothing() -> None:
    return None


class Process:
    """One process: a part, a judge, and how to bring back what another one has written."""

    def __init__(self) -> None:
        self.part = Part(_nothing)
        self.judges = {"a": Judge()}
        self.known = fixtures({"part": self.part, "judges": self.judges}, LAYOUT)

    def write(self, more: object = None) -> list[Block]:
        return list(write(self.known, LAYOUT, more))

    def read(self, blocks: list[Block]) -> Any:
        return finished(read(lambda kind: _of(blocks, kind), self.known, LAYOUT))


def _of(blocks: list[Block], kind: Kind) -> Iterator[bytes]:
    return (block.payload for block in blocks if block.kind == kind)


def again(value: Any) -> Any:
    """A value, as another process reads it."""
    before, after = Process(), Process()
    before.part.nodes.append(Node(value))
    after.read(before.write())
    return after.part.nodes[0].value


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.just(Colour.RED),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.tuples(inner, inner)
        | st.builds(Pair, inner, inner)
        | st.builds(Known, st.dictionaries(st.text(), inner))
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_values_are_what_they_were(value: Any) -> None:
    """Every plain value comes back equal, and of the same type."""
    found = again(value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        bytearray(b"rows"),
        array("Q", [1, 1 << 63]),
        deque([1, 2], maxlen=2),
        Counter("abca"),
        OrderedDict(b=1, a=2),
        {1, 2},
        frozenset({"a"}),
        "\ud800",
        1 << 200,
        Colour,
    ],
    ids=repr,
)
def test_containers_are_what_they_were(value: Any) -> None:
    """So do the containers that are in use."""
    found = again(value)
    assert found == value
    assert type(found) is type(value)


def test_objects_are_who_they_were() -> None:
    """Two ways to one object lead to one object, circles are circles, and a container that two share stays one."""
    before, after = Process(), Process()
    first, second = Node(), Node()
    first.next, second.next = second, first
    first.value = second.value = ["shared"]
    before.part.nodes = [first, second, first]
    before.part.by_node = {first: second}
    after.read(before.write())
    one, two, same = after.part.nodes
    assert one is same
    assert one.next is two
    assert two.next is one
    assert one.value is two.value
    assert after.part.by_node[one] is two


def test_a_chain_has_no_depth() -> None:
    """100,000 objects that lead from one to the next are written and read."""
    before, after = Process(), Process()
    last = None
    for number in range(100_000):
        last = Node(number, last)
    assert last is not None
    before.part.nodes = [last]
    after.read(before.write())
    found, count = after.part.nodes[0], 0
    while True:
        assert found.value == 99_999 - count
        assert found.private == found.value
        count += 1
        if found.next is None:
            break
        found = found.next
    assert count == 100_000


def test_parts_and_fixtures_are_those_of_the_process() -> None:
    """Parts stay the objects they are, functions and judges too; caches begin anew."""
    before, after = Process(), Process()
    part, judge = after.part, after.judges["a"]
    before.part.number, before.judges["a"].count = 7, 3
    before.part.cache = {1: Node()}
    before.part.nodes = [Node((before.judges["a"], _nothing, before.part))]
    limits = judge.limits
    assert after.read(before.write({"more": before.part.nodes[0]}))["more"] is part.nodes[0]
    assert part.number == 7
    assert part.function is _nothing
    assert part.cache == {}
    assert part.nodes[0].value == (judge, _nothing, part)
    assert (judge.count, judge.limits) == (3, limits)


def test_what_nobody_knows_how_to_keep_is_refused() -> None:
    """An object of another class is no gap in what is written, but an error that names the class."""
    process = Process()
    process.part.nodes = [Node(iter(()))]
    with pytest.raises(UnkeptError, match="tuple_iterator"):
        process.write()
    process.part.nodes = [Node(Judge())]
    with pytest.raises(UnkeptError, match="earlier version"):
        process.write()


def test_what_does_not_fit_changes_nothing() -> None:
    """A file that another program wrote leaves all as it was."""
    before, after = Process(), Process()
    before.part.number = 7
    blocks = before.write()
    index = blocks[-1]
    for wrong in (
        [*blocks[:-1], Block(Kind.INDEX, index.payload.replace(b"Part", b"Tart"))],
        [*blocks[:-1], Block(Kind.INDEX, index.payload.replace(b"judges", b"fudges"))],
        [Block(block.kind, block.payload[:-3]) for block in blocks],
        [blocks[0], Block(Kind.LINKED, b"\x80\x05N."), *blocks[1:]],
        [index],
    ):
        with pytest.raises(UnkeptError):
            after.read(wrong)
        assert after.part.number == 0


class Evil:
    """Would run what a file says."""

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, ("1 / 0",)


@pytest.mark.parametrize("kind", [Kind.FLAT, Kind.LINKED])
def test_a_file_names_no_code(kind: Kind) -> None:
    """Functions, and classes that are no plain values, cannot be named."""
    blocks = Process().write()
    wrong = [*blocks[:-1], Block(kind, pickle.dumps(Evil())), blocks[-1]]
    with pytest.raises(UnkeptError, match=r"names builtins\.eval|builtins\.eval is not ours"):
        Process().read(wrong)


# --- classes that have changed since -------------------------------------------------------------


class Before:
    """A class as it was."""

    __slots__ = ("gone", "stays")

    def __init__(self, stays: int) -> None:
        self.gone = "old"
        self.stays = stays


class After:
    """The same class in the next version of the program."""

    __slots__ = ("new", "stays")


class Swapped(NamedTuple):
    """A pair whose fields have changed places since."""

    right: Any
    left: Any


class Longer(NamedTuple):
    """A pair that has a third field since."""

    left: Any
    right: Any
    more: int = 3


CHANGE = Change(added={"new": list}, dropped=("gone",))


def _as(there: type, here: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, the class that was written is another one."""
    here.__qualname__ = there.__qualname__
    monkeypatch.setitem(globals(), there.__name__, here)


def _read_again(blocks: list[Block], layout: Layout) -> Any:
    return finished(
        read(lambda kind: [b.payload for b in blocks if b.kind == kind], {}, layout)
    )


def test_a_class_that_has_changed_is_read_as_its_change_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """New fields are made, those that are gone are passed over, all others are as they were written."""
    blocks = list(write({}, LAYOUT, [Before(number) for number in range(5)]))
    _as(Before, After, monkeypatch)
    found = _read_again(blocks, LAYOUT._replace(changes={f"{HERE}Before": (CHANGE,)}))
    assert [(each.stays, each.new) for each in found] == [(number, []) for number in range(5)]
    assert found[0].new is not found[1].new


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ((), "Before had other fields: gone, new"),
        ((Change(dropped=("gone",)),), "Before had other fields: new"),
        ((CHANGE, Change(refused="it means something else")), "it means something else"),
    ],
)
def test_a_class_that_has_changed_is_never_read_as_something_else(
    changes: tuple[Change, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a change that says how, it is refused by name."""
    blocks = list(write({}, LAYOUT, [Before(1)]))
    _as(Before, After, monkeypatch)
    with pytest.raises(UnkeptError, match=why):
        _read_again(blocks, LAYOUT._replace(changes={f"{HERE}Before": changes}))


def test_a_newer_class_is_refused_by_name() -> None:
    """What a later version of a class has written, an earlier one does not read."""
    later = LAYOUT._replace(changes={f"{HERE}Node": (Change(),)})
    blocks = list(write({}, later, [Node(1)]))
    with pytest.raises(UnkeptError, match="Node is of version 1, which is newer"):
        _read_again(blocks, LAYOUT)


def test_names_of_tuples_are_held_to_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field with a default may have come since; fields that have changed places are refused."""
    blocks = list(write({}, LAYOUT, [Pair(1, 2)]))
    with monkeypatch.context() as patch:
        _as(Pair, Longer, patch)
        assert _read_again(blocks, LAYOUT) == [(1, 2, 3)]
    _as(Pair, Swapped, monkeypatch)
    with pytest.raises(UnkeptError, match="Pair had other fields"):
        _read_again(blocks, LAYOUT)


def test_parts_keep_what_follows_from_settings() -> None:
    """A field that is a part's own stays what it is in the process that reads."""
    there, here = Part(_nothing), Part(_nothing)
    there.number, here.number = 7, 8
    there.nodes.append(Node(1))
    layout = LAYOUT._replace(own={f"{HERE}Part": ("number",)})
    known = {"part": there, "function": _nothing}
    blocks = list(write(known, layout))
    finished(
        read(
            lambda kind: [b.payload for b in blocks if b.kind == kind],
            {"part": here, "function": _nothing},
            layout,
        )
    )
    assert (here.number, len(here.nodes)) == (8, 1)
