"""Kinematics and dynamics of a robot: poses, torques and energies, and their regressors.

Every function takes the robot first and works on all samples of a motion at once. Links contribute through the robot's
mechanism (`excitor.robots.robot.Mechanism`); drives are added here. The momentum form τ = d(A χ)/dt + B χ gives torques
as functions of the parameters without accelerations.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray, check_shape, freeze
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_model, smooth_sign
from excitor.robots.kernel import drive as kernel
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Frame, FrictionTerm, Motion, Robot, RotorInertia
from excitor.robots.tree import samples

_BLOCK = 1_000  # samples at once: closed chains remember where motions of up to this length lead


def link_poses(robot: Robot, q: FloatArray) -> FloatArray:
    """Poses T_base_link of all links, (n_samples, n_links, 4, 4)."""
    return robot.mechanism.poses(q)


def frame_pose(robot: Robot, q: FloatArray, frame: Frame | None = None) -> FloatArray:
    """Pose of a frame, the tool's by default: T_base_frame (n_samples, 4, 4)."""
    frame = robot.tool if frame is None else frame
    if frame.link < 0:
        return np.broadcast_to(frame.T_link_frame, (len(q), 4, 4)).copy()
    return link_poses(robot, q)[:, frame.link] @ frame.T_link_frame


def frame_jacobian(robot: Robot, q: FloatArray, frame: Frame | None = None) -> FloatArray:
    """Velocity of a frame's origin and its angular velocity, base axes, by dq: (n_samples, 6, n_joints)."""
    frame = robot.tool if frame is None else frame
    if frame.link < 0:
        return np.zeros((len(q), 6, robot.n_joints))
    jacobian = robot.mechanism.jacobians(q)[:, frame.link]
    arm = link_poses(robot, q)[:, frame.link, :3, :3] @ frame.T_link_frame[:3, 3]
    linear = jacobian[:, :3] + np.cross(jacobian[:, 3:], arm[:, :, None], axis=1)
    return np.concatenate([linear, jacobian[:, 3:]], axis=1)


def regressor(
    robot: Robot, motion: Motion, load: FloatArray | None = None, *, out: FloatArray | None = None
) -> FloatArray:
    """Y with τ = Y χ, (n_samples, n_joints, n_params).

    Columns of load-dependent friction need the torques (n_samples, n_joints) that the joints carry: pass measured
    ones as `load`, else those of the prior model without friction are used. States of Maxwell-slip elements run
    through the samples in their order. The array is a view of one ordered by parameter, joint, sample.

    Args:
        motion: positions, velocities and accelerations.
        load: torques that the joints carry, (n_samples, n_joints).
        out: array of an earlier call for as many samples, to be written again: fresh memory takes time.

    >>> import numpy as np, excitor as ex
    >>> robot, rest = ex.load_robot("rotradi"), np.zeros((1, 3))
    >>> ex.regressor(robot, ex.Motion(rest, rest, rest)).shape[:2]
    (1, 3)
    """
    params = layout(robot)
    shape = (len(motion), robot.n_joints, len(params))
    if out is None:
        pitch = len(motion) if len(motion) % 512 else len(motion) + 8  # one near a power of two makes caches thrash
        out = np.empty((len(params), robot.n_joints, pitch)).transpose(2, 1, 0)[: len(motion)]
    room = out.base
    if out.shape != shape or room is None or room.shape[:2] != shape[:0:-1] or not out.flags.writeable:
        raise ValueError(f"out has shape {out.shape}, expected an array {shape} that `regressor` has returned")
    robot.mechanism.regressor(motion, room[: params.n_link_params])
    if len(params) > params.n_link_params:
        drive_columns(robot, motion, friction_load(robot, motion, load), room[params.n_link_params :])
    return out


def inverse_dynamics(robot: Robot, motion: Motion, chi: FloatArray | None = None) -> FloatArray:
    """Joint torques τ = Y χ of a motion, (n_samples, n_joints), N m or N.

    Args:
        motion: positions, velocities and accelerations.
        chi: parameters (n_params,); by default those that the robot's file states.

    >>> import numpy as np, excitor as ex
    >>> rest = np.zeros((1, 3))
    >>> ex.inverse_dynamics(ex.load_robot("rotradi"), ex.Motion(rest, rest, rest)).shape
    (1, 3)
    """
    params = layout(robot)
    chi = _parameters(robot, chi)
    rigid = rigid_torque(robot, motion, chi)
    if not robot.drive.friction:
        return rigid
    out = np.empty((len(params) - params.n_link_params, robot.n_joints, len(motion)))
    drive_columns(robot, motion, rigid, out)
    return rigid + np.tensordot(out, friction_only(robot, chi)[params.n_link_params :], axes=(0, 0)).T


def rigid_torque(robot: Robot, motion: Motion, chi: FloatArray | None = None) -> FloatArray:
    """Joint torques of links and rotors alone, without friction, (n_samples, n_joints)."""
    params = layout(robot)
    chi = _parameters(robot, chi)
    tau = robot.mechanism.inverse_dynamics(motion, chi[: params.n_link_params].reshape(-1, 10))
    return tau + motion.ddq @ rotor_matrix(robot, chi).T


def mass_matrix(robot: Robot, q: FloatArray, chi: FloatArray | None = None) -> FloatArray:
    """Mass matrices M(q), rotors included, (n_samples, n_joints, n_joints)."""
    chi = _parameters(robot, chi)
    phi = chi[: layout(robot).n_link_params].reshape(-1, 10)
    return robot.mechanism.mass_matrix(q, phi) + rotor_matrix(robot, chi)


def forward_dynamics(
    robot: Robot, q: FloatArray, *, dq: FloatArray, tau: FloatArray, chi: FloatArray | None = None
) -> FloatArray:
    """Accelerations ddq = M⁻¹ (τ - h(q, dq)) that joint torques cause, (n_samples, n_joints).

    Load-dependent friction depends on the accelerations, piecewise linearly: they are then found by Newton's method.
    """
    check_shape(np.asarray(tau), "n_samples n_joints", "tau", {"n_samples": len(q), "n_joints": robot.n_joints})
    chi = _parameters(robot, chi)
    M = mass_matrix(robot, q, chi)
    ddq = np.zeros(np.shape(q))
    for _ in range(20 if has_load_friction(robot) else 1):
        motion = Motion(q, dq, ddq)
        slope = load_friction_slope(robot, motion, chi) @ M if has_load_friction(robot) else M
        correction = solve_mass_matrix(robot, slope, tau - inverse_dynamics(robot, motion, chi))
        ddq = ddq + correction
        settled = np.abs(correction).max(initial=0.0) <= 1e-10 * (1.0 + np.abs(ddq).max(initial=0.0))
        if settled or not has_load_friction(robot):
            return ddq
    raise ExcitorError(
        f"{robot.name}: accelerations under load-dependent friction were not found; its coefficients must stay below 1"
    )


def load_friction_slope(robot: Robot, motion: Motion, chi: FloatArray) -> FloatArray:
    """Differentiate joint torques by the torques that links and rotors need: 1 + Σ F s(v) sgn(acts @ τ) acts actsᵀ."""
    rigid = rigid_torque(robot, motion, chi)
    slope = np.tile(np.eye(robot.n_joints), (len(motion), 1, 1))
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if friction_model(term).load:
            v = motion.dq @ term.senses
            side = chi[column] * smooth_sign(v, term.width) * np.sign(rigid @ term.acts)
            slope += side[:, None, None] * np.outer(term.acts, term.acts)
    return slope


def solve_mass_matrix(robot: Robot, M: FloatArray, tau: FloatArray) -> FloatArray:
    """Solve M ddq = τ, sample by sample."""
    try:
        return np.asarray(np.linalg.solve(M, tau[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:
        raise ExcitorError(
            f"{robot.name}: the mass matrix is singular, so torques do not determine accelerations; "
            "give every moving link a mass and an inertia, or its joint a rotor inertia"
        ) from None


@lru_cache(maxsize=64)
def has_load_friction(robot: Robot) -> bool:
    """Return True if any friction depends on the torque carried."""
    return any(friction_model(term).load for term in robot.drive.friction)


def energy(robot: Robot, motion: Motion, chi: FloatArray | None = None) -> FloatArray:
    """Kinetic plus potential energy, (n_samples,)."""
    return energy_regressor(robot, motion) @ _parameters(robot, chi)


def energy_regressor(robot: Robot, motion: Motion) -> FloatArray:
    """h with H = h χ, kinetic plus potential energy, (n_samples, n_params); friction stores nothing."""
    params = layout(robot)
    h = np.zeros((len(motion), len(params)))
    h[:, : params.n_link_params] = robot.mechanism.energy_regressor(motion)
    for element, column in zip(robot.drive.rotors, params.rotor_columns, strict=True):
        if not np.array_equal(element.senses, element.acts):
            raise ValueError(
                f"rotor {element.parameter!r} senses another motion than it acts on, so it has no energy; "
                "let it act where it senses"
            )
        h[:, column] += 0.5 * (motion.dq @ element.senses) ** 2
    return h


def power_regressor(robot: Robot, motion: Motion, load: FloatArray | None = None) -> FloatArray:
    """Power dqᵀτ by parameter, (n_samples, n_params): the exact derivative of the energy, and friction's."""
    params = layout(robot)
    p = np.zeros((len(motion), len(params)))
    p[:, : params.n_link_params] = robot.mechanism.power_regressor(motion)
    for rotor, column in zip(robot.drive.rotors, params.rotor_columns, strict=True):
        p[:, column] += (motion.dq @ rotor.acts) * (motion.ddq @ rotor.senses)
    friction_power_columns(robot, motion, friction_load(robot, motion, load), p)
    return p


def rotor_matrix(robot: Robot, chi: FloatArray) -> FloatArray:
    """Compute the rotors' part of the mass matrix, (n_joints, n_joints)."""
    added = np.zeros((robot.n_joints, robot.n_joints))
    for rotor, column in zip(robot.drive.rotors, layout(robot).rotor_columns, strict=True):
        added += chi[column] * np.outer(rotor.acts, rotor.senses)
    return added


def friction_load(robot: Robot, motion: Motion, load: FloatArray | None = None) -> FloatArray:
    """Torques that load-dependent friction works against: those given, else the prior's; no rows if none needs them."""
    if load is not None:
        load = np.ascontiguousarray(load, dtype=float)
        check_shape(load, "n_samples n_joints", "load", {"n_samples": len(motion), "n_joints": robot.n_joints})
        return load
    if has_load_friction(robot):
        return rigid_torque(robot, motion)
    return np.empty((0, robot.n_joints))


def friction_only(robot: Robot, chi: FloatArray) -> FloatArray:
    """Keep the friction parameters, set all others to 0."""
    friction = np.zeros_like(chi)
    columns = list(layout(robot).friction_columns)
    friction[columns] = chi[columns]
    return friction


def _parameters(robot: Robot, chi: FloatArray | None) -> FloatArray:
    if chi is None:
        return prior(robot)
    chi = np.ascontiguousarray(chi, dtype=float)
    check_shape(chi, "n_params", "chi", {"n_params": len(layout(robot))})
    return chi


@dataclass(frozen=True, eq=False, slots=True)
class MomentumForm:
    """τ = d(A χ)/dt + B χ by chosen columns of χ."""

    A: FloatArray  # (n_samples, n_joints, n_columns): of the momentum
    B: FloatArray  # the same: of what else acts

    def __post_init__(self) -> None:
        sizes = freeze(self, A="n_samples n_joints n_columns")
        freeze(self, B=" ".join(str(size) for size in sizes.values()))


def momentum_form(
    robot: Robot, motion: Motion, load: FloatArray | None = None, *, columns: IntArray | None = None
) -> MomentumForm:
    """Find A and B of τ = d(A χ)/dt + B χ along a motion, whose accelerations are not used.

    With Y(q, dq, ddq) χ the torque of links, A = Y(q, 0, dq) - Y(q, 0, 0). Velocity terms c(v, v) = Y(q, v, 0) -
    Y(q, 0, 0) are a form in Christoffel's symbols, whence ∂K/∂q_i = dqᵀ c(e_i, dq), and 4 c(e_i, dq) is what c of
    dq + e_i and of dq - e_i differ by. Load-dependent friction needs the torques that joints carry, as `regressor`
    does: where not given, those of the prior along the motion, accelerations and all.
    """
    columns = np.arange(len(layout(robot))) if columns is None else columns
    shape = (len(motion), robot.n_joints, len(columns))
    A, B = np.empty(shape), np.empty(shape)
    for first in range(0, len(motion), _BLOCK):
        rows = slice(first, first + _BLOCK)
        momentum, rest = _links(robot, motion[rows])
        A[rows], B[rows] = momentum[:, :, columns], rest[:, :, columns]
    for rotor, column in zip(robot.drive.rotors, layout(robot).rotor_columns, strict=True):
        for k in np.flatnonzero(columns == column):
            A[:, :, k] += np.outer(motion.dq @ rotor.senses, rotor.acts)
    _add_friction(robot, motion, load, columns, B)
    return MomentumForm(A, B)


def _links(robot: Robot, motion: Motion) -> tuple[FloatArray, FloatArray]:
    """Compute the links' part of A and B, columns of drives left 0, each (n_samples, n_joints, n_params)."""
    q, dq, still = motion.q, motion.dq, np.zeros_like(motion.q)
    n_samples, n_joints = q.shape
    params = layout(robot)

    def columns(velocity: FloatArray, acceleration: FloatArray) -> FloatArray:
        out = np.empty((params.n_link_params, n_joints, n_samples))
        robot.mechanism.regressor(Motion(q, velocity, acceleration), out)
        return out

    A, B = np.zeros((2, n_samples, n_joints, len(params)))
    gravity = columns(still, still)
    A[:, :, : params.n_link_params] = (columns(still, dq) - gravity).transpose(2, 1, 0)
    rest = gravity
    stride = float(np.abs(dq).max(initial=0.0)) or 1.0  # any length does: a form is quadratic exactly
    for i in range(n_joints):
        beside = np.zeros_like(q)
        beside[:, i] = stride
        twice = columns(dq + beside, still) - columns(dq - beside, still)  # 4 stride c(e_i, dq)
        rest[:, i] -= np.einsum("sj,pjs->ps", dq, twice) / (4.0 * stride)
    B[:, :, : params.n_link_params] = rest.transpose(2, 1, 0)
    return A, B


def _add_friction(robot: Robot, motion: Motion, load: FloatArray | None, columns: IntArray, B: FloatArray) -> None:
    """Add friction to B; the rotors' columns of B stay 0."""
    params = layout(robot)
    of_drives = np.flatnonzero(columns >= params.n_link_params)
    if not len(of_drives):
        return
    out = np.empty((len(params) - params.n_link_params, robot.n_joints, len(motion)))
    steady = Motion(motion.q, motion.dq, np.zeros_like(motion.q))
    drive_columns(robot, steady, friction_load(robot, motion, load), out)
    B[:, :, of_drives] += out[columns[of_drives] - params.n_link_params].transpose(2, 1, 0)


def foreign_terms(robot: Robot, columns: Collection[int] | None = None) -> tuple[FrictionTerm, ...]:
    """List friction of registered laws, which compiled code does not know; of chosen columns where given."""
    places = zip(robot.drive.friction, layout(robot).friction_columns, strict=True)
    chosen = (term for term, column in places if columns is None or column in columns)
    return tuple(term for term in chosen if friction_model(term).compiled is None)


def refuse_foreign(robot: Robot, purpose: str, columns: Collection[int] | None = None) -> None:
    """Refuse friction of registered laws where formulas of built-in ones alone are known."""
    terms = foreign_terms(robot, columns)
    if terms:
        names = ", ".join(f"{term.parameter!r} ({term.model})" for term in terms)
        raise ExcitorError(
            f"{robot.name}: friction {names} is a registered law, evaluated in numpy alone, and {purpose} needs a "
            "built-in formula; leave it out of this robot, or replace it by built-in terms"
        )


@lru_cache(maxsize=64)
def drive_elements(robot: Robot) -> kernel.Elements:
    """Pack rotors, then friction terms, for the kernel; laws it does not know enter by their values."""
    params = layout(robot)
    rotors, friction = robot.drive.rotors, robot.drive.friction
    elements: list[RotorInertia | FrictionTerm] = [*rotors, *friction]
    compiled_models = [friction_model(term).compiled for term in friction]
    models = [kernel.STATE if code is None else code for code in compiled_models]
    shape = (len(elements), robot.n_joints)
    return kernel.Elements(
        model=np.array([kernel.ROTOR] * len(rotors) + models, dtype=np.int64),
        column=np.array([*params.rotor_columns, *params.friction_columns], dtype=np.int64) - params.n_link_params,
        senses=np.array([element.senses for element in elements]).reshape(shape),
        acts=np.array([element.acts for element in elements]).reshape(shape),
        width=np.array([0.0] * len(rotors) + [term.width for term in friction]),
        scale=np.array([1.0] * len(rotors) + [term.scale for term in friction]),
    )


def drive_columns(robot: Robot, motion: Motion, load: FloatArray, out: FloatArray) -> None:
    """Write the columns of rotors and friction into out (n_columns, n_joints, n_samples)."""
    kernel.fill_drive(drive_elements(robot), samples(motion, robot.n_joints), load, slip_states(robot, motion), out)


def friction_power_columns(robot: Robot, motion: Motion, load: FloatArray, out: FloatArray) -> None:
    """Add the power (acts @ dq) g of each friction term to its column of out (n_samples, n_params)."""
    elements, states = drive_elements(robot), slip_states(robot, motion)
    value = np.empty(len(motion))
    for e, (term, column) in enumerate(
        zip(robot.drive.friction, layout(robot).friction_columns, strict=True), start=len(robot.drive.rotors)
    ):
        if elements.model[e] == kernel.STATE:
            value[:] = states[e]
        else:
            kernel.element_values(elements, e, samples(motion, robot.n_joints), 0, value)
        if friction_model(term).load:
            value *= np.abs(load @ term.acts)
        out[:, column] += (motion.dq @ term.acts) * value


def slip_states(robot: Robot, motion: Motion) -> FloatArray:
    """Evaluate memories and registered laws, which enter the kernel by value, (n_elements or 0, n_samples)."""
    by_value = _elements_by_value(robot)
    if not by_value:
        return np.empty((0, 0))
    friction, n_rotors = robot.drive.friction, len(robot.drive.rotors)
    states = np.zeros((n_rotors + len(friction), len(motion)))
    for e in by_value:
        term = friction[e]
        v = motion.dq @ term.senses
        states[n_rotors + e] = friction_model(term).column(term, motion.q @ term.senses, v, v)
    return states


@lru_cache(maxsize=64)
def _elements_by_value(robot: Robot) -> tuple[int, ...]:
    """List the friction terms that enter the kernel by their values."""
    return tuple(np.flatnonzero(drive_elements(robot).model[len(robot.drive.rotors) :] == kernel.STATE).tolist())
