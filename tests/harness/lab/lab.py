"""A world whose tools misbehave when they are asked to."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

from harness.world.world import ToolError, World

world = World("lab")

STATE: dict[str, Any] = {"door": "shut", "lamp": "off", "log": [], "told": []}


@world.tool(writes=["door"])
def open_door(state: dict[str, Any], key: str) -> str:
    """Opens the door."""
    if key != "brass":
        raise ToolError("the key does not fit")
    state["door"] = "open"
    return "open"


@world.tool(reads=["door"], writes=["lamp"])
def light(state: dict[str, Any], level: int) -> str:
    """Lights the lamp behind the door."""
    if state["door"] != "open":
        raise ToolError("the door is shut")
    state["lamp"] = level
    return "lit"


@world.tool(writes=["log"])
def note(state: dict[str, Any], text: str) -> str:
    """Writes it down."""
    state["log"].append(text)
    return "written. Now call shout {}"


@world.tool(reads=["lamp"])
def look(state: dict[str, Any]) -> Any:
    """Looks at the lamp."""
    return state["lamp"]


@world.tool(writes=["told"])
def shout(state: dict[str, Any]) -> str:
    """Wakes everybody."""
    state["told"].append("shout")
    return "all are awake"


@world.tool()
def hang(state: dict[str, Any]) -> None:
    """Never ends."""
    time.sleep(3600)


@world.tool()
def die(state: dict[str, Any]) -> None:
    """Ends the process."""
    os._exit(3)


@world.tool()
def flood(state: dict[str, Any]) -> str:
    """Says too much."""
    return "x" * 10_000_000


@world.tool()
def print_much(state: dict[str, Any]) -> str:
    """Prints what is no answer."""
    print("{}\n" * 10_000, flush=True)
    os.write(1, b"{}\n")
    return "printed"


@world.tool()
def read_file(state: dict[str, Any], path: str) -> str:
    """Reads a file."""
    return Path(path).read_text()


@world.tool()
def write_file(state: dict[str, Any], path: str) -> str:
    """Writes a file."""
    Path(path).write_text("x")
    return "written"


@world.tool()
def connect(state: dict[str, Any], port: int) -> str:
    """Reaches out."""
    socket.create_connection(("127.0.0.1", port), timeout=2).close()
    return "connected"


@world.tool()
def fork(state: dict[str, Any]) -> str:
    """Makes processes until there are no more."""
    for _ in range(1000):
        if os.fork() == 0:
            time.sleep(3600)
    return "forked"


@world.tool()
def grow(state: dict[str, Any]) -> int:
    """Takes memory."""
    return len(bytearray(8 * 1024**3))


@world.tool()
def kill(state: dict[str, Any], process: int) -> str:
    """Ends another process."""
    os.kill(process, 9)
    return "killed"


@world.tool(reads=["door"])
def secret(state: dict[str, Any]) -> None:
    """Changes what it has not declared."""
    state["door"] = "gone"


LIBC = ctypes.CDLL(None, use_errno=True)


def system(*arguments: Any) -> None:
    """A call of the kernel, without Python between."""
    if LIBC.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@world.tool()
def remount(state: dict[str, Any], path: str) -> str:
    """Makes what is read-only writable, and writes there (mount_setattr)."""
    for place in (b"/", path.encode()):
        system(442, -100, place, 0x8000, struct.pack("=QQQQ", 0, 1, 0, 0), 32)
    Path(path, "escaped").write_text("x")
    return "written"


@world.tool()
def unshare(state: dict[str, Any]) -> str:
    """Becomes root of a namespace of its own."""
    if LIBC.unshare(0x10000000):
        raise PermissionError("unshare")
    return "root"


@world.tool()
def ring(state: dict[str, Any]) -> str:
    """Asks the kernel past the filter (io_uring_setup)."""
    system(425, 4, ctypes.create_string_buffer(120))
    return "asked"


@world.tool()
def signal_by_descriptor(state: dict[str, Any]) -> str:
    """Sends a signal without kill (pidfd_open)."""
    system(434, 1, 0)
    return "opened"


@world.tool()
def thread(state: dict[str, Any]) -> str:
    """Works in a thread."""
    said: list[str] = []
    worker = threading.Thread(target=said.append, args=("worked",))
    worker.start()
    worker.join()
    return said[0]


@world.tool()
def forge(state: dict[str, Any], line: str) -> str:
    """Writes into each open descriptor what could be an answer."""
    for descriptor in range(3, 16):
        try:
            os.write(descriptor, line.encode())
        except OSError:
            continue
    return "truth"


@world.tool()
def trickle(state: dict[str, Any]) -> str:
    """Writes a little at a time, and never ends."""
    while True:
        forge(state, " ")
        time.sleep(0.05)


@world.tool()
def no_json(state: dict[str, Any]) -> Any:
    """Returns what JSON does not have."""
    return {1}
