"""Prices of tokens, from a file: `{MODEL: {in: PRICE, out: PRICE}}`, for a million tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from monitor.spec.document.yaml_text import parse

__all__ = ["PriceError", "price_of"]

_MILLION = 1_000_000


class PriceError(Exception):
    """A file of prices cannot be used."""


def price_of(file: Path | None, model: str) -> Callable[[int, int], float | None]:
    """What a rollout's tokens cost; None where there is no price of the model.

    Raises:
        PriceError: the file is not of this form.
    """
    if file is None:
        return _unknown
    try:
        document, findings = parse(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as problem:
        raise PriceError(f"{file}: {problem}") from None
    if document is None or findings or not isinstance(document.data, dict):
        raise PriceError(f"{file}: expected a mapping of models to prices")
    price: Any = document.data.get(model)
    if price is None:
        return _unknown
    try:
        each_in, each_out = float(price["in"]), float(price["out"])
    except (KeyError, TypeError, ValueError):
        line, column = document.place((model,))
        raise PriceError(f"{file}:{line}:{column}: {model}: expected `in` and `out`") from None
    return lambda tokens_in, tokens_out: (
        (tokens_in * each_in + tokens_out * each_out) / _MILLION
    )


def _unknown(_tokens_in: int, _tokens_out: int) -> float | None:
    return None
