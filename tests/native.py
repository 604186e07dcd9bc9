"""What is written in C, for tests: as it is built in, or else compiled for this run.

With `CFLAGS` in the environment they are compiled with these too (`make fuzz-native` uses sanitizers).
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

from collector import decode
from collector.decode.protobuf import scan

if TYPE_CHECKING:
    from collector.decode.native import Reader

__all__ = ["missing", "native", "native_json", "native_reader", "native_rows"]

ROOT = Path(__file__).parents[1]
STRICT = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]


def missing() -> str:
    """Why there is no C reader here; "" where there is one."""
    if shutil.which("cc") is None:
        return "there is no C compiler"
    headers = Path(sysconfig.get_paths()["include"])
    return "" if (headers / "Python.h").exists() else "Python's headers are not installed"


def native_reader(**changes: Any) -> Reader:
    """A reader of request bodies, for `scan.decode`; `changes` to what it asks."""
    made = native().Reader
    return scan.reader(lambda **asked: made(**{**asked, **changes}))  # type: ignore[arg-type]


def native() -> Any:
    """The reader of request bodies, and of the values in them."""
    return _module("collector.decode.native")


@functools.cache
def native_json() -> Any:
    """The reader of JSON texts: its `members` and `listed`; in values, of those `native()` reads."""
    name, known = "collector.decode.native", native()
    with (
        mock.patch.dict(sys.modules, {name: known}),
        mock.patch.object(decode, "native", known, create=True),
    ):
        return _module("collector.dialects.native")


def native_rows() -> Any:
    """What writes the rows of a log: its `append`."""
    return _module("monitor.session.log.native")


@functools.cache
def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return _compiled((ROOT / name.replace(".", "/")).with_suffix(".c"))


def _compiled(source: Path) -> ModuleType:
    folder = tempfile.mkdtemp(prefix="offrails-native-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = Path(folder) / "native.so"
    flags = [*STRICT, *os.environ.get("CFLAGS", "").split(), "-fPIC", "-shared"]
    headers = sysconfig.get_paths()["include"]
    subprocess.run(["cc", *flags, f"-I{headers}", str(source), "-o", str(target)], check=True)
    loader = ExtensionFileLoader("native", str(target))
    spec = spec_from_file_location("native", target, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
