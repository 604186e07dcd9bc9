"""Small specs: a task and a policy of one agent, in many forms."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from random import Random
from typing import Any

# The limit of the argument `n`, in all specs.
LIMIT = 100
SERVICE = "shop"

ALPHABET: Mapping[str, Any] = {
    "look": {"tool": "look_up"},
    "check": {"tool": "check"},
    "pay": {"tool": "pay", "arguments": {"n": {"max": LIMIT}}},
    "send": {"tool": "send"},
    "note": {"tool": "note"},
    "off": {"tool": "switch", "arguments": {"k": 0}},
    "on": {"tool": "switch", "arguments": {"k": 1}},
}
_SYMBOLS = ("look", "check", "pay", "off", "on", "on")
_GOLDEN = (
    [["look", "check", "pay"]],
    [["look", "check", "pay", "send"]],
    [["look", "check", "pay"], ["look", "check", "send"]],
    [["check", "pay", "send"], ["look", "pay", "send"]],
    [["off", "check", "on", "pay"], ["on", "pay"]],
)
_TRANSITIONS = (
    {"a": {"look": "b"}, "b": {"check": "c", "look": "b"}, "c": {"pay": "d", "send": "d"}, "d": {}},
    {"a": {"look": "b", "check": "c"}, "b": {"check": "d"}, "c": {"look": "d"}, "d": {"pay": "d", "send": "e"}, "e": {}},
    {"a": {"check": "b"}, "b": {"pay": "c", "look": "a"}, "c": {"send": "d", "check": "b"}, "d": {}},
)  # fmt: skip


def task(random: Random) -> dict[str, Any]:
    """A task: the right sequences, or an automaton; `note` changes nothing."""
    document: dict[str, Any] = {
        "id": "task",
        "kind": "task",
        "match": {"service.name": SERVICE},
        "mode": "page",
        "severity": {"default": "critical"},
        "concurrent": random.choice(["any_order", "any_order", "any_order", "strict"]),
        "again": random.random() < 0.2,
        "alphabet": dict(ALPHABET),
        "reads": ["note"],
    }
    if random.random() < 0.4:
        return document | {"golden": random.choice(_GOLDEN)}
    transitions = random.choice(_TRANSITIONS) if random.random() < 0.4 else _automaton(random)
    accepting = [list(transitions)[-1]]
    return document | {"initial": "a", "accepting": accepting, "transitions": transitions}


def _automaton(random: Random) -> dict[str, dict[str, str]]:
    """Some automaton whose states are on a way from the first to the last one."""
    states = "abcd"[: random.choice([3, 3, 4])]
    edges: dict[str, dict[str, str]] = {state: {} for state in states}
    for state, after in pairwise(states):
        edges[state][random.choice(_SYMBOLS)] = after
    for _ in range(random.choice([1, 2, 3, 4])):
        edges[random.choice(states)].setdefault(random.choice(_SYMBOLS), random.choice(states))
    return edges


def policy(random: Random) -> dict[str, Any]:
    """A policy of two to four rules: order, limit, arguments, never."""
    rules: list[dict[str, Any]] = [
        {"precedence": ["check", "pay"]},
        {"at_most": ["pay", random.choice([1, 1, 2])]},
        {"forbid": "much"},
        {"forbid": "wipe"},
        {"precedence": ["look", "send"]},
    ]
    return {
        "id": "policy",
        "kind": "policy",
        "match": {"service.name": SERVICE},
        "mode": "page",
        "severity": {"default": "critical"},
        "concurrent": random.choice(["strict", "strict", "any_order"]),
        "alphabet": {
            **{name: ALPHABET[name] for name in ("look", "check", "pay", "send")},
            "much": {"tool": "pay"},
            "wipe": {"tool": "wipe"},
        },
        "constraints": [each for each in rules if random.random() < 0.8] or rules[:2],
    }
