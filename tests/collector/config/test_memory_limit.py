"""Bounds that follow from the memory limit, and where the limit is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.config.memory_limit import IDLE_BYTES, SHARES, cgroup_limit, fitted
from collector.config.settings.forward import NextHopSettings
from collector.config.settings.settings import Settings
from collector.config.sources import load

MIB = 1 << 20


def bounds(settings: Settings) -> dict[str, int]:
    found = {name: getattr(getattr(settings, section), name) for section, name in SHARES}
    return {name: value // MIB for name, value in found.items()}


@pytest.mark.parametrize("mib", [64, 128, 192, 512, 4096])
def test_bounds_fit_the_limit(mib: int) -> None:
    """Together with the idle process and a copy of each request they leave a tenth, or the floor holds."""
    fit = fitted(Settings(memory_limit=mib * MIB), 0)
    found = bounds(fit.settings)
    taken = 2 * found["max_inflight_bytes"] + found["max_bytes"] + found["max_argument_bytes"]
    free = max(mib - IDLE_BYTES // MIB, 16)
    assert taken <= free
    assert (fit.limit, fit.source) == (mib * MIB, "setting")
    assert found["max_request_bytes"] <= found["max_inflight_bytes"]


def test_a_large_limit_raises_no_bound() -> None:
    """Defaults are the most."""
    assert bounds(fitted(Settings(memory_limit=64 << 30), 0).settings) == bounds(Settings())


def test_the_memory_limit_keeps_explicit_settings() -> None:
    """A variable, a key in the file: both are set, and others of their section follow the limit."""
    given = {
        "OFFRAILS_MEMORY_LIMIT": str(192 * MIB),
        "OFFRAILS_SESSIONS_MAX_BYTES": str(99 * MIB),
    }
    found = bounds(fitted(load(None, given, {}), 0).settings)
    assert found["max_bytes"] == 99
    assert found["max_argument_bytes"] == 14
    assert found["max_inflight_bytes"] == 11


@pytest.mark.parametrize(("mib", "pairs"), [(64, 204), (128, 614), (192, 1_433), (512, 2_000)])
def test_agents_have_as_many_sums_as_there_is_room_for(mib: int, pairs: int) -> None:
    """Sums of agents under specs take an eighth, so a flood of agents' names never fills a small process."""
    assert fitted(Settings(memory_limit=mib * MIB), 0).settings.metrics_pairs_max == pairs
    given = Settings(memory_limit=mib * MIB, metrics_pairs_max=5_000)
    assert fitted(given, 0).settings.metrics_pairs_max == 5_000


def test_next_hops_share_a_bound() -> None:
    """The queues of next hops share a tenth of what is free; one that is set stays."""
    hops = (
        NextHopSettings(endpoint="http://a:1"),
        NextHopSettings(endpoint="http://b:1"),
        NextHopSettings(endpoint="http://c:1", queue_bytes=5 * MIB),
    )
    fit = fitted(Settings(memory_limit=380 * MIB, forward=hops), 0)
    assert [hop.queue_bytes // MIB for hop in fit.settings.forward] == [10, 10, 5]


def test_the_cgroup_is_the_default() -> None:
    """Without a setting the cgroup's limit counts; 0 turns it off; without either nothing changes."""
    assert fitted(Settings(), 192 * MIB)[1:] == (192 * MIB, "cgroup")
    assert fitted(Settings(memory_limit=0), 192 * MIB) == (Settings(memory_limit=0), 0, "")
    assert fitted(Settings(), 0) == (Settings(), 0, "")


def group(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text + "\n")


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def test_the_least_limit_on_the_way_counts(tmp_path: Path, groups: Path) -> None:
    """Version 2: a slice above the unit may have less."""
    groups.write_text("0::/system.slice/offrails.service\n")
    group(tmp_path / "system.slice", "memory.max", str(100 * MIB))
    group(tmp_path / "system.slice" / "offrails.service", "memory.max", str(512 * MIB))
    assert cgroup_limit(tmp_path, groups) == 100 * MIB


def test_in_a_container(tmp_path: Path, groups: Path) -> None:
    """The container's root cgroup is read, whatever path the process names."""
    groups.write_text("0::/../../kubepods/pod1\n")
    group(tmp_path, "memory.max", str(192 * MIB))
    assert cgroup_limit(tmp_path, groups) == 192 * MIB


def test_version_1(tmp_path: Path, groups: Path) -> None:
    """In cgroup v1, the limit is in the memory controller's own tree. A huge number means no limit."""
    groups.write_text("5:cpu:/x\n4:memory:/docker/1\n")
    name = "memory.limit_in_bytes"
    group(tmp_path / "memory", name, "9223372036854771712")
    assert cgroup_limit(tmp_path, groups) == 0
    group(tmp_path / "memory" / "docker" / "1", name, str(64 * MIB))
    assert cgroup_limit(tmp_path, groups) == 64 * MIB


@pytest.mark.parametrize("text", ["max", "", "-1", "0", "many"])
def test_no_limit(tmp_path: Path, groups: Path, text: str) -> None:
    """A value that is not a number means no limit."""
    groups.write_text("0::/\n")
    group(tmp_path, "memory.max", text)
    assert cgroup_limit(tmp_path, groups) == 0


def test_no_cgroups(tmp_path: Path, groups: Path) -> None:
    """Without cgroup files there is no limit."""
    assert cgroup_limit(tmp_path, groups) == 0
