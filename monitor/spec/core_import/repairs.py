"""Repairs of published tasks: those their authors published, then the general ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from monitor.spec.core_import.dataset import DatasetState, Edge, Repair, Task, defects

__all__ = ["repair"]

Fix = Callable[[Task], tuple[Task, str] | None]
"""The repaired task and what was done; None if it does not apply."""


def repair(task: Task) -> tuple[Task, tuple[Repair, ...]]:
    """The task with its defects repaired as far as possible, and each repair.

    A repair that the authors published comes first, if the task is still as they published it. General
    repairs follow: they add nothing, and drop what no call could have used, or the second of two. `defects`
    lists what is left.
    """
    task, done = _as_published(task)
    for code, fix in _GENERAL.items():
        found = tuple(defect for defect in defects(task) if defect.code == code)
        fixed = fix(task) if found else None
        if fixed is not None:
            task, repaired = fixed
            done += [Repair(defect, repaired) for defect in found]
    return task, tuple(done)


def _as_published(task: Task) -> tuple[Task, list[Repair]]:
    fix = _PUBLISHED.get(task.id)
    found = defects(task)
    fixed = fix(task) if fix is not None and found else None
    if fixed is None:
        return task, []
    mended, repaired = fixed
    left = defects(mended)
    return mended, [Repair(defect, repaired) for defect in found if defect not in left]


def _drop_copies(task: Task) -> tuple[Task, str] | None:
    kept: dict[str, DatasetState] = {}
    for state in task.states:
        if kept.setdefault(state.name, state) != state:
            return None  # two states of one name, and no telling which is meant
    return replace(task, states=tuple(kept.values())), "the copy is dropped"


def _trust_place(task: Task) -> tuple[Task, str]:
    states = tuple(
        replace(state, edges=tuple(replace(edge, source=state.name) for edge in state.edges))
        for state in task.states
    )
    return replace(task, states=states), "it starts from the state it is listed under"


def _drop_undeclared(task: Task) -> tuple[Task, str]:
    def declared(state: DatasetState) -> DatasetState:
        known = (
            replace(edge, symbols=tuple(s for s in edge.symbols if s in task.alphabet))
            for edge in state.edges
        )
        return replace(state, edges=tuple(edge for edge in known if edge.symbols))

    states = tuple(map(declared, task.states))
    return replace(task, states=states), "it is dropped: no call could match it"


def _drop_seconds(task: Task) -> tuple[Task, str]:
    def first_only(state: DatasetState) -> DatasetState:
        seen: dict[str, str] = {}
        edges = []
        for edge in state.edges:
            kept = tuple(
                s for s in edge.symbols if seen.setdefault(s, edge.target) == edge.target
            )
            if kept:
                edges.append(replace(edge, symbols=kept))
        return replace(state, edges=tuple(edges))

    return replace(
        task, states=tuple(map(first_only, task.states))
    ), "the second edge is dropped"


def _say_order(task: Task) -> tuple[Task, str]:
    return task, "the one declared first wins"


_GENERAL: Final[dict[str, Fix]] = {
    "duplicate_state": _drop_copies,
    "wrong_edge_source": _trust_place,
    "undeclared_symbol": _drop_undeclared,
    "nondeterministic": _drop_seconds,
    "overlapping_patterns": _say_order,
}
"""Repairs by the defect's code; other defects cannot be repaired without guessing."""


# --- the repairs the authors published --------------------------------------------------------


def _loop(state: str, was: str, now: str) -> Fix:
    """The loop of `state` has other symbols. It must be as it was published."""
    before, after = tuple(was.split()), tuple(now.split())

    def mend(one: DatasetState) -> DatasetState:
        return replace(
            one,
            edges=tuple(
                replace(edge, symbols=after)
                if edge == Edge(before, state, state) and one.name == state
                else edge
                for edge in one.edges
            ),
        )

    def fix(task: Task) -> tuple[Task, str] | None:
        states = tuple(map(mend, task.states))
        if states == task.states:
            return None
        return replace(task, states=states), f"the loop of {state} is {', '.join(after)}"

    return fix


def _in_turn(*fixes: Fix) -> Fix:
    """Several repairs, each of which must apply."""

    def fix(task: Task) -> tuple[Task, str] | None:
        repaired = []
        for each in fixes:
            fixed = each(task)
            if fixed is None:
                return None
            task, done = fixed
            repaired.append(done)
        return task, "; ".join(repaired)

    return fix


def _of_another_task(task: Task) -> tuple[Task, str] | None:
    """transactions_7: the automaton is another task's, and so are two of its patterns."""
    if "D''" in task.alphabet or not {"A", "B", "B'", "C", "D", "D'", "F", "G"} <= set(
        task.alphabet
    ):
        return None
    names = [f"G{number}" for number in range(5)]
    states = []
    for number, state in enumerate(names):
        on = [Edge(("A", "B", "G", "C")[number : number + 1], state, names[number + 1])] if (
            number < 4
        ) else []  # fmt: skip
        loop = Edge(("D", "D'", "F"), state, state)
        states.append(DatasetState(state, final=number == 4, edges=(*on, loop)))
    alphabet = dict(task.alphabet)
    account = {"account_id": "D001"}
    alphabet["B"] = replace(alphabet["B"], arguments=account | {"amount": 1000})
    alphabet["B'"] = replace(
        alphabet["B'"],
        arguments={"account_id": {"not_in": ["D001"]}, "amount": {"not_in": [1000]}},
    )
    alphabet["C"] = replace(alphabet["C"], arguments=account | {"amount": 300})
    repaired = (
        "five states, A B G C in a row, the loop D, D', F on each; "
        "B: amount 1000 (B' excludes it); C: account D001, amount 300"
    )
    return replace(task, initial="G0", states=tuple(states), alphabet=alphabet), repaired


_PUBLISHED: Final[dict[str, Fix]] = {
    "crud_3": _loop("G3", "D E E' E'' B", "D E E' E'' B'"),
    "event_scheduler_4": _loop("G1", "E F'", "E F"),
    "file_management_5": _loop("G2", "C F J KK' M N", "C F J K K' M N"),
    "transactions_3": _in_turn(_loop("G5", "D' D'' F", "D D'' F"), _drop_copies),
    "transactions_7": _of_another_task,
}
"""Repairs by task. Two of the data set's repairs are the general ones."""
