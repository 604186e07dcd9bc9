"""What the tokens of a rollout cost, by a file of prices: `{MODEL: {input: PRICE, output: PRICE}}`, for a million tokens.

Judges read the same file (`judges.models.prices`). They ask for a price, and stop where there is none. Here a fault is named by its line,
and a model without a price has no cost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from monitor.spec.document.yaml_text import Document, parse

__all__ = ["PriceError", "token_cost"]

_MILLION: Final = 1_000_000
_KEYS: Final = {"input": "in", "output": "out"}
"""Keys of a price, each with its short form."""


class PriceError(Exception):
    """A file of prices cannot be used."""


def token_cost(file: Path | None, model: str) -> Callable[[int, int], float | None]:
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
        said = map(str, findings) if findings else [f"{file}:1:1: expected a mapping"]
        raise PriceError("\n".join(said))
    if model not in document.data:
        return _unknown
    each_in, each_out = (_amount(document, file, model, key) for key in _KEYS)
    return lambda tokens_in, tokens_out: (
        (tokens_in * each_in + tokens_out * each_out) / _MILLION
    )


def _amount(document: Document, file: Path, model: str, key: str) -> float:
    price: Any = document.data[model]
    prices = price if isinstance(price, dict) else {}
    name = key if key in prices else _KEYS[key]
    found: Any = prices.get(name)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    if is_number and 0 <= found <= sys.float_info.max:
        return float(found)
    line, column = document.place((model, name))
    raise PriceError(
        f"{file}:{line}:{column}: {model}.{key}: expected money for a million tokens, found {found!r}"
    )


def _unknown(_tokens_in: int, _tokens_out: int) -> float | None:
    return None
