"""What hostile clients of the listener for decisions send: requests that fit its limits, and some that do not."""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["BAD", "CHAIN", "FLOODS", "GOOD", "SPECS", "WRONG", "head", "whole"]

GOOD, BAD, WRONG = "good-4f9c", "bad-77aa", "nobodys"
"""Tokens; nobody has the last one."""

CHAIN: Final = 20
"""Tools of which each needs the one before it."""

SPECS: Final = {
    "shop.yaml": """
id: shop
version: "1"
enforce: block
match: {service.name: shop}
alphabet: {look: {tool: look}, pay: {tool: pay}, approve: {tool: approve}}
reads: [look]
initial: start
accepting: [paid]
transitions: {start: {approve: approved}, approved: {pay: paid}}
""",
    "chain.yaml": f"""
id: chain
kind: policy
enforce: block
match: {{service.name: chain}}
alphabet: {{{", ".join(f"t{n}: {{tool: t{n}}}" for n in range(CHAIN))}}}
constraints: [{", ".join(f"{{precedence: [t{n}, t{n + 1}]}}" for n in range(CHAIN - 1))}]
""",
}
"""By file. Tools of `chain` depend on each other, so that their orders cannot be searched apart."""


def head(length: int, token: str = BAD, path: str = "/api/v1/decide") -> bytes:
    """Of a question."""
    return (
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n"
        % (path.encode(), token.encode(), length)
    )


def whole(body: bytes, token: str = BAD, path: str = "/api/v1/decide") -> bytes:
    """A whole request."""
    return head(len(body), token, path) + body


def question(arguments: bytes, token: str = BAD) -> bytes:
    """One call with these arguments."""
    body = b'{"session":"x","service":"shop","tool":"look","arguments":%b}' % arguments
    return whole(body, token)


def parallel(*tools: str, commit: bool, service: str = "shop") -> bytes:
    """64 parallel calls of some tools."""
    calls: list[dict[str, Any]] = [
        {"tool": tools[place % len(tools)], "arguments": {"n": place}} for place in range(64)
    ]
    body = {"session": "x", "service": service, "calls": calls, "commit": commit}
    return whole(json.dumps(body).encode())


def chained(*, commit: bool) -> bytes:
    """64 parallel calls of tools that depend on each other, the last one first."""
    tools = [f"t{number}" for number in reversed(range(CHAIN))]
    return parallel(*tools, commit=commit, service="chain")


def attributes() -> bytes:
    """As many and as long ones as are taken."""
    told = {f"k{number}": "\U0001f600" * 900 for number in range(60)}
    body = {"session": "x", "service": "shop", "tool": "look", "attributes": told}
    return whole(json.dumps(body, ensure_ascii=False).encode())


MANY: Final = json.dumps({f"name-{number}": [number] for number in range(10_000)}).encode()
UNREAD: Final = b'{"session":"x","service":"shop","tool":"look","arguments":{},"unread":%b}'

FLOODS: Final = {
    "wrong tokens": (question(b"{}", WRONG), "401"),
    "empty arguments": (question(b"{}"), "200"),
    "a giant argument": (question(b'{"text":"%b"}' % (b"x" * 250_000)), "200"),
    "many arguments": (question(MANY), "400"),
    "unread arguments": (whole(UNREAD % json.dumps([str(n) for n in range(1_000)]).encode()), "200"),
    "one name, many times": (question(b'{%b"a":0}' % (b'"a":1,' * 40_000)), "200"),
    "many values": (question(b'{"a":%b}' % json.dumps([[0]] * 40_000).encode()), "200"),
    "long attributes": (attributes(), "200"),
    "bodies over the limit": (question(b'{"text":"%b"}' % (b"x" * 2_000_000)), "413"),
    "deep JSON": (question(b"[" * 200_000), "400"),
    "deep arguments": (question(b'{"a":' * 40_000 + b"1" + b"}" * 40_000), "400"),
    "levels": (question(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"), "200"),
    "parallel calls": (parallel("look", "pay", "approve", commit=False), "200"),
    "parallel calls that go ahead": (parallel("look", "pay", "approve", commit=True), "200"),
    "chained calls": (chained(commit=False), "200"),
    "chained calls that go ahead": (chained(commit=True), "200"),
}  # fmt: skip
"""By name, a whole request and the status of its answer."""
