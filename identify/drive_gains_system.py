"""What equations do runs without and with a weighed load give for drive gains? [Briot2012] eqs. (8), (11) to (13).

    W_tot = [ -W_a  V_a   0      0           ]        χ_tot = [χ, g, χ_uL, δ],   W_tot χ_tot = ρ,   δ = 1
            [ -W_b  V_b  -W_uL  -W_kL χ_kL   ]

Rows are those of drives, not of joints: N⁻ᵀ Y χ = diag(v) g, so that each row holds the signal of one drive. Several
loaded and unloaded runs may follow one another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from excitor.identify.factors import triangle
from excitor.identify.regression import Decimation, Rows
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.errors import RankDeficient
from excitor.robots.parameters import LINK_COMPONENTS, LINK_UNITS, layout
from excitor.robots.robot import Motion, Robot

ROW_FIELDS = ("W", "V", "slope", "known", "drive", "run", "sample")
SAME = 1e-7  # of a unit column: what is left of it is explained by the others, as base parameters count it


@dataclass(frozen=True, eq=False, slots=True)
class Law:
    """How a drive's torque depends on its signal v: Σ_k g_k s(v) |v|^p_k; a drive gain alone is p = (1,)."""

    powers: tuple[int, ...]
    prior: FloatArray  # (n_powers,): what is believed beforehand, of the motor's side

    def __post_init__(self) -> None:
        freeze(self, prior=str(len(self.powers)))
        if not self.powers or min(self.powers) < 0 or len(set(self.powers)) < len(self.powers):
            raise ValueError(f"Law.powers is {self.powers}, expected different whole numbers of 0 or more")
        if not np.any(self.prior):
            raise ValueError("Law.prior is 0; give what the drive's maker states, right to a few tens of percent")


@dataclass(frozen=True, eq=False, slots=True)
class KnownLoad:
    """A body mounted for some runs, of whose parameters some are known: its weighed mass at least."""

    name: str
    link: int  # that carries it; -1 counts from the last
    phi: FloatArray  # (10,), in the link's frame; entries that are not known mean nothing
    known: BoolArray  # (10,)

    def __post_init__(self) -> None:
        freeze(self, phi="10", known="bool: 10")
        if not np.any(np.where(self.known, self.phi, 0.0)):
            raise ValueError(f"nothing is known of load {self.name!r}; weigh it: its mass sets the scale of all gains")


@dataclass(frozen=True, eq=False, slots=True)
class DriveRun:
    """One run: a motion, the drives' signals beside it, and what the robot carried."""

    name: str
    motion: Motion
    signal: FloatArray  # (n_samples, n_drives): current references, or what else torque follows from
    load: KnownLoad | None = None

    def __post_init__(self) -> None:
        freeze(self, signal=" ".join(str(size) for size in self.motion.q.shape))


@dataclass(frozen=True, eq=False, slots=True)
class GainSystem:
    """The homogeneous equations in parts; each row is one drive's, in one sample of one run."""

    names: tuple[str, ...]  # of χ, then of χ_uL
    units: tuple[str, ...]
    n_robot: int  # how many of them are the robot's
    drive_names: tuple[str, ...]
    laws: tuple[Law, ...]
    drives: tuple[int, ...]  # that have rows
    W: FloatArray  # (n_rows, n_params)
    V: FloatArray  # (n_rows, n_terms)
    slope: FloatArray  # (n_rows, n_terms): dV/dv, by which noise of the signal enters
    known: FloatArray  # (n_rows,): W_kL χ_kL, 0 in unloaded runs
    drive: IntArray  # (n_rows,)
    run: IntArray
    sample: IntArray

    def __post_init__(self) -> None:
        freeze(self, W="n_rows n_params", V="n_rows n_terms", slope="n_rows n_terms", known="n_rows")
        freeze(self, drive=f"int: {len(self.W)}", run=f"int: {len(self.W)}", sample=f"int: {len(self.W)}")

    @property
    def terms(self) -> tuple[slice, ...]:
        """Columns of V that belong to each drive."""
        ends = np.cumsum([len(law.powers) for law in self.laws]).tolist()
        return tuple(slice(end - len(law.powers), end) for law, end in zip(self.laws, ends, strict=True))

    @property
    def prior(self) -> FloatArray:
        """A-priori gains, (n_terms,)."""
        return np.concatenate([law.prior for law in self.laws])


def laws_of(robot: Robot) -> tuple[Law, ...]:
    """Take the drives' laws from the robot's own description of its motors."""
    coefficients = robot.drive.torque_from_current
    unknown = [
        name for name, c in zip(robot.joint_names, coefficients, strict=True) if np.isnan(c).any() or not c.any()
    ]
    if unknown:
        raise ValueError(
            f"{robot.name}: no torque_from_current is given for the motors of {', '.join(unknown)}; "
            "state it in the robot's file, or give laws with a-priori gains"
        )
    powers = [tuple(int(k) for k in np.flatnonzero(c)) for c in coefficients]
    return tuple(Law(p, c[list(p)]) for p, c in zip(powers, coefficients, strict=True))


@one_blas_thread()
def gain_system(robot: Robot, runs: Sequence[DriveRun], laws: Sequence[Law], *, rows: Rows | None = None) -> GainSystem:
    """Set up the equations in base parameters; W, V and the load's columns are decimated alike."""
    _check(robot, runs, laws)
    loads = list(dict.fromkeys(run.load for run in runs if run.load is not None))
    blocks = [_block(robot, k, run, loads, laws, rows or Rows()) for k, run in enumerate(runs)]
    base, params = base_parameters(robot), layout(robot)
    n_robot = len(base)
    load_names = [f"{c}L{k + 1 if len(loads) > 1 else ''}" for k, _ in enumerate(loads) for c in LINK_COMPONENTS]
    system = GainSystem(
        names=(*base.names, *load_names),
        units=(*(params.units[k] for k in base.kept), *(LINK_UNITS * len(loads))),
        n_robot=n_robot,
        drive_names=robot.joint_names,
        laws=tuple(laws),
        drives=tuple(range(robot.n_joints)),
        **{name: np.concatenate([block[name] for block in blocks]) for name in ROW_FIELDS},
    )
    system = independent(_without_known(system, loads))
    _check_signals(system)
    _check_steps(system)
    return system


def assembled(system: GainSystem) -> FloatArray:
    """Write W_tot of eq. (13), (n_rows, n_base + n_terms + n_unknown + 1)."""
    n = system.n_robot
    return np.column_stack([-system.W[:, :n], system.V, -system.W[:, n:], -system.known])


def only_drives(system: GainSystem, drives: Sequence[int]) -> GainSystem:
    """Keep the rows of some drives, and of the parameters those that these rows still tell apart."""
    rows = np.isin(system.drive, drives)
    part = replace(
        system,
        drives=tuple(drives),
        **{name: getattr(system, name)[rows] for name in ROW_FIELDS},
    )
    return independent(part)


def only_parameters(system: GainSystem, names: Sequence[str]) -> GainSystem:
    """Keep some parameters; the others are 0."""
    kept = [k for k, name in enumerate(system.names) if name in names]
    return _columns(system, kept, system.names)


def load_shows(system: GainSystem) -> bool:
    """Tell whether the known part of the load differs from all that parameters explain: else nothing has a scale."""
    size = float(np.linalg.norm(system.known))
    if not size > 0.0:
        return False
    n = len(system.names)
    norms = np.linalg.norm(system.W, axis=0)
    R = triangle(np.column_stack([system.W / np.where(norms > 0.0, norms, 1.0), system.known / size]))
    return abs(float(R[n, n])) > SAME


@one_blas_thread()
def independent(system: GainSystem) -> GainSystem:
    """Let parameters regroup that no row tells apart from those before them, as base parameters do."""
    norms = np.linalg.norm(system.W, axis=0)
    R = triangle(system.W / np.where(norms > 0.0, norms, 1.0))
    kept: list[int] = []
    basis = np.empty((len(R), 0))
    into = np.zeros(len(system.names), dtype=bool)
    for k in np.flatnonzero(norms > SAME * norms.max(initial=0.0)):
        rest = R[:, k]
        for _ in range(2):  # once is not orthogonal enough
            rest = rest - basis @ (basis.T @ rest)
        size = float(np.linalg.norm(rest))
        if size > SAME:
            kept.append(int(k))
            basis = np.column_stack([basis, rest / size])
        else:
            parts = np.linalg.lstsq(R[:, kept], R[:, k], rcond=None)[0]
            into[np.array(kept)[np.abs(parts) > SAME]] = True
    names = tuple(
        f"{name}R" if joined and not name.endswith("R") else name
        for name, joined in zip(system.names, into, strict=True)
    )
    return _columns(system, kept, names)


def _columns(system: GainSystem, kept: Sequence[int], names: Sequence[str]) -> GainSystem:
    return replace(
        system,
        names=tuple(names[k] for k in kept),
        units=tuple(system.units[k] for k in kept),
        n_robot=sum(k < system.n_robot for k in kept),
        W=system.W[:, list(kept)],
    )


def _check(robot: Robot, runs: Sequence[DriveRun], laws: Sequence[Law]) -> None:
    if len(laws) != robot.n_joints:
        raise ValueError(f"there are {len(laws)} laws, expected one for each of the {robot.n_joints} drives")
    if not any(run.load is not None for run in runs):
        raise ValueError(
            "no run carries a known load: gains and parameters are then known up to a common factor only; "
            "repeat a run with a weighed body"
        )
    if all(run.load is not None for run in runs):
        raise ValueError(
            "every run carries the load, which then regroups with the link that holds it; add a run without it"
        )
    for run in runs:
        if run.motion.q.shape[1] != robot.n_joints:
            raise ValueError(f"run {run.name!r} has {run.motion.q.shape[1]} joints, expected {robot.n_joints}")
        if run.load is not None and not -robot.mechanism.n_links <= run.load.link < robot.mechanism.n_links:
            raise ValueError(
                f"load {run.load.name!r} is on link {run.load.link}, expected one below {robot.mechanism.n_links}"
            )


def _block(
    robot: Robot, number: int, run: DriveRun, loads: Sequence[KnownLoad], laws: Sequence[Law], rows: Rows
) -> dict[str, Any]:
    """Rows of one run, W with all ten parameters of every load."""
    thin = rows.decimate or (lambda x: x)
    W, known = _motor_columns(robot, run, loads, thin)
    V, slope = _signals(laws, run.signal, thin)
    drive, sample = np.nonzero(_moving(robot, thin(run.motion.dq), rows.dead_zone).T)
    own = np.repeat(np.arange(len(laws)), [len(law.powers) for law in laws])[None, :] == drive[:, None]
    return {
        "W": W[sample, drive],
        "V": np.where(own, V[sample], 0.0),
        "slope": np.where(own, slope[sample], 0.0),
        "known": known[sample, drive],
        "drive": drive,
        "run": np.full(drive.size, number),
        "sample": sample,
    }


def _motor_columns(
    robot: Robot, run: DriveRun, loads: Sequence[KnownLoad], thin: Decimation
) -> tuple[FloatArray, FloatArray]:
    """N⁻ᵀ Y of base and load parameters, (n_samples, n_drives, n_columns), and what is known of the load."""
    Y = regressor(robot, run.motion)
    columns, load = base_parameters(robot).kept, run.load
    parts = [Y[:, :, columns]]
    if load is not None:
        own = Y[:, :, layout(robot).link(load.link % robot.mechanism.n_links)]
        parts += [own[:, :, ~load.known], own @ np.where(load.known, load.phi, 0.0)[:, None]]
    joints = _thinned(np.concatenate(parts, axis=2), thin)
    motors = np.einsum("ij,njk->nik", np.linalg.inv(robot.drive.motor_from_joint).T, joints, optimize=True)
    n = len(columns)
    W = np.zeros((*motors.shape[:2], n + 10 * len(loads)))
    W[:, :, :n] = motors[:, :, :n]
    if load is None:
        return W, np.zeros(motors.shape[:2])
    W[:, :, n + 10 * loads.index(load) + np.flatnonzero(~load.known)] = motors[:, :, n:-1]
    return W, motors[:, :, -1]


def _thinned(Y: FloatArray, thin: Decimation) -> FloatArray:
    """Decimate (n_samples, n_joints, n_columns), sparing entries that are always 0."""
    flat = Y.reshape(len(Y), -1)
    there = flat.any(axis=0)
    some = thin(np.ascontiguousarray(flat[:, there]))
    out = np.zeros((len(some), flat.shape[1]))
    out[:, there] = some
    return out.reshape(len(some), *Y.shape[1:])


def _moving(robot: Robot, dq: FloatArray, dead_zone: FloatArray | None) -> BoolArray:
    """Mark the rows of drives all of whose joints move, (n_samples, n_drives)."""
    if dead_zone is None:
        return np.ones(dq.shape, dtype=bool)
    fast = np.abs(dq) > dead_zone
    coupled = np.abs(np.linalg.inv(robot.drive.motor_from_joint).T) > 0.0
    return np.array([fast[:, joints].all(axis=1) for joints in coupled]).T


def _signals(laws: Sequence[Law], signal: FloatArray, thin: Decimation) -> tuple[FloatArray, FloatArray]:
    """V and dV/dv by term, (n_samples, n_terms): s(v) |v|^p is filtered, for that is what torques are made of."""
    v = [signal[:, j] for j, law in enumerate(laws) for _ in law.powers]
    slow = thin(signal)
    size = [np.abs(slow[:, j]) for j, law in enumerate(laws) for _ in law.powers]
    powers = [p for law in laws for p in law.powers]
    V = np.array([np.sign(x) * np.abs(x) ** p for x, p in zip(v, powers, strict=True)]).T
    slope = np.array([p * x ** max(p - 1, 0) for x, p in zip(size, powers, strict=True)]).T
    return thin(np.ascontiguousarray(V)), slope


def _check_signals(system: GainSystem) -> None:
    """Refuse signals that are dead, and laws whose terms they do not tell apart."""
    for j, (name, law) in enumerate(zip(system.drive_names, system.laws, strict=True)):
        V = system.V[system.drive == j][:, system.terms[j]]
        norms = np.linalg.norm(V, axis=0)
        if not len(V) or not norms.all():
            raise ValueError(
                f"drive {name} has no signal in any sample that counts; check that it was recorded and that it moved"
            )
        if np.linalg.svd(triangle(V / norms), compute_uv=False)[len(law.powers) - 1] <= SAME:
            raise ValueError(
                f"drive {name}: its signal does not tell the powers {law.powers} of its law apart; give fewer of them"
            )


def _check_steps(system: GainSystem) -> None:
    """Refuse a step at zero signal that the same drive's friction explains: in no sample do their signs differ."""
    norms = np.linalg.norm(system.W, axis=0)
    W = system.W / norms
    for j, law in enumerate(system.laws):
        if 0 in law.powers:
            step = system.V[:, system.terms[j]][:, law.powers.index(0)]
            rest = step - W @ np.linalg.lstsq(W, step, rcond=SAME)[0]
            if np.linalg.norm(rest) <= SAME * np.linalg.norm(step):
                raise RankDeficient(
                    f"drive {system.drive_names[j]}: a step of torque at zero signal cannot be told from friction, "
                    "whose sign it always has; leave power 0 out of its law, or add motion in which inertia prevails",
                    [system.drive_names[j]],
                )


def _without_known(system: GainSystem, loads: Sequence[KnownLoad]) -> GainSystem:
    """Drop the columns of what is known of loads; what is known must not look like what is not."""
    kept = [*range(system.n_robot)]
    for k, load in enumerate(loads):
        kept += (system.n_robot + 10 * k + np.flatnonzero(~load.known)).tolist()
    part = _columns(system, kept, system.names)
    unknown = part.W[:, part.n_robot :]
    loaded = unknown.any(axis=1) | (part.known != 0.0)
    size = float(np.linalg.norm(part.known[loaded]))
    rest = part.known[loaded]
    if unknown.size and size > 0.0:
        norms = np.linalg.norm(unknown[loaded], axis=0)
        columns = unknown[loaded][:, norms > 0.0] / norms[norms > 0.0]
        rest = rest - columns @ np.linalg.lstsq(columns, rest, rcond=SAME)[0]
    if not np.linalg.norm(rest) > SAME * size:
        raise ValueError(
            "what is known of the load cannot be told from what is not: its torques are none, or those of unknown "
            "parameters; take the mass and more of the load's parameters for known, or mount it elsewhere"
        )
    return part
