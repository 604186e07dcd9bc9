"""Plain data -> models, with every fault at its path in the document.

pydantic checks; this module translates its errors. An error's location holds more than the path
in the document: the branch of a union, a mark at keys. `_path` follows the location in the data
and leaves out what is not there, so a fault's path is always one of the document. Line and column
are then found by the path (`monitor.spec.document.yaml_text.Document.place`).

Example: `reads: [water, 7]` fails at `("reads", LIST, 1)`, which is the path `("reads", 1)`;
`alphabet: {"": {...}}` fails at `("alphabet", "", "[key]")`, which is `("alphabet", "")`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, ValidationError
from pydantic_core import ErrorDetails

__all__ = ["LIST", "MAPPING", "PLAIN", "DocumentFault", "StrictModel", "by_form", "validated"]


class StrictModel(BaseModel):
    """A mapping whose keys are known. Values are not converted, unless a field says so."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )


_Model = TypeVar("_Model", bound=StrictModel)
_Path = tuple[str | int, ...]


class DocumentFault(NamedTuple):
    """One thing that is wrong."""

    path: _Path
    kind: Literal["missing", "unknown", "value"]
    """A key that is missing, a key that does not exist, or anything else."""
    said: str
    """What was expected, as the message says it."""


def validated(model: type[_Model], data: Any) -> tuple[_Model | None, list[DocumentFault]]:
    """The model that the data describe; None, and every fault, if they describe none.

    Args:
        model: what is expected.
        data: dicts with text keys, lists, texts, numbers, booleans, None.
    """
    try:
        return model.model_validate(data), []
    except ValidationError as problem:
        errors = problem.errors(include_url=False, include_input=False)
        return None, [_fault(error, data) for error in errors]


PLAIN: Final = "\0plain"
LIST: Final = "\0list"
MAPPING: Final = "\0mapping"
"""Tags of a union's branches. They stand in locations, so they must be no key of a document."""

_FORMS = {PLAIN: "a single value", LIST: "a list", MAPPING: "a mapping"}


def by_form(*tags: str) -> Discriminator:
    """Chooses the branch of a union by the value's form, so that only one branch has faults."""
    forms = " or ".join(_FORMS[tag] for tag in tags)
    return Discriminator(
        _form, custom_error_type="form", custom_error_message=f"Input should be {forms}"
    )


def _form(value: Any) -> str:
    if isinstance(value, dict):
        return MAPPING
    return LIST if isinstance(value, list) else PLAIN


def _fault(error: ErrorDetails, data: Any) -> DocumentFault:
    path = _path(error["loc"], data)
    if error["type"] == "missing":
        return DocumentFault((*path, error["loc"][-1]), "missing", "Field required")
    if error["type"] == "extra_forbidden":
        return DocumentFault(path, "unknown", "there is no such key")
    return DocumentFault(path, "value", _said(error))


def _path(location: _Path, data: Any) -> _Path:
    """The part of an error's location that is a path in the data."""
    found: list[str | int] = []
    for part in location:
        if isinstance(data, dict):
            inside = part in data
        else:
            inside = (
                isinstance(data, list | tuple)
                and isinstance(part, int)
                and 0 <= part < len(data)
            )
        if inside:
            found.append(part)
            data = data[part]
    return tuple(found)


_TEXTS = {
    "model_type": "Input should be a mapping of keys",
    "dict_type": "Input should be a mapping",
    "tuple_type": "Input should be a valid list",
    "path_type": "Input is not a valid path",
    "bool_type": "Input should be true or false (yes, no, on and off are texts)",
}
"""Type of an error -> what it says in the terms of a document. All others keep pydantic's text."""


def _said(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in ("too_short", "too_long"):
        return _length(**context)
    return _TEXTS.get(kind, error["msg"])


def _length(
    field_type: str, min_length: int | None = None, max_length: int | None = None, **_: Any
) -> str:
    bound = f"at least {min_length}" if min_length is not None else f"at most {max_length}"
    one = 1 in (min_length, max_length)
    if field_type == "Dictionary":
        return f"Mapping should have {bound} {'entry' if one else 'entries'}"
    return f"List should have {bound} {'item' if one else 'items'}"
