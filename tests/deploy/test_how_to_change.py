"""The page on how to change the code names files that are there, and no change needs another one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.samples import sampled

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "how-to-change-it.md"
COPIED: Final = ("collector", "judges", "monitor", "docs", "grafana")
FILES_MAX: Final = 5
"""Files of the product that one change touches."""

SECTION: Final = re.compile(r"^## (Add .*?)( †)?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
STEP: Final = re.compile(r"^\d+\. (.*?)(?=^\d+\. |^$|\Z)", re.MULTILINE | re.DOTALL)
NAMED: Final = re.compile(r"`([\w./-]+/[\w.-]+)`")


class Change(NamedTuple):
    """A made-up change."""

    edits: dict[str, tuple[tuple[str, str], ...]]
    """File -> texts, each with what takes its place. A file that is new has "" alone."""
    seen: str
    """A program that fails unless the change is seen wherever it must be."""


SPEC: Final = """
from monitor import Limits, Monitor, tool_call
from monitor.exposition.metric_samples import families_of
from collector.metrics.text_format import lines
from monitor.spec.compiler.compile import compile_text

TEXT = '''
id: shop
match: {service.name: shop}
alphabet: {look: {tool: look}, pay: {tool: pay}}
golden: [[pay]]
reads: [look]
'''

def monitored(more=''):
    spec, findings = compile_text(TEXT + more, 'shop.yaml')
    assert spec is not None, findings
    monitor = Monitor([spec], Limits(history_complete=True))
    for number, tool in enumerate(('look', 'pay')):
        start = number * 60_000_000_000 + 1
        monitor.observe(
            tool_call(
                tool, {}, session='s', agent='a', attributes={'service.name': 'shop'},
                start_ns=start, end_ns=start + 30_000_000_000,
            ),
            start + 30_000_000_000,
        )
    return monitor

def exposed(monitor):
    return '\\n'.join(map(str, lines(families_of(monitor), open_metrics=False)))
"""
"""A session of a call that is a self-loop and one that makes progress, 30 s each."""

CHANGES: Final = {
    "Add a dialect": Change(
        {
            "collector/dialects/python/homegrown.py": (
                (
                    "",
                    "from collector.dialects.base import Dialect\n"
                    "HOMEGROWN = Dialect(name='homegrown', scopes=('homegrown.',), "
                    "when=('home.tool',), tool=('home.tool',))\n",
                ),
            ),
            "collector/dialects/registry.py": (
                (
                    "    PYDANTIC_AI,\n    OPENAI_AGENTS_TRACELOOP",
                    "    HOMEGROWN,\n    PYDANTIC_AI,\n    OPENAI_AGENTS_TRACELOOP",
                ),
                (
                    "\n__all__",
                    "\nfrom collector.dialects.python.homegrown import HOMEGROWN\n\n__all__",
                ),
            ),
        },
        """
from tests.collector.conftest import Bench, Wire
found = Bench().send(Wire().span("call", {"home.tool": "dig"}, scope="homegrown.agent"))
assert found.tools() == ["dig"], found.tools()
""",
    ),
    "Add a score": Change(
        {
            "monitor/scores/paper_formulas.py": (
                (
                    "def efficiency(",
                    "def waste(path: Path, condensed: Path) -> float:\n"
                    "    return 1 - len(condensed) / len(path) if path else 0.0\n\n\n"
                    "def efficiency(",
                ),
            ),
            "monitor/scores/running_scores.py": (
                (
                    "def efficiency(",
                    "def waste(calls: int, substantive: int) -> float:\n"
                    "    return 1 - substantive / calls if calls else 0.0\n\n\n"
                    "def efficiency(",
                ),
            ),
            "monitor/scores/score_records.py": (
                (
                    "    efficiency: float | None = None\n",
                    "    efficiency: float | None = None\n    waste: float | None = None\n",
                ),
                (
                    '    "efficiency": ScoreDescription(',
                    '    "waste": ScoreDescription("Waste", "waste", "Mean Waste.", '
                    'lower_is_better=True),\n    "efficiency": ScoreDescription(',
                ),
            ),
            "monitor/session/judgement/episode_scores.py": (
                ("PathRows, efficiency\n", "PathRows, efficiency, waste\n"),
                (
                    "        efficiency=efficiency(\n",
                    "        waste=waste(tally.calls, tally.substantive),\n"
                    "        efficiency=efficiency(\n",
                ),
            ),
            "collector/api/session_view/script/glossary.js": (
                (
                    "\n};\n\nconst LETTERS",
                    "\n  'Waste': ['Calls without effect.', '1 - N / n', 'waste'],\n};\n\nconst LETTERS",
                ),
            ),
        },
        SPEC
        + """
from monitor.records import SessionKey
monitor = monitored()
(judgement,) = monitor.find("s")
assert judgement["waste"] == 0.5, judgement
(ended,) = monitor.end(SessionKey("", "s"), 200_000_000_000)
assert ended.scores.waste == 0.5
assert 'offrails_waste{agent="a",spec="shop"} 0.5' in exposed(monitor)
from collector.offline.tables import means, table
from collector.offline.compare_agents import means as mean_scores, spreads
assert "Waste" in next(table([judgement]))
assert any(line.startswith("Waste") for line in means(mean_scores([judgement])))
assert {each.worst for each in spreads([judgement, judgement | {"waste": 0.75}]) if each.score == "waste"} == {0.75}
from collector.restart.snapshot_layout import KINDS
for name in ("episode", "finished scores", "scores of a session"):
    kind = KINDS.by_name[name]
    assert kind.version == 2 and kind.fields[-1] == "waste" and kind.changes[0].added["waste"]() is None
from docs.reference_pages import metrics
assert "`offrails_waste`" in metrics()
from grafana.boards import BOARDS
assert "Waste" in repr(BOARDS)
""",
    ),
    "Add a limit on time": Change(
        {
            "monitor/spec/document/schema.py": (
                ('    "idle",\n]', '    "idle",\n    "slow",\n]'),
                (
                    "    accept: Annotated[",
                    "    slow: Annotated[float | None, Field(gt=0, description='of one call')] = None\n"
                    "    accept: Annotated[",
                ),
            ),
            "monitor/spec/timing.py": (
                (
                    "    def times(self)",
                    '    call_ns: int = 0\n    """How long one call may take."""\n\n    def times(self)',
                ),
                ("found += [self.idle_ns", "found += [self.call_ns, self.idle_ns"),
            ),
            "monitor/spec/compiler/timing.py": (
                (
                    "return SpecTiming(",
                    "return SpecTiming(call_ns=round((model.slow or 0) * _SECOND), deadlines=",
                ),
                ("tuple(deadlines), round(", "tuple(deadlines), idle_ns=round("),
                ("tuple(deadlines), 0, _by_state", "tuple(deadlines), idle_by_state=_by_state"),
            ),
            "monitor/records.py": (
                (
                    '    IDLE = "idle"\n',
                    '    SLOW = "slow"\n    """A call took too long."""\n    IDLE = "idle"\n',
                ),
                (
                    "    Obstacle.IDLE: Kind.STALLED,\n",
                    "    Obstacle.IDLE: Kind.STALLED,\n    Obstacle.SLOW: Kind.STALLED,\n",
                ),
            ),
            "monitor/session/time_limits/timing.py": (
                (
                    "        end = max(row.at, row.end)\n",
                    "        end = max(row.at, row.end)\n"
                    "        limit = self._judge.spec.timing.call_ns\n"
                    "        if limit and end - row.at > limit:\n"
                    "            due = row.at + limit\n"
                    '            self._miss(Kind.STALLED, Obstacle.SLOW, "slow", mark, due, limit)\n',
                ),
                (
                    "    if self.obstacle is Obstacle.IDLE:",
                    "    if self.obstacle is Obstacle.SLOW:\n"
                    '        return shortened(f"a call took longer than {limit}")\n'
                    "    if self.obstacle is Obstacle.IDLE:",
                ),
            ),
        },
        SPEC
        + """
monitor = monitored('slow: 20\\nseverity: {reasons: {slow: critical}}')
monitor.tick(100_000_000_000)
(judgement,) = monitor.find("s")
assert [(each["reason"], each["detail"]) for each in judgement["missed"]] == [("slow", "a call took longer than 20 s")] * 2
from monitor.records import SessionKey
monitor.end(SessionKey("", "s"), 200_000_000_000)
assert 'verdict="stalled",reason="slow"} 2' in exposed(monitor)
from monitor.spec.document.schema import json_schema
assert "slow" in json_schema()["$defs"]["SpecDocument"]["properties"]
""",
    ),
    "Add a spec key": Change(
        {
            "monitor/spec/document/schema.py": (
                (
                    "    accept: Annotated[",
                    "    owner: Annotated[str, Field(description='who keeps it')] = ''\n"
                    "    accept: Annotated[",
                ),
            ),
            "monitor/spec/spec.py": (
                (
                    "    traps: tuple[Trap, ...] = ()\n",
                    '    traps: tuple[Trap, ...] = ()\n    owner: str = ""\n',
                ),
            ),
            "monitor/spec/compiler/compile.py": (
                (
                    "        enforce=model.enforce,\n",
                    "        enforce=model.enforce,\n        owner=model.owner,\n",
                ),
            ),
        },
        SPEC
        + """
spec, _ = compile_text(TEXT + 'owner: farm', 'shop.yaml')
assert spec.owner == "farm"
_, (fault,) = compile_text(TEXT + 'owner: 3', 'shop.yaml')
assert fault.line == 7, fault
from monitor.spec.document.schema import json_schema
assert "owner" in json_schema()["$defs"]["SpecDocument"]["properties"]
""",
    ),
    "Add a setting": Change(
        {
            "collector/config/settings/sessions.py": (
                (
                    "    max: Annotated[",
                    "    nap_seconds: Annotated[Number, Field(gt=0, description='How long to nap.')] = 3.0\n"
                    "    max: Annotated[",
                ),
                (
                    "\n__all__",
                    "\nfrom collector.config.field_types import Number\n\n__all__",
                ),
            ),
        },
        """
from collector.config.sources import SettingsError, load
assert load(None, {"OFFRAILS_SESSIONS_NAP_SECONDS": "5"}, {}).sessions.nap_seconds == 5.0
try:
    load(None, {"OFFRAILS_SESSIONS_NAP_SECONDS": "0"}, {})
    raise AssertionError
except SettingsError as problem:
    assert "sessions.nap_seconds" in str(problem)
from docs.reference_pages import settings
assert "| `sessions.nap_seconds` | `OFFRAILS_SESSIONS_NAP_SECONDS` |" in settings()
""",
    ),
    "Add a field to the API": Change(
        {
            "monitor/session/report/judgement_object.py": (
                (
                    '        "late_calls": judgement.late,\n',
                    '        "late_calls": judgement.late,\n        "tools": len({each["tool"] for each in steps}),\n',
                ),
            ),
        },
        SPEC
        + """
assert monitored().find("s")[0]["tools"] == 2
""",
    ),
}


def sections() -> dict[str, tuple[list[str], bool]]:
    """Title -> what each step of its list says, and whether an example is promised."""
    return {
        title: ([step.strip() for step in STEP.findall(body)], bool(marked))
        for title, marked, body in SECTION.findall(PAGE.read_text(encoding="utf-8"))
    }


def files(steps: list[str]) -> set[str]:
    """The files that steps begin with; a step that makes a new file begins otherwise."""
    return {found[1] for step in steps if (found := NAMED.match(step))}


def copy_of_the_code(place: Path) -> None:
    """Each file as a link, so that nothing is compiled anew but what an example changes."""
    for name in COPIED:
        shutil.copytree(
            ROOT / name,
            place / name,
            copy_function=os.symlink,
            ignore=shutil.ignore_patterns("*.so"),
        )


def edit(path: Path, texts: tuple[tuple[str, str], ...]) -> None:
    """Puts texts into the place of others, and the file into the place of the link."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for old, new in texts:
        assert old in text or not (old or text), f"{path}: no {old!r}"
        text = text.replace(old, new) if old else new
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_page_has_each_kind_of_change() -> None:
    """What people change most has a list, and each list that promises an example has one."""
    found = sections()
    assert {title for title, (_, marked) in found.items() if marked} == CHANGES.keys()
    words = ("dialect", "score", "sink", "setting", "spec key", "API", "alert", "limit on time")
    assert [word for word in words if not any(word in title for title in found)] == []


@pytest.mark.parametrize("title", sections())
def test_a_change_touches_few_files_that_are_there(title: str) -> None:
    """A change has five files of the product at most; each file that is named exists."""
    steps, _ = sections()[title]
    assert 0 < len(steps) <= FILES_MAX
    named = {name for step in steps for name in NAMED.findall(step)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("title", CHANGES)
def test_a_made_up_change_edits_the_listed_files_alone(title: str) -> None:
    """An example edits the files of its list, and no other; the texts that it changes are there."""
    change, (steps, _) = CHANGES[title], sections()[title]
    there = {name for name in change.edits if (ROOT / name).exists()}
    assert there == files(steps)
    assert len(change.edits) == len(steps)
    for name in there:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert [old for old, _ in change.edits[name] if old not in text] == []


@pytest.mark.parametrize("title", sampled(CHANGES, ["Add a dialect", "Add a spec key"]))
def test_a_made_up_change_is_seen(title: str, tmp_path: Path) -> None:
    """An example is seen wherever the page says."""
    change = CHANGES[title]
    copy_of_the_code(tmp_path)
    for name, texts in change.edits.items():
        edit(tmp_path / name, texts)

    done = subprocess.run(
        [sys.executable, "-c", change.seen],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
