"""Both laws, against the truth.

*Sound*: no certain harm, final count or page that is not true.
*Not silent*: a true harm is told as certain where nothing hides it, else as possible or counted by a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from monitor import Kind, Verdict
from tests.simulation.worlds.brute_force import Truth, judge
from tests.simulation.worlds.fault import Hides
from tests.simulation.worlds.service import Told
from tests.simulation.worlds.truth import Answer, Call, Conversation
from tests.simulation.worlds.twins import twins
from tests.simulation.worlds.world import World

FALSE_CERTAIN, SILENT = "false certain", "silent"

# A false certain harm that is true in the world's twin: no law is broken.
CANNOT_BE_TOLD = "cannot be told"

# Reasons that right agents count as well, and that tell nothing of a harm.
_TELL_NOTHING = {"duplicate", "no_dialect", "control", "arguments_late"}

Step = Mapping[str, Any]


@dataclass(frozen=True)
class Broken:
    """A law that does not hold in a world: `false certain` or `silent`, and how.

    Args:
        law: which one.
        what: how, in words.
        page: the page that is false; None for what is told at the end.
        at: when that was told, in seconds since the world began.
    """

    law: str
    what: str
    page: tuple[str, bytes] | None = None
    at: float = float("inf")


def check(world: World, told: Told) -> list[Broken]:
    """Every way in which a world breaks a law, and each false certain harm that nobody could tell from a true one."""
    return [
        each
        for document in world.documents
        for found in _check_spec(world, told, document)
        for each in [_as_far_as_told(world, told, document, found)]
    ]


def _as_far_as_told(
    world: World, told: Told, document: Mapping[str, Any], found: Broken
) -> Broken:
    """What is found; or that it cannot be told, as the law holds in a twin of the world."""
    for other in twins(world, found.at):
        broken = _check_spec(other, told, document)
        if not any((each.law, each.page) == (found.law, found.page) for each in broken):
            return replace(found, law=CANNOT_BE_TOLD)
    return found


def _check_spec(world: World, told: Told, document: Mapping[str, Any]) -> Iterable[Broken]:
    spec = document["id"]
    truths = {each.id: judge(document, each.answers()) for each in world.conversations}
    claims = set(_claims(world, told, spec)) | _ended(world, told, spec)
    final = _claims(world, told, spec, lasting=True)
    for conversation in world.conversations:
        truth = truths[conversation.id]
        numbers = {call.number for call in conversation.calls()}
        lasting = {number: sure for number, sure in final.items() if number in numbers}
        yield from _sound(spec, conversation, truth, lasting)
        folded = _without_steps(told, spec, conversation)
        if len(lasting) + folded > truth.most:
            what = (
                f"{spec}, {conversation.id}: {len(lasting) + folded} harmful calls are certain"
            )
            yield Broken(FALSE_CERTAIN, f"{what}, {truth.most} are true")
        yield from _not_silent(world, told, spec, conversation, truth, claims & numbers, folded)
    yield from _sound_counts(world, told, spec, truths)
    yield from _sound_stream(world, told, spec, truths)
    yield from _stream_is_not_silent(told, spec)


# --- what is claimed ------------------------------------------------------------------------------


def _claims(world: World, told: Told, spec: str, *, lasting: bool = False) -> dict[int, bool]:
    """Calls that are harmful for certain at the end, and whether it is certain that it is this call.

    Of a process that was killed, what was not final by then was told, and does not last.
    """
    found: dict[int, bool] = {}
    for judged in told.judgements:
        if judged["spec"] != spec:
            continue
        for step in judged["steps"]:
            if lasting and judged["killed"] and not step["final"]:
                continue
            if step["kind"] == "harmful" and not step.get("possible"):
                call = _call_of(world, step, found)
                found[call.number if call else -1] = bool(step.get("certain_call", True))
    return found


def _ended(world: World, told: Told, spec: str) -> set[int]:
    """Calls that were told last as harmful for certain, in sessions of other names than conversations' that have ended.

    Such a session is one trace, and is no longer shown.
    """
    shown = {judged["session"] for judged in told.judgements if judged["spec"] == spec}
    shown |= {conversation.id for conversation in world.conversations}
    return {
        call.number
        for verdict in _told_harm(told, spec)
        if verdict.session.id not in shown
        for call in [_call_of_verdict(world, verdict)]
        if call is not None
    }


def _call_of(world: World, step: Step, taken: Iterable[int]) -> Call | None:
    """The true call of a step, by its span; of several that a model asked for, by its id or its tool."""
    fitting = [
        call
        for span in world.spans
        if f"{span.id:016x}" == step["span_id"] and f"{span.trace:032x}" == step["trace_id"]
        for call in span.calls
    ]
    named = [call for call in world.calls() if call.id == step.get("call_id")]
    fitting = fitting or _of_equal_span_ids(world, step) or named
    of_tool = [call for call in fitting if call.tool == step["tool"]]
    free = [call for call in of_tool if call.number not in taken]
    return next(iter(free or of_tool or fitting), None)


def _of_equal_span_ids(world: World, step: Step) -> list[Call]:
    """Calls of its tool with several spans of one id in a step's trace: of the copy that came last, the step has another id."""
    spans = [span for span in world.tool_spans() if f"{span.trace:032x}" == step["trace_id"]]
    ids = [span.id for span in spans]
    calls = [call for span in spans if ids.count(span.id) > 1 for call in span.calls]
    wanted = step.get("call_id")
    return [
        each for each in calls if each.tool == step["tool"] and wanted in (None, "", each.id)
    ]


def _without_steps(told: Told, spec: str, conversation: Conversation) -> int:
    """Harmful calls of a conversation that has gone on after its end: they are counted, and no longer shown."""
    return sum(
        judged["harmful"] - sum(step["kind"] == "harmful" for step in judged["steps"])
        for judged in told.judgements
        if judged["spec"] == spec and judged["session"] == conversation.id
    )


# --- sound ----------------------------------------------------------------------------------------


def _sound(
    spec: str, conversation: Conversation, truth: Truth, claims: Mapping[int, bool]
) -> Iterable[Broken]:
    claimed = 0
    for answer, most in zip(conversation.answers(), truth.by_answer, strict=True):
        claimed += sum(call.number in claims for call in answer.calls)
        if claimed > most:
            what = f"{spec}, {conversation.id}: {claimed} harmful calls are certain, {most} are true"
            yield Broken(FALSE_CERTAIN, f"{what}, up to {answer.calls[-1]}")
            return
    for call in conversation.calls():
        if claims.get(call.number) and not _may_be_harmful(conversation, truth, call):
            yield Broken(FALSE_CERTAIN, f"{spec}, {conversation.id}: {call} is right")
            return


def _may_be_harmful(conversation: Conversation, truth: Truth, call: Call) -> bool:
    """Whether a call is harmful in some order; of calls made at once, which of them it is means little."""
    [answer] = [answer for answer in conversation.answers() if call in answer.calls]
    return any(each.number in truth.harmful for each in answer.calls)


def _sound_counts(
    world: World, told: Told, spec: str, truths: Mapping[str, Truth]
) -> Iterable[Broken]:
    if world.very_late:
        return
    most = sum(truth.most for truth in truths.values())
    if told.finals.get(spec, 0) > most:
        yield Broken(
            FALSE_CERTAIN, f"{spec}: {told.finals[spec]} final harmful calls, {most} are true"
        )
    if world.late:
        return
    for page, verdict in told.pages.items():
        call = _call_of_verdict(world, verdict)
        if (
            page[0] == spec
            and call is not None
            and not _is_true_page(world, truths, call, verdict.certain_call)
        ):
            what = f"{spec}: a page for {call}, which is right"
            yield Broken(FALSE_CERTAIN, what, page, told.paged[page])


def _sound_stream(
    world: World, told: Told, spec: str, truths: Mapping[str, Truth]
) -> Iterable[Broken]:
    """A harm that was told and does not hold is taken back; what was final by then stays as it was told."""
    if world.very_late:
        return
    for verdict in _told_harm(told, spec):
        call = _call_of_verdict(world, verdict)
        if call and not _is_true_page(world, truths, call, verdict.certain_call):
            what = f"{spec}: {call} was told as harmful, and that is never taken back"
            yield Broken(FALSE_CERTAIN, what)
            return


def _stream_is_not_silent(told: Told, spec: str) -> Iterable[Broken]:
    """What the stream says last of a possible harm is that it is one."""
    for judged in told.judgements:
        for step in judged["steps"] if judged["spec"] == spec and not judged["killed"] else ():
            last = told.last.get((spec, bytes.fromhex(step["span_id"])))
            if step.get("possible") and last is not None and not last.possible:
                yield Broken(
                    SILENT, f"{spec}: {step['tool']} is possible harm, and told as {last.kind}"
                )
                return


def _told_harm(told: Told, spec: str) -> Iterable[Verdict]:
    return (
        verdict
        for (of, _), verdict in told.last.items()
        if of == spec and verdict.kind is Kind.HARMFUL and not verdict.possible
    )


def _call_of_verdict(world: World, verdict: Verdict) -> Call | None:
    ids = {"span_id": verdict.span_id.hex(), "trace_id": verdict.trace_id.hex()}
    return _call_of(world, {**ids, "tool": verdict.tool}, ())


def _is_true_page(
    world: World, truths: Mapping[str, Truth], call: Call, certain_call: bool
) -> bool:
    """Whether the call is harmful in some order, or one before it where it may be that one."""
    for conversation in world.conversations:
        truth = truths[conversation.id]
        for answer, most in zip(conversation.answers(), truth.by_answer, strict=True):
            if call in answer.calls:
                return _may_be_harmful(conversation, truth, call) if certain_call else most > 0
    return False


# --- not silent -----------------------------------------------------------------------------------


def _not_silent(
    world: World, told: Told, spec: str, conversation: Conversation, truth: Truth,
    claims: set[int],
    folded: int,
) -> Iterable[Broken]:  # fmt: skip
    of = f"{spec}, {conversation.id}"
    hidden = world.unseen | world.gone | world.vague | world.may_be_told_again()
    plain = truth.without_order - hidden
    missed = plain - claims - _told_of_another(world, claims)
    if len(missed) > folded:
        yield Broken(
            SILENT, f"{of}: #{min(missed)} is wrong in every order, and is not harmful"
        )
        return
    asked = truth.least - len(truth.harmful & world.gone)
    if len(claims) + folded >= asked or world.hides is Hides.UNTOLD:
        return
    if len(claims) + folded >= _heard(world, spec, conversation):
        return
    if world.hides is Hides.NOTHING:
        what = f"{of}: {len(claims)} harmful calls are certain, {truth.least} are true"
        yield Broken(SILENT, f"{what}, and nothing hides one")
    elif not _is_told(world, told, spec, conversation):
        yield Broken(
            SILENT, f"{of}: {len(claims)} of {asked} harmful calls told, and no reason"
        )


def _told_of_another(world: World, claims: set[int]) -> set[int]:
    """Calls of which another one with the same id, tool, arguments and outcome is claimed: which of them is certain means nothing."""
    alike = [{call.number for call in calls} for calls in world.written_alike()]
    return {number for numbers in alike if numbers & claims for number in numbers}


def _heard(world: World, spec: str, conversation: Conversation) -> int:
    """Harmful calls, as far as each process can know: calls of which it hears nothing make no other one harmful."""
    [document] = [each for each in world.documents if each["id"] == spec]
    return sum(
        judge(
            document,
            [
                Answer([call for call in answer.calls if call.number in heard])
                for answer in conversation.answers()
            ],
        ).least
        for heard in world.heard()
    )


def _is_told(world: World, told: Told, spec: str, conversation: Conversation) -> bool:
    if set(told.reasons) - _TELL_NOTHING:
        return True
    numbers = {call.number for call in conversation.calls()}
    return any(
        step.get("possible") and call is not None and call.number in numbers
        for judged in told.judgements
        if judged["spec"] == spec
        for step in judged["steps"]
        for call in [_call_of(world, step, ())]
    )
