"""True model of a virtual robot, drawn about a robot's prior, and written apart from its logs.

It contains the deviations from the prior, the payload, the controller, the sensors' errors, and the arrays of the
compiled closed loop.
"""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg

from excitor.experiments.log_formats import motor_torque_scale, torque_scale
from excitor.identify.currents import why_not
from excitor.robots import inertia as rigid
from excitor.robots.arrays import FloatArray, finite, freeze
from excitor.robots.base import random_motion
from excitor.robots.dynamics import mass_matrix, rigid_torque, rotor_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_model, has_true_sign
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import FrictionTerm, Motion, Robot, posture
from excitor.robots.simulate import LONGEST_STEP, Servo, packed_controller, plain_plant, servo_for, steady_servo

if TYPE_CHECKING:
    from excitor.robots.kernel.plant import Plant
    from excitor.robots.kernel.steps import Controller


SIGN_WIDTH = 3e-4  # of the speed limit: over which a true sign changes
_FORMAT = {"format": "excitor-truth", "version": 1}


@dataclass(frozen=True, slots=True)
class Settings:
    """Spreads are standard deviations; torque shares are of what a joint can give (`torque_scale`).

    Noise-free and without quirks: `QUIET`. Temperatures in °C, times in s.
    """

    links: float = 0.08  # relative spread of every link's mass distribution
    rotors: float = 0.05
    friction: float = 0.15
    current_law: float = 0.0  # spread of torque constants; currents alone cannot show it
    loss: float = 0.1  # spread of what gears lose, each direction by itself
    unstated_loss: float = 0.0  # mean share that gears lose whose efficiency the robot's file does not state
    gears: float = 0.0  # spread of efficiencies below 1, both directions alike
    ripple: float = 0.001  # torque share, once a motor turn: in no model
    stribeck: float = 0.0  # share of Coulomb friction added near standstill: in no model
    resonance_hz: float | None = None  # of each joint's links on its gear, the motor held; None: gears are rigid
    resonance_damping: float = 0.05  # ratio

    heating: float = 30.0  # K at last, if a joint always turned at a third of its speed limit
    heating_time: float = 1800.0
    viscous_drift: float = 0.3  # share of viscous friction lost when that warm
    coulomb_drift: float = 0.1
    ambient: float = 25.0
    warm: float = 0.0  # share of `heating` that the robot has at the start

    command_lag: float = 0.004  # of what the servo loop follows behind what was commanded
    bandwidth_hz: float = 18.0  # of the position loop
    damping_ratio: float = 0.8
    control_step: float = 0.001  # at most; a whole part of the log's
    current_lag: float = 0.0005  # of the current loop
    velocity_filter: float = 0.001  # of velocities that the controller derives from its encoders

    white: float = 0.02  # torque share of a single sample
    slow: float = 0.002
    sensor_white: float = 0.003  # of torque sensors at the joints
    joint_sensors: bool = False  # whether there are any; they feel the links, neither rotors nor friction
    encoder_counts: int = 65536  # a motor turn, of motors geared by 100 or more; else finer; 0: exact
    sensor_lag: float = 0.0  # torques and currents are this late
    log_step: float | None = None  # None: the controller's own
    jitter: float = 0.02  # of the log's interval
    dropped: float = 0.0  # share of rows lost
    clock_drift: float = 0.0  # share by which the log's clock runs fast
    standing: tuple[float, float] = (1.0, 2.0)  # before, between and after the parts of a program

    speed: float = 1.0  # the speed slider
    speed_told: bool = True  # whether the log shows it
    stuck: tuple[int, ...] = ()  # joints whose brake is closed
    limited: tuple[int, ...] = ()  # joints whose drive gives too little current

    def __post_init__(self) -> None:
        for name in ("heating_time", "bandwidth_hz", "control_step", "speed", "damping_ratio"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")
        for name in (
            "links",
            "rotors",
            "friction",
            "loss",
            "unstated_loss",
            "white",
            "slow",
            "sensor_lag",
            "current_lag",
            "dropped",
        ):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number from 0 to below 1")
        if not 0.0 <= self.jitter < 0.5:
            raise ValueError(f"jitter is {self.jitter}, expected a share of the interval below a half")
        if self.resonance_hz is not None and not self.resonance_hz > 0.0:
            raise ValueError(f"resonance_hz is {self.resonance_hz}, expected a positive frequency, or None")
        if not 0.0 <= self.standing[0] <= self.standing[1]:
            raise ValueError(f"standing is {self.standing}, expected the shortest and the longest time in s")


RATED_CURRENT = 10.0  # A, about which a drive of unknown law reaches its joint's torque limit


@dataclass(frozen=True, eq=False, slots=True)
class Truth:
    """True robot; it carries the payload that a plan states, or `load` where a plan can only assume one.

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
    """Draw a robot about its prior; ExcitorError where the prior does not state how heavy the links are.

    Masses are spread through the pseudo-inertia, so that bodies stay possible. Unknown friction and
    rotors get plausible values.
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
    mean = np.where(robot.drive.efficiency < 1.0, 1.0 - robot.drive.efficiency, settings.unstated_loss)
    loss = mean[:, None] * np.exp(settings.loss * rng.normal(size=(n, 2)))
    drawn = settings.gears * np.random.default_rng([seed, 0x67656172]).normal(size=n)  # both ways alike
    loss = loss + np.where(robot.drive.efficiency < 1.0, drawn, 0.0)[:, None]
    law = robot.drive.torque_from_current * (1.0 + settings.current_law * rng.normal(size=(n, 1)))
    if not robot.drive.has_current_law and not why_not(robot):
        spread = np.exp(0.3 * np.random.default_rng([seed, 0x616D7065]).normal(size=n))
        law = np.outer(motor_torque_scale(robot) / RATED_CURRENT * spread, [0.0, 1.0, 0.0, 0.0])
    full, chi = with_unmodelled(robot, chi, rng, settings)
    stiffness, damping = springs(robot, chi[: len(layout(robot))], settings)
    start = np.full(n, settings.ambient + settings.warm * settings.heating)
    return Truth(full, chi, np.clip(1.0 - loss, 0.05, 1.0), law, stiffness, damping, start, settings, seed)


def true_parameters(
    truth: Truth, robot: Robot, *, temperature: FloatArray | None = None, sensed: bool = False
) -> FloatArray:
    """Convert the truth to a campaign robot's parameters, its payload included, (n_params,).

    With temperatures (n_joints,), friction is as warm as that. `sensed`: what torque sensors at the joints feel of
    it, which is links alone.
    """
    n = len(layout(robot))
    chi = truth.chi.copy()
    if temperature is not None:
        columns, terms = layout(truth.robot).friction_columns, truth.robot.drive.friction
        for term, column, lost in zip(terms, columns, warmth(truth), strict=True):
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
        "torque_from_current": [[finite(c) for c in row] for row in truth.torque_from_current],
        **{name: getattr(truth, name).tolist() for name in ("stiffness", "damping", "temperature")},
        "settings": asdict(truth.settings),
    }


def check_known(robot: Robot) -> None:
    """Check that enough is known of a robot to simulate it."""
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
    if not robot.known[10 * j : 10 * j + 10][~zero].all() or rigid.check_consistency(phi).relative_margin <= 0.0:
        return np.asarray(phi * (1.0 + spread * single))
    L = np.linalg.cholesky(rigid.pseudo_inertia(phi))
    size = spread
    while True:
        S = np.eye(4) + size * 0.25 * (noise + noise.T)
        drawn = np.where(zero, 0.0, rigid.parameters_of(L @ S @ S @ L.T))
        if rigid.check_consistency(drawn).relative_margin > 0.0:
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
        row = friction_model(term)
        if not row.dissipates:
            chi[place] = robot.chi[place] + 0.02 * settings.friction * scale[joint] * draw
            continue
        guess = 0.03 * scale[joint] * speed[joint] ** -row.grows / (scale[joint] if row.load else 1.0)
        stated = robot.chi[place] if robot.known[place] else guess
        chi[place] = stated * np.exp(settings.friction * draw)


def with_unmodelled(
    robot: Robot, chi: FloatArray, rng: np.random.Generator, settings: Settings
) -> tuple[Robot, FloatArray]:
    """Smooth the signs of friction, and add unmodelled friction: motor ripple and the Stribeck effect."""
    scale, speed, n = torque_scale(robot), speed_scale(robot), robot.n_joints
    terms = [wide(term, speed) for term in robot.drive.friction]
    more: list[tuple[FrictionTerm, float]] = []
    phases = rng.uniform(0.0, 2.0 * np.pi, n)
    for i, (gear, name) in enumerate(zip(robot.drive.motor_from_joint, robot.joint_names, strict=True)):
        # Ripples per radian or metre of a motor: one per turn where geared, by poles or pitch elsewhere.
        direct = 2.0 * np.pi / 0.02 if robot.mechanism.prismatic[i] else 24.0
        senses = gear * (1.0 if np.abs(gear).max() > 2.0 else direct)
        acts = gear / np.abs(gear).max()
        if settings.ripple > 0.0:
            for model, part in (("ripple-sin", np.cos(phases[i])), ("ripple-cos", np.sin(phases[i]))):
                term = FrictionTerm(f"unmodelled {model} {name}", model, senses, acts)
                more.append((term, settings.ripple * scale[i] * part))
    if settings.stribeck > 0.0:
        for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
            if friction_model(term).shape == "sign":
                name, scaled = f"unmodelled stribeck {term.parameter}", 0.03 * speed[np.argmax(np.abs(term.acts))]
                added = replace(term, parameter=name, model="stribeck", scale=scaled)
                more.append((wide(added, speed), settings.stribeck * chi[column]))
    drive = replace(robot.drive, friction=(*terms, *(term for term, _ in more)))
    chi = np.concatenate([chi, [value for _, value in more]])
    values, flags = np.zeros(len(more)), np.zeros(len(more), dtype=bool)
    known, zero = (np.concatenate([own, flags]) for own in (robot.known, robot.assumed_zero))
    bare, prior_chi = replace(robot, payload=None, declared_base=None), np.concatenate([robot.chi, values])
    return replace(bare, drive=drive, chi=prior_chi, known=known, assumed_zero=zero), chi


def wide(term: FrictionTerm, speed: FloatArray) -> FrictionTerm:
    """Replace a true sign by one of finite width, which integration needs."""
    if not has_true_sign(term):
        return term
    return replace(term, width=SIGN_WIDTH * float(np.abs(term.senses) @ speed))


def warmth(truth: Truth) -> FloatArray:
    """Compute the share of each friction term that is lost per kelvin, (n_terms,)."""
    settings = truth.settings
    rows = [friction_model(term) for term in truth.robot.drive.friction]
    lost = [settings.viscous_drift if row.grows > 0.0 else settings.coulomb_drift for row in rows]
    return np.array([share * row.dissipates / settings.heating for share, row in zip(lost, rows, strict=True)])


def springs(robot: Robot, chi: FloatArray, settings: Settings) -> tuple[FloatArray, FloatArray]:
    """Choose springs on which links swing at the first mode's frequency, with their mean inertia and motors held."""
    if settings.resonance_hz is None:
        return np.zeros(0), np.zeros(0)
    rotors = rotor_matrix(robot, chi)
    if np.linalg.eigvalsh(0.5 * (rotors + rotors.T))[0] <= 0.0:
        raise ExcitorError(f"{robot.name}: elastic gears need a rotor inertia for every motor; state them")
    M = mass_matrix(robot, random_motion(robot, 50).q, chi) - rotors
    inertia = np.diagonal(M, axis1=1, axis2=2).mean(axis=0)
    omega = 2.0 * np.pi * settings.resonance_hz
    return omega**2 * inertia, 2.0 * settings.resonance_damping * omega * inertia


def speed_scale(robot: Robot) -> FloatArray:
    """Return each joint's speed limit; 1 rad/s or m/s where none is stated."""
    return np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, 1.0)


QUIET = Settings(
    ripple=0.0, viscous_drift=0.0, coulomb_drift=0.0, white=0.0, slow=0.0, sensor_white=0.0, jitter=0.0,
    encoder_counts=0,
)  # fmt: skip

SPRING_STEP = 0.4  # rad of the fastest mode that a step takes at most
POSES = 200  # random ones, in which a loop has to be stable
DIRECT = 100.0  # gear ratio from which encoders have the counts that are stated


def plant_of(truth: Truth, robot: Robot) -> "Plant":
    """Pack what moves, with the payload that the campaign's robot has."""
    settings, n = truth.settings, robot.n_joints
    chi = loaded_parameters(truth, robot)
    gears = truth.robot.drive.motor_from_joint
    relief = 1.0 / settings.heating_time
    power = friction_power(truth, speed_scale(robot) / 3.0)
    heat = settings.heating * relief * np.where(power > 0.0, 1.0 / np.where(power > 0.0, power, 1.0), 0.0)
    return plain_plant(truth.robot, chi)._replace(
        warmth=warmth(truth),
        seat=np.array([np.argmax(np.abs(term.acts)) for term in truth.robot.drive.friction], dtype=np.int64),
        gears=np.array(gears),  # what is locked would be compiled as a type of its own
        ungears=np.linalg.inv(gears),
        loss=np.column_stack([1.0 / truth.efficiency[:, 0] - 1.0, 1.0 - truth.efficiency[:, 1]]),
        width=SIGN_WIDTH * np.abs(gears) @ speed_scale(robot),
        stiffness=truth.stiffness.copy(),
        damping=truth.damping.copy(),
        stuck=np.isin(np.arange(n), truth.settings.stuck),
        heat=heat,
        relief=relief,
        ambient=settings.ambient,
        temperature=truth.temperature.copy(),
    )


def loaded_parameters(truth: Truth, robot: Robot) -> FloatArray:
    """Add the payload that the campaign's robot has to the true parameters, cold, (n_params,) of the true robot."""
    return np.concatenate([true_parameters(truth, robot), truth.chi[len(layout(robot)) :]])


def friction_power(truth: Truth, speed: FloatArray) -> FloatArray:
    """Compute the friction power when every joint turns alone at a speed, (n_joints,), W."""
    power = np.zeros(len(speed))
    for term, column in zip(truth.robot.drive.friction, layout(truth.robot).friction_columns, strict=True):
        joint = int(np.argmax(np.abs(term.acts)))
        v, row = abs(term.senses[joint]) * speed[joint], friction_model(term)
        size = v**row.grows if row.sign == "positive" and not row.load else 0.0
        power[joint] += abs(truth.chi[column] * term.acts[joint]) * size * speed[joint]
    return power


def controller_of(truth: Truth, robot: Robot, motion: Motion, forward: FloatArray, step: float) -> "Controller":
    """Pack the servo of this motion, with the motors' limits and the encoders."""
    return packed_controller(servo_of(truth, robot, motion, step))._replace(
        limit=motor_limits(truth, robot, motion, forward),
        quantum=encoder_steps(truth, robot),
        substeps=substeps(truth, motion.q[:: max(1, len(motion) // 200)], step),
    )


def servo_of(truth: Truth, robot: Robot, motion: Motion, step: float) -> Servo:
    """Tune PD gains to the bandwidth on the prior's largest inertia of each joint along the motion.

    Gains are lowered where the true masses make their loop unstable, along the motion or in random poses. Where gears
    give way, what is beyond them does not count, and the loop is no faster than their resonance: it would not be
    stable. Nor would one that is tuned to a closed chain's largest inertia: near a singularity joints that move
    together weigh many times what they weigh elsewhere. There the loops are as stiff as the lightest motion allows.
    """
    settings, chi = truth.settings, prior(robot)
    bandwidth = min(settings.bandwidth_hz, settings.resonance_hz or np.inf)
    tuning = {"bandwidth_hz": bandwidth, "damping": settings.damping_ratio, "rate_hz": 1.0 / step}
    servo = servo_for(robot, motion, chi=chi, **tuning)
    servo = replace(servo, velocity_filter=settings.velocity_filter, lag=settings.current_lag)
    if settings.resonance_hz is not None:
        assert servo.inertia is not None
        felt = np.maximum(np.diagonal(rotor_matrix(robot, chi)), 0.1 * servo.inertia) / servo.inertia
        return replace(servo, kp=servo.kp * felt, kd=servo.kd * felt)
    chi = loaded_parameters(truth, robot)
    poses = motion.q[:: max(1, len(motion) // 200)], random_motion(robot, POSES, seed=truth.seed).q
    return steady_servo(servo, *(mass_matrix(truth.robot, q, chi) for q in poses))


def motor_limits(truth: Truth, robot: Robot, motion: Motion, forward: FloatArray) -> FloatArray:
    """Compute each motor's torque limit; if limited, four fifths of its peak, or enough to hold the arm."""
    gears = np.abs(robot.drive.motor_from_joint)
    own = np.where(np.diagonal(gears) > 0.0, np.diagonal(gears), gears.max(axis=1))
    limit = robot.limits.torque / own
    if truth.settings.limited:
        ungears = np.linalg.inv(robot.drive.motor_from_joint)
        peak = np.abs(forward @ ungears).max(axis=0)
        still = np.abs(rigid_torque(robot, posture(motion.q[::20]), prior(robot)) @ ungears).max(axis=0)
        for i in truth.settings.limited:
            limit[i] = min(limit[i], max(0.8 * peak[i], 0.5 * (still[i] + peak[i])))
    return np.asarray(limit)


def encoder_steps(truth: Truth, robot: Robot) -> FloatArray:
    """Return the resolution of each motor's encoder, rad or m of the motor; 0 where it is exact."""
    counts = truth.settings.encoder_counts
    if counts == 0:
        return np.zeros(robot.n_joints)
    ratio = np.abs(robot.drive.motor_from_joint).max(axis=1)
    return np.asarray(2.0 * np.pi / counts * np.minimum(1.0, ratio / DIRECT))


def substeps(truth: Truth, poses: FloatArray, step: float) -> int:
    """Count the integration steps of a controller step that resolve the gears' springs."""
    longest = LONGEST_STEP
    if truth.stiffness.size:
        robot = truth.robot
        rotors = rotor_matrix(robot, truth.chi)
        K = np.diag(truth.stiffness)
        joined = scipy.linalg.solve(rotors, K)
        for M in mass_matrix(robot, poses[::4], truth.chi) - rotors:
            fastest = np.abs(np.linalg.eigvals(np.linalg.solve(M, K) + joined)).max()
            longest = min(longest, SPRING_STEP / float(np.sqrt(fastest)))
    return max(1, int(np.ceil(step / longest - 1e-9)))


SPREAD = 0.3  # of mass and centre at most; lengths stretch by half of it
DENSITY = 2000.0  # kg/m³, of a load whose guess has no size


def draw_load(guess: FloatArray, seed: int) -> FloatArray:
    """Scale, rotate and shift the guess: P' = s A P Aᵀ of its pseudo-inertia, so that it stays physical; (10,).

    A = [[E + S, d], [0, 1]] about the guessed centre.
    """
    rng = np.random.default_rng([seed, 0x6C6F6164])
    mass, center, inertia = rigid.about_center_of_mass(guess)
    if not np.linalg.eigvalsh(inertia)[0] > 0.0:
        radius = (3.0 * mass / (4.0 * np.pi * DENSITY)) ** (1.0 / 3.0)
        inertia = inertia + 0.4 * mass * radius**2 * np.eye(3)
    stretch = np.eye(3) + 0.5 * SPREAD * np.diag(rng.uniform(-1.0, 1.0, 3))
    a, b, c = 0.25 * SPREAD * rng.uniform(-1.0, 1.0, 3)
    stretch += np.array([[0.0, a, b], [a, 0.0, c], [b, c, 0.0]])
    affine = np.eye(4)
    affine[:3, :3] = stretch
    shift = SPREAD * np.linalg.norm(center) * rng.uniform(-1.0, 1.0, 3) / np.sqrt(3.0)
    affine[:3, 3] = center + shift
    centered = rigid.pseudo_inertia(rigid.from_center_of_mass(mass, np.zeros(3), inertia))
    scale = 1.0 + SPREAD * rng.uniform(-1.0, 1.0)
    return np.asarray(rigid.parameters_of(scale * affine @ centered @ affine.T))
