"""Open-loop simulation of a torque campaign's runs over their whole length, beside what was measured.

[ChavezOlivares2012] figs. 4 to 7: positions under the identification's torques and under new ones; the torques beside
the computed ones are in the section of measured and predicted torques.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from excitor.experiments.logs import differentiated, read_measured, without_load
from excitor.experiments.report.evidence import Evidence, curve, stretch_means
from excitor.experiments.report.html import compact, entries, subtable
from excitor.identify.samples import Samples
from excitor.identify.validate import open_loop, standard_parameters
from excitor.robots.arrays import finite

SIZE = 800  # points of a curve
FIRST_S = 2.0


def open_loop_data(evidence: Evidence) -> dict[str, Any] | None:
    """Simulate the model under each run's recorded torques; None where a controller held the motion."""
    campaign, robot, model = evidence.campaign, evidence.robot, evidence.model
    if campaign.content.design.excitation != "torque":
        return None
    roles, recorded = {run.name: run.role for run in campaign.content.run}, []
    for run in campaign.content.run:
        if run.static or run.program is not None or run.matlab is not None:
            continue
        measured = read_measured(campaign, run)
        motion = differentiated(measured.q, measured.sample_rate_hz)
        samples = Samples(run.name, motion, measured.tau, measured.sample_rate_hz, phase=0.0)
        recorded.append(without_load(campaign, run, samples))
    if not recorded:
        return None
    chi = model.standard.values if model.standard is not None else standard_parameters(robot, model.delivered)
    found = open_loop(robot, chi, recorded, first_s=FIRST_S)
    unit = np.where(robot.mechanism.prismatic, 1e3, 180.0 / np.pi)
    runs = []
    for samples, done in zip(recorded, found.runs, strict=False):  # none where nothing was simulated
        t = np.arange(len(samples)) / samples.sample_rate_hz
        numbers = {key: [finite(x) for x in unit * getattr(done, key)] for key in ("norm", "rms", "first_rms")}
        pairs = zip((unit * samples.motion.q).T, (unit * done.q).T, strict=True)
        runs.append(
            {
                "name": done.run,
                "role": "training" if roles[done.run] == "identify" else "validation",
                "n_samples": done.n_samples,
                "sample_rate_hz": done.sample_rate_hz,
                "diverged_at_s": finite(done.diverged_at),
                **numbers,
                "time": compact(stretch_means(t, SIZE)),
                "joints": [{"measured": curve(q, SIZE), "simulated": curve(s, SIZE)} for q, s in pairs],
            }
        )
    units = ["mm" if slides else "°" for slides in robot.mechanism.prismatic]
    return {"first_s": FIRST_S, "units": units, "sentences": list(found.sentences()), "runs": runs}


def open_loop_context(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show each run's errors by joint, and the positions."""
    given = data.get("open_loop")
    if not isinstance(given, Mapping):
        return None
    names = entries(subtable(data, "robot"), "joints")
    keys = ("norm", "rms", "first_rms")
    rows = [
        {"run": run["name"], "role": run["role"], "joint": name, "unit": given["units"][j], "samples": run["n_samples"]}
        | {key: run[key][j] for key in keys}
        for run in entries(given, "runs")
        for j, name in enumerate(names)
    ]
    runs = [{key: run[key] for key in ("name", "role", "sample_rate_hz")} for run in entries(given, "runs")]
    return {"sentences": entries(given, "sentences"), "first_s": given["first_s"], "rows": rows, "runs": runs}
