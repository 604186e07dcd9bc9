"""Adds an `accept:` entry to the text of a spec, and leaves everything else as it was written.

Comments, order and layout are the author's. The text is changed in one place, and what it then
says is read back: it must be the old document with one entry more, or nothing is changed.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from monitor.errors import OffrailsError
from monitor.spec.document import yaml_text
from monitor.spec.document.write import flow, name
from monitor.spec.spec import Acceptance

__all__ = ["EditError", "entry_lines", "with_acceptance"]

KEY: Final = "accept"


class EditError(OffrailsError):
    """The text has a layout that cannot be added to; the message says what to write by hand."""


def with_acceptance(text: str, acceptance: Acceptance) -> str:
    """The document with one accepted call more.

    Args:
        text: a document that can be read.
        acceptance: the new entry.

    Raises:
        EditError: it would not read back as meant.
    """
    ending = "\r\n" if "\r\n" in text else "\n"
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    new = _added(text, root, acceptance, ending)
    if new is None or not _is_meant(text, new, acceptance):
        by_hand = "\n".join([f"{KEY}:", *entry_lines(acceptance, "  ")])
        raise EditError(f"the entry has no place in this layout; write it by hand:\n{by_hand}")
    return new


def entry_lines(acceptance: Acceptance, indent: str) -> list[str]:
    """The entry as lines of a block sequence, the dash at `indent`."""
    lines = [f"{key}: {value}" for key, value in _written(acceptance).items()]
    return [f"{indent}- {lines[0]}", *(f"{indent}  {line}" for line in lines[1:])]


def _data(acceptance: Acceptance) -> dict[str, str]:
    found = {
        "constraint": acceptance.constraint,
        "symbol": acceptance.symbol,
        "state": acceptance.state,
        "who": acceptance.who,
        "why": acceptance.why,
        "until": acceptance.until.isoformat(),
    }
    return {key: value for key, value in found.items() if value is not None}


def _written(acceptance: Acceptance) -> dict[str, str]:
    bare = {"until": acceptance.until.isoformat()}
    names = {key: name(value) for key, value in _data(acceptance).items()}
    return {**names, **bare}


def _added(text: str, root: Any, acceptance: Acceptance, ending: str) -> str | None:
    """The text with the entry; None if the layout has no place for it."""
    if not isinstance(root, yaml.MappingNode):
        return None
    known = next((value for key, value in root.value if key.value == KEY), None)
    if isinstance(known, yaml.SequenceNode):
        if known.flow_style:
            return _in_brackets(text, known, acceptance)
        if known.value:
            indent = " " * known.start_mark.column
            return _after(text, _last(known), entry_lines(acceptance, indent), ending)
    if known is not None or root.flow_style:
        return None
    indent = " " * root.start_mark.column
    lines = ["", f"{indent}{KEY}:", *entry_lines(acceptance, indent + "  ")]
    return _after(text, _last(root), lines, ending)


def _last(node: Any) -> int:
    """The last line, from 0, of a node's own text."""
    while not getattr(node, "flow_style", True) and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    mark = node.end_mark
    # A block scalar ends where the next line begins.
    line: int = mark.line if mark.column else max(mark.line - 1, node.start_mark.line)
    return line


def _after(text: str, line: int, lines: list[str], ending: str) -> str:
    rows = text.splitlines(keepends=True)
    head, tail = rows[: line + 1], rows[line + 1 :]
    if head and not head[-1].endswith(("\n", "\r")):
        head[-1] += ending
    return "".join([*head, *(f"{each}{ending}" for each in lines), *tail])


def _in_brackets(text: str, node: yaml.SequenceNode, acceptance: Acceptance) -> str:
    rows = text.splitlines(keepends=True)
    line, column = node.end_mark.line, node.end_mark.column - 1
    row = rows[line]
    between = ", " if node.value and not row[:column].rstrip().endswith(",") else ""
    rows[line] = f"{row[:column]}{between}{flow(_data(acceptance))}{row[column:]}"
    return "".join(rows)


def _is_meant(text: str, new: str, acceptance: Acceptance) -> bool:
    """True if the new text says what the old one said, and the entry."""
    before, _ = yaml_text.parse(text, "")
    after, found = yaml_text.parse(new, "")
    if before is None or after is None or found:
        return False
    entries = [*before.data.get(KEY, []), _data(acceptance)]
    wanted: dict[str, Any] = {**before.data, KEY: entries}
    same: bool = after.data == wanted
    return same
