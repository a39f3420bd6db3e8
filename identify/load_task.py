"""What is asked about a load: which parameters are unknown, what is known of the arm, and how surely.

[Swevers2002] eq. (14) and §2.5: unknown are the load, the friction and the efficiencies of the axes that move, which
differ between robots and with temperature; links and rotors are known from an earlier campaign.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.identify.load_runs import LoadRun, carried_from_joints, moving_axes
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.base import base_parameters
from excitor.robots.parameters import LINK_COMPONENTS, LINK_UNITS, layout
from excitor.robots.robot import Robot

Drift = Literal["none", "linear", "each run"]
LOAD_NAMES = tuple(f"{component}L" for component in LINK_COMPONENTS)  # XXL … ML, at the origin of the link's frame


@dataclass(frozen=True, eq=False, slots=True)
class Arm:
    """What is known of the robot without the load: χ and its covariance, 0 for what counts as exact."""

    chi: FloatArray  # (n_params,) of the robot's layout
    covariance: FloatArray  # (n_params, n_params)

    def __post_init__(self) -> None:
        freeze(self, chi="n_params", covariance="n_params n_params")


def exact_arm(robot: Robot, chi: FloatArray | None = None) -> Arm:
    """Take the arm for exactly known, by default as the robot's own prior with no payload."""
    chi = robot.chi if chi is None else np.asarray(chi, dtype=float)
    return Arm(chi, np.zeros((len(chi), len(chi))))


def arm_from_base(robot: Robot, names: Sequence[str], beta: FloatArray, covariance: FloatArray) -> Arm:
    """Take the arm as an earlier campaign estimated it: base parameters by name, and their covariance.

    Base parameters at their own columns and 0 elsewhere give the same torques; those not named are 0.
    """
    base, params = base_parameters(robot), layout(robot)
    place = {params.names[column]: int(column) for column in base.kept}
    place |= {name: int(column) for name, column in zip(base.names, base.kept, strict=True)}
    strange = [name for name in names if name not in place]
    if strange:
        raise ValueError(
            f"{', '.join(strange)} is no base parameter of {robot.name}; the arm must have been identified with this "
            f"very robot file, whose base parameters are {', '.join(base.names)}"
        )
    if len({place[name] for name in names}) < len(names):
        raise ValueError("a base parameter of the arm is named twice; name each once")
    columns = [place[name] for name in names]
    chi, C = np.zeros(len(params)), np.zeros((len(params), len(params)))
    chi[columns] = beta
    C[np.ix_(columns, columns)] = covariance
    return Arm(chi, C)


@dataclass(frozen=True, eq=False, slots=True)
class LoadTask:
    """The question that runs are to answer; built by `load_task`."""

    robot: Robot
    arm: Arm
    link: int  # that carries the load
    axes: BoolArray  # (n_joints,): whose equations count
    efficiency: FloatArray | None  # (n_joints,), known; None: unknown
    friction: IntArray  # columns of the layout that are unknown
    drift: Drift
    learn_arm: bool  # let the data correct the arm within its covariance, instead of trusting it as it is

    def __post_init__(self) -> None:
        n = freeze(self, axes="bool: n_joints", friction="int: n_friction")["n_joints"]
        if n != self.robot.n_joints:
            raise ValueError(f"axes has {n} entries, expected the robot's {self.robot.n_joints}")
        if self.efficiency is not None:
            freeze(self, efficiency=str(n))
            if not (self.efficiency > 0.0).all():
                raise ValueError(f"efficiency is {self.efficiency.tolist()}, expected positive numbers, 1 for no loss")


def load_task(
    robot: Robot,
    runs: Sequence[LoadRun],
    *,
    arm: Arm | None = None,
    link: int | None = None,
    efficiency: FloatArray | None = None,
    drift: Drift = "none",
    learn_arm: bool = False,
) -> LoadTask:
    """Ask for a load on a link, by default the tool's, from the axes that move in the runs.

    A payload that the robot states is left out of the arm: it may be the very load that is asked for.
    """
    if not runs:
        raise ValueError("there are no runs to learn a load from; give at least one with the load on")
    for run in runs:
        if run.tau.shape[1] != robot.n_joints:
            raise ValueError(
                f"run {run.run!r} has {run.tau.shape[1]} motors, expected {robot.n_joints} of {robot.name}"
            )
    if not any(run.loaded for run in runs):
        raise ValueError("no run has the load on; mark those that do as loaded")
    link = robot.tool.link if link is None else link
    if not 0 <= link < robot.mechanism.n_links:
        raise ValueError(f"link is {link}, expected 0 to {robot.mechanism.n_links - 1} of {robot.name}")
    axes = moving_axes(runs)
    axes[list(robot.locked)] = False
    if not axes.any():
        raise ValueError("no axis moves in these runs; for poses held, use static_load")
    if learn_arm and not (arm is not None and arm.covariance.any()):
        raise ValueError("learn_arm needs an arm with a covariance that says how far it may be corrected")
    arm = exact_arm(robot) if arm is None else arm
    if len(arm.chi) != len(layout(robot)):
        raise ValueError(f"the arm has {len(arm.chi)} parameters, expected {len(layout(robot))} of {robot.name}")
    return LoadTask(robot, arm, link, axes, efficiency, friction_columns(robot, axes), drift, learn_arm)


def friction_columns(robot: Robot, axes: BoolArray) -> IntArray:
    """List the friction parameters that show in the motors of some axes while these move."""
    A = carried_from_joints(robot)[axes]
    found = [
        column
        for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True)
        if (np.abs(A @ term.acts) > 1e-9).any() and (term.senses[axes] != 0.0).any()
    ]
    return np.array(sorted(set(found)), dtype=np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Unknowns:
    """The order of θ = [load, friction, efficiencies, deviations of the arm]."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    load: slice
    friction: slice
    efficiency: slice
    efficiency_axes: IntArray  # (n_efficiencies,)
    arm: slice  # in units of their standard deviations

    def __len__(self) -> int:
        return len(self.names)


def unknowns(task: LoadTask, runs: Sequence[LoadRun], n_arm: int) -> Unknowns:
    """Name what is unknown; `n_arm` deviations of the arm, if it may be corrected."""
    params, names, units = layout(task.robot), list(LOAD_NAMES), list(LINK_UNITS)
    suffixes = {
        "none": ("",),
        "linear": ("", " drift"),
        "each run": tuple(f" in {run.run}" for run in runs),
    }[task.drift]
    for column in task.friction:
        names += [params.names[column] + suffix for suffix in suffixes]
        units += [params.units[column] + ("/time" if suffix == " drift" else "") for suffix in suffixes]
    friction = slice(10, len(names))
    axes = np.flatnonzero(task.axes) if task.efficiency is None else np.zeros(0, dtype=np.int64)
    names += [f"R {task.robot.joint_names[i]}" for i in axes]
    units += ["1"] * len(axes)
    efficiency = slice(friction.stop, len(names))
    count = n_arm if task.learn_arm else 0
    names += [f"arm {k + 1}" for k in range(count)]
    units += ["1"] * count
    return Unknowns(
        tuple(names), tuple(units), slice(0, 10), friction, efficiency, axes, slice(efficiency.stop, len(names))
    )
