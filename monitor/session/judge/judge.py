"""One spec, ready to judge: steps calls, and gives the reasons of harmful ones.

Idea: all sessions under one version of a spec share a judge. It holds the stepper and caches of what
depends on position and token alone (reasons, allowed and skipped symbols, orders of groups).

Invariant: a judge holds no session, so a cache never changes a verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from monitor.automaton.dfa import UNDEFINED, Automaton, Machine
from monitor.automaton.paths import reachable_symbols, shortest_way
from monitor.automaton.position import LISTED_MAX, Position, SteppedToken, Stepper
from monitor.decision import Missing
from monitor.limits import THINGS_MAX
from monitor.records import Kind, Reason
from monitor.reference.comparison import Comparison
from monitor.scores.running_scores import OTHER, Goldens, HarmTally
from monitor.scores.score_records import Compared
from monitor.session.judge.deadlines_and_traps import deadlines_and_traps_of
from monitor.session.judge.episodes import EpisodesTally, looped
from monitor.session.judge.harm_sentence import explain_call
from monitor.session.overlap.chain_merges import SEARCH_STEPS_MAX
from monitor.session.overlap.chains import spans_of
from monitor.session.overlap.order import Order, order
from monitor.session.overlap.question_budget import QuestionBudget
from monitor.spec.constraints import SideBySide
from monitor.spec.spec import Spec
from monitor.visibility.cause import Effect

__all__ = [
    "ALWAYS",
    "CODES",
    "CONTROL",
    "CONTROL_TOKEN",
    "FAILED",
    "HARMFUL",
    "PROGRESS",
    "SELF_LOOP",
    "Judge",
    "code_of",
    "count_code",
    "is_substantive",
]

CODES: Final[tuple[tuple[Kind, Reason | None], ...]] = (
    (Kind.PROGRESS, None),
    (Kind.SELF_LOOP, None),
    (Kind.SELF_LOOP, Reason.FAILED_CALL),
    (Kind.CONTROL, None),
    *((Kind.HARMFUL, reason) for reason in Reason),
)
"""Verdicts on calls, each as a small integer: its index in this table."""

PROGRESS: Final = 0
SELF_LOOP: Final = 1
FAILED: Final = 2
CONTROL: Final = 3
HARMFUL: Final = 4
"""Codes from HARMFUL on are harmful."""

CONTROL_TOKEN: Final = 0xFFFF
"""Token of a framework's control tool that no alphabet names: shown, never judged."""

_Group = tuple[Position, tuple[int, ...], tuple[int, ...], tuple[int, ...], bool, int]
"""Everything that the order of overlapping calls depends on."""

_CODE_OF: Final = {reason: HARMFUL + index for index, reason in enumerate(Reason)}
ALWAYS: Final = tuple(
    _CODE_OF[reason]
    for reason in (Reason.UNKNOWN_TOOL, Reason.ARGUMENT_MISMATCH, Reason.FORBIDDEN)
)
"""Codes of calls that are harmful in any order."""

_CACHE_MAX: Final = 4_096
_EXPLAINED_MAX: Final = 512
"""Limit of the cache of explanations, which are texts: 0.2 MB."""
_ORDERED_MAX: Final = 16_384
"""Limit of the cache of orders, as calls of its groups plus _EACH for each group: 0.5 MB."""
_COMPARED_MAX: Final = 8_192
"""Limit of the cache of scores, as calls of its paths plus _EACH for each path: 100 KB."""
_EACH: Final = 16
_MISSING_MAX: Final = 256
"""Limit of the cache of what may be missing, by at most _EACH tools."""


def code_of(reason: Reason) -> int:
    """The code of a harmful call with this reason."""
    return _CODE_OF[reason]


def is_substantive(code: int) -> bool:
    """True for a call that is in the condensed path."""
    return code == PROGRESS or code >= HARMFUL


def count_code(tally: HarmTally, code: int) -> None:
    """Counts a call by its code."""
    if code >= HARMFUL:
        tally.harmful()
    elif code == PROGRESS:
        tally.progress()
    elif code != CONTROL:
        tally.self_loop()


class Judge:
    """Steps and explanations of one spec."""

    __slots__ = (
        "_allowed",
        "_alone",
        "_compared",
        "_compared_tokens",
        "_explained",
        "_missing",
        "_ordered",
        "_orders",
        "_possible",
        "_reasons",
        "_skipped",
        "_tool_symbols",
        "_unsatisfied",
        "anywhere",
        "bounds",
        "comparison",
        "data",
        "digest_key",
        "each",
        "every",
        "goldens",
        "left_out",
        "machine",
        "mismatch",
        "numbers",
        "once",
        "parted",
        "plain",
        "score_tokens",
        "scored",
        "severities",
        "shown_verdicts",
        "shows_things",
        "skewed",
        "spec",
        "stepper",
        "strict",
        "stride",
        "things_max",
    )

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.comparison = Comparison(spec.learnt) if spec.learnt is not None else None
        """Compares sessions with the reference; None if the spec is no reference."""
        self.data = spec.data if self.comparison is None else self.comparison.written_values
        """Rules that compare calls with what was seen before; None for most specs."""
        tokens = spec.alphabet.tokens
        self.plain = len(spec.machine.symbols)
        """Tokens below this are the symbols themselves."""
        self.stride = 1 << 30 if self.comparison is not None else spec.alphabet.stride
        """Tokens below this are without doubt; the others are doubted versions of them."""
        self.mismatch = -1 if self.comparison is not None else spec.alphabet.mismatch
        """Token of a call whose arguments match no symbol of its tool."""
        self.numbers = [-1] * self.plain
        """Number of each symbol's tool (`monitor.session.tool_names.Names`); -1 until it is known."""
        machine = spec.machine
        self.once: Automaton | None = None
        """The machine of one episode, if the spec allows several; else None."""
        if spec.again and spec.kind == "task" and isinstance(machine, Automaton):
            self.once, machine = machine, looped(machine)
        self.machine: Machine = machine
        """The machine that sessions step."""
        self.stepper = Stepper(
            machine,
            [
                SteppedToken(
                    token.symbols,
                    token.effect,
                    token.sure,
                    token.named and spec.kind == "policy",
                    token.falters,
                    token.vanishes,
                )
                for token in tokens
            ],
            open_world=spec.kind != "task",
        )
        self.every = tuple(range(self.plain))
        """All symbols."""
        self._tool_symbols: dict[str, tuple[int, ...]] = {"": self.every}
        for symbol, tool in enumerate(spec.alphabet.tools):
            known = self._tool_symbols.get(tool, ())
            self._tool_symbols[tool] = (*known, symbol)
        self.each = spec.each
        """What there is an automaton for each of; None for one automaton for all calls."""
        self.digest_key = b""
        """Key of the digests of things that are not shown: who does not have it cannot check a guess."""
        self.things_max = THINGS_MAX
        """Things of one session, once its calls are folded."""
        self.shows_things = False
        """True if values of things are kept, to be shown."""
        self.bounds = (
            None if self.each is not None else deadlines_and_traps_of(spec, self.stepper)
        )
        """Deadlines, idle limits and traps; None if the spec has none of them."""
        self.anywhere = self.stepper.anywhere()
        """Position of a session whose earlier calls are not known."""
        self.score_tokens = tuple(
            token.symbols[0] if token.effect and len(token.symbols) == 1 else OTHER
            for token in tokens
        )
        """Token -> what a substantive step is in a condensed path: its symbol, or OTHER."""
        golden = spec.golden if self.each is None else None
        self.goldens = Goldens(golden) if golden is not None else None
        self.severities = spec.severity.levels
        self.parted = spec.scope != "session"
        """True if a session has a judgement for each agent or turn."""
        self.strict = spec.concurrent == "strict"
        """True if overlapping calls are judged by the order with the most harms, not the fewest."""
        self.skewed = 0
        """Calls that, by their clocks, began before their parent call."""
        self.left_out = 0
        """The number of times that overlapping calls were judged by only some of their possible orders."""
        self.scored = spec.kind == "task" and self.each is None
        """True if CORE's scores are defined. Of things there is the rate of harm alone."""
        self.shown_verdicts: dict[tuple[int, int, Position, Position], dict[str, Any]] = {}
        """What judgement objects show of verdicts; their reports bound it."""
        self._reasons: dict[tuple[Position, int], Reason] = {}
        self._allowed: dict[Position, tuple[str, ...]] = {}
        self._unsatisfied: dict[Position, tuple[str, ...]] = {}
        self._skipped: dict[tuple[Position, int], tuple[str, ...]] = {}
        self._explained: dict[tuple[Position, int, Reason], str] = {}
        self._missing: dict[tuple[str | None, ...], tuple[int, ...]] = {}
        self._possible: dict[int, bool] = {}
        self._orders: dict[_Group, Order] = {}
        self._ordered = 0
        self._alone: dict[int, Stepper] = {}
        self._compared: dict[bytes, Compared] = {}
        self._compared_tokens = 0

    def order(
        self,
        before: Position,
        tokens: tuple[int, ...],
        times: tuple[tuple[int, int], ...],
        *,
        strict: bool | None = None,
        steps: int = SEARCH_STEPS_MAX,
        budget: QuestionBudget | None = None,
    ) -> Order:
        """The order in which overlapping siblings are judged (`monitor.session.overlap.order`), cached.

        Args:
            before: the position before them.
            tokens: of the calls, in start order.
            times: (start, end) of each.
            strict: False for the order with the fewest harms; None as the spec says.
            steps: as in `order`.
            budget: as in `order`; an order that is cached costs nothing.
        """
        strict = self.strict if strict is None else strict
        spans = spans_of(times)
        key = (before, tokens, tuple(spans.ended), tuple(spans.by_end), strict, steps)
        found = self._orders.get(key)
        if found is None:
            found = order(
                self.stepper, before, tokens, spans, strict=strict, steps=steps, budget=budget
            )
            if budget is not None and budget.group_steps <= 0:
                return found  # perhaps with fewer orders than are tried without a budget
            if self._ordered > _ORDERED_MAX:
                self._orders.clear()
                self._ordered = 0
            self._orders[key] = found
            self._ordered += len(tokens) * (1 + len(found.every)) + _EACH
        return found

    def under(self, constraint: int) -> Stepper:
        """The stepper of one constraint alone, cached."""
        found = self._alone.get(constraint)
        if found is None:
            assert isinstance(self.machine, SideBySide)
            lone = self.machine.alone(constraint)
            found = self._alone[constraint] = self.stepper.under(lone)
        return found

    def reached(self, positions: Iterable[Position], tokens: Iterable[int]) -> Position:
        """Every state that calls lead to, in any number and order, each without cost.

        Args:
            positions: before the calls.
            tokens: of the calls.
        """
        stepper = self.stepper
        symbols = {symbol for token in tokens for symbol in stepper.readings(token)}
        return stepper.loose(stepper.reach(stepper.union(positions), tuple(sorted(symbols))))

    def compared(self, path: bytes) -> Compared | None:
        """The cached scores of a condensed path (its tokens, two bytes each), if any.

        The sessions of one task share few paths, and scoring a path takes as long as judging 100
        calls.
        """
        return self._compared.get(path)

    def remember(self, path: bytes, scores: Compared) -> None:
        """Caches the scores of a condensed path."""
        if self._compared_tokens > _COMPARED_MAX:
            self._compared.clear()
            self._compared_tokens = 0
        self._compared[path] = scores
        self._compared_tokens += len(path) // 2 + _EACH

    def tally(self) -> HarmTally:
        """The tally of a session under this spec, at its start."""
        beta = self.spec.conventions.beta
        return HarmTally(beta) if self.once is None else EpisodesTally(beta)

    def is_certain(self, token: int) -> bool:
        """True for a call with one certain reading."""
        if token < self.plain or token == CONTROL_TOKEN or self.comparison is not None:
            return True
        return self.spec.alphabet.tokens[token].exact

    def doubt(self, token: int) -> Missing:
        """What is not known of a call that has no certain reading."""
        return "tool" if self.spec.alphabet.tokens[token].alike else "arguments"

    def plain_of(self, token: int) -> int:
        """The token of the same call without doubt."""
        return token if token < self.stride or token == CONTROL_TOKEN else token % self.stride

    def is_doubted(self, token: int) -> bool:
        """True for a token of a call that may not be what it seems."""
        return self.plain_of(token) != token

    def doubted(self, token: int, effect: Effect) -> int:
        """The token of a call that may not be what it seems, for the wide reading."""
        alphabet = self.spec.alphabet
        if effect is Effect.NONE or token == CONTROL_TOKEN or self.comparison is not None:
            return token
        if effect is Effect.OUTCOME:
            return alphabet.faltering(token)
        if effect is Effect.ELSEWHERE and not self._may_be_right(token):
            return token  # it is wrong in any conversation
        return alphabet.vanishing(token)

    def _may_be_right(self, token: int) -> bool:
        """True if some conversation allows a call, cached."""
        found = self._possible.get(token)
        if found is None:
            found = self._possible[token] = self.stepper.chances(self.anywhere, token).right
        return found

    def missing(self, tools: Collection[str | None]) -> tuple[int, ...]:
        """The symbols of calls that may be missing; "" and None stand for any tool."""
        if "" in tools or None in tools:
            return self.every
        # Each session asks for the same few tools again at each of its calls.
        asked = tuple(tools)
        known = self._missing.get(asked)
        if known is None:
            found = {symbol for tool in asked for symbol in self._symbols_of(tool or "")}
            known = self.every if len(found) == self.plain else tuple(sorted(found))
            if len(self._missing) >= _MISSING_MAX:
                self._missing.clear()
            if len(asked) <= _EACH:
                self._missing[asked] = known
        return known

    def _symbols_of(self, tool: str) -> tuple[int, ...]:
        """The symbols of a tool; if it has none, of those that its name is nearly the name of."""
        known = self._tool_symbols
        if tool in known:
            return known[tool]
        return tuple(
            [s for each in self.spec.alphabet.nearly(tool) for s in known.get(each, ())]
        )

    def shared_of(self, symbols: Iterable[int]) -> tuple[int, ...]:
        """Of some symbols those that are of every thing: their tools are not named in `each`."""
        named, tools = (
            self.each.tools if self.each is not None else {},
            self.spec.alphabet.tools,
        )
        return tuple(symbol for symbol in symbols if tools[symbol] not in named)

    def opens(self, before: Position, token: int) -> bool:
        """True if a call starts a new episode: the present state refuses it, the initial state allows it.

        A failed call without effect starts none, nor does a call with several readings: the automaton of many
        episodes steps it. While several states have the fewest harms, no new episode is detected.
        """
        once = self.once
        if once is None or token == CONTROL_TOKEN or self.stepper.likely_count(before) != 1:
            return False
        state = self.stepper.likely(before)[0]
        meaning = self.spec.alphabet.tokens[token]
        if not meaning.effect or not meaning.exact or not once.accepts(state):
            return False
        initial = once.initial
        return all(once.step(state, symbol) == UNDEFINED for symbol in meaning.symbols) and any(
            once.step(initial, symbol) != UNDEFINED for symbol in meaning.symbols
        )

    def reason(self, before: Position, token: int, progressed: int) -> Reason:
        """The reason of a harmful call: the first that applies, in the order of `Reason`.

        `progressed` is the bit mask of symbols that progressed in this episode.
        """
        found = self._reasons.get((before, token))
        if found is None:
            if len(self._reasons) >= _CACHE_MAX:
                self._reasons.clear()
            found = self._reasons[before, token] = self._explain(before, token)
        if found is Reason.UNREACHABLE and self._repeats(token, progressed):
            return Reason.REPEATED
        return found

    def _repeats(self, token: int, progressed: int) -> bool:
        return any(
            progressed >> symbol & 1 for symbol in self.spec.alphabet.tokens[token].symbols
        )

    def _explain(self, before: Position, token: int) -> Reason:
        meaning = self.spec.alphabet.tokens[token]
        if meaning.reason is not None:
            return Reason.FORBIDDEN if self._is_forbidden(meaning.symbol) else meaning.reason
        machine, states = self.machine, self.stepper.likely(before)
        if isinstance(machine, SideBySide):
            return machine.reason(states[0], meaning.symbols[0])
        if states and all(self._is_end(state) for state in states):
            return Reason.AFTER_FINAL
        ahead = [reachable_symbols(machine, state) for state in states]
        if any(symbol in symbols for symbol in meaning.symbols for symbols in ahead):
            return Reason.OUT_OF_ORDER
        return Reason.UNREACHABLE

    def _is_forbidden(self, symbol: int | None) -> bool:
        """True for a call that a policy never allows; this reason comes before a failure."""
        machine = self.machine
        return (
            symbol is not None
            and isinstance(machine, SideBySide)
            and any(each.forbids(symbol) for each in machine.constraints)
        )

    def _is_end(self, state: int) -> bool:
        """True for an accepting state without progress edges."""
        machine = self.machine
        return machine.accepts(state) and all(
            machine.step(state, symbol) == state for symbol in machine.defined(state)
        )

    def skipped(self, before: Position, token: int) -> tuple[str, ...]:
        """Symbols of the shortest legal way to a state where the call would be defined."""
        found = self._skipped.get((before, token))
        if found is None:
            if len(self._skipped) >= _CACHE_MAX:
                self._skipped.clear()
            found = self._skipped[before, token] = self._shortest_way(before, token)
        return found

    def _shortest_way(self, before: Position, token: int) -> tuple[str, ...]:
        machine, symbols = self.machine, self.spec.alphabet.tokens[token].symbols
        states = self.stepper.likely(before)
        if isinstance(machine, SideBySide):
            ways = [machine.skipped(states[0], symbol) for symbol in symbols if states]
        else:
            ways = [shortest_way(machine, states, symbol) for symbol in symbols]
        found = [way for way in ways if way is not None]
        best = min(found, key=len) if found else ()
        return tuple(machine.symbols[symbol] for symbol in best)

    def allowed(self, position: Position) -> tuple[str, ...]:
        """Symbols defined in one of the likely states, in declaration order."""
        found = self._allowed.get(position)
        if found is None:
            if len(self._allowed) >= _CACHE_MAX:
                self._allowed.clear()
            names, stepper = self.machine.symbols, self.stepper
            found = tuple(
                name for symbol, name in enumerate(names) if stepper.allows(position, symbol)
            )
            self._allowed[position] = found
        return found

    def constraint(self, before: Position, token: int) -> str | None:
        """The text of the constraint that refuses the call, for a policy."""
        machine, meaning = self.spec.machine, self.spec.alphabet.tokens[token]
        if not isinstance(machine, SideBySide):
            return None
        state, symbols = self.stepper.likely(before)[0], meaning.symbols
        if not symbols or machine.step(state, symbols[0]) != UNDEFINED:
            return None
        return machine.texts[machine.blame(state, symbols[0])]

    def explanation(self, before: Position, token: int, reason: Reason) -> str:
        """Why a harmful call is harmful, in a sentence that holds no text of the agent."""
        key = (before, token, reason)
        found = self._explained.get(key)
        if found is None:
            if len(self._explained) >= _EXPLAINED_MAX:
                self._explained.clear()
            meaning = self.spec.alphabet.tokens[token]
            one = () if meaning.symbol is None else (meaning.symbol,)
            found = self._explained[key] = explain_call(
                self.spec,
                reason,
                meaning.symbols or one,
                state=self.state(before),
                constraint=self.constraint(before, token),
            )
        return found

    def is_certain_call(self, before: Position, token: int) -> bool:
        """True if a call is harmful in all readings of the session.

        Otherwise another call may be the harmful one: only the number of harms is certain.
        """
        return isinstance(before, int) or not self.stepper.chances(before, token).right

    def symbol(self, token: int) -> str | None:
        """The symbol that tool and arguments match, also if the call failed; None if there is none."""
        if token == CONTROL_TOKEN or self.comparison is not None:
            return None
        symbol = self.spec.alphabet.tokens[token].symbol
        return None if symbol is None else self.spec.machine.symbols[symbol]

    def unsatisfied(self, position: Position) -> tuple[str, ...]:
        """Constraints of a policy that would be broken if the session ended here."""
        machine = self.spec.machine
        if not isinstance(machine, SideBySide):
            return ()
        found = self._unsatisfied.get(position)
        if found is None:
            if len(self._unsatisfied) >= _CACHE_MAX:
                self._unsatisfied.clear()
            texts = list(machine.texts)
            for state in self.stepper.likely_each(position):
                open_ones = machine.unsatisfied(state)
                texts = [text for text in texts if text in open_ones]
            found = self._unsatisfied[position] = tuple(texts)
        return found

    def state(self, position: Position) -> str | None:
        """The state's name, or None while several are possible."""
        if isinstance(position, int):
            return self.spec.machine.name(position)
        if self.stepper.likely_count(position) != 1:
            return None
        return self.spec.machine.name(self.stepper.likely(position)[0])

    def names(self, position: Position) -> tuple[str, ...]:
        """Names of the states with the fewest harms; () if they are too many to list."""
        if self.stepper.likely_count(position) > LISTED_MAX:
            return ()
        return tuple(self.spec.machine.name(state) for state in self.stepper.likely(position))

    def accepts(self, position: Position) -> bool:
        """True if every likely state accepts."""
        return self.stepper.accepts(position)
