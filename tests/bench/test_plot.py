"""The picture of the benchmarks shows all its bars and texts."""

from __future__ import annotations

import re

from tests.bench.plot import LETTER, WIDTH, svg
from tests.bench.process import COMPILED_MAX, Row
from tests.bench.service import COLLECTOR, OURS, PLAIN

TEXT = re.compile(r'<text x="([\d.]+)"[^>]*>([^<]*)</text>')


def test_no_text_is_cut_off() -> None:
    """With all servers that are compared, whatever their figures are."""
    servers = {OURS: 1.0, PLAIN: 246.4, COLLECTOR: 17.0, "rotel, blackhole": 128.8}
    rows = [
        Row(name, *way, cost)
        for way in [*COMPILED_MAX, ("HTTP", 512)]
        for name, cost in servers.items()
    ]
    texts = [(float(x), text) for x, text in TEXT.findall(svg(rows))]
    assert {*servers, "at most, ours", "246.4", "gRPC, 50"} <= {text for _, text in texts}
    assert [text for x, text in texts if x + len(text) * LETTER > WIDTH] == []
