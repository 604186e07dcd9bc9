"""A helper that stays, and answers for hooks: each is a process of its own, which only asks it over a Unix socket.

    hook  --its arguments, its folder, the event-->  helper  --exit code, output, errors-->  hook
    any other program  --the event-->  helper  --the hook's output as JSON-->  the program

A hook that finds no helper, or gets no answer from it, asks the service itself. This file is loaded by every hook, so it
loads little.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable

from offrails_guard.own_folder import is_ours, own_folder
from offrails_guard.transport.patience import Patience

__all__ = ["EVENT_BYTES_MAX", "HookRequest", "answer_of", "listen", "serve", "socket_path"]

FORMAT = b"offrails-hook 1 "
"""What the first line of a hook begins with; its arguments follow as JSON."""

TAKEN = b"\n"
"""What the helper says at once, so that a hook knows that it is there."""

EVENT_BYTES_MAX = 64 << 20

HERE_SECONDS = 1.0
"""How long a hook waits for a sign of the helper; then it asks the service itself."""

ANSWER_SECONDS = 60.0
"""How long it waits for the answer; the helper's own deadline is much shorter."""

HOOKS_MAX = 256
"""Hooks that are answered at once; others wait."""


class HookRequest:
    """What a hook asks.

    Attributes:
        arguments: of its command line, from the verb's name on; None where another program asks.
        folder: in which it was started.
        event: as it came.
    """

    def __init__(self, arguments: list[str] | None, folder: str, event: bytes) -> None:
        self.arguments = arguments
        self.folder = folder
        self.event = event


Answer = tuple[int, str, str]
"""Exit code, standard output, standard error."""


def socket_path() -> str:
    """Where the helper of this user listens."""
    return f"{own_folder('offrails-hook-helper')}/socket"


# --- the hook's side -------------------------------------------------------------------------------


def answer_of(arguments: list[str], read_event: Callable[[], bytes]) -> Answer | bytes | None:
    """The helper's answer; the event if it was read and there is none; None where there is no helper."""
    path = socket_path()
    event = None
    try:
        if not is_ours(os.path.dirname(path)):
            return None
        with socket.socket(socket.AF_UNIX) as line:
            Patience(HERE_SECONDS).connect(line, path)
            event = read_event()
            said = json.dumps([arguments, os.getcwd()]).encode()
            _send(line, FORMAT + said + b"\n" + event)
            line.shutdown(socket.SHUT_WR)
            return _read_answer(_receive(line)) or event
    except (OSError, ValueError):  # TimeoutError is one of these
        return event


def _send(line: socket.socket, data: bytes) -> None:
    patience, sent = Patience(ANSWER_SECONDS), 0
    while sent < len(data):
        patience.wait(line.fileno(), to_write=True)
        sent += line.send(data[sent : sent + (1 << 20)])


def _receive(line: socket.socket) -> bytes:
    found, patience = b"", Patience(HERE_SECONDS)
    while True:
        patience.wait(line.fileno())
        part = line.recv(1 << 16)
        if not part:
            return found
        if not found:
            patience = Patience(ANSWER_SECONDS)
        found += part


def _read_answer(text: bytes) -> Answer | None:
    """None where the helper cannot answer."""
    if not text.startswith(TAKEN) or len(text) == len(TAKEN):
        return None
    code, out, err = json.loads(text)
    return int(code), str(out), str(err)


# --- the helper's side -----------------------------------------------------------------------------


def listen(path: str) -> socket.socket:
    """Listens for hooks.

    Raises:
        OSError: another helper does, or the folder is not this user's alone.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if not is_ours(folder):
        raise PermissionError(f"{folder}: others may open it")
    with socket.socket(socket.AF_UNIX) as other:
        try:
            other.connect(path)
        except FileNotFoundError:
            pass
        except ConnectionRefusedError:
            os.unlink(path)  # of a helper that is gone
        else:
            raise FileExistsError(f"{path}: a helper is there already")
    found = socket.socket(socket.AF_UNIX)
    try:
        found.bind(path)
        found.listen(HOOKS_MAX)
    except OSError:
        found.close()
        raise
    return found


def serve(listener: socket.socket, answer: Callable[[HookRequest], Answer | None]) -> None:
    """Answers hooks, until the listener is closed."""
    import threading

    room = threading.Semaphore(HOOKS_MAX)

    def one(line: socket.socket) -> None:
        try:
            with line:
                _serve_one(line, answer)
        except (OSError, ValueError):
            pass  # the hook is gone, says nothing, or is none
        finally:
            room.release()

    while True:
        room.acquire()
        try:
            line, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=one, args=(line,), daemon=True).start()


def _serve_one(line: socket.socket, answer: Callable[[HookRequest], Answer | None]) -> None:
    line.settimeout(ANSWER_SECONDS)
    request = _read_request(_whole(line))
    if request.arguments is not None:
        line.sendall(TAKEN)
    found = answer(request)
    if found is not None:
        text = found[1] if request.arguments is None else json.dumps(found)
        line.sendall(text.encode(errors="replace"))


def _whole(line: socket.socket) -> bytes:
    """What comes until its end; of other programs than hooks, until the event is whole."""
    found = bytearray()
    while part := line.recv(1 << 20):
        found += part
        if len(found) > EVENT_BYTES_MAX:
            raise OSError("the event is too long")
        if found[:1] == b"{" and found.rstrip().endswith(b"}") and _is_json(found):
            break
    return bytes(found)


def _is_json(text: bytearray) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _read_request(text: bytes) -> HookRequest:
    if not text.startswith(FORMAT):
        return HookRequest(None, "/", text)
    first, _, event = text.partition(b"\n")
    arguments, folder = json.loads(first.removeprefix(FORMAT))
    return HookRequest([str(each) for each in arguments], str(folder), event)
