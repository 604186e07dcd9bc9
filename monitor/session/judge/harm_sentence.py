"""Why a call is harmful, in one sentence.

Idea: a reason is a word for machines. The sentence names the symbol, and the rule or the state. It depends on spec, position and token alone, so a judge caches it. Only the
sentence on arguments (`monitor.alphabet.pattern_words`) depends on the call.

Invariant: a sentence of this module holds names of the spec and times, and no text of an agent. It
has at most `TEXT_MAX` characters.

Example: `refund` before `check`: "`refund` is not allowed yet in state `start`". Under a policy:
"`big_refund` (`amount` at least 100) breaks the rule "no `big_refund` before `check`"".
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.alphabet.pattern_words import any_of, asked, is_conditional, quoted, shortened
from monitor.records import Reason
from monitor.spec.constraints import Constraint, SideBySide
from monitor.spec.rule_sentences import rule_sentence
from monitor.spec.spec import Spec

__all__ = ["explain_call"]


def explain_call(
    spec: Spec,
    reason: Reason,
    symbols: Sequence[int],
    *,
    state: str | None,
    constraint: str | None,
) -> str:
    """Why a call is harmful.

    Args:
        spec: under which it was judged.
        reason: of the verdict.
        symbols: that the call may be.
        state: before the call; None while several are possible.
        constraint: of a policy, the text of the one that is broken.
    """
    if reason is Reason.UNKNOWN_TOOL:
        return "no symbol of the spec has this tool"
    if reason is Reason.ARGUMENT_MISMATCH:
        return "the arguments match no symbol of this tool"
    name = _call(spec, symbols)
    if reason is Reason.FAILED_CALL:
        return shortened(f"{name} failed, and the spec counts failed calls as harmful")
    rule = _rule(spec, constraint, symbols)
    if rule is not None:
        return shortened(
            f'{name} breaks the rule "{rule_sentence(rule, spec.machine.symbols)}"'
        )
    where = f" in state {quoted(state)}" if state is not None else ""
    if reason is Reason.AFTER_FINAL:
        return shortened(f"the task was done{where}: no call may follow, not even {name}")
    if reason is Reason.REPEATED:
        return shortened(f"{name} was called before, and is not allowed again{where}")
    if reason is Reason.UNREACHABLE:
        return shortened(f"{name} is not allowed{where}, nor in any state that can follow")
    return shortened(f"{name} is not allowed yet{where}")


def _call(spec: Spec, symbols: Sequence[int]) -> str:
    """The symbol of a call, with the arguments that make it this symbol."""
    if not symbols:
        return "the call"
    alphabet = spec.alphabet
    name = any_of([alphabet.symbols[symbol] for symbol in symbols])
    if len(symbols) > 1:
        return name
    if is_conditional(patterns := alphabet.patterns[symbols[0]]):
        return f"{name} ({asked(patterns)})"
    others = [
        each for each in alphabet.of_tool(alphabet.tools[symbols[0]]) if each != symbols[0]
    ]
    if not others:
        return name
    named = any_of([alphabet.symbols[each] for each in others])
    return f"{name} (with other arguments than {named}{_compared(spec, others)})"


def _compared(spec: Spec, symbols: Sequence[int]) -> str:
    """What the only symbol of some compares its arguments with; "" if with nothing that was seen before."""
    patterns = spec.alphabet.patterns[symbols[0]]
    if len(symbols) > 1 or not any(each.kind == "data" for each in (patterns or {}).values()):
        return ""
    return f": {asked(patterns)}"


def _rule(spec: Spec, text: str | None, symbols: Sequence[int]) -> Constraint | None:
    """The constraint that a call breaks; None if the spec is no policy."""
    machine = spec.machine
    if not isinstance(machine, SideBySide):
        return None
    for each in machine.constraints:
        if each.text == text or (text is None and symbols and each.forbids(symbols[0])):
            return each
    return None
