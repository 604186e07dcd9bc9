"""The comparison: a session compared with a reference, call by call, in constant time.

Where a call leaves the prefix tree, the comparison classifies the departure and continues from the
nearest place: behind a skipped call, or at the same place after an inserted call. Only the next call
shows whether a call replaced another one or was inserted, so both are considered until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple
from zlib import crc32

from mypy_extensions import mypyc_attr

from monitor.partial import PartialArguments
from monitor.reference.calls import digest, digest_of_text, seems_to_write
from monitor.reference.path_distribution import PathDistribution
from monitor.reference.risk import Risk
from monitor.reference.run_features import CallSeen, RunFeatures, UsualCalls, UsualRuns
from monitor.reference.runs import SeenCall
from monitor.reference.settings import AHEAD_MAX, RISK_ALARM, UNKNOWN_MAX
from monitor.reference.travelling_risk import TravellingRisk
from monitor.scores.consistency import similarity, text_of
from monitor.spec.learnt_reference import LearntReference
from monitor.spec.written_values import WrittenValues

__all__ = [
    "PHASES",
    "Comparison",
    "ComparisonState",
    "Departure",
    "Divergence",
    "NewWrite",
    "packed",
    "unpacked",
]

PHASES: Final = ("first_two", "early", "late")
"""Phases of a session: the first two calls, the rest of the first half of the medoid, later."""

_UNKNOWN: Final = 0
_UNKNOWN_WRITE: Final = 1
_PER_UNKNOWN: Final = 2
_FIRST: Final = UNKNOWN_MAX * _PER_UNKNOWN
"""Calls of tools no learning run called, two for each; behind them two for each tool, then the seen calls."""
_UNSEEN: Final = 0
_UNTOLD: Final = 1
_PER_TOOL: Final = 2

TOKENS_MAX: Final = 0xFFFE
"""Tokens are 16 bits wide, and the last is taken."""

_PENDING: Final = 1
_FIRST_TWO: Final = 2
_UNEXPECTED: Final = 4
_NEW_ARGUMENTS: Final = 8
_NEW_WRITE_TOOL: Final = 16
_NEW_AGREED: Final = 32
_NONE: Final = -1
_NOWHERE: Final = -2
_RISKS_MAX: Final = 4_096
FIRST_STEPS: Final = 2
_OFF: Final = "off"
"""A text in place of a digest: other values where usual runs agree."""


class Departure(IntEnum):
    """How a call differs from what seen runs did there."""

    WRONG_TOOL = 0
    WRONG_ARGUMENTS = 1
    EXTRA = 2
    MISSING = 3


class Divergence(NamedTuple):
    """One departure from the reference."""

    step: int
    """Number of the call, from 1; of the call that did not come, where the run ended early."""
    kind: Departure
    write: bool
    node: int
    """Node of the tree at which the session stood."""


@mypyc_attr(acyclic=True)
class ComparisonState:
    """Where one session stands: a few small integers."""

    __slots__ = (
        "called",
        "calls",
        "departures",
        "features",
        "first",
        "flags",
        "node",
        "path",
        "wrote",
    )

    def __init__(self) -> None:
        self.node = 0
        self.calls = 0
        self.flags = 0
        self.first = _NONE
        """The first divergence, packed; its step, kind, write and node."""
        self.departures = 0
        self.called = 0
        """Bit mask of tools called, as `Risk.of` reads it."""
        self.wrote = 0
        """The same of those that wrote, and did not fail."""
        self.features: RunFeatures | None = None
        """What a risk that was learnt on other tasks is computed from; None without one."""
        self.path = 0
        """Position as `PathDistribution` reads it; 0 after a call: it is not known."""

    def copy(self) -> ComparisonState:
        twin = ComparisonState()
        twin.node, twin.calls, twin.flags = self.node, self.calls, self.flags
        twin.first, twin.departures = self.first, self.departures
        twin.called, twin.wrote = self.called, self.wrote
        twin.path = self.path
        if self.features is not None:
            twin.features = self.features.copy()
        return twin

    @property
    def first_two_diverged(self) -> bool:
        """Whether one of the first two calls is another tool than the medoid's."""
        return bool(self.flags & _FIRST_TWO)

    @property
    def unexpected_write(self) -> bool:
        """Whether a call wrote what no seen run has written."""
        return bool(self.flags & _UNEXPECTED)

    @property
    def new_write_tool(self) -> bool:
        """Whether a call that did not fail wrote by a tool that no usual run called."""
        return bool(self.flags & _NEW_WRITE_TOOL)

    @property
    def new_agreed(self) -> bool:
        """Whether a write that did not fail had another value where all usual runs have the same one."""
        return bool(self.flags & _NEW_AGREED)

    @property
    def knows_path(self) -> bool:
        """Whether all calls so far are in its path."""
        return bool(self.path or not self.calls)

    @property
    def new_tools(self) -> bool:
        """Whether a tool was called that no learning run called."""
        return bool(self.called & 1)

    @property
    def new_arguments(self) -> bool:
        """Whether a known tool was called with arguments that no seen run gave it there."""
        return bool(self.flags & _NEW_ARGUMENTS)

    @property
    def divergence(self) -> Divergence | None:
        """The first divergence."""
        return None if self.first == _NONE else unpacked(self.first)


def packed(found: Divergence | None) -> int:
    """A divergence as one integer; -1 for none."""
    if found is None:
        return _NONE
    return ((found.step << 2 | found.kind) << 1 | found.write) << 20 | found.node


def unpacked(found: int) -> Divergence:
    """The divergence that `packed` made an integer of."""
    node, rest = found & 0xFFFFF, found >> 20
    return Divergence(rest >> 3, Departure(rest >> 1 & 3), bool(rest & 1), node)


class NewWrite(NamedTuple):
    """What an unexpected write is told as."""

    alarm: str
    """new_write_tool or new_arguments."""
    is_sure: bool
    """Whether it is worth a page.

    The call did not fail, usual runs agree on what it did otherwise, and its values may come from a result.
    """


class OwnTokens:
    """Tokens of unexpected writes whose values are known not to come from an earlier result.

    Each is the twin of the token that the call has else. They stand behind all other tokens, in the order of those.

    Args:
        tools: tool of each token; those of the twins are put behind.
        unexpected: whether each is an unexpected write; so are the twins.
        wanted: whether the reference asks where values come from; without it there are none.
    """

    __slots__ = ("_first", "_others", "_twin_of")

    def __init__(self, tools: list[int], unexpected: list[bool], *, wanted: bool) -> None:
        self._first = len(tools)
        room = max(0, TOKENS_MAX // 2 - len(tools)) if wanted else 0
        self._others = [base for base, is_new in enumerate(unexpected) if is_new][:room]
        self._twin_of = {base: self._first + n for n, base in enumerate(self._others)}
        tools += [tools[base] for base in self._others]
        unexpected += [True] * len(self._others)

    def has(self, token: int) -> bool:
        """True of a token that says so."""
        return token >> 1 >= self._first

    def asks(self, token: int) -> bool:
        """True if it makes a difference where the values of a call come from."""
        return self.base_of(token) in self._twin_of

    def base_of(self, token: int) -> int:
        """What a token says but for the last bit, wherever the values come from."""
        base = token >> 1
        return base if base < self._first else self._others[base - self._first]

    def token(self, token: int, *, is_own: bool) -> int:
        """The token of the same call, with its own values or not."""
        base = self.base_of(token)
        return (self._twin_of.get(base, base) if is_own else base) << 1 | token & 1

    def twins(self, bases: Mapping[int, int]) -> dict[int, int]:
        """Twin of a token in another process -> what it is in this one."""
        return {
            self._twin_of[there]: self._twin_of[here]
            for there, here in bases.items()
            if there in self._twin_of
        }


def _foreign(learnt: LearntReference) -> frozenset[str]:
    """Tools that write by their names and that only failed learning runs called.

    For the comparison they are as unknown as tools that no learning run called.
    """
    seen = {learnt.tools[node.tool] for node in learnt.nodes if node.tool >= 0}
    seen |= learnt.write_calls.keys()
    seen |= {tool for tool, (succeeded, _) in learnt.called_by.items() if succeeded}
    return frozenset(tool for tool in learnt.tools if tool not in seen and seems_to_write(tool))


def _usual_calls(learnt: LearntReference, tokens: Mapping[tuple[int, str], int]) -> UsualCalls:
    """The calls of usual runs by their tokens without the last bit; of a call that has none, the arguments vary."""
    return UsualCalls(
        [
            (runs, [(tokens.get(call, _NONE), call[0]) for call in calls])
            for runs, calls in learnt.usual_calls
        ]
    )


class Comparison:
    """One reference, ready to compare sessions with; it holds no session."""

    __slots__ = (
        "_ahead",
        "_base",
        "_children",
        "_foreign",
        "_medoid",
        "_numbers",
        "_off",
        "_pairs",
        "_plain",
        "_risks",
        "_seen",
        "_tool_of",
        "_travelling_risks",
        "_unexpected",
        "_unknown",
        "_usual",
        "learnt",
        "own",
        "paths",
        "risk",
        "travelling",
        "written_values",
    )

    def __init__(self, learnt: LearntReference) -> None:
        self.learnt = learnt
        tools = dict.fromkeys((*learnt.tools, *sorted(learnt.writes)))
        self._numbers = {tool: number for number, tool in enumerate(tools)}
        self._medoid = tuple(self._numbers.get(tool, _NOWHERE) for tool in learnt.medoid[:2])
        source = learnt.source
        self.risk = Risk(
            tuple(tools),
            learnt.called_by,
            learnt.successes,
            learnt.failures,
            labelled=bool(source.get("labelled")),
        )
        # Without a usual run nothing departs from one: the model does not apply.
        model = learnt.model if learnt.runs else None
        self.travelling = TravellingRisk(model) if model is not None else None
        told = learnt.surprise is not None
        self.paths = PathDistribution(learnt.nodes, len(tools)) if told else None
        """How unlikely paths are; None if the reference does not tell it."""
        self._risks: dict[int, float] = {}
        """Risks by what they depend on: most sessions of an agent call the same few tools."""
        self._travelling_risks: dict[tuple[object, ...], float] = {}
        """The same of risks that were learnt on other tasks, while sessions go on: most take a way that others took."""
        self._base = _FIRST
        self._unknown: dict[str, int] = {}
        """Tools that no learning run called, by number: the first that came, in whatever session."""
        self._tool_of: list[int] = [_NONE] * _FIRST
        for number in range(len(tools)):
            self._tool_of += [number] * _PER_TOOL
        self._pairs: dict[tuple[int, str], int] = {}
        self._foreign = _foreign(learnt)
        self._unexpected: list[bool] = [False, True] * UNKNOWN_MAX
        for tool in tools:
            foreign = tool in self._foreign
            self._unexpected += [foreign or tool in learnt.writes, foreign]
        self._number_writes()
        self._seen: list[frozenset[int] | None] = []
        self._number_nodes()
        self._usual = (
            UsualRuns(learnt, _usual_calls(learnt, self._pairs)) if model is not None else None
        )
        varying = {tool for tool, _ in self._pairs}
        self._plain = frozenset(set(range(len(tools))) - varying)
        """Tools whose arguments make no difference: they are not looked at."""
        self._off = self._number_agreed()
        self.written_values = (
            WrittenValues(learnt.writes, seems_to_write) if learnt.provenance else None
        )
        """What is asked of the values of writes; None if the reference does not ask where they come from."""
        self.own = OwnTokens(self._tool_of, self._unexpected, wanted=learnt.provenance)
        self._children = self._grow()
        self._ahead = [self._look_ahead(node) for node in range(len(learnt.nodes))]

    def _number_writes(self) -> None:
        for tool in sorted(self.learnt.writes):
            for found in sorted(self.learnt.write_calls.get(tool, ())):
                self._pair(self._numbers[tool], found)
            number = self._numbers[tool]
            # A writing tool's arguments matter even where no seen run called it.
            self._pairs.setdefault((number, ""), self._base + number * _PER_TOOL)

    def _number_agreed(self) -> dict[int, int]:
        """Writing tool -> the token of its calls with other values where usual runs agree.

        They are numbered behind all other tokens, which keep their numbers whatever runs agree on.
        """
        found: dict[int, int] = {}
        for tool, agreed in sorted(self.learnt.agreed_arguments.items()):
            number = self._numbers.get(tool)
            if agreed and number is not None and tool in self.learnt.writes:
                token = self._pair(number, _OFF)
                if token is not None:
                    found[number] = token
                    self._unexpected[token] = True
        return found

    def _is_off(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it is another action altogether: all that usual runs agree on is otherwise."""
        agreed = self.learnt.agreed_arguments[tool]
        return all(
            name not in arguments or digest_of_text(text_of(arguments[name])) != known
            for name, known in agreed.items()
        )

    def _number_nodes(self) -> None:
        for node in self.learnt.nodes:
            if node.digests is None or node.tool < 0:
                self._seen.append(None)
                continue
            pairs = (self._pair(node.tool, found) for found in sorted(node.digests))
            known = {pair for pair in pairs if pair is not None}
            self._seen.append(frozenset(known) if known else None)

    def _pair(self, tool: int, found: str) -> int | None:
        """The token of a seen call; None if there are too many to distinguish."""
        token = self._pairs.get((tool, found))
        if token is None and 2 * len(self._tool_of) < TOKENS_MAX:
            token = self._pairs[tool, found] = len(self._tool_of)
            self._tool_of.append(tool)
            self._unexpected.append(False)
        return token

    def _grow(self) -> list[dict[int, int]]:
        children: list[dict[int, int]] = [{} for _ in self.learnt.nodes]
        for number, node in enumerate(self.learnt.nodes):
            if node.parent >= 0:
                children[node.parent][node.tool] = number
        return children

    def _look_ahead(self, start: int) -> dict[int, tuple[int, int]]:
        """Tool -> the nearest node below that it leads to, and how many calls are skipped."""
        found: dict[int, tuple[int, int]] = {}
        layer = [start]
        for skipped in range(AHEAD_MAX + 1):
            layer = [child for node in layer for child in self._children[node].values()]
            layer.sort(key=lambda node: (-self.learnt.nodes[node].runs, node))
            for node in layer:
                found.setdefault(self.learnt.nodes[node].tool, (node, skipped))
        return found

    # --- one call -----------------------------------------------------------------------------

    def start(self) -> ComparisonState:
        """A session before its first call."""
        at = ComparisonState()
        if self.travelling is not None:
            at.features = RunFeatures()
        return at

    def token(self, tool: str, arguments: Mapping[str, Any] | None, failed: bool) -> int:
        """A call as one integer below `TOKENS_MAX`: what of it the comparison needs."""
        number = self._numbers.get(tool)
        if number is None:
            base = self._number_of_unknown(tool) * _PER_UNKNOWN
            base += _UNKNOWN_WRITE if seems_to_write(tool) else _UNKNOWN
        elif number in self._plain or arguments is None or type(arguments) is PartialArguments:
            base = self._base + number * _PER_TOOL + _UNTOLD
        else:
            unseen = self._base + number * _PER_TOOL + _UNSEEN
            base = self._pairs.get((number, digest(arguments)), unseen)
            if base == unseen and number in self._off and self._is_off(tool, arguments):
                base = self._off[number]
        return base << 1 | failed

    def token_of(self, call: SeenCall) -> int:
        """A recorded call as `token` gives it."""
        number = self._numbers.get(call.tool)
        if number is None or number in self._plain or not call.digest:
            token = self.token(call.tool, None, call.failed)
        else:
            unseen = self._base + number * _PER_TOOL + _UNSEEN
            token = self._pairs.get((number, call.digest), unseen) << 1 | call.failed
        return self.own.token(token, is_own=call.is_own)

    def _number_of_unknown(self, tool: str) -> int:
        found = self._unknown.get(tool)
        if found is None:
            found = len(self._unknown)
            if found >= UNKNOWN_MAX:
                return crc32(tool.encode(errors="surrogatepass")) % UNKNOWN_MAX
            self._unknown[tool] = found
        return found

    def step(self, at: ComparisonState, token: int) -> Departure | None:
        """Takes one call; says how it departs from the reference, if it does."""
        called = at.called
        kind = self._take(at, token)
        if at.features is not None and self._usual is not None:
            seen = self._call_seen(token, called, kind, at.calls)
            at.features.take(self._usual, seen)
        return kind

    def _call_seen(
        self, token: int, called: int, departure: Departure | None, step: int
    ) -> CallSeen:
        base = self.own.base_of(token)
        tool = self._tool_of[base]
        if self._off.get(tool) == base:
            base = self._base + tool * _PER_TOOL + _UNSEEN
        known = int(base >= self._base + len(self._numbers) * _PER_TOOL)
        if not known and (tool < 0 or self.is_untold(base)):
            known = -1
        return CallSeen(
            tool=tool,
            # Tools that no run called have other numbers in another process.
            token=base if tool >= 0 else -1,
            known=known,
            writes=self._writes(base, tool),
            failed=bool(token & 1),
            departure=-1 if departure is None else int(departure),
            phase=PHASES.index(self.phase(step)),
            called=called >> 1,
        )

    def _take(self, at: ComparisonState, token: int) -> Departure | None:
        base, tool = self.own.base_of(token), self._tool_of[token >> 1]
        at.calls += 1
        at.called |= 1 << (tool + 1)
        if tool == _NONE:
            at.called |= 2 << (len(self._numbers) + base // _PER_UNKNOWN)
        if at.calls <= FIRST_STEPS and self._medoid[at.calls - 1 : at.calls] != (tool,):
            at.flags |= _FIRST_TWO
        if self._unexpected[base]:
            at.flags |= _UNEXPECTED
            if tool != _NONE and self.tool(tool) in self.learnt.writes:
                at.flags |= _NEW_ARGUMENTS
            if not token & 1 and not self.own.has(token):
                at.flags |= self._sure_flag(base, tool)
        if not token & 1:
            at.wrote |= 1 << (tool + 1)
        if self.paths is not None and (at.path or at.calls == 1):
            at.path = self.paths.after(at.path, tool)
        before = at.node
        kind = self._move(at, base, tool)
        if kind is None:
            return None
        at.departures += 1
        if kind is Departure.WRONG_ARGUMENTS:
            at.flags |= _NEW_ARGUMENTS
        if at.first == _NONE:
            at.first = packed(Divergence(at.calls, kind, self._writes(base, tool), before))
        return kind

    def _move(self, at: ComparisonState, base: int, tool: int) -> Departure | None:
        pending = at.flags & _PENDING
        at.flags &= ~_PENDING
        child = self._children[at.node].get(tool)
        if child is not None:
            at.node = child
            return self._arguments(child, base)
        later = self._ahead[at.node].get(tool)
        if later is not None:
            at.node, skipped = later
            # The call before this one stood in the place of the one that is skipped.
            return (
                self._arguments(at.node, base)
                if pending and skipped == 1
                else Departure.MISSING
            )
        if not self._children[at.node] or 0 <= tool == self.learnt.nodes[at.node].tool:
            return Departure.EXTRA
        at.flags |= _PENDING
        return Departure.WRONG_TOOL

    def _arguments(self, node: int, base: int) -> Departure | None:
        seen = self._seen[node]
        if seen is None or base in seen or self.is_untold(base):
            return None
        return Departure.WRONG_ARGUMENTS

    def is_untold(self, base: int) -> bool:
        """Whether the arguments are not known of a call of a known tool; `base` is its token without the last bit."""
        place = base - self._base
        in_tools = 0 <= place < len(self._numbers) * _PER_TOOL
        return in_tools and place % _PER_TOOL == _UNTOLD

    def _writes(self, base: int, tool: int) -> bool:
        if tool == _NONE:
            return base % _PER_UNKNOWN == _UNKNOWN_WRITE
        name = self.tool(tool)
        return name in self.learnt.writes or name in self._foreign

    # --- in another process ------------------------------------------------------------------

    def unknown(self, at: ComparisonState) -> dict[int, str]:
        """The called tools that no learning run called, by their numbers in this process."""
        called = at.called >> len(self._numbers) + 1
        return {number: tool for tool, number in self._unknown.items() if called >> number & 1}

    def numbers_of(self, tools: Mapping[int, str]) -> dict[int, int]:
        """Number of such a tool in another process -> its number in this one."""
        return {there: self._number_of_unknown(tool) for there, tool in tools.items()}

    def tokens_of(self, numbers: Mapping[int, int]) -> dict[int, int]:
        """Token of a call of such a tool -> what it is in this process."""
        bases = {
            there * _PER_UNKNOWN + kind: here * _PER_UNKNOWN + kind
            for there, here in numbers.items()
            for kind in (_UNKNOWN, _UNKNOWN_WRITE)
        }
        bases |= self.own.twins(bases)
        return {
            there << 1 | failed: here << 1 | failed
            for there, here in bases.items()
            for failed in (0, 1)
        }

    def renumber(self, at: ComparisonState, numbers: Mapping[int, int]) -> None:
        """Gives such tools the numbers of this process."""
        first = len(self._numbers) + 1
        called = at.called & ((1 << first) - 1)
        for there, here in numbers.items():
            if at.called >> (first + there) & 1:
                called |= 1 << (first + here)
        at.called = called

    # --- what is shown -----------------------------------------------------------------------

    def tool(self, number: int) -> str:
        """The name of a tool."""
        tools = self.learnt.tools
        return tools[number] if number < len(tools) else list(self._numbers)[number]

    def is_write(self, token: int) -> bool:
        """Whether the call's tool writes."""
        return self._writes(self.own.base_of(token), self._tool_of[token >> 1])

    def new_write(self, token: int) -> NewWrite | None:
        """What the call is told as; None if usual runs wrote the same."""
        base = token >> 1
        if not self._unexpected[base]:
            return None
        is_new = self.is_new_tool(token)
        may_page = not token & 1 and not self.own.has(token)
        sure = may_page and bool(self._sure_flag(base, self._tool_of[base]))
        return NewWrite("new_write_tool" if is_new else "new_arguments", sure)

    def _sure_flag(self, base: int, tool: int) -> int:
        if self.is_new_tool(base << 1):
            return _NEW_WRITE_TOOL
        return _NEW_AGREED if self._off.get(tool) == base else 0

    def is_new_tool(self, token: int) -> bool:
        """Whether no usual run called the tool, of a call that is unexpected."""
        tool = self._tool_of[token >> 1]
        return tool == _NONE or self.tool(tool) not in self.learnt.write_calls

    def risk_of(self, at: ComparisonState, *, ended: bool = False) -> float:
        """The risk that the session fails, 0 to 1; of one that is over if it has `ended`."""
        if self.travelling is not None and at.features is not None:
            if ended:
                return self.travelling.of(self.vector(at, ended=True))
            way = (at.calls, at.called, *at.features.key())
            known = self._travelling_risks.get(way)
            if known is None:
                if len(self._travelling_risks) >= _RISKS_MAX:
                    self._travelling_risks.clear()
                known = self.travelling.of(self.vector(at, ended=False))
                self._travelling_risks[way] = known
            return known
        key = at.called << 3 | at.flags & _UNEXPECTED
        found = self._risks.get(key)
        if found is None:
            if len(self._risks) >= _RISKS_MAX:
                self._risks.clear()
            found = self.risk.of(at.called, unexpected_write=at.unexpected_write)
            self._risks[key] = found
        return found

    def vector(self, at: ComparisonState, *, ended: bool) -> list[float]:
        """What the risk of other tasks is computed from, in the order of `FEATURES`.

        Raises:
            ValueError: the reference has no such risk.
        """
        if self._usual is None or at.features is None:
            raise ValueError("the reference has no risk of other tasks")
        return self._usual.vector(
            at.features,
            at.calls,
            at.called >> 1,
            ended=ended,
            unwritten=len(self.missing_writes(at)) if ended else 0,
            elsewhere=ended and not self.learnt.nodes[at.node].ends,
        )

    def risk_reasons(self, at: ComparisonState, *, ended: bool) -> list[str] | None:
        """What raised the risk most, in words; None where it was not learnt on other tasks."""
        if self.travelling is None or at.features is None:
            return None
        return self.travelling.reasons(self.vector(at, ended=ended))

    def expected(self, node: int) -> tuple[str, ...]:
        """Tools that seen runs called there, the most frequent first."""
        nodes = self.learnt.nodes
        below = sorted(
            self._children[node].values(), key=lambda each: (-nodes[each].runs, each)
        )
        return tuple(self.learnt.tools[nodes[each].tool] for each in below)

    def support(self, node: int) -> int:
        """How many seen runs passed there."""
        return self.learnt.nodes[node].runs

    def phase(self, step: int) -> str:
        """first_two, early (the first half of the medoid) or late."""
        if step <= FIRST_STEPS:
            return PHASES[0]
        return PHASES[1] if 2 * step <= len(self.learnt.medoid) + 1 else PHASES[2]

    def at_end(self, at: ComparisonState) -> Divergence | None:
        """The call that did not come, where the session has ended before any seen run did."""
        node = self.learnt.nodes[at.node]
        if node.ends or not self._children[at.node] or not self.learnt.runs:
            return None
        writes = any(tool in self.learnt.writes for tool in self.expected(at.node))
        return Divergence(at.calls + 1, Departure.MISSING, writes, at.node)

    def first_two_at_end(self, at: ComparisonState) -> bool:
        """The same as `first_two_diverged` of a session that is over: a call may be missing."""
        return at.first_two_diverged or at.calls < len(self._medoid)

    def similarity(self, tokens: Iterable[int]) -> float:
        """Definition 3 of a session and the medoid; of tools no run called none is another's."""
        numbers = tuple(self._numbers.get(tool, _NOWHERE) for tool in self.learnt.medoid)
        return similarity([self._tool_of[token >> 1] for token in tokens], numbers)

    def missing_writes(self, at: ComparisonState) -> tuple[str, ...]:
        """Tools every seen run wrote by, and this session has not."""
        return tuple(
            tool
            for tool in self.learnt.expected_writes
            if not at.wrote >> (self._numbers.get(tool, 0) + 1) & 1
        )

    def is_risky(self, risk: float) -> bool:
        """Whether the risk is worth telling."""
        return risk >= self.risk_alarm

    @property
    def risk_alarm(self) -> float:
        """Risk from which an alarm is raised."""
        if self.travelling is not None:
            return self.travelling.model.alarm
        told = self.learnt.risk_alarm
        return RISK_ALARM if told is None else told
