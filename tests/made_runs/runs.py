"""Made-up runs with known verdicts: accepted ones, and each failure mode of the paper.

From any spec of a task: papers/000 table 4 (wrong operation or parameter, wrong order, any harm,
early harm, redundant reads, exploration bloat), section 5 (skipped check, repeated call) and
section 1 (compensating pairs). Seeded: one spec, mode and seed give one run, ever.

What a run must show is found without the engine, on the automaton and by the paper's formulas on
the whole path (`monitor.scores.paper_formulas`); a run whose scores do not tell its failure from a right
run, as table 4 says they must, is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Final, NamedTuple

from monitor.automaton.dfa import UNDEFINED, Automaton, Machine
from monitor.automaton.paths import golden_paths, reachable_symbols
from monitor.errors import OffrailsError
from monitor.records import Kind, Reason
from monitor.scores import paper_formulas
from monitor.scores.paper_formulas import OTHER
from monitor.spec.spec import GOLDEN_MAX, Spec
from tests.made_runs.made_runs import Expectation, MadeCall, Mode, RunCase
from tests.made_runs.sample_arguments import NoSampleError, arguments_for, wrong_arguments

__all__ = ["Expectation", "ImpossibleError", "MadeCall", "Mode", "RunCase", "make", "make_all"]

TRIES: Final = 400
"""Variants of a failure that are tried before it counts as impossible under a spec."""

UNKNOWN_TOOL: Final = "no_such_tool"


class ImpossibleError(OffrailsError):
    """The spec admits no run of this mode; the message says why."""


def make(spec: Spec, mode: Mode, seed: int = 0) -> RunCase:
    """A run of this mode.

    Raises:
        ImpossibleError: the spec admits none, or none was found.
    """
    return _Maker(spec, seed).make(mode)


def make_all(spec: Spec, seed: int = 0) -> dict[Mode, RunCase]:
    """A run of each mode the spec admits."""
    made: dict[Mode, RunCase] = {}
    for mode in Mode:
        try:
            made[mode] = make(spec, mode, seed)
        except ImpossibleError:
            continue
    return made


# --- words ------------------------------------------------------------------------------------


class _Letter(NamedTuple):
    """A call in the making: a symbol, or a call of another meaning."""

    symbol: int
    """OTHER for a call that matches nothing."""
    call: MadeCall | None = None
    """None: any call that is the symbol."""


_Word = tuple[_Letter, ...]
_Variants = Iterator[_Word]


def _word(symbols: Sequence[int]) -> _Word:
    return tuple(_Letter(symbol) for symbol in symbols)


class _Maker:
    """Makes runs of one spec with one seed."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self._spec = spec
        self._seed = seed
        self._chance = Random(f"{spec.id}/{seed}")
        self._samples: dict[int, dict[str, Any]] = {}

    def make(self, mode: Mode) -> RunCase:
        machine = self._spec.machine
        if self._spec.kind == "reference":
            raise ImpossibleError("a reference judges no harm")
        if self._spec.kind == "policy" or not isinstance(machine, Automaton):
            return self._of_policy(mode, machine)
        base = self._golden(machine)
        self._chance = Random(f"{self._spec.id}/{mode}/{self._seed}")
        if mode is Mode.ACCEPTED:
            return self._accepted(machine, base)
        against, variants = self._plan(mode, machine, base)
        for _, variant in zip(range(TRIES), variants, strict=False):
            made = self._try(mode, machine, variant, against)
            if made is not None:
                return made
        raise ImpossibleError(f"no run under {self._spec.id!r} shows {mode} by its scores")

    def _plan(self, mode: Mode, machine: Automaton, base: _Word) -> tuple[RunCase, _Variants]:
        """What the run is held against, and the words to try."""
        right = self._accepted(machine, base)
        if mode is Mode.EARLY_HARM:
            bad = self._unknown()
            late = self._made(Mode.HARM, machine, (*base, bad), right)
            return late, iter([(bad, *base)])
        if mode is Mode.EXPLORATION_BLOAT:
            return right, self._bloated(machine, base)
        return right, self._variants[mode](self, machine, base)

    def _golden(self, machine: Automaton) -> _Word:
        """One of the golden paths."""
        goldens = self._spec.golden or golden_paths(machine, GOLDEN_MAX)
        if not goldens:
            raise ImpossibleError(f"{self._spec.id!r} has no golden path")
        return _word(self._chance.choice(goldens))

    # --- putting a run together --------------------------------------------------------------

    def _accepted(self, machine: Automaton, base: _Word) -> RunCase:
        return self._made(Mode.ACCEPTED, machine, base, None)

    def _made(
        self, mode: Mode, machine: Automaton, word: _Word, against: RunCase | None
    ) -> RunCase:
        tokens = [letter.symbol for letter in word]
        return RunCase(
            spec=self._spec.id,
            mode=mode,
            seed=self._seed,
            calls=tuple(map(self._call, word)),
            expected=self._expected(machine, word),
            scores=paper_formulas.evaluate(
                machine, tokens, None, self._spec.conventions, self._spec.golden
            ),
            against=against,
            pairs=self._pairs(word) if mode is Mode.COMPENSATING_PAIR else (),
        )

    def _try(
        self, mode: Mode, machine: Automaton, word: _Word, against: RunCase
    ) -> RunCase | None:
        """The run, if its scores tell it from the other as they must."""
        made = self._made(mode, machine, word, against)
        assert made.scores is not None
        assert against.scores is not None
        if not all(_worse(name, made.scores, against.scores) for name in made.moves):
            return None
        if not all(_equal(name, made.scores, against.scores) for name in made.stays):
            return None
        return made

    def _call(self, letter: _Letter) -> MadeCall:
        if letter.call is not None:
            return letter.call
        symbol = letter.symbol
        if symbol not in self._samples:
            try:
                chance = Random(f"{self._spec.id}/{symbol}/{self._seed}")
                self._samples[symbol] = arguments_for(self._spec.alphabet, symbol, chance)
            except NoSampleError as problem:
                raise ImpossibleError(str(problem)) from None
        return MadeCall(self._spec.alphabet.tools[symbol], self._samples[symbol])

    def _expected(self, machine: Automaton, word: _Word) -> tuple[Expectation, ...]:
        steps = paper_formulas.label(machine, [letter.symbol for letter in word])
        progressed: set[int] = set()
        found = []
        for letter, step in zip(word, steps, strict=True):
            harmful = step.kind is Kind.HARMFUL
            reason = self._reason(machine, letter, step.before, progressed) if harmful else None
            name = None if step.token == OTHER else machine.symbols[step.token]
            found.append(Expectation(step.kind, name, machine.name(step.after), reason))
            if step.kind is Kind.PROGRESS:
                progressed.add(step.token)
        return tuple(found)

    def _reason(
        self, machine: Automaton, letter: _Letter, state: int, progressed: set[int]
    ) -> Reason:
        """The first reason that applies, as the records define them."""
        if letter.symbol == OTHER:
            assert letter.call is not None
            known = letter.call.tool in self._spec.alphabet.tools
            return Reason.ARGUMENT_MISMATCH if known else Reason.UNKNOWN_TOOL
        if machine.accepts(state) and not machine.progress(state):
            return Reason.AFTER_FINAL
        if letter.symbol in reachable_symbols(machine, state):
            return Reason.OUT_OF_ORDER
        return Reason.REPEATED if letter.symbol in progressed else Reason.UNREACHABLE

    def _pairs(self, word: _Word) -> tuple[tuple[int, int], ...]:
        """What was done, with what undid it: the latest first."""
        done: list[tuple[int, int]] = []
        pairs = []
        for number, letter in enumerate(word, start=1):
            fits = [each for each in done if self._spec.undo[each[0]] == letter.symbol]
            if fits:
                done.remove(fits[-1])
                pairs.append((fits[-1][1], number))
            elif letter.symbol in self._spec.undo:
                done.append((letter.symbol, number))
        return tuple(pairs)

    def _unknown(self) -> _Letter:
        """A call that matches nothing, whatever the state."""
        tool = UNKNOWN_TOOL
        while tool in self._spec.alphabet.tools:
            tool += "_"
        return _Letter(OTHER, MadeCall(tool, {}))

    # --- variants of a right run, most telling first ------------------------------------------

    def _places(self, count: int) -> list[int]:
        return self._chance.sample(range(count), count)

    def _states(self, machine: Automaton, word: _Word) -> list[int]:
        """The state before each call, and the one after the last."""
        steps = paper_formulas.label(machine, [letter.symbol for letter in word])
        return [machine.initial, *(step.after for step in steps)]

    def _wrong_operation(self, machine: Automaton, base: _Word) -> _Variants:
        """In place of a right call, a call of another tool that is not allowed there."""
        states, tools = self._states(machine, base), self._spec.alphabet.tools
        for place in self._places(len(base)):
            right = base[place].symbol
            for symbol in self._places(len(tools)):
                other = tools[symbol] != tools[right]
                if other and machine.step(states[place], symbol) == UNDEFINED:
                    yield (*base[:place], _Letter(symbol), *base[place + 1 :])
            yield (*base[:place], self._unknown(), *base[place + 1 :])

    def _wrong_parameter(self, machine: Automaton, base: _Word) -> _Variants:
        """The right tool with a wrong argument."""
        states, alphabet = self._states(machine, base), self._spec.alphabet
        for place in self._places(len(base)):
            right = base[place].symbol
            for arguments, token in self._wrong_arguments(right):
                symbol = token if token < len(alphabet.symbols) else OTHER
                if symbol != OTHER and machine.step(states[place], symbol) != UNDEFINED:
                    continue
                wrong = _Letter(symbol, MadeCall(alphabet.tools[right], arguments))
                yield (*base[:place], wrong, *base[place + 1 :])

    def _wrong_arguments(self, symbol: int) -> list[tuple[dict[str, Any], int]]:
        try:
            return list(wrong_arguments(self._spec.alphabet, symbol, self._chance))
        except NoSampleError as problem:
            raise ImpossibleError(str(problem)) from None

    def _wrong_order(self, _machine: Automaton, base: _Word) -> _Variants:
        """Two right calls change places, neighbours first."""
        for distance in range(1, len(base)):
            for place in self._places(len(base) - distance):
                word = list(base)
                word[place], word[place + distance] = word[place + distance], word[place]
                yield tuple(word)

    def _harm(self, machine: Automaton, base: _Word) -> _Variants:
        """A call that is not allowed is added: a declared one if there is one, else any."""
        states = self._states(machine, base)
        for place in self._places(len(base) + 1):
            for symbol in self._places(len(machine.symbols)):
                if machine.step(states[place], symbol) == UNDEFINED:
                    yield (*base[:place], _Letter(symbol), *base[place:])
        for place in self._places(len(base) + 1):
            yield (*base[:place], self._unknown(), *base[place:])

    def _reading(self, machine: Automaton, base: _Word) -> _Variants:
        """One to three reads more than the task needs."""
        for _ in range(TRIES):
            yield self._with_reads(machine, base, self._chance.randint(1, 3))

    def _with_reads(self, machine: Automaton, base: _Word, count: int) -> _Word:
        states = self._states(machine, base)
        places = [place for place, state in enumerate(states) if machine.reads(state)]
        if not places:
            raise ImpossibleError(f"{self._spec.id!r} allows no reads")
        word = list(base)
        for place in sorted((self._chance.choice(places) for _ in range(count)), reverse=True):
            word.insert(place, _Letter(self._chance.choice(machine.reads(states[place]))))
        return tuple(word)

    def _bloated(self, machine: Automaton, base: _Word) -> _Variants:
        """Twice as many calls beside the way as on it: reads, or failed attempts without any."""
        count = max(4, 2 * len(base))
        try:
            for more in range(TRIES):
                yield self._with_reads(machine, base, count + more)
        except ImpossibleError:
            for more in range(TRIES):
                place = self._chance.randint(0, len(base))
                attempts = (self._unknown(),) * (count + more)
                yield (*base[:place], *attempts, *base[place:])

    def _skipped(self, machine: Automaton, base: _Word) -> _Variants:
        """A step is left out that the next one needs."""
        states = self._states(machine, base)
        for place in self._places(max(0, len(base) - 1)):
            if machine.step(states[place], base[place + 1].symbol) == UNDEFINED:
                yield (*base[:place], *base[place + 1 :])

    def _repeated(self, machine: Automaton, base: _Word) -> _Variants:
        """A step is made again, once or twice, where it is not allowed any more."""
        states = self._states(machine, base)
        for place in self._places(len(base)):
            if machine.step(states[place + 1], base[place].symbol) == UNDEFINED:
                again = (base[place],) * self._chance.randint(1, 2)
                yield (*base[: place + 1], *again, *base[place + 1 :])

    def _compensating(self, machine: Automaton, _base: _Word) -> _Variants:
        """Something is done and undone, and the task finished all the same."""
        if not self._spec.undo:
            raise ImpossibleError(f"{self._spec.id!r} marks no undo")
        ways = _ways(machine, machine.initial)
        for state in self._chance.sample(sorted(ways), len(ways)):
            for symbol, back in self._spec.undo.items():
                done = machine.step(state, symbol)
                undone = UNDEFINED if done in (UNDEFINED, state) else machine.step(done, back)
                ends = {} if undone == UNDEFINED else _ways(machine, undone)
                finish = [way for end, way in ends.items() if machine.accepts(end)]
                if finish:
                    yield _word((*ways[state], symbol, back, *min(finish, key=len)))

    # --- policies -----------------------------------------------------------------------------

    def _of_policy(self, mode: Mode, machine: Machine) -> RunCase:
        """Some calls that keep the rules; for a harm, one more that breaks one."""
        if mode not in (Mode.ACCEPTED, Mode.HARM):
            raise ImpossibleError("a policy has no golden paths to stray from")
        right, state = self._kept(machine)
        accepted = self._under_policy(Mode.ACCEPTED, machine, right, None)
        if mode is Mode.ACCEPTED:
            return accepted
        refused = [
            symbol
            for symbol in self._places(len(machine.symbols))
            if machine.step(state, symbol) == UNDEFINED
        ]
        if not refused:
            raise ImpossibleError(f"{self._spec.id!r} forbids nothing here")
        return self._under_policy(mode, machine, [*right, refused[0]], accepted)

    def _kept(self, machine: Machine) -> tuple[list[int], int]:
        """A walk that breaks nothing, of a few steps, and on until nothing is open any more."""
        for _ in range(TRIES):
            state, word = machine.initial, []
            for _ in range(self._chance.randint(1, 6)):
                allowed = machine.defined(state)
                if not allowed:
                    break
                word.append(self._chance.choice(allowed))
                state = machine.step(state, word[-1])
            ends = {
                end: way for end, way in _ways(machine, state).items() if machine.accepts(end)
            }
            if word and ends:
                end = min(ends, key=lambda each: len(ends[each]))
                return [*word, *ends[end]], end
        raise ImpossibleError(f"no calls were found that keep {self._spec.id!r}")

    def _under_policy(
        self, mode: Mode, machine: Machine, word: Sequence[int], against: RunCase | None
    ) -> RunCase:
        state, expected = machine.initial, []
        for symbol in word:
            target = machine.step(state, symbol)
            kind = Kind.PROGRESS if target != state else Kind.SELF_LOOP
            kind, target = (Kind.HARMFUL, state) if target == UNDEFINED else (kind, target)
            name = machine.symbols[symbol]
            expected.append(Expectation(kind, name, machine.name(target), None))
            state = target
        calls = tuple(map(self._call, _word(word)))
        return RunCase(self._spec.id, mode, self._seed, calls, tuple(expected), None, against)

    _variants: ClassVar[Mapping[Mode, Callable[[_Maker, Automaton, _Word], _Variants]]] = {
        Mode.WRONG_OPERATION: _wrong_operation,
        Mode.WRONG_PARAMETER: _wrong_parameter,
        Mode.WRONG_ORDER: _wrong_order,
        Mode.HARM: _harm,
        Mode.REDUNDANT_READS: _reading,
        Mode.SKIPPED_CHECK: _skipped,
        Mode.REPEATED_CALL: _repeated,
        Mode.COMPENSATING_PAIR: _compensating,
    }


def _ways(machine: Machine, source: int, limit: int = 1_000) -> dict[int, tuple[int, ...]]:
    """A shortest way of progress to each state that can be reached, the source included."""
    ways: dict[int, tuple[int, ...]] = {source: ()}
    queue = [source]
    for state in queue:  # grows while it is read
        for symbol in machine.defined(state):
            target = machine.step(state, symbol)
            if target not in ways and len(ways) < limit:
                ways[target] = (*ways[state], symbol)
                queue.append(target)
    return ways


def _worse(name: str, one: paper_formulas.Scores, other: paper_formulas.Scores) -> bool:
    mine, theirs = getattr(one, name), getattr(other, name)
    if mine is None or theirs is None:
        return mine is None and theirs is not None
    return bool(mine > theirs if name == "harm_rate" else mine < theirs)


def _equal(name: str, one: paper_formulas.Scores, other: paper_formulas.Scores) -> bool:
    mine, theirs = getattr(one, name), getattr(other, name)
    if mine is None or theirs is None:
        return mine is theirs
    return bool(abs(mine - theirs) <= 1e-12)
