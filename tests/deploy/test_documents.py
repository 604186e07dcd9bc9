"""Links and names on Markdown pages resolve: files, headings, modules, options and settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

import monitor
from collector.cli.main import main
from monitor.visibility.cause import FACTS, Effect
from monitor.visibility.words import DOUBTED_CALLS, unless_words
from tests.live.test_frameworks import ADK_CONTENT

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "dfa_specs", "deploy", "examples", "grafana", "tests")
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")),
    ]
)
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`+[^`]*`+")
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
NAMED = re.compile(
    r"`((?:collector|guard|harness|judges|monitor|offrails_guard|tests|docs|deploy|examples|grafana|dfa_specs)/[\w./-]*)`"
)
MODULE = re.compile(r"python -m ([a-z_.]+)")
VERB = re.compile(r"offrails ([a-z][a-z-]*)\b([^\n`]*)")
CALLED = re.compile(r"`offrails ([a-z][a-z-]*)")
"""A call of the program in running text."""
OPTION = re.compile(r"(?<!\w)--[a-z][a-z-]*")
BROKEN = re.compile(r"(?: \\\n *|\n {5,}(?=\[--))")
"""Where a command goes on in the next line."""
ALONE = re.compile(r"`(--[a-z][a-z.-]*)")
KEY = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)`")
COMMAND = re.compile(r"^(?: {4}|\$ )?(?:[A-Z_]+=\S+ )*(offrails [a-z][^\n]*)", re.MULTILINE)
"""A line of code that calls the program."""
DATA = re.compile(
    r"(?<![\w./-])((?:[\w.-]+/)*[\w.-]+\.(?:ya?ml|jsonl?(?:\.gz)?|svg|png|md|py))(?![\w/])"
)
FILE = re.compile(
    r"(?<![\w./*{}<>$~:-])((?:[\w-]+/)+[\w.-]+\.(?:c|conf|html|js|json|md|py|toml|tpl|ya?ml))(?![\w/*])"
)
"""A file in a folder, by its path."""
TITLED = re.compile(r"^ *```\w+ ([\w./-]+)$", re.MULTILINE)
"""A block of code that is a file, by its name."""
TARGET = re.compile(r"(?:^(?: {4}|\$ )?|`)make ([a-z][a-z-]*)", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
METRIC = re.compile(
    r"(?<![\w:./-])(?!offrails_guard\b)(offrails_[a-z0-9_]+)(\*|\{[a-z_,]+\}_)?"
)
"""A family, or the beginning of some: `offrails_journal_*`."""
SERIES = re.compile(r"_(?:bucket|sum|count|created|total)$")
VARIABLE = re.compile(r"(?<!\w)OFFRAILS_[A-Z_]+")
BUILD = {"OFFRAILS_NATIVE", "OFFRAILS_LIVE"}
"""Variables of the build and of tests: no settings."""
RULED = re.compile(r"\bAgentMonitor[A-Z]\w+|(?<=`)Agent[A-Z]\w+(?=`)")
RECORDED = re.compile(r"\b[a-z]+:offrails_[a-z_]+(?::[\w]+)*")
PATH = re.compile(r"(?<![\w/])(?:/api/v1/[a-z]+|/-/[a-z]+)")
WORD = re.compile(r"`([a-z]+(?:_[a-z0-9]+)+)`")
"""One name in code: an event of the log, a field, a reason."""
YAML = re.compile(r"^ *```ya?ml[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PUNCTUATION = re.compile(r"[^\w\- ]")


@cache
def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return FENCE.sub("", page.read_text())


def links(page: Path) -> Iterator[str]:
    """The links of a page into the repository, as written."""
    for found in LINK.finditer(SPAN.sub("", prose(page))):
        target = found[1] or found[2]
        if "://" not in target and not target.startswith("mailto:"):
            yield target


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that a page has: its headings in lower case, blanks as hyphens."""
    seen: dict[str, int] = {}
    for heading in HEADING.findall(prose(page)):
        anchor = PUNCTUATION.sub("", heading.lower()).replace(" ", "-")
        seen[anchor] = seen.get(anchor, 0) + 1
    return frozenset(
        f"{anchor}-{number}" if number else anchor
        for anchor, times in seen.items()
        for number in range(times)
    )


def named(page: Path) -> str:
    """A page by its path in the repository."""
    return str(page.relative_to(ROOT))


def test_links_resolve() -> None:
    """A page links to no file and no heading that is missing."""
    lost = []
    for page in PAGES:
        for link in links(page):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                lost.append((named(page), link))

    assert lost == []


def test_named_files_and_modules_exist() -> None:
    """Paths of the repository and modules to run, as a page names them, are there."""
    texts = {named(page): page.read_text() for page in PAGES}
    paths = {
        (page, name)
        for page, text in texts.items()
        for name in NAMED.findall(text)
        if not (ROOT / name).exists()
    }
    modules = {
        (page, name)
        for page, text in texts.items()
        for name in MODULE.findall(text)
        if (ROOT / name.split(".")[0]).is_dir()
        and not (ROOT / name.replace(".", "/")).with_suffix(".py").exists()
        and not (ROOT / name.replace(".", "/") / "__main__.py").exists()
    }

    assert (paths, modules) == (set(), set())


def test_files_in_code_exist() -> None:
    """A file that a page names by its path in running text is there, seen from the root, the page or a package.

    Names in capitals stand for a file of the reader's own.
    """
    starts = (ROOT, ROOT / "collector", ROOT / "monitor")
    lost = {
        (named(page), name)
        for page in PAGES
        for span in SPAN.findall(prose(page))
        for name in FILE.findall(span)
        if not any((start / name).exists() for start in (*starts, page.parent))
        and not any(part.partition(".")[0].isupper() for part in name.split("/"))
    }

    assert lost == set()


def test_verbs_have_the_options_that_pages_show(capsys: pytest.CaptureFixture[str]) -> None:
    """Each option beside a verb, in any page, is one that its help lists."""
    shown: dict[str, set[str]] = {}
    for page in PAGES:
        for verb, rest in VERB.findall(BROKEN.sub(" ", page.read_text())):
            shown.setdefault(verb, set()).update(OPTION.findall(rest.partition("#")[0]))

    for verb, options in shown.items():
        if not options:
            continue
        for words in [each for each in NESTED if each.startswith(f"{verb} ")] or [verb]:
            with pytest.raises(SystemExit):
                main([*words.split(), "--help"])
        assert options <= set(OPTION.findall(capsys.readouterr().out)), verb


NESTED = (
    "import core",
    "harness run",
    "harness report",
    "harness check",
    "harness list",
    "harness import",
    "harness export",
)
"""Verbs of verbs, whose options their own help lists."""

FOREIGN = {
    *("--build-arg", "--read-only", "--profile", "--set-file"),  # docker, Helm
    *("--enable-feature", "--dispatch.start-delay", "--rules.alert.resend-delay"),
    *("--pass-user-headers", "--skip-auth-strip-headers"),  # oauth2-proxy
    *("--require", "--enable-optimizations", "--stat"),  # node, Python's build, git
    "--fault",  # tests.simulation.worlds
}
"""Options of other programs that pages name by themselves."""


def test_options_that_stand_alone_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """An option in code without its verb is one of some verb, or of a program that is listed here."""
    known = set(FOREIGN)
    for verb in (*NESTED, *verbs(capsys)):
        with pytest.raises(SystemExit):
            main([*verb.split(), "--help"])
        known |= set(OPTION.findall(capsys.readouterr().out))
    for page in PAGES:
        assert set(ALONE.findall(prose(page))) <= known, page


@cache
def code(page: Path) -> str:
    """The blocks of code of a page, fenced or indented; of a console, what is typed."""
    text = page.read_text()
    fenced = []
    for found in FENCE.finditer(text):
        lines = found[0].splitlines()[1:]
        typed = [line for line in lines if line.lstrip().startswith("$ ")]
        fenced.append("\n".join(typed or lines))
    indented = re.findall(r"^ {4}\S.*$", FENCE.sub("", text), re.MULTILINE)
    return "\n".join([*fenced, *indented])


def commands(page: Path) -> list[str]:
    """The calls of the program in a page's code, without what they hand on to another program."""
    found = COMMAND.findall(code(page))
    return [each.partition("#")[0].partition(" -- ")[0].strip() for each in found]


def verbs(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """All verbs, by the program's help."""
    with pytest.raises(SystemExit):
        main(["--help"])
    return set(
        re.findall(r"^    ([a-z][a-z-]*)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    )


def test_commands_that_pages_show_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Each call of the program has a verb that there is, and the README lists every verb."""
    known = verbs(capsys)
    assert {"serve", "replay", "journal"} <= known
    for page in PAGES:
        named = {each.split()[1] for each in commands(page)}
        named |= set(CALLED.findall(prose(page))) - {"ready"}  # the line that a start prints
        assert named <= known, page

    listed = {each.split()[1] for each in commands(ROOT / "README.md")}
    assert listed == known


def test_files_in_commands_exist() -> None:
    """A file that a command reads is in the repository, in a block of the page, or what another command writes.

    Names in capitals stand for a file of the reader's own.
    """
    missing = {(named(page), name) for page in PAGES for name in missing_data(page)}

    assert missing == set()


def missing_data(page: Path) -> Iterator[str]:
    """Files of data that commands of a page read, and nobody has."""
    text = page.read_text()
    made = {*TITLED.findall(text), *re.findall(r"--out[ =](\S+)", text)}
    for command in commands(page):
        for name in DATA.findall(command):
            if not (
                (ROOT / name).exists()
                or (page.parent / name).exists()
                or name in made
                or name.partition(".")[0].isupper()
            ):
                yield name


def test_targets_of_make_exist() -> None:
    """Each `make TARGET` of a page is in the Makefile."""
    known = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = [code(page) + "\n".join(SPAN.findall(prose(page))) for page in PAGES]
    shown = {target for text in texts for target in TARGET.findall(text)}

    assert shown <= known


def test_the_replay_of_the_readme_prints_what_it_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line of its output is there, in that order; `...` stands for lines that are left out."""
    text = (ROOT / "README.md").read_text()
    [command] = [each for each in commands(ROOT / "README.md") if "examples/recordings" in each]
    block = text.partition(command)[2].split("```")[1]
    shown = [line.rstrip() for line in block.splitlines() if line.strip(" .")]
    monkeypatch.chdir(ROOT)

    assert main(command.split()[1:]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert len(shown) == 6
    assert [line for line in printed if line in shown] == shown


def test_set_up_lines_are_those_that_are_run() -> None:
    """Python of docs/frameworks.md compiles, and its lines are those of the agents that `make test-live` runs."""
    folders = (ROOT / "tests" / "live" / "agents", ROOT / "examples")
    run = {
        line.strip()
        for folder in folders
        for file in folder.glob("*.py")
        for line in file.read_text().splitlines()
    }
    blocks = PYTHON.findall((ROOT / "docs" / "frameworks.md").read_text())
    assert len(blocks) >= 8
    for block in blocks:
        compile(block, "frameworks.md", "exec")
        wanted = [
            line
            for line in block.splitlines()
            if line.startswith("from ") or ".instrument(" in line
        ]
        assert [line for line in wanted if line not in run] == [], block


def test_the_line_for_googles_adk_is_the_one_that_is_run() -> None:
    """What docs/frameworks.md exports is what `make test-live` sets, in one line."""
    text = (ROOT / "docs" / "frameworks.md").read_text()
    block = text.partition("### Google ADK")[2].split("```")[1]
    (line,) = block.removeprefix("sh").strip().splitlines()
    command, *variables = line.split()
    assert command == "export"
    assert dict(each.split("=") for each in variables) == ADK_CONTENT


MODULES: Final = frozenset({"judges.agreement"})
"""Modules that pages name and that are called like a section of the settings."""


def test_settings_that_pages_name_exist() -> None:
    """Each key in backticks whose first part is a section of the settings is in docs/settings.md."""
    text = (ROOT / "docs" / "settings.md").read_text()
    keys = set(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE))
    known = keys | {key.rpartition(".")[0] for key in keys}
    sections = {key.partition(".")[0] for key in keys}

    for page in PAGES:
        named = {
            key for key in KEY.findall(page.read_text()) if key.partition(".")[0] in sections
        }
        assert named - MODULES <= known, page


@cache
def settings() -> frozenset[str]:
    """All keys, by docs/settings.md, which is held against the code."""
    text = (ROOT / "docs" / "settings.md").read_text()
    return frozenset(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE))


def keys_of(block: object, above: str = "") -> Iterator[str]:
    """The keys of a block of settings, each as docs/settings.md writes it."""
    for name, value in block.items() if isinstance(block, dict) else ():
        key = f"{above}{name}"
        if isinstance(value, dict) and key not in settings():
            yield from keys_of(value, f"{key}.")
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            for each in value:
                yield from keys_of(each, f"{key}[].")
        else:
            yield key


def test_blocks_of_settings_have_keys_that_exist() -> None:
    """A block of YAML whose first keys are settings has no key that is none."""
    sections = {re.split(r"[.\[]", key)[0] for key in settings()}
    blocks = [
        (page, document)
        for page in PAGES
        for text in YAML.findall(page.read_text())
        for document in yaml.safe_load_all(text)
        if isinstance(document, dict) and document and document.keys() <= sections
    ]
    assert len(blocks) >= 7
    for page, document in blocks:
        assert set(keys_of(document)) <= settings(), page


def test_variables_that_pages_name_exist() -> None:
    """Each `OFFRAILS_*` is the variable of a setting, or one of the build."""
    known = set(VARIABLE.findall((ROOT / "docs" / "settings.md").read_text())) | BUILD
    for page in PAGES:
        named = set(VARIABLE.findall(page.read_text()))
        assert {each for each in named if not each.endswith("_")} <= known, page


def test_metrics_that_pages_name_exist() -> None:
    """Each `offrails_*` is a family, or a series of one, in docs/metrics.md, which is held against the exposition."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    families = set(re.findall(r"^\| `([a-z_0-9]+)` \|", text, re.MULTILINE))
    bases = families | {SERIES.sub("", each) for each in families}
    assert len(families) > 150
    for page in PAGES:
        for name, more in METRIC.findall(page.read_text()):
            if more or name.endswith("_"):
                assert any(each.startswith(name) for each in families), (page, name)
            else:
                assert name in families or SERIES.sub("", name) in bases, (page, name)


def test_alerts_and_rules_that_pages_name_exist() -> None:
    """Each alert is one of the rules, or has a runbook, as direct alerts have; each recorded series has its rule."""
    folder = ROOT / "deploy" / "prometheus" / "rules"
    rules = "".join(file.read_text() for file in folder.glob("*.yml"))
    alerts = set(re.findall(r"alert: (\w+)", rules))
    known = alerts | {page.stem for page in (ROOT / "docs" / "runbooks").glob("*.md")}
    known |= set(monitor.__all__)  # `AgentName` is a class
    recorded = set(re.findall(r"record: (\S+)", rules))
    assert len(alerts) > 30
    for page in PAGES:
        assert set(RULED.findall(page.read_text())) <= known, page
        assert set(RECORDED.findall(page.read_text())) <= recorded, page


@cache
def source() -> str:
    """What runs and what is deployed: code, configurations, templates."""
    folders = (
        "collector",
        "harness",
        "judges",
        "monitor",
        "offrails_guard",
        "deploy",
        "dfa_specs",
        "examples",
        "grafana",
    )
    kinds = {".py", ".js", ".html", ".yaml", ".yml", ".json", ".tpl"}
    return "\n".join(
        file.read_text()
        for folder in folders
        for file in (ROOT / folder).rglob("*")
        if file.suffix in kinds
    )


def test_paths_of_the_api_that_pages_name_exist() -> None:
    """Each `/api/v1/...` and `/-/...` of a page is one that the code answers."""
    served = set(PATH.findall(source()))
    for page in PAGES:
        assert set(PATH.findall(page.read_text())) <= served, page


OTHERS = {
    *("external_labels", "alert_relabel_configs", "honor_labels"),  # Prometheus
    *("otelcol_exporter_enqueue_failed_spans", "otelcol_exporter_send_failed_spans"),
    *("file_storage", "auth_request"),  # the Collector, nginx
    "transfer_to_x",  # any tool that hands over
    *("call_prevented", "call_overruled"),  # one line of code: "call_" and the kind
    "harmful_call_withdrawn",  # the event of a harm, and "_withdrawn"
}
"""Names on pages that other programs have, or that the code puts together."""


def test_events_and_fields_that_pages_name_exist() -> None:
    """A name in code with an underscore (an event of the log, a field, a reason) occurs in what runs.

    docs/frameworks.md is left out: its names are those of frameworks. Metrics have a test of their own.
    """
    known = set(re.findall(r"\w+", source())) | OTHERS
    known |= {folder.name for folder in (ROOT / "tests").iterdir()}
    for page in PAGES:
        if page.name in {"frameworks.md", "metrics.md", "CHANGELOG.md"}:
            continue
        words = {each for each in WORD.findall(prose(page)) if not each.startswith("offrails_")}
        assert words <= known, page


def test_every_page_is_in_the_index() -> None:
    """docs/README.md lists each page below docs/, but for the decision records: those have their own."""
    docs = ROOT / "docs"
    listed = {
        (index.parent / link.partition("#")[0]).resolve()
        for index in (docs / "README.md", docs / "decisions" / "README.md")
        for link in links(index)
    }

    assert set(docs.rglob("*.md")) - {docs / "README.md"} <= listed


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("## The `log` in short", "the-log-in-short"),
        ("# 1. Record, and read", "1-record-and-read"),
    ],
)
def test_anchors_are_those_of_the_web(heading: str, anchor: str, tmp_path: Path) -> None:
    """A heading's anchor has no punctuation, and a hyphen for each blank."""
    page = tmp_path / "page.md"
    page.write_text(f"{heading}\n")

    assert anchors(page) == {anchor}


def test_each_cause_of_doubt_is_explained() -> None:
    """Both tables of docs/uncertainty.md have each cause, with what `unless` says; what would make a possible harm none has words."""
    page = (ROOT / "docs" / "uncertainty.md").read_text()
    view = (ROOT / "collector" / "api" / "session_view" / "script" / "why.js").read_text()
    for cause, fact in FACTS.items():
        rows = re.findall(rf"^\| `{cause}` \| (.*?) \|", page, re.MULTILINE)
        assert len(rows) == 2, cause
        reported = fact.told and not fact.sure
        said = unless_words((cause if fact.effect >= Effect.MISSING else DOUBTED_CALLS,), "…")
        assert rows[0] == (said.removeprefix("unless ") if reported else "(silent)"), cause
        if fact.told and fact.effect is Effect.MISSING:
            assert "something was missed" not in unless_words((cause,), "then"), cause
            assert f"  {cause}: " in view, cause
