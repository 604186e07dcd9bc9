"""What a running service says of the first minutes after its start, in which a session may have begun before it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from collector.client.api_client import NoAnswerError, ask
from collector.config.first_minutes import USUALLY, first_minutes, until
from collector.telemetry.clock import now_ns

__all__ = ["limitation"]

_ABOUT: Final = "/api/v1/about"


def limitation(url: str | None, token_file: Path | None = None) -> str:
    """The sentence on sessions that may have begun before the start; "" if it does not apply.

    Args:
        url: of the service's API; None if there is none.
        token_file: has the token that the service asks for.

    Returns:
        The service's own time limit. Without an answer, what is so by default.
    """
    if url is None:
        return first_minutes(USUALLY)
    try:
        history = ask(url, _ABOUT, token_file).get("history")
    except NoAnswerError:
        history = None
    if not isinstance(history, dict):
        return first_minutes(USUALLY)
    joined_until = history.get("joined_until")
    if not isinstance(joined_until, int) or joined_until <= now_ns():
        return ""
    return first_minutes(f"until {until(joined_until)}")
