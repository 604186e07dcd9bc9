"""Prices of models, from a file: none stand in the code, since they change.

    {"gpt-4o-mini": {"input": 0.15, "output": 0.60}}

JSON or YAML; money for a million tokens.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from judges.bounded_file import BoundedFileError, bounded_text
from judges.models.budget import Price

__all__ = ["BadPricesError", "price_of"]

FILE_BYTES_MAX: Final = 16 << 20


class BadPricesError(Exception):
    """A file of prices cannot be used; the message names it and says why."""


def price_of(file: Path, model: str) -> Price:
    """The price of a model.

    Raises:
        BadPricesError: the file cannot be read, is over `FILE_BYTES_MAX` bytes, has another form, or does not name the model.
    """
    try:
        found = yaml.safe_load(bounded_text(file, FILE_BYTES_MAX))
    except BoundedFileError as problem:
        raise BadPricesError(str(problem)) from None
    except (ValueError, RecursionError, yaml.YAMLError) as problem:
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
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= value <= sys.float_info.max:
        return float(value)
    raise BadPricesError(f"{where}: expected money for a million tokens, found {value!r}")
