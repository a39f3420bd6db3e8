"""What does a robot do under recorded torques, each held until the next? Open loop, nothing corrects it.

"rk4"     Runge and Kutta's steps of order four, equal parts of a sample; dry friction smoothed, tanh(v / width)
"rk45"    the same equations by the pair of orders 4 and 5 with its own steps, restarted at every sample
"events"  dry friction a true sign: what comes to rest sticks until it can no longer be held
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from excitor.robots.arrays import FloatArray, IntArray, check_shape, freeze
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout, prior
from excitor.robots.plant import plain_plant
from excitor.robots.robot import FrictionTerm, Robot
from excitor.robots.servo import WIDTH, Followed, smoothed, until_lost
from excitor.robots.simulate import STABLE, friction_rate

if TYPE_CHECKING:
    from excitor.robots.kernel.plant import Plant
    from excitor.robots.kernel.sticking import Dry

Method = Literal["rk4", "rk45", "events"]
State = tuple[FloatArray, FloatArray]  # positions and velocities, each (n_joints,)
RELATIVE, ABSOLUTE = 1e-7, 1e-10  # errors of a step that rk45 allows
_MOST_STEPS = 2000  # of rk45 in one sample
_LOST = 1e4  # rad/s or m/s
_DRY = ("coulomb", "stribeck")


@dataclass(frozen=True, eq=False, slots=True)
class Stuck:
    """How each dry friction moved at the samples, in open simulation with events."""

    names: tuple[str, ...]  # parameters
    sense: IntArray  # (n_samples, n_dry): 1, -1, or 0 where it sticks

    def __post_init__(self) -> None:
        freeze(self, sense=f"int: n_samples {len(self.names)}")


def integrate_held(
    robot: Robot,
    tau: FloatArray,
    *,
    start: State,
    rate_hz: float,
    chi: FloatArray | None = None,
    method: Method = "rk4",
    width: float = WIDTH,
    substeps: int | None = None,
) -> Followed:
    """Simulate a robot with parameters chi (the prior where not given) under torques (n_samples, n_joints).

    `substeps` are those of rk4 between two torques: as many as `steps_a_sample` counts where not given.
    """
    if method == "events":
        return integrate_sticking(robot, tau, start=start, rate_hz=rate_hz, chi=chi)[0]
    tau, start = _checked(robot, tau, start)
    robot, chi = smoothed(robot, width), prior(robot) if chi is None else chi
    plant, step = plain_plant(robot, chi), 1.0 / rate_hz
    if method == "rk45":
        return _rk45(plant, tau, start, step)
    from excitor.robots.kernel import held

    out = np.zeros((held.N_SIGNALS, *tau.shape))
    parts = steps_a_sample(robot, chi, start[0], step) if substeps is None else substeps
    good = held.run_held(plant, tau, start, step, parts, out)
    return until_lost(out, good, step)


def steps_a_sample(robot: Robot, chi: FloatArray, q: FloatArray, step: float) -> int:
    """Count steps of order four: none longer than 0.32 ms, nor than the smoothed friction bears."""
    with np.errstate(all="ignore"):
        rate = friction_rate(robot, q[None], chi)
    stiff = step * rate / (0.5 * STABLE) if np.isfinite(rate) else 1.0
    return int(np.clip(np.ceil(max(stiff, step / 3.2e-4) - 1e-9), 1, 200))


def integrate_sticking(
    robot: Robot, tau: FloatArray, *, start: State, rate_hz: float, chi: FloatArray | None = None
) -> tuple[Followed, Stuck]:
    """Simulate with true signs of dry friction: joints stick and break away, several at once where they must."""
    from excitor.robots.kernel import held, sticking

    tau, start = _checked(robot, tau, start)
    chi = np.array(prior(robot) if chi is None else chi, dtype=float)
    names, dry = dry_friction(robot, chi)
    slippery = chi.copy()
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if term.model in _DRY:
            slippery[column] = 0.0
    step = 1.0 / rate_hz
    out, sense = np.zeros((held.N_SIGNALS, *tau.shape)), np.zeros((len(tau), len(names)), dtype=np.int64)
    parts = max(1, int(np.ceil(step / 1.25e-3 - 1e-9)))
    plant = plain_plant(smoothed(robot), slippery)
    good = sticking.run_sticking(plant, dry, tau, start, step, parts, out, sense)
    return until_lost(out, good, step), Stuck(names, sense)


def dry_friction(robot: Robot, chi: FloatArray) -> tuple[tuple[str, ...], "Dry"]:
    """Gather dry friction: what senses and acts alike sticks and slides as one."""
    from excitor.robots.kernel.sticking import Dry

    groups: dict[tuple[bytes, bytes], list[tuple[FrictionTerm, float]]] = {}
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if term.model in ("load", "maxwell-slip"):
            raise ExcitorError(
                f"friction {term.parameter!r} is {term.model}, whose sticking is not simulated by events; use rk4"
            )
        if term.model in _DRY:
            if chi[column] < 0.0:
                raise ExcitorError(
                    f"friction {term.parameter!r} is {chi[column]:.3g}; nothing sticks by negative friction; use rk4"
                )
            groups.setdefault((term.senses.tobytes(), term.acts.tobytes()), []).append((term, chi[column]))
    held = [group for group in groups.values() if sum(value for _, value in group) > 0.0]
    shape = (len(held), robot.n_joints)
    falling = [[(term, value) for term, value in group if term.model == "stribeck"] for group in held]
    crowded = [group[1][0].parameter for group in falling if len(group) > 1]
    if crowded:
        raise ExcitorError(f"friction {crowded[0]!r} is a second stribeck term of one joint; use rk4")
    dry = Dry(
        senses=np.array([group[0][0].senses for group in held]).reshape(shape),
        acts=np.array([group[0][0].acts for group in held]).reshape(shape),
        level=np.array([sum(value for term, value in group if term.model == "coulomb") for group in held], dtype=float),
        more=np.array([group[0][1] if group else 0.0 for group in falling], dtype=float),
        scale=np.array([group[0][0].scale if group else 1.0 for group in falling], dtype=float),
    )
    return tuple(group[0][0].parameter for group in held), dry


def _rk45(plant: "Plant", tau: FloatArray, start: State, step: float) -> Followed:
    """Step scipy's integrator from sample to sample; its first step is the last one's length."""
    from scipy.integrate import RK45

    from excitor.robots.kernel.held import N_SIGNALS, accelerations_at

    n = tau.shape[1]
    out = np.zeros((N_SIGNALS, *tau.shape))
    state, length = np.asarray(np.concatenate(start), dtype=np.float64), 0.1 * step
    for k, torque in enumerate(tau):

        def rates(t: float, y: NDArray[np.float64], torque: FloatArray = torque) -> NDArray[np.float64]:
            ddq = accelerations_at(plant, (y[:n].copy(), y[n:].copy()), torque)
            return np.asarray(np.concatenate([y[n:], ddq]), dtype=np.float64)

        ddq = rates(0.0, state)[n:]
        out[:, k] = state[:n], state[n:], ddq, torque
        if not (np.abs(state[n:]).max() < _LOST and np.isfinite(ddq).all()):
            return until_lost(out, k, step)
        solver = RK45(rates, 0.0, state, step, rtol=RELATIVE, atol=ABSOLUTE, first_step=min(length, step))
        for _ in range(_MOST_STEPS):
            if solver.status != "running":
                break
            solver.step()
            length = solver.h_abs
        if solver.status != "finished":
            return until_lost(out, k + 1, step)
        state = solver.y
    return until_lost(out, len(tau), step)


def _checked(robot: Robot, tau: FloatArray, start: State) -> tuple[FloatArray, State]:
    tau = np.array(tau, dtype=float, order="C")  # of its own: locked arrays would be compiled as another type
    check_shape(tau, "n_samples n_joints", "tau", {"n_joints": robot.n_joints})
    q, dq = np.array(start[0], dtype=float), np.array(start[1], dtype=float)
    check_shape(q, str(robot.n_joints), "start[0]")
    check_shape(dq, str(robot.n_joints), "start[1]")
    return tau, (q, dq)
