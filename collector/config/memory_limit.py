"""The memory that the process may take, and the bounds that follow from it.

The limit is the setting `memory_limit`, or else the cgroup's, which a container or a systemd unit has.
Of what the idle process leaves, each bound gets a share. A bound that is set stays as it is, and no share is
more than the bound's default. The shares leave room for what has bounds of its own (series, traces) and for the copies that are made of a request while it is decoded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from collector.config.settings.forward import NextHopSettings
from collector.config.settings.settings import Settings

__all__ = ["IDLE_BYTES", "FittedSettings", "cgroup_limit", "fitted"]

IDLE_BYTES: Final = 80 << 20
"""Bytes of the process before its first span, with everything loaded."""

LEAST_BYTES: Final = 16 << 20
"""Least bytes that are shared out, however small the limit."""

SHARES: Final = {
    ("receiver", "max_inflight_bytes"): 1 / 10,
    ("receiver", "max_request_bytes"): 1 / 10,
    ("sessions", "max_bytes"): 1 / 3,
    ("sessions", "max_argument_bytes"): 1 / 8,
    ("sessions", "max_span_bytes"): 1 / 5,
    ("sessions", "max_shared_things_bytes"): 1 / 20,
    ("decide", "max_call_bytes"): 1 / 16,
    ("judges", "keep_bytes"): 1 / 20,
}
"""Setting -> its share of what the idle process leaves."""

PAIRS_SHARE: Final = 1 / 8
"""Share of the sums of agents under specs (`metrics_pairs_max`)."""

PAIR_BYTES: Final = 10 << 10
"""What the sums of one agent under one spec take."""

FORWARD_SHARE: Final = 1 / 10
"""Share of the queues of all next hops together (`forward[].queue_bytes`)."""

_NONE: Final = 1 << 60
"""A cgroup of version 1 without a limit has a number like this."""


class FittedSettings(NamedTuple):
    """Settings whose bounds fit the memory."""

    settings: Settings
    limit: int
    """0: there is none."""
    source: str
    """Source of the limit: `setting`, `cgroup`, or "" without one."""


def fitted(settings: Settings, cgroup: int) -> FittedSettings:
    """The settings with bounds that follow from the memory limit, but for those that are set.

    Args:
        settings: as loaded.
        cgroup: the limit of the cgroup; 0 without one.
    """
    is_set = settings.memory_limit is not None
    limit = (settings.memory_limit or 0) if is_set else cgroup
    if not limit:
        return FittedSettings(settings, 0, "")
    free = max(limit - IDLE_BYTES, LEAST_BYTES)
    changed: dict[str, dict[str, int]] = {}
    for (section, name), share in SHARES.items():
        given = getattr(settings, section)
        if name not in given.model_fields_set:
            changed.setdefault(section, {})[name] = min(getattr(given, name), int(free * share))
    sections = {
        name: getattr(settings, name).model_copy(update=bounds)
        for name, bounds in changed.items()
    }
    return FittedSettings(
        settings.model_copy(
            update={
                **sections,
                "forward": _hops(settings, free),
                "metrics_pairs_max": _pairs(settings, free),
            }
        ),
        limit,
        "setting" if is_set else "cgroup",
    )


def _pairs(settings: Settings, free: int) -> int:
    """The pairs of agent and spec that there is room for."""
    given = settings.metrics_pairs_max
    if "metrics_pairs_max" in settings.model_fields_set:
        return given
    return min(given, int(free * PAIRS_SHARE) // PAIR_BYTES)


def _hops(settings: Settings, free: int) -> tuple[NextHopSettings, ...]:
    """The next hops, with queues that share what there is for them."""
    hops = settings.forward
    share = int(free * FORWARD_SHARE / max(len(hops), 1))
    return tuple(
        hop
        if "queue_bytes" in hop.model_fields_set
        else hop.model_copy(update={"queue_bytes": min(hop.queue_bytes, share)})
        for hop in hops
    )


def cgroup_limit(
    root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")
) -> int:
    """The least memory limit of the process's cgroup and of those above it; 0 without one.

    Args:
        root: where cgroups are mounted.
        groups: the file that names the process's own.
    """
    try:
        lines = groups.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    found: list[int] = []
    for line in lines:
        _, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if not kinds:
            found += _limits(root, path, "memory.max")
        elif "memory" in kinds.split(","):
            found += _limits(root / "memory", path, "memory.limit_in_bytes")
    return min(found, default=0)


def _limits(root: Path, path: str, name: str) -> list[int]:
    """The limits on the way from the root to a cgroup; in a container the way may be cut off."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    found = []
    for count in range(len(parts) + 1):
        try:
            text = root.joinpath(*parts[:count], name).read_text().strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdigit() and 0 < int(text) < _NONE:
            found.append(int(text))
    return found
