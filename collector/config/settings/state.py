"""The journal."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from collector.config.field_types import File, Number, Switch, Whole
from collector.config.section import SettingsSection

__all__ = ["StateSettings"]


class StateSettings(SettingsSection):
    """The journal, from which a process that starts goes on where the one before it ended."""

    dir: Annotated[
        File | None,
        Field(
            description="Folder of the journal, of this process alone. If empty, a restart begins with nothing."
        ),
    ] = None
    durability: Annotated[
        Literal["process", "power", "off"],
        Field(
            description="What acknowledged requests survive. process: the end of the process, kill -9 included. power: also that of the machine, since answers wait for the disk. off: no journal is kept."
        ),
    ] = "process"
    bytes_max: Annotated[
        Whole,
        Field(
            ge=1 << 20,
            description="Bytes of the journal. Beyond it, the oldest files are deleted, and a restart reads the sessions that were in them as joined. A restart judges what is left again.",
        ),
    ] = 512 * 1024 * 1024
    keep_seconds: Annotated[
        Annotated[Number, Field(gt=0)] | None,
        Field(
            description="Age at which files of the journal are deleted. Unset: twice `sessions.idle_seconds`, and at least five minutes."
        ),
    ] = None
    on_error: Annotated[
        Literal["refuse", "continue"],
        Field(
            description="What happens to requests that the disk refuses. refuse: senders are to send them again (503, UNAVAILABLE). continue: they are judged, and lost with the process."
        ),
    ] = "refuse"
    snapshot_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="Seconds between two snapshots of the state, at least; a restart judges only what the journal has behind the last one. Another process writes them, which for some seconds takes up to one and a half times as much memory; where the memory limit has no room for that, none is taken. 0: none are taken.",
        ),
    ] = 60.0
    strict: Annotated[
        Switch,
        Field(
            description="Whether a start fails if a file of the journal is damaged. A torn end, as a killed process leaves it, is no damage."
        ),
    ] = False
    bridged_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="Down-time that every sender is known to bridge by sending again. After a longer one, calls of that time may be missing in each session, and harm that they could explain is possible harm. SDKs retry for about 10 s; the Collector for 300 s, if `retry_on_failure` is on. 0: nobody is trusted to.",
        ),
    ] = 0.0
