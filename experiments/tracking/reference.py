"""The motion that is followed: a process or a validation run, at the steps of a servo loop, begun at rest.

Before a motion that is on its way already, the robot comes from rest: q̇ = r(s) q̇(0), r the envelope of the ramps.
"""

from dataclasses import dataclass

import numpy as np

from excitor.design.motion import rise
from excitor.experiments.campaign import FILE, InvalidCampaign, OpenCampaign
from excitor.experiments.designing.setup import pendant_to_si, set_up
from excitor.experiments.designing.task import task_motion
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion

LONGEST = 40.0  # s of a motion that are looked at
LEAD = 1.0  # s, before the motion
_REST = 0.5  # s of it at rest, while controllers settle


@dataclass(frozen=True, eq=False, slots=True)
class Reference:
    """What is commanded; the first `lead` rows are the way into the motion, and are not judged."""

    name: str
    step: float  # s
    motion: Motion  # (n_steps, n_joints)
    lead: int
    cut: float | None  # s after which the motion was left out; None: all of it is there

    @property
    def seconds(self) -> float:
        """Tell how long the judged part takes."""
        return float((len(self.motion) - self.lead) * self.step)


def reference_of(name: str, times: FloatArray, q: FloatArray, step: float) -> Reference:
    """Put a motion, positions q (n, n_joints) at rising times, on a servo loop's clock."""
    from scipy.interpolate import CubicSpline

    if len(times) < 4:
        raise ExcitorError(f"{name}: has {len(times)} samples, expected at least 4 to follow")
    duration = float(times[-1] - times[0])
    cut = LONGEST if duration > LONGEST else None
    spline = CubicSpline(times - times[0], q, axis=0)
    t = step * np.arange(int(min(duration, LONGEST) / step) + 1)
    q, dq, ddq = (spline(t, order) for order in range(3))
    n, still = round(LEAD / step), round(_REST / step)
    s = (np.arange(n) - still) / (n - still)
    span = LEAD - _REST
    share, push = np.where(s > 0.0, rise(s, 0), 0.0), np.where(s > 0.0, rise(s, 1), 0.0) / span
    before = np.cumsum(share[::-1])[::-1] * step + 0.5 * step * (1.0 - share)
    lead = (q[0] - before[:, None] * dq[0], share[:, None] * dq[0], push[:, None] * dq[0])
    whole = (np.concatenate([a, b]) for a, b in zip(lead, (q, dq, ddq), strict=True))
    return Reference(name, step, Motion(*whole), n, cut)


def task_reference(campaign: OpenCampaign, step: float) -> Reference:
    """Take the campaign's task."""
    setup = set_up(campaign)
    task_motion(setup)  # which says what is wrong with it
    name = str(setup.design.task)
    try:
        table = np.loadtxt(campaign.folder / name, delimiter=",", skiprows=1, encoding="utf-8-sig", ndmin=2)
    except (OSError, ValueError) as error:
        raise InvalidCampaign(campaign.folder / FILE, [f"design.task: {name!r} {error}"]) from None
    return reference_of(f"task {name}", table[:, 0], pendant_to_si(setup.robot, table[:, 1:]), step)


def run_reference(samples: Samples, step: float) -> Reference:
    """Take the motion of a run, as it was measured."""
    times = np.arange(len(samples)) / samples.sample_rate_hz
    return reference_of(f"run {samples.run!r}", times, samples.motion.q, step)
