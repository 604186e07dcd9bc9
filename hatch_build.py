"""Builds a wheel whose hot path is machine code, where OFFRAILS_NATIVE is set: same source, no other.

mypyc turns the modules below into C by their types. Without it a wheel is plain Python, and needs no
compiler. What is not on the hot path stays as it is: it would only take longer to build.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "OFFRAILS_NATIVE"
NEEDS = ["mypy==2.4.1", "setuptools>=80", "httptools>=0.6", "msgspec>=0.19"]
"""The last two for their types."""

COMPILED = {
    "collector": "claims joining lines one_call pipeline requested seen served sessions span_tree stats traces",
    "collector/decode": "anyvalue json_fields json_values memo otlp_json otlp_proto parts proto_slices recurring scan shapes sizes span",
    "collector/dialects": "answers arguments base choose names outputs plan read results span_name wrappers",
    "collector/receivers": "connection crowd door export greeting grpc heads hpack http http2"
    " listener web words",
    "collector/sinks": "log",
    "monitor": "agenda alarms binder court drift engine ledger limits records repeats spread"
    " timekeeper totals worst",
    "monitor/alphabet": "match pattern",
    "monitor/automaton": "dfa paths position",
    "monitor/reference": "watch",
    "monitor/scores": "consistency refine running",
    "monitor/session": "call_ids chains compensation episodes judge judgement log merges outlook run"
    " scoring session siblings stops table timing",
    "monitor/spec": "constraints spec",
}
"""Folder -> modules."""

IN_C = {
    "collector.decode.native": "collector/decode/native.c",
    "collector.dialects.native": "collector/dialects/native.c",
    "monitor.session.native": "monitor/session/native.c",
}
"""Module -> source: the reader of request bodies, which asks Python for what it decides, the one of
long JSON texts, and what writes a log's rows."""

DIRECT = ["-fno-plt", "-fno-semantic-interposition", "-fvisibility=hidden"]
DIRECT_LINKED = ["-Wl,-Bsymbolic", "-Wl,-z,now"]
"""Calls, among the modules and into Python, go straight to what they call: a span waits for code as much
as for memory, and each detour is a line of it. Known to Linux's compilers and linkers."""

DEALLOC = re.compile(r"\s*\w+_dealloc\(\w+ \*self\)")
"""The head of the function by which objects of one class go, in what mypyc writes."""

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
        """What the build needs beside hatchling."""
        return NEEDS if os.environ.get(SWITCH) else []

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


def _compile(root: Path, place: Path) -> None:
    """Puts the compiled modules into a folder, under the paths they have in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    names = [
        f"{folder}/{name}.py" for folder, all_ in COMPILED.items() for name in all_.split()
    ]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "mypy.ini"
        config.write_text(CONFIG.format(root=root))
        os.chdir(root)
        try:
            modules = mypycify(
                ["--config-file", str(config), "--cache-dir", scratch, *names],
                opt_level="2",
                debug_level="0",
                target_dir=scratch,
                group_name="offrails",
            )
            for written in Path(scratch).rglob("*.c"):
                written.write_text(_at_once(written.read_text()))
            modules += [Extension(name, [path]) for name, path in IN_C.items()]
            if sys.platform == "linux":
                for module in modules:
                    module.extra_compile_args = [*module.extra_compile_args, *DIRECT]
                    module.extra_link_args = [*module.extra_link_args, *DIRECT_LINKED]
            command = build_ext(Distribution({"name": "offrails", "ext_modules": modules}))
            command.build_lib, command.build_temp = str(place), scratch
            command.ensure_finalized()
            command.run()
        finally:
            os.chdir(before)


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
