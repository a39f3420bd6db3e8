"""How late do recorded torques act? The delay at which the filtered dynamic model, refitted, leaves least.

Torques are held, so they can be shifted by any fraction of a sample without being interpolated; motion stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.identify.samples import Samples
from excitor.identify.schemes import Scheme, check_runs, filtered_momentum, filtered_torques, torque_pieces
from excitor.robots.arrays import FloatArray, IntArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion, Robot

LONGEST = 0.05  # s, to either side
GRID = 20  # coarse delays to either side
STEPS = 30  # of Gauss and Newton
SETTLED = 1e-4  # of a sample: the last step taken
MEMORY = 3.0  # time constants of the filter over which residuals hang together
MOST_TAKEN = 0.9  # share of the errors that fitted columns are thought to take


@dataclass(frozen=True, slots=True)
class TorqueDelay:
    """How much later than recorded torques act, and what that explains."""

    value: float  # s; negative if they act earlier
    sigma: float  # s; residuals that hang together are counted as such
    left: float  # share of the filtered torques' norm, joints weighted, that the model leaves at this delay
    without: float  # the same at no delay
    steps: int  # that the search took


@one_blas_thread()
def scheme_delay(
    robot: Robot, runs: Sequence[Samples], scheme: Scheme, *, columns: IntArray | None = None
) -> TorqueDelay:
    """Find the delay of the torques by Gauss and Newton: min over d of ‖F τ(t - d) - W β‖, β eliminated.

    Whatever its kind, the scheme's filter, hold and settling time are taken, its delay is not.
    """
    columns = base_parameters(robot).kept if columns is None else columns
    scheme = replace(scheme, kind="filtered dynamic", delay=0.0)
    check_runs(robot, runs, scheme)
    search = _Search(robot, runs, scheme, columns)
    grid = np.linspace(-search.reach, search.reach, 2 * GRID + 1)
    late = float(grid[np.argmin([search.left(d) for d in grid])])
    taken, step = 0, np.inf
    while taken < STEPS and abs(step) >= SETTLED * search.interval:
        search.weigh(late)
        step = float(np.clip(search.step(late)[0], -search.reach / GRID, search.reach / GRID))
        late = float(np.clip(late + step, -search.reach, search.reach))
        taken += 1
    search.weigh(late)
    sigma = search.step(late)[1]
    return TorqueDelay(late, sigma, search.left(late), search.left(0.0), taken)


class _Search:
    """Filtered equations of all runs, on the samples whose torques are known at every delay looked at."""

    def __init__(self, robot: Robot, runs: Sequence[Samples], scheme: Scheme, columns: IntArray) -> None:
        self.runs, self.scheme = runs, scheme
        self.interval = max(1.0 / run.sample_rate_hz for run in runs)
        self.reach = min(LONGEST, *(len(run) / run.sample_rate_hz / 10.0 for run in runs))
        self.slices, blocks, self.kept = [], [], []
        for run in runs:
            margin = int(np.ceil(self.reach * run.sample_rate_hz)) + 2
            kept = slice(margin, len(run) - margin)
            if kept.stop - kept.start < 3:
                raise ExcitorError(f"run {run.run!r} has {len(run)} samples, too few to look for a delay of torques")
            motion = Motion(run.motion.q[kept], run.motion.dq[kept], run.motion.ddq[kept])
            settled = np.arange(kept.stop - kept.start) >= scheme.settle * run.sample_rate_hz
            blocks.append(filtered_momentum(robot, motion, scheme, columns, 1.0 / run.sample_rate_hz)[settled])
            self.slices.append(kept)
            self.kept.append(settled)
        self.W = np.concatenate(blocks)  # (n_samples, n_joints, n_columns)
        norms = np.linalg.norm(self.W, axis=(0, 1))
        if not norms.any():
            raise ExcitorError("torques need none of the parameters in these runs, so nothing shows when they act")
        self.W = self.W[:, :, norms > 0.0] / norms[norms > 0.0]
        size = np.sqrt(np.mean(self.torques(0.0) ** 2, axis=0))
        self._take(np.where(size > 0.0, 1.0 / np.where(size > 0.0, size, 1.0), 0.0))

    def torques(self, late: float) -> FloatArray:
        """Filter torques that act so late, (n_samples, n_joints)."""
        found = []
        for run, kept, settled in zip(self.runs, self.slices, self.kept, strict=True):
            pieces, _ = torque_pieces(run, replace(self.scheme, delay=late), kept)
            found.append(filtered_torques(pieces, self.scheme)[settled])
        return np.concatenate(found)

    def residual(self, y: FloatArray) -> FloatArray:
        """Weigh filtered signals (n_samples, n_joints) and take out what the model explains."""
        y = (y * self.weights).ravel()
        for _ in range(2):
            y = y - self.basis @ (self.basis.T @ y)
        return y

    def left(self, late: float) -> float:
        """Share of the weighted torques' norm that a refit leaves."""
        y = self.torques(late)
        return float(np.linalg.norm(self.residual(y)) / (np.linalg.norm(y * self.weights) or 1.0))

    def weigh(self, late: float) -> None:
        """Weigh joints by what the model leaves of them."""
        rest = self.residual(self.torques(late)).reshape(-1, len(self.weights))
        sigma = np.sqrt(np.mean(rest**2, axis=0))  # in present weights
        floor = 1e-9 * sigma.max(initial=0.0)
        self._take(np.where(sigma > floor, self.weights / np.where(sigma > floor, sigma, 1.0), 0.0))

    def step(self, late: float) -> tuple[float, float]:
        """Find the next step of the delay, and σ of where it leads."""
        aside = 0.1 * self.interval
        slope = self.residual((self.torques(late + aside) - self.torques(late - aside)) / (2.0 * aside))
        rest = self.residual(self.torques(late))
        steep = float(slope @ slope)
        if not steep > 0.0:
            raise ExcitorError("torques hardly change, so they do not show when they act; give runs that move")
        ahead = -float(slope @ rest) / steep
        influence = (slope * (rest + ahead * slope)).reshape(-1, len(self.weights)).sum(axis=1)
        return ahead, float(np.sqrt(self._together(influence) / (1.0 - self._taken())) / steep)

    def _together(self, influence: FloatArray) -> float:
        """Estimate the variance of a sum of terms that hang together, by Bartlett's window over the filter's memory."""
        total = 0.0
        for g, rate in self._by_run(influence):
            reach = int(MEMORY * self.scheme.order / self.scheme.cutoff * rate)
            total += float(g @ g)
            for lag in range(1, min(reach, len(g) - 1) + 1):
                total += 2.0 * (1.0 - lag / (reach + 1.0)) * float(g[lag:] @ g[:-lag])
        return max(total, 0.0)

    def _taken(self) -> float:
        """Tell what share of errors as slow as the filter the fitted columns take with them: Σ qᵀ V q / tr V.

        V has correlations exp(-λ |t| / order); few independent errors are left of short runs.
        """
        from scipy.signal import lfilter

        n_joints = len(self.weights)
        total = 0.0
        for q, rate in self._by_run(self.basis.reshape(-1, n_joints, self.basis.shape[1])):
            a = np.exp(-self.scheme.cutoff / self.scheme.order / rate)
            total += float(np.sum(q * (2.0 * lfilter([1.0], [1.0, -a], q, axis=0) - q)))
        rows = len(self.W) * max(int(np.count_nonzero(self.weights)), 1)
        return min(total / rows, MOST_TAKEN)

    def _by_run(self, values: FloatArray) -> list[tuple[FloatArray, float]]:
        """Part values (n_samples, ...) of all runs into those of each, with its rate."""
        ends = np.cumsum([np.count_nonzero(settled) for settled in self.kept])
        return list(zip(np.split(values, ends[:-1]), [run.sample_rate_hz for run in self.runs], strict=True))

    def _take(self, weights: FloatArray) -> None:
        self.weights = weights
        rows = (self.W * weights[None, :, None]).reshape(-1, self.W.shape[2])
        U, values, _ = np.linalg.svd(rows, full_matrices=False)
        self.basis = U[:, values > 1e-9 * values[0]]
