"""Drive gains, the torque per unit of each drive's signal: estimates with uncertainty, or refusals with a reason.

Runs without and with a weighed load give gains and parameters at once ([Briot2012] §3.2, eqs. (8), (11) to (13)), from
homogeneous equations by total least squares, with least squares for comparison. The criterion is the singular-value
gap: below its limit more than one vector solves the equations about as well. Then parameters that hardly show are
left out, if that is enough; else the drives whose gains the data do not determine, one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg

from excitor.identify.estimate import Estimate, compress, triangle, wls
from excitor.identify.intervals import autocorrelation, positive_pairs
from excitor.identify.noise import NullVector, mixed_total_least_squares, total_least_squares
from excitor.identify.reduce import Essential, essential
from excitor.identify.regression import Decimation, Regression, Rows
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, one_blas_thread
from excitor.robots.base import base_parameters, independent_columns
from excitor.robots.dynamics import regressor
from excitor.robots.errors import RankDeficient
from excitor.robots.parameters import LINK_COMPONENTS, LINK_UNITS, layout
from excitor.robots.robot import Motion, Robot

NEGLIGIBLE = 1e-6  # share of torque below which a load counts as not felt
AGREEMENT = 2.0  # in σ: how far gains of a smaller model may be from those of the whole one
LOST = 2.0  # gap below which total least squares may come out along any of several directions
CURED = 1.5  # by how much leaving out faint parameters must raise the gap: a weak drive's gap hardly feels it
STEPS = 20  # reweightings; three to six are usual
FAR = 10.0  # from the believed gain, beyond which weights no longer follow: an unseen gain may come out as 0
ROUNDS, BELIEF = 6, 0.3  # of Gauss-Newton; how far gains may be from those believed, relative deviation
SETTLED = 1e-10  # relative change of the noise that ends them
ROW_FIELDS = ("W", "V", "slope", "known", "drive", "run", "sample")
PART = 1e-3  # of what a thinned row is made of, that may be left out
SAME = 1e-7  # of a unit column: what is left of it is explained by the others, as base parameters count it


@dataclass(frozen=True, slots=True)
class Trust:
    """Criteria for accepting a gain."""

    gap: float = 5.0  # least ratio of the last two singular values
    relative_sigma: float = 0.01  # largest predicted
    factor: tuple[float, float] = (0.5, 2.0)  # between which a gain may be of what was believed
    ratio: float = 30.0  # of essential parameters' relative σ

    def __post_init__(self) -> None:
        if not (self.gap > 1.0 and self.relative_sigma > 0.0 and 0.0 < self.factor[0] < 1.0 < self.factor[1]):
            raise ValueError(
                f"{self}: expected a gap above 1, a positive relative deviation and a range of factors that holds 1"
            )


@dataclass(frozen=True, eq=False, slots=True)
class Gain:
    """Result for one drive: its gain, or the reason why it is refused."""

    drive: str
    answered: bool
    reason: str  # why, or why not
    values: FloatArray | None  # (n_terms,), motor side; None where it is not answered
    sigma: FloatArray | None
    factor: float | None  # of the a-priori torque, over the signals that occurred
    relative_sigma: float  # predicted, of the factor; inf where nothing can be predicted
    share: float  # of what is known of the load in the drive's torque, loaded runs, rms

    def __post_init__(self) -> None:
        if self.values is not None:
            freeze(self, values="n_terms", sigma="n_terms")


@dataclass(frozen=True, eq=False, slots=True)
class GainFit:
    """Parameters and gains with their covariance, before they are checked by `Trust`."""

    method: str
    parameters: FloatArray  # (n_params,): χ, then χ_uL
    gains: FloatArray  # (n_terms,)
    noise: FloatArray  # (n_drives,): standard deviation of each drive's torque error, motor side; NaN without rows
    covariance: FloatArray  # (n_params + n_terms,) squared; rows and columns of gains without rows are 0
    singular_values: FloatArray  # of what decides the gap; none for least squares
    gap: float

    def __post_init__(self) -> None:
        freeze(self, parameters="n_params", gains="n_terms", singular_values="n_values")
        freeze(self, finite=False, noise="n_drives", covariance="n n")


@dataclass(frozen=True, eq=False, slots=True)
class Law:
    """Torque law of a drive with signal v: Σ_k g_k s(v) |v|^p_k; a drive gain alone is p = (1,)."""

    powers: tuple[int, ...]
    prior: FloatArray  # (n_powers,): what is believed beforehand, of the motor's side

    def __post_init__(self) -> None:
        freeze(self, prior=str(len(self.powers)))
        if not self.powers or min(self.powers) < 0 or len(set(self.powers)) < len(self.powers):
            raise ValueError(f"Law.powers is {self.powers}, expected different whole numbers of 0 or more")
        if not np.any(self.prior):
            raise ValueError("Law.prior is 0; give what the drive's maker states, right to a few tens of percent")


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


@dataclass(frozen=True, eq=False, slots=True)
class DriveGains:
    """Gains drive by drive, the parameters estimated with them, and the evidence for both."""

    gains: tuple[Gain, ...]
    fit: GainFit
    system: GainSystem  # what was fitted at last
    gap_of_all: float  # with every drive and parameter
    gap_of_columns: float  # of eq. (13) with every column noisy: below the limit, parameters are not distinguishable
    removed: tuple[str, ...]  # parameters that are not essential
    left_out: tuple[str, ...]  # drives whose equations were left out
    settings: Trust = field(default_factory=Trust)

    @property
    def parameters(self) -> dict[str, tuple[float, float]]:
        """Parameters that the remaining equations show: value and σ by name."""
        sigma = np.sqrt(np.maximum(np.diag(self.fit.covariance)[: len(self.system.names)], 0.0))
        values = zip(self.fit.parameters.tolist(), sigma.tolist(), strict=True)
        return dict(zip(self.system.names, values, strict=True))


def drive_gains(system: GainSystem, trust: Trust | None = None) -> DriveGains:
    """Identify gains where the data determine them; parameters or drives are left out only if the gap requires it."""
    trust = trust or Trust()
    kept, refused = system, dict[int, Gain]()
    fit = first = signal_fit(system)
    removed: tuple[str, ...] = ()
    while fit.gap < trust.gap:
        smaller, gone = without_faint_parameters(kept, trust.ratio)
        if gone and load_shows(smaller):
            reduced = signal_fit(smaller)
            if reduced.gap >= max(trust.gap, CURED * fit.gap) and _agree(kept, fit, reduced):
                kept, fit, removed = smaller, reduced, gone
                break
        if len(kept.drives) == 1:
            break
        worst = _least_sure(kept, fit)
        fewer = only_drives(kept, [j for j in kept.drives if j != worst])
        if not load_shows(fewer):
            break
        refused[worst] = _refused(system, worst, _gap_reason(system, fit, worst, trust), factor_of(kept, fit, worst)[1])
        kept, fit = fewer, signal_fit(fewer)
    gains = [refused[j] if j in refused else _judged(kept, fit, j, trust) for j in range(len(system.drive_names))]
    left_out = tuple(system.drive_names[j] for j in sorted(refused))
    return DriveGains(tuple(gains), fit, kept, first.gap, frobenius_fit(kept).gap, removed, left_out, trust)


def without_faint_parameters(system: GainSystem, ratio: float) -> tuple[GainSystem, tuple[str, ...]]:
    """Leave out parameters that are not essential to least squares with a-priori gains, before any total ones."""
    removed = essential(compress(prior_regression(system)), ratio=ratio).removed
    return only_parameters(system, [name for name in system.names if name not in removed]), removed


def _least_sure(system: GainSystem, fit: GainFit) -> int:
    """Find the drive with the largest relative σ; by least squares where total least squares fail."""
    judge = fit if fit.gap >= LOST else known_load_fit(system)
    return max(system.drives, key=lambda j: factor_of(system, judge, j)[1])


def _agree(system: GainSystem, fit: GainFit, reduced: GainFit) -> bool:
    """Return True if every gain of a reduced model is within the other's interval, so that what left was negligible."""
    for j in system.drives:
        factor, relative = factor_of(system, fit, j)
        if not abs(_torque_factor(system, reduced.gains, j)[0] - factor) <= AGREEMENT * relative * abs(factor):
            return False
    return True


def essential_parameters(result: DriveGains, *, ratio: float = 20.0) -> Essential:
    """Fit essential parameters by weighted least squares with the identified gains, σ as if those were exact."""
    system = result.system
    y = system.V @ result.fit.gains - system.known
    return essential(compress(replace(prior_regression(system), y=y)), ratio=ratio)


def _judged(system: GainSystem, fit: GainFit, drive: int, trust: Trust) -> Gain:
    """Return a drive's gain, or its refusal with the reason."""
    factor, relative = factor_of(system, fit, drive)
    share = _share(system, fit.gains, drive)
    low, high = trust.factor
    if fit.gap < trust.gap:
        return _refused(system, drive, _gap_reason(system, fit, drive, trust), relative)
    if not relative <= trust.relative_sigma:
        reason = (
            f"its predicted deviation is {_percent(relative)}, above {_percent(trust.relative_sigma)}, with the load "
            f"making {_percent(share)} of its torque; let it feel the load more, or record longer"
        )
        return _refused(system, drive, reason, relative)
    if factor <= 0.0:
        reason = f"it comes out with the wrong sign ({factor:.2f} of what was believed); check the signal's sign"
        return _refused(system, drive, reason, relative)
    if not low <= factor <= high:
        reason = (
            f"it comes out at {factor:.2f} of what was believed, outside {low:g} to {high:g}; check the signal's unit, "
            "the gear ratio and the load's mass"
        )
        return _refused(system, drive, reason, relative)
    own = system.terms[drive]
    sigma = np.sqrt(np.maximum(np.diag(fit.covariance)[len(fit.parameters) :][own], 0.0))
    reason = f"predicted deviation {_percent(relative)}, singular-value gap {fit.gap:.1f}"
    return Gain(system.drive_names[drive], True, reason, fit.gains[own], sigma, factor, relative, share)


def _refused(system: GainSystem, drive: int, reason: str, relative: float) -> Gain:
    share = _share(system, system.prior, drive)
    return Gain(system.drive_names[drive], False, reason, None, None, None, relative, share)


def _gap_reason(system: GainSystem, fit: GainFit, drive: int, trust: Trust) -> str:
    share = _share(system, system.prior, drive)
    reason = (
        f"the load makes {_percent(share)} of its torque" if share > NEGLIGIBLE else "its torque never shows the load"
    )
    return (
        f"with it the singular-value gap is {fit.gap:.2f}, below {trust.gap:g}, so another gain fits about as well: "
        f"{reason}, and the rest of its signal is too noisy"
    )


def _share(system: GainSystem, gains: FloatArray, drive: int) -> float:
    """Compare the known part of the load's torque with the whole, rms over the drive's loaded rows."""
    rows = (system.drive == drive) & np.isin(system.run, np.unique(system.run[system.known != 0.0]))
    whole = float(np.linalg.norm(system.V[rows] @ gains))
    return float(np.linalg.norm(system.known[rows])) / whole if whole > 0.0 else 0.0


def factor_of(system: GainSystem, fit: GainFit, drive: int) -> tuple[float, float]:
    """Compute the least-squares factor of the drive's torque to the a-priori one, and its relative σ."""
    factor, weight = _torque_factor(system, fit.gains, drive)
    at = len(fit.parameters) + np.arange(*system.terms[drive].indices(system.V.shape[1]))
    variance = float(weight @ fit.covariance[np.ix_(at, at)] @ weight)
    if factor == 0.0 or not (np.isfinite(variance) and variance >= 0.0):
        return factor, np.inf
    return factor, float(np.sqrt(variance)) / abs(factor)


def _torque_factor(system: GainSystem, gains: FloatArray, drive: int) -> tuple[float, FloatArray]:
    """Project the drive's torque on the a-priori one, over the signals that occurred: factor = weight @ gains."""
    rows, own = system.drive == drive, system.terms[drive]
    V = system.V[rows][:, own]
    believed = V @ system.laws[drive].prior
    weight = believed @ V / (believed @ believed)
    return float(weight @ gains[own]), weight


def _percent(x: float) -> str:
    return f"{100.0 * x:.2g} %"


@one_blas_thread()
def signal_fit(system: GainSystem) -> GainFit:
    """Total least squares with noise in the signals only, each drive's of its own size.

    minimise Σ_j ‖V_j g_j - W_j χ - w_j‖² / s_j², s_j the torque that the noise of v_j makes: reweighted until s_j
    settle. The gap is that of V and the load's column less their projection on W, in units of noise.
    """
    used, scale = _used_terms(system), _prior_scale(system)
    triangles, slopes = _triangles(system, used, scale), _slope_grams(system, used, scale)
    n = len(system.names)
    noisy = np.concatenate([np.zeros(n, dtype=bool), system.slope[:, used].any(axis=0), [False]])
    against = np.concatenate([noisy[:-1], [True]])
    rows = np.array([[len(system.W) / len(system.drives)]])  # the load's column beside the noise of a drive's rows
    believed = _slope_sizes(system, slopes, system.prior[used] / scale)
    noise, sizes = _prior_noise(system), dict(believed)
    for _ in range(STEPS):
        M = triangle(np.concatenate([triangles[j] / noise[j] for j in system.drives]))
        C = scipy.linalg.block_diag(*(slopes[j] / sizes[j] ** 2 for j in system.drives))
        C = C[np.ix_(noisy[n:-1], noisy[n:-1])]
        x = _scaled(mixed_total_least_squares(M, noisy, C).x)
        judged = mixed_total_least_squares(M, against, scipy.linalg.block_diag(C, rows))
        residual, found, before = _residual_noise(system, triangles, x), _slope_sizes(system, slopes, x[n:-1]), noise
        noise, sizes = _reweighted(system, (noise, sizes), residual, found, believed)
        if np.nanmax(np.abs(noise / before - 1.0)) < SETTLED:
            break
    return _gain_fit(system, "noise in signals", x[:n], _all_terms(system, used, x[n:-1] * scale), noise, judged)


def _reweighted(
    system: GainSystem,
    old: tuple[FloatArray, dict[int, float]],
    residual: FloatArray,
    found: Mapping[int, float],
    believed: Mapping[int, float],
) -> tuple[FloatArray, dict[int, float]]:
    """Update the noise of each drive's torque: that of its signal, times the slope of torque by signal."""
    noise, sizes = old[0].copy(), dict(old[1])
    for j in system.drives:
        of_signal = residual[j] / found[j] if found[j] > 1e-9 * believed[j] else noise[j] / sizes[j]
        sizes[j] = min(max(found[j], believed[j] / FAR), believed[j] * FAR)
        noise[j] = of_signal * sizes[j]
    return noise, sizes


@one_blas_thread()
def frobenius_fit(system: GainSystem, *, weighted: bool = True) -> GainFit:
    """Total least squares of [Briot2012] §3.2: rows over each drive's error level, unit columns, one SVD."""
    used, scale = _used_terms(system), _prior_scale(system)
    noise = _prior_noise(system) if weighted else np.ones(len(system.laws))
    triangles = _triangles(system, used, scale)
    M = triangle(np.concatenate([triangles[j] / noise[j] for j in system.drives]))
    norms = np.linalg.norm(M, axis=0)
    found = total_least_squares(M / np.where(norms > 0.0, norms, 1.0))
    x = _scaled(found.x / np.where(norms > 0.0, norms, 1.0))
    n = len(system.names)
    gains = _all_terms(system, used, x[n:-1] * scale)
    return _gain_fit(system, "all columns noisy", x[:n], gains, _residual_noise(system, triangles, x), found)


@one_blas_thread()
def known_load_fit(system: GainSystem) -> GainFit:
    """Weighted least squares with the known load on the right: signals count as exact."""
    used, scale = _used_terms(system), _prior_scale(system)
    noise = _prior_noise(system)
    triangles = _triangles(system, used, scale)
    R = triangle(np.concatenate([triangles[j] / noise[j] for j in system.drives]))
    x = np.append(np.linalg.lstsq(R[:, :-1], -R[:, -1], rcond=None)[0], 1.0)
    n = len(system.names)
    gains = _all_terms(system, used, x[n:-1] * scale)
    return _gain_fit(system, "least squares", x[:n], gains, _residual_noise(system, triangles, x), None)


@one_blas_thread()
def scaled_noise(system: GainSystem) -> FloatArray:
    """Residual of each drive's torque as believed, y_j ≈ f_j (W_j χ + w_j) with f_j near 1, (n_drives,).

    Gauss-Newton in χ and f. Signals being on the left, their noise biases nothing; the belief in f keeps drives whose
    gain the data do not determine.
    """
    y, f, drives = system.V @ system.prior, np.ones(len(system.laws)), list(system.drives)
    own = system.drive[:, None] == np.arange(len(system.laws))
    model, noise = system.known, _prior_noise(system)
    chi = np.zeros(len(system.names))
    for _ in range(ROUNDS):
        s = noise[system.drive]
        J = np.column_stack([system.W * f[system.drive, None], own[:, drives] * model[:, None]]) / s[:, None]
        belief = np.eye(J.shape[1])[len(chi) :] / BELIEF
        A, r = np.vstack([J, belief]), np.append((y - f[system.drive] * model) / s, (1.0 - f[drives]) / BELIEF)
        norms = np.linalg.norm(A, axis=0)
        norms[norms == 0.0] = 1.0
        step = np.linalg.lstsq(A / norms, r, rcond=SAME)[0] / norms
        chi, f[drives] = chi + step[: len(chi)], f[drives] + step[len(chi) :]
        model = system.W @ chi + system.known
        left = y - f[system.drive] * model
        noise = np.sqrt([np.mean(left[own[:, j]] ** 2) if j in drives else np.nan for j in range(len(f))])
        noise = np.maximum(noise, 1e-13 * np.linalg.norm(y))
    return np.asarray(noise)


def prior_fit(system: GainSystem) -> Estimate:
    """Fit parameters alone with a-priori gains, by weighted least squares."""
    return wls(compress(prior_regression(system)))


def prior_regression(system: GainSystem) -> Regression:
    """Write the equations with a-priori gains: V g - w = W χ + e."""
    return Regression(
        kind="dynamic",
        names=system.names,
        units=system.units,
        joint_names=system.drive_names,
        runs=tuple(f"run {k + 1}" for k in range(int(system.run.max()) + 1)),
        W=system.W,
        y=system.V @ system.prior - system.known,
        joint=system.drive,
        run=system.run,
        sample=system.sample,
        variance=None,
    )


def _prior_noise(system: GainSystem) -> FloatArray:
    """Level of each drive's torque error with a-priori gains, (n_drives,)."""
    sigma = {joint: value for (joint, _), value in prior_fit(system).group_sigma.items()}
    return np.array([sigma.get(j, np.nan) for j in range(len(system.laws))])


def _used_terms(system: GainSystem) -> IntArray:
    """Columns of V that belong to drives with rows."""
    return np.concatenate([np.arange(*system.terms[j].indices(system.V.shape[1])) for j in system.drives])


def _prior_scale(system: GainSystem) -> FloatArray:
    """Size by which each used term is measured: its a-priori gain, or its drive's largest where that is 0."""
    prior = np.abs(system.prior)
    largest = np.concatenate([np.full(len(law.powers), np.abs(law.prior).max()) for law in system.laws])
    return np.asarray(np.where(prior > 0.0, prior, largest)[_used_terms(system)])


def _all_terms(system: GainSystem, used: IntArray, values: FloatArray) -> FloatArray:
    gains = np.zeros(system.V.shape[1])
    gains[used] = values
    return gains


def _triangles(system: GainSystem, used: IntArray, scale: FloatArray) -> dict[int, FloatArray]:
    """Triangular factors of each drive's rows of [-W, V, -w], columns of V by a-priori gain."""
    rows = np.column_stack([-system.W, system.V[:, used] * scale, -system.known])
    return {j: triangle(rows[system.drive == j]) for j in system.drives}


def _residual_noise(system: GainSystem, triangles: dict[int, FloatArray], x: FloatArray) -> FloatArray:
    noise = np.full(len(system.laws), np.nan)
    for j in system.drives:
        size = float(np.linalg.norm(triangles[j] @ x)) / np.sqrt(np.count_nonzero(system.drive == j))
        noise[j] = max(size, 1e-13 * float(np.linalg.norm(triangles[j])))
    return noise


def _slope_grams(system: GainSystem, used: IntArray, scale: FloatArray) -> dict[int, FloatArray]:
    """Σ f′ f′ᵀ of each drive's used terms: how noise of its signal shows in them."""
    grams = {}
    for j in system.drives:
        own = np.isin(used, np.arange(*system.terms[j].indices(system.V.shape[1])))
        slope = system.slope[np.ix_(system.drive == j, used[own])] * scale[own]
        grams[j] = slope.T @ slope
    return grams


def _slope_sizes(system: GainSystem, grams: dict[int, FloatArray], g: FloatArray) -> dict[int, float]:
    """Root mean square of f′ᵀ g: torque noise per unit of the signal's noise."""
    sizes, at = {}, 0
    for j in system.drives:
        own = g[at : at + len(grams[j])]
        at += len(own)
        square = float(own @ grams[j] @ own) / np.count_nonzero(system.drive == j)
        sizes[j] = float(np.sqrt(max(square, 0.0)))
    return sizes


def _scaled(x: FloatArray) -> FloatArray:
    """Scale the last entry, of the known load, to 1; where it is almost 0, divide by a small number instead."""
    least = 1e-14 * float(np.abs(x).max())
    return np.asarray(x / (x[-1] if abs(x[-1]) > least else least))


def _gain_fit(
    system: GainSystem, method: str, chi: FloatArray, gains: FloatArray, noise: FloatArray, judged: NullVector | None
) -> GainFit:
    return GainFit(
        method=method,
        parameters=chi,
        gains=gains,
        noise=noise,
        covariance=_covariance(system, chi, gains, noise),
        singular_values=np.zeros(0) if judged is None else judged.singular_values,
        gap=np.nan if judged is None else judged.gap,
    )


def _covariance(system: GainSystem, chi: FloatArray, gains: FloatArray, noise: FloatArray) -> FloatArray:
    """A⁻¹ (Σ_j Σ_k ρ_jk J_tᵀ J_(t+k)) A⁻¹ with J the weighted rows, their signals freed of noise, and A = JᵀJ.

    ρ_j are the autocorrelations of drive j's residuals: neighbours are not independent. Signals freed of noise
    are V - f′ n, n the residual over the torque's slope; noisy ones would underestimate σ of weak gains.
    """
    used = _used_terms(system)
    residual = system.V @ gains - system.W @ chi - system.known
    slope = system.slope @ gains
    steep = np.abs(slope) > 1e-9 * np.abs(slope).max(initial=0.0)
    n_v = np.divide(residual, slope, out=np.zeros_like(residual), where=steep)
    weight = 1.0 / noise[system.drive]
    J = np.column_stack([-system.W, (system.V - system.slope * n_v[:, None])[:, used]]) * weight[:, None]
    norms = np.linalg.norm(J, axis=0)
    norms[norms == 0.0] = 1.0
    _, values, directions = np.linalg.svd(triangle(J / norms))
    inverse = (directions.T / np.maximum(values, 1e-15 * values[0])) / norms[:, None]
    U = J @ (inverse @ inverse.T)
    middle = sum(_correlated(system, U, residual * weight, j) for j in system.drives)
    dof = max(len(J) - J.shape[1], 1)
    n, total = len(chi), len(chi) + len(gains)
    place = np.concatenate([np.arange(n), n + used])
    covariance = np.zeros((total, total))
    covariance[np.ix_(place, place)] = middle * (len(J) / dof)
    silent = place[~J.any(axis=0)]
    covariance[silent, silent] = np.inf
    return covariance


def _correlated(system: GainSystem, U: FloatArray, residual: FloatArray, drive: int) -> FloatArray:
    """Σ_k ρ_k U_tᵀ U_(t+k) of one drive, its runs apart, gaps in time left out."""
    rows = np.flatnonzero(system.drive == drive)
    rho = autocorrelation(system.run[rows], system.sample[rows], residual[rows])
    rho = rho[: 2 * len(positive_pairs(rho)) or 1]
    middle = np.zeros((U.shape[1], U.shape[1]))
    for run in np.unique(system.run[rows]):
        own = rows[system.run[rows] == run]
        place = system.sample[own] - system.sample[own].min()
        grid = np.zeros((int(place.max()) + 1, U.shape[1]))
        grid[place] = U[own]
        smooth = rho[0] * grid
        for k in range(1, min(len(rho), len(grid))):
            smooth[k:] += rho[k] * grid[:-k]
            smooth[:-k] += rho[k] * grid[k:]
        middle += grid.T @ smooth
    return middle


@dataclass(frozen=True, eq=False, slots=True)
class KnownLoad:
    """A body mounted for some runs, some of whose parameters are known: its weighed mass at least."""

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
    thin: Decimation | None = None  # of this run, instead of that of all
    left_out: BoolArray | None = None  # (n_samples, n_joints): about reversals of friction

    def __post_init__(self) -> None:
        freeze(self, signal=" ".join(str(size) for size in self.motion.q.shape))


@one_blas_thread()
def gain_system(robot: Robot, runs: Sequence[DriveRun], laws: Sequence[Law], *, rows: Rows | None = None) -> GainSystem:
    """Build the equations in base parameters; W, V and the load's columns are decimated alike."""
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
    """Select the rows of some drives, and the parameters that these rows still separate."""
    rows = np.isin(system.drive, drives)
    part = replace(system, drives=tuple(drives), **{name: getattr(system, name)[rows] for name in ROW_FIELDS})
    return independent(part)


def only_parameters(system: GainSystem, names: Sequence[str]) -> GainSystem:
    """Keep some parameters; the others are 0."""
    return _columns(system, [k for k, name in enumerate(system.names) if name in names], system.names)


def load_shows(system: GainSystem) -> bool:
    """Return True if the known part of the load is independent of the parameters' columns: else there is no scale."""
    size = float(np.linalg.norm(system.known))
    if not size > 0.0:
        return False
    n = len(system.names)
    norms = np.linalg.norm(system.W, axis=0)
    R = triangle(np.column_stack([system.W / np.where(norms > 0.0, norms, 1.0), system.known / size]))
    return abs(float(R[n, n])) > SAME


@one_blas_thread()
def independent(system: GainSystem) -> GainSystem:
    """Leave out parameters whose columns depend on those before them: they regroup as base parameters do."""
    norms = np.linalg.norm(system.W, axis=0)
    R = triangle(system.W / np.where(norms > 0.0, norms, 1.0))
    shown = np.flatnonzero(norms > SAME * norms.max(initial=0.0)).tolist()
    kept, _, parts, _ = independent_columns(R, shown, SAME)
    into = np.zeros(len(system.names), dtype=bool)
    into[kept] = parts.any(axis=1)
    names = tuple(
        f"{name}R" if joined and not name.endswith("R") else name
        for name, joined in zip(system.names, into, strict=True)
    )
    return _columns(system, kept.tolist(), names)


def _columns(system: GainSystem, kept: Sequence[int], names: Sequence[str]) -> GainSystem:
    units = tuple(system.units[k] for k in kept)
    n_robot = sum(k < system.n_robot for k in kept)
    return replace(system, names=tuple(names[k] for k in kept), units=units, n_robot=n_robot, W=system.W[:, list(kept)])


def _check(robot: Robot, runs: Sequence[DriveRun], laws: Sequence[Law]) -> None:
    if len(laws) != robot.n_joints:
        raise ValueError(f"there are {len(laws)} laws, expected one for each of the {robot.n_joints} drives")
    if not any(run.load is not None for run in runs):
        raise ValueError(
            "no run carries a known load: gains and parameters are then known up to a common factor only; "
            "repeat a run with a weighed body"
        )
    if all(run.load is not None for run in runs):
        sentence = (
            "every run carries the load, which then regroups with the link that holds it; add a run without it, and "
            "state loaded = false in its [[run]]"
        )
        raise ValueError(sentence)
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
    thin = run.thin or rows.decimate or (lambda x: x)
    W, known = _motor_columns(robot, run, loads, thin)
    V, slope = _signals(laws, run.signal, thin)
    moves = _moving(robot, thin(run.motion.dq), rows.dead_zone)
    if run.left_out is not None:
        moves &= thin(_coupled(robot, run.left_out, np.any).astype(float)) < PART
    drive, sample = np.nonzero(moves.T)
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
    """N⁻ᵀ Y of base and load parameters, (n_samples, n_drives, n_columns), and the load's known part."""
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
    return _coupled(robot, np.abs(dq) > dead_zone, np.all)


def _coupled(robot: Robot, joints: BoolArray, whether: Callable[..., BoolArray]) -> BoolArray:
    """Combine marks of joints, (n_samples, n_joints), to those of the drives that move them."""
    coupled = np.abs(np.linalg.inv(robot.drive.motor_from_joint).T) > 0.0
    return np.array([whether(joints[:, own], axis=1) for own in coupled]).T


def _signals(laws: Sequence[Law], signal: FloatArray, thin: Decimation) -> tuple[FloatArray, FloatArray]:
    """V and dV/dv by term, (n_samples, n_terms): s(v) |v|^p is filtered, as torques are linear in it."""
    v = [signal[:, j] for j, law in enumerate(laws) for _ in law.powers]
    slow = thin(signal)
    size = [np.abs(slow[:, j]) for j, law in enumerate(laws) for _ in law.powers]
    powers = [p for law in laws for p in law.powers]
    V = np.array([np.sign(x) * np.abs(x) ** p for x, p in zip(v, powers, strict=True)]).T
    slope = np.array([p * x ** max(p - 1, 0) for x, p in zip(size, powers, strict=True)]).T
    return thin(np.ascontiguousarray(V)), slope


def _check_signals(system: GainSystem) -> None:
    """Refuse signals that are constantly 0, and laws whose terms are linearly dependent."""
    for j, (name, law) in enumerate(zip(system.drive_names, system.laws, strict=True)):
        V = system.V[system.drive == j][:, system.terms[j]]
        norms = np.linalg.norm(V, axis=0)
        if not len(V) or not norms.all():
            raise ValueError(
                f"drive {name} has no signal in any sample that counts; check that it was recorded and that it moved"
            )
        if np.linalg.svd(triangle(V / norms), compute_uv=False)[len(law.powers) - 1] <= SAME:
            raise ValueError(
                f"drive {name}: its signal does not separate the powers {law.powers} of its law; give fewer of them"
            )


def _check_steps(system: GainSystem) -> None:
    """Refuse a step at zero signal that the same drive's friction explains: in no sample do their signs differ."""
    W = system.W / np.linalg.norm(system.W, axis=0)
    for j, law in enumerate(system.laws):
        if 0 in law.powers:
            step = system.V[:, system.terms[j]][:, law.powers.index(0)]
            rest = step - W @ np.linalg.lstsq(W, step, rcond=SAME)[0]
            if np.linalg.norm(rest) <= SAME * np.linalg.norm(step):
                raise RankDeficient(
                    f"drive {system.drive_names[j]}: a step of torque at zero signal is inseparable from friction, "
                    "whose sign it always has; leave power 0 out of its law, or add motion in which inertia prevails",
                    [system.drive_names[j]],
                )


def _without_known(system: GainSystem, loads: Sequence[KnownLoad]) -> GainSystem:
    """Drop the columns of loads' known parameters, which must be independent of the unknown ones' columns."""
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
            "the load's known parameters cannot be separated from its unknown ones: their torques are 0, or "
            "like those of unknown parameters; state the mass and more of the load's parameters, or mount it elsewhere"
        )
    return part
