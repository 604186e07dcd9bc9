"""`offrails harness import`: tasks of other benchmarks, and runs in other forms."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from collector.cli.arguments import to_path
from collector.cli.inputs import writing

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    verb = group.add_parser("import", help="bring in tasks of other benchmarks, or runs")
    verb.add_argument(
        "what",
        nargs="*",
        metavar="agentdojo | core FILE... | bfcl FILE... | FILE...",
        help="agentdojo: its suites, with its own tools and checks (extra: offrails[agentdojo]); core: published automata, "
        "as specs; bfcl: multi-turn tasks in its form; files alone: runs in the form that --form names",
    )
    verb.add_argument("--form", choices=("prefixguard",), help="form of runs")
    verb.add_argument("--out", type=to_path, required=True, metavar="DIR")
    verb.add_argument(
        "--version",
        default="v1.1.2",
        metavar="VERSION",
        help="of AgentDojo's suites (default: v1.1.2)",
    )
    verb.add_argument(
        "--attack",
        metavar="NAME",
        help="writes AgentDojo's attack cases, too, in the words of this attack",
    )
    _add_bfcl(verb)
    verb.set_defaults(run=run)


def _add_bfcl(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--functions",
        type=to_path,
        metavar="DIR",
        help="of bfcl: descriptions of functions, a file a module",
    )
    verb.add_argument(
        "--classes", type=to_path, metavar="DIR", help="of bfcl: modules with the classes"
    )
    verb.add_argument(
        "--answers",
        type=to_path,
        metavar="DIR",
        help="of bfcl: ground truths, in files of the same names (default: possible_answer beside them)",
    )
    verb.add_argument(
        "--no-sandbox", action="store_true", help="of bfcl: make ground truths as you are"
    )


def run(options: argparse.Namespace) -> int:
    """Runs `offrails harness import`, and returns the exit code."""
    from harness.tasks.read import TaskError

    with writing(options.out):
        if options.form is not None:
            return _prefixguard(options, _files(options.what))
        source, *files = options.what or [""]
        if source not in _SOURCES:
            raise TaskError(
                f"import: expected {' or '.join(_SOURCES)}, or --form, found {source!r}"
            )
        return _SOURCES[source](options, _files(files))


def _files(names: list[str]) -> list[Path]:
    from harness.tasks.read import TaskError

    files = [*map(Path, names)]
    for file in files:
        if not file.is_file():
            raise TaskError(f"{file}: no such file")
    return files


def _agentdojo(options: argparse.Namespace, files: list[Path]) -> int:
    from harness.exchange.agentdojo import ATTACKS, VERSIONS, import_agentdojo
    from harness.tasks.read import TaskError

    if files:
        raise TaskError(f"import agentdojo: expected no file, found {files[0]}")
    for name, known in (("version", VERSIONS), ("attack", ATTACKS)):
        given = getattr(options, name)
        if given is not None and given not in known:
            raise TaskError(f"--{name}: expected one of {', '.join(known)}, found {given!r}")
    try:
        tasks, attacks = import_agentdojo(options.out, options.version, options.attack)
    except ImportError as problem:
        raise TaskError(f"{problem}: pip install 'offrails[agentdojo]'") from None
    print(f"{tasks} tasks, {attacks} attack cases in {options.out}")
    return 0


def _core(options: argparse.Namespace, files: list[Path]) -> int:
    from collector.cli.verbs.import_core import write_specs
    from harness.tasks.read import TaskError

    if not files:
        raise TaskError("import core: expected a file of automata")
    return write_specs(files, options.out, mend=True)


def _bfcl(options: argparse.Namespace, files: list[Path]) -> int:
    from harness.exchange.bfcl import BFCLSources, import_bfcl
    from harness.exchange.bfcl_files import BFCLError
    from harness.sandbox.process import PROBE, Sandbox, kind_here
    from harness.tasks.read import TaskError

    if not files:
        raise TaskError("import bfcl: expected a file of tasks")
    for name in ("functions", "classes"):
        folder = getattr(options, name)
        if folder is None or not folder.is_dir():
            raise TaskError(f"import bfcl: --{name}: expected a folder, found {folder}")
    sources = BFCLSources(files, options.functions, options.classes, options.answers)
    kind = "none" if options.no_sandbox else kind_here(packages=True)
    sandbox = Sandbox(kind, PROBE.parent, packages=True)
    try:
        found = import_bfcl(sources, options.out, sandbox)
    except BFCLError as problem:
        raise TaskError(str(problem)) from None
    finally:
        sandbox.close()
    print(f"{found.written} tasks in {options.out}")
    for why in found.left_out:
        print(f"offrails: left out: {why}", file=sys.stderr)
    return 0


def _prefixguard(options: argparse.Namespace, files: list[Path]) -> int:
    from harness.exchange.prefixguard import import_prefixguard
    from harness.tasks.read import TaskError

    if not files:
        raise TaskError("import --form prefixguard: expected a file")
    found = import_prefixguard(files, options.out)
    print(f"{found.written} runs in {options.out / 'runs.jsonl'}")
    if found.left_out:
        print(f"offrails: {found.left_out} steps name no tool: left out", file=sys.stderr)
    return 0


_SOURCES: Final[Mapping[str, Callable[[argparse.Namespace, list[Path]], int]]] = {
    "agentdojo": _agentdojo,
    "core": _core,
    "bfcl": _bfcl,
}
