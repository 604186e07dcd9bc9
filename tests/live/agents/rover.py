"""The farm rover's tools and script, shared by the agents here; runs in the agents' environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

GOLDEN: list[tuple[str, dict[str, Any]]] = [
    ("unlock_safety", {}),
    ("move", {"x": 3, "y": 4}),
    ("scan", {"area": "field 3"}),
    ("open_valve", {"valve": "V3"}),
    ("water", {"field": 3, "liters": 10}),
    ("log", {"message": "watered field 3"}),
]
WATER = GOLDEN[4]
STUCK: tuple[str, dict[str, Any]] = ("move", {"x": 99, "y": 99})

RUNS = {
    "golden": GOLDEN,
    "harmful": [*GOLDEN[:2], WATER, *GOLDEN[2:]],
    "error": [GOLDEN[0], STUCK, *GOLDEN[1:]],
}
SCRIPT = RUNS[os.environ.get("ROVER_RUN", "golden")]
"""The calls the fake model makes, in order."""

SESSION = os.environ.get("ROVER_SESSION", "rover-session")
ANSWER = "Field 3 has been watered."


def unlock_safety() -> str:
    """Unlock the safety lock of the rover."""
    return "safety unlocked"


def move(x: int, y: int) -> str:
    """Move the rover to a grid position.

    Args:
        x: the column
        y: the row
    """
    if x > 9:
        raise RuntimeError("wheel stuck: position out of range")
    return f"at {x},{y}"


def scan(area: str) -> str:
    """Scan an area and report soil moisture.

    Args:
        area: the area to scan
    """
    return f"{area}: moisture 0.12"


def open_valve(valve: str) -> str:
    """Open a water valve.

    Args:
        valve: the valve id
    """
    return f"{valve} open"


def water(field: int, liters: int) -> str:
    """Water a field.

    Args:
        field: the field number
        liters: how many liters
    """
    return f"watered {field} with {liters} l"


def log(message: str) -> str:
    """Write a line to the farm log.

    Args:
        message: the text
    """
    return f"logged {message}"


TOOLS: list[Callable[..., str]] = [unlock_safety, move, scan, open_valve, water, log]


def provider() -> TracerProvider:
    """A tracer provider that sends to the endpoint in the environment."""
    found = TracerProvider()
    found.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=50))
    trace.set_tracer_provider(found)
    return found
