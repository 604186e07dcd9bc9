"""Attributes that are written are read back as they were."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.decode.json import otlp_json
from collector.decode.json.write_values import attributes_json

INTEGERS = st.integers(-(2**63), 2**63 - 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read_back(value: Any) -> Any:
    """A value that was written as an attribute, read as an export's is."""
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "attributes": attributes_json({"a": value}),
    }
    group = {"scopeSpans": [{"spans": [span]}]}
    [found] = otlp_json.decode(json.dumps({"resourceSpans": [group]}).encode()).spans
    return found.attribute(0)


@given(PLAIN)
def test_what_is_written_is_read_back(value: Any) -> None:
    """Any JSON value, infinite numbers too, comes back as the value of the same type."""
    found = read_back(value)
    assert found == value
    assert type(found) is type(value)


def test_a_number_that_is_none_is_read_back() -> None:
    """NaN, which JSON does not have, is no damaged request: a score of Inspect's may be one."""
    assert math.isnan(read_back(math.nan))
