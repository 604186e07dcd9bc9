"""Builds a wheel whose hot path is machine code, where OFFRAILS_NATIVE is set: same source, no other.

mypyc turns the modules below into C by their types. Without it a wheel is plain Python, and needs no
compiler. What is not on the hot path stays as it is: it would only take longer to build.

Where the compiler is GCC it is all compiled twice: first so that it counts which ways are taken, which
`TRAINING` then takes, and again by what was counted. What a span needs is far more code than a
processor holds at a time, so it matters what lies beside what.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "OFFRAILS_NATIVE"
UNTRAINED = "untrained"
"""Value of the switch with which it is compiled once; with any other it is trained, where that can be done."""
NEEDS = ["mypy==2.4.1", "setuptools>=80"]
TRAINING = "tests/bench/training.py"

COMPILED = {
    "collector/calls": "awaited_outcomes batch coverage duplicate_spans model_requests pipeline question_handler requested_calls set_clocks unseen_calls",
    "collector/calls/call": "answers argument_digests call piece retried_attempts same_call",
    "collector/calls/correlation": "clock_contradictions correlation in_process_mcp lone_echoes merge repeated_call_ids session_moves",
    "collector/calls/decisions": "confirmation decided_calls prevented_calls",
    "collector/calls/inventory": "agent_changes inventory near_misses",
    "collector/calls/sessions": "beginnings orphans session_ids unplaced_calls",
    "collector/calls/tree": "context session_claim settled_trace span_tree trace trace_store",
    "collector/decide": "endpoint",
    "collector/decode": "memo native_readers shapes sizes span",
    "collector/decode/json": "checked_fields hex_ids otlp_json read_values",
    "collector/decode/protobuf": "anyvalue otlp_proto recurring scan slices",
    "collector/dialects": "ambiguous_spans answers base choose plan read wrappers",
    "collector/dialects/model_messages": "freshness given_results outputs",
    "collector/dialects/names": "session_and_agent_keys span_name",
    "collector/dialects/values": "arguments members results span_result",
    "collector/receive": "admission export request",
    "collector/receive/grpc": "builtin_server grpc_call",
    "collector/receive/grpc/http2": "closed_streams connection frame_budget frames header_blocks header_fields hpack keepalive lifetime read_turns streams",
    "collector/receive/http": "admitted_request asgi_server connection head_cache responses service turns",
    "collector/receive/listener": "connection_turns connections listener protocol_detection",
    "collector/sinks": "line_limit log",
    "collector/state": "segment segment_reading segment_writer",
    "collector/telemetry": "counters duration_histogram log_format",
    "monitor": "decision engine limits records tenants weights",
    "monitor/aggregate": "consistency_sample drift score_histogram top_k totals",
    "monitor/alphabet": "alphabet failed_calls near_names pattern token",
    "monitor/automaton": "dfa paths position",
    "monitor/judging": "accounting call_reviser change_reports held_calls judge_calls judging_parts judging_state reference_alarms session_binder session_sights thing_spaces",
    "monitor/judging/clocks": "clocks_ahead lagging_calls leading_calls mistimed_calls",
    "monitor/judging/deciding": "decide_calls going_ahead",
    "monitor/live": "corrections deadline_timer due_queue gaps lifecycle mention monitor_reader monitor_state session_facts specs_in_use",
    "monitor/reference": "comparison",
    "monitor/scores": "consistency refine running_scores score_records",
    "monitor/session": "begun_judgement dropped_sessions hosts outside_calls proofs session spec_binding table tool_names",
    "monitor/session/judge": "compensation concurrent_calls episodes judge run",
    "monitor/session/judgement": "calls_asked_about checkpoint episode_scores finality fold_log judgement log_walk possible_harms replay resume_points scored_path step_marks",
    "monitor/session/log": "asked_together call_ids log overlap_groups rows",
    "monitor/session/overlap": "asked_orders call_choices chain_merges chains order question_budget",
    "monitor/session/report": "obstacles",
    "monitor/session/things": "group_calls shared_judgement thing_cell thing_reservations thing_slices thing_space thing_table thing_visit things_judgement things_replay things_run",
    "monitor/session/time_limits": "session_verdicts timing",
    "monitor/spec": "constraints spec timing",
    "monitor/visibility": "cause gap ledger sight sights",
}
"""Folder -> modules."""

IN_C = {
    "collector.decode.native": "collector/decode/native.c",
    "collector.dialects.native": "collector/dialects/native.c",
    "monitor.session.log.native": "monitor/session/log/native.c",
}
"""Module -> source: the reader of request bodies, which asks Python for what it decides, the one of
long JSON texts, and what writes a log's rows."""

DIRECT = ["-fno-plt", "-fno-semantic-interposition", "-fvisibility=hidden"]
DIRECT_LINKED = ["-Wl,-Bsymbolic", "-Wl,-z,now"]
"""Calls, among the modules and into Python, go straight to what they call: a span waits for code as much
as for memory, and each detour is a line of it. Known to Linux's compilers and linkers."""
BARE = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
"""No tables for exceptions of C++, of which there are none: a tenth of what is loaded."""

COUNTING = ["-fprofile-generate"]
TRAINED = ["-fprofile-use", "-Wno-missing-profile"]
"""What the training does not reach is compiled for size, and lies apart: it is not in memory until it is used."""

DEALLOC = re.compile(r"\s*\w+_dealloc\(\w+ \*self\)")
"""The head of the function by which objects of one class go, in what mypyc writes."""

MADE = re.compile(r"(?<=\n)( *)(PyObject \*ret = CPyPy_\w+_____init__\(self, args, kwds\);\n)")
"""Where an object of one class is given its first values, in what mypyc writes."""
BLANK = r"""\1if (PyTuple_GET_SIZE(args) == 1 && PyTuple_GET_ITEM(args, 0) == Py_Ellipsis)
\1    return self;
\1\2"""

CONFIG = """\
[mypy]
strict = True
mypy_path = {root}
explicit_package_bases = True
ignore_missing_imports = True
"""


class Native(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel."""

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling: also what the program needs, for its types and the training."""
        return NEEDS + self.metadata.core.dependencies if os.environ.get(SWITCH) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, if it is asked for; an editable install is always plain."""
        if not os.environ.get(SWITCH) or version == "editable":
            return
        self._place = tempfile.TemporaryDirectory()  # until the wheel is written
        place = Path(self._place.name)
        _compile(Path(self.root), place)
        found = {str(each): str(each.relative_to(place)) for each in place.rglob("*.so")}
        build_data["force_include"].update(found)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _can_train(root: Path) -> bool:
    """True for GCC, where what it is trained on is at hand: it is in the source distribution."""
    at_hand = (root / TRAINING).exists() and (root / "dfa_specs").exists()
    if os.environ[SWITCH] == UNTRAINED or not at_hand:
        return False
    command = [os.environ.get("CC", "cc"), "--version"]
    try:
        told = subprocess.run(command, capture_output=True, check=True, text=True).stdout  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return False
    return "Free Software Foundation" in told


def _compile(root: Path, place: Path) -> None:
    """Puts the compiled modules into a folder, under the paths they have in the wheel."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        os.chdir(root)
        try:
            modules = _modules(root, scratch)
            trained = _can_train(root)
            if trained:
                counting = scratch / "counting"
                for package in ("collector", "monitor"):
                    shutil.copytree(root / package, counting / package)
                for other in ("tests", "dfa_specs"):
                    (counting / other).symlink_to(root / other)
                _build(modules, counting, scratch, COUNTING)
                _train(counting)
            _build(modules, place, scratch, TRAINED if trained else [])
        finally:
            os.chdir(before)


def _modules(root: Path, scratch: Path) -> list[Any]:
    """The extension modules, as C."""
    from mypyc.build import mypycify
    from setuptools import Extension

    names = [
        f"{folder}/{name}.py" for folder, all_ in COMPILED.items() for name in all_.split()
    ]
    config = scratch / "mypy.ini"
    config.write_text(CONFIG.format(root=root))
    modules = mypycify(
        ["--config-file", str(config), "--cache-dir", str(scratch), *names],
        opt_level="2",
        debug_level="0",
        target_dir=str(scratch),
        group_name="offrails",
        multi_file=True,  # compilers take four times as long for all in one
    )
    for written in scratch.rglob("*.c"):
        written.write_text(_blank(_at_once(written.read_text())))
    return modules + [Extension(name, [path]) for name, path in IN_C.items()]


def _build(modules: Sequence[Any], place: Path, scratch: Path, how: list[str]) -> None:
    """Compiles and links them; each time into the same objects, beside which lies what was counted."""
    from setuptools import Distribution

    direct, linked = ([*DIRECT, *BARE], DIRECT_LINKED) if sys.platform == "linux" else ([], [])
    made = [copy(module) for module in modules]
    for module in made:
        module.extra_compile_args = [*module.extra_compile_args, *direct, *how]
        module.extra_link_args = [*module.extra_link_args, *linked, *how]
    command = _parallel()(Distribution({"name": "offrails", "ext_modules": made}))
    command.build_lib, command.build_temp, command.force = str(place), str(scratch), True
    # mypyc makes a small extension for each module, beside a large one that holds them all.
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


def _parallel() -> type[Any]:
    """The command that builds extension modules, with as many compilers at once as there are processors."""
    from setuptools.command.build_ext import build_ext

    class Parallel(build_ext):
        def build_extensions(self) -> None:
            compile_all = self.compiler.compile
            with ThreadPoolExecutor(os.cpu_count()) as pool:

                def compiled(sources: list[str], *arguments: Any, **named: Any) -> list[str]:
                    """Compiles each source by itself, the largest first: none is left alone at the end."""
                    begun = {
                        each: pool.submit(compile_all, [each], *arguments, **named)
                        for each in sorted(sources, key=os.path.getsize, reverse=True)
                    }
                    return [made for each in sources for made in begun[each].result()]

                self.compiler.compile = compiled
                super().build_extensions()

    return Parallel


def _train(counting: Path) -> None:
    """Has the program work, so that it is counted which ways are taken."""
    paths = [str(counting), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-P", str(counting / TRAINING)]
    done = subprocess.run(command, cwd=counting, env=environment, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"{TRAINING} failed; {SWITCH}={UNTRAINED} builds without it")


def _at_once(code: str) -> str:
    """What mypyc writes, without Python's trashcan for objects of classes that are marked `acyclic`.

    It keeps what is freed deep below others in a list, which goes through the header that objects have
    for the collector of garbage: those have none, and what lies before them would be overwritten. They
    go at once, however deep; chains of them are bounded.
    """
    kept, has_header = [], False
    for line in code.split("\n"):
        if DEALLOC.fullmatch(line):
            has_header = False
        elif "PyObject_GC_UnTrack(self)" in line:
            has_header = True
        if has_header or "CPy_TRASHCAN" not in line:
            kept.append(line)
    return "\n".join(kept)


def _blank(code: str) -> str:
    """What mypyc writes, with a way to make an object whose fields are set one by one: `cls.__new__(cls, ...)`.

    Plain Python's `cls.__new__(cls)` gives one. mypyc's calls `__init__`, unless a class is marked as `serializable`;
    then each look at a field asks whether it is set.
    """
    return MADE.sub(BLANK, code)
