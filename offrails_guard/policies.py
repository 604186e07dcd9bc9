"""The guard's policies: what is done with a call that no spec has found right or wrong. They are no specs."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

__all__ = ["NO_SPEC", "UNAVAILABLE", "UNKNOWN", "Policies", "Policy"]

Policy = Literal["allow", "deny"]
"""What to do where there is no decision."""

UNKNOWN: Final = "unknown"
NO_SPEC: Final = "no_spec"
UNAVAILABLE: Final = "unavailable"


class Policies(NamedTuple):
    """What to do with calls that no spec has found right or wrong."""

    on_unavailable: Policy = "allow"
    """Nobody could be asked in time."""
    on_unknown: Policy = "allow"
    """Policy if it is not known, under a spec that blocks, whether the call is harmful."""
    on_no_spec: Policy = "allow"
    """No spec matches the agent."""

    def allow(self, word: str, *, blocks: bool = True) -> bool:
        """Whether to make a call with this decision.

        Args:
            word: of the decision.
            blocks: False if only specs that advise do not know; they stop no call.
        """
        if word == UNKNOWN and not blocks:
            return True
        settings = {
            UNAVAILABLE: self.on_unavailable,
            UNKNOWN: self.on_unknown,
            NO_SPEC: self.on_no_spec,
        }
        return settings.get(word, word) == "allow"
