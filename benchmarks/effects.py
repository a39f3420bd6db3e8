"""Effects that no model of the studies has, tried one after the other, and how near they bring the printed figures.

On the virtual KR150: the load's errors by approaches 1 to 3, without gears' ripple and slow friction, which scatter. On
the virtual TX-40: the torque errors of cases 1 to 4. The studies' reasons say what comes of it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.experiments.logs import differentiated
from excitor.experiments.studies import kr150, tx40
from excitor.experiments.studies.paper import printed_values
from excitor.identify.signals import lowpass
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

Torques = Callable[[Motion], FloatArray]  # of a motion, by the study's plant
Effect = Callable[[Torques, Motion], FloatArray]
SAMPLE = 0.024  # s, of the KR150's controller
YIELD, SLOW = 2e-6, 60  # rad/(N m) of the KR150's axis 2; harmonics of its period
STIFFNESS = 2e4  # N m/rad, of the TX-40's joints
COULOMB = np.array([tx40.TRUTH[f"Fs{j + 1}"] for j in range(6)])


def run(full: bool = False) -> Report:
    """Try all effects, on two draws or seeds, in full on six."""
    context: dict[str, Any] = {}
    figures = [*loads(6 if full else 2, context), *cases(6 if full else 2, context)]
    return Report("bench", "effects", figures, context)


def one_way(torques: Torques, motion: Motion) -> FloatArray:
    """Enlarge the TX-40's Coulomb friction by 20 % in the positive direction."""
    return np.asarray(torques(motion) + 0.2 * COULOMB * (motion.dq > 0.0))


def losing(torques: Torques, motion: Motion) -> FloatArray:
    """Lose 10 % in gears."""
    tau = torques(motion)
    return np.asarray(tau * np.where(tau * motion.dq > 0.0, 1.0 / 0.9, 0.9))


def bent(torques: Torques, motion: Motion) -> FloatArray:
    """Bend joints under what they carry."""
    tau = lowpass(torques(motion), sample_rate_hz=tx40.VIRTUAL_RATE, cutoff_hz=25.0, order=2, true_cutoff=False)
    return torques(differentiated(motion.q - tau / STIFFNESS, tx40.VIRTUAL_RATE))


def tilted(torques: Torques, motion: Motion) -> FloatArray:
    """Tilt gravity by 1° about axis 2."""
    return torques(Motion(motion.q + np.radians(1.0) * np.eye(6)[1], motion.dq, motion.ddq))


def late(samples: float) -> Effect:
    """Delay torques by samples; negative ones come early."""
    whole = int(np.floor(samples))
    share = samples - whole

    def act(torques: Torques, motion: Motion) -> FloatArray:
        tau = np.roll(torques(motion), whole, axis=0)
        return np.asarray((1.0 - share) * tau + share * np.roll(tau, 1, axis=0))

    return act


def plain(torques: Torques, motion: Motion) -> FloatArray:
    """Change nothing."""
    return torques(motion)


CASES: Mapping[str, Effect] = {
    "none": plain,
    "friction": one_way,
    "losses": losing,
    "compliance": bent,
    "tilt": tilted,
    "early_2ms": late(-2),
    "late_2ms": late(2),
    "late_8ms": late(8),
}
MOTORS: Mapping[str, Mapping[str, Any]] = {  # of the KR150: fields of its motors
    "losses": {"efficiency": 2.0 * kr150.TRUE_MOTORS.efficiency - 1.0},
    "friction": {"coulomb": 2.0 * kr150.TRUE_MOTORS.coulomb},
}


def cases(seeds: int, context: dict[str, Any]) -> Iterator[Figure]:
    """Compare the TX-40's four cases under each effect, with another payload of the unseen run, and moves together."""
    printed = printed_values("tx40")["table4"]
    plant, single = inverse_dynamics, tx40.measured

    def heavier(robot: Robot, chi: FloatArray, name: str, *rest: Any, **more: Any) -> Any:
        column = layout(robot).index("M6")
        return single(robot, chi + 0.5 * (np.arange(len(chi)) == column) * (name == "test"), name, *rest, **more)

    trials: dict[str, dict[str, Any]] = {
        name: {"inverse_dynamics": lambda r, m, c, e=effect: e(lambda x: plant(r, x, c), m)}
        for name, effect in CASES.items()
    }
    trials["payload"] = {"measured": heavier}
    trials["moves_together"] = {"quintic_moves": together}
    for name, changed in trials.items():
        with patch.multiple(tx40, **changed):
            found = [tx40.realise(seed) for seed in range(seeds)]
        errors = {case: [one[case].torque_error for one in found] for case in (1, 2, 3, 4)}
        context[f"tx40, {name}"] = {f"case {k}": f"{min(e):.4f} to {max(e):.4f}" for k, e in errors.items()}
        for case, values in errors.items():
            yield Figure(f"effects.tx40.{name}.case{case}", median(values), "held out", paper=printed[f"case{case}"])


def together(rng: np.random.Generator, seconds: float, locked: int) -> FloatArray:
    """Draw quintic moves of all joints that start and stop together, (n_samples, 6)."""
    n, (low, high) = int(seconds * tx40.VIRTUAL_RATE), np.radians(tx40.BOX_DEG).T
    free = np.arange(6) >= locked
    middle = 0.5 * (low + high)
    place, parts, count = np.where(free, rng.uniform(low, high), middle), [], 0
    while count < n:
        target = np.where(free, rng.uniform(low, high), middle)
        duration = max(0.25, 1.875 * float(np.max(np.abs(target - place) / tx40.SPEED)) * rng.uniform(1.0, 1.2))
        s = np.arange(int(duration * tx40.VIRTUAL_RATE))[:, None] / (duration * tx40.VIRTUAL_RATE)
        parts.append(place + (target - place) * (10 * s**3 - 15 * s**4 + 6 * s**5))
        place, count = target, count + len(s)
    return np.concatenate(parts)[:n]


def loads(draws: int, context: dict[str, Any]) -> Iterator[Figure]:
    """Compare the KR150's load errors and torques under each effect."""
    robot, printed = load("kr150"), printed_values("kr150")
    plant, exact = kr150.motor_torques, kr150.load_body
    trials: dict[str, dict[str, Any]] = {
        name: {"motor_torques": smooth(plant, effect, {})} for name, effect in LOADS.items()
    } | {name: {"motor_torques": smooth(plant, plain, fields)} for name, fields in MOTORS.items()}
    link_6 = {"load_body": lambda values: kr150.joined(exact(values), kr150.FLANGE)}
    trials["link_6"] = {"motor_torques": smooth(plant, plain, {}), **link_6}
    for name, changed in trials.items():
        with patch.multiple(kr150, **changed):
            found = [kr150.draw(robot, printed, seed) for seed in range(draws)]
        yield from load_figures(f"effects.kr150.{name}", found, printed, context)


def smooth(plant: Any, effect: Effect, fields: Mapping[str, Any]) -> Any:
    """Wrap a plant: no ripple, no slow friction, other motors, and an effect."""

    def act(bodies: Any, motors: kr150.Motors, V: FloatArray, motion: Any) -> FloatArray:
        motors = replace(motors, ripple=np.zeros(6), stribeck=0.0, **fields)
        return effect(lambda x: plant(bodies, motors, V, (x.q, x.dq, x.ddq)), Motion(*motion))

    return act


def yielding(torques: Torques, motion: Motion) -> FloatArray:
    """Let axis 2 of the KR150, which stands still, yield under its torque, in the slow harmonics of the period."""
    n = len(motion.q)
    yielded = np.fft.rfft(YIELD * torques(motion)[:, 1])
    yielded[SLOW:] = 0.0
    slope = 2j * np.pi * np.fft.rfftfreq(n, SAMPLE)
    axis = np.eye(6)[1]
    moved = (
        x + axis * np.fft.irfft(yielded * slope**order, n)[:, None]
        for order, x in enumerate((motion.q, motion.dq, motion.ddq))
    )
    return torques(Motion(*moved))


LOADS: Mapping[str, Effect] = {
    "none": plain,
    "tilt": tilted,
    "compliance": yielding,
    "late_2ms": late(0.0024 / SAMPLE),
    "late_12ms": late(0.012 / SAMPLE),
    "late_24ms": late(0.024 / SAMPLE),
}


def load_figures(name: str, found: list[Any], printed: Any, context: dict[str, Any]) -> Iterator[Figure]:
    """Report the mass's error, bias and deviation, and Ixx, by approach, and how many axes Table 3 ranks as printed."""
    for k in (1, 2, 3):
        errors = [draw[str(k)].error for draw in found]
        for label, i in {"mass": 0, "ixx": 4, "iyy": 5, "izz": 6}.items():
            paper, deviation = printed["table2"][f"approach{k}"][i]
            off = median(float(np.abs(e[:, i]).mean()) for e in errors)
            yield Figure(f"{name}.approach{k}.{label}", off, "", paper=paper, spread=deviation)
        bias, spread = (median(float(abs(f(e[:, 0]))) for e in errors) for f in (np.mean, np.std))
        context[f"{name}.approach{k}"] = f"mass: bias {bias:.2f} kg, deviation {spread:.2f} kg"
    table = kr150.table3_figures(found, printed["table3"])
    yield replace([*table][-1], name=f"{name}.table3_order")
