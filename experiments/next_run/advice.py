"""`excitor next`, without its printing: what is known, what is missing, and what to do about it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from excitor.experiments.campaign import InvalidCampaign, OpenCampaign, open_campaign
from excitor.experiments.designing.setup import Setup, set_up
from excitor.experiments.model_json import FILE
from excitor.experiments.next_run.aims import Aim, aims_of
from excitor.experiments.next_run.candidates import Tell, candidates, open_by_held
from excitor.experiments.next_run.known import Known, known_of
from excitor.experiments.next_run.ranking import Ranked, ranked
from excitor.experiments.status import advice, status
from excitor.robots.arrays import one_blas_thread
from excitor.robots.errors import ExcitorError

STOP = "stop: targets met"


@dataclass(frozen=True, eq=False, slots=True)
class Advised:
    """What to do next."""

    known: Known
    aims: tuple[Aim, ...]
    ranked: tuple[Ranked, ...]  # best first; none where targets are met
    notes: tuple[str, ...]  # what stays open, and what was not looked at

    @property
    def missing(self) -> tuple[Aim, ...]:
        """List what misses its target, worst first."""
        return tuple(sorted((a for a in self.aims if not a.met), key=lambda a: -a.now / max(a.target, 1e-300)))

    @property
    def sentence(self) -> str:
        """Say it in one sentence."""
        if not self.missing:
            return STOP
        many = len(self.missing)
        what = f"{many} of {len(self.aims)} targets {'is' if many == 1 else 'are'} missed"
        if not self.ranked:
            return f"{what}, and no run was found that could be made"
        best = self.ranked[0]
        return f"{what}; next: {best.candidate.what}, {best.candidate.seconds / 60.0:.1f} min of robot time"


@one_blas_thread()
def advise(folder: Path, *, seed: int = 0, tell: Tell = lambda _: None, warn: Tell = lambda _: None) -> Advised:
    """Look at a campaign's model and say what to run next; ExcitorError where there is nothing to go on."""
    check_model(folder, warn)
    campaign = open_campaign(folder)
    tell("reading the model and the logs it was identified from …")
    known = known_of(campaign)
    aims = aims_of(known)
    notes = open_by_held(known)
    missing = [aim for aim in aims if not aim.met]
    if not missing:
        return Advised(known, aims, (), tuple(notes))
    found, why_not = candidates(known, setup_of(campaign), missing, seed=seed, tell=tell)
    repeats = "errors that repeat in every period are no noise: no repetition averages them away"
    return Advised(known, aims, tuple(ranked(known.given, aims, found)), (*notes, *why_not, repeats))


def check_model(folder: Path, warn: Tell) -> None:
    """Refuse a campaign without a model, saying what comes first; warn of a model that is older than its inputs."""
    stages = status(folder)
    model = next(stage for stage in stages if stage.name == FILE)
    if model.state == "missing":
        raise ExcitorError(f"{folder / FILE}: is missing, so nothing is known yet; {advice(stages)}")
    if model.state == "stale":
        warn(f"warning: {FILE} is stale: {model.reason}; what follows is of the model as it is. {model.remedy}")


def setup_of(campaign: OpenCampaign) -> Setup | str:
    """Set up the design problem, or say why there is none: recordings may come without a cell."""
    try:
        return set_up(campaign)
    except InvalidCampaign as error:
        return "; ".join(error.problems[:3])


def advised_data(advised: Advised) -> dict[str, Any]:
    """Write it for scripts."""
    targets = advised.known.campaign.content.targets.model_dump()
    if targets["relative_sigma_percent"] is None:
        targets["relative_sigma_percent"] = advised.known.campaign.content.design.target_relative_sigma_percent
    return {
        "stop": not advised.missing,
        "sentence": advised.sentence,
        "targets": targets,
        "noise": advised.known.noise.source,
        "aims": [
            {"name": a.name, "kind": a.kind, "unit": a.unit, "size": a.size, "sigma": a.now, "target": a.target}
            | {"met": a.met}
            for a in advised.aims
        ],
        "candidates": [
            {
                "what": one.candidate.what,
                "kind": one.candidate.kind,
                "robot_time_s": one.candidate.seconds,
                "gain": one.gain,
                "gain_per_s": one.rate,
                "times_until_targets_are_met": one.times,
                "teaches": list(one.teaches),
                "expected_sigma": {a.name: x for a, x in zip(advised.aims, one.expected, strict=True)},
                "how": list(one.candidate.how),
            }
            for one in advised.ranked
        ],
        "notes": list(advised.notes),
    }
