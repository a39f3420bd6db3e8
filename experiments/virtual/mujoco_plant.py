"""The virtual robot's plant as MuJoCo simulates it: bodies and closures as MJCF, drives by attributes and forces.

Only the robot's description and the servo's code are shared with the other plant. Dry friction is MuJoCo's
`frictionloss`, a soft constraint that creeps at rest instead of sticking. Steps are first order in their length.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from excitor.experiments.export.mjcf import ATTRIBUTES, Drive, bodies, check_bodies
from excitor.experiments.virtual.robot import Truth, loaded_parameters, plant_of, warmth
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.closed_chain import ClosedLoop, all_positions
from excitor.robots.errors import ExcitorError
from excitor.robots.files.mjcf import mujoco_warnings
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree

if TYPE_CHECKING:
    from excitor.robots.kernel.plant import Plant
    from excitor.robots.kernel.steps import Controller

STEP = 2e-4  # s, of integration at most
LOST = 1e4  # rad/s or m/s
COOLEST = 0.2  # share of friction that heat leaves at least
_DRY = 1e-3  # of the speed limit: friction that turns over a narrower range of velocities is dry
_RIGID = "0.9999 0.99999 0.001"  # impedances of constraints
_LEAST_MASS = 1e-6  # kg, of a link without parameters
_HELD = 1e9  # N m s/rad of a closed brake


def run_mujoco(
    truth: Truth, robot: Robot, controller: "Controller", asked: tuple[Motion, FloatArray]
) -> tuple[int, FloatArray]:
    """Follow a reference with feedforward torques: the number of valid steps, and signals as `run_controlled` gives."""
    if truth.stiffness.size:
        raise ExcitorError(f"{robot.name}: elastic gears are not simulated in MuJoCo; use the engine excitor")
    known = plant_of(truth, robot)  # of it the drives' constants alone, none of its dynamics
    plant = MujocoPlant(truth, robot, known, asked[0].q[0], controller.step)
    with mujoco_warnings():  # of a motion that is lost, which the number of valid steps tells
        return _follow(plant, controller, *asked)


def _follow(
    plant: "MujocoPlant", controller: "Controller", reference: Motion, forward: FloatArray
) -> tuple[int, FloatArray]:
    known, n_joints = plant.known, forward.shape[1]
    command, gears = _servo_code(), Gears(known.gears, known.ungears)
    inputs = tuple(np.ascontiguousarray(x) for x in (forward, reference.q, reference.dq, np.zeros(forward.shape)))
    out, memory = np.zeros((7, *forward.shape)), np.array([np.zeros(n_joints), reference.dq[0]])
    tau, fade = forward[0] @ known.ungears, np.exp(-plant.h / controller.lag) if controller.lag > 0.0 else 0.0
    fades = fade ** np.arange(plant.substeps + 1.0)[:, None]
    for k in range(len(forward)):
        q, dq = plant.state()
        if not (np.abs(dq) < LOST).all():  # neither is what is not a number
            return k, out
        target = command(gears, controller, inputs, k, controller.step, q, memory)
        plant.set_drives(q, dq)
        out[0, k], out[1, k], out[3, k], out[5, k], out[6, k] = q, dq, tau, memory[1], plant.warm
        taus = target + fades * (tau - target)
        for part, applied in enumerate(plant.applied(0.5 * (taus[:-1] + taus[1:]))):
            plant.advance(applied, measure=part in {0, plant.substeps - 1})
            if part == 0:
                out[2, k], out[4, k] = plant.acceleration, plant.felt
        tau = taus[-1]
    return len(forward), out


class Gears(NamedTuple):
    """What the servo's code reads of a plant."""

    gears: FloatArray
    ungears: FloatArray


def _servo_code() -> Any:
    from excitor.robots.kernel.compile import compiled
    from excitor.robots.kernel.steps import command

    @compiled
    def next_command(gears, controller, inputs, k, step, q, memory):  # type: ignore[no-untyped-def]
        return command(gears, controller, inputs, k, step, q, memory)

    return next_command


@dataclass(frozen=True, eq=False, slots=True)
class Coordinates:
    """Links whose own joints MuJoCo moves freely, θ; all others, and the robot's joints q, follow from them.

    Drives act along `directions` of θ: each by itself, then combinations, which are tendons.
    """

    tree: Tree
    place: FloatArray  # (n,): the tree's position at the start
    free: IntArray  # (n,): links
    others: FloatArray  # (n_links, n): all from the free ones
    joints: FloatArray  # (n_joints, n): q from the free ones
    directions: FloatArray  # (n_directions, n)

    def find(self, senses: FloatArray) -> tuple[int, float]:
        """Find the direction of what senses these joints, and its multiple of it."""
        along = senses @ self.joints
        scales = self.directions @ along / np.einsum("rn,rn->r", self.directions, self.directions)
        r = int(np.argmin(np.abs(along - scales[:, None] * self.directions).max(axis=1)))
        return r, float(scales[r])


def coordinates_of(robot: Robot, start: FloatArray) -> Coordinates:
    """Choose free joints, and collect the directions of rotors, friction and motors."""
    mechanism = robot.mechanism
    if isinstance(mechanism, ClosedLoop):
        tree, position, actuated = mechanism.tree, all_positions(mechanism, start[None])[0], mechanism.actuated
    else:
        assert isinstance(mechanism, Tree)
        tree, position, actuated = mechanism, start, np.arange(robot.n_joints)
    free: list[int] = []
    for j in np.argsort(np.count_nonzero(tree.coupling, axis=1), kind="stable"):
        if np.linalg.matrix_rank(tree.coupling[[*free, j]]) > len(free):
            free.append(int(j))
    coordinates = np.linalg.inv(tree.coupling[free])
    joints, found = coordinates[actuated], list(np.eye(len(free)))
    rotors, friction = ([element.senses for element in some] for some in (robot.drive.rotors, robot.drive.friction))
    for senses in [*rotors, *friction, *robot.drive.motor_from_joint]:
        if not any(np.linalg.matrix_rank(np.array([row, senses @ joints]), tol=1e-9) < 2 for row in found):
            found.append(senses @ joints)
    return Coordinates(tree, position, np.array(free), tree.coupling @ coordinates, joints, np.array(found))


class MujocoPlant:
    """A MuJoCo model of the true robot, and its state."""

    def __init__(self, truth: Truth, robot: Robot, known: "Plant", start: FloatArray, step: float) -> None:
        try:
            import mujoco
        except ImportError:
            raise ExcitorError("MuJoCo is not installed, in which to simulate: pip install 'excitor[mujoco]'") from None
        self.mujoco, self.known, self.start = mujoco, known, start
        self.substeps = max(1, int(np.ceil(step / STEP - 1e-9)))
        self.h, self.step = step / self.substeps, step
        self.at, chi = coordinates_of(truth.robot, start), loaded_parameters(truth, robot)
        self.friction = Friction(truth, chi, self.at)
        try:
            with mujoco_warnings():
                self.model = mujoco.MjModel.from_xml_string(model_text(truth.robot, chi, self.at, self.h))
        except ValueError as error:
            raise ExcitorError(f"{robot.name}: MuJoCo does not take its bodies: {error}") from None
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self.data = mujoco.MjData(self.model)
        self.forces = self.data.qfrc_applied
        self.dof = np.array([self.model.joint(f"j{j}").dofadr[0] for j in self.at.free], dtype=np.int64)
        # MuJoCo lists dry friction by degree of freedom, then by tendon
        self.listed = np.concatenate([np.argsort(self.dof), np.arange(len(self.dof), len(self.at.directions))])
        self.motors = [self.at.find(row) for row in known.gears]
        self.stuck = [self.at.find(row)[0] for row in np.eye(robot.n_joints)[known.stuck]]
        self.to_joints = np.linalg.pinv(self.at.joints.T)  # torques
        self.from_motors = known.gears @ self.at.joints
        self.felt = np.zeros(robot.n_joints)
        self.warm = known.temperature.copy()

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Read the joints' positions and velocities."""
        return self.start + self.at.joints @ self.data.qpos[self.dof], self.at.joints @ self.data.qvel[self.dof]

    def set_drives(self, q: FloatArray, dq: FloatArray) -> None:
        """Set damping, dry friction and torques of the drives for the next control step, and warm them."""
        damping, dry, self.torque, rubbed = self.friction.act(q, dq, self.warm)
        known, model, n = self.known, self.model, len(self.dof)
        if known.loss.any():
            carried = self.felt @ known.ungears
            lost = np.where(carried * (known.gears @ dq) > 0.0, known.loss[:, 0], known.loss[:, 1]) * np.abs(carried)
            for (row, multiple), share in zip(self.motors, lost, strict=True):
                dry[row] += abs(multiple) * share
        damping[self.stuck] = _HELD
        model.dof_damping[self.dof], model.dof_frictionloss[self.dof] = damping[:n], dry[:n]
        model.tendon_damping[: len(dry) - n], model.tendon_frictionloss[: len(dry) - n] = damping[n:], dry[n:]
        self.damping, self.dry = damping, self.listed[dry[self.listed] > 0.0]
        heat = known.heat * np.abs(rubbed * dq)
        self.warm = self.warm + self.step * (heat - known.relief * (self.warm - known.ambient))

    def applied(self, taus: FloatArray) -> FloatArray:
        """Add friction that MuJoCo does not know to motor torques, (n, n_joints); forces along θ."""
        return taus @ self.from_motors + self.torque

    def advance(self, applied: FloatArray, measure: bool = True) -> None:
        """Advance by one step under forces along θ; find accelerations, and the torques that the links take."""
        data, at = self.data, self.at
        before = data.qvel[self.dof] if measure else None
        self.forces[self.dof] = applied
        self.mujoco.mj_step(self.model, data)
        if before is None:
            return
        after = data.qvel[self.dof]
        held = -self.damping * (at.directions @ after)
        held[self.dry] += data.efc_force[data.ne : data.ne + data.nf]
        self.acceleration = at.joints @ (after - before) / self.h
        self.felt = self.to_joints @ (applied + held @ at.directions) - self.known.rotors @ self.acceleration


class Friction:
    """Friction by directions: F g of every term, as damping, dry friction or torque."""

    def __init__(self, truth: Truth, chi: FloatArray, at: Coordinates) -> None:
        robot, terms, n = truth.robot, truth.robot.drive.friction, truth.robot.n_joints
        for term in terms:
            if term.model not in _KINDS:
                raise ExcitorError(f"friction {term.parameter!r} is {term.model}, which is not simulated in MuJoCo")
        self.F, self.at, self.lost = chi[list(layout(robot).friction_columns)], at, warmth(truth)
        self.kind, self.ambient = np.array([_KINDS.index(term.model) for term in terms]), truth.settings.ambient
        self.senses, self.acts = (np.array([getattr(t, k) for t in terms]).reshape(-1, n) for k in ("senses", "acts"))
        self.width, self.scale = (np.array([getattr(t, k) or 1.0 for t in terms]) for k in ("width", "scale"))
        self.seat = np.array([np.argmax(np.abs(term.acts)) for term in terms], dtype=np.int64)
        places = [at.find(term.senses) for term in terms]
        self.row, multiple = np.array([r for r, _ in places], dtype=np.int64), np.array([x for _, x in places])
        resists = (self.kind < _OFFSET) & (self.F >= 0.0) & np.isclose(self.acts, self.senses).all(axis=1)
        speed = np.abs(self.senses) @ np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, 1.0)
        dry = resists & (self.kind > 0) & (self.width <= _DRY * speed)
        damps = resists & ~dry  # all else acts as a torque
        self.viscous, self.resists = self.kind == 0, self.kind < _OFFSET
        self.sizes = [(k, size) for i, size in _SIZES.items() if len(k := np.flatnonzero(self.kind == i))]
        along = self.row == np.arange(len(at.directions))[:, None]  # of the terms, (n_directions, n_terms)
        self.to_damping, self.to_dry = along * damps * multiple**2, along * dry * np.abs(multiple)
        self.to_torque = -np.where(dry | damps, 0.0, 1.0)[:, None] * self.acts @ at.joints

    def act(
        self, q: FloatArray, dq: FloatArray, warm: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Find damping and dry friction by direction, torques of what is neither, and all friction by joint."""
        p, v = self.scale * (self.senses @ q), self.senses @ dq
        F = self.F * np.maximum(COOLEST, 1.0 - self.lost * (warm[self.seat] - self.ambient))
        speed = np.maximum(np.abs(v), 1e-12)
        size, turned = np.ones(len(v)), np.tanh(speed / self.width)
        for terms, size_of in self.sizes:
            size[terms] = size_of(p[terms], speed[terms], self.scale[terms])
        turned[self.viscous] = 1.0
        g = size * np.where(self.resists, np.sign(v) * turned, 1.0)
        chord = np.where(self.viscous, 1.0, size * turned / speed)
        damping, dry = self.to_damping @ (F * chord), self.to_dry @ (F * size)
        torque = (F * g) @ self.to_torque
        return damping, dry, torque, (F * g) @ self.acts


_KINDS = ("viscous", "coulomb", "stribeck", "sqrt", "offset", "ripple-sin", "ripple-cos")
_OFFSET = _KINDS.index("offset")  # terms before it oppose the motion
_SIZES: dict[int, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {  # by kind; 1 of the others
    0: lambda _, speed, __: speed,
    2: lambda _, speed, scale: np.exp(-speed / scale),
    3: lambda _, speed, __: np.sqrt(speed),
    5: lambda angle, _, __: np.sin(angle),
    6: lambda angle, _, __: np.cos(angle),
}


def model_text(robot: Robot, chi: FloatArray, at: Coordinates, step: float) -> str:
    """Write the true robot as MJCF, its joints' zeros at the start of the run."""
    check_bodies(robot, chi)
    rotors, n_links = np.zeros(len(at.directions)), at.tree.n_links
    for rotor, column in zip(robot.drive.rotors, layout(robot).rotor_columns, strict=True):
        if not np.allclose(rotor.senses, rotor.acts):
            raise ExcitorError(f"rotor {rotor.parameter!r} does not act where it senses; use the engine excitor")
        row, multiple = at.find(rotor.senses)
        rotors[row] += multiple**2 * chi[column]
    phi = chi[: layout(robot).n_link_params].reshape(-1, 10)
    phi = robot.mechanism.tree_parameters(phi) if isinstance(robot.mechanism, ClosedLoop) else phi
    joints = {f"j{j}": dict.fromkeys(ATTRIBUTES, 0.0) for j in range(n_links)}
    for j, inertia in zip(at.free, rotors, strict=False):
        joints[f"j{j}"]["armature"] = float(inertia)
    links, one, zero = tuple(f"b{j}" for j in range(n_links)), np.eye(n_links), np.zeros(n_links)
    single = replace(at.tree, joint_names=tuple(joints), link_names=links, coupling=one, offset=zero)
    place = at.tree.coupling @ at.place + at.tree.offset
    written = bodies(single, [_possible(body) for body in phi], place, Drive(joints, {}, []))
    tendons, equalities = _couplings(robot, at, rotors[len(at.free) :], f'solref="{2.0 * step!r} 1" solimp="{_RIGID}"')
    soft = f'solreffriction="{2.0 * step!r} 1" solimpfriction="{_RIGID}"'
    return (
        f'<mujoco><compiler angle="radian" inertiafromgeom="false"/><default><joint {soft}/><tendon {soft}/></default>'
        f'<option gravity="{_text(at.tree.gravity)}" timestep="{step!r}" integrator="implicitfast" tolerance="1e-10"/>'
        f"<worldbody>{''.join(written)}</worldbody><tendon>{''.join(tendons)}</tendon>"
        f"<equality>{''.join(equalities)}</equality></mujoco>"
    )


def _couplings(robot: Robot, at: Coordinates, rotors: FloatArray, hard: str) -> tuple[list[str], list[str]]:
    """Write tendons of shared drives, and equalities of coupled links and closures."""
    tendons, equalities = [], []
    for row, inertia in zip(at.directions[len(at.free) :], rotors, strict=True):
        tendons.append(_tendon(f'armature="{float(inertia)!r}"', zip(at.free, row, strict=True)))
    for j in np.setdiff1d(np.arange(at.tree.n_links), at.free):
        tendons.append(_tendon(f'name="t{j}"', [(j, -1.0), *zip(at.free, at.others[j], strict=True)]))
        equalities.append(f'<tendon tendon1="t{j}" {hard}/>')
    for closure in robot.mechanism.closures if isinstance(robot.mechanism, ClosedLoop) else ():
        if closure.kind != "point" or len(closure) < 2:
            raise ExcitorError(f"{robot.name}: a closure of kind {closure.kind} is not simulated in MuJoCo")
        a, b = ("world" if link < 0 else f"b{link}" for link in closure.links)
        equalities.append(f'<connect body1="{a}" body2="{b}" anchor="{_text(closure.points[0])}" {hard}/>')
    return tendons, equalities


def _tendon(attributes: str, parts: Any) -> str:
    inside = "".join(f'<joint joint="j{j}" coef="{float(x)!r}"/>' for j, x in parts if x != 0.0)
    return f"<fixed {attributes}>{inside}</fixed>"


def _possible(phi: FloatArray) -> FloatArray:
    """Give a link without mass, or a rod without inertia about itself, next to none."""
    if phi[9] <= 0.0:
        return _LEAST_MASS * np.array([1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    return np.asarray(phi + 1e-6 * phi[3] * (np.arange(10) == 0) * (phi[0] == 0.0))


def _text(values: FloatArray) -> str:
    return " ".join(repr(float(x)) for x in values)
