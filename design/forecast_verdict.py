"""Go or no-go: whether what the planned runs will tell is worth the afternoon."""

from collections.abc import Sequence
from dataclasses import dataclass

RELATIVE_SIGMA = 0.10  # of an essential parameter, at most, inflated
CONDITION = 30.0  # at most
REVERSALS = 2.0  # of a moving joint's velocity, at least, over all runs; fewer leave Coulomb friction and offset alike
TORQUE_ERROR = 0.05  # of the joint's rms torque, or of its noise where that is more, at most, inflated
_LISTED = 5  # names in a sentence


@dataclass(frozen=True, slots=True)
class Check:
    """One reason to go, or not to."""

    name: str
    value: float  # the worst
    limit: float
    holds: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class JointCheck:
    """What the verdict looks at in one joint."""

    joint: str
    moves: bool
    reversals: float
    torque_size: float  # rms, at least the noise; 0 where the joint has no rows
    torque_error: float


def judge(
    essential: Sequence[tuple[str, float, bool]], condition: float, joints: Sequence[JointCheck]
) -> tuple[Check, ...]:
    """Check essential parameters (name, relative σ, whether the prior states a size), condition and joints."""
    return (_parameters(essential), _condition(condition), _reversals(joints), _torque(joints))


def _parameters(essential: Sequence[tuple[str, float, bool]]) -> Check:
    judged = [(name, relative) for name, relative, stated in essential if stated]
    worst = max((relative for _, relative in judged), default=0.0)
    bad = sorted((pair for pair in judged if not pair[1] <= RELATIVE_SIGMA), key=lambda pair: -pair[1])
    if not judged:
        text = "no parameter has a prior size that shows above the noise, so none is judged"
    elif bad:
        listed = [f"{name} ({_percent(relative)})" for name, relative in bad]
        text = (
            f"{len(bad)} of {len(judged)} essential parameters would be known worse than {RELATIVE_SIGMA:.0%}: "
            f"{_several(listed)}; measure longer, or move what shows them"
        )
    else:
        text = f"all {len(judged)} essential parameters will be known to {worst:.2%} or better"
    return Check("essential parameters", worst, RELATIVE_SIGMA, not bad, text)


def _condition(condition: float) -> Check:
    holds = condition <= CONDITION
    text = f"the condition number is {condition:.3g}, at most {CONDITION:g} is asked for"
    return Check("condition", condition, CONDITION, holds, text if holds else f"{text}; search longer or move wider")


def _reversals(joints: Sequence[JointCheck]) -> Check:
    moving = [joint for joint in joints if joint.moves]
    least = min((joint.reversals for joint in moving), default=REVERSALS)
    bad = [joint.joint for joint in moving if joint.reversals < REVERSALS]
    if bad:
        text = (
            f"{_several(bad)} would reverse less than {REVERSALS:g} times, so Coulomb friction and offset look alike; "
            "let each moving joint go back and forth"
        )
    else:
        text = f"every moving joint reverses at least {least:g} times" if moving else "no joint moves"
    return Check("reversals", least, REVERSALS, not bad, text)


def _torque(joints: Sequence[JointCheck]) -> Check:
    ratios = [(joint.joint, joint.torque_error / joint.torque_size) for joint in joints if joint.torque_size > 0.0]
    worst = max((ratio for _, ratio in ratios), default=0.0)
    bad = [f"{name} ({_percent(ratio)})" for name, ratio in ratios if not ratio <= TORQUE_ERROR]
    if bad:
        limit = f"{TORQUE_ERROR:.0%} of the rms torque"
        text = f"the expected torque error exceeds {limit}: {_several(bad)}; measure longer"
    else:
        text = f"the expected torque error is at most {worst:.2%} of a joint's rms torque"
    return Check("torque error", worst, TORQUE_ERROR, not bad, text)


def _percent(value: float) -> str:
    return f"{value:.0%}" if value < float("inf") else "not at all"


def _several(names: Sequence[str]) -> str:
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")
