"""How much torque does a unit of each drive's signal make? Gains with their uncertainty, or a refusal by name.

Runs without and with a weighed load give gains and parameters at once ([Briot2012] §3.2). Trust is the singular-value
gap: below its limit more than one vector solves the equations about as well. Then parameters that hardly show are
left out, if that cures it; else the drives that the data cannot tell are, one by one.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from excitor.identify.drive_gains_fit import (
    GainFit,
    frobenius_fit,
    known_load_fit,
    prior_regression,
    signal_fit,
)
from excitor.identify.drive_gains_system import GainSystem, load_shows, only_drives, only_parameters
from excitor.identify.factors import compress
from excitor.identify.reduce import Essential, essential
from excitor.robots.arrays import FloatArray, freeze

UNSEEN = 1e-6  # share of torque below which a load counts as not felt
AGREEMENT = 2.0  # in σ: how far gains of a smaller model may be from those of the whole one
LOST = 2.0  # gap below which total least squares may come out along any of several directions
CURED = 1.5  # by how much leaving out faint parameters must raise the gap: a weak drive's gap hardly feels it


@dataclass(frozen=True, slots=True)
class Trust:
    """When a gain is answered."""

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
    """What the data say of one drive."""

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
class DriveGains:
    """Gains drive by drive, the parameters that go with them, and why they may be trusted."""

    gains: tuple[Gain, ...]
    fit: GainFit
    system: GainSystem  # what was fitted at last
    gap_of_all: float  # with every drive and parameter
    gap_of_columns: float  # of eq. (13) with every column noisy: below the limit, parameters are not told apart
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
    """Identify gains where the data tell them; parameters or drives leave only where the gap demands it."""
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
        refused[worst] = _refused(system, worst, _gap_reason(system, fit, worst, trust), _factor(kept, fit, worst)[1])
        kept, fit = fewer, signal_fit(fewer)
    gains = [refused[j] if j in refused else _judged(kept, fit, j, trust) for j in range(len(system.drive_names))]
    left_out = tuple(system.drive_names[j] for j in sorted(refused))
    return DriveGains(tuple(gains), fit, kept, first.gap, frobenius_fit(kept).gap, removed, left_out, trust)


def without_faint_parameters(system: GainSystem, ratio: float) -> tuple[GainSystem, tuple[str, ...]]:
    """Leave out parameters that are not essential to least squares with a-priori gains, before any total ones."""
    removed = essential(compress(prior_regression(system)), ratio=ratio).removed
    return only_parameters(system, [name for name in system.names if name not in removed]), removed


def _least_sure(system: GainSystem, fit: GainFit) -> int:
    """Find the drive with the largest relative σ; by least squares where total ones have lost their way."""
    judge = fit if fit.gap >= LOST else known_load_fit(system)
    return max(system.drives, key=lambda j: _factor(system, judge, j)[1])


def _agree(system: GainSystem, fit: GainFit, reduced: GainFit) -> bool:
    """Tell whether no gain of a reduced model leaves the other's interval: what left was then no part of the truth."""
    for j in system.drives:
        factor, relative = _factor(system, fit, j)
        if not abs(_torque_factor(system, reduced.gains, j)[0] - factor) <= AGREEMENT * relative * abs(factor):
            return False
    return True


def essential_parameters(result: DriveGains, *, ratio: float = 20.0) -> Essential:
    """Fit essential parameters by weighted least squares, the identified gains now known: what TLS tells poorly leaves.

    σ is that of known gains.
    """
    system = result.system
    y = system.V @ result.fit.gains - system.known
    return essential(compress(replace(prior_regression(system), y=y)), ratio=ratio)


def _judged(system: GainSystem, fit: GainFit, drive: int, trust: Trust) -> Gain:
    """Answer for one drive, or tell why not."""
    factor, relative = _factor(system, fit, drive)
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
    variance = np.diag(fit.covariance)[len(fit.parameters) :][own]
    sigma = np.sqrt(np.maximum(variance, 0.0))
    reason = f"predicted deviation {_percent(relative)}, singular-value gap {fit.gap:.1f}"
    return Gain(system.drive_names[drive], True, reason, fit.gains[own], sigma, factor, relative, share)


def _refused(system: GainSystem, drive: int, reason: str, relative: float) -> Gain:
    share = _share(system, system.prior, drive)
    return Gain(system.drive_names[drive], False, reason, None, None, None, relative, share)


def _gap_reason(system: GainSystem, fit: GainFit, drive: int, trust: Trust) -> str:
    share = _share(system, system.prior, drive)
    tells = f"the load makes {_percent(share)} of its torque" if share > UNSEEN else "its torque never shows the load"
    return (
        f"with it the singular-value gap is {fit.gap:.2f}, below {trust.gap:g}, so another gain fits about as well: "
        f"{tells}, and the rest of its signal is too noisy"
    )


def _share(system: GainSystem, gains: FloatArray, drive: int) -> float:
    """Compare the known part of the load's torque with the whole, rms over the drive's loaded rows."""
    rows = (system.drive == drive) & np.isin(system.run, np.unique(system.run[system.known != 0.0]))
    whole = float(np.linalg.norm(system.V[rows] @ gains))
    return float(np.linalg.norm(system.known[rows])) / whole if whole > 0.0 else 0.0


def _factor(system: GainSystem, fit: GainFit, drive: int) -> tuple[float, float]:
    """How many times the a-priori torque the drive makes, in the least-squares sense, and the relative σ of that."""
    factor, weight = _torque_factor(system, fit.gains, drive)
    at = len(fit.parameters) + np.arange(*system.terms[drive].indices(system.V.shape[1]))
    variance = float(weight @ fit.covariance[np.ix_(at, at)] @ weight)
    if factor == 0.0 or not (np.isfinite(variance) and variance >= 0.0):
        return factor, np.inf
    return factor, float(np.sqrt(variance)) / abs(factor)


def _torque_factor(system: GainSystem, gains: FloatArray, drive: int) -> tuple[float, FloatArray]:
    """Project the drive's torque on the believed one, over the signals that occurred: factor = weight @ gains."""
    rows, own = system.drive == drive, system.terms[drive]
    V = system.V[rows][:, own]
    believed = V @ system.laws[drive].prior
    weight = believed @ V / (believed @ believed)
    return float(weight @ gains[own]), weight


def _percent(x: float) -> str:
    return f"{100.0 * x:.2g} %"
