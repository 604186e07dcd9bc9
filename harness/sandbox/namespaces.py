"""A sandbox of our own making, where there is no bubblewrap: namespaces, a read-only root, limits, and no new processes.

    python -m harness.sandbox.namespaces FOLDER... -- PROGRAM ARGUMENTS...

The order matters: namespaces first (they give the rights to mount), then the root, then the limits, then these rights go, then
the filter of system calls, and last the program. Each step that fails ends it with exit code 125, and says which on standard error.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path
from typing import Final

from harness.sandbox.bounds import VISIBLE
from harness.sandbox.limited import checked, drop_rights, forbid, limit

__all__ = ["FAILED", "main"]

FAILED: Final = 125
"""Exit code where a step of the sandbox does not work here."""

_NEW_NAMESPACES: Final = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "network": 0x40000000,
    "ipc": 0x08000000,
    "pid": 0x20000000,
    "uts": 0x04000000,
}
_MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x1000, 0x4000, 0x40000, 2
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_READ_ONLY_NOSUID: Final = 0x1 | 0x2
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9

_libc = ctypes.CDLL(None, use_errno=True)

_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}


def main() -> None:
    """Builds the sandbox around this process, and becomes the program."""
    split = sys.argv.index("--")
    folders, program = [*map(Path, sys.argv[1:split])], sys.argv[split + 1 :]
    step = "namespaces"
    try:
        _enter()
        step = "root"
        _hide_root(folders)
        step = "limits"
        limit()
        step = "rights"
        drop_rights()
        step = "filter"
        forbid()
        step = "program"
        os.execv(program[0], program)  # noqa: S606 - the worker, in its own words
    except OSError as problem:
        sys.stderr.write(f"sandbox: {step}: {problem}\n")
        sys.exit(FAILED)


def _enter() -> None:
    """Enters new namespaces; the process of the program is the first of its own, and all end with it."""
    user, group = os.getuid(), os.getgid()
    checked(_libc.unshare(sum(_NEW_NAMESPACES.values())))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    checked(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0))


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None) -> None:
    texts = [each.encode() if each is not None else None for each in (source, target, kind)]
    checked(_libc.mount(*texts, flags, data.encode() if data is not None else None))


def _hide_root(given: list[Path]) -> None:
    """Makes a root of what the program needs, read-only, and leaves the old one."""
    root = "/tmp"  # noqa: S108 - a mount point of this namespace alone
    folders = _outermost([*map(Path, VISIBLE), Path(sys.base_prefix), *given])
    links = {
        path: Path(path).readlink()
        for path in ("/lib", "/lib64", "/bin", "/lib32")
        if Path(path).is_symlink()
    }
    held = {each: os.open(each, os.O_PATH) for each in folders if each.exists()}
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)
    _mount("tmpfs", root, "tmpfs", 0, "size=1m,mode=755")
    for place, descriptor in held.items():
        target = Path(root + str(place))
        if place.is_dir() or os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112 - may be hidden by now
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        _mount(f"/proc/self/fd/{descriptor}", str(target), None, _MS_BIND | _MS_REC, None)
        os.close(descriptor)
    for name, target_of_link in links.items():
        if not Path(root + name).exists():
            Path(root + name).symlink_to(target_of_link)
    _pivot(root)


def _pivot(root: str) -> None:
    attributes = struct.pack("=QQQQ", _READ_ONLY_NOSUID, 0, 0, 0)
    os.chdir(root)
    checked(_libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."))
    checked(_libc.umount2(b".", _MNT_DETACH))
    os.chdir("/")
    checked(
        _libc.syscall(
            _MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes, len(attributes)
        )
    )


def _outermost(folders: list[Path]) -> list[Path]:
    """The folders, without those inside another one."""
    found: list[Path] = []
    for each in sorted({each.resolve() for each in folders}):
        if not any(each.is_relative_to(outer) for outer in found):
            found.append(each)
    return found


if __name__ == "__main__":
    main()
