"""The C reader for tests: the one that is built in, or else one that is compiled for this run.

With `CFLAGS` in the environment it is compiled with these too (`make fuzz-native` uses sanitizers).
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sysconfig
import tempfile
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from collector.decode import scan

if TYPE_CHECKING:
    from collector.decode.native import Reader

__all__ = ["missing", "native", "native_reader"]

SOURCE = Path(__file__).parents[1] / "collector" / "decode" / "native.c"
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


@functools.cache
def native() -> Any:
    """The module `collector.decode.native`."""
    try:
        return import_module("collector.decode.native")
    except ImportError:
        return _compiled()


def _compiled() -> ModuleType:
    folder = tempfile.mkdtemp(prefix="offrails-native-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = Path(folder) / "native.so"
    flags = [*STRICT, *os.environ.get("CFLAGS", "").split(), "-fPIC", "-shared"]
    headers = sysconfig.get_paths()["include"]
    subprocess.run(["cc", *flags, f"-I{headers}", str(SOURCE), "-o", str(target)], check=True)
    loader = ExtensionFileLoader("native", str(target))
    spec = spec_from_file_location("native", target, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
