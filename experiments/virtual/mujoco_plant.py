"""The virtual robot's plant as MuJoCo simulates it: bodies and closures as MJCF, drives by attributes and forces.

Only the robot's description and the servo's code are shared with the other plant. Dry friction is MuJoCo's
`frictionloss`, a soft constraint that creeps at rest instead of sticking. Steps are first order in their length.
"""

from dataclasses import dataclass, replace
from functools import cache
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
    between = 0.5 * (1.0 + fade) * fade ** np.arange(float(plant.substeps))[:, None]  # means over substeps
    for k in range(len(forward)):
        q, dq = plant.state()
        if not np.abs(dq).max() < LOST:  # neither is what is not a number
            return k, out
        target = command(gears, controller, inputs, k, controller.step, q, memory)
        plant.set_drives(q, dq)
        out[0, k], out[1, k], out[3, k], out[5, k], out[6, k] = q, dq, tau, memory[1], plant.warm
        for part, applied in enumerate(plant.applied(target + between * (tau - target))):
            plant.advance(applied, measure=part in {0, plant.substeps - 1})
            if part == 0:
                out[2, k], out[4, k] = plant.acceleration, plant.felt
        tau = target + fade**plant.substeps * (tau - target)
    return len(forward), out


class Gears(NamedTuple):
    """What the servo's code reads of a plant."""

    gears: FloatArray
    ungears: FloatArray


@cache
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
        self.forces, self.qpos, self.qvel = self.data.qfrc_applied, self.data.qpos, self.data.qvel
        self.dof = np.array([self.model.joint(f"j{j}").dofadr[0] for j in self.at.free], dtype=np.int64)
        self.dampings = self.model.dof_damping, self.model.tendon_damping
        self.losses = self.model.dof_frictionloss, self.model.tendon_frictionloss
        # MuJoCo lists dry friction by degree of freedom, then by tendon
        self.listed = np.concatenate([np.argsort(self.dof), np.arange(len(self.dof), len(self.at.directions))])
        self.motors = [self.at.find(row) for row in known.gears]
        self.stuck = [self.at.find(row)[0] for row in np.eye(robot.n_joints)[known.stuck]]
        self.to_joints = np.linalg.pinv(self.at.joints.T)  # torques
        self.from_motors = known.gears @ self.at.joints
        self.felt = np.zeros(robot.n_joints)
        self.warm, self.loses = known.temperature.copy(), bool(known.loss.any())

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Read the joints' positions and velocities."""
        return self.start + self.at.joints @ self.qpos[self.dof], self.at.joints @ self.qvel[self.dof]

    def set_drives(self, q: FloatArray, dq: FloatArray) -> None:
        """Set damping, dry friction and torques of the drives for the next control step, and warm them."""
        damping, dry, self.torque, rubbed = self.friction.act(q, dq, self.warm)
        known, n = self.known, len(self.dof)
        if self.loses:
            carried = self.felt @ known.ungears
            lost = np.where(carried * (known.gears @ dq) > 0.0, known.loss[:, 0], known.loss[:, 1]) * np.abs(carried)
            for (row, multiple), share in zip(self.motors, lost, strict=True):
                dry[row] += abs(multiple) * share
        damping[self.stuck] = _HELD
        self.dampings[0][self.dof], self.dampings[1][: len(dry) - n] = damping[:n], damping[n:]
        self.losses[0][self.dof], self.losses[1][: len(dry) - n] = dry[:n], dry[n:]
        self.damping, self.dry = damping, self.listed[dry[self.listed] > 0.0]
        heat = known.heat * np.abs(rubbed * dq)
        self.warm = self.warm + self.step * (heat - known.relief * (self.warm - known.ambient))

    def applied(self, taus: FloatArray) -> FloatArray:
        """Add friction that MuJoCo does not know to motor torques, (n, n_joints); forces along θ."""
        return taus @ self.from_motors + self.torque

    def advance(self, applied: FloatArray, measure: bool = True) -> None:
        """Advance by one step under forces along θ; find accelerations, and the torques that the links take."""
        data, at = self.data, self.at
        self.forces[self.dof] = applied
        if not measure:
            self.mujoco.mj_step(self.model, data)
            return
        before = self.qvel[self.dof]
        self.mujoco.mj_step(self.model, data)
        after = self.qvel[self.dof]
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
        F, kind = chi[list(layout(robot).friction_columns)], np.array([_KINDS.index(t.model) for t in terms], np.int64)
        senses, acts = (np.array([getattr(t, k) for t in terms]).reshape(-1, n) for k in ("senses", "acts"))
        width, scale = (np.array([getattr(t, k) or 1.0 for t in terms]) for k in ("width", "scale"))
        seat = np.array([np.argmax(np.abs(term.acts)) for term in terms], dtype=np.int64)
        places = [at.find(term.senses) for term in terms]
        row, multiple = np.array([r for r, _ in places], dtype=np.int64), np.array([x for _, x in places])
        resists = (kind < _OFFSET) & (F >= 0.0) & np.isclose(acts, senses).all(axis=1)
        speed = np.abs(senses) @ np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, 1.0)
        dry = resists & (kind > 0) & (width <= _DRY * speed)
        damps = resists & ~dry  # all else acts as a torque
        along = row == np.arange(len(at.directions))[:, None]  # of the terms, (n_directions, n_terms)
        self.to_damping, self.to_dry = along * damps * multiple**2, along * dry * np.abs(multiple)
        self.to_torque = -np.where(dry | damps, 0.0, 1.0)[:, None] * acts @ at.joints
        factors = np.column_stack([F, width, scale, warmth(truth), np.full(len(F), truth.settings.ambient)])
        self.terms = (kind, senses, acts, factors, seat, self.to_damping, self.to_dry, self.to_torque)
        self.code = _friction_code()

    def act(
        self, q: FloatArray, dq: FloatArray, warm: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Find damping and dry friction by direction, torques of what is neither, and all friction by joint."""
        n_directions, n_joints = len(self.to_damping), len(q)
        found = (np.zeros(n_directions), np.zeros(n_directions), np.zeros(self.to_torque.shape[1]), np.zeros(n_joints))
        self.code(self.terms, (q, dq, warm), *found)
        return found


@cache
def _friction_code() -> Any:
    from excitor.robots.kernel.compile import compiled

    @compiled
    def rub(terms, state, damping, dry, torque, rubbed):  # type: ignore[no-untyped-def]
        kinds, senses, acts, factors, seats, to_damping, to_dry, to_torque = terms
        q, dq, warm = state
        for i in range(len(kinds)):
            F, width, scale, lost, ambient = factors[i]
            p, v, kind = 0.0, 0.0, kinds[i]
            for j in range(len(q)):
                p += scale * senses[i, j] * q[j]
                v += senses[i, j] * dq[j]
            F *= max(COOLEST, 1.0 - lost * (warm[seats[i]] - ambient))
            speed = max(abs(v), 1e-12)
            size, turned = 1.0, np.tanh(speed / width)
            if kind == 0:
                size, turned = speed, 1.0
            elif kind == 2:
                size = np.exp(-speed / scale)
            elif kind == 3:
                size = np.sqrt(speed)
            elif kind == 5:
                size = np.sin(p)
            elif kind == 6:
                size = np.cos(p)
            chord = F if kind == 0 else F * size * turned / speed
            g = F * size * (np.sign(v) * turned if kind < _OFFSET else 1.0)
            for r in range(len(damping)):
                damping[r] += to_damping[r, i] * chord
                dry[r] += to_dry[r, i] * F * size
            for r in range(len(torque)):
                torque[r] += g * to_torque[i, r]
            for j in range(len(q)):
                rubbed[j] += g * acts[i, j]

    return rub


_KINDS = ("viscous", "coulomb", "stribeck", "sqrt", "offset", "ripple-sin", "ripple-cos")
_OFFSET = _KINDS.index("offset")  # terms before it oppose the motion


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
