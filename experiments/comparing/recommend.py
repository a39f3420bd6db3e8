"""Which method's model to take, and why: the best held out, unless a preferable one is as good but for chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from excitor.experiments.comparing.bias import Bias
from excitor.experiments.comparing.difference import Difference
from excitor.experiments.comparing.judge import Judged
from excitor.experiments.comparing.words import error_words
from excitor.experiments.page.words import percent
from excitor.identify.diagnose import several

SIMPLEST = ("wls", "ols", "irls", "rls", "ridge", "ml", "tls", "iv", "input-error", "didim")  # then all others
AS_GOOD = 1.01  # times the error: being consistent costs nothing
FITTED = 0.5  # times the held-out error: then the runs differ more than any estimator can be wrong
POOR = 0.3  # of the torques: the best of poor models
LATE = 1e-3  # s: a delay that matters
WEAK = 1.1  # times the error that wls leaves at a joint: what ols gives up there
WRONG = 1.05  # times the prior model's error, or gravity's: no estimator mends such data or such a model


@dataclass(frozen=True)
class Recommendation:
    """A method and its reasons, in sentences."""

    method: str | None  # None: none of them predicts better than no identification
    best: str  # least held-out error
    headline: str
    reasons: tuple[str, ...]
    within: tuple[str, ...]  # methods whose error other stretches of time could have made the least
    careful: bool = False  # whether something speaks against the model, or the judgement

    @property
    def is_best(self) -> bool:
        """Whether the method recommended has the least held-out error."""
        return self.method == self.best


def recommend(
    judged: Sequence[Judged],
    compared: Mapping[str, Difference],
    *,
    bias: Bias | None,
    others: Mapping[str, float],
    bodies: Mapping[str, float] | None = None,
    substitute: bool = False,
    joints: Sequence[str] = (),
    late: float | None = None,
) -> Recommendation:
    """Choose among methods; `compared` tells each one's difference to the best, `others` what baselines leave.

    `bodies`: what the physically consistent versions leave, where there are any. `substitute`: no run was kept back.
    `joints`: names of those that are judged. `late`: s, by which torques clearly come after their motion.
    """
    best = min(judged, key=lambda entry: entry.error)
    within = [entry for entry in judged if compared[entry.name].within_noise]
    chosen = min(within, key=lambda entry: preference(entry, bias))
    names = tuple(entry.name for entry in sorted(within, key=lambda entry: entry.error))
    worse = [name for name in ("zero", "gravity only") if best.error >= others.get(name, float("inf"))]
    if worse:
        said = (
            f"Even the best of them, {best.name}, leaves {percent(best.error)} of torques that it was not fitted to: "
            f"no better than {several([BASELINES[name] for name in worse])}. The data or the robot's model are wrong, "
            "and another estimator will not mend that."
        )
        if best.training.relative_total < FITTED * best.error:
            said += (
                f" Torques that it was fitted to it leaves {error_words(best.training.relative_total)} of, so look at "
                "what is otherwise in the runs that judge: signs, units, load."
            )
        return Recommendation(None, best.name, "Take none of these models", (said,), names)
    why = _best(chosen, judged, compared) if chosen is best else _instead(chosen, best, compared[chosen.name], bias)
    doubts = [*_doubts(chosen, bias, others, bodies or {}), *_unweighted(chosen, judged, joints), *_late(late)]
    headline = f"Take the model of {chosen.name}"
    headline += ", for now" if substitute else ", with care" if doubts else ""
    notes = [*([PRIOR] if chosen.name == "ridge" else []), *_version(chosen, bodies or {})]
    reasons = (*why, *doubts, *notes)
    return Recommendation(chosen.name, best.name, headline, reasons, names, bool(doubts) or substitute)


PRIOR = (
    "ridge leans on the robot's prior model where data tell little: numbers whose interval is wide in wls are the "
    "prior's as much as the data's."
)
BASELINES = {"zero": "no model at all", "gravity only": "gravity alone", "prior model": "the prior model"}


def preference(entry: Judged, bias: Bias | None) -> tuple[bool, bool, int]:
    """Order methods that are as good as each other: possible bodies first, then unbiased, then simple."""
    place = SIMPLEST.index(entry.name) if entry.name in SIMPLEST else len(SIMPLEST)
    return not entry.possible, bias is not None and bias.concerns(entry.name), place


def _best(chosen: Judged, judged: Sequence[Judged], compared: Mapping[str, Difference]) -> list[str]:
    others = sorted(
        (entry for entry in judged if entry is not chosen),
        key=lambda entry: (round(entry.error, 6), preference(entry, None)),
    )
    if not others:
        return [
            f"It is the only method that gave an answer; of torques that it was not fitted to it leaves "
            f"{error_words(chosen.error)}."
        ]
    said = (
        f"Of torques that none of the {len(judged)} methods was fitted to, it leaves {error_words(chosen.error)}: the "
        "least of all."
    )
    second, difference = others[0], compared[others[0].name]
    if difference.within_noise:
        return [
            f"{said} {second.name} is as good but for chance ({error_words(second.error)}), and no preferable choice."
        ]
    return [
        f"{said} The next, {second.name}, leaves {error_words(second.error)}; over other stretches of time it would be "
        f"{points(difference.low)} to {points(difference.high)} more than the best, so that is hardly chance."
    ]


def _instead(chosen: Judged, best: Judged, difference: Difference, bias: Bias | None) -> list[str]:
    """Explain why not the best."""
    if difference.low > 0.0:
        return [
            f"It leaves {error_words(chosen.error)} of torques that it was not fitted to. {best.name} leaves less by "
            f"{points(difference.value)}, which is next to nothing. {_why(chosen, best, bias)}"
        ]
    said = (
        f"It leaves {error_words(chosen.error)} of torques that it was not fitted to. {best.name} leaves a little "
        f"less, {error_words(best.error)}, but the difference of {points(difference.value)} is within the noise of "
        f"these data: over other stretches of time it would lie between {points(difference.low)} "
        f"and {points(difference.high)}."
    )
    return [f"{said} {_why(chosen, best, bias)}"]


def _why(chosen: Judged, best: Judged, bias: Bias | None) -> str:
    if chosen.possible and not best.possible:
        return f"And {chosen.name} gives a model that could be a robot's: {impossible(best)}."
    if bias is not None and bias.concerns(best.name) and not bias.concerns(chosen.name):
        return (
            f"And the Durbin-Wu-Hausman test (p = {bias.p_value:.2g}) speaks against {best.name}, which takes the "
            f"measured motion for the true one; {chosen.name} does not."
        )
    return f"{chosen.name} is the simpler of the two: it assumes less, and is easier to check."


def impossible(entry: Judged) -> str:
    """Say what contradicts physics in a model."""
    said = []
    if not entry.smallest_inertia > 0.0:
        said.append(
            f"the mass matrix that {entry.name} gives is not positive definite (smallest eigenvalue "
            f"{entry.smallest_inertia:.2g}), so a simulation of it would blow up"
        )
    if entry.driving:
        said.append(f"{entry.name} gives friction below 0 ({', '.join(entry.driving)}), which would drive its joint")
    return several(said)


def _doubts(chosen: Judged, bias: Bias | None, others: Mapping[str, float], bodies: Mapping[str, float]) -> list[str]:
    """Say what remains doubtful about the method chosen."""
    said = []
    if not chosen.possible:
        told = f"Use it for torques of motions like these, not for simulation: {impossible(chosen)}."
        if chosen.name in bodies:
            told += f" Its physically consistent version, which leaves {error_words(bodies[chosen.name])}, is for that."
        said.append(told)
    if chosen.error > POOR:
        said.append(
            f"{percent(chosen.error)} is much: it is the best of poor models. See first to the data (rate, filter of "
            "positions, units) and to the robot's file."
        )
    prior = others.get("prior model", float("inf"))
    if chosen.error > WRONG * prior:
        said.append(
            f"The prior model leaves less, {percent(prior)}: identification made it worse, so look at the data first."
        )
    if bias is not None and (bias.concerns(chosen.name) or bias.suspects(chosen.name)):
        said.append(bias.advice(chosen.name))
    return said


def _late(late: float | None) -> list[str]:
    """Say that a delay bends every method's parameters alike."""
    if late is None or abs(late) < LATE:
        return []
    return [
        f"The equations fit best with torques moved by {1e3 * abs(late):.2g} ms {'back' if late > 0.0 else 'on'} in "
        "time. Where that is a delay of the log, no method's parameters are right before it is taken out; where "
        "positions are hardly filtered, their noise can look the same."
    ]


def _unweighted(chosen: Judged, judged: Sequence[Judged], joints: Sequence[str]) -> list[str]:
    """Say where ols is the best only as the total counts, which is how ols itself counts: large torques most."""
    weighted = next((entry for entry in judged if entry.name == "wls"), None)
    if chosen.name != "ols" or weighted is None:
        return []
    errors = zip(joints, weighted.held_out.relative.tolist(), chosen.held_out.relative.tolist(), strict=False)
    weak = [f"{joint} {error_words(other)} (ols {error_words(own)})" for joint, other, own in errors
            if own > WEAK * other]  # fmt: skip
    if not weak:
        return []
    return [
        f"But the error in total counts large torques most, and so does ols. Joint by joint wls leaves less at "
        f"{several(weak)}: take wls where those joints' torques or parameters matter."
    ]


def _version(chosen: Judged, bodies: Mapping[str, float]) -> list[str]:
    """Point to the physically consistent version where it costs nothing."""
    if not chosen.possible or chosen.name not in bodies or bodies[chosen.name] > AS_GOOD * chosen.error:
        return []
    return [
        f"Its physically consistent version leaves {error_words(bodies[chosen.name])}, so it costs nothing: take that "
        "for simulation and control design."
    ]


def points(difference: float) -> str:
    """Write a difference of errors, in percentage points."""
    return f"{100 * difference:.2g} points".replace("-", "\N{MINUS SIGN}")
