"""`offrails check SPECS --runs FILE...`: which recorded runs, known to be good, a spec rejects.

A spec can be sound in itself and still say the opposite of what was meant: an inverted pattern, a
first edge that starts elsewhere. Good runs that it rejects show it before it pages anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from collector.offline.good_runs.result_hints import ResultHints
from collector.offline.tables import printable
from monitor.alphabet.things import NO_VALUE, EachRule
from monitor.spec.spec import Spec

__all__ = ["RejectedRun", "Runs", "SpecTrial", "lines", "try_runs", "untested"]

Judged = Mapping[str, Any]
"""A judgement object."""


@dataclass(frozen=True, slots=True)
class RejectedRun:
    """A run that a spec rejects: at its first harmful call, or at its end."""

    session: str
    spec: str
    call: int | None
    """Place of the call, from 1; None if every call was fine but the end was not."""
    tool: str
    why: str
    allowed: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "session": self.session,
            "spec": self.spec,
            "call": self.call,
            "tool": self.tool or None,
            "why": self.why,
            "allowed": list(self.allowed),
        }

    def __str__(self) -> str:
        where = (
            "at its end" if self.call is None else f"call {self.call} {printable(self.tool)}"
        )
        text = f"{printable(self.session)}: {where}: {printable(self.why)}"
        if self.allowed:
            text += f"; allowed were {', '.join(map(printable, self.allowed))}"
        return text


@dataclass(slots=True)
class SpecTrial:
    """One spec and the runs it judged."""

    spec: str
    runs: int = 0
    rejected: list[RejectedRun] = field(default_factory=list)
    called: Counter[str] = field(default_factory=Counter)
    """Calls by tool."""
    mismatched: Counter[str] = field(default_factory=Counter)
    """Calls of a known tool whose arguments no symbol matches, by tool."""
    tools: tuple[str, ...] = ()
    """Tools that a task names."""
    each: EachRule | None = None
    """What the spec has an automaton for each of."""
    carrying: Counter[str] = field(default_factory=Counter)
    """Calls that carry a value, or may, by tool that `each` names."""
    results: ResultHints = field(default_factory=ResultHints)
    """Calls whose results are asked for."""

    def hints(self) -> Iterator[str]:
        """What the rejections have in common."""
        first = [each for each in self.rejected if each.call == 1]
        if self.runs > 1 and len(first) == self.runs:
            yield (
                "every run is rejected at its first call: look at the initial state and its edges"
            )
        for tool, count in sorted(self.mismatched.items()):
            if count == self.called[tool]:
                yield (
                    f"no call of {printable(tool)} ({count} of {count}) has the arguments that "
                    "its symbols ask for: look for an inverted or too narrow pattern"
                )
        unseen = [tool for tool in self.tools if not self.called[tool]]
        if self.runs and unseen:
            yield (
                f"no run calls {', '.join(map(printable, unseen))}: is that what the tool is "
                "called, and are these all the runs there should be?"
            )
        ends = [each for each in self.rejected if each.call is None]
        if self.runs > 1 and len(ends) == self.runs:
            yield "no run ends in an accepting state: look at the accepting states"
        if self.runs and self.each is not None:
            yield from self._each_hints(self.each)
        yield from self.results.lines()

    def _each_hints(self, each: EachRule) -> Iterator[str]:
        """What keeps `each` from telling things apart; each hint begins with its code."""
        called = [tool for tool in each.tools if self.called[tool]]
        if not called:
            names = ", ".join(map(printable, each.tools))
            yield f"each_never_bound: no run calls a tool that `each` names ({names})"
        for tool in called:
            if not self.carrying[tool]:
                paths = " or ".join(f"`{printable(path.text)}`" for path, _ in each.tools[tool])
                count = self.called[tool]
                yield (
                    f"each_path_unseen: no call of {printable(tool)} ({count} of {count}) has a "
                    f"value at {paths}: they are all of the thing `none`"
                )

    def as_json(self) -> dict[str, Any]:
        return {
            "spec": self.spec,
            "runs": self.runs,
            "rejected": len(self.rejected),
            "hints": list(self.hints()),
        }


@dataclass(frozen=True, slots=True)
class Runs:
    """How all specs fared."""

    specs: tuple[SpecTrial, ...]
    unjudged: tuple[str, ...]
    """Sessions that no spec judges."""

    @property
    def rejected(self) -> bool:
        return any(each.rejected for each in self.specs)

    def as_json(self) -> Iterator[dict[str, Any]]:
        """An object per rejected run, then one per spec, then the runs without a spec."""
        for tried in self.specs:
            yield from (each.as_json() for each in tried.rejected)
        yield from (tried.as_json() for tried in self.specs)
        if self.unjudged:
            yield {"spec": None, "runs": len(self.unjudged), "sessions": list(self.unjudged)}


def try_runs(judgements: Iterable[Judged], specs: Iterable[Spec] = ()) -> Runs:
    """Looks at judgement objects of good runs.

    Args:
        judgements: of all runs under all specs.
        specs: the specs, to say which of their tools no run calls, and which things no call carries.
    """
    specs = tuple(specs)
    tools = {
        spec.id: tuple(dict.fromkeys(spec.alphabet.tools))
        for spec in specs
        if spec.kind == "task"
    }
    known = {spec.id: spec for spec in specs}
    found: dict[str, SpecTrial] = {}
    unjudged: list[str] = []
    for judged in judgements:
        if judged["spec"] is None:
            unjudged.append(judged["session"])
        elif judged["spec_kind"] != "reference":
            name = judged["spec"]
            if name not in found:
                spec = known.get(name)
                each = spec.each if spec is not None else None
                found[name] = SpecTrial(
                    name, tools=tools.get(name, ()), each=each, results=ResultHints(spec)
                )
            tried = found[name]
            _count(tried, judged)
    return Runs(tuple(found[name] for name in sorted(found)), tuple(unjudged))


def _count(tried: SpecTrial, judged: Judged) -> None:
    tried.runs += 1
    tried.results.take(judged)
    for step in judged["steps"]:
        tried.called[step["tool"]] += 1
        tried.mismatched[step["tool"]] += step["reason"] == "argument_mismatch"
        if tried.each is not None:
            things = tried.each.of_call(step["tool"], step["arguments"])
            tried.carrying[step["tool"]] += things is not None and things.keys != (NO_VALUE,)
    tried.mismatched += Counter()  # leaves zeros out
    rejected = _rejected(judged)
    if rejected is not None:
        tried.rejected.append(rejected)


def _rejected(judged: Judged) -> RejectedRun | None:
    session, spec = judged["session"], judged["spec"]
    for step in judged["steps"]:
        if step["kind"] == "harmful":
            return RejectedRun(
                session, spec, step["index"], step["tool"], _why(step), tuple(step["allowed"])
            )
    if judged["missed"]:
        missed = judged["missed"][0]
        return RejectedRun(session, spec, None, "", f"{missed['kind']}: {_why(missed)}", ())
    if judged["accepting"] is False:
        owed = " and ".join(judged["unsatisfied"])
        why = f"not kept: {owed}" if owed else f"{judged['state']!r} is not accepting"
        return RejectedRun(session, spec, None, "", why, ())
    return None


def _why(found: Judged) -> str:
    """The reason of a step, or of a missed limit, with its sentence."""
    reason: str = found["reason"]
    return f"{reason}: {found['detail']}" if found.get("detail") else reason


def lines(found: Runs) -> Iterator[str]:
    """For people."""
    for tried in found.specs:
        result = f"rejects {len(tried.rejected)} of {tried.runs}"
        yield f"{printable(tried.spec)}: {result if tried.rejected else f'accepts all {tried.runs}'} runs"
        yield from (f"    {each}" for each in tried.rejected)
        yield from (f"    {hint}" for hint in tried.hints())
    if found.unjudged:
        some = ", ".join(map(printable, found.unjudged[:5]))
        more = ", ..." if len(found.unjudged) > 5 else ""
        yield f"{len(found.unjudged)} runs are judged by no spec: {some}{more}"


def untested(found: Runs) -> str:
    """Why nothing was tested, where no task and no policy judged a run."""
    if found.unjudged:
        return (
            "no run was judged by any task or policy, so nothing was tested: do the runs name "
            "their spec, or does its match fit them?"
        )
    return "there are no runs for a task or a policy, so nothing was tested"
