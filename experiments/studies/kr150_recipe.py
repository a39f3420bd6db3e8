"""Fourteen virtual experiments with a calibrated load: motions, wear and warmth, a-priori errors, recordings.

The drives, links and noise are plausible, not published; the load is the printed one. The plan of a motion is what the
controller is asked for; the robot lags behind it a little, so that the motion must be re-estimated from its encoders.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from excitor.experiments.studies.kr150_plant import RATIO, Body, Motors, coupling, currents, motor_torques
from excitor.identify.load.equations import Arm, LoadRun, Periods, run_from_currents
from excitor.robots.arrays import FloatArray
from excitor.robots.inertia import about_center_of_mass, from_center_of_mass
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

EXPERIMENTS = 14
MOVED = (2, 3, 4, 5)
TRUE_MOTORS = Motors(
    inertia=np.array([0.0, 0.0, 260.0, 18.0, 18.0, 8.3]),
    viscous=np.array([0.0, 0.0, 260.0, 55.0, 50.0, 30.0]),
    coulomb=np.array([0.0, 0.0, 190.0, 75.0, 70.0, 55.0]),
    efficiency=np.array([1.0, 1.0, 0.91, 0.87, 0.88, 0.90]),
    ripple=np.array([0.0, 0.0, 60.0, 25.0, 25.0, 22.0]),
    phase=np.zeros(6),
    stribeck=0.15,
    current_law=np.array([[1.4, 4e-3, -2.2e-4]] * 3 + [[0.95, 3e-3, -3e-4]] * 3),
)
TRUE_LINKS = (
    Body(0.0, np.zeros(3), np.zeros(6)),
    Body(0.0, np.zeros(3), np.zeros(6)),
    Body(190.0, np.array([0.03, 0.15, 0.02]), np.array([14.0, 5.0, 13.0, -0.3, 0.1, 0.5])),
    Body(62.0, np.array([0.0, 0.0, -0.45]), np.array([6.0, 6.0, 0.9, 0.0, 0.0, 0.1])),
    Body(32.0, np.array([0.0, -0.02, 0.03]), np.array([0.45, 0.40, 0.35, 0.0, 0.0, 0.02])),
)
NOISE = np.array([0.0, 0.0, 120.0, 60.0, 60.0, 50.0])  # N m on the link side, of one sample
ENCODER_NOISE = 2e-5  # rad on the link side
LINK_ERROR, ROTOR_ERROR = 0.015, 0.01  # relative, of what is known beforehand
LAG = 0.012  # s, of the controller


@dataclass(frozen=True)
class Series:
    """A periodic motion: offset + Σ sine sin(l w t) + cosine cos(l w t), rad."""

    offset: FloatArray  # (6,)
    lines: tuple[tuple[int, int, float, float], ...]  # axis, harmonic, sine, cosine


@dataclass(frozen=True)
class Prior:
    """What is thought of links 3 to 5 and of the rotors."""

    links: tuple[Body, ...]
    rotors: FloatArray  # (6,)


@dataclass(frozen=True)
class Recording:
    """What a controller would log: angles and currents of the motors, (n_samples, 6)."""

    name: str
    position: FloatArray
    current: FloatArray
    periods: Periods


@dataclass(frozen=True)
class Experiment:
    """One experiment: its processed run, and what truly was."""

    run: LoadRun
    motors: Motors


def load_body(exact: list[float]) -> Body:
    """Read the printed load: kg, mm, kg m²."""
    return Body(exact[0], np.array(exact[1:4]) / 1000.0, np.array(exact[4:]))


def parameters(body: Body) -> FloatArray:
    """Write a body in a link's ten parameters."""
    return _phi(np.array([body.mass, *body.center, *body.inertia]))


def joined(one: Body, other: Body) -> Body:
    """Join two bodies of one frame."""
    mass, center, inertia = about_center_of_mass(parameters(one) + parameters(other))
    return Body(mass, center, inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])


def table1(printed: dict[str, Any]) -> Series:
    """Read the printed motion."""
    lines = [(axis, int(n), a, b) for axis in MOVED for n, a, b in printed["table1"][f"axis{axis + 1}"]]
    return Series(np.array(printed["table1"]["offset"], dtype=float), tuple(lines))


def draw_prior(seed: int) -> Prior:
    """Draw what is known beforehand: every parameter of links 1.5 % off, rotors 1 %."""
    rng = np.random.default_rng([seed, 150])

    def off(value: FloatArray | float, error: float) -> Any:
        return value * (1.0 + error * rng.normal(size=np.shape(value)))

    links = tuple(
        Body(float(off(b.mass, LINK_ERROR)), off(b.center, LINK_ERROR), off(b.inertia, LINK_ERROR)) for b in TRUE_LINKS
    )
    return Prior(links, off(TRUE_MOTORS.inertia, ROTOR_ERROR))


def true_prior() -> Prior:
    """Know everything exactly."""
    return Prior(TRUE_LINKS, TRUE_MOTORS.inertia)


def arm_of(robot: Robot, prior: Prior) -> Arm:
    """Write a prior, and how far off it may be, in the robot's parameters; link 6 counts with the load."""
    params = layout(robot)
    chi, C = np.zeros(len(params)), np.zeros((len(params), len(params)))
    for j, body in enumerate(prior.links):
        chi[params.link(j)] = parameters(body)
        T = _slope(body)
        spread = LINK_ERROR * np.array([body.mass, *body.center, *body.inertia])
        C[params.link(j), params.link(j)] = T @ np.diag(spread**2) @ T.T
    for axis in MOVED:
        column = params.index(f"Ia{axis + 1}")
        chi[column] = prior.rotors[axis]
        C[column, column] = (ROTOR_ERROR * prior.rotors[axis]) ** 2
    return Arm(chi, C)


def draw_series(rng: np.random.Generator, first: Series) -> Series:
    """Draw another motion of the same kind: the wrist covers its range, axis 3 moves a little."""
    lines = [_line(rng, 2, int(rng.integers(23, 28)), 0.0872 * rng.uniform(0.9, 1.2))]
    fast = rng.choice(np.arange(13, 23), size=3, replace=False)
    for axis, slow_size, n, fast_size in zip(MOVED[1:], (1.57, 0.838, 1.57), fast, (0.46, 0.21, 1.0), strict=True):
        lines.append(_line(rng, axis, 1, slow_size * rng.uniform(0.8, 1.05)))
        lines.append(_line(rng, axis, int(n), fast_size * rng.uniform(0.8, 1.1)))
    return Series(first.offset, tuple(lines))


def warm(rng: np.random.Generator, motors: Motors) -> Motors:
    """Let friction and efficiency be what the day makes of them."""
    efficiency = np.clip(motors.efficiency + 0.015 * rng.normal(size=6), 0.7, 0.99)
    return replace(
        motors,
        viscous=motors.viscous * (1.0 + 0.08 * rng.normal(size=6)),
        coulomb=motors.coulomb * (1.0 + 0.06 * rng.normal(size=6)),
        efficiency=efficiency,
        phase=rng.uniform(0.0, 2.0 * np.pi, size=6),
    )


def experiments(robot: Robot, printed: dict[str, Any], *, seed: int = 0, count: int = EXPERIMENTS) -> list[Experiment]:
    """Run the experiments: the first is the printed motion."""
    rng = np.random.default_rng([seed, 2002])
    load, first = load_body(printed["table2"]["exact"]), table1(printed)
    done = []
    for number in range(count):
        series = first if number == 0 else draw_series(rng, first)
        motors = warm(rng, TRUE_MOTORS)
        recording = record(printed, series, motors, load, rng, f"experiment {number + 1}")
        done.append(Experiment(processed(robot, recording), motors))
    return done


def record(
    printed: dict[str, Any], series: Series, motors: Motors, load: Body, rng: np.random.Generator, name: str = "run"
) -> Recording:
    """Let the virtual robot repeat a motion, and record its motors' positions and currents."""
    n, n_periods = printed["table1"]["samples"], printed["table1"]["periods"]
    period = printed["table1"]["period_s"]
    V = coupling(**printed["coupling"])
    motion = evaluate(lagging(series, rng, period), period, n)
    current = currents(motors, motor_torques((*TRUE_LINKS, load), motors, V, motion))
    noise = NOISE / (RATIO * motors.current_law[:, 0])  # A
    measured = np.tile(current, (n_periods, 1)) + noise * rng.normal(size=(n_periods * n, 6))
    measured[:, :2] = 0.0  # axes 1 and 2 hang in their brakes
    q_M = RATIO * np.linalg.solve(V, motion[0].T).T
    position = np.tile(q_M, (n_periods, 1)) + RATIO * ENCODER_NOISE * rng.normal(size=(n_periods * n, 6))
    lines = sorted({line[1] for line in series.lines})
    return Recording(name, position, measured, Periods(n, n / period, lines))


def processed(robot: Robot, recording: Recording) -> LoadRun:
    """Process a recording as any robot's would be."""
    return run_from_currents(
        robot, recording.position, recording.current, periods=recording.periods, run=recording.name
    )


def lagging(series: Series, rng: np.random.Generator, period: float) -> Series:
    """Tell what the controller makes of a motion: each line a little late, and not quite as large."""
    lines = []
    for axis, n, a, b in series.lines:
        late = 2.0 * np.pi * n / period * LAG
        size = 1.0 + 0.005 * rng.normal()
        c, s = np.cos(late), np.sin(late)
        lines.append((axis, n, size * (a * c + b * s), size * (b * c - a * s)))
    return Series(series.offset, tuple(lines))


def evaluate(series: Series, period: float, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Evaluate positions, velocities and accelerations at n samples of a period, (n, 6) each."""
    t = period * np.arange(n) / n
    q, dq, ddq = np.tile(series.offset, (n, 1)), np.zeros((n, 6)), np.zeros((n, 6))
    for axis, harmonic, a, b in series.lines:
        w = 2.0 * np.pi * harmonic / period
        s, c = np.sin(w * t), np.cos(w * t)
        q[:, axis] += a * s + b * c
        dq[:, axis] += w * (a * c - b * s)
        ddq[:, axis] -= w**2 * (a * s + b * c)
    return q, dq, ddq


def _line(rng: np.random.Generator, axis: int, harmonic: int, size: float) -> tuple[int, int, float, float]:
    phase = rng.uniform(0.0, 2.0 * np.pi)
    return axis, harmonic, float(size * np.cos(phase)), float(size * np.sin(phase))


def _phi(values: FloatArray) -> FloatArray:
    xx, yy, zz, xy, xz, yz = values[4:]
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return from_center_of_mass(float(values[0]), values[1:4], inertia)


def _slope(body: Body) -> FloatArray:
    """Differentiate φ by mass, centre and inertia about it; central differences of a polynomial of degree 3."""
    at = np.array([body.mass, *body.center, *body.inertia])
    step = 1e-4
    return np.column_stack([(_phi(at + step * e) - _phi(at - step * e)) / (2.0 * step) for e in np.eye(10)])
