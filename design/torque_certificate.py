"""What a torque-mode run may be trusted with: a finer simulation with its error, and models that are a fifth off."""

from dataclasses import dataclass, replace

import numpy as np

from excitor.design.certificate import Margin, above, below
from excitor.design.torque_mode import REST_SPEED, TorqueProblem, TorqueTrajectory, held_torques, violations
from excitor.robots.arrays import FloatArray
from excitor.robots.cell import clearances, required, row_names, tool_speeds
from excitor.robots.dynamics import mass_matrix, regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.gram import condition_number, stack
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot, posture
from excitor.robots.simulate import Simulated, run_motion, simulate, stable_substeps, with_friction_width

FINER = 10  # samples and steps in place of one of the search's
CONDITION_SAMPLES = 4000  # of the measured part, for the condition number
SHARP_WIDTH = 0.005  # rad/s over which true signs are smoothed, a tenth of the search's
WORDING = (
    "Simulated, not proven: the torques are certain, the motion is what the prior model makes of them. "
    "Stand by the emergency stop, and begin with small amplitudes."
)


@dataclass(frozen=True, slots=True)
class Robustness:
    """How often the run keeps its limits when every parameter is off by up to ± spread, each on its own."""

    spread: float
    n_models: int
    share: float  # of models whose run keeps all limits as stated
    diverged: float  # share of models whose run runs away
    breaks: tuple[tuple[str, float], ...]  # what is broken, by how large a share of models, most often first


@dataclass(frozen=True, eq=False, slots=True)
class TorqueCertificate:
    """What is known of a torque-mode run before it is made."""

    items: tuple[Margin, ...]  # `worst` counts what steps and samples may hide; `proof` says how much that is
    condition: float  # of the column-normalised base regressor of the measured part, by SVD
    finest_step: float  # s
    robustness: Robustness
    run: Simulated  # the fine simulation itself, FINER samples for each of the controller's
    wording: str = WORDING

    @property
    def ready(self) -> bool:
        """Tell whether the prior model keeps every limit, errors counted."""
        return all(item.holds for item in self.items)


def certify_torques(
    problem: TorqueProblem, trajectory: TorqueTrajectory, *, n_models: int = 40, seed: int = 0
) -> TorqueCertificate:
    """Simulate a run ten times finer, with sharper friction, and once more in steps twice as long for the error."""
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
    return TorqueCertificate(
        tuple(_margins(problem, robot, fine, rough)),
        _condition(problem, robot, fine),
        h / substeps,
        robustness(problem, trajectory, n_models=n_models, seed=seed),
        fine,
    )


def measured_motion(problem: TorqueProblem, run: Simulated, most: int) -> Motion:
    """Sample the measured part of a certificate's run evenly, at most about `most` times, its end left out."""
    n = FINER * problem.excitation.n_measured
    thin = max(1, n // most)
    return Motion(*(x[0, :, :n:thin].T for x in (run.q, run.dq, run.ddq)))


def robustness(
    problem: TorqueProblem, trajectory: TorqueTrajectory, *, n_models: int = 40, spread: float = 0.2, seed: int = 0
) -> Robustness:
    """Simulate a run with models whose parameters are drawn within ± spread of the prior's."""
    chi = perturbed_models(problem.robot, n_models, spread=spread, seed=seed)
    tau = np.repeat(held_torques([trajectory]), n_models, axis=0)
    start = posture(np.tile(problem.excitation.start, (n_models, 1)))
    runs = simulate(problem.robot, tau, start=start, steps=problem.steps, chi=chi)
    broken = violations(problem, runs, share=1.0) > 0.0
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


def _condition(problem: TorqueProblem, robot: Robot, fine: Simulated) -> float:
    if np.isfinite(fine.diverged_at[0]):
        return float("inf")
    motion = measured_motion(problem, fine, CONDITION_SAMPLES)
    return condition_number(stack(regressor(robot, motion)[:, :, problem.columns]))


def _margins(problem: TorqueProblem, robot: Robot, fine: Simulated, rough: Simulated) -> list[Margin]:
    """Compare each limit with the fine run's worst, plus the steps' error, plus what lies between its samples."""
    limits, prismatic = problem.constraints.limits, robot.mechanism.prismatic
    h = float(fine.t[1])
    peak = [np.abs(x[0]).max(axis=1) for x in (fine.dq, fine.ddq)]
    jerk = _within_intervals(fine.ddq[0])
    errors = [
        np.abs(a[0, :, ::2] - b[0]).max(axis=1)
        for a, b in ((fine.q, rough.q), (fine.dq, rough.dq), (fine.ddq, rough.ddq))
    ]
    hidden = [errors[0] + h**2 / 8.0 * peak[1], errors[1] + h / 8.0 * jerk, errors[2] + jerk]
    rms = np.sqrt(np.square(fine.tau[0, :, : FINER * problem.excitation.n_measured]).mean(axis=1))
    found = []
    for j, name in enumerate(problem.robot.joint_names):
        length, push = ("m", "N") if prismatic[j] else ("rad", "N m")
        q = fine.q[0, j]
        rows = [
            (f"highest position {name}", length, limits.position[j, 1], q.max(), hidden[0][j]),
            (f"velocity {name}", f"{length}/s", limits.velocity[j], peak[0][j], hidden[1][j]),
            (f"acceleration {name}", f"{length}/s²", limits.acceleration[j], peak[1][j], hidden[2][j]),
            (f"torque peak {name}", push, limits.torque[j], np.abs(fine.tau[0, j]).max(), 0.0),
            (f"torque rms {name}", push, problem.constraints.torque_rms[j], rms[j], 0.0),
            (f"speed at the end {name}", f"{length}/s", REST_SPEED, np.abs(fine.dq[0, j, -1]), errors[1][j]),
        ]
        found.append(_above(f"lowest position {name}", length, limits.position[j, 0], q.min(), hidden[0][j]))
        found += [_below(*row) for row in rows]
    ended = bool(np.isinf(fine.diverged_at[0]) and np.isinf(rough.diverged_at[0]))
    end = float(fine.t[-1])
    reached = min(float(fine.diverged_at[0]), float(rough.diverged_at[0]), end)
    missing = end - reached
    whole = Margin("simulation", "s", 0.0, missing, -missing, "what the simulation misses of the run", ended)
    return [whole, *(item for item in found if np.isfinite(item.limit)), *_cell(problem, fine, rough)]


def _cell(problem: TorqueProblem, fine: Simulated, rough: Simulated) -> list[Margin]:
    """Compare clearances and the tool's speed; neighbours of a sample bound what lies between them."""
    constraints, robot, found = problem.constraints, problem.robot, []
    if constraints.scene is not None:
        left = clearances(robot, constraints.scene, fine.q[0].T)
        other = clearances(robot, constraints.scene, rough.q[0].T)
        hidden = np.abs(left[::2] - other).max(axis=0) + 0.5 * np.abs(np.diff(left, axis=0)).max(axis=0)
        rows = zip(
            row_names(robot, constraints.scene),
            required(robot, constraints.scene),
            left.min(axis=0),
            hidden,
            strict=True,
        )
        found = [_above(f"clearance: {name}", "m", *numbers) for name, *numbers in rows]
    if np.isfinite(constraints.tool_speed):
        speed, other = tool_speeds(robot, run_motion(fine)), tool_speeds(robot, run_motion(rough))
        hidden = np.abs(speed[::2] - other).max() + 0.5 * np.abs(np.diff(speed)).max()
        found.append(_below("tool speed", "m/s", constraints.tool_speed, speed.max(), hidden))
    return found


def _within_intervals(ddq: FloatArray) -> FloatArray:
    """Largest change of acceleration from one fine sample to the next while the torque is held, (n_joints,)."""
    change = np.abs(np.diff(ddq, axis=1))
    held = np.arange(1, ddq.shape[1]) % FINER != 0
    return np.asarray(change[:, held].max(axis=1))


def _below(name: str, unit: str, limit: float, worst: float, error: float) -> Margin:
    return below(
        name, unit, limit=float(limit), upper=float(worst + error), seen=float(worst), proof=_how(error), where=""
    )


def _above(name: str, unit: str, limit: float, worst: float, error: float) -> Margin:
    return above(
        name, unit, limit=float(limit), lower=float(worst - error), seen=float(worst), proof=_how(error), where=""
    )


def _how(error: float) -> str:
    if error == 0.0:
        return "the torques as commanded"
    return f"simulated, not proven: ±{error:.2g} for steps (halved once) and between samples"
