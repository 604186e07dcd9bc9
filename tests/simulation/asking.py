"""Clients that ask before calls are made: of a world's calls, and of some that nobody makes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

from collector.calls.decisions.decided_calls import CONFIRM_NS, Outcome, QuestionCall
from collector.decode.span import Resource, Span
from tests.simulation.ends import Service
from tests.simulation.wire import SECOND

__all__ = ["CONFIRM_NS", "Question", "questions"]


class Question(NamedTuple):
    """What a client asks at a time, and what it tells of the call later."""

    now: int
    asked: tuple[QuestionCall, ...]
    resource: Resource
    outcome: Outcome | None
    told_ns: int
    commit: bool = True
    is_phantom: bool = False
    """Nobody makes the call."""

    def earlier(self, by: int) -> Question:
        """The same, so many nanoseconds earlier."""
        return self._replace(now=self.now - by, told_ns=self.told_ns - by)

    @property
    def names_session(self) -> bool:
        """True if the client says whose session the call is of."""
        return any(each.session for each in self.asked)

    @property
    def tells_made(self) -> bool:
        """True if the client tells that the call was made."""
        return self.outcome in ("ran", "failed")

    def without_news(self) -> Question:
        """The same of a client that knows the trace alone, and does not tell that a call was made."""
        asked = tuple(
            each._replace(session="") if each.trace_id else each for each in self.asked
        )
        outcome = None if self.tells_made else self.outcome
        return self._replace(asked=asked, outcome=outcome)

    def ask(self, service: Service) -> list[str]:
        """Asks; returns the ids of the decisions."""
        made = service.pipeline.decide(
            self.asked, self.resource, None, self.now, commit=self.commit
        )
        return [service.pipeline.decided.name(each.number) for each in made if each.number]

    def tell(self, service: Service, decision_ids: Iterable[str]) -> None:
        """Tells the outcome, if the client does."""
        for each in decision_ids:
            if self.outcome is not None:
                service.pipeline.settle(each, self.outcome, None, self.told_ns)


def questions(
    spans: Iterable[Span], names: dict[bytes, str], chance: Random, *, is_lossy: bool = False
) -> list[Question]:
    """The questions of one client for each service.

    Args:
        spans: all that are made, also those that are lost on the way.
        names: trace -> the session that its spans tell, in the end.
        chance: what is asked, and what is told.
        is_lossy: whether spans get lost: of a call that is told to have run, none may come.
    """
    resources: dict[str, Resource] = {}
    gives_ids = chance.random() < 0.5
    tools = [span for span in spans if "gen_ai.tool.name" in span.shape]
    inner = {each.span_id for each in tools if "gen_ai.tool.call.arguments" not in each.shape}
    outer = {each.span_id for each in tools}
    asked = [
        each for each in tools if not (each.span_id in inner and each.parent_span_id in outer)
    ]
    found: list[Question] = []
    for span in asked:
        if chance.random() < 0.1:
            continue
        attributes = _attributes(span)
        service = str(span.resource.attributes["service.name"])
        resource = resources.setdefault(service, Resource({"service.name": service}))
        begin = span.start_ns
        # A client may ask inside the call's span. A denied call whose span failed around it was refused.
        if not span.status and chance.random() < 0.2:
            begin += chance.randrange(max(1, span.end_ns - span.start_ns))
        else:
            begin -= chance.randrange(1, SECOND // 50)
        made = _made(
            span, attributes, names.get(span.trace_id, ""), chance, gives_ids=gives_ids
        )
        outcome: Outcome | None = None
        if not is_lossy and chance.random() < 0.5:
            outcome = "failed" if span.status else "ran"
        told = max(begin, span.end_ns) + chance.randrange(SECOND // 10)
        if chance.random() < 0.3:
            found.append(Question(begin, (made,), resource, None, begin, commit=False))
        found.append(Question(begin, (made,), resource, outcome, told))
        if chance.random() < 0.2:  # a call that is not made
            other = made._replace(
                tool=chance.choice(("look", "pay", "wipe")),
                call_id=f"never-{len(found)}",
                span_id=b"",
                arguments={"amount": 9_999},
            )
            skipped: Outcome | None = chance.choice(("skipped", None))
            found.append(
                Question(
                    begin + 1, (other,), resource, skipped, begin + SECOND, is_phantom=True
                )
            )
    return sorted(found, key=lambda each: each.now)


def _attributes(span: Span) -> dict[str, Any]:
    return dict(zip(span.shape, span.values, strict=True))


def _made(
    span: Span, attributes: dict[str, Any], name: str, chance: Random, *, gives_ids: bool
) -> QuestionCall:
    """A call as its client asks: with some of the ids that its span will have."""
    text = attributes.get("gen_ai.tool.call.arguments")
    by_session = bool(name) and chance.random() < 0.7
    by_trace = not by_session or chance.random() < 0.6
    has_span = by_trace and chance.random() < 0.4
    return QuestionCall(
        name if by_session else "",
        "",
        attributes["gen_ai.tool.name"],
        json.loads(text) if text is not None else None,
        attributes["gen_ai.tool.call.id"] if gives_ids else "",
        span.trace_id if by_trace else b"",
        span.span_id if has_span else b"",
        span.parent_span_id if by_trace and chance.random() < 0.5 else b"",
    )
