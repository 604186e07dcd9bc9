"""`offrails learn`: recorded runs -> a reference, with what to know before it is used."""

from __future__ import annotations

import csv
import gc
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from collector import __version__
from collector.client.verb_error import VerbError
from collector.decode.span import Span
from collector.offline.drafts.draft_spec import Draft, draft, learner
from collector.offline.plain_runs import AgentRun
from collector.offline.progress_bar import Progress
from collector.offline.replay import Recording, recorded, sessions
from collector.offline.tables import printable
from collector.offline.value_origins import own_values, value_watch
from monitor.errors import SpecError
from monitor.findings import Finding, has_errors
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.reference.runs_needed import runs_needed, runs_needed_lines
from monitor.reference.settings import RISK_FALSE_PER_1000, VERSION
from monitor.spec.compiler.compile import compile_text
from monitor.spec.learnt_reference import Alarm, LearntReference, RiskCeiling
from monitor.spec.read import load_spec
from monitor.spec.spec import Spec

__all__ = [
    "BadLabels",
    "Files",
    "Keys",
    "given_writes",
    "learn_files",
    "page_lines",
    "read_files",
    "risk_alarm_line",
]

AGENT, SERVICE = "gen_ai.agent.name", "service.name"
_FINE = frozenset({"true", "1", "1.0", "yes", "ok", "pass", "passed", "success"})


class BadLabels(VerbError):  # noqa: N818 - it names the input
    """Outcomes cannot be read; the message says why."""


class _Outcomes(NamedTuple):
    """How a run has its outcome: by an attribute, by a file, or not at all."""

    attribute: str = ""
    value: Any = None
    labels: Mapping[str, bool] | None = None


class Keys(NamedTuple):
    """Where runs say their task and their agent; "" for where they usually do.

    A key of a plain run; an attribute of spans or their resource.
    """

    task: str = ""
    agent: str = ""


class Files(NamedTuple):
    """Runs of some files, and what is known of the files."""

    runs: list[SeenRun]
    files: list[dict[str, Any]]
    unlabelled: int
    """Runs that a file of labels says nothing of: they are left out."""
    services: frozenset[str]


def learn_files(
    files: Sequence[Path],
    out: Path,
    *,
    id_: str,
    writes: str | None = None,
    success: str | None = None,
    labels: Path | None = None,
    update: Path | None = None,
    spec: Path | None = None,
    false_pages: float | None = None,
) -> Iterator[str]:
    """Learns a reference and writes it; what a person should know of it comes as lines.

    Args:
        files: OTLP/JSON lines or plain runs.
        out: for the document.
        id_: of the reference; "" for that of `update`.
        writes: tools that change something, with commas between; None: inferred.
        success: ATTR=VALUE of a successful run.
        labels: a file of outcomes.
        update: the reference that this one is to replace.
        spec: for a drafted task spec, too.
        false_pages: pages in usual runs, of 1,000, that are to be promised at most; None: as in `update`.

    Raises:
        NoLearner: there is to be a spec, and the extra is not installed.
        BadInput: a file cannot be read.
        BadLabels: outcomes cannot be read, or there are no runs, or no older reference.
    """
    alergia = learner() if spec is not None else None
    old = _old(update) if update is not None else None
    for each in (out, spec):
        # Better now than after minutes of learning.
        if each is not None:
            each.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(files)
    given = _given(writes, old)
    with _uncollected():
        found = read_files(files, success, labels, progress, writes=given)
    if not found.runs:
        raise BadLabels(
            f"no run has a label of {labels}"
            if found.unlabelled
            else "there are no runs to learn from"
        )
    _one_agent(found)
    source = {"files": found.files, "version": __version__, "settings": VERSION}
    progress.begin("comparing the runs")
    learnt = _bounded(learn(found.runs, given, source), old, false_pages)
    own = id_ or (old.id if old is not None else "")
    number = _next(old.version) if old is not None else "1"
    text = reference_text(learnt, own, number, _match(found))
    out.write_text(text, encoding="utf-8")
    yield from _summary(learnt, own, number, out, found)
    yield from page_lines(
        learnt.split_alarms, learnt.page_false_per_1000, provenance=learnt.provenance
    )
    yield risk_alarm_line(learnt.risk_alarm)
    if not _match(found):
        yield (
            "no one agent to watch: live sessions are watched only if they name it in `offrails.spec`; "
            f"else write `match` into it, for example `match: {{{SERVICE}: NAME}}`"
        )
    if not learnt.failures:
        yield "no run is known to have failed: until the end the risk tells hardly more than chance does"
    yield from runs_needed_lines(runs_needed([found.runs], given))
    _, doubts = compile_text(text, out.name)
    yield from _doubts(doubts)
    if old is not None and old.learnt is not None:
        yield from _difference(old.learnt, learnt, old.version, number)
    if has_errors(doubts):
        yield "It does not load as it is: learn it from other runs, such as shorter or fewer ones."
    else:
        yield f"now `offrails draw {printable(str(out))}` to look at it, and `serve --specs`"
    if spec is not None:
        yield from _drafted(draft(found.runs, f"{own}_task", _match(found), alergia), spec)


def _bounded(
    learnt: LearntReference, old: Spec | None, false_pages: float | None
) -> LearntReference:
    """The reference with what a person wants of its pages: said now, or in the older version."""
    before = old.learnt if old is not None else None
    if before is None:
        return replace(learnt, page_false_per_1000=false_pages)
    bound = before.page_false_per_1000 if false_pages is None else false_pages
    return replace(learnt, page_precision=before.page_precision, page_false_per_1000=bound)


def page_lines(
    alarms: Mapping[str, Alarm], false_pages: float | None, *, provenance: bool
) -> Iterator[str]:
    """What pages ask for, what can be promised of those for a writing tool that no usual run called, and what is missing to a bound."""
    if provenance:
        yield "the runs have results: a write whose values are known not to come from one is a hint (provenance)"
    worth = alarms.get("new_write_tool")
    most = worth.at_most_per_1000 if worth is not None else None
    if most is not None:
        yield f"new_write_tool is false in at most {most:.0f} of 1,000 further usual runs (conformal rule)"
    if false_pages is not None and (most is None or most > false_pages):
        needed = math.ceil(1000 / false_pages) - 1 if false_pages else None
        why = (
            f"it takes {needed} usual runs at least, judged without a false one"
            if needed
            else "no number of runs can"
        )
        yield f"it pages nobody: {false_pages:g} of 1,000 cannot be promised; {why}"


def risk_alarm_line(risk_alarm: float | None) -> str:
    """From where the risk of the tools called raises its alarm, or why it raises none."""
    if risk_alarm is None or risk_alarm >= 1:
        needed = math.ceil(1000 / RISK_FALSE_PER_1000) - 1
        return (
            f"the risk raises no alarm: {RISK_FALSE_PER_1000:g} false ones in 1,000 usual runs cannot be promised; "
            f"it takes {needed} usual runs at least, each judged by others"
        )
    return (
        f"the risk raises its alarm from {risk_alarm:.2f}: "
        f"in at most {RISK_FALSE_PER_1000:g} of 1,000 further usual runs (conformal rule)"
    )


def _one_agent(found: Files) -> None:
    """Tells where a reference is to be of several agents: what is usual of one is not of another."""
    agents = sorted({run.agent for run in found.runs} - {""})
    if len(agents) > 1:
        named = ", ".join(map(printable, agents[:5])) + (", ..." if len(agents) > 5 else "")
        warning = f"these runs are of {len(agents)} agents, and one reference is learnt of all: {named}"
        print(f"offrails: {warning}", file=sys.stderr)


def _doubts(findings: Sequence[Finding]) -> Iterator[str]:
    """What the compiler says of the new reference."""
    for each in findings:
        yield printable(f"{each.severity} {each.code}: {each.message}")
        yield f"    {each.impact}"


def _drafted(found: Draft, out: Path) -> Iterator[str]:
    """Writes the drafted spec, and says what a reviewer should know of it."""
    out.write_text(found.text, encoding="utf-8")
    yield f"{out}: a task spec, drafted for review"
    yield from (f"  {printable(line)}" for line in found.notes)
    yield from (f"  {printable(str(each))}" for each in found.findings)
    if has_errors(found.findings):
        yield "  It does not load as it is: mend it first."


def given_writes(text: str) -> list[str]:
    """The tools that are named with commas between."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _given(writes: str | None, old: Spec | None) -> list[str] | None:
    if writes is not None:
        return given_writes(writes)
    if old is not None and old.learnt is not None and old.learnt.writes_from == "given":
        return sorted(old.learnt.writes)
    return None


def _old(file: Path) -> Spec:
    try:
        spec = load_spec(file)
    except SpecError as problem:
        raise BadLabels(f"{file}: {problem}") from None
    if spec.learnt is None:
        raise BadLabels(f"{file}: not a learnt reference")
    return spec


def _next(old: str) -> str:
    return str(int(old) + 1) if old.isdecimal() else f"{old}.1"


def _match(found: Files) -> dict[str, Any]:
    """The agent it was learnt from, where there is one."""
    agents = {run.agent for run in found.runs}
    if len(agents) != 1:
        return {}
    agent = agents.pop()
    return {SERVICE if agent in found.services else AGENT: agent} if agent else {}


# --- reading ----------------------------------------------------------------------------------


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for cycles meanwhile: all that is read is kept, and looking costs a third."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read_files(
    files: Sequence[Path],
    success: str | None = None,
    labels: Path | None = None,
    progress: Progress | None = None,
    keys: Keys | None = None,
    writes: Sequence[str] | None = None,
) -> Files:
    """The runs of some files, with their outcomes and tasks where these are known.

    Args:
        files: the files.
        success: ATTR=VALUE of a successful run.
        labels: a file of outcomes.
        progress: is told how far it is.
        keys: where runs say their task and agent.
        writes: tools that change something; None: inferred from their names.
    """
    keys = keys or Keys()
    watch = value_watch(writes)
    outcomes = _outcomes(success, labels)
    progress = progress or Progress(files)
    runs: list[SeenRun] = []
    hashed: list[dict[str, Any]] = []
    services: set[str] = set()
    known = not outcomes.attribute
    for file in files:
        found = recorded(file, progress)
        known = known or _has_outcome(found, outcomes.attribute)
        here = [_plain(run, outcomes, keys, watch) for run in found.runs]
        if found.requests:
            here += _traced(found.requests, outcomes, keys, progress, watch)
            services |= {
                str(span.resource.attributes.get(SERVICE, ""))
                for spans in found.requests
                for span in spans
            }
        hashed.append({"name": file.name, "sha256": _hash(file), "runs": len(here)})
        runs += here
    if runs and not known:
        raise BadLabels(f"--success: no run has the attribute {outcomes.attribute!r}")
    # The order of files and of runs in them makes no difference.
    hashed.sort(key=lambda each: (each["name"], each["sha256"]))
    kept = [run for run in runs if outcomes.labels is None or run.success is not None]
    return Files(kept, hashed, len(runs) - len(kept), frozenset(services - {""}))


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _plain(run: AgentRun, outcomes: _Outcomes, keys: Keys, watch: Spec) -> SeenRun:
    success = None
    if outcomes.attribute:
        success = _equal(run.facts.get(outcomes.attribute), outcomes.value)
    elif outcomes.labels is not None:
        success = outcomes.labels.get(run.session)
    calls = (
        seen_call(each.tool, each.arguments, failed=each.failed, is_own=is_own)
        for each, is_own in zip(run.calls, own_values(run, watch), strict=True)
    )
    agent = str(run.facts.get(keys.agent, "")) if keys.agent else run.agent
    task = str(run.facts.get(keys.task, "")) if keys.task else run.task
    return SeenRun(run.session, agent, tuple(calls), success, task)


def _traced(
    requests: Sequence[Sequence[Span]],
    outcomes: _Outcomes,
    keys: Keys,
    progress: Progress,
    watch: Spec,
) -> list[SeenRun]:
    """Sessions of recorded spans; an `offrails.spec` among them is not looked at."""
    good = _successful(requests, outcomes)
    tasks, agents = _told(requests, keys.task), _told(requests, keys.agent)
    runs = []
    for found in sessions(requests, [watch], progress):
        steps = found["steps"]
        success = None
        if outcomes.attribute:
            success = any(step["trace_id"] in good for step in steps)
        elif outcomes.labels is not None:
            success = outcomes.labels.get(found["session"])
        calls = (
            seen_call(
                step["tool"],
                step["arguments"],
                failed=step["error"],
                is_own=step.get("own_values", False),
            )
            for step in steps
        )
        agent = "" if found["agent"] == "unknown" else found["agent"]
        traces = [step["trace_id"] for step in steps]
        agent = _first(agents, traces) or agent
        task = _first(tasks, traces)
        runs.append(SeenRun(found["session"], agent, tuple(calls), success, task))
    return runs


def _told(requests: Sequence[Sequence[Span]], key: str) -> dict[str, str]:
    """What a span or resource attribute says of each trace."""
    found: dict[str, str] = {}
    for span in (span for spans in requests for span in spans) if key else ():
        value = span.attributes().get(key, span.resource.attributes.get(key))
        if isinstance(value, str | int | float):
            found.setdefault(span.trace_id.hex(), str(value))
    return found


def _first(told: Mapping[str, str], traces: Sequence[str]) -> str:
    return next((told[trace] for trace in traces if trace in told), "")


def _has_outcome(found: Recording, attribute: str) -> bool:
    """True if a run, or a span or a resource of it, has the attribute at all."""
    if any(attribute in run.facts for run in found.runs):
        return True
    spans = (span for request in found.requests for span in request)
    return any(
        attribute in span.resource.attributes or attribute in span.attributes()
        for span in spans
    )


def _successful(requests: Sequence[Sequence[Span]], outcomes: _Outcomes) -> set[str]:
    """Traces with a span, or a resource, that has the attribute of success."""
    if not outcomes.attribute:
        return set()
    return {
        span.trace_id.hex()
        for spans in requests
        for span in spans
        if _equal(span.resource.attributes.get(outcomes.attribute), outcomes.value)
        or _equal(span.attributes().get(outcomes.attribute), outcomes.value)
    }


def _equal(found: Any, wanted: Any) -> bool:
    """Equal as arguments are: 1 is 1.0, True is not 1; a text also as it was written."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted or (
            isinstance(found, str) and found.lower() == str(wanted).lower()
        )
    return bool(found == wanted) or (isinstance(found, str) and found == str(wanted))


def _outcomes(success: str | None, labels: Path | None) -> _Outcomes:
    if success is not None:
        attribute, equals, text = success.partition("=")
        if not attribute or not equals:
            raise BadLabels(f"--success: expected ATTR=VALUE, not {success!r}")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        return _Outcomes(attribute, value)
    return _Outcomes(labels=None if labels is None else _labels(labels))


def _labels(file: Path) -> dict[str, bool]:
    """Outcomes by session: a JSON object, JSON lines, or CSV (session, success)."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadLabels(f"{file}: expected UTF-8 text") from None
    as_json = text.lstrip().startswith("{")
    if as_json:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if found is not None and not {"session", "run"} & set(found):
            return {str(key): _is_fine(value) for key, value in found.items()}
    read = _label if as_json else _row
    labels = {}
    # JSON has other ends of lines inside its texts; CSV has its own.
    lines = text.split("\n") if as_json else text.splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            if line.strip():
                session, value = read(line)
                labels[session] = _is_fine(value)
        except (ValueError, KeyError, TypeError, csv.Error) as problem:
            raise BadLabels(
                f"{file}:{number}: expected a session and its success a line, or an object of "
                f"both: {problem}"
            ) from None
    if not as_json:
        labels.pop("session", None)  # the head
    return labels


def _label(line: str) -> tuple[str, Any]:
    found = json.loads(line)
    return str(found["session"] if "session" in found else found["run"]), found["success"]


def _row(line: str) -> tuple[str, str]:
    row = next(csv.reader([line]))
    if len(row) == 1:
        raise ValueError("there is no comma")
    return row[0].strip(), row[1].strip()


def _is_fine(value: Any) -> bool:
    return str(value).lower() in _FINE


# --- the summary ------------------------------------------------------------------------------


def _summary(
    learnt: LearntReference, id_: str, number: str, out: Path, found: Files
) -> Iterator[str]:
    failed = f" and {learnt.failures} that failed" if learnt.source.get("labelled") else ""
    yield f"{out}: reference {printable(id_)}, version {number}"
    yield f"learnt from {learnt.runs} runs{failed}, {len(learnt.nodes)} nodes"
    if found.unlabelled:
        yield f"{found.unlabelled} runs without a label were left out"
    if learnt.consistency is not None:
        scores = learnt.consistency
        yield (
            f"TSS {scores['tss']:.3f}, AC {scores['ac_paper']:.3f} (as published code has it "
            f"{scores['ac_repository']:.3f}), {scores['unique_sequences']} sequences"
        )
    yield f"medoid: {', '.join(map(printable, learnt.medoid)) or '(no calls)'}"
    how = "given" if learnt.writes_from == "given" else "inferred from the names, please review"
    yield f"writes ({how}): {_list(learnt.writes)}"
    reads = set(learnt.tools) - learnt.writes
    yield f"reads: {_list(reads)}"
    yield "alarms, half of the runs judged by a reference of the other half; below, each run judged by the others:"
    if not learnt.split_alarms:
        yield "  fewer than two usual runs: there is no half to judge by, and the figures below flatter"
    for name, alarm in learnt.alarms.items():
        split = learnt.split_alarms.get(name)
        if split is not None:
            yield f"  {name:<17} {_figures(split)}"
        yield f"  {name if split is None else '':<17} {_figures(alarm)}"
    yield from _ceiling(learnt.ceiling)


def _list(tools: Any) -> str:
    return ", ".join(printable(tool) for tool in sorted(tools)) or "none"


def _ceiling(ceiling: RiskCeiling | None) -> Iterator[str]:
    if ceiling is not None and ceiling.area is not None:
        yield (
            f"ceiling: with the whole run the risk ranks {ceiling.area:.2f} of failed above successful runs "
            f"({ceiling.failures} of {ceiling.runs} failed); what it misses then cannot be seen in calls"
        )


def _figures(alarm: Alarm) -> str:
    precision = "-" if alarm.precision is None else f"{alarm.precision:.2f}"
    recall = "-" if alarm.recall is None else f"{alarm.recall:.2f}"
    return (
        f"precision {precision}  recall {recall}  false alarms per 1,000 runs "
        f"{alarm.false_per_1000:.0f}  (raised in {alarm.raised} of {alarm.runs})"
    )


def _difference(
    old: LearntReference, new: LearntReference, before: str, now: str
) -> Iterator[str]:
    """What is another in the new version."""
    yield f"version {before} -> {now}:"
    for title, one, other in (
        ("tools", set(old.tools), set(new.tools)),
        ("writes", set(old.writes), set(new.writes)),
        ("expected writes", set(old.expected_writes), set(new.expected_writes)),
    ):
        for sign, tools in (("+", other - one), ("-", one - other)):
            if tools:
                yield f"  {sign} {title}: {_list(tools)}"
    if old.medoid != new.medoid:
        yield f"  medoid was: {', '.join(map(printable, old.medoid)) or '(no calls)'}"
    yield f"  runs {old.runs} -> {new.runs}, nodes {len(old.nodes)} -> {len(new.nodes)}"
    if old.consistency is not None and new.consistency is not None:
        yield f"  TSS {old.consistency['tss']:.3f} -> {new.consistency['tss']:.3f}"
    known = {
        pair for tool, all_ in old.write_calls.items() for pair in ((tool, d) for d in all_)
    }
    seen = {
        pair for tool, all_ in new.write_calls.items() for pair in ((tool, d) for d in all_)
    }
    yield f"  writing calls: {len(seen - known)} new, {len(known - seen)} gone"
