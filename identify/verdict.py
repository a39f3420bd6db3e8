"""Verdict on a model: what it may be used for, decided by one table of evidence.

`identify` with its exit code, the report, the comparison, the status and the exports all take it from here. Worse
evidence never gives a better verdict.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from excitor.identify.consistent import COSTLY
from excitor.identify.diagnose import several
from excitor.identify.intervals import CELLS_PER_BLOCK, LEAST_BLOCKS, count_samples, drawn, whiteness
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray, IntArray, picked, plain

FEED_FORWARD = "Torques of motions like these (feed-forward)"
SIMULATION = "Simulation and control design"
PAYLOADS = "Finding loads, as the arm's model"
FRICTION = "Monitoring of friction"
CHANCE = 2.0  # times the estimate's own variance: what a sound model may be worse than a true prior
CLOSE = 1.05  # times another error: as good as that
WORSE = 2.0  # times the training error: a model that is this much worse elsewhere has learned its runs by heart
ABOVE_NOISE = 1.15  # times the noise, or a prior that may be as good as that: an error beyond it is more
UNEXPLAINED = 0.5  # relative error, of a joint or of all, beyond which feed-forward is of little use
DRAWS = 2000
SEED = 0
SHOWN = 5e-5  # of the torques: what a person is shown of an error has no further digits
Sentences = list[str]


@dataclass(frozen=True, slots=True)
class Difference:
    """Excess of one held-out error over another, with a bootstrap interval over blocks of time."""

    value: float
    low: float  # 95 %
    high: float

    @property
    def within_noise(self) -> bool:
        """True if the difference is not significant, or too small to matter."""
        return self.low <= 0.0 or self.value < SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The evidence on a model; errors are ‖τ - τ̂‖ / ‖τ‖ over all rows of the runs concerned."""

    training: float
    held_out: float | None = None  # None: no data were kept back
    same_run: bool = False  # they are a stretch of the runs that were fitted to
    joints: Mapping[str, float] = field(default_factory=dict)  # held out, by joint
    gravity: float = np.inf  # held out, as are the next two
    prior: float = np.inf
    over_prior: Difference | None = None  # of the model's error over the prior's
    spread: float = 0.0  # held-out error that the estimate's own covariance explains
    noise: float | None = None  # share of the held-out torques that is noise; None: unknown
    loss: float | None = None  # residual that consistency costs; None: there is no consistent model
    refusal: str = ""  # why there is none
    in_amperes: bool = False  # the model is of currents without a law
    smallest_inertia: float = np.inf  # eigenvalue of the estimated M(q) over random poses
    open_friction: tuple[str, ...] = ()  # friction whose interval holds 0
    objections: tuple[str, ...] = ()  # sentences: why the data cannot give a valid model
    doubts: tuple[str, ...] = ()  # sentences: what else is doubtful of the data

    def data(self) -> dict[str, Any]:
        """Write it for scripts."""
        return {key: plain(x) for key, x in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a model: allowed, not, or (None) with care."""

    use: str
    go: bool | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model may be used for; the first use, feed-forward, decides over the model."""

    uses: tuple[Use, ...]
    learned: bool  # False: the prior model was as good already, and at the noise

    @property
    def go(self) -> bool | None:
        """True if the model may be used, False if it must not, None if with care."""
        return self.uses[0].go

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        if not self.learned:
            return "Nothing learned beyond the prior model"
        found = {True: "The model may be used", False: "Do not use this model", None: "Use this model with care"}
        return found[self.go]

    def data(self) -> dict[str, Any]:
        """Write it for scripts."""
        return picked(self, "go headline learned") | {"uses": [picked(use, "use go reasons") for use in self.uses]}


def verdict(scores: Scores) -> Verdict:
    """Decide what a model may be used for."""
    against, doubts, learned = _torques(scores)
    torques = _use(FEED_FORWARD, against, doubts, _proof(scores))
    return Verdict((torques, *(_limited(torques, use, *rule(scores)) for use, rule in RULES.items())), learned)


def _torques(scores: Scores) -> tuple[Sentences, Sentences, bool]:
    """List objections and doubts about predicted torques; and whether the model says more than the prior."""
    against, doubts, learned = list(scores.objections), list(scores.doubts), True
    if scores.held_out is None:
        doubts.append(
            "No run was held out for validation, so the model's prediction error is unknown; "
            'give a run role = "validate"'
        )
        return against, doubts, learned
    error, over = scores.held_out, scores.over_prior
    for name, other in (("zero", 1.0), ("gravity only", scores.gravity)):
        if not error < other:
            against.append(f"Its held-out torque error, {percent(error)}, is no better than that of {name} torques")
    if error > UNEXPLAINED and not against:
        against.append(f"It leaves {percent(error)} of torques that it was not fitted to: it hardly predicts them")
    beside = f"{percent(scores.prior)} held-out torque error, beside {percent(error)}"
    explained = error**2 <= max((ABOVE_NOISE * scores.prior) ** 2, scores.prior**2 + CHANCE * scores.spread**2)
    if over is not None and over.low > 0.0 and over.value >= SHOWN and not explained:
        against.append(f"The prior model predicts better, beyond chance: {beside}")
    elif over is not None and over.high >= 0.0:
        floor = scores.training if scores.noise is None else scores.noise
        learned = scores.prior > CLOSE * floor
        more = "" if learned else f"; {percent(floor)} is what no model predicts, so that there was nothing to learn"
        doubts.append(f"The prior model predicts as well within chance: {beside}{more}")
    weak = [f"{joint} ({percent(x)})" for joint, x in scores.joints.items() if x > UNEXPLAINED]
    if weak:
        doubts.append(f"It does not predict most of the torque of {several(weak)}")
    if error > WORSE * scores.training:
        doubts.append(
            f"Its torque error is {percent(error)} held out, but {percent(scores.training)} on the training data: it "
            "is worse where it was not fitted"
        )
    if scores.same_run:
        doubts.append(
            f"Its error of {percent(error)} is of stretches of the same run, fitted without them: recorded within the "
            'same minutes, they say less than a run of another motion; give one role = "validate"'
        )
    return against, doubts, learned


def _simulation(scores: Scores) -> tuple[Sentences, Sentences, str]:
    """Judge simulation: it needs bodies that can exist, or at least a positive mass matrix."""
    if scores.loss is not None:
        cost = "less than 0.01 %" if abs(scores.loss) < 1e-4 else percent(scores.loss)
        costly = [f"Bodies that can exist leave {cost} more of the torques"] if scores.loss > COSTLY else []
        said = f"The physically consistent parameters belong to bodies that could exist, and cost {cost} of residual"
        return [], costly, said
    why = f"No physically consistent parameters: {scores.refusal}"
    if scores.in_amperes:
        return [why], [], ""
    if scores.smallest_inertia > 0.0:
        said = "The estimated mass matrix is positive definite in all poses tried, so it can be simulated with care"
        return [], [why, said], ""
    return [why, "The estimated mass matrix is not positive definite: a simulation would diverge"], [], ""


def _payloads(scores: Scores) -> tuple[Sentences, Sentences, str]:
    """Judge the arm's model as the one that a load is found with: its errors would be taken for the load."""
    if scores.in_amperes:
        return ["Currents without a law weigh nothing in kg"], [], ""
    above = scores.held_out is not None and scores.noise is not None and scores.held_out > ABOVE_NOISE * scores.noise
    noise = f"Of its {percent(scores.held_out)} held-out error {percent(scores.noise)} is noise"
    doubts = [f"{noise}; a load would take up a part of the rest"] if above else []
    return [], doubts, "What it leaves of torques does not hide a load"


def _friction(scores: Scores) -> tuple[Sentences, Sentences, str]:
    """Judge friction: changes show where its parameters are known."""
    some = scores.open_friction
    doubts = [f"Not known from 0: {several(some)}"] if some else []
    return [], doubts, "Every friction parameter is known apart from 0"


RULES: Mapping[str, Callable[[Scores], tuple[Sentences, Sentences, str]]] = {
    SIMULATION: _simulation,
    PAYLOADS: _payloads,
    FRICTION: _friction,
}


def _limited(torques: Use, use: str, against: Sequence[str], doubts: Sequence[str], praise: str) -> Use:
    """Judge another use: none is better than that of the torques."""
    if torques.go is False:
        against = ["Its torques are wrong: see feed-forward", *against]
    elif torques.go is None:
        doubts = [*doubts, "The doubts about its torques hold here as well"]
    return _use(use, against, doubts, praise)


def _use(use: str, against: Sequence[str], doubts: Sequence[str], praise: str) -> Use:
    go = False if against else None if doubts else True
    return Use(use, go, tuple(as_sentence(text) for text in ([*against, *doubts] or [praise])))


def _proof(scores: Scores) -> str:
    if scores.held_out is None:
        return ""
    said = f"On runs it was not fitted to, its torque error is {percent(scores.held_out)}"
    if np.isfinite(scores.gravity):
        said += f"; gravity alone would leave {percent(scores.gravity)}"
    return said if scores.noise is None else f"{said}, and {percent(scores.noise)} is noise, which no model predicts"


def as_sentence(text: str) -> str:
    """Begin with a capital letter, and end with a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


def percent(share: float | None) -> str:
    """Write a share as a percentage of two digits."""
    if share is None or not np.isfinite(share) or abs(share) >= 10.0:
        return "over 1000 %"
    return f"{100 * share:.0f} %" if abs(share) >= 0.1 else f"{100 * share:.2g} %"


def differences(judging: Regression, residuals: Sequence[FloatArray], best: int) -> list[Difference]:
    """Compare each model's relative error with that of one, on blocks of time drawn at random.

    All joints of a block stay together, and all models see the same blocks: what they have in common cancels.
    """
    labels, cell = cells(judging, block_samples(judging, residuals[best]))
    squares = np.array([np.bincount(cell, r**2, len(labels)) for r in residuals])
    size = np.bincount(cell, judging.y**2, len(labels))
    counts = drawn(labels[:, 0], CELLS_PER_BLOCK, DRAWS, np.random.default_rng(SEED))
    drawn_size = np.maximum(counts @ size, np.finfo(float).tiny)
    errors = np.sqrt(squares @ counts.T / drawn_size)  # (n_models, n_draws)
    whole = np.sqrt(squares.sum(axis=1) / max(size.sum(), np.finfo(float).tiny))
    low, high = np.percentile(errors - errors[best], [2.5, 97.5], axis=1)
    return [Difference(float(x - whole[best]), float(a), float(b)) for x, a, b in zip(whole, low, high, strict=True)]


def block_samples(judging: Regression, residual: FloatArray) -> int:
    """Choose a block's length, in samples, from the most correlated joint."""
    asked = max(entry.block for entry in whiteness(judging, residual))
    return max(1, int(min(np.ceil(asked), count_samples(judging) // LEAST_BLOCKS)))


def cells(judging: Regression, block: int) -> tuple[IntArray, IntArray]:
    """Divide time into quarters of blocks: (run, number) of each, and the cell index of every row."""
    size = max(1, -(-block // CELLS_PER_BLOCK))
    labels, cell = np.unique(np.column_stack([judging.run, judging.sample // size]), axis=0, return_inverse=True)
    return labels, np.asarray(cell.ravel(), dtype=np.int64)
