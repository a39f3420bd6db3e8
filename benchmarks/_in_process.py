"""Figures of in-process identification: public logs of two processes, as they are, through `excitor identify`."""

import shutil
import tempfile
from pathlib import Path

import numpy as np

from excitor.experiments.campaign import open_campaign
from excitor.experiments.figures import Figure
from excitor.experiments.identification import IdentifiedModel, identify
from excitor.experiments.studies.qrc350 import absolute_errors, read_recordings, reduced
from excitor.robots.base import declared_names

CAMPAIGN = """robot = "qrc350"
[matlab]
q = "q_meas.average"
dq = "dq_meas.average"
ddq = "ddq_meas.average"
tau = "tau_meas.average"
variance = "tau_meas.variance"
time = "time_vec_save"
[[run]]
name = "process"
log = "identification.mat"
[[run]]
name = "desired"
log = "validation.mat"
role = "validate"
matlab = { q = "deg_q", dq = "deg_dq", ddq = "deg_ddq", tau = "tau", time = "time_vec_save" }
"""
IN_PROCESS = '[identify]\nmode = "in-process"\n'


def process_figures(data: Path) -> list[Figure]:
    """Identify both processes beside the study: errors are mean |τ - τ̂| / mean |τ| of joints that move, on average."""
    recordings = read_recordings(data)
    study = {number: reduced(recordings, number, "validation", preset=number == 1).estimate for number in (1, 2)}
    first, second = (identified(data, number, more) for number, more in ((1, IN_PROCESS), (2, "")))
    unseen = recordings.equations["process 2 validation"]
    theirs = absolute_errors(unseen, np.array([study[2].value(name) for name in unseen.names]))[1]
    assert second.held_out is not None
    joints = [unseen.joint_names.index(name) for name in second.held_out.joints]
    ratio = 100.0 * second.held_out.model.mean_absolute_mean / float(theirs[joints].mean())
    apart = abs(first.estimate.condition / study[1].condition - 1.0)
    names = declared_names(recordings.robot)
    alike = {names[name] for name in first.estimate.names} == set(study[1].names)
    return [
        Figure("logs.process2_condition", second.estimate.condition, "", 3.5, "at most"),
        Figure("logs.process2_parameters", float(len(second.estimate.names)), "", 20.0, "at most"),
        Figure("logs.process2_error_ratio", ratio, "", 1.05, "at most"),
        Figure("logs.process1_condition_apart", apart, "", 0.02, "at most"),
        Figure("logs.process1_same_set", float(alike), "", 1.0, "equal"),
    ]


def identified(data: Path, number: int, more: str = "") -> IdentifiedModel:
    """Identify a process by a campaign."""
    with tempfile.TemporaryDirectory(prefix="excitor-") as name:
        folder = Path(name)
        (folder / "campaign.toml").write_text(CAMPAIGN + more)
        for kind in ("identification", "validation"):
            shutil.copyfile(data / f"{kind}_process{number}.mat", folder / f"{kind}.mat")
        return identify(open_campaign(folder))
