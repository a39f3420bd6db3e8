"""What a log file holds, before anybody declares what it means: channels, each on a time base of its own."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.errors import InvalidLog

Quantity = Literal[
    "position",
    "velocity",
    "acceleration",
    "torque",
    "current",
    "effort",  # torque or current, the format does not say which
    "torque_model",  # what a controller computes from its own model
    "temperature",
    "marker",
    "speed_scaling",
    "time",
]
Role = Literal["measured", "reference", "unknown"]
ChannelSide = Literal["joint", "motor", "unknown"]
UNINITIALISED = 1e100  # numbers beyond were never measured; memory that was not filled looks like this

_GROUPED = re.compile(r"(?P<group>.+?)(?:\[\d+\]|:[^:]*|_?\d+)")


@dataclass(frozen=True, eq=False, slots=True)
class Clock:
    """When samples were taken, s, and the rows of the file (or the numbers of samples) that tell them."""

    t: FloatArray | None  # (n_samples,); None where the format does not say which channel is the time
    rows: IntArray

    def __post_init__(self) -> None:
        freeze(self, rows="int: n_samples")
        if self.t is not None:
            freeze(self, t=str(len(self.rows)))

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False, slots=True)
class Channel:
    """One series of numbers in the file's own unit, with what the format itself says of it, and no more."""

    name: str
    values: FloatArray  # (n_samples,)
    clock: Clock
    kind: Quantity | None = None
    joint: int | str | None = None  # a number, from 0, where the format counts; a name where it names
    role: Role = "unknown"
    side: ChannelSide = "unknown"
    unit: str | None = None
    stem: str = ""  # its name without the joint, where the format says how the two are joined

    def __post_init__(self) -> None:
        freeze(self, values=str(len(self.clock)))

    @property
    def t(self) -> FloatArray | None:
        """When its samples were taken, s."""
        return self.clock.t

    @property
    def group(self) -> str:
        """Its name without the joint: `q` of `q[3]`, `actual_q` of `actual_q_3`, `effort` of `effort:elbow`."""
        found = _GROUPED.fullmatch(self.name)
        return self.stem or (found["group"] if found else self.name)


@dataclass(frozen=True, eq=False, slots=True)
class Recording:
    """All channels of a file, or of files that belong together, and what reading them mended."""

    path: str
    format: str
    channels: tuple[Channel, ...]
    notes: tuple[str, ...] = ()

    def channel(self, name: str) -> Channel:
        """Find a channel by its name."""
        for channel in self.channels:
            if channel.name == name:
                return channel
        raise InvalidLog(self.path, f"has no channel {name!r}; {self.listed()}")

    def listed(self) -> str:
        """Name the channels, the first of them where there are many."""
        names = [channel.name for channel in self.channels]
        more = f" and {len(names) - 24} more" if len(names) > 24 else ""
        return f"its channels are {', '.join(names[:24])}{more}" if names else "it has no channels"

    def group(self, name: str) -> list[Channel]:
        """Find the channels of a group, as the file orders them."""
        return [channel for channel in self.channels if channel.group == name and channel.name != name]


def check_measured(path: object, name: str, values: FloatArray, rows: IntArray) -> None:
    """Refuse what nothing measures: no number, infinite, or left over in memory that was never filled."""
    bad = np.flatnonzero(~(np.abs(values) < UNINITIALISED))
    if bad.size:
        more = f" ({bad.size} such rows)" if bad.size > 1 else ""
        k = int(bad[0])
        raise InvalidLog(str(path), f"{name} is {values[k]:g}, which nothing measures{more}; cut it", int(rows[k]))


def distinct(path: object, channels: list[Channel]) -> tuple[Channel, ...]:
    """Refuse channels that share a name: nobody could tell them apart."""
    seen: set[str] = set()
    for channel in channels:
        if channel.name in seen:
            raise InvalidLog(str(path), f"has two channels named {channel.name!r}; rename one of them")
        seen.add(channel.name)
    return tuple(channels)
