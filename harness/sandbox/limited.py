"""Limits of a process, and a filter of its system calls, before it becomes another program.

    python -m harness.sandbox.limited -- PROGRAM ARGUMENTS...

The filter (seccomp) forbids new processes, sockets, signals, mounts and namespaces: a tool is a function, and needs none of
them. It holds where RLIMIT_NPROC does not, which no process of root heeds.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
import sys
from typing import Final

from harness.sandbox.bounds import LIMITS

__all__ = ["checked", "drop_rights", "forbid", "limit", "main"]

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 24, 38, 22, 2

_CAPABILITIES_MAX: Final = 64

_libc = ctypes.CDLL(None, use_errno=True)

_FORBIDDEN: Final = {
    "x86_64": (57, 58, 41, 62, 200, 234, 129, 297, 101, 310, 311, 165, 166, 155, 161, 272, 308),
    "aarch64": (198, 129, 130, 131, 138, 240, 117, 270, 271, 40, 39, 41, 51, 97, 268),
}
"""Numbers of fork, vfork (x86 alone), socket, kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, ptrace,
process_vm_readv, process_vm_writev, mount, umount2, pivot_root, chroot, unshare, setns."""
_FORBIDDEN_EVERYWHERE: Final = (424, 434, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442)
"""Numbers that all machines share: pidfd_send_signal, pidfd_open, io_uring (it makes sockets past this filter), and the newer
calls that mount, with which what is read-only could be made writable."""
_CLONE3: Final = 435
"""A filter cannot see the flags of clone3. The C library takes clone where there is no clone3, so threads go on."""
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32: Final = 0x40000000
"""Numbers from here on are those of another calling convention, with the same calls."""


def main() -> None:
    """Limits this process, and becomes the program."""
    program = sys.argv[sys.argv.index("--") + 1 :]
    limit()
    forbid()
    os.execv(program[0], program)  # noqa: S606 - the worker, in its own words


def checked(result: int) -> None:
    """Raises what a call of the C library has met, if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def limit() -> None:
    """Sets the limits of this process."""
    for name, amount in LIMITS.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (amount, amount))


def drop_rights() -> None:
    """Gives up the rights of root in these namespaces: the program that this process becomes has none."""
    for capability in range(_CAPABILITIES_MAX):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            return  # The kernel knows no more of them.


def forbid() -> None:
    """Forbids this process what a tool does not need: such a call fails with EPERM."""
    machine = os.uname().machine
    load, equal, at_least, masked, done = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, deny, unknown, end = (
        0x7FFF0000,
        0x00050000 | errno.EPERM,
        0x00050000 | errno.ENOSYS,
        0x80000000,
    )
    rows = [
        (load, 0, 0, 4), (equal, 1, 0, _ARCHITECTURE[machine]), (done, 0, 0, end), (load, 0, 0, 0), (at_least, 0, 1, _X32), (done, 0, 0, deny),
    ]  # fmt: skip
    for number in (*_FORBIDDEN[machine], *_FORBIDDEN_EVERYWHERE):
        rows += [(equal, 0, 1, number), (done, 0, 0, deny)]
    rows += [(equal, 0, 1, _CLONE3), (done, 0, 0, unknown)]
    # A thread is a clone, too (CLONE_THREAD): it stays allowed.
    rows += [
        (equal, 0, 3, _CLONE[machine]), (load, 0, 0, 16), (masked, 1, 0, 0x10000), (done, 0, 0, deny),
    ]  # fmt: skip
    rows.append((done, 0, 0, allow))
    code = b"".join(struct.pack("=HBBI", *row) for row in rows)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("@HxxxxxxP", len(rows), ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(program)
    checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    checked(
        _libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.c_void_p(ctypes.addressof(holder)), 0, 0)
    )


if __name__ == "__main__":
    main()
