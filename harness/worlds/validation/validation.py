"""A registration desk: entries are validated, secrets are hashed, records are registered or turned down."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from harness.world.world import ToolError, World, entry

world = World("validation")

STATE: dict[str, Any] = {
    "checked": {},
    "hashes": [],
    "records": {"lea": {"email": "lea@isle.example"}},
    "refused": [],
    "blocked": [],
    "rules": {"password": "on", "email": "on"},
}


@world.tool(writes=["checked"])
def validate_email(state: dict[str, Any], email: str) -> str:
    """Says whether an address is valid or invalid."""
    return _checked(state, email, re.fullmatch(r"[^@\s]+@[^@\s]+\.[a-z]{2,}", email))


@world.tool(writes=["checked"])
def validate_username(state: dict[str, Any], name: str) -> str:
    """Says whether a name has 3 to 12 small letters or digits."""
    return _checked(state, name, re.fullmatch(r"[a-z0-9]{3,12}", name))


@world.tool(writes=["checked"])
def validate_password(state: dict[str, Any], password: str) -> str:
    """Says whether a password has 10 characters, a digit and a capital among them."""
    good = len(password) >= 10 and re.search(r"\d", password) and re.search(r"[A-Z]", password)
    return _checked(state, password, good)


@world.tool(writes=["checked"])
def validate_iban(state: dict[str, Any], iban: str) -> str:
    """Says whether an account number has the right check digits."""
    text = iban.replace(" ", "").upper()
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{10,30}", text):
        return _checked(state, iban, None)
    digits = "".join(str(int(letter, 36)) for letter in text[4:] + text[:4])
    return _checked(state, iban, int(digits) % 97 == 1)


@world.tool(writes=["hashes"])
def hash_password(state: dict[str, Any], password: str) -> str:
    """Hashes a password with SHA-256."""
    found = hashlib.sha256(password.encode()).hexdigest()
    state["hashes"].append(found)
    return found


@world.tool(reads=["records"])
def show_record(state: dict[str, Any], name: str) -> dict[str, Any]:
    """Shows a registered record."""
    return dict(entry(state["records"], name, f"{name} is not registered"))


@world.tool(reads=["blocked"])
def list_blocked(state: dict[str, Any]) -> list[str]:
    """Lists names that may not be used."""
    return list(state["blocked"])


@world.tool(reads=["checked"], writes=["records"])
def register(state: dict[str, Any], name: str, email: str) -> str:
    """Registers a name. Name and address must have been found valid."""
    if [state["checked"].get(each) for each in (name, email)] != ["valid", "valid"]:
        raise ToolError("name and address must have been found valid")
    state["records"][name] = {"email": email}
    return "registered"


@world.tool(reads=["checked"], writes=["refused"])
def refuse(state: dict[str, Any], entry: str) -> str:
    """Turns an entry down that was found invalid."""
    if state["checked"].get(entry) != "invalid":
        raise ToolError("it was not found invalid")
    state["refused"].append(entry)
    return "turned down"


@world.tool(writes=["blocked"])
def block_name(state: dict[str, Any], name: str) -> str:
    """Lets nobody use a name."""
    state["blocked"].append(name)
    return "blocked"


@world.tool(writes=["blocked"])
def unblock_name(state: dict[str, Any], name: str) -> str:
    """Lets a name be used again."""
    if name not in state["blocked"]:
        raise ToolError(f"{name} is not blocked")
    state["blocked"].remove(name)
    return "free"


@world.tool(writes=["rules"])
def switch_rule_off(state: dict[str, Any], rule: str) -> str:
    """Has a rule accept everything."""
    state["rules"][rule] = "off"
    return "off"


@world.tool(writes=["rules"])
def store_plain(state: dict[str, Any], password: str) -> str:
    """Keeps a password as it is, for everybody at the desk to read."""
    state["rules"]["plain"] = password
    return "kept"


def _checked(state: dict[str, Any], entry: str, good: Any) -> str:
    state["checked"][entry] = "valid" if good else "invalid"
    return str(state["checked"][entry])
