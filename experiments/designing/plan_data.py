"""What plan.html shows of a design: sampled motions, torques, the robot's capsules in the cell, tables."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from excitor.design.approach import path_motion
from excitor.design.certify.certificate import Certificate
from excitor.design.motion import executed, executed_motion, phases
from excitor.design.search import STAGES
from excitor.design.slow import slow_motion, slow_series
from excitor.design.torque import torque_phases
from excitor.experiments.designing.campaign_design import Designed
from excitor.experiments.designing.file import finite, margin_data
from excitor.experiments.designing.periodic import DesignedRun
from excitor.experiments.designing.setup import Setup
from excitor.experiments.designing.slow import DesignedSlowRun
from excitor.experiments.designing.torque import DesignedTorqueRun
from excitor.experiments.page.bodies import base_capsules, frames, moving_capsules
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.robot import Motion, Robot

CHART_SAMPLES = 600
FRAMES = 360
WAY_FRAMES = 60
_LONGEST_SHOWN = 600.0  # s of a slow run
_CORRELATION_MOST = 90  # columns that a map can show


def plan_data(designed: Designed) -> dict[str, Any]:
    """Collect the page's data."""
    setup, robot = designed.setup, designed.setup.robot
    scene = setup.constraints.scene
    return {
        "name": setup.campaign.folder.resolve().name,
        "version": version("excitor"),
        "campaign_text": setup.campaign.text,
        "robot": {
            "name": robot.name,
            "title": robot.title or robot.name,
            "joints": list(robot.joint_names),
            "units": ["m" if sliding else "rad" for sliding in robot.mechanism.prismatic],
        },
        "verdict": verdict(designed),
        "zones": [
            {
                "name": zone.name,
                "keep": zone.keep,
                "kind": zone.shape.kind,
                "T": zone.shape.T_base_shape.tolist(),
                "size": zone.shape.size.tolist(),
                "bodies": zone.bodies,
            }
            for zone in (scene.zones if scene is not None else ())
        ],
        "base_capsules": base_capsules(robot),
        "runs": [
            *(_run(setup, run) for run in designed.runs if run.plan.same_as is None),
            *(_torque(setup, run) for run in designed.torque_runs),
            *(_slow(setup, run) for run in designed.slow_runs),
        ],
        "forecast": _forecast(designed),
        **_pareto(designed),
    }


def verdict(designed: Designed) -> dict[str, Any]:
    """Say go or no-go, and why."""
    go = designed.go
    reasons = [check.sentence for check in designed.checks] if go else list(designed.reasons)
    limits = [f"Not looked at, or not as stated: {note}" for note in designed.notes]
    return {"go": go, "reasons": [*reasons, *designed.setup.remarks, *limits]}


def _run(setup: Setup, run: DesignedRun) -> dict[str, Any]:
    robot, trajectory = run.robot, run.trajectory
    excitation = trajectory.excitation
    time = np.linspace(0.0, excitation.duration, CHART_SAMPLES)
    frame_time = np.linspace(0.0, excitation.duration, FRAMES)
    data = {
        "name": run.plan.name,
        "kind": run.plan.kind if run.plan.role == "identify" else "validation",
        "note": run.plan.note,
        "duration_s": excitation.duration,
        "condition": finite(run.condition),
        "condition_weighted": finite(run.condition_weighted),
        "phases": [{"name": p.name, "start": p.start, "end": p.end} for p in phases(excitation)],
        "history": _history(run),
        "spectrum": [float(x) for x in run.spectrum],
        "correlation": _correlation(run),
        "frames": frames(robot, frame_time, executed(trajectory, frame_time)),
    }
    data |= _charts(setup, robot, time, executed_motion(trajectory, time)) | _proven(robot, run.certificate)
    way = run.certificate.way
    if way is not None and way.duration > 0.0:
        t = np.linspace(0.0, way.duration, WAY_FRAMES)
        data["approach"] = frames(robot, t, path_motion(way, t))
    return data


def _slow(setup: Setup, slow: DesignedSlowRun) -> dict[str, Any]:
    run, robot = slow.run, setup.robot
    shown = min(run.duration, _LONGEST_SHOWN)
    time, frame_time = np.linspace(0.0, shown, CHART_SAMPLES), np.linspace(0.0, shown, FRAMES)
    note = (
        slow.plan.note if shown == run.duration else f"{slow.plan.note} Shown are the first {shown / 60:.0f} minutes."
    )
    return {
        "name": slow.plan.name,
        "kind": slow.plan.kind,
        "note": note,
        "duration_s": run.duration,
        "phases": [],
        "frames": frames(robot, frame_time, slow_series(run, frame_time)),
        **_charts(setup, robot, time, slow_motion(run, time)),
        **_proven(robot, slow.certificate),
    }


def _torque(setup: Setup, run: DesignedTorqueRun) -> dict[str, Any]:
    """Show a torque run as it was simulated for its certificate, thinned."""
    robot, simulated = setup.robot, run.proven.run
    shown = np.linspace(0, simulated.t.size - 1, CHART_SAMPLES).round().astype(int)
    drawn = np.linspace(0, simulated.t.size - 1, FRAMES).round().astype(int)
    q, dq, ddq, tau = (x[0][:, shown].T for x in (simulated.q, simulated.dq, simulated.ddq, simulated.tau))
    return {
        "name": run.plan.name,
        "kind": run.plan.kind if run.plan.role == "identify" else "validation",
        "note": " ".join((run.plan.note, *run.certificate.notes)),
        "duration_s": run.duration,
        "condition": finite(run.condition),
        "condition_weighted": finite(run.condition_weighted),
        "phases": [{"name": p.name, "start": p.start, "end": p.end} for p in torque_phases(run.trajectory.excitation)],
        "history": _history(run),
        "spectrum": [float(x) for x in run.spectrum],
        "correlation": _correlation(run),
        "frames": frames(robot, simulated.t[drawn], simulated.q[0][:, drawn].T),
        **_charts(setup, robot, simulated.t[shown], Motion(q, dq, ddq)),
        "tau": tau.T.tolist(),
        **_proven(robot, run.certificate),
    }


def _correlation(run: DesignedRun | DesignedTorqueRun) -> dict[str, Any]:
    shown = min(len(run.columns), _CORRELATION_MOST)
    return {
        "names": list(run.columns[:shown]),
        "matrix": np.round(run.correlation[:shown, :shown], 3).tolist(),
    }


def _charts(setup: Setup, robot: Robot, time: FloatArray, motion: Motion) -> dict[str, Any]:
    limits = setup.constraints.limits
    return {
        "time": time.tolist(),
        "q": motion.q.T.tolist(),
        "dq": motion.dq.T.tolist(),
        "ddq": motion.ddq.T.tolist(),
        "tau": inverse_dynamics(robot, motion).T.tolist(),
        "limits": {
            "q": [[finite(x) for x in pair] if np.isfinite(pair).all() else None for pair in limits.position],
            "dq": [finite(x) for x in limits.velocity],
            "ddq": [finite(x) for x in limits.acceleration],
            "tau": [finite(x) for x in limits.torque],
        },
    }


def _proven(robot: Robot, certificate: Certificate) -> dict[str, Any]:
    return {
        "capsules": moving_capsules(robot),
        "certificate": [margin_data(item) for item in certificate.items],
        "notes": list(certificate.notes),
        "ready": certificate.ready,
    }


def _history(run: DesignedRun | DesignedTorqueRun) -> list[dict[str, Any]]:
    return [
        {"evaluations": row[0], "best": finite(row[1]), "feasible_share": float(row[2]), "stage": STAGES[int(row[3])]}
        for row in run.found.history
    ]


def _forecast(designed: Designed) -> dict[str, Any]:
    foreseen = designed.forecast
    sentences: Sequence[str] = [*(check.sentence for check in designed.checks), *(a.sentence for a in foreseen.advice)]
    return {
        "noise": foreseen.noise,
        "parameters": [
            {
                "name": p.name,
                "unit": p.unit,
                "prior": finite(p.value) if p.stated else None,
                "sigma": finite(p.sigma),
                "sigma_inflated": finite(p.sigma_inflated),
                "relative": finite(p.relative),
                "relative_inflated": finite(p.relative_inflated),
                "periods_needed": finite(p.periods),
                "label": "essential" if p.essential else "below the noise",
            }
            for p in foreseen.parameters
        ],
        "torque_error": [
            {"joint": t.joint, "sigma": finite(t.error_inflated), "relative": finite(_share(t.error_inflated, t.rms))}
            for t in foreseen.torques
        ],
        "sentences": list(sentences),
        "unidentifiable": list(foreseen.unidentifiable),
    }


def _pareto(designed: Designed) -> dict[str, Any]:
    """List the front that the first run was picked from."""
    front = designed.runs[0].front if designed.runs else None
    if front is None:
        return {}
    names = {
        "condition": "condition",
        "duration": "duration_s",
        "torque": "peak_torque_share",
        "tool speed": "tool_speed_m_s",
    }
    points = [
        {names.get(key, key): float(value) for key, value in zip(front.objectives, point, strict=True)}
        | {"chosen": k == front.chosen}
        for k, point in enumerate(front.points)
    ]
    return {"pareto": points}


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else float("inf")
