"""Resources of clients: one object for equal ones, of what matters alone, bounded in bytes, by client and in time."""

from __future__ import annotations

from collector.decide.client_resources import REMEMBER_NS, ClientResources
from collector.receive.tenant_stamp import SENDER_KEY

WANTED = frozenset({"service.name", "tier"})


def test_equal_attributes_are_one_object_and_others_are_dropped() -> None:
    """What no spec, session or namespace depends on is not kept, and tells no two clients apart."""
    known = ClientResources(lambda: WANTED)
    one = known.of({"service.name": "a", "noise": "x" * 9_000}, None, 1)

    assert known.of({"service.name": "a", "noise": "y"}, None, 2) is one
    assert one.attributes == {"service.name": "a"}
    assert known.held_bytes < 2_000


def test_nobody_can_claim_the_token_of_another() -> None:
    """The sender's name comes from its token, whatever its attributes say."""
    known = ClientResources(lambda: WANTED | {SENDER_KEY})
    forged = known.of({SENDER_KEY: "good"}, "bad", 1)

    assert forged.attributes[SENDER_KEY] == "bad"
    assert SENDER_KEY not in known.of({SENDER_KEY: "good"}, None, 1).attributes


def test_who_floods_loses_its_own() -> None:
    """At the bound in bytes a client that holds more than its share gives way, and nobody else."""
    known = ClientResources(lambda: WANTED, bytes_max=100_000)
    mine = known.of({"service.name": "mine"}, "good", 1)
    for number in range(1_000):
        known.of({"service.name": f"{number}".ljust(2_000)}, "bad", 2)

    assert known.held_bytes <= 100_000
    assert known.of({"service.name": "mine"}, "good", 3) is mine


def test_unused_ones_are_forgotten_in_time() -> None:
    """Ten minutes after its last question nothing of a client is held."""
    known = ClientResources(lambda: WANTED)
    known.of({"service.name": "a"}, None, 1)
    known.of({"service.name": "b"}, None, 1)
    known.of({"service.name": "a"}, None, 5)
    known.forget(1 + REMEMBER_NS)
    assert len(known) == 1
    known.forget(5 + REMEMBER_NS)

    assert (len(known), known.held_bytes) == (0, 0)


def test_all_are_forgotten_where_memory_is_scarce() -> None:
    """Nothing is held, and the next question brings the same attributes again."""
    known = ClientResources(lambda: WANTED)
    known.of({"service.name": "a"}, None, 1)
    known.clear()

    assert (len(known), known.held_bytes) == (0, 0)
    assert known.of({"service.name": "a"}, None, 2).attributes == {"service.name": "a"}
