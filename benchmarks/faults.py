"""Benchmark of faults: faulty campaigns are reported before anything is estimated, healthy ones pass."""

import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.experiments.identification import UnusableData, examine
from excitor.experiments.log_formats import format_of
from excitor.experiments.virtual.machine import CHANNELS, FAULTS, Fault, aimed, run_program
from excitor.experiments.virtual.robot import QUIET, draw_truth
from excitor.identify.diagnose import usable
from excitor.robots.arrays import one_blas_thread
from excitor.robots.errors import ExcitorError
from tests.faults import Campaign, campaign, log_campaign, named, read_campaign

INJECTED, HEALTHY = 50, 100
TENTH = 10
MOST_FALSE = 1  # of a hundred healthy campaigns
CUT = 0.01  # of a run's samples, in which a drive would give more if it could: less is no fault that shows
_HEALTHY_FROM = 10_000  # seeds of healthy campaigns, apart from those of faulty ones


class CannotShow(Exception):
    """A fault that a campaign's motion or log does not show."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Result of a campaign."""

    campaign: str
    fault: Fault | None
    refusal: str  # empty where it would have been identified
    right: bool  # the fault was named, or a healthy campaign passed

    def told(self) -> str:
        """Describe a wrong result."""
        what = f"{self.fault.name} {self.fault.channel}".strip() if self.fault else "healthy"
        return f"{self.campaign}: {what}: {self.refusal.partition(chr(10))[0] or 'no message'}"


def run(full: bool = False) -> Report:
    """Inject faults into random campaigns and let others be healthy; `full` tries all, else a fixed tenth of them."""
    share = 1 if full else TENTH
    start = time.process_time()
    with one_blas_thread():
        tried = [injected(number) for number in range(INJECTED // share)]
        healthy = [judged(campaign(_HEALTHY_FROM + number), None) for number in range(HEALTHY // share)]
    faulty = [one for one, _ in tried]
    alarms = [one for one in healthy if not one.right]
    redrawn = [why for _, reasons in tried for why in reasons]
    count, right = float(len(faulty)), float(sum(one.right for one in faulty))
    most = float(MOST_FALSE if full else 0)
    return Report(
        "bench",
        "faults",
        [
            Figure("faults.injected", count, "", float(INJECTED // share), "at least"),
            Figure("faults.named", right, "", count, "equal"),
            Figure("faults.false_alarms_of_100", float(len(alarms) * share), "", most, "at most"),
        ],
        _context(faulty, healthy, redrawn) | {"cpu_s": round(time.process_time() - start, 1)},
    )


def injected(number: int) -> tuple[Judged, list[str]]:
    """Inject the next fault into a random campaign; where it cannot show, into another; return the reasons, too."""
    reasons: list[str] = []
    for attempt in range(20):
        drawn = campaign(number + 1000 * attempt)
        try:
            fault = chosen(number, drawn)
        except CannotShow as reason:
            reasons.append(f"{drawn.name}: {reason}")
            continue
        return judged(drawn, fault), reasons
    raise RuntimeError(f"fault {number} shows in no campaign: {'; '.join(reasons)}")


def chosen(number: int, drawn: Campaign) -> Fault:
    """Choose the kinds of faults and their channels in turn; joints and sizes at random."""
    name = list(FAULTS)[number % len(FAULTS)]
    ways = CHANNELS.get(name, ("",))
    fault = replace(FAULTS[name], channel=ways[number // len(FAULTS) % len(ways)])
    main = next(plan for plan in drawn.plans if plan.body.series is not None)
    efforts = list(format_of(drawn.target, drawn.form).efforts)
    if (fault.name, fault.channel) == ("missing-gear", "torque") and "current" in efforts and _currents(drawn):
        raise CannotShow("the log has currents, in which there are no gears")
    if fault.name == "saturated-current" and efforts == ["torque sensor"]:
        raise CannotShow("the log has torques of sensors at the joints, and no signals of the drives")
    try:
        fault = aimed(fault, main, drawn.seed)
    except ValueError as error:
        raise CannotShow(str(error)) from None
    if fault.name == "saturated-current" and _cut(drawn, fault) < CUT:
        raise CannotShow("the robot happens to need no more than its drive gives")
    return fault


def judged(drawn: Campaign, fault: Fault | None) -> Judged:
    """Log a campaign, read it as identification does, and check the message."""
    refusal = ""
    with tempfile.TemporaryDirectory(prefix="excitor-bench-") as folder:
        try:
            logs = log_campaign(Path(folder), drawn, (fault,) if fault else ())
            runs = read_campaign(Path(folder), drawn, logs)
            findings = examine(drawn.robot, runs)
            if not usable(findings):
                raise UnusableData(findings)
        except UnusableData as error:
            refusal = "\n".join(str(finding) for finding in error.findings if finding.level == "unusable")
        except ExcitorError as error:
            refusal = str(error)
    joints = drawn.robot.joint_names
    return Judged(drawn.name, fault, refusal, named(fault, joints, refusal) if fault else not refusal)


def _currents(drawn: Campaign) -> bool:
    """Return True if a robot's log has currents where its format can have them."""
    return not np.isnan(drawn.robot.drive.torque_from_current).any()


def _cut(drawn: Campaign, fault: Fault) -> float:
    """Compute the share of a run in which a healthy drive exceeds the faulty drive's maximum."""
    (j,) = fault.joints
    main = next(plan for plan in drawn.plans if plan.body.series is not None)
    quiet = replace(drawn.settings, white=0.0, slow=0.0, jitter=0.0, dropped=0.0, encoder_counts=QUIET.encoder_counts)
    truth = draw_truth(drawn.robot, drawn.seed, quiet)
    with_it, without = (
        np.abs(run_program(truth, main, seed=drawn.seed, faults=faults).torque_motor[:, j]) for faults in ((fault,), ())
    )
    return float(np.mean(without > 1.001 * with_it.max()))


def _context(faulty: list[Judged], healthy: list[Judged], redrawn: list[str]) -> dict[str, Any]:
    kinds = Counter(one.fault.name for one in faulty if one.fault)
    right = Counter(one.fault.name for one in faulty if one.fault and one.right)
    return {
        "kinds": {name: f"{right[name]} of {kinds[name]} named" for name in FAULTS if kinds[name]},
        "missed": [one.told() for one in faulty if not one.right],
        "false_alarms": [one.told() for one in healthy if not one.right],
        "healthy": len(healthy),
        "redrawn": redrawn,
    }
