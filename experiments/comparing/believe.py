"""What to believe where methods disagree beyond their intervals, and why they do: in sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from excitor.experiments.comparing.bias import Bias
from excitor.experiments.comparing.difference import Difference
from excitor.experiments.comparing.judge import Judged, Pair, pair_of
from excitor.experiments.comparing.symptoms import Symptoms
from excitor.experiments.comparing.words import error_words
from excitor.experiments.page.words import percent, show
from excitor.experiments.report.words import some
from excitor.identify.diagnose import several
from excitor.robots.robot import Robot

CHANCE = 0.05  # of the parameters may differ by chance
LATE = 1e-4  # s
VAGUE = 1.5  # times the error of the model taken: far worse
REWARDED = 1.3  # times the error: instruments that predict worse than that are wrong, not unbiased
MEASURED = ("plain", "outliers", "weights", "prior")  # take the measured motion for the true one, and differ from iv
UNWEIGHTED = ("plain", "outliers", "prior")  # weigh joints, and differ from ols
SMOOTH = ("iv", "didim", "input-error", "filtered dynamic", "energy", "filtered power")  # use no measured acceleration
FRICTION = 0.4  # of what differs: then it is about friction


@dataclass(frozen=True)
class Dissent:
    """A method that disagrees with the one recommended."""

    method: Judged
    pair: Pair
    names: tuple[str, ...]  # of the parameters that are apart

    chosen: str  # the one recommended

    @property
    def kind(self) -> str:
        """What sets the two apart: mostly what the method does otherwise than least squares, or what the other does."""
        own, other = kind_of(self.method.name), kind_of(self.chosen)
        if other == "instruments" and own in MEASURED:
            return "measured"
        return "unweighted" if other == "weights" and own in UNWEIGHTED else own


def kind_of(method: str) -> str:
    """Name what sets a method apart."""
    if any(word in method for word in ("energy", "power", "filtered")):
        return "timing"
    kinds = {"iv": "instruments", "didim": "simulated", "input-error": "simulated", "irls": "outliers"}
    return (kinds | {"tls": "columns", "ridge": "prior", "ols": "weights", "ml": "colour"}).get(method, "plain")


def dissents(judged: Sequence[Judged], pairs: Sequence[Pair], chosen: str) -> list[Dissent]:
    """Find the methods that differ from one in more parameters than chance explains."""
    found = []
    for entry in judged:
        pair = pair_of(pairs, entry.name, chosen)
        if pair is not None and pair.apart is not None and len(pair.apart) > max(1.0, CHANCE * pair.compared):
            found.append(Dissent(entry, pair, pair.apart, chosen))
    return found


def beliefs(
    robot: Robot,
    judged: Sequence[Judged],
    chosen: Judged,
    *,
    found: Sequence[Dissent],
    compared: Mapping[str, Difference],
    signs: Symptoms,
    bias: Bias | None,
) -> list[str]:
    """Say which methods disagree with the one recommended, why, and which to believe."""
    said = [] if bias is None else [bias.sentence]
    said += _vague(judged, chosen, found)
    if len(judged) == 1:
        return said
    if not found:
        return [*said, f"No other method contradicts {chosen.name}: parameters lie within each other's intervals."]
    for kind, explain in EXPLANATIONS.items():
        group = [dissent for dissent in found if dissent.kind == kind]
        if group:
            said.append(f"{_who(chosen, group)} {explain(signs, bias)} {_decided(chosen, group, compared, bias)}")
    return said + _friction(robot, chosen, found, signs)


def _vague(judged: Sequence[Judged], chosen: Judged, found: Sequence[Dissent]) -> list[str]:
    """Name methods that contradict nothing only because they hardly know anything."""
    loud = {dissent.method.name for dissent in found}
    vague = [e for e in judged if e.error > VAGUE * chosen.error and e.name not in loud]
    if not vague:
        return []
    rows = max(entry.estimate.n_rows for entry in vague)
    them = "its" if len(vague) == 1 else "their"
    fewer = rows < chosen.estimate.n_rows
    why = f"with {rows} equations for {len(chosen.estimate.names)} parameters " if fewer else ""
    return [
        f"{several([entry.name for entry in vague])} {'predicts' if len(vague) == 1 else 'predict'} far worse "
        f"({several([error_words(entry.error) for entry in vague])}) and still "
        f"hardly {'contradicts' if len(vague) == 1 else 'contradict'} anything: {why}{them} intervals are so wide that "
        "they say little."
    ]


def _who(chosen: Judged, group: Sequence[Dissent]) -> str:
    widest = max(group, key=lambda dissent: len(dissent.names))
    names = several([dissent.method.name for dissent in group])
    verb = "contradicts" if len(group) == 1 else "contradict"
    most = "" if len(group) == 1 else "up to "
    return (
        f"{names} {verb} {chosen.name} in {most}{len(widest.names)} of {widest.pair.compared} parameters "
        f"({some(widest.names, 5)}), by {percent(max(dissent.pair.torque for dissent in group))} of the torques."
    )


def _timing(signs: Symptoms, _: Bias | None) -> str:
    said = (
        "Momentum, energy and power weigh the same samples in another way than torques do, and so what filters left "
        "and the moment at which a torque was sampled."
    )
    if signs.late is not None and abs(signs.late) > LATE:
        when = "after" if signs.late > 0.0 else "before"
        return (
            f"{said} Torques seem to come {show(1e3 * abs(signs.late), 2)} ms {when} their motion, which alone can "
            "make them disagree: see to that first, and compare again."
        )
    return (
        f"{said} No common delay shows; then it is the weights, strong joints and fast motion counting most, or noise "
        "in accelerations, which only torques and power need."
    )


def _outliers(signs: Symptoms, _: Bias | None) -> str:
    if signs.tails:
        verb = "has" if len(signs.tails) == 1 else "have"
        return (
            f"It trusts samples less the worse they fit, and {several(signs.tails)} {verb} far more large residuals "
            "than noise makes: moments, such as reversals or contacts, in which the model lacks something."
        )
    return "It trusts samples less the worse they fit, though residuals show no outliers; so it discards good data."


def _instruments(_: Symptoms, bias: Bias | None) -> str:
    cause = " That is the difference which the test found." if bias is not None and bias.found else ""
    return f"It uses the measured motion only through a simulation, which fast noise does not pass.{cause}"


def _simulated(_: Symptoms, __: Bias | None) -> str:
    return (
        "Such methods fit torques simulated under a controller in place of measured motion; they are right only as far "
        "as that controller, and what was filtered, are those of the robot."
    )


def _columns(_: Symptoms, __: Bias | None) -> str:
    return (
        "It takes the columns of the equations for noisy too. Believe it where positions are hardly filtered; where "
        "they are, what the model lacks is no such noise."
    )


def _prior(_: Symptoms, __: Bias | None) -> str:
    return "It draws what data hardly tell towards what was known before: its numbers there are the prior's."


def _weights(_: Symptoms, __: Bias | None) -> str:
    return "Without weights, joints with large torques decide also over the parameters of the small ones."


def _colour(_: Symptoms, __: Bias | None) -> str:
    return (
        "It takes what the model leaves for coloured noise that joints share, and trusts fast changes of torque more "
        "than slow ones. What a model lacks is no noise, and then its parameters move to where that matters least."
    )


def _plain(_: Symptoms, __: Bias | None) -> str:
    return "Plain least squares trusts every sample of a joint alike, also those that fit badly."


def _measured(_: Symptoms, __: Bias | None) -> str:
    return (
        "Least squares take the measured motion for the true one, noise and all; iv uses it only through a simulation, "
        "which fast noise does not pass."
    )


def _unweighted(_: Symptoms, __: Bias | None) -> str:
    return "ols does without weights, so that joints with large torques decide also over the parameters of the others."


EXPLANATIONS = {
    "measured": _measured,
    "unweighted": _unweighted,
    "instruments": _instruments,
    "simulated": _simulated,
    "timing": _timing,
    "outliers": _outliers,
    "weights": _weights,
    "colour": _colour,
    "columns": _columns,
    "prior": _prior,
    "plain": _plain,
}


def _decided(chosen: Judged, group: Sequence[Dissent], compared: Mapping[str, Difference], bias: Bias | None) -> str:
    """Say which of the methods to believe; those that noisy motion may have put behind are not decided over by it."""
    behind = [dissent for dissent in group if _misled(chosen, dissent, bias)]
    others = [dissent for dissent in group if not _misled(chosen, dissent, bias)]
    if group[0].kind == "unweighted":
        errors = several([f"{dissent.method.name} {error_words(dissent.method.error)}" for dissent in group])
        return (
            f"The held-out error in total ({errors}, {chosen.name} {error_words(chosen.error)}) counts large torques "
            f"most too: believe {chosen.name} for their joints, and compare the others joint by joint."
        )
    said = [_whom(chosen, others, compared, alone=not behind)] if others else []
    if behind:
        surely = bias is not None and bias.concerns(chosen.name)
        said.append(_either(chosen, behind) if surely else _open(chosen, behind))
    return " ".join(said)


def _misled(chosen: Judged, dissent: Dissent, bias: Bias | None) -> bool:
    """Tell whether the held-out error is no judge: noisy motion rewards the bias that it makes."""
    if bias is None or dissent.method.error > REWARDED * chosen.error:
        return False
    if bias.concerns(chosen.name):
        return dissent.kind == "instruments"
    return bias.suspects(chosen.name) and dissent.method.name in SMOOTH


def _open(chosen: Judged, group: Sequence[Dissent]) -> str:
    names = several([f"{dissent.method.name} {error_words(dissent.method.error)}" for dissent in group])
    return (
        f"The held-out error ({names}, {chosen.name} {error_words(chosen.error)}) does not settle it: that motion is "
        f"noisy too, and rewards the bias that the test suspects in {chosen.name}. Until positions are filtered more, "
        "take such parameters for known only as far as both intervals together."
    )


def _either(chosen: Judged, group: Sequence[Dissent]) -> str:
    name = group[0].method.name
    return (
        f"Held out {name} leaves {error_words(group[0].method.error)} and {chosen.name} {error_words(chosen.error)}, "
        f"but that motion is noisy too and rewards the bias: believe {chosen.name} for torques along measured motion, "
        f"and {name} for the numbers themselves, for simulation and for feed-forward along planned motion."
    )


def _whom(chosen: Judged, group: Sequence[Dissent], compared: Mapping[str, Difference], *, alone: bool = True) -> str:
    """Decide by the held-out errors; `alone`: these are all that were named before."""
    alike = [compared[d.method.name].within_noise or d.method.error <= chosen.error for d in group]
    near = [d.method for d, as_good in zip(group, alike, strict=True) if as_good]
    far = [d.method for d, as_good in zip(group, alike, strict=True) if not as_good]
    said = []
    if far:
        errors = several([f"{entry.name} {error_words(entry.error)}" for entry in far])
        verb = (
            "it is"
            if len(group) == 1 and alone
            else "they are"
            if len(far) == len(group) and alone
            else f"{several([e.name for e in far])} {'predicts' if len(far) == 1 else 'predict'}"
        )
        said.append(
            f"Held out {verb} worse ({errors}, {chosen.name} {error_words(chosen.error)}), so believe {chosen.name}."
        )
    if near:
        said.append(
            f"Held out, {several([entry.name for entry in near])} and {chosen.name} predict equally well, so these "
            "motions do not decide: take such parameters for known only as far as both intervals together."
        )
    return " ".join(said)


def _friction(robot: Robot, chosen: Judged, found: Sequence[Dissent], signs: Symptoms) -> list[str]:
    """Say where it is friction that estimators see differently."""
    friction = {term.parameter for term in robot.drive.friction}
    names = [name for dissent in found for name in dissent.names]
    about = sum(name in friction for name in names) >= FRICTION * len(names)
    if not about and not signs.friction:
        return []
    said = "Much of what differs is friction." if about else ""
    if signs.friction:
        said += (
            f" What {chosen.name} leaves at {several(signs.friction)} follows the velocity: friction there has another "
            "form than the robot's model, and every method bends other parameters to make up for it."
        )
    return [said.strip()]
