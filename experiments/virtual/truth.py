"""What a virtual robot truly is: drawn about what is known of a robot, and written apart from its logs."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from excitor.experiments.virtual.settings import Settings
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.base import random_motion
from excitor.robots.dynamics import inverse_dynamics, mass_matrix, rotor_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import check_consistency, parameters_of, pseudo_inertia
from excitor.robots.parameters import layout
from excitor.robots.robot import SIGNED, FrictionTerm, Robot

SIGN_WIDTH = 3e-4  # of the speed limit: over which a true sign changes
_FORMAT = {"format": "excitor-truth", "version": 1}


@dataclass(frozen=True, eq=False, slots=True)
class Truth:
    """A robot as it truly is; it carries the payload that a plan states, or `load` where a plan can only guess it.

    `robot` begins with the parameters that the campaign knows; what no model has comes after them.
    """

    robot: Robot
    chi: FloatArray  # (n_params,) of `robot`, cold
    efficiency: FloatArray  # (n_joints, 2): of motors that drive, of motors that are driven
    torque_from_current: FloatArray  # (n_joints, 4); NaN if there are no currents
    stiffness: FloatArray  # (n_joints,), N m/rad or N/m; none where gears are rigid
    damping: FloatArray
    temperature: FloatArray  # (n_joints,), °C at the start of a program
    settings: Settings
    seed: int
    load: FloatArray | None = None  # (10,) on the payload's link, its frame

    def __post_init__(self) -> None:
        n = str(self.robot.n_joints)
        freeze(self, chi=str(len(layout(self.robot))), efficiency=f"{n} 2", temperature=n)
        freeze(self, stiffness="n_springs", damping="n_springs")
        freeze(self, finite=False, torque_from_current=f"{n} 4")
        if self.load is not None:
            freeze(self, load="10")


def draw_truth(robot: Robot, seed: int, settings: Settings | None = None) -> Truth:
    """Draw a robot about its prior; ExcitorError where the prior does not say how heavy the links are.

    Masses are spread through the pseudo-inertia, so that bodies stay possible. Friction and rotors that nobody
    states get plausible values.
    """
    settings = settings or Settings()
    check_known(robot)
    rng = np.random.default_rng([seed, 0x7275])
    chi = robot.chi.copy()
    n_links = layout(robot).n_link_params
    for j in range(n_links // 10):
        chi[10 * j : 10 * j + 10] = draw_link(robot, j, rng, settings.links)
    draw_drives(robot, chi, rng, settings)
    n = robot.n_joints
    loss = (1.0 - robot.drive.efficiency)[:, None] * np.exp(settings.loss * rng.normal(size=(n, 2)))
    loss = loss + draw_efficiency(robot, seed, settings)[:, None]
    law = robot.drive.torque_from_current * (1.0 + settings.current_law * rng.normal(size=(n, 1)))
    full, chi = with_unmodelled(robot, chi, rng, settings)
    stiffness, damping = springs(robot, chi[: len(layout(robot))], settings)
    start = np.full(n, settings.ambient + settings.warm * settings.heating)
    return Truth(full, chi, np.clip(1.0 - loss, 0.05, 1.0), law, stiffness, damping, start, settings, seed)


def draw_efficiency(robot: Robot, seed: int, settings: Settings) -> FloatArray:
    """Draw what gears lose more, both ways alike, (n_joints,); gears without loss stay so."""
    drawn = settings.gears * np.random.default_rng([seed, 0x67656172]).normal(size=robot.n_joints)
    return np.asarray(np.where(robot.drive.efficiency < 1.0, drawn, 0.0))


def true_parameters(
    truth: Truth, robot: Robot, *, temperature: FloatArray | None = None, sensed: bool = False
) -> FloatArray:
    """Write the truth in a campaign robot's parameters, its payload included, (n_params,).

    With temperatures (n_joints,), friction is as warm as that. `sensed`: what torque sensors at the joints feel of
    it, which is links alone.
    """
    n = len(layout(robot))
    chi = truth.chi.copy()
    if temperature is not None:
        for term, column, lost in zip(
            truth.robot.drive.friction, layout(truth.robot).friction_columns, warmth(truth), strict=True
        ):
            warm = temperature[np.argmax(np.abs(term.acts))] - truth.settings.ambient
            chi[column] = truth.chi[column] * max(0.0, 1.0 - lost * warm)
    chi = chi[:n]
    if sensed:
        chi[layout(robot).n_link_params :] = 0.0
    if robot.payload is not None:
        carried = robot.payload.phi if truth.load is None else truth.load
        chi[10 * robot.payload.link : 10 * robot.payload.link + 10] += carried
    return chi


def truth_data(truth: Truth) -> dict[str, Any]:
    """Write a truth as plain data for JSON."""
    params = layout(truth.robot)
    load = {} if truth.load is None else {"load": truth.load.tolist()}
    return {
        **_FORMAT,
        **load,
        "robot": truth.robot.name,
        "seed": truth.seed,
        "parameters": [
            {"name": name, "unit": unit, "value": float(value)}
            for name, unit, value in zip(params.names, params.units, truth.chi, strict=True)
        ],
        "efficiency": [{"driving": float(a), "driven": float(b)} for a, b in truth.efficiency],
        "torque_from_current": [
            [float(c) if np.isfinite(c) else None for c in row] for row in truth.torque_from_current
        ],
        "stiffness": truth.stiffness.tolist(),
        "damping": truth.damping.tolist(),
        "temperature": truth.temperature.tolist(),
        "settings": asdict(truth.settings),
    }


def check_known(robot: Robot) -> None:
    """Refuse robots of which too little is known to let them move."""
    n = robot.mechanism.n_links
    known = robot.known[: 10 * n].reshape(-1, 10).any(axis=1)
    if not known.all():
        names = ", ".join(np.array(robot.mechanism.link_names)[~known])
        raise ExcitorError(f"{robot.name}: no masses are known of {names}, so it cannot be simulated; state them")
    M = mass_matrix(robot, random_motion(robot, 50).q, robot.chi)
    if not (np.linalg.eigvalsh(0.5 * (M + M.transpose(0, 2, 1)))[:, 0] > 0.0).all():
        raise ExcitorError(
            f"{robot.name}: the masses that are known make no positive mass matrix, so it cannot be simulated; "
            "state a mass and an inertia for every link, or rotor inertias"
        )


def draw_link(robot: Robot, j: int, rng: np.random.Generator, spread: float) -> FloatArray:
    """Draw a link's parameters: P' = L (1 + G)² Lᵀ with P = L Lᵀ and a small random symmetric G.

    Zeros that symmetry states stay. A link of which only some parameters are known, as papers' base parameters are,
    has each of them spread by itself.
    """
    phi = robot.chi[10 * j : 10 * j + 10]
    noise = rng.normal(size=(4, 4))
    single = rng.normal(size=10)
    zero = robot.assumed_zero[10 * j : 10 * j + 10]
    if not robot.known[10 * j : 10 * j + 10][~zero].all() or check_consistency(phi).relative_margin <= 0.0:
        return np.asarray(phi * (1.0 + spread * single))
    L = np.linalg.cholesky(pseudo_inertia(phi))
    size = spread
    while True:
        S = np.eye(4) + size * 0.25 * (noise + noise.T)
        drawn = np.where(zero, 0.0, parameters_of(L @ S @ S @ L.T))
        if check_consistency(drawn).relative_margin > 0.0:
            return drawn
        size *= 0.5


def draw_drives(robot: Robot, chi: FloatArray, rng: np.random.Generator, settings: Settings) -> None:
    """Spread rotor inertias and friction in place; offsets by a share of what a joint can give."""
    params, scale, speed = layout(robot), torque_scale(robot), speed_scale(robot)
    inertia = np.diagonal(mass_matrix(robot, random_motion(robot, 50).q, robot.chi), axis1=1, axis2=2).mean(axis=0)
    for rotor, column in dict(zip(params.rotor_columns, robot.drive.rotors, strict=True)).items():
        stated = robot.chi[rotor] if robot.known[rotor] else 0.3 * inertia[np.argmax(np.abs(column.acts))]
        chi[rotor] = stated * np.exp(settings.rotors * rng.normal())
    for place, term in dict(zip(params.friction_columns, robot.drive.friction, strict=True)).items():
        joint = int(np.argmax(np.abs(term.acts)))
        draw = rng.normal()
        if term.model in ("offset", "ripple-sin", "ripple-cos"):
            chi[place] = robot.chi[place] + 0.02 * settings.friction * scale[joint] * draw
            continue
        plain = {"viscous": 1.0 / speed[joint], "sqrt": speed[joint] ** -0.5, "load": 1.0 / scale[joint]}
        guess = 0.03 * scale[joint] * plain.get(term.model, 1.0)
        stated = robot.chi[place] if robot.known[place] else guess
        chi[place] = stated * np.exp(settings.friction * draw)


def with_unmodelled(
    robot: Robot, chi: FloatArray, rng: np.random.Generator, settings: Settings
) -> tuple[Robot, FloatArray]:
    """Give signs a width, and add friction that no model has: ripple of motors, Stribeck's rise."""
    scale, speed, n = torque_scale(robot), speed_scale(robot), robot.n_joints
    terms = [wide(term, speed) for term in robot.drive.friction]
    more: list[tuple[FrictionTerm, float]] = []
    phases = rng.uniform(0.0, 2.0 * np.pi, n)
    for i, (gear, name) in enumerate(zip(robot.drive.motor_from_joint, robot.joint_names, strict=True)):
        senses = gear * ripples_a_unit(robot, i)
        acts = gear / np.abs(gear).max()
        if settings.ripple > 0.0:
            for model, part in (("ripple-sin", np.cos(phases[i])), ("ripple-cos", np.sin(phases[i]))):
                term = FrictionTerm(f"unmodelled {model} {name}", model, senses, acts)  # type: ignore[arg-type]
                more.append((term, settings.ripple * scale[i] * part))
    if settings.stribeck > 0.0:
        for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
            if term.model == "coulomb":
                joint = int(np.argmax(np.abs(term.acts)))
                added = replace(
                    term, parameter=f"unmodelled stribeck {term.parameter}", model="stribeck", scale=0.03 * speed[joint]
                )
                more.append((wide(added, speed), settings.stribeck * chi[column]))
    drive = replace(robot.drive, friction=(*terms, *(term for term, _ in more)))
    chi = np.concatenate([chi, [value for _, value in more]])
    flags = np.zeros(len(more), dtype=bool)
    full = replace(
        robot,
        drive=drive,
        chi=np.concatenate([robot.chi, np.zeros(len(more))]),
        known=np.concatenate([robot.known, flags]),
        assumed_zero=np.concatenate([robot.assumed_zero, flags]),
        payload=None,
        declared_base=None,
    )
    return full, chi


def wide(term: FrictionTerm, speed: FloatArray) -> FrictionTerm:
    """Give a true sign the width that integration needs."""
    if term.model not in SIGNED or term.width > 0.0:
        return term
    return replace(term, width=SIGN_WIDTH * float(np.abs(term.senses) @ speed))


def warmth(truth: Truth) -> FloatArray:
    """Find the share of each friction term that is lost a kelvin, (n_terms,)."""
    settings = truth.settings
    lost = {"viscous": settings.viscous_drift, "sqrt": settings.viscous_drift}
    lost |= dict.fromkeys(("coulomb", "stribeck", "load", "maxwell-slip"), settings.coulomb_drift)
    return np.array([lost.get(term.model, 0.0) / settings.heating for term in truth.robot.drive.friction])


def springs(robot: Robot, chi: FloatArray, settings: Settings) -> tuple[FloatArray, FloatArray]:
    """Choose springs on which links swing at the first mode's frequency, with their mean inertia and motors held."""
    if settings.resonance_hz is None:
        return np.zeros(0), np.zeros(0)
    rotors = rotor_matrix(robot, chi)
    if np.linalg.eigvalsh(0.5 * (rotors + rotors.T))[0] <= 0.0:
        raise ExcitorError(f"{robot.name}: gears that give way need a rotor inertia for every motor; state them")
    M = mass_matrix(robot, random_motion(robot, 50).q, chi) - rotors
    inertia = np.diagonal(M, axis1=1, axis2=2).mean(axis=0)
    omega = 2.0 * np.pi * settings.resonance_hz
    return omega**2 * inertia, 2.0 * settings.resonance_damping * omega * inertia


def torque_scale(robot: Robot) -> FloatArray:
    """Tell what each joint can give: its torque limit, or else three times what the prior takes in random states."""
    typical = 3.0 * np.sqrt(np.mean(inverse_dynamics(robot, random_motion(robot, 100), robot.chi) ** 2, axis=0))
    return np.where(np.isfinite(robot.limits.torque), robot.limits.torque, np.maximum(typical, 1e-3))


def speed_scale(robot: Robot) -> FloatArray:
    """Tell how fast each joint can be; 1 rad/s or m/s where no limit is stated."""
    return np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, 1.0)


def ripples_a_unit(robot: Robot, i: int) -> float:
    """Count ripples a radian or metre of a motor: one a turn where it is geared, by its poles or pitch elsewhere."""
    if np.abs(robot.drive.motor_from_joint[i]).max() > 2.0:
        return 1.0
    return 2.0 * np.pi / 0.02 if robot.mechanism.prismatic[i] else 24.0
