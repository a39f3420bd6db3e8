"""Excitation of direct-drive arms by torques: sinusoids in each motor, and the motion that they are simulated to cause.

[ChavezOlivares2012] (30)-(32): τ(t) = α₁ (1 - exp(-β t³)) + Σ_k α_k sin(w_k t + φ_k), applied to an arm that hangs at
rest, with no controller around it. Afterwards the torques fade and friction brings the arm to rest. What such a run
will do is simulated, never proven: the model it is simulated with is what the run is to find.

Torques are searched like motions, with slopes by differences, from repaired starts; each candidate is simulated.
The certificate is a finer simulation with its error, and simulations with perturbed models.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from excitor.design.certify.certify import Certificate, Robustness, Simulation
from excitor.design.constraints.constraint import Constraint, Margin, Population, Reserve, Row, Trace, margin_of
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.joint_limits import JointLimits
from excitor.design.criteria import Criterion, values
from excitor.design.motion import Run, Table, rise
from excitor.design.problem import UNBOUNDED, Candidates, Evaluation, Fidelity, Genes
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.base import base_parameters
from excitor.robots.belief import draw_robots
from excitor.robots.dynamics import inverse_dynamics, mass_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_model
from excitor.robots.parameters import layout, prior
from excitor.robots.population import population_grams
from excitor.robots.robot import Motion, Robot, posture
from excitor.robots.simulate import SimulatedRuns, Steps, run_motion, simulate, stable_substeps, with_friction_width

SEARCH = Reserve(0.97, 0.005)  # samples of a simulated motion are far apart
STATED = Reserve(1.0, 0.0)
SEARCH_WIDTH = 0.05  # rad/s over which a true sign is smoothed while searching
REST_SPEED = 2.0 * SEARCH_WIDTH  # rad/s: slower than this, smoothed friction and standing still look alike
_GRAM_SAMPLES = 2000
_STEP = 1e-4  # of a variable's half range, between the simulations of a gradient


@dataclass(frozen=True, eq=False, slots=True)
class TorqueExcitation:
    """Form of a run's torques; times in s, each a whole number of controller samples."""

    duration: float  # of the part that is measured
    sample_time: float  # the controller holds each torque that long
    driven: BoolArray  # (n_joints,): motors that push; the others only swing along
    start: FloatArray  # (n_joints,): a pose in which the arm rests without torque
    n_waves: int = 2
    band: tuple[float, float] = (1.0, 15.0)  # rad/s, of the waves; its end stays below the structure's resonances
    rate: float = 0.5  # β, 1/s³: how soon the constant part comes
    fade: float = 1.0  # in which the torques vanish afterwards
    coast: float = 2.0  # in which the arm comes to rest without them

    def __post_init__(self) -> None:
        freeze(self, driven="bool: n_joints", start="n_joints")
        for name in ("duration", "sample_time", "rate"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")
        for name in ("duration", "fade", "coast"):
            steps = getattr(self, name) / self.sample_time
            if not 0.0 <= steps < np.inf or abs(steps - round(steps)) > 1e-6 * max(1.0, steps):
                raise ValueError(
                    f"{name} is {getattr(self, name):g} s, expected a whole number of controller samples of "
                    f"{self.sample_time:g} s"
                )
        if not 0.0 < self.band[0] < self.band[1] <= 0.1 * 2.0 * np.pi / self.sample_time:
            raise ValueError(
                f"band is {self.band} rad/s, expected it to rise from above 0 to at most "
                f"{0.2 * np.pi / self.sample_time:g}, ten controller samples a cycle"
            )
        if self.n_waves < 1 or not self.driven.any():
            raise ValueError(
                f"{self.n_waves} waves drive {int(self.driven.sum())} joints, expected one of each or more"
            )

    @property
    def n_samples(self) -> int:
        """Count the controller samples of the whole run, its end included."""
        return round((self.duration + self.fade + self.coast) / self.sample_time) + 1

    @property
    def n_measured(self) -> int:
        """Count the samples that are measured."""
        return round(self.duration / self.sample_time)


@dataclass(frozen=True, eq=False, slots=True)
class TorqueTrajectory:
    """The coefficients of a run's torques; joints that are not driven have amplitudes 0."""

    excitation: TorqueExcitation
    constant: FloatArray  # (n_joints,), N m
    amplitudes: FloatArray  # (n_joints, n_waves), N m
    frequencies: FloatArray  # (n_joints, n_waves), rad/s
    phases: FloatArray  # (n_joints, n_waves), rad

    def __post_init__(self) -> None:
        shape = f"{self.excitation.driven.size} {self.excitation.n_waves}"
        freeze(self, constant=str(self.excitation.driven.size), amplitudes=shape, frequencies=shape, phases=shape)


@dataclass(frozen=True, eq=False, slots=True)
class TorqueProblem:
    """Everything that evaluating a candidate needs; built by `torque_problem`."""

    robot: Robot  # with smooth friction
    sharp: Robot  # as it was given
    excitation: TorqueExcitation
    constraints: Constraints
    columns: IntArray  # of the regressor whose condition is sought
    steps: Steps
    others: FloatArray = field(default_factory=lambda: np.empty((0, 0)))  # (n, n_params): robots that keep positions
    # and speeds under the same torques, see `extreme_robots`
    items: tuple[Constraint, ...] = field(init=False)  # on a simulated motion: a jerk it has not, as torques are held
    rows: tuple[Row, ...] = field(init=False)  # of `evaluate`: the simulation, the constraints', speeds at the end

    def __post_init__(self) -> None:
        robot, no_jerk = self.robot, replace(self.constraints.limits, jerk=np.full(self.robot.n_joints, np.inf))
        items = tuple(item for item in replace(self.constraints, limits=no_jerk).items if item.rows(robot))
        ends = zip(robot.joint_names, np.where(robot.mechanism.prismatic, "m/s", "rad/s").tolist(), strict=True)
        rest = (Row(f"speed at the end {name}", unit, REST_SPEED, joint=j) for j, (name, unit) in enumerate(ends))
        rows = (
            Row("simulation", "s", 0.0, kind="simulation"),
            *(row for item in items for row in item.rows(robot)),
            *rest,
        )
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "rows", rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the constraints of `evaluate`."""
        return tuple(row.name for row in self.rows)

    @property
    def n_design(self) -> int:
        """Count the design variables: of each driven joint a constant, then amplitudes, frequencies and phases."""
        return int(self.excitation.driven.sum()) * (1 + 3 * self.excitation.n_waves)

    def decode(self, X: FloatArray) -> Candidates:
        """Turn design variables (n_candidates, n_design), each in ±1, into torques within their peak limits."""
        driven, w = self.excitation.driven, self.excitation.n_waves
        x = np.clip(X, -1.0, 1.0).reshape(len(X), int(driven.sum()), 1 + 3 * w)
        most = SEARCH.share * self.constraints.limits.torque[driven][:, None]
        low, high = np.log(self.excitation.band)
        sizes = np.concatenate([x[:, :, :1], 0.5 * (1.0 + x[:, :, 1 : 1 + w])], axis=2)
        sizes *= most / np.maximum(1.0, np.abs(sizes).sum(axis=2, keepdims=True))
        full = np.zeros((len(X), driven.size, 1 + 3 * w))
        frequencies = np.exp(low + 0.5 * (1.0 + x[:, :, 1 + w : 1 + 2 * w]) * (high - low))
        full[:, driven] = np.concatenate([sizes, frequencies, np.pi * x[:, :, 1 + 2 * w :]], axis=2)
        return Candidates(full[:, :, 0], full[:, :, 1:])

    def encode(self, candidates: Candidates) -> FloatArray:
        """Turn torques back into design variables, (n_candidates, n_design)."""
        driven = self.excitation.driven
        most = SEARCH.share * self.constraints.limits.torque[driven][:, None]
        low, high = np.log(self.excitation.band)
        sizes, frequencies, phases = np.split(candidates.swing[:, driven], 3, axis=2)
        phases = phases + np.where(sizes < 0.0, np.pi, 0.0)
        x = [
            candidates.center[:, driven, None] / most,
            2.0 * np.abs(sizes) / most - 1.0,
            2.0 * (np.log(frequencies) - low) / (high - low) - 1.0,
            (phases + np.pi) % (2.0 * np.pi) / np.pi - 1.0,
        ]
        return np.concatenate(x, axis=2).reshape(len(candidates.center), -1)

    @property
    def point_cost(self) -> int:
        """Evaluations that a point of a descent takes, its gradient by differences included."""
        return 1 + self.n_design

    @property
    def genes(self) -> Genes:
        """What each design variable is; no symmetry of simulated motions is known."""
        n, w = int(self.excitation.driven.sum()), self.excitation.n_waves
        none = np.empty((0, 0), dtype=np.int64)
        one = np.ones((1, self.n_design))
        return Genes(
            np.repeat(np.flatnonzero(self.excitation.driven), 1 + 3 * w),
            np.tile(np.concatenate([[-1], np.tile(np.arange(w), 3)]), n),
            none,
            none,
            np.empty(0),
            one,
            0.0 * one,
            one[0],
        )

    def objective(self, fidelity: Fidelity) -> "Simulated":
        """Build what a descent minimises."""
        return Simulated(self, fidelity)

    def finer(self) -> "TorqueProblem":
        """Return the problem itself: candidates are simulated in steps that are stable."""
        return self

    def evaluate(self, candidates: Candidates) -> Evaluation:
        """Simulate candidates: their condition numbers, and constraints g ≤ 0 in shares."""
        return score(self, held_torques(trajectories(self, candidates)))

    def start(self, n: int, random: np.random.Generator, allowance: float) -> tuple[Candidates, Evaluation, int]:
        """Draw candidates and shrink them into the limits, on at most half of the allowance."""
        n = int(max(1.0, min(n, allowance / 12)))
        rounds = int(np.clip(allowance / (2 * n) - 1, 0, 12))
        first = self.decode(random.uniform(-1.0, 1.0, size=(n, self.n_design)))
        return *repair(self, first, rounds=rounds), 1 + rounds

    def fitted(self, candidates: Candidates, _: FloatArray | None) -> tuple[Candidates, Evaluation]:
        """Evaluate candidates as they are: a smaller simulation of each takes as long as another candidate."""
        return candidates, self.evaluate(candidates)


class Simulated:
    """J of torques, log criterion + ρ Σ max(0, g)², with its gradient by differences: one batch of simulations."""

    def __init__(self, problem: TorqueProblem, fidelity: Fidelity) -> None:
        self.problem, self.weight = problem, fidelity.weight

    def __call__(self, x: FloatArray, shift: FloatArray) -> tuple[float, FloatArray]:
        """Evaluate J and ∂J/∂x; variables at the ends of their box are differentiated inwards."""
        steps = np.where(x > 0.0, -_STEP, _STEP)
        found = self.problem.evaluate(self.problem.decode(np.concatenate([x[None], x + np.diag(steps)])))
        with np.errstate(divide="ignore"):
            J = np.minimum(np.log(found.value), UNBOUNDED)
        J += self.weight * np.sum(np.maximum(0.0, found.g + shift) ** 2, axis=1)
        slope = (J[1:] - J[0]) / steps
        return float(J[0]), np.where((np.abs(x) > 1.0) & (slope * x < 0.0), 0.0, slope)


def torque_problem(
    robot: Robot,
    excitation: TorqueExcitation,
    *,
    constraints: Constraints,
    columns: IntArray | None = None,
    width: float = SEARCH_WIDTH,
) -> TorqueProblem:
    """Collect a search problem; the base parameters' columns count where none are given."""
    if excitation.driven.size != robot.n_joints:
        raise ValueError(f"driven has {excitation.driven.size} joints, expected the robot's {robot.n_joints}")
    if robot.locked:
        raise ValueError("a locked joint would be held by a controller, which torque mode has not; unlock it")
    free = excitation.driven & ~np.isfinite(constraints.limits.torque)
    if free.any():
        names = ", ".join(np.array(robot.joint_names)[free])
        raise ValueError(f"torque limits of {names} are not stated; torque mode needs them to know how hard to push")
    _check_rest(robot, excitation, constraints)
    _check_place(robot, excitation, constraints)
    smooth = with_friction_width(robot, width)
    poses = _poses(smooth, constraints)
    substeps = stable_substeps(smooth, excitation.sample_time, poses)
    velocity = constraints.limits.velocity
    bound = 100.0 * float(velocity[np.isfinite(velocity)].max(initial=1.0))
    steps = Steps(excitation.sample_time, excitation.n_samples, substeps=substeps, bound=bound)
    chosen = base_parameters(smooth).kept if columns is None else columns
    return TorqueProblem(smooth, robot, excitation, constraints, chosen, steps)


def trajectories(problem: TorqueProblem, candidates: Candidates) -> list[TorqueTrajectory]:
    """List the torques of each candidate."""
    parts = [candidates.center, *np.split(candidates.swing, 3, axis=2)]
    return [TorqueTrajectory(problem.excitation, *one) for one in zip(*parts, strict=True)]


def torques(trajectory: TorqueTrajectory, t: FloatArray) -> FloatArray:
    """Evaluate the torques of a run, fading included, (n_t, n_joints), t in s from its start."""
    excitation = trajectory.excitation
    t = np.asarray(t, dtype=float)
    coming = 1.0 - np.exp(-excitation.rate * t**3)
    waves = np.sin(trajectory.frequencies[:, :, None] * t + trajectory.phases[:, :, None])
    tau = trajectory.constant[:, None] * coming + (trajectory.amplitudes[:, :, None] * waves).sum(axis=1)
    over = t - excitation.duration
    past = over / excitation.fade if excitation.fade > 0.0 else np.where(over < 0.0, 0.0, 1.0)
    return np.asarray((tau * (1.0 - rise(past))).T)


def held_torques(trajectories: list[TorqueTrajectory]) -> FloatArray:
    """Tabulate what the controller holds from each sample to the next, (n_runs, n_joints, n_samples)."""
    excitation = trajectories[0].excitation
    t = np.arange(excitation.n_samples) * excitation.sample_time
    return np.stack([torques(trajectory, t).T for trajectory in trajectories])


def score(problem: TorqueProblem, tau: FloatArray) -> Evaluation:
    """Score tables of held torques (n_runs, n_joints, n_samples), of any origin; other robots count by their reach."""
    n, k = len(tau), len(problem.others)
    if not k:
        runs = perform(problem, tau)
        return Evaluation(conditions(problem, runs), violations(problem, runs))
    chi = np.concatenate([prior(problem.robot)[None], problem.others])
    runs = perform(problem, np.tile(tau, (1 + k, 1, 1)), np.repeat(chi, n, axis=0))
    own = SimulatedRuns(runs.t, *(x[:n] for x in (runs.q, runs.dq, runs.ddq, runs.tau, runs.diverged_at)))
    g = violations(problem, own)
    reach = np.array([row.kind in _REACH for row in problem.rows])
    g[:, reach] = violations(problem, runs)[:, reach].reshape(1 + k, n, -1).max(axis=0)
    return Evaluation(conditions(problem, own), g)


def perform(problem: TorqueProblem, tau: FloatArray, chi: FloatArray | None = None) -> SimulatedRuns:
    """Simulate tables of held torques from the start pose."""
    start = posture(np.tile(problem.excitation.start, (len(tau), 1)))
    return simulate(problem.robot, tau, start=start, steps=problem.steps, chi=chi)


def conditions(problem: TorqueProblem, runs: SimulatedRuns) -> FloatArray:
    """Condition numbers of the column-normalised regressor of the measured part; inf where a run diverged."""
    n = problem.excitation.n_measured
    thin = max(1, n // _GRAM_SAMPLES)
    q, dq, ddq = (np.ascontiguousarray(x[:, :, :n:thin]) for x in (runs.q, runs.dq, runs.ddq))
    found = values(Criterion("condition"), population_grams(problem.robot, q, dq, ddq, columns=problem.columns))
    return np.where(np.isinf(runs.diverged_at), found, np.inf)


def violations(problem: TorqueProblem, runs: SimulatedRuns, *, reserve: Reserve = SEARCH) -> FloatArray:
    """Evaluate g ≤ 0 of every constraint in shares of its limit, (n_runs, n_names), less a reserve."""
    population = Population(problem.robot, (runs.q, runs.dq, runs.ddq), problem.excitation.n_measured, list)
    population.reserve = reserve
    measured = runs.tau[:, :, : problem.excitation.n_measured]
    population.torques = np.abs(runs.tau).max(axis=2), np.square(measured).mean(axis=2)
    diverged = np.where(np.isinf(runs.diverged_at), -1.0, 1.0 - runs.diverged_at / runs.t[-1])[:, None]
    parts = [item.population(population) for item in problem.items]
    return np.concatenate([diverged, *parts, np.abs(runs.dq[:, :, -1]) / REST_SPEED - 1.0], axis=1)


def repair(problem: TorqueProblem, candidates: Candidates, *, rounds: int = 12) -> tuple[Candidates, Evaluation]:
    """Shrink amplitudes until the simulated motions stay within the limits.

    A joint's own excess shrinks its own torques; what no joint owns, or one joint's neighbours cause, shrinks all.
    One evaluation of each candidate that is not feasible yet a round; a candidate may stay infeasible.
    """
    center, swing, w = candidates.center.copy(), candidates.swing.copy(), problem.excitation.n_waves
    found, owner = problem.evaluate(candidates), np.array([row.joint for row in problem.rows])
    for k in range(rounds):
        bad = np.flatnonzero(found.violation > 0.0)
        if not len(bad):
            break
        excess = np.maximum(found.g[bad], 0.0)
        shared = np.clip(1.0 - 0.5 * excess[:, owner < 0].max(axis=1, initial=0.0), 0.4, 1.0)
        shrink = np.tile(shared[:, None], (1, problem.robot.n_joints))
        for j in range(problem.robot.n_joints):
            own = excess[:, owner == j].max(axis=1, initial=0.0)
            shrink[:, j] *= np.clip(0.98 / (1.0 + own), 0.3, 1.0) if k < rounds // 2 else 1.0
            if k >= rounds // 4:  # neighbours throw it about
                shrink *= np.where(own > 0.0, 0.9, 1.0)[:, None]
        center[bad] *= shrink
        swing[bad, :, :w] *= shrink[:, :, None]
        again = problem.evaluate(Candidates(center[bad], swing[bad]))
        found.value[bad], found.g[bad] = again.value, again.g
    return Candidates(center, swing), found


def scaled(trajectory: TorqueTrajectory, factor: float | FloatArray) -> TorqueTrajectory:
    """Scale the torques, all alike or by joint, (n_joints,)."""
    by_joint = factor * np.ones_like(trajectory.constant)
    amplitudes = by_joint[:, None] * trajectory.amplitudes
    return replace(trajectory, constant=by_joint * trajectory.constant, amplitudes=amplitudes)


def _poses(robot: Robot, constraints: Constraints) -> FloatArray:
    """Draw poses within the limits, half a turn or half a metre where there are none."""
    low = np.maximum(constraints.limits.position[:, 0], -np.pi)
    high = np.minimum(constraints.limits.position[:, 1], np.pi)
    return np.random.default_rng(0).uniform(low, high, size=(200, robot.n_joints))


def _check_rest(robot: Robot, excitation: TorqueExcitation, constraints: Constraints) -> None:
    """Refuse a start that the arm would fall from: its weight must not exceed dry friction."""
    weight, held = _weight(robot, excitation.start), np.zeros(robot.n_joints)
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if friction_model(term).sticks:
            held += np.abs(term.acts) * robot.chi[column]
    for name, needs, has in zip(robot.joint_names, np.abs(weight), held, strict=True):
        if needs > has + 1e-9 + 1e-3 * needs:
            (low, high), to_home = (
                constraints.limits.position.T,
                np.where(robot.mechanism.prismatic, 1e3, 180.0 / np.pi),
            )
            home = np.round(_hanging(robot, excitation.start) * to_home, 1) + 0.0
            found = (np.abs(_weight(robot, home / to_home)) <= held + 1e-9).all()
            rests = found and ((low <= home / to_home) & (home / to_home <= high)).all()
            raise ExcitorError(
                f"start is no pose of rest: {name} takes {needs:.3g} N m to hold and friction gives {has:.3g}; "
                + (f"start where the arm hangs: home_deg = {home.tolist()}" if rests else "start where the arm hangs")
            )


def _weight(robot: Robot, q: FloatArray) -> FloatArray:
    return np.asarray(inverse_dynamics(robot, posture(q[None]))[0])


def _hanging(robot: Robot, q: FloatArray) -> FloatArray:
    """Descend from a pose to where the arm hangs without torque, joint by joint in proportion to its weight."""
    q, most = q.copy(), np.maximum(np.abs(_weight(robot, q)), 1e-9)
    for _ in range(400):
        weight = _weight(robot, q)
        most = np.maximum(most, np.abs(weight))
        q = q - 0.2 * weight / most * ~robot.mechanism.prismatic
    return np.asarray(np.where(robot.mechanism.prismatic, q, (q + np.pi) % (2.0 * np.pi) - np.pi))


def _check_place(robot: Robot, excitation: TorqueExcitation, constraints: Constraints) -> None:
    """Refuse a start that breaks a limit before anything moves."""
    low, high = constraints.limits.position.T
    for name, q, least, most in zip(robot.joint_names, excitation.start, low, high, strict=True):
        if not least <= q <= most:
            raise ExcitorError(f"start has {name} at {q:.4g}, outside its limits {least:.4g} to {most:.4g}")
    rows, deficits = constraints.pose_deficits(robot, excitation.start[None])
    for row, lacks in zip(rows, deficits[0], strict=True):
        if lacks > 0.0:
            raise ExcitorError(
                f"start lacks {lacks:.3g} {row.unit} at {row.label!r}; "
                "start elsewhere, or correct the scene or the robot's capsules"
            )


FINER = 10  # samples and steps in place of one of the search's
CONDITION_SAMPLES = 4000  # of the measured part, for the condition number
TUBE_WIDTH = 0.02  # rad/s, the same of robots drawn from the prior
_REACH = ("position", "velocity", "simulation")  # kinds of rows that count for robots unlike the prior
_PROBES, _EXTREMES = 3, 6  # torques under which robots are compared; robots that are chosen
_FIRST, _MOST_NUMBERS = 20, 2e7  # of them: simulated before the others; numbers of one batch's signals
SHARP_WIDTH = 0.005  # rad/s over which true signs are smoothed, a tenth of the search's
WORDING = (
    "Simulated, not proven: the torques are certain, the motion is what the prior model makes of them. "
    "Stand by the emergency stop, and begin with small amplitudes."
)


def certify_torques(
    problem: TorqueProblem, trajectory: TorqueTrajectory, *, n_models: int = 40, seed: int = 0
) -> tuple[Run, Certificate]:
    """Simulate a run ten times finer, with sharper friction, and once more in steps twice as long for the error.

    The certificate's values count what steps and samples may hide; `proof` says how much that is.
    """
    robot = with_friction_width(problem.sharp, SHARP_WIDTH)
    tau = np.repeat(held_torques([trajectory]), FINER, axis=2)[:, :, : FINER * (problem.steps.n_samples - 1) + 1]
    start = posture(problem.excitation.start[None])
    poses = simulate(problem.robot, tau[:, :, ::FINER], start=start, steps=problem.steps).q[0].T[::50]
    h = problem.steps.sample_time / FINER
    substeps = max(problem.steps.substeps, stable_substeps(robot, 2.0 * h, poses))
    steps = replace(problem.steps, sample_time=h, n_samples=tau.shape[2], substeps=substeps)
    fine = simulate(robot, tau, start=start, steps=steps)
    rough_steps = replace(steps, sample_time=2.0 * h, n_samples=(tau.shape[2] + 1) // 2)
    rough = simulate(robot, np.ascontiguousarray(tau[:, :, ::2]), start=start, steps=rough_steps)
    ended, *items = _margins(problem, robot, fine, rough)
    known = Simulation(h / substeps, robustness(problem, trajectory, n_models=n_models, seed=seed))
    notes = (WORDING, robustness_sentence(known.robustness), "The run ends where friction stops the arm.")
    whole = tuple(items) if ended.holds else (ended, *items)  # a simulation that ends well is no limit
    return _simulated_run(problem, fine), Certificate(whole, notes, simulation=known)


def _simulated_run(problem: TorqueProblem, fine: SimulatedRuns) -> Run:
    """Convert a fine simulation to a run: quintics between its samples."""
    motion = run_motion(fine)
    times, ends = _parts(problem, fine)
    parts = [
        Table(
            name=name,
            measured=name == "measured",
            t=fine.t[: b - a + 1],
            q=motion.q[a : b + 1],
            interpolation="quintic",
            dq=motion.dq[a : b + 1],
            ddq=motion.ddq[a : b + 1],
        )
        for name, a, b in zip(times, ends[:-1], ends[1:], strict=True)
        if b > a
    ]
    return Run(problem.robot.joint_names, problem.excitation.sample_time, tuple(parts))


def _parts(problem: TorqueProblem, runs: SimulatedRuns) -> tuple[dict[str, float], list[int]]:
    """List the durations of a run's parts, s, and at which samples they begin and end."""
    form = problem.excitation
    times = {"measured": form.duration, "ramp-out": form.fade, "hold": form.coast}
    return times, np.rint(np.cumsum([0.0, *times.values()]) / runs.t[1]).astype(int).tolist()


def simulated_tables(problem: TorqueProblem, runs: SimulatedRuns) -> Run:
    """Convert a simulation at the controller's samples to a run: cubics between them."""
    motion = run_motion(runs)
    times, ends = _parts(problem, runs)
    parts = [
        Table(name=name, measured=name == "measured", t=runs.t[: b - a + 1], q=np.round(motion.q[a : b + 1], 9),
              interpolation="cubic", dq=np.round(motion.dq[a : b + 1], 9))
        for name, a, b in zip(times, ends[:-1], ends[1:], strict=True)
        if b > a
    ]  # fmt: skip
    return Run(problem.robot.joint_names, problem.excitation.sample_time, tuple(parts))


def simulated_motion(run: Run, most: int) -> Motion:
    """Sample the measured part of a simulated run evenly, at most about `most` times, its end left out."""
    n = round(run.segments[0].duration * FINER / run.sample_time)
    return run.motion(np.arange(0, n, max(1, n // most)) * (run.sample_time / FINER))


def robustness_sentence(robust: Robustness) -> str:
    """Describe how many perturbed models keep the limits, and which limits the others break."""
    keep = round(robust.share * robust.n_models)
    text = (
        f"{keep} of {robust.n_models} models whose parameters are off by up to {robust.spread:.0%} keep every limit "
        "under these torques"
    )
    if robust.breaks:
        often = ", ".join(f"{name} ({share:.0%})" for name, share in robust.breaks[:3])
        text += f"; broken most often: {often}. Smaller percentages in [limits] make more of them keep it"
    return text + "."


@dataclass(frozen=True, eq=False, slots=True)
class Tube:
    """What robots drawn from the prior do under one run's torques, the prior itself first."""

    n_robots: int
    spread: float  # standard deviation of what the prior states, a share
    low: FloatArray  # (n_joints,): envelopes of positions and speeds over the whole run
    high: FloatArray
    speed: FloatArray
    nominal: SimulatedRuns  # the prior's own run
    joint: int = -1  # that leaves a limit first; -1: none does, or none alone
    leaves: str = ""  # which limit a robot leaves, how many were simulated until then; empty where none does


def simulate_tube(problem: TorqueProblem, tau: FloatArray, *, spread: float, n_robots: int = 200) -> Tube:
    """Simulate robots of the prior under held torques (n_joints, n_samples), until one leaves a limit.

    Signs of friction are smoothed over less than while searching: an arm that does not stick drifts further.
    """
    robot = with_friction_width(problem.sharp, TUBE_WIDTH)
    steps = replace(
        problem.steps, substeps=stable_substeps(robot, problem.steps.sample_time, _poses(robot, problem.constraints))
    )
    chi = draw_robots(robot, n_robots, spread=spread)
    nominal: SimulatedRuns | None = None
    envelope = [problem.excitation.start, problem.excitation.start, np.zeros(robot.n_joints)]
    batch = max(1, min(n_robots, int(_MOST_NUMBERS / (4 * tau.size))))
    done = 0
    while done < n_robots:
        some = chi[done : done + (batch if done else min(batch, _FIRST))]
        start = posture(np.tile(problem.excitation.start, (len(some), 1)))
        runs = simulate(robot, np.repeat(tau[None], len(some), axis=0), start=start, steps=steps, chi=some)
        if nominal is None:
            first = (x[:1] for x in (runs.q, runs.dq, runs.ddq, runs.tau, runs.diverged_at))
            nominal = SimulatedRuns(runs.t, *first)
        envelope[0] = np.minimum(envelope[0], runs.q.min(axis=(0, 2)))
        envelope[1] = np.maximum(envelope[1], runs.q.max(axis=(0, 2)))
        envelope[2] = np.maximum(envelope[2], np.abs(runs.dq).max(axis=(0, 2)))
        joint, leaves = _left(problem, envelope, bool(np.isfinite(runs.diverged_at).any()))
        done += len(some)
        if leaves:
            leaves = f"of {done} robots drawn within ±{spread:.0%} of the prior {leaves}"
            break
    assert nominal is not None
    low, high, speed = envelope
    return Tube(n_robots, spread, low, high, speed, nominal=nominal, joint=joint, leaves=leaves)


def extreme_robots(problem: TorqueProblem, *, spread: float, n_robots: int = 200) -> FloatArray:
    """Choose those robots drawn from the prior that some torques move furthest and fastest, (n, n_params)."""
    random, chi = np.random.default_rng(0), draw_robots(problem.robot, n_robots, spread=spread)
    drawn = problem.decode(random.uniform(-1.0, 1.0, size=(_PROBES, problem.n_design)))
    tau = held_torques(trajectories(problem, repair(problem, drawn)[0]))
    limits, more = problem.constraints.limits, np.zeros((3, n_robots, problem.robot.n_joints))
    half = 0.5 * np.ptp(limits.position, axis=1)
    for one in tau:
        runs = perform(problem, np.repeat(one[None], n_robots, axis=0), chi)
        reach = np.array([runs.q.max(axis=2), -runs.q.min(axis=2), np.abs(runs.dq).max(axis=2)])
        scale = np.array([half, half, limits.velocity])[:, None]
        more += np.where(np.isfinite(scale), (reach - reach[:, :1]) / scale, 0.0)
    most = more.max(axis=1)
    order = np.argsort(-most, axis=None)
    return chi[list(dict.fromkeys(more.argmax(axis=1).ravel()[order].tolist()))[:_EXTREMES]]


def shrunk_into_tube(
    problem: TorqueProblem, trajectory: TorqueTrajectory, *, spread: float, rounds: int = 16
) -> tuple[TorqueTrajectory, Tube]:
    """Shrink torques until robots drawn from the prior keep the limits: most those of the joint that leaves one."""
    for left in reversed(range(rounds)):
        tube = simulate_tube(problem, held_torques([trajectory])[0], spread=spread)
        if not tube.leaves or not left:
            break
        own = np.arange(problem.robot.n_joints) == tube.joint
        trajectory = scaled(trajectory, np.where(own, 0.9, 0.97) if tube.joint >= 0 else 0.9)
    return trajectory, tube


def _left(problem: TorqueProblem, envelope: list[FloatArray], diverged: bool) -> tuple[int, str]:
    """Name the joint and the limit of position or speed that an envelope leaves furthest; empty where none."""
    if diverged:
        return -1, "one gets lost in its simulation"
    (low, high), (least, most, speed) = problem.constraints.limits.position.T, envelope
    reach, fastest = np.where(np.isfinite(high - low), high - low, 1.0), problem.constraints.limits.velocity
    over = {
        "its lower position limit": ((low - least) / reach, least, low),
        "its upper position limit": ((most - high) / reach, most, high),
        "its speed limit": (speed / fastest - 1.0, speed, fastest),
    }
    what = max(over, key=lambda name: float(over[name][0].max()))
    excess, worst, limit = over[what]
    j = int(np.argmax(excess))
    if not excess[j] > 0.0:
        return -1, ""
    unit = "m" if problem.robot.mechanism.prismatic[j] else "rad"
    unit += "/s" * ("speed" in what)
    name, far = problem.robot.joint_names[j], f"{worst[j]:.3g} {unit}"
    return j, f"one moves {name} to {far}, beyond {what} of {limit[j]:.3g} {unit}"


def tube_margins(problem: TorqueProblem, tube: Tube) -> tuple[Margin, ...]:
    """List what a tube leaves of each joint's limits of position and speed."""
    limits, made = problem.constraints.limits, []
    how = f"{tube.n_robots} robots drawn within ±{tube.spread:.0%} of the prior, simulated, not proven"
    how = f"{tube.leaves}; simulated, not proven" if tube.leaves else how
    names = zip(problem.robot.joint_names, problem.robot.mechanism.prismatic, strict=True)
    for j, (name, slides) in enumerate(names):
        unit, (low, high) = "m" if slides else "rad", limits.position[j]
        upper = high - tube.high[j] <= tube.low[j] - low
        near, worst, side = (high, tube.high[j], 1.0) if upper else (low, tube.low[j], -1.0)
        for kind, each, limit, peak, sign in (
            ("position", unit, near, worst, side), ("velocity", f"{unit}/s", limits.velocity[j], tube.speed[j], 1.0)
        ):  # fmt: skip
            left = float(sign * (limit - peak))
            made.append(Margin(f"tube {kind} {name}", each, float(limit), float(peak), left, how, left >= 0.0))
    return tuple(made)


def robustness(
    problem: TorqueProblem, trajectory: TorqueTrajectory, *, n_models: int = 40, spread: float = 0.2, seed: int = 0
) -> Robustness:
    """Simulate a run with models whose parameters are drawn within ± spread of the prior's."""
    chi = perturbed_models(problem.robot, n_models, spread=spread, seed=seed)
    runs = perform(problem, np.repeat(held_torques([trajectory]), n_models, axis=0), chi)
    broken = violations(problem, runs, reserve=STATED) > 0.0
    often = broken.mean(axis=0)
    order = [int(k) for k in np.argsort(-often, kind="stable") if often[k] > 0.0]
    return Robustness(
        spread,
        n_models,
        float((~broken.any(axis=1)).mean()),
        float(np.isfinite(runs.diverged_at).mean()),
        tuple((problem.names[k], float(often[k])) for k in order),
    )


def perturbed_models(robot: Robot, n_models: int, *, spread: float, seed: int) -> FloatArray:
    """Draw parameters within ± spread of the prior's, (n_models, n_params), as far as inertia stays positive."""
    if n_models < 1 or not 0.0 <= spread < 1.0:
        raise ValueError(f"n_models is {n_models}, spread {spread}, expected at least 1 and a share below 1")
    random = np.random.default_rng(seed)
    q = random.uniform(-np.pi, np.pi, size=(60, robot.n_joints))
    nominal, found = prior(robot), []
    for _ in range(50 * n_models):
        chi = nominal * random.uniform(1.0 - spread, 1.0 + spread, size=len(layout(robot)))
        if np.linalg.eigvalsh(mass_matrix(robot, q, chi)).min() > 0.0:
            found.append(chi)
        if len(found) == n_models:
            return np.array(found)
    raise ExcitorError(
        f"{robot.name}: of {50 * n_models} models within {spread:.0%} only {len(found)} have positive inertia "
        "everywhere; choose a smaller spread"
    )


def _margins(problem: TorqueProblem, robot: Robot, fine: SimulatedRuns, rough: SimulatedRuns) -> list[Margin]:
    """Compare each limit with the fine run's worst, plus the step error, plus a bound between its samples."""
    h = float(fine.t[1])
    peak = [np.abs(x[0]).max(axis=1) for x in (fine.dq, fine.ddq)]
    jerk = _within_intervals(fine.ddq[0])
    errors = [
        np.abs(a[0, :, ::2] - b[0]).max(axis=1)
        for a, b in ((fine.q, rough.q), (fine.dq, rough.dq), (fine.ddq, rough.ddq))
    ]
    hidden = {
        "position": errors[0] + h**2 / 8.0 * peak[1],
        "velocity": errors[1] + h / 8.0 * jerk,
        "acceleration": errors[2] + jerk,
    }
    found = []
    for item in problem.items:
        rows, traces = item.rows(robot), (_trace(robot, fine), _trace(robot, rough))
        error = np.zeros(len(rows))
        if isinstance(item, JointLimits):
            error = np.array([hidden[row.kind][row.joint] for row in rows])
        elif not item.needs_model:
            values, other = (item.values(trace) for trace in traces)
            error = np.abs(values[::2] - other).max(axis=0) + 0.5 * np.abs(np.diff(values, axis=0)).max(axis=0)
        measured = FINER * problem.excitation.n_measured if item.per_period else None
        worst = item.worst(_trace(robot, fine, measured))
        found += [_margin(*of_row) for of_row in zip(rows, worst, error, strict=True)]
    speeds = np.abs(fine.dq[0, :, -1])
    found += [_margin(row, speeds[row.joint], errors[1][row.joint]) for row in problem.rows[-robot.n_joints :]]
    ended = bool(np.isinf(fine.diverged_at[0]) and np.isinf(rough.diverged_at[0]))
    end = float(fine.t[-1])
    missing = end - min(float(fine.diverged_at[0]), float(rough.diverged_at[0]), end)
    return [Margin("simulation", "s", 0.0, missing, -missing, "what the simulation misses of the run", ended), *found]


def _trace(robot: Robot, runs: SimulatedRuns, n: int | None = None) -> Trace:
    """Collect the first n samples of a simulated run, with the torques that were applied."""
    motion = run_motion(runs)
    trace = Trace(robot, Motion(motion.q[:n], motion.dq[:n], motion.ddq[:n]))
    trace.torque = runs.tau[0, :, :n].T
    return trace


def _within_intervals(ddq: FloatArray) -> FloatArray:
    """Largest change of acceleration from one fine sample to the next while the torque is held, (n_joints,)."""
    change = np.abs(np.diff(ddq, axis=1))
    held = np.arange(1, ddq.shape[1]) % FINER != 0
    return np.asarray(change[:, held].max(axis=1))


def _margin(row: Row, worst: float, error: float) -> Margin:
    how = f"simulated, not proven: ±{error:.2g} for steps (halved once) and between samples"
    proof = how if error else "the torques as commanded"
    return margin_of(row, float(worst + row.side * error), float(worst), proof=proof)
