"""`offrails accept VERDICT`: writes into a spec that a harmful call is none, for a time.

A verdict is named as it is shown: `SESSION#STEP` (the terminal), the id of its span (log, alert,
API), or the whole verdict as JSON (a line of the stream of verdicts or of the file of alerts).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from collector.client.api_client import NoAnswerError, ask
from collector.client.verb_error import VerbError
from collector.offline.tables import printable
from monitor.spec.acceptance import NoSuchPlace, is_needless, place_of
from monitor.spec.constraints import SideBySide
from monitor.spec.editing.add_acceptance import EditError, with_acceptance
from monitor.spec.spec import Acceptance, Spec

__all__ = ["HarmfulCall", "NotAccepted", "accept", "by_service", "harmful_calls", "named"]

_SPAN: Final = re.compile(r"[0-9a-f]{16}")
_STEP: Final = re.compile(r"(.+)#([0-9]+)", re.DOTALL)


class NotAccepted(VerbError):  # noqa: N818 - it says what is the case
    """The call cannot be accepted; the message says why, and what to do instead."""


class HarmfulCall(NamedTuple):
    """A harmful call, by its verdict."""

    spec: str
    symbol: str | None
    tool: str
    state: str | None
    constraint: str | None
    reason: str | None

    @classmethod
    def of(cls, verdict: Mapping[str, Any]) -> HarmfulCall:
        """From a verdict, or a step of a judgement with its spec.

        Raises:
            NotAccepted: it is no harmful call.
        """
        if verdict.get("kind") != "harmful":
            raise NotAccepted("that call is not harmful: there is nothing to accept")
        state = verdict.get("state_before", verdict.get("state"))
        return cls(
            str(verdict.get("spec")),
            verdict.get("symbol"),
            str(verdict.get("tool")),
            state,
            verdict.get("constraint"),
            verdict.get("reason"),
        )


# --- which verdict --------------------------------------------------------------------------------


def named(verdict: str) -> tuple[str | None, int | None, str | None]:
    """(session, step, span id) of a verdict's name, each where it has it.

    Raises:
        NotAccepted: it is none.
    """
    if _SPAN.fullmatch(verdict):
        return None, None, verdict
    if found := _STEP.fullmatch(verdict):
        return found[1], int(found[2]), None
    why = "is no verdict: write SESSION#STEP, a span id, or the verdict as JSON"
    raise NotAccepted(f"{printable(verdict)!r} {why}")


def harmful_calls(
    judgements: Iterable[Mapping[str, Any]], verdict: str, spec: str = ""
) -> list[HarmfulCall]:
    """The harmful calls of judgement objects that go by this name."""
    session, step, span = named(verdict)
    return [
        HarmfulCall.of({**each, "spec": judged["spec"]})
        for judged in judgements
        if judged["spec"] and spec in ("", judged["spec"])
        if session in (None, judged["session"])
        for each in judged["steps"]
        if each["kind"] == "harmful"
        if each["span_id"] == span or (step is not None and each["index"] == step)
    ]


def by_service(
    url: str, verdict: str, token_file: Path | None = None
) -> list[Mapping[str, Any]]:
    """Judgement objects of a running service that may have this verdict.

    Raises:
        NotAccepted: it cannot be reached, or does not know the session.
    """
    session, _, span = named(verdict)
    path = "/api/v1/sessions"
    path += f"?span_id={span}" if session is None else "/" + quote(session, safe="")
    try:
        found: list[Mapping[str, Any]] = ask(url, path, token_file)["sessions"]
    except NoAnswerError as problem:
        why = f"{url} knows no such session" if problem.status == 404 else problem
        raise NotAccepted(str(why)) from None
    except KeyError as problem:
        raise NotAccepted(f"{url}: its answer has no {problem}") from None
    return found


# --- the entry ------------------------------------------------------------------------------------


def accept(
    found: Sequence[HarmfulCall], specs: Sequence[Spec], who: str, why: str, until: date
) -> tuple[Path, Acceptance]:
    """Writes the entry into the spec's file.

    Args:
        found: the harmful call under one spec.
        specs: loaded specs, one of them that spec.
        who: who accepts it.
        why: what for.
        until: the last day.

    Returns:
        The file, and what was written.

    Raises:
        NotAccepted: nothing was written.
    """
    one = _only(found)
    spec = next((each for each in specs if each.id == one.spec), None)
    if spec is None:
        raise NotAccepted(
            f"no spec {printable(one.spec)!r} is loaded: name its file by --specs"
        )
    acceptance = _acceptance(one, spec, who, why, until)
    file = Path(spec.file).resolve()
    try:
        text = file.read_bytes().decode()
        _write(file, with_acceptance(text, acceptance))
    except EditError as problem:
        raise NotAccepted(f"{spec.file}: {problem}") from None
    except OSError as problem:
        raise NotAccepted(f"{spec.file}: {problem.strerror or problem}") from None
    return Path(spec.file), acceptance


def _only(found: Sequence[HarmfulCall]) -> HarmfulCall:
    different = list(dict.fromkeys(found))
    if not different:
        raise NotAccepted("no harmful call goes by that name")
    if len(different) > 1:
        specs = ", ".join(sorted({printable(each.spec) for each in different}))
        raise NotAccepted(f"several verdicts go by that name: name one by --spec ({specs})")
    return different[0]


def _acceptance(one: HarmfulCall, spec: Spec, who: str, why: str, until: date) -> Acceptance:
    if one.symbol is None:
        why = "matches no symbol, so no state can accept it: name it in the alphabet"
        raise NotAccepted(f"the call of {printable(one.tool)} {why}")
    if one.reason == "failed_call":
        why = "failed, and `failed_calls: harmful` holds in every state: change the convention"
        raise NotAccepted(f"the call of {printable(one.tool)} {why}")
    if one.state is None:
        raise NotAccepted("several states were possible at the call: accept it in one by hand")
    machine, state = spec.bare or spec.machine, one.state
    if isinstance(machine, SideBySide):
        state = _own_state(machine, one.constraint, one.state)
    acceptance = Acceptance(one.symbol, state, one.constraint, who, why, until)
    if one.symbol not in machine.symbols:
        raise NotAccepted(f"{spec.file} has no symbol {printable(one.symbol)!r} any more")
    place = place_of(acceptance, machine)
    if isinstance(place, NoSuchPlace):
        raise NotAccepted(f"{spec.file}: {place.message}")
    if is_needless(place, machine):
        raise NotAccepted(f"{spec.file} allows the call there already")
    if any(each._replace(who="", why="", until=until) == acceptance._replace(who="", why="")
           for each in spec.accepted):  # fmt: skip
        raise NotAccepted(f"{spec.file} accepts the call there already")
    return acceptance


def _own_state(machine: SideBySide, constraint: str | None, joint: str) -> str:
    """The constraint's own state; a joint state's name has those that have moved."""
    if constraint not in machine.texts:
        raise NotAccepted(f"the spec has no constraint {printable(str(constraint))!r} any more")
    automaton = machine.constraints[machine.texts.index(constraint)].automaton
    joined = f"; {joint}; "
    states = sorted(automaton.states, key=len, reverse=True)
    moved = (state for state in states if f"; {constraint}: {state}; " in joined)
    return next(moved, automaton.name(automaton.initial))


def _write(file: Path, text: str) -> None:
    """All of the text or nothing: a service that watches the file never reads half of it."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
        Path(name).chmod(file.stat().st_mode & 0o7777)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink()
        raise
