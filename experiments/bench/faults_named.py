"""Does a refusal name the fault that was put in? By a table of what people must be able to read in its first line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from excitor.experiments.virtual.machine import Fault


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the first line of a refusal must say of a fault, besides the joints that it is in."""

    words: str  # a pattern
    channels: Mapping[str, str] | None = None  # what it must say of each kind of signal that may be wrong
    joints: bool = True  # whether one line must name all joints that the fault is in


_SIGNALS = {"torque": "torque", "position": "position"}
WANTED: Mapping[str, Wanted] = {
    "swapped-axes": Wanted(r"exchanged|swapped", {"torque": "torque", "all": "position"}),
    "degrees": Wanted(r"in degrees", joints=False),
    "flipped-sign": Wanted(r"sign is reversed|wrong sign", _SIGNALS),
    "missing-gear": Wanted(r"gear ratio", _SIGNALS),
    "half-speed": Wanted(r"speed (slider|scaling).* 50(\.0+)? %", joints=False),
    "dropped-samples": Wanted(r"\b(samples|rows)\b.*\bmissing\b|\bs are missing\b", joints=False),
    "stuck-joint": Wanted(r"\bis stuck\b"),
    "saturated-current": Wanted(r"drive is saturated"),
    "wrong-payload": Wanted(r"kg at the flange beyond the stated load", joints=False),
}


def named(fault: Fault, joints: Sequence[str], refusal: str) -> bool:
    """Tell whether the first line of a refusal names a fault, the kind of signal, and every joint it is in."""
    wanted, first = WANTED[fault.name], refusal.partition("\n")[0]
    words = [wanted.words]
    if wanted.channels:
        words.append(rf"\b{wanted.channels[fault.channel]}s?\b")
    if wanted.joints:
        words += [rf"(?<!\w){re.escape(joints[j])}(?!\w)" for j in fault.joints]
    return all(re.search(word, first) for word in words)
