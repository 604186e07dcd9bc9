"""A tiny server on standard input and output: notes each line that comes, and answers calls of tools.

python mcp_server.py NOTES
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OUTPUT = sys.stdout.buffer


def result(message: dict[str, Any]) -> dict[str, Any]:
    """The tool `fail` fails, `crash` is answered by an error, `ask` needs an answer of the user first."""
    name = message["params"]["name"]
    if name == "crash":
        return {"error": {"code": -32603, "message": "crashed"}}
    if name == "ask":
        return {"result": {"resultType": "input_required"}}
    return {"result": {"content": [{"type": "text", "text": name}], "isError": name == "fail"}}


def main() -> int:
    with Path(sys.argv[1]).open("ab", buffering=0) as notes:
        for line in sys.stdin.buffer:
            notes.write(line)
            message = json.loads(line)
            if message.get("method") == "exit":
                return 7
            if message.get("method") == "tools/call":
                found = {"id": message["id"], "jsonrpc": "2.0", **result(message)}
                # Written as no JSON library would: what comes back must be these bytes.
                OUTPUT.write(json.dumps(found).replace(": ", " : ").encode() + b"\n")
            else:
                OUTPUT.write(b'{"jsonrpc":"2.0" , "echo":' + line.strip() + b"}\n")
            OUTPUT.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
