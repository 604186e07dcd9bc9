"""Prices of models, from a file: none stand in the code, since they change.

    {"gpt-4o-mini": {"input": 0.15, "output": 0.60}}

JSON or YAML; money for a million tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from judges.models.budget import Price

__all__ = ["BadPricesError", "price_of"]


class BadPricesError(Exception):
    """A file of prices cannot be used; the message names it and says why."""


def price_of(file: Path, model: str) -> Price:
    """The price of a model.

    Raises:
        BadPricesError: the file cannot be read, has another form, or does not name the model.
    """
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as problem:
        raise BadPricesError(f"{file}: {problem}") from None
    if not isinstance(found, dict) or model not in found:
        raise BadPricesError(f"{file}: there is no price of {model!r}")
    prices = found[model]
    fields = prices if isinstance(prices, dict) else {}
    return Price(
        _amount(fields.get("input"), f"{file}: {model}.input"),
        _amount(fields.get("output"), f"{file}: {model}.output"),
    )


def _amount(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise BadPricesError(f"{where}: expected money for a million tokens, found {value!r}")
    return float(value)
