"""Judgement objects in words: what the demo prints, line by line.

Everything an agent says is hostile text, so it goes through `printable` before a terminal sees it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from collector.offline.tables import printable

__all__ = ["CALL_WIDTH", "Paint", "call", "heading", "places", "report", "step_lines"]

KINDS = {"progress": "progress", "self_loop": "no change", "harmful": "HARMFUL"}
COLOURS = {"progress": "32", "self_loop": "2", "harmful": "1;31"}
CALL_WIDTH = 36


class Paint:
    """Colours a text, or returns it unchanged."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured

    def __call__(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured and code else text


def places(found: Mapping[str, str]) -> Iterator[str]:
    """Where the service can be reached, by listener."""
    yield f"  spans    grpc://{found['grpc']}"
    yield f"  metrics  http://{found['metrics']}/metrics"
    yield f"  API      http://{found['admin']}/api/v1/sessions"
    yield f"  page     http://{found['admin']}/"


def heading(judgement: Mapping[str, Any], paint: Paint) -> str:
    """The line above the calls of a session."""
    return "\n" + paint(f"session {printable(judgement['session'])}", "1")


def step_lines(
    step: Mapping[str, Any], after_ms: float | None, broken: str | None, paint: Paint
) -> Iterator[str]:
    """One call: what it was, and for a harmful one why, and how soon that was known.

    Args:
        step: of a judgement's `steps`.
        after_ms: milliseconds from the end of the call to its verdict, where measured.
        broken: the constraint of a policy that the call breaks too.
        paint: how to colour.
    """
    kind = step["kind"]
    verdict = paint(f"{KINDS[kind]:<9}", COLOURS[kind])
    yield f"  {step['index']:>2}  {_call(step):<{CALL_WIDTH}}  {verdict}  {_why(step)}".rstrip()
    if kind != "harmful":
        return
    indent = " " * 6
    if step["skipped"]:
        yield f"{indent}skipped: {_names(step['skipped'])}"
    yield f"{indent}allowed: {_names(step['allowed'])}"
    if broken:
        yield f"{indent}policy:  {printable(broken)}"
    if after_ms is not None:
        yield f"{indent}known {after_ms:.0f} ms after the call ended"


def _call(step: Mapping[str, Any]) -> str:
    return call(step["tool"], step["arguments"] or {})


def call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in the usual notation, cut to the width of its column."""
    given = ", ".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())
    text = printable(f"{tool}({given})")
    return text if len(text) <= CALL_WIDTH else text[: CALL_WIDTH - 1] + "…"


def _why(step: Mapping[str, Any]) -> str:
    if step["kind"] == "progress":
        return f"-> {printable(step['state'] or '?')}"
    return str(step["reason"] or "").replace("_", " ")


def _names(symbols: Sequence[str]) -> str:
    return ", ".join(map(printable, symbols))


def report(
    judgements: Iterable[Mapping[str, Any]],
    samples: Iterable[str],
    paint: Paint,
    prevented: Mapping[str, int] | None = None,
) -> Iterator[str]:
    """The closing table, and some lines as a scrape shows them.

    Args:
        judgements: one for each row.
        samples: of `/metrics`.
        paint: how to colour.
        prevented: session -> calls that were denied and not made; None leaves the column out.
    """
    judgements = [*judgements]
    width = max([34, *(len(printable(each["session"])) + 1 for each in judgements)])
    column = "" if prevented is None else f"{'prevented':>11}"
    yield ""
    yield paint("all sessions", "1")
    yield f"  {'session':<{width}}{'calls':>5}{'harmful':>9}{column}{'HarmRate':>10}{'PrefixCrit':>12}  ended in"
    for found in judgements:
        row = (
            f"  {printable(found['session']):<{width}}{found['calls']:>5}{found['harmful']:>9}"
        )
        if prevented is not None:
            row += f"{prevented.get(found['session'], 0):>11}"
        scores = f"{_score(found['harm_rate']):>10}{_score(found['prefix_crit']):>12}"
        yield f"{row}{scores}  {printable(found['state'] or '-')}"
    yield ""
    yield paint("what Prometheus reads", "1")
    for line in samples:
        yield f"  {line}"


def _score(score: float | None) -> str:
    """Three digits; a dash where the score is undefined."""
    return "-" if score is None else f"{score:.3f}"
