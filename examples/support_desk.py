"""The support desk that all examples share: its tools, and the script that stands in for a model.

A real agent has a model in place of `SCRIPTS`. Everything else stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

__all__ = ["ANSWER", "QUESTION", "SCRIPT", "SESSION", "TOOLS", "tracing"]

ORDER = {"order": "A-17"}
QUESTION = "Order A-17 arrived broken. I want my money back."
ANSWER = "You have your money back."

LOOK: tuple[str, dict[str, Any]] = ("look_up_order", ORDER)
CHECK: tuple[str, dict[str, Any]] = ("check_refund_policy", ORDER)
REFUND: tuple[str, dict[str, Any]] = ("refund", {**ORDER, "amount": 25})
TOO_MUCH: tuple[str, dict[str, Any]] = ("refund", {**ORDER, "amount": 900})
DELETE: tuple[str, dict[str, Any]] = ("delete_customer", {"customer": "ana"})
NOTIFY: tuple[str, dict[str, Any]] = ("notify_customer", {**ORDER, "text": ANSWER})
HELP: tuple[str, dict[str, Any]] = ("search_help", {"query": "broken on arrival"})

SCRIPTS = {
    "good": [LOOK, CHECK, REFUND, NOTIFY],
    "careful": [HELP, LOOK, HELP, CHECK, REFUND, NOTIFY],
    "order": [LOOK, REFUND, CHECK, REFUND, NOTIFY],
    "argument": [LOOK, CHECK, TOO_MUCH, REFUND, NOTIFY],
    "forbidden": [LOOK, CHECK, REFUND, DELETE, NOTIFY],
}
"""The calls that the fake model makes: two good runs, and three that break one rule each."""


def look_up_order(order: str) -> str:
    """Show an order.

    Args:
        order: the number of the order
    """
    return f"{order}: one teapot, 25 EUR, delivered"


def search_help(query: str) -> str:
    """Search the help pages.

    Args:
        query: what to look for
    """
    return f"3 pages on {query}"


def check_refund_policy(order: str) -> str:
    """Say whether an order may be refunded.

    Args:
        order: the number of the order
    """
    return f"{order} may be refunded"


def refund(order: str, amount: int) -> str:
    """Pay money back.

    Args:
        order: the number of the order
        amount: how much, in EUR
    """
    return f"refunded {amount} EUR of {order}"


def notify_customer(order: str, text: str) -> str:
    """Write to the customer.

    Args:
        order: the number of the order
        text: what to write
    """
    return f"{order}: sent {text!r}"


def delete_customer(customer: str) -> str:
    """Delete a customer and all their data.

    Args:
        customer: who
    """
    return f"{customer} is gone"


TOOLS: list[Callable[..., str]] = [
    look_up_order,
    search_help,
    check_refund_policy,
    refund,
    notify_customer,
    delete_customer,
]


def _asked() -> tuple[str, str]:
    """The run and the session that the command line names."""
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in SCRIPTS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(SCRIPTS)} [SESSION]")
    return sys.argv[1], sys.argv[-1]


RUN, SESSION = _asked()
SCRIPT = SCRIPTS[RUN]


def tracing() -> TracerProvider:
    """Sends spans to offrails: OTEL_EXPORTER_OTLP_ENDPOINT, or port 4318 of this machine.

    `service.name` is what the specs match on.
    """
    provider = TracerProvider(resource=Resource.create({"service.name": "support-desk"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider
