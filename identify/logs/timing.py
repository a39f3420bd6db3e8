"""When torques act: their delay behind the recorded motion, estimated with the parameters, joint by joint.

Recorded τ(t - d) = W(t) β, so with z = d(W β)/dt a fit of τ to [W z] gives the step of d (Gauss and Newton). z is the
model's: noise of torques is not in it. A torque held until the next sample acts half a sample late on average.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.stats

from excitor.identify.band import SURE, WORTH, RawRun, Source, held_out_errors, low_passed, paired_doubt, stretches
from excitor.identify.between import independent_weights
from excitor.identify.estimate import compress, triangle, wls
from excitor.identify.regression import Regression, Rows, dynamic_regression
from excitor.identify.samples import Samples
from excitor.identify.signals import block_means, differentiate
from excitor.identify.validate import standard_parameters
from excitor.robots.arrays import FloatArray, freeze, one_blas_thread
from excitor.robots.dynamics import rigid_torque
from excitor.robots.errors import RankDeficient
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

Hold = Literal["none", "until next", "since last"]
PHASES: dict[Hold, float] = {"none": 0.5, "until next": 0.0, "since last": 1.0}  # of a motion in its torque's interval
LONGEST = 0.05  # s, to either side
STEPS, SETTLED = 6, 0.005  # of Gauss and Newton; of a sample: the last step taken
CHANCE = 0.01  # that joints get delays of their own though they have one
ALIKE = 0.1  # of a sample: a delay this near to half of one is called a hold


@dataclass(frozen=True, eq=False, slots=True)
class Timing:
    """By how much the torques of joints act later than recorded, holds included, and how sure that is."""

    delay: FloatArray  # (n_joints,), s
    sigma: FloatArray  # (n_joints,), s; 0 where stated
    rate: float
    joints: tuple[str, ...]
    reason: str

    def __post_init__(self) -> None:
        freeze(self, delay="n_joints", sigma="n_joints")

    @property
    def common(self) -> bool:
        """Whether all joints have one delay."""
        return bool((self.delay == self.delay[0]).all())

    @property
    def sentence(self) -> str:
        """Say when torques act."""
        some = zip(self.joints, 1e3 * self.delay, 1e3 * self.sigma, strict=True)
        said = [("torques" if self.common else f"those of {name}", x, s) for name, x, s in some]
        words = [f"{who} act {x:.3g}{f' ± {s:.1g}' if s else ''} ms later" for who, x, s in said]
        share = self.delay * self.rate
        held = bool((np.abs(share - 0.5) < ALIKE).all())
        more = f", {share[0]:.2f} of a sample" if self.common else ""
        more += ": as if held from each sample until the next" if held else ""
        return f"{', '.join(words[:1] if self.common else words)} than recorded{more} ({self.reason})"

    @property
    def settings(self) -> dict[str, float | str]:
        """Write delays, deviations and their reason as settings of a step."""
        each = zip(self.joints, self.delay.tolist(), self.sigma.tolist(), strict=True)
        found: dict[str, float | str] = {"chosen_as": self.reason}
        for name, delay, sigma in each:
            found |= {f"delay_s {name}": delay, f"sigma_s {name}": sigma}
        return found


def stated_timing(robot: Robot, delay: float | Sequence[float], hold: Hold, phase: float | None, rate: float) -> Timing:
    """Build the timing that a campaign states; ValueError where its delays are not one, or one for each joint."""
    late = np.atleast_1d(np.asarray(delay, dtype=float)) + (0.5 - (PHASES[hold] if phase is None else phase)) / rate
    if len(late) not in (1, robot.n_joints):
        raise ValueError(f"{len(late)} delays are given, expected one, or one for each of {robot.n_joints} joints")
    late = np.broadcast_to(late, robot.n_joints).copy()
    return Timing(late, np.zeros(robot.n_joints), rate, robot.joint_names, "stated in campaign.toml")


def shifted(tau: FloatArray, rate: float, delay: FloatArray) -> FloatArray:
    """Evaluate torques (n_samples, n_joints) at t - delay, linearly between samples: exact means of held ones."""
    at = np.arange(len(tau))
    return np.column_stack([np.interp(at - rate * late, at, x) for late, x in zip(delay, tau.T, strict=True)])


@one_blas_thread()
def choose_timing(
    robot: Robot, runs: Sequence[RawRun], hz: float, source: Source, rows: Rows, width: int = 1
) -> Timing | None:
    """Estimate the delay of torques; None where it is not surely better on held-out blocks than none.

    Joints have one delay unless theirs differ surely. The other way is tried too: it smooths torques as much.
    Settings: hz and source of the motion, rows (dead zone and settling), width (samples an equation is the mean of).
    """
    parts = [part for run in runs for part in stretches(run)]
    if not parts or sum(len(part.q) for part in parts) < 200:
        return None
    try:
        delay, sigma = _estimated(robot, parts, hz, source, replace(rows, decimate=lambda x: block_means(x, width)))
    except (RankDeficient, ValueError, np.linalg.LinAlgError):
        return None
    sees = np.isfinite(sigma) & (sigma > 0.0)
    if not sees.any():
        return None
    weight = np.where(sees, 1.0 / np.where(sees, sigma, 1.0) ** 2, 0.0)
    mean = float(weight @ delay / weight.sum())
    differ = float(weight @ (delay - mean) ** 2) > scipy.stats.chi2.ppf(1.0 - CHANCE, int(sees.sum()) - 1)
    one = np.full(len(delay), mean), np.full(len(delay), weight.sum() ** -0.5)
    options = (
        [one, (np.where(sees, delay, mean), np.where(sees, sigma, one[1]))] if differ and sees.sum() > 1 else [one]
    )
    ways = [np.zeros(len(delay)), *(x for late, _ in options for x in (late, -late))]
    tried = [[replace(part, tau=shifted(part.tau, part.rate, late)) for part in parts] for late in ways]
    errors = held_out_errors(robot, tried, hz, source, rows)
    if errors is None:
        return None
    total = np.sqrt(errors.sum(axis=1))
    best = 1 if len(options) == 1 or paired_doubt(errors[1], errors[3]) < SURE else 3
    late, doubt = options[best // 2]
    sure = (np.abs(late) > SURE * doubt).any() and paired_doubt(errors[best + 1], errors[best]) > SURE
    if not sure or total[0] < WORTH * total[best]:
        return None
    better = f"estimated with the parameters; without, {100.0 * (total[0] / total[best] - 1.0):.2g} % more error"
    rate = min(run.rate for run in runs)
    return Timing(late, doubt, rate, robot.joint_names, f"{better} on held-out blocks")


def _estimated(
    robot: Robot, runs: Sequence[RawRun], hz: float, source: Source, rows: Rows
) -> tuple[FloatArray, FloatArray]:
    """Fit delays with the parameters, (n_joints,) each: delays, and their σ; inf where nothing shows one."""
    rate, delay = min(run.rate for run in runs), np.zeros(robot.n_joints)
    sigma = np.full(robot.n_joints, np.inf)
    samples = [Samples(str(k), low_passed(run, hz, source), run.tau, run.rate) for k, run in enumerate(runs)]
    equations = dynamic_regression(robot, samples, rows=rows)
    for _ in range(STEPS):
        late = [shifted(run.tau, run.rate, delay) for run in runs]
        equations = replace(equations, y=_at(equations, late, rows))
        estimate = wls(compress(equations))
        chi = standard_parameters(robot, estimate)
        chi[layout(robot).n_link_params :] = 0.0
        torques = [rigid_torque(robot, run.motion, chi) for run in samples]
        z = _at(equations, [differentiate(x, sample_rate_hz=rate) for x in torques], rows)
        weight = independent_weights(equations)
        R, square = _apart(equations, estimate.names, z, weight)
        sees = np.sum(R[:, :-1] ** 2, axis=0) > 1e-12 * square
        information = R[:, :-1][:, sees].T @ R[:, :-1][:, sees]
        step = np.clip(np.linalg.solve(information, R[:, :-1][:, sees].T @ R[:, -1]), -2.0 / rate, 2.0 / rate)
        delay[sees] = np.clip(delay[sees] + step, -LONGEST, LONGEST)
        sigma[sees] = np.sqrt(np.diag(np.linalg.inv(information)))
        if np.all(np.abs(step) < SETTLED / rate + 0.1 * sigma[sees]):
            break
    return delay, sigma


def _apart(
    equations: Regression, names: Sequence[str], z: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Reduce each joint's z and all y, weighted, to their triangle apart from columns; also the square of each z."""
    place, n = [equations.names.index(name) for name in names], len(equations.joint_names)
    parts, square = [], np.zeros(n)
    for j in range(n):  # one at a time: all rows, weighted and factorised, take several times their memory
        own = np.flatnonzero(equations.joint == j)
        system = np.zeros((len(own), len(place) + n + 1), order="F")
        system[:, : len(place)] = equations.W[own[:, None], place]
        system[:, len(place) + j], system[:, -1] = z[own], equations.y[own]
        system *= weight[own, None]
        square[j] = np.sum(system[:, len(place) + j] ** 2)
        parts.append(triangle(system))
    return triangle(np.concatenate(parts))[len(place) :, len(place) :], square


def _at(regression: Regression, runs: Sequence[FloatArray], rows: Rows) -> FloatArray:
    """Pick torques of runs (n_samples, n_joints) at their equations, thinned like them, (n_rows,)."""
    thin = rows.decimate or (lambda x: x)
    values, found = [thin(x) for x in runs], np.empty(len(regression))
    for k, one in enumerate(values):
        own = regression.run == k
        found[own] = one[regression.sample[own], regression.joint[own]]
    return found
