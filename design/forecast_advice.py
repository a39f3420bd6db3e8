"""What the planned runs leave open, and which further run would close it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.robots.base import base_parameters, random_motion
from excitor.robots.information import Information, Noise, add, information, knowledge
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot, posture

N_SAMPLES = 200  # of the random states that stand for a further run


@dataclass(frozen=True, slots=True)
class Advice:
    """Parameters that stay open, or share their column with others, and what to do about it."""

    names: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, eq=False, slots=True)
class _Extra:
    """A run that could be added."""

    motion: Motion
    need: str


def advise(robot: Robot, motions: Sequence[Motion], total: Information, noise: Noise) -> tuple[Advice, ...]:
    """Name what stays open, each with the least further run that was found to determine it.

    Further runs are tried as random states: one joint back and forth, poses held, all joints together.
    """
    advice = []
    left = knowledge(total).unidentifiable
    for extra in _extras(robot, motions):
        if not left:
            break
        gain = information(robot, extra.motion, noise, duration=len(extra.motion) / noise.rate_hz)
        still = set(knowledge(add([total, gain])).unidentifiable)
        closed = tuple(name for name in left if name not in still)
        if closed:
            advice.append(Advice(closed, f"{_all(closed)} {_verb(closed, 'need')} {extra.need}"))
            left = tuple(name for name in left if name in still)
    if left:
        text = f"{_all(left)} stay{'s' if len(left) == 1 else ''} open whatever single run is added; combine several"
        advice.append(Advice(left, text))
    return (*advice, *_by_nature(robot))


def _extras(robot: Robot, motions: Sequence[Motion]) -> Iterator[_Extra]:
    free = [i for i in range(robot.n_joints) if i not in robot.locked]
    middle = np.mean([motion.q.mean(axis=0) for motion in motions], axis=0)
    speeds = np.max([np.abs(motion.dq).max(axis=0) for motion in motions], axis=0)
    for i in sorted(free, key=lambda i: bool(speeds[i])):
        held = {k: float(robot.locked.get(k, middle[k])) for k in range(robot.n_joints) if k != i}
        name = robot.joint_names[i]
        need = f"joint {name} to move back and forth, which it does in no run"
        if speeds[i]:
            need = f"joint {name} to reverse, in a run of its own or more widely in those planned"
        yield _Extra(random_motion(robot, N_SAMPLES, held), need)
    anywhere = random_motion(robot, N_SAMPLES, robot.locked)
    yield _Extra(posture(anywhere.q), "poses held in the whole workspace, for they show in gravity")
    still = [robot.joint_names[i] for i in free if not speeds[i]]
    together = "a run in which all joints move together and widely"
    if still:
        together = f"a run in which {_all(still)} {_verb(still, 'move')} together with the others"
    yield _Extra(anywhere, together)


def _by_nature(robot: Robot) -> tuple[Advice, ...]:
    """Tell what no run of this robot can show."""
    base, advice = base_parameters(robot), []
    if base.without_effect:
        names = base.without_effect
        advice.append(Advice(names, f"{_all(names)} never: no motion of this robot shows {_them(names)}"))
    if base.only_combined:
        names = base.only_combined
        text = f"{_all(names)} only as {_parts(names)} of base parameters: the rest is up to the consistent prior"
        advice.append(Advice(names, text))
    if robot.payload is not None:
        own = layout(robot).names[layout(robot).link(robot.payload.link)]
        where = f"the payload is part of link {robot.payload.link + 1}'s parameters"
        advice.append(Advice(own, f"{where}; a pair of runs, with it and without, tells the two apart"))
    return tuple(advice)


def _all(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _verb(names: Sequence[str], verb: str) -> str:
    return f"{verb}s" if len(names) == 1 else verb


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _parts(names: Sequence[str]) -> str:
    return "a part" if len(names) == 1 else "parts"
