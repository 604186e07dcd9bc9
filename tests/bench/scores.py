"""Costs of the scores: `python -m tests.bench.scores` prints one line per promise.

Each line gives the best of several rounds, in microseconds a call, beside the promise.
"""

from __future__ import annotations

import random
import time
import timeit
from collections.abc import Callable, Iterator

from monitor.automaton.dfa import Automaton, build
from monitor.scores.paper_formulas import condense, golden_paths, harm_mask, label, tokens
from monitor.scores.refine import pc_hlr
from monitor.scores.running_scores import Goldens, HarmTally, PathRows, efficiency
from tests.bench import bounds
from tests.bench.bounds import Bound

ROUNDS = 5


def microseconds(run: Callable[[], object], calls: int) -> float:
    """Best CPU time of one of the `calls` that `run` makes."""
    return (
        min(timeit.repeat(run, number=1, repeat=ROUNDS, timer=time.process_time)) / calls * 1e6
    )


def chain(length: int, reads: int) -> Automaton:
    """A task of `length` steps in a row with `reads` reads, half of them later steps' symbols."""
    states = [f"G{n}" for n in range(length + 1)]
    symbols = [f"s{n}" for n in range(length)] + [f"r{n}" for n in range(reads)] + ["x"]
    edges = {(states[n], f"s{n}"): states[n + 1] for n in range(length)}
    for n, state in enumerate(states):
        for read in range(reads):
            edges[state, f"r{read}"] = state
            if n + 2 + read < length:
                edges[state, f"s{n + 2 + read}"] = state
    return build(states, symbols, "G0", states[-1:], edges)


def words(count: int, length: int, seed: int) -> list[tuple[int, ...]]:
    """`count` shuffles of one golden path, the worst case for the rows."""
    rng = random.Random(seed)
    return [tuple(rng.sample(range(length), length)) for _ in range(count)]


def tally_line(method: str) -> Iterator[tuple[str, float, float]]:
    def run() -> None:
        step = getattr(HarmTally(0.5), method)
        for _ in range(100_000):
            step()

    yield f"HarmTally.{method}", microseconds(run, 100_000), 0.3


def rows_lines(count: int, length: int, limit: float) -> Iterator[tuple[str, float, float]]:
    paths = words(count, length, seed=count)
    goldens = Goldens(paths)
    rng = random.Random(7)
    calls = {
        "in order": list(paths[0]) * 100,
        "shuffled": [rng.randrange(length) for _ in range(100 * length)],
        "foreign": [-1] * (100 * length),
    }
    for name, path in calls.items():

        def run(path: list[int] = path) -> None:
            for start in range(0, len(path), length):
                add = PathRows(goldens).add
                for token in path[start : start + length]:
                    add(token)

        yield f"PathRows.add {count} x {length} {name}", microseconds(run, len(path)), limit
    rows = PathRows(goldens)
    for token in calls["shuffled"][: 2 * length]:
        rows.add(token)
    yield f"PathRows.pc {count} x {length}", repeated(rows.pc), 50.0
    yield f"PathRows.pc_ktc {count} x {length}", repeated(lambda: rows.pc_ktc(0.5, 0.5)), 50.0
    yield f"PathRows.copy {count} x {length}", repeated(rows.copy), 1.0


def repeated(call: Callable[[], object]) -> float:
    def run() -> None:
        for _ in range(10_000):
            call()

    return microseconds(run, 10_000)


def hlr_lines() -> Iterator[tuple[str, float, float]]:
    task = chain(170, reads=3)
    other = task.symbols.index("x")
    steps = list(range(150))
    rng = random.Random(11)
    spread = [*steps]
    for _ in range(50):
        spread.insert(rng.randrange(len(spread)), other)
    ahead = list(range(100, 150))
    cases = {
        "harms first": [other] * 50 + steps,
        "harms last": steps + [other] * 50,
        "harms spread": spread,
        "harms ahead of time": ahead + steps,
    }
    golden = golden_paths(task)
    for name, path in cases.items():
        kept = condense(label(task, path))
        before = [step.before for step in kept]
        mask = harm_mask(kept)
        x, end = tokens(kept), kept[-1].after
        title = f"pc_hlr {len(x)} steps, {sum(mask)} harms, {name}"

        def run(x: tuple[int, ...] = x, before: list[int] = before, end: int = end) -> None:
            pc_hlr(task, golden, x, before, mask, end)  # noqa: B023 - run before the next case

        yield title, microseconds(run, 1), 400_000.0


def main() -> None:
    lines = [
        *tally_line("progress"),
        *tally_line("self_loop"),
        *tally_line("harmful"),
        *rows_lines(1, 6, 1.0),
        *rows_lines(8, 30, 10.0),
        *rows_lines(64, 30, 100.0),
        ("efficiency", repeated(lambda: efficiency(9, (3, 5, 7), None)), 1.0),
        *hlr_lines(),
    ]
    print(bounds.lines(Bound(title, cost, limit, "us") for title, cost, limit in lines))


if __name__ == "__main__":
    main()
