"""Objects that are written as plain records and read again."""

from __future__ import annotations

import json
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.plain_records.blocks import Block, BlockKind
from monitor.plain_records.kinds import (
    KindChange,
    Kinds,
    UnkeptError,
    kept,
    kept_growing,
    named,
)
from monitor.plain_records.read import finished, read
from monitor.plain_records.write import write


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


KINDS = Kinds(
    (
        kept("colour", Colour),
        kept("pair", Pair, "left right"),
        kept("known", Known),
        kept("node", Node, "next value _Node__private"),
        kept("part", Part, "nodes by_node number", left="function cache"),
        kept("judge", Judge, "count", left="limits", only_parts=True),
    )
)


def _nothing() -> None:
    return None


class Process:
    """One process: a part, a judge, and how to bring back what another one has written."""

    def __init__(self) -> None:
        self.part = Part(_nothing)
        self.judges = {"a": Judge()}
        roots = {"part": self.part, "judge of a": self.judges["a"], "nothing": _nothing}
        self.known = named(roots, KINDS)

    def write(self, more: object = None) -> list[Block]:
        return list(write(self.known, KINDS, more))

    def read(self, blocks: list[Block]) -> Any:
        return finished(read(lambda kind: _of(blocks, kind), self.known, KINDS))


def _of(blocks: list[Block], kind: BlockKind) -> Iterator[bytes]:
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
        array("H"),
        deque([1, 2], maxlen=2),
        Counter("abca"),
        OrderedDict(b=1, a=2),
        {1, 2},
        frozenset({"a"}),
        "\ud800",
        1 << 200,
        -(1 << 200),
        [1 << 64, -1, True, 1.5, None, "", b"", ()],
        frozenset({(1, "a")}),
        {(1, ("a",)): {"b": [()]}},
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
    """20,000 objects that lead from one to the next, twenty times as many as Python nests calls, are written and read."""
    before, after = Process(), Process()
    last = None
    for number in range(20_000):
        last = Node(number, last)
    assert last is not None
    before.part.nodes = [last]
    after.read(before.write())
    found, count = after.part.nodes[0], 0
    while True:
        assert found.value == 19_999 - count
        assert found.private == found.value
        count += 1
        if found.next is None:
            break
        found = found.next
    assert count == 20_000


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
        [*blocks[:-1], Block(BlockKind.INDEX, index.payload.replace(b"part", b"tart"))],
        [*blocks[:-1], Block(BlockKind.INDEX, index.payload.replace(b"judge of", b"fudge of"))],
        [Block(block.kind, block.payload[:-3]) for block in blocks],
        [blocks[0], Block(BlockKind.RECORDS, b"\x93\x00\x00\x90"), *blocks[1:]],
        [index],
    ):
        with pytest.raises(UnkeptError):
            after.read(wrong)
        assert after.part.number == 0


def test_a_file_names_no_class_and_no_module() -> None:
    """All that is written is MessagePack of plain data, and names of kinds."""
    process = Process()
    process.part.nodes = [Node(Pair(Colour.RED, Known(a=1))), Node(_nothing)]
    text = b"".join(block.payload for block in process.write()).lower()
    for word in (
        b"test_records",
        b"monitor",
        b"collector",
        b"builtins",
        b"pickle",
        b"_nothing",
    ):
        assert word not in text
    for block in process.write():
        assert json.dumps(msgspec.msgpack.decode(block.payload), default=_hex)


def _hex(value: bytes) -> str:
    return value.hex()


@given(st.data())
def test_whatever_a_file_says_it_makes_nothing_but_records(data: st.DataObject) -> None:
    """Bytes that are others are refused, or lead to plain values and declared kinds: no code is named, or run."""
    before, after = Process(), Process()
    before.part.nodes = [Node(["text", 7, 1.5, Pair(1, b"x")])]
    blocks = before.write()
    at = data.draw(st.integers(0, len(blocks) - 2))
    raw = bytearray(blocks[at].payload)
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    blocks[at] = Block(blocks[at].kind, bytes(raw))
    with suppress(UnkeptError):
        after.read(blocks)


# --- kinds that have changed since ---------------------------------------------------------------


class Before:
    """A class as it was."""

    __slots__ = ("gone", "old", "stays")

    def __init__(self, stays: int) -> None:
        self.gone = "gone"
        self.old = "old"
        self.stays = stays


class After:
    """The same kind in the next version of the program, in another class."""

    __slots__ = ("name", "new", "stays")

    name: str
    new: list[int]
    stays: int


class Longer(NamedTuple):
    """A pair that has a third field since, and whose fields have changed places."""

    right: Any
    left: Any
    more: int


BEFORE = Kinds([kept("thing", Before, "gone old stays"), kept("pair", Pair, "left right")])
CHANGE = KindChange(added={"new": list}, dropped=("gone",), renamed={"old": "name"})


def after(*changes: KindChange) -> Kinds:
    """The kinds of the next version."""
    return Kinds([kept("thing", After, "name new stays", changes=changes)])


def _read_again(blocks: list[Block], kinds: Kinds) -> Any:
    return finished(read(lambda kind: _of(blocks, kind), {}, kinds))


def test_a_kind_that_has_changed_is_read_as_its_change_says() -> None:
    """New fields are made, those that are gone are passed over, others have another name or stay, in whatever class."""
    blocks = list(write({}, BEFORE, [Before(number) for number in range(5)]))
    found = _read_again(blocks, after(CHANGE))
    assert all(type(each) is After for each in found)
    assert [(each.stays, each.name, each.new) for each in found] == [
        (number, "old", []) for number in range(5)
    ]
    assert found[0].new is not found[1].new


def test_changes_of_several_versions_are_made_one_after_the_other() -> None:
    """What one version has added, the next one may call otherwise, and drop another field."""
    blocks = list(write({}, BEFORE, [Before(7)]))
    steps = (
        KindChange(added={"first": list}, dropped=("gone",)),
        KindChange(renamed={"first": "new", "old": "name"}),
    )
    [found] = _read_again(blocks, after(*steps))
    assert (found.stays, found.name, found.new) == (7, "old", [])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ((), '"thing" had other fields: gone, name, new, old'),
        ((KindChange(dropped=("gone", "old")),), '"thing" had other fields: name, new'),
        ((CHANGE, KindChange(refused="it means something else")), "it means something else"),
    ],
)
def test_a_kind_that_has_changed_is_never_read_as_something_else(
    changes: tuple[KindChange, ...], why: str
) -> None:
    """Without a change that says how, it is refused by name."""
    blocks = list(write({}, BEFORE, [Before(1)]))
    with pytest.raises(UnkeptError, match=why):
        _read_again(blocks, after(*changes))


def test_a_newer_kind_is_refused_by_name() -> None:
    """What a later version of a kind has written, an earlier one does not read; nor a kind that it does not know."""
    node = KINDS.by_name["node"]
    blocks = list(write({}, KINDS.replaced(node._replace(changes=(KindChange(),))), [Node(1)]))
    with pytest.raises(UnkeptError, match='"node" is of version 2, which is newer'):
        _read_again(blocks, KINDS)
    with pytest.raises(UnkeptError, match='this program does not know "node"'):
        _read_again(blocks, BEFORE)


def test_tuples_with_names_are_records_as_well() -> None:
    """A field may have come since, and fields may have changed places; without a change they are refused."""
    blocks = list(write({}, BEFORE, [Pair(1, 2)]))
    longer = kept("pair", Longer, "right left more", changes=(KindChange(added={"more": int}),))
    [found] = _read_again(blocks, Kinds([longer]))
    assert found == Longer(right=2, left=1, more=0)
    with pytest.raises(UnkeptError, match='"pair" had other fields: more'):
        _read_again(blocks, Kinds([longer._replace(changes=())]))


class Grown(NamedTuple):
    """A pair that has grown twice, each time at its end."""

    left: Any
    right: Any
    third: float | None = None
    fourth: float | None = None


class GrownOnce(NamedTuple):
    """The same between the two times."""

    left: Any
    right: Any
    third: float | None = None


def test_a_tuple_that_grows_at_its_end_is_read_from_each_earlier_version() -> None:
    """Fields that came later are None in records written before, and what a later version has written is refused."""
    versions = [
        (Pair(1, 2), Kinds([kept_growing("pair", Pair, first=2)])),
        (GrownOnce(1, 2, 0.5), Kinds([kept_growing("pair", GrownOnce, first=2)])),
        (Grown(1, 2, 0.5, 0.25), Kinds([kept_growing("pair", Grown, first=2)])),
    ]
    today = versions[-1][1]
    found = [_read_again(list(write({}, kinds, [each])), today) for each, kinds in versions]
    assert found == [[Grown(1, 2)], [Grown(1, 2, 0.5)], [Grown(1, 2, 0.5, 0.25)]]
    blocks = list(write({}, today, [Grown(1, 2)]))
    with pytest.raises(UnkeptError, match='"pair" is of version 3, which is newer'):
        _read_again(blocks, versions[0][1])


def test_a_name_is_one_kind_and_a_class_is_one_kind() -> None:
    """Two kinds of one name, or of one class, are a mistake that is found at once."""
    for second in (kept("pair", Longer), kept("couple", Pair)):
        with pytest.raises(ValueError, match="two kinds"):
            Kinds([kept("pair", Pair), second])


def test_parts_keep_what_follows_from_settings() -> None:
    """A field that is left stays what it is in the process that reads."""
    there, here = Part(_nothing), Part(_nothing)
    there.number, here.number = 7, 8
    there.nodes.append(Node(1))
    part = KINDS.by_name["part"]
    kinds = KINDS.replaced(part._replace(fields=("nodes",), left=("number",)))
    blocks = list(write({"part": there}, kinds))
    finished(read(lambda kind: _of(blocks, kind), {"part": here}, kinds))
    assert here.number == 8
    assert [each.value for each in here.nodes] == [1]


class Owner:
    """A part that leads to others."""

    def __init__(self) -> None:
        self._first = Part(_nothing)
        self._second = Part(_nothing)
        self.judge = Judge()
        self.none = None


def test_parts_are_named_by_their_kind_or_by_who_leads_to_them() -> None:
    """The only part of its kind has its kind's name, however it is reached; others have that of their owner's field."""
    owner = kept("owner", Owner, parts="_first _second judge none")
    found = named({"root": Owner()}, KINDS.replaced(owner))
    assert list(found) == ["root", "root: first", "root: second", "judge"]
