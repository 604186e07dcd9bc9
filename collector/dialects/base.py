"""A dialect: a table that says where the parts of a tool call are in a span.

Dialects are data. A new dialect is one file with a `Dialect` in it. `plan` and `read` serve all dialects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from collector.dialects.values.arguments import Unwrap, mapping
from collector.dialects.values.results import Says

__all__ = ["NOT_A_TOOL", "ArgumentSource", "Dialect", "Freshness"]

NOT_A_TOOL: Final = frozenset(
    {
        "chat",
        "create_agent",
        "embeddings",
        "execute_task",
        "generate_content",
        "invoke_agent",
        "invoke_workflow",
        "retrieval",
        "text_completion",
        "unknown",
    }
)
"""Values of `gen_ai.operation.name` that say that a span is no tool call, whatever else it has."""


@dataclass(frozen=True, slots=True)
class ArgumentSource:
    """A place where arguments may be, and the function that unwraps them."""

    key: str
    unwrap: Unwrap = mapping
    event: str = ""
    """Name of the span event that has the attribute `key`; "" for an attribute of the span."""
    needs: str = ""
    """An attribute key that must be there too, or the place is skipped."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """How a model's span shows that a conversation begins with its request.

    The request holds what a system and a user wrote, nothing that an assistant or a tool did, and continues
    nothing that the model's server keeps. It proves nothing where no message is on the wire.
    """

    messages: tuple[str, ...] = ()
    """Keys of the request's messages as JSON."""
    events: bool = False
    """True if each message is an event of its own, `gen_ai.{role}.message`, or all are in one event's attribute."""
    roles: tuple[str, ...] = ()
    """Beginnings of keys that name the author of a message; they end in `.role`."""
    elsewhere: tuple[str, ...] = ()
    """Keys of JSON that would name what the server keeps: a previous response, a conversation. One must be there."""
    scopes: tuple[str, ...] = ()
    """Prefixes of scope names: those whose requests are known to hold all that the model is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one instrumentation writes a tool call.

    A span is a call of this dialect if its scope, kind and keys fit (decided once per shape), and its values and
    its name do (checked span by span).
    """

    name: str
    when: tuple[str, ...] = ()
    """Keys that must be there."""
    unless: tuple[str, ...] = ()
    """Keys that must not be there."""
    some: tuple[str, ...] = ()
    """Keys of which at least one must be there, if any is given."""
    scopes: tuple[str, ...] = ()
    """Prefixes of scope names; () is any."""
    not_scopes: tuple[str, ...] = ()
    """Prefixes of scope names that it excludes."""
    kinds: frozenset[int] = frozenset()
    """Span kinds (1 internal, 2 server, 3 client); empty is any."""
    values: dict[str, frozenset[str]] = field(default_factory=dict)
    """Key -> the values it must have."""
    not_values: dict[str, frozenset[str]] = field(default_factory=dict)
    """Key -> values it must not have if it is there."""
    span_name: str = ""
    """Pattern of the whole span name, "" is any; its group `tool` names the tool."""
    tool: tuple[str, ...] = ()
    """Keys of the tool's name, the first present one wins; then the span's name."""
    arguments: tuple[ArgumentSource, ...] = ()
    """Places of the arguments; the first that gives any wins."""
    call_id: tuple[str, ...] = ()
    """Keys of the id that the model gave the call."""
    request_id: tuple[str, ...] = ()
    """Keys of a transport's request id, which is unique within one connection only."""
    version: str = ""
    """Key of the transport's protocol version."""
    status_tells: bool = True
    """False if an error in the span's status may belong to another call."""
    failed: dict[str, frozenset[str]] = field(default_factory=dict)
    """Key -> values that mean that the call failed; the span's status counts beside them."""
    failed_result: tuple[str, ...] = ()
    """Keys of JSON results that may show that the call failed."""
    says_failed: Says | None = None
    """Reads such a result: see `values/results`."""
    quotes: bool = True
    """False if a text that a tool returned is the whole result, not quoted as JSON: a third party may have
    written all of it, so that an `isError` in it is no certain failure. `output.value` tells it by its type."""
    failed_marks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Key -> prefixes of values that mean that the call failed."""
    failed_without: tuple[str, ...] = ()
    """Keys that a span has when it ended, unless the call failed."""
    failed_without_but_in: frozenset[str] = frozenset()
    """Languages whose SDK does not follow `failed_without`."""
    failed_by_exception: bool = False
    """True if an exception event means that the call failed, whatever the status."""
    control: frozenset[str] = frozenset()
    """Tools of the framework itself: their calls are control calls."""
    control_prefixes: tuple[str, ...] = ()
    """Prefixes of their names."""
    control_marks: dict[str, str] = field(default_factory=dict)
    """Key -> prefix of a value that marks a control call."""
    switch: str = ""
    """The setting of the instrumentation that turns arguments on."""
    freshness: Freshness | None = None
    """How its models' spans show that a conversation is new; None if nothing in them does."""

    def fits(self, scope: str, kind: int, keys: dict[str, int]) -> bool:
        """True if spans of this shape may be calls of this dialect."""
        return (
            (not self.scopes or scope.startswith(self.scopes))
            and not (self.not_scopes and scope.startswith(self.not_scopes))
            and (not self.kinds or kind in self.kinds)
            and all(key in keys for key in self.when)
            and not any(key in keys for key in self.unless)
            and (not self.some or any(key in keys for key in self.some))
        )
