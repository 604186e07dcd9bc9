"""Declare constraints as small automata, stepped side by side.

Idea: each template is a table over at most three letters: its first symbol (`a`), its second (`b`),
and any other declared symbol. A policy is all its constraints at once. Its state is one integer in
mixed radix, with one digit for each constraint, so a step adds a number for each constraint that
looks at the call (`SideBySide`). The product automaton is never built.

Invariants:

- No table has an edge into a state from which it can no longer be satisfied. Such a call is
  undefined, so it is harmful, and it changes nothing: the constraint can still be kept.
- A call is defined only if every constraint that looks at it allows it. If one refuses, no digit
  moves.
- Constraints that no call connects do not influence each other, so they are searched and read apart
  (`groups`, `areas`).

Example: `precedence: [scan, water]` has the states 0 "before scan" and 1 "after scan"; `at_most:
[water, 1]` has the states 0 and 1, with weight 2. From state 0 `water` is undefined. `scan` adds 1
(state 1), then `water` adds 2 (state 3), and a second `water` is undefined: the second digit is 1
and allows no more.

Source: Declare (Pesic and van der Aalst 2006); finite traces as in De Giacomo and Vardi 2013.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from monitor.automaton.dfa import UNDEFINED, Area, Automaton, Digit
from monitor.automaton.paths import reachable, reachable_symbols, shortest_way
from monitor.errors import OffrailsError
from monitor.records import Reason
from monitor.spec.suggestions import closest

__all__ = [
    "AREA_STATES_MAX",
    "CONSTRAINTS_MAX",
    "COUNT_MAX",
    "STATES_MAX",
    "TEMPLATES",
    "Constraint",
    "ConstraintError",
    "SideBySide",
    "parse",
    "side_by_side",
]

COUNT_MAX: Final = 9_999
"""Largest n of a counting template: its automaton has a state for each count."""

STATES_MAX: Final = 50_000
"""States of all constraints of a spec, summed."""

CONSTRAINTS_MAX: Final = 256

EVERYWHERE_MAX: Final = 64
"""Joint states listed, as for a picture."""

AREA_STATES_MAX: Final = 4_096
"""Joint states of constraints that hang together. Above, they are read in parts."""

AREA_WORK_MAX: Final = 200_000
"""Constraints that may be looked at to list them: a tenth of a second."""

CUT_STATES_MAX: Final = 256
"""Joint states of one part of them."""


class ConstraintError(OffrailsError):
    """A constraint cannot be used. `code` is the finding's code."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


# --- the templates ----------------------------------------------------------------------------


class _State(NamedTuple):
    """A row: targets by letter, where "." stays and "-" is undefined. The first row is initial.

    In names, {a} and {b} stand for the symbols.
    """

    name: str
    accepting: bool
    on_a: str
    on_b: str
    on_other: str


_PAIRS: Final[dict[str, tuple[_State, ...]]] = {
    # each b has an a somewhere before it
    "precedence": (
        _State("before {a}", True, "after {a}", "-", "."),
        _State("after {a}", True, ".", ".", "."),
    ),
    # each b has an a before it, with no other b between
    "alternate_precedence": (
        _State("closed", True, "open", "-", "."),
        _State("open", True, ".", "closed", "."),
    ),
    # each b comes right after an a
    "chain_precedence": (
        _State("closed", True, "open", "-", "."),
        _State("open", True, ".", "closed", "closed"),
    ),
    # each a has a b somewhere after it
    "response": (
        _State("settled", True, "owed", ".", "."),
        _State("owed", False, ".", "settled", "."),
    ),
    # each a has a b after it, with no other a between
    "alternate_response": (
        _State("settled", True, "owed", ".", "."),
        _State("owed", False, "-", "settled", "."),
    ),
    # each a has a b right after it
    "chain_response": (
        _State("settled", True, "owed", ".", "."),
        _State("owed", False, "-", "settled", "-"),
    ),
    # precedence and response
    "succession": (
        _State("before {a}", True, "owed", "-", "."),
        _State("owed", False, ".", "settled", "."),
        _State("settled", True, "owed", ".", "."),
    ),
    "alternate_succession": (
        _State("settled", True, "owed", "-", "."),
        _State("owed", False, "-", "settled", "."),
    ),
    "chain_succession": (
        _State("settled", True, "owed", "-", "."),
        _State("owed", False, "-", "settled", "-"),
    ),
    # no b anywhere after an a
    "not_succession": (
        _State("before {a}", True, "after {a}", ".", "."),
        _State("after {a}", True, ".", "-", "."),
    ),
    # no b right after an a
    "not_chain_succession": (
        _State("elsewhere", True, "right after {a}", ".", "."),
        _State("right after {a}", True, ".", "-", "elsewhere"),
    ),
    # a and b never both
    "not_co_existence": (
        _State("neither", True, "{a} seen", "{b} seen", "."),
        _State("{a} seen", True, ".", "-", "."),
        _State("{b} seen", True, "-", ".", "."),
    ),
    # if one of them, then both
    "co_existence": (
        _State("neither", True, "{b} owed", "{a} owed", "."),
        _State("{b} owed", False, ".", "both", "."),
        _State("{a} owed", False, "both", ".", "."),
        _State("both", True, ".", ".", "."),
    ),
    # if a, then b too, before or after
    "responded_existence": (
        _State("neither", True, "{b} owed", "{b} seen", "."),
        _State("{b} owed", False, ".", "{b} seen", "."),
        _State("{b} seen", True, ".", ".", "."),
    ),
    # at least one of them
    "choice": (
        _State("open", False, "made", "made", "."),
        _State("made", True, ".", ".", "."),
    ),
    # one of them, not both
    "exclusive_choice": (
        _State("open", False, "{a} chosen", "{b} chosen", "."),
        _State("{a} chosen", True, ".", "-", "."),
        _State("{b} chosen", True, "-", ".", "."),
    ),
}
"""Templates over two symbols."""

_SINGLES: Final[dict[str, tuple[_State, ...]]] = {
    # the first declared call is a
    "init": (
        _State("start", False, "begun", "-", "-"),
        _State("begun", True, ".", ".", "."),
    ),
    # the last declared call is a
    "last": (
        _State("elsewhere", False, "at {a}", ".", "."),
        _State("at {a}", True, ".", "elsewhere", "elsewhere"),
    ),
}
"""Templates over one symbol; they have no letter b."""

_COUNTS: Final[dict[str, tuple[bool, int]]] = {
    "existence": (False, 1),
    "exactly": (True, 1),
    "at_most": (True, -1),
    "absence": (True, 1),
}
"""Templates over a symbol and a number: (has an upper bound, default number or -1)."""

_ALIASES: Final = {
    "atmost": "at_most",
    "not_coexistence": "not_co_existence",
    "coexistence": "co_existence",
}

TEMPLATES: Final = ("forbid", *_COUNTS, *_SINGLES, *_PAIRS)


def _table(rows: Sequence[_State], shown: Sequence[str]) -> Automaton:
    """The automaton of a template; `shown` are its places as the document has them.

    Its letters are the places, and "(other)" only where other symbols matter.
    """
    number = {row.name: index for index, row in enumerate(rows)}
    columns, letters = list(range(len(shown))), list(shown)
    if any(row.on_other != "." for row in rows):
        columns.append(2)
        letters.append("(other)")
    table = [
        index if target == "." else number.get(target, UNDEFINED)
        for index, row in enumerate(rows)
        for target in ((row.on_a, row.on_b, row.on_other)[column] for column in columns)
    ]
    names = [row.name.format(a=shown[0], b=shown[-1]) for row in rows]
    accepting = frozenset(index for index, row in enumerate(rows) if row.accepting)
    return Automaton(tuple(names), tuple(letters), 0, accepting, tuple(table))


def _counting(template: str, n: int) -> tuple[_State, ...]:
    """Rows that count a's: `existence` from n on, `exactly` n, `at_most` n, `absence` below n."""
    last = n - 1 if template == "absence" else n
    after = "-" if _COUNTS[template][0] else "."
    enough = 0 if template in {"at_most", "absence"} else n
    return tuple(
        _State(str(k), k >= enough, str(k + 1) if k < last else after, ".", ".")
        for k in range(last + 1)
    )


# --- one constraint ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint: its template's automaton, and which symbols are which of its letters."""

    template: str
    text: str
    """Text of the document, for verdicts."""
    automaton: Automaton
    """Letter i is a symbol of place i; the letter after the places is any other symbol."""
    places: tuple[frozenset[int], ...]

    @property
    def heeds_others(self) -> bool:
        """True if a call of any other declared symbol matters (init, last, chain)."""
        return len(self.automaton.symbols) > len(self.places)

    def heeded(self, symbols: int) -> Iterable[int]:
        """Those of the first `symbols` symbols whose calls matter here."""
        return range(symbols) if self.heeds_others else sorted(frozenset().union(*self.places))

    def letter(self, symbol: int) -> int:
        """The letter a declared symbol is here; UNDEFINED where the constraint ignores it."""
        for letter, place in enumerate(self.places):
            if symbol in place:
                return letter
        return len(self.places) if self.heeds_others else UNDEFINED

    def forbids(self, symbol: int) -> bool:
        """True if no session may ever make this call."""
        letter = self.letter(symbol)
        if letter == UNDEFINED:
            return False
        return letter not in reachable_symbols(self.automaton, self.automaton.initial)

    def reason(self, state: int, symbol: int) -> Reason:
        """Why `symbol`, undefined in this constraint's `state`, is harmful."""
        if self.forbids(symbol):
            return Reason.FORBIDDEN
        if self.letter(symbol) in reachable_symbols(self.automaton, state):
            return Reason.OUT_OF_ORDER
        return Reason.REPEATED if self.template in _COUNTS else Reason.UNREACHABLE

    def skipped(self, state: int, symbol: int, symbols: int) -> tuple[int, ...] | None:
        """Shortest way inside this constraint to where `symbol` (of `symbols`) is defined."""
        way = shortest_way(self.automaton, (state,), self.letter(symbol))
        if way is None:
            return None
        first = {self.letter(index): index for index in reversed(range(symbols))}
        return tuple(first[letter] for letter in way) if set(way) <= first.keys() else None


def parse(raw: Any, symbols: Sequence[str]) -> tuple[Constraint, ...]:
    """The constraints of one list entry `{template: operand}`; `forbid: [a, b]` gives two.

    Raises:
        ConstraintError: `invalid_constraint`, `undeclared_symbol` or `unsatisfiable`.
    """
    if not isinstance(raw, dict) or len(raw) != 1:
        raise ConstraintError("invalid_constraint", "write one {template: symbols} per entry")
    [(name, operand)] = raw.items()
    template = name.lower().replace("-", "_").replace(" ", "_")
    template = _ALIASES.get(template, template)
    parser = _Parser(template, {symbol: index for index, symbol in enumerate(symbols)})
    if template == "forbid":
        return tuple(parser.forbid(operand))
    if template in _COUNTS:
        return tuple(parser.counting(operand))
    if template in _SINGLES:
        return (parser.single(operand),)
    if template in _PAIRS:
        return (parser.pair(operand),)
    close = closest(template, TEMPLATES)
    hint = f"did you mean {close!r}?" if close else f"there are {', '.join(TEMPLATES)}"
    raise ConstraintError("invalid_constraint", f"no template is called {name!r}; {hint}")


@dataclass(frozen=True, slots=True)
class _Parser:
    """Reads the operand of one template. A place takes a symbol, or a list of them: any of it."""

    template: str
    index: Mapping[str, int]

    def forbid(self, operand: Any) -> Iterator[Constraint]:
        for name in operand if isinstance(operand, list) else [operand]:
            if isinstance(name, list):
                raise self._wrong("takes a symbol or a list of symbols")
            yield self._make(_counting("at_most", 0), name)

    def counting(self, operand: Any) -> Iterator[Constraint]:
        for place, number in self._numbered(operand):
            n = self._number(number)
            yield self._make(_counting(self.template, n), place, number=n)

    def _numbered(self, operand: Any) -> list[tuple[Any, Any]]:
        if isinstance(operand, dict) and operand:
            return list(operand.items())
        if isinstance(operand, list) and len(operand) == 2 and not isinstance(operand[1], str):
            return [(operand[0], operand[1])]
        if isinstance(operand, str) and _COUNTS[self.template][1] >= 0:
            return [(operand, _COUNTS[self.template][1])]
        raise self._wrong("takes [symbol, number] or {symbol: number}")

    def _number(self, number: Any) -> int:
        if isinstance(number, bool) or not isinstance(number, int):
            raise self._wrong("takes a whole number after the symbol")
        least = 0 if self.template in {"at_most", "exactly"} else 1
        if number < least and _COUNTS[self.template][0]:
            message = f"no session can satisfy {self.template} {number}"
            raise ConstraintError("unsatisfiable", message)
        if not least <= number <= COUNT_MAX:
            raise self._wrong(f"counts from {least} to {COUNT_MAX:,}")
        return number

    def single(self, operand: Any) -> Constraint:
        if isinstance(operand, list) and len(operand) == 1:
            operand = operand[0]
        return self._make(_SINGLES[self.template], operand)

    def pair(self, operand: Any) -> Constraint:
        if not isinstance(operand, list) or len(operand) != 2:
            raise self._wrong("takes two symbols: [first, second]")
        return self._make(_PAIRS[self.template], *operand)

    def _make(
        self, rows: Sequence[_State], *operands: Any, number: int | None = None
    ) -> Constraint:
        places = tuple(self._symbols(operand) for operand in operands)
        if places[1:] and places[0] & places[1]:
            raise self._wrong("needs different symbols in its two places")
        shown = [_shown(operand) for operand in operands]
        given = ", ".join(shown if number is None else [*shown, str(number)])
        text = (
            f"{self.template}: {given}" if given == shown[0] else f"{self.template}: [{given}]"
        )
        return Constraint(self.template, text, _table(rows, shown), places)

    def _symbols(self, place: Any) -> frozenset[int]:
        names = place if isinstance(place, list) else [place]
        if not names or not all(isinstance(name, str) for name in names):
            raise self._wrong("takes a symbol, or a list of symbols for any of them")
        for name in names:
            if name not in self.index:
                message = f"{name!r} is not in the alphabet"
                raise ConstraintError("undeclared_symbol", message)
        return frozenset(self.index[name] for name in names)

    def _wrong(self, message: str) -> ConstraintError:
        return ConstraintError("invalid_constraint", f"{self.template} {message}")


def _shown(place: Any) -> str:
    return f"[{', '.join(place)}]" if isinstance(place, list) else str(place)


# --- side by side -----------------------------------------------------------------------------


class _Part(NamedTuple):
    """How one symbol moves one constraint's digit of the joint state."""

    constraint: int
    weight: int
    radix: int
    moves: tuple[int | None, ...]
    """What to add to the joint state, by digit; None if the constraint refuses."""


@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """Constraints as one machine. Its state is one int in mixed radix: digit i is constraint i's.

    A step looks only at the constraints that mention the symbol; it is undefined where any of
    them refuses. Made by `side_by_side`.
    """

    symbols: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    initial: int
    _weights: tuple[int, ...]
    _parts: tuple[tuple[_Part, ...], ...]
    """Parts by symbol."""

    @property
    def width(self) -> int:
        """What trying every symbol in one state costs, in constraints looked at."""
        return len(self.symbols) + sum(map(len, self._parts))

    @property
    def texts(self) -> tuple[str, ...]:
        """The constraints as the document says them."""
        return tuple(constraint.text for constraint in self.constraints)

    def step(self, state: int, symbol: int) -> int:
        target = state
        for _, weight, radix, moves in self._parts[symbol]:
            move = moves[state // weight % radix]
            if move is None:
                return UNDEFINED
            target += move
        return target

    def accepting(self, places: Iterable[tuple[int, int, int]]) -> SideBySide:
        """The same machine, in which some calls leave a constraint that refuses them as it is.

        Args:
            places: constraint, its own state, and symbol.
        """
        parts = [list(each) for each in self._parts]
        for constraint, digit, symbol in places:
            for number, part in enumerate(parts[symbol]):
                if part.constraint == constraint and part.moves[digit] is None:
                    moves = (*part.moves[:digit], 0, *part.moves[digit + 1 :])
                    parts[symbol][number] = part._replace(moves=moves)
        return replace(self, _parts=tuple(map(tuple, parts)))

    def accepts(self, state: int) -> bool:
        """True if every constraint would be satisfied if the session ended here."""
        digits = zip(self.constraints, self.digits(state), strict=True)
        return all(constraint.automaton.accepts(digit) for constraint, digit in digits)

    def defined(self, state: int) -> tuple[int, ...]:
        letters = range(len(self.symbols))
        return tuple(symbol for symbol in letters if self.step(state, symbol) != UNDEFINED)

    def progress(self, state: int) -> tuple[tuple[int, int], ...]:
        edges = [(symbol, self.step(state, symbol)) for symbol in range(len(self.symbols))]
        return tuple([edge for edge in edges if edge[1] not in (UNDEFINED, state)])

    def name(self, state: int) -> str:
        """The constraints that have left their first state, each with the state it is in."""
        moved = [
            f"{constraint.text}: {constraint.automaton.name(digit)}"
            for constraint, digit in zip(self.constraints, self.digits(state), strict=True)
            if digit != constraint.automaton.initial
        ]
        return "; ".join(moved) or "start"

    def everywhere(self) -> tuple[int, ...]:
        states = reachable(self, (self.initial,), EVERYWHERE_MAX)
        return () if states is None else tuple(sorted(states))

    def heeds(self, symbol: int) -> int:
        return sum(1 << part.constraint for part in self._parts[symbol])

    def likeness(self, symbol: int) -> tuple[int, ...]:
        # Symbols of one letter share its part, and those that share all parts their row.
        return (id(self._parts[symbol]),)

    def refusing(self, state: int, symbols: Collection[int], calls: int) -> int:
        """Bit mask of the constraints that may refuse one of some calls, in whatever order.

        Args:
            state: before them.
            symbols: that they may be.
            calls: how many there are.
        """
        found = 0
        digits = zip(self.constraints, self.digits(state), strict=True)
        for index, (constraint, digit) in enumerate(digits):
            letters = {constraint.letter(symbol) for symbol in symbols} - {UNDEFINED}
            seen, todo = {digit}, [digit]
            for _ in range(calls):
                targets = {constraint.automaton.step(s, a) for s in todo for a in letters}
                if UNDEFINED in targets:
                    found |= 1 << index
                    break
                todo = sorted(targets - seen)
                seen |= targets
                if not todo:
                    break
        return found

    def moved(self, state: int, constraint: int, digit: int) -> int:
        """The state in which one constraint has another state of its own."""
        weight = self._weights[constraint]
        radix = len(self.constraints[constraint].automaton.states)
        return state + (digit - state // weight % radix) * weight

    def alone(self, constraint: int) -> SideBySide:
        """One of the constraints as a machine of its own, over the same symbols."""
        return self.among((constraint,))

    def among(self, kept: Sequence[int]) -> SideBySide:
        """Some of the constraints as a machine of its own, over the same symbols."""
        only = tuple(self.constraints[constraint] for constraint in kept)
        weights, initial = _numbered(only)
        places = [*zip(kept, range(len(kept)), weights, strict=True)]
        made: dict[int, _Part] = {}
        known: _Rows = {}
        rows: dict[int, tuple[_Part, ...]] = {}
        for row in self._parts:
            if id(row) not in rows:
                rows[id(row)] = _shared(known, self._row(row, places, made))
        parts = tuple(rows[id(row)] for row in self._parts)
        return SideBySide(self.symbols, only, initial, weights, parts)

    def _row(
        self,
        row: tuple[_Part, ...],
        places: Sequence[tuple[int, int, int]],
        made: dict[int, _Part],
    ) -> tuple[_Part, ...]:
        """A symbol's parts in a machine of some constraints.

        Args:
            row: its parts here, ascending by constraint.
            places: of each kept constraint its number here, its number and its weight there.
            made: takes the parts there, by the ids of those here.
        """
        found: list[_Part] = []
        for constraint, index, weight in places:
            at = bisect_left(row, constraint, key=_constraint_of)
            if at == len(row) or row[at].constraint != constraint:
                continue
            part = row[at]
            if id(part) not in made:
                old = self._weights[constraint]
                moves = tuple(
                    None if move is None else move // old * weight for move in part.moves
                )
                made[id(part)] = _Part(index, weight, part.radix, moves)
            found.append(made[id(part)])
        return tuple(found)

    def reduced(self) -> SideBySide:
        """The same states with one symbol of each likeness: to search them."""
        kinds = {self.likeness(symbol): symbol for symbol in reversed(range(len(self.symbols)))}
        kept = sorted(kinds.values())
        return replace(
            self,
            symbols=tuple(self.symbols[symbol] for symbol in kept),
            _parts=tuple(self._parts[symbol] for symbol in kept),
        )

    def areas(self, together: Iterable[Collection[int]]) -> tuple[Area, ...]:
        """See `Machine.areas`: constraints that no call connects are in areas of their own.

        What hangs together is one area while its states can be listed. Else it is cut into areas
        of few constraints each, which know of each other only that a call may be refused.
        """
        found: list[Area] = []
        for group, members in enumerate(self.groups(together)):
            whole = self.area(members, group, AREA_STATES_MAX, AREA_WORK_MAX)
            found += [whole] if whole is not None else self._cut(members, group)
        return tuple(found)

    def groups(self, together: Iterable[Collection[int]]) -> list[list[int]]:
        """The constraints, those together that one call may concern (see `Machine.areas`)."""
        masks = [1 << index for index in range(len(self.constraints))]
        for symbols in together:
            heeding = 0
            for symbol in symbols:
                heeding |= self.heeds(symbol)
            touched = [mask for mask in masks if mask & heeding]
            if len(touched) > 1:
                masks = [mask for mask in masks if not mask & heeding]
                masks.append(sum(touched))
        masks.sort(key=lambda mask: mask & -mask)
        return [[i for i in range(len(self.constraints)) if mask >> i & 1] for mask in masks]

    def area(self, members: Sequence[int], group: int, limit: int, work: int) -> Area | None:
        """Some constraints as one area; None if its states are too many to list.

        Args:
            members: the constraints, ascending.
            group: the area's.
            limit: of the states.
            work: so many constraints may be looked at to list them.
        """
        machine = self.among(members)
        small = machine.reduced()
        states = reachable(small, (small.initial,), max(1, min(limit, work // small.width)))
        if states is None:
            return None
        digits: list[Digit] = []
        own = 1
        for index in members:
            radix = len(self.constraints[index].automaton.states)
            digits.append(Digit(self._weights[index], radix, own))
            own *= radix
        return Area(machine, tuple(sorted(states)), tuple(digits), group)

    def _cut(self, members: Sequence[int], group: int) -> list[Area]:
        """Areas of a few neighbouring constraints each, where all together have too many states."""
        found: list[Area] = []
        left = list(members)
        while left:
            block = self.block(left[0], left, CUT_STATES_MAX)
            left = [index for index in left if index not in block]
            area = self.area(block, group, CUT_STATES_MAX, AREA_WORK_MAX)
            found += [area] if area is not None else [self._lone(each, group) for each in block]
        return found

    def _lone(self, constraint: int, group: int) -> Area:
        automaton = self.constraints[constraint].automaton
        digit = Digit(self._weights[constraint], len(automaton.states), 1)
        return Area(self.alone(constraint), automaton.everywhere(), (digit,), group)

    def block(self, seed: int, members: Iterable[int], limit: int) -> list[int]:
        """A constraint and its nearest neighbours, with at most `limit` joint states.

        Near are those that name one symbol, then those that name symbols of these, and so on.
        """
        block, size = [seed], len(self.constraints[seed].automaton.states)
        named = self._named(seed)
        left = [index for index in members if index != seed]
        while left:
            near = [index for index in left if self._named(index) & named]
            fitting = [
                index
                for index in near
                if size * len(self.constraints[index].automaton.states) <= limit
            ]
            if not fitting:
                break
            taken = fitting[0]
            block.append(taken)
            size *= len(self.constraints[taken].automaton.states)
            named = named | self._named(taken)
            left.remove(taken)
        return sorted(block)

    def may_be_open(self, constraint: int) -> bool:
        """True if a session may end without having kept a constraint."""
        automaton = self.constraints[constraint].automaton
        return len(automaton.accepting) < len(automaton.states)

    def _named(self, constraint: int) -> frozenset[int]:
        return frozenset[int]().union(*self.constraints[constraint].places)

    def digits(self, state: int) -> tuple[int, ...]:
        """Each constraint's own state."""
        return tuple(
            state // weight % len(constraint.automaton.states)
            for constraint, weight in zip(self.constraints, self._weights, strict=True)
        )

    def unsatisfied(self, state: int) -> tuple[str, ...]:
        """Texts of the constraints that are broken if the session ends here."""
        return tuple(
            constraint.text
            for constraint, digit in zip(self.constraints, self.digits(state), strict=True)
            if not constraint.automaton.accepts(digit)
        )

    def mentions(self, symbol: int) -> bool:
        """False if no constraint looks at the symbol."""
        return bool(self._parts[symbol])

    def blame(self, state: int, symbol: int) -> int:
        """Index of the constraint to name for refusing `symbol` in `state`; -1 where none does.

        The first that refuses, but one that never allows the symbol comes before all others.
        """
        refusing = [
            constraint
            for constraint, weight, radix, moves in self._parts[symbol]
            if moves[state // weight % radix] is None
        ]
        forbidding = (index for index in refusing if self.constraints[index].forbids(symbol))
        return next(forbidding, refusing[0] if refusing else -1)

    def reason(self, state: int, symbol: int) -> Reason:
        """Why `symbol` is harmful in `state`, by the constraint to `blame`.

        Raises:
            ValueError: no constraint refuses it.
        """
        index = self.blame(state, symbol)
        if index < 0:
            raise ValueError(f"no constraint refuses {self.symbols[symbol]!r} here")
        return self.constraints[index].reason(self.digits(state)[index], symbol)

    def skipped(self, state: int, symbol: int) -> tuple[int, ...] | None:
        """Shortest way, inside the constraint to `blame`, to where it allows `symbol`.

        None if nothing ever makes it possible; () where no constraint refuses.
        """
        index = self.blame(state, symbol)
        if index < 0:
            return ()
        digit = self.digits(state)[index]
        return self.constraints[index].skipped(digit, symbol, len(self.symbols))


def _constraint_of(part: _Part) -> int:
    return part.constraint


def side_by_side(symbols: Sequence[str], constraints: Sequence[Constraint]) -> SideBySide:
    """The machine of `constraints` over the declared `symbols`."""
    weights, initial = _numbered(constraints)
    parts: list[list[_Part]] = [[] for _ in symbols]
    for index, (constraint, each) in enumerate(zip(constraints, weights, strict=True)):
        by_letter = [
            _Part(index, each, len(constraint.automaton.states), moves)
            for moves in _moves(constraint.automaton, each)
        ]
        for symbol in constraint.heeded(len(symbols)):
            parts[symbol].append(by_letter[constraint.letter(symbol)])
    known: _Rows = {}
    rows = tuple(_shared(known, tuple(row)) for row in parts)
    return SideBySide(tuple(symbols), tuple(constraints), initial, weights, rows)


def _numbered(constraints: Sequence[Constraint]) -> tuple[tuple[int, ...], int]:
    """The weight of each constraint's digit in the joint state, and the joint state at the start."""
    weights, weight, initial = list[int](), 1, 0
    for constraint in constraints:
        weights.append(weight)
        initial += constraint.automaton.initial * weight
        weight *= len(constraint.automaton.states)
    return tuple(weights), initial


_Rows = dict[tuple[int, ...], tuple[_Part, ...]]
"""Rows of parts, by the ids of their parts."""


def _shared(known: _Rows, row: tuple[_Part, ...]) -> tuple[_Part, ...]:
    """The one object of all rows that are equal: symbols that nothing tells apart have the same row."""
    return known.setdefault(tuple(map(id, row)), row)


def _moves(automaton: Automaton, weight: int) -> list[tuple[int | None, ...]]:
    """By letter, then state: what a step adds to the joint state; None if it is undefined."""
    states = range(len(automaton.states))
    return [
        tuple(
            None if target == UNDEFINED else (target - state) * weight
            for state, target in ((state, automaton.step(state, letter)) for state in states)
        )
        for letter in range(len(automaton.symbols))
    ]
