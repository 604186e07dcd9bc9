"""A spec that is learnt of one ground truth: its writing calls lead on, and reading tools are harmless."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

__all__ = ["learnt_spec"]


def learnt_spec(
    name: str,
    instruction: str,
    calls: Sequence[Mapping[str, Any]],
    reading: Sequence[str],
    *,
    free: Collection[str] = (),
    any_order_below: int = 0,
) -> dict[str, Any]:
    """The document of a spec.

    Args:
        name: of the task, whose slashes become underscores.
        instruction: of the task.
        calls: the ground truth, each with tool and arguments. Where it writes nothing, its reads lead on.
        reading: tools that change nothing.
        free: names of arguments that an agent puts into words of its own.
        any_order_below: fewer writing calls may come in any order.
    """
    alphabet: dict[str, dict[str, Any]] = {tool: {"tool": tool} for tool in reading}
    writes = [
        _symbol(each, alphabet, free) for each in calls if each["tool"] not in set(reading)
    ]
    way = writes or [each["tool"] for each in calls]
    return {
        "id": name.replace("/", "_"),
        "description": instruction,
        "alphabet": alphabet,
        "golden": _orders(way) if 0 < len(writes) < any_order_below else [way],
        "reads": list(reading),
    }


def _symbol(
    call: Mapping[str, Any], alphabet: dict[str, dict[str, Any]], free: Collection[str]
) -> str:
    """The symbol of a writing call, declared where it is new."""
    wanted = {
        name: {"exact": value} if isinstance(value, dict) else value
        for name, value in call["arguments"].items()
        if name not in free
    }
    symbol = {"tool": call["tool"], "arguments": wanted}
    known = [name for name, each in alphabet.items() if each == symbol]
    if known:
        return known[0]
    name = f"{call['tool']}_{len(alphabet) + 1}"
    alphabet[name] = symbol
    return name


def _orders(way: Sequence[str]) -> list[list[str]]:
    return [list(each) for each in dict.fromkeys(itertools.permutations(way))]
