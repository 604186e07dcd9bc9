"""Runs the cases against any OTLP traces receiver.

python -m tests.conformance --grpc 127.0.0.1:4317 --http 127.0.0.1:4318
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.conformance.case import Case, cases
from tests.conformance.target import Target

MESSAGE_MAX = 160


def main() -> int:
    """Prints a line for each case and the counts; returns 0 where all pass."""
    options = _parser().parse_args()
    target = Target(
        grpc=options.grpc,
        http=options.http,
        ca=options.ca,
        cert=options.cert,
        token=os.environ.get("OTLP_TOKEN", ""),
        limit=options.limit,
    )
    chosen = [each for each in cases() if each.applies(target) and options.only in each.name]
    failed = sum(not _run(each, target, quiet=options.quiet) for each in chosen)
    print(f"{len(chosen) - failed} of {len(chosen)} passed")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--grpc", default="", metavar="H:P|unix:PATH")
    parser.add_argument("--http", default="", metavar="H:P|unix:PATH")
    parser.add_argument(
        "--ca", type=Path, metavar="PEM", help="speak TLS; who signed the server"
    )
    parser.add_argument("--cert", type=Path, metavar="PEM", help="the client's, with its key")
    parser.add_argument("--limit", type=int, default=64 << 20, help="bytes of one request")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose names have it")
    parser.add_argument("--quiet", action="store_true", help="only what fails")
    return parser


def _run(each: Case, target: Target, *, quiet: bool) -> bool:
    begun = time.monotonic()
    try:
        each.check(target)
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the case has failed
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:MESSAGE_MAX]
        print(f"FAIL {each.name}: {reason}")
        return False
    if not quiet:
        print(f"ok   {each.name} ({time.monotonic() - begun:.2f} s)")
    return True


if __name__ == "__main__":
    sys.exit(main())
