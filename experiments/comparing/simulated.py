"""Where does a simulation of each model go? Open loop for direct drives, under a controller for geared robots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from excitor.experiments.comparing.judge import Judged
from excitor.experiments.comparing.loops import ASSUMED, beginning
from excitor.experiments.comparing.prepare import Prepared
from excitor.experiments.identification import Tell
from excitor.experiments.page.words import finite
from excitor.identify.samples import Samples
from excitor.identify.validate import closed_loop, open_loop, standard_parameters
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError

FIRST_S = 1.0  # s over which open-loop errors are told as well: later ones are of the integration more than the model
LONGEST_S = 2.0  # s of each run that are simulated


@dataclass(frozen=True)
class SimulatedRun:
    """One model simulated along one run."""

    method: str
    run: str
    role: str  # "fitted" or "held out"
    error: float  # open loop: rms of positions over the joints, rad or m; closed loop: of torques, as a share
    first: float  # open loop: of the first second; closed loop: rms of positions
    until: float  # s that the simulation followed
    sentence: str  # why there is none


@dataclass(frozen=True)
class Simulated:
    """Simulations of all models in one of the two ways."""

    kind: str
    sentences: tuple[str, ...]
    error_title: str
    first_title: str
    rows: tuple[SimulatedRun, ...]

    def data(self) -> dict[str, Any]:
        """Write it for scripts."""
        return {
            "kind": self.kind,
            "sentence": " ".join(self.sentences),
            "error_title": self.error_title,
            "first_title": self.first_title,
            "rows": [
                {
                    "method": row.method,
                    "run": row.run,
                    "role": row.role,
                    "error": finite(row.error),
                    "error_first": finite(row.first),
                    "until": finite(row.until),
                    "sentence": row.sentence,
                }
                for row in self.rows
            ],
        }


def simulate(prepared: Prepared, judged: Sequence[Judged], tell: Tell) -> Simulated | None:
    """Simulate every model along the first moving run of each kind; None where none moves."""
    runs = {
        role: beginning(next(run for run in found if not run.static), LONGEST_S)
        for role, found in (("fitted", prepared.examined.known), ("held out", prepared.examined.unseen))
        if any(not run.static for run in found)
    }
    if not runs:
        return None
    geared = bool(prepared.problem.robot.drive.rotors)
    tell(f"simulating the models {'under a controller' if geared else 'open loop'}")
    return in_closed_loop(prepared, judged, runs) if geared else in_open_loop(prepared, judged, runs)


def in_open_loop(prepared: Prepared, judged: Sequence[Judged], runs: Mapping[str, Samples]) -> Simulated:
    """Integrate every model under the measured torques alone."""
    robot, rows, said = (
        prepared.problem.robot,
        [],
        (
            f"From the measured state at its start, up to {LONGEST_S:g} s of a run were integrated under the measured "
            "torques alone. Nothing corrects such a simulation: the smallest bias grows, and the first second tells "
            "more of a model than the rest.",
        ),
    )
    for entry in judged:
        chi = standard_parameters(robot, entry.estimate)
        found = open_loop(robot, chi, list(runs.values()), first_s=FIRST_S)
        if found.refused:
            rows += [blank(entry.name, run.run, role, found.refused) for role, run in runs.items()]
            continue
        for (role, measured), run in zip(runs.items(), found.runs, strict=True):
            whole = len(measured) / measured.sample_rate_hz
            rows.append(
                SimulatedRun(
                    entry.name,
                    run.run,
                    role,
                    mean_square(run.rms),
                    mean_square(run.first_rms),
                    min(run.diverged_at, whole),
                    f"lost after {run.diverged_at:.2g} s" if run.diverged_at < np.inf else "",
                )
            )
    return Simulated(
        "open loop", said, "position error, rms, rad or m", f"in the first {FIRST_S:g} s, rad or m", tuple(rows)
    )


def in_closed_loop(prepared: Prepared, judged: Sequence[Judged], runs: Mapping[str, Samples]) -> Simulated | None:
    """Simulate every model under one assumed controller along the measured motion."""
    robot, servo, problem = prepared.problem.robot, prepared.servo, prepared.problem
    if servo is None:
        return None
    rows = []
    for entry in judged:
        chi = standard_parameters(robot, entry.estimate)
        for role, run in runs.items():
            try:
                found = closed_loop(robot, chi, [run], servo, rows=problem.rows)
            except ExcitorError as error:
                rows.append(blank(entry.name, run.run, role, str(error)))
                continue
            if found.refused:
                rows.append(blank(entry.name, run.run, role, found.refused))
                continue
            done = found.runs[0]
            rows.append(
                SimulatedRun(
                    entry.name,
                    run.run,
                    role,
                    torque_share(prepared, run, done.tau),
                    mean_square(done.position_rms),
                    len(run) / run.sample_rate_hz,
                    "",
                )
            )
    said = (
        f"Up to {LONGEST_S:g} s of a run were simulated along the measured motion: {ASSUMED}. Open loop would show how "
        "far errors integrate through a geared drive, not how good a model is.",
    )
    return Simulated("closed loop", said, "torque error", "position error, rms, rad or m", tuple(rows))


def torque_share(prepared: Prepared, run: Samples, tau: FloatArray) -> float:
    """‖τ - τ_s‖ / ‖τ‖ over all joints, thinned as the equations are."""
    thin = prepared.problem.rows.decimate or (lambda x: x)
    size = float(np.linalg.norm(thin(run.tau)))
    return float(np.linalg.norm(thin(run.tau - tau))) / size if size > 0.0 else float("inf")


def mean_square(values: FloatArray) -> float:
    """Root mean square over the joints."""
    return float(np.sqrt(np.mean(np.square(values))))


def blank(method: str, run: str, role: str, why: str) -> SimulatedRun:
    """Tell why a model was not simulated."""
    return SimulatedRun(method, run, role, np.nan, np.nan, np.nan, why)
