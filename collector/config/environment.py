"""Variables: each setting has one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from collector.config.section import leaves
from collector.config.settings.settings import Settings
from monitor.spec.suggestions import closest

__all__ = ["CONFIG", "ENVIRONMENT", "PREFIX", "misspelt", "unknown"]

PREFIX = "OFFRAILS_"

ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    **{PREFIX + "_".join(leaf.path).upper(): leaf.path for leaf in leaves(Settings)},
    f"{PREFIX}GRPC": ("receiver", "grpc"),
    f"{PREFIX}HTTP": ("receiver", "http"),
    f"{PREFIX}DECIDE": ("decide", "listen"),
}
"""Variable -> setting. Some listeners also have short names, like their options."""

CONFIG = f"{PREFIX}CONFIG"
"""The variable that names the settings file."""

_SECTIONS = tuple(
    sorted({f"{PREFIX}{path[0]}_".upper() for path in ENVIRONMENT.values() if path[1:]})
)
"""Prefixes of the variables that set a section's fields."""

_SERVICE = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$"
)
"""Suffixes of variables that Kubernetes sets for a service, which may be named `offrails-...`."""

_ALIKE = 0.75
"""Least similarity, from 0 to 1, at which an unknown variable counts as a misspelt one."""


def unknown(environ: Mapping[str, str]) -> list[str]:
    """`OFFRAILS_*` variables that set nothing, without those that Kubernetes sets."""
    return sorted(
        name
        for name, value in environ.items()
        if name.startswith(PREFIX)
        and value
        and name not in ENVIRONMENT
        and name != CONFIG
        and not _SERVICE.search(name)
    )


def misspelt(environ: Mapping[str, str]) -> list[str]:
    """A message for each unknown variable that resembles a setting or begins like a section.

    Others are accepted: another program's variables may have the same prefix.
    """
    known = [name.removeprefix(PREFIX) for name in (*ENVIRONMENT, CONFIG)]
    told = []
    for name in unknown(environ):
        meant = closest(name.removeprefix(PREFIX), known, _ALIKE)
        if meant:
            told.append(f"{name}: unknown variable; did you mean {PREFIX}{meant}?")
        elif name.startswith(_SECTIONS):
            told.append(f"{name}: unknown variable")
    return told
