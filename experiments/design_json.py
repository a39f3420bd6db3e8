"""design.json: what was designed, for programs to be made of and for scripts to read. No clock times."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from excitor.design.certify.certificate import Margin
from excitor.design.forecast import forecast_data
from excitor.design.motion import phases
from excitor.design.pareto import Front
from excitor.design.torque import torque_phases
from excitor.experiments.files import read_json, write_atomically
from excitor.experiments.plan import Designed, DesignedRun, DesignedSlowRun, DesignedTorqueRun
from excitor.robots.arrays import finite
from excitor.robots.base import regroupings
from excitor.robots.information import noise_data

FILE = "design.json"
SCHEMA = 1


def write_design(designed: Designed) -> Path:
    """Write design.json into the campaign's folder."""
    path = designed.setup.campaign.folder / FILE
    write_atomically(path, json.dumps(design_data(designed), indent=1, allow_nan=False) + "\n")
    return path


def read_design(folder: Path) -> dict[str, Any]:
    """Read a campaign's design."""
    return read_json(folder / FILE, SCHEMA, made_by=f"excitor design {folder}")


def design_data(designed: Designed) -> dict[str, Any]:
    """Write a design as plain data."""
    setup, settings = designed.setup, designed.settings
    robot = setup.robot
    return {
        "schema": SCHEMA,
        "robot": robot.name,
        "joints": list(robot.joint_names),
        "units": ["m" if sliding else "rad" for sliding in robot.mechanism.prismatic],
        "ready": designed.ready,
        "finished": designed.finished,
        "go": designed.go,
        "reasons": list(designed.reasons),
        "remarks": list(setup.remarks),
        "home": [float(x) for x in setup.constraints.home] if setup.constraints.home is not None else None,
        "settings": {
            "seed": settings.seed,
            "evaluations": settings.budget.evaluations,
            "seconds": settings.budget.seconds,
            "method": settings.method,
        },
        "noise": noise_data(setup.noise),
        "order": list(designed.order),
        "runs": [run_data(run) for run in designed.runs],
        "torque_runs": [torque_data(run) for run in designed.torque_runs],
        "slow_runs": [slow_data(run) for run in designed.slow_runs],
        "waiting": [{"name": plan.name, "after": plan.learns_from, "note": plan.note} for plan in designed.waiting],
        "forecast": forecast_of(designed),
        "provenance": {"excitor": version("excitor"), "inputs_sha256": setup.campaign.digest},
    }


def run_data(run: DesignedRun) -> dict[str, Any]:
    """Write one run: coefficients in rad and m, times in s."""
    plan, trajectory, excitation = run.plan, run.trajectory, run.trajectory.excitation
    return {
        "name": plan.name,
        "kind": plan.kind,
        "role": plan.role,
        "payload": plan.payload,
        "same_as": plan.same_as,
        "note": plan.note,
        "ready": run.certificate.ready,
        "period": excitation.period,
        "sample_time": excitation.sample_time,
        "harmonics": list(excitation.harmonics),
        "moving": [bool(x) for x in excitation.moving],
        "phases": [{"name": p.name, "start": p.start, "end": p.end} for p in phases(excitation)],
        "warm_up_periods": excitation.warm_up,
        "measured_periods": excitation.measured,
        "center": trajectory.center.tolist(),
        "sines": trajectory.sines.tolist(),
        "cosines": trajectory.cosines.tolist(),
        "criterion": run.problem.criterion.kind,
        "condition": finite(run.condition),
        "condition_weighted": finite(run.condition_weighted),
        "columns": list(run.columns),
        "singular_values": [float(x) for x in run.spectrum],
        "front": front_data(run.front),
        "certificate": [margin_data(item) for item in run.certificate.items],
        "notes": list(run.certificate.notes),
        "way": way_data(run),
        "search": {
            "evaluations": run.found.evaluations,
            "stopped": run.found.stopped,
            "history": [[finite(x) for x in row] for row in run.found.history],
        },
    }


def front_data(front: Front | None) -> dict[str, Any] | None:
    """Write the runs that one could be picked from, by `excitor design --pick`."""
    if front is None:
        return None
    periods = [front.problems[k].excitation.period for k in front.which]
    return {
        "objectives": list(front.objectives),
        "units": list(front.units),
        "points": [[float(x) for x in point] for point in front.points],
        "periods": periods,
        "picked": front.chosen,
    }


def slow_data(slow: DesignedSlowRun) -> dict[str, Any]:
    """Write a run of moves and stops: each move goes from one knot to the next, rad and m, s."""
    plan, run = slow.plan, slow.run
    return {
        "name": plan.name,
        "kind": plan.kind,
        "role": plan.role,
        "note": plan.note,
        "ready": slow.certificate.ready,
        "sample_time": run.sample_time,
        "knots": run.knots.tolist(),
        "durations": run.durations.tolist(),
        "blends": run.blends.tolist(),
        "measured": [bool(x) for x in run.measured],
        "certificate": [margin_data(item) for item in slow.certificate.items],
        "notes": list(slow.certificate.notes),
    }


def torque_data(run: DesignedTorqueRun) -> dict[str, Any]:
    """Write a run of torques in N m and N, each held from one sample to the next; waves in rad/s and rad."""
    plan, trajectory, excitation, proven = run.plan, run.trajectory, run.trajectory.excitation, run.proven
    robust = proven.robustness
    return {
        "name": plan.name,
        "kind": plan.kind,
        "role": plan.role,
        "note": plan.note,
        "ready": run.certificate.ready,
        "sample_time": excitation.sample_time,
        "driven": [bool(x) for x in excitation.driven],
        "start": excitation.start.tolist(),
        "duration": excitation.duration,
        "rate": excitation.rate,
        "band": list(excitation.band),
        "phases": [{"name": p.name, "start": p.start, "end": p.end} for p in torque_phases(excitation)],
        "torques": {
            "constant": trajectory.constant.tolist(),
            "amplitudes": trajectory.amplitudes.tolist(),
            "frequencies": trajectory.frequencies.tolist(),
            "phases": trajectory.phases.tolist(),
        },
        "criterion": "condition",
        "condition": finite(run.condition),
        "condition_weighted": finite(run.condition_weighted),
        "columns": list(run.columns),
        "singular_values": [float(x) for x in run.spectrum],
        "certificate": [margin_data(item) for item in run.certificate.items],
        "wording": proven.wording,
        "finest_step": proven.finest_step,
        "robustness": {
            "spread": robust.spread,
            "n_models": robust.n_models,
            "share": robust.share,
            "diverged": robust.diverged,
            "breaks": [{"name": name, "share": share} for name, share in robust.breaks],
        },
        "notes": list(run.certificate.notes),
        "search": {
            "evaluations": run.found.evaluations,
            "stopped": run.found.stopped,
            "history": [[finite(x) for x in row] for row in run.found.history],
        },
    }


def way_data(run: DesignedRun) -> dict[str, Any] | None:
    """Write the way from home to the start; the way back is the same, backwards."""
    way = run.certificate.way
    return None if way is None else {"waypoints": way.waypoints.tolist(), "durations": way.durations.tolist()}


def margin_data(item: Margin) -> dict[str, Any]:
    """Write one line of a certificate."""
    return {
        "name": item.name,
        "unit": item.unit,
        "limit": finite(item.limit),
        "worst": finite(item.worst),
        "margin": finite(item.margin),
        "holds": item.holds,
        "proof": item.proof,
        "where": item.where,
    }


def forecast_of(designed: Designed) -> dict[str, Any]:
    """Write the forecast with each base parameter's regrouping."""
    from excitor.robots.base import base_parameters

    robot = designed.setup.robot
    base = base_parameters(robot)
    forms = dict(zip(base.names, regroupings(robot, base), strict=True))
    data = forecast_data(designed.forecast)
    for entry in data["parameters"]:
        entry["regrouping"] = forms.get(entry["name"], entry["name"])
    return data


def summary(designed: Designed) -> dict[str, Any]:
    """Say for scripts what matters of a design: the numbers of its first run, and all margins."""
    first = designed.searched[0] if designed.searched else None  # none of poses alone
    return {
        "condition": None if first is None else finite(first.condition),
        "condition_weighted": None if first is None else finite(first.condition_weighted),
        "certified": designed.ready,
        "finished": designed.finished,
        "go": designed.go,
        "reasons": list(designed.reasons),
        "remarks": list(designed.setup.remarks),
        "notes": list(designed.notes),
        "margins": [
            margin_data(item) | {"run": name}
            for name, certificate in designed.certificates.items()
            for item in certificate.items
        ],
        "evaluations": sum(run.found.evaluations for run in designed.searched if run.plan.same_as is None),
        "cpu_s": designed.cpu_seconds,
        "runs": [
            {"name": run.plan.name, "condition": finite(run.condition), "certified": run.certificate.ready}
            for run in designed.searched
        ]
        + [
            {"name": run.plan.name, "condition": None, "certified": run.certificate.ready} for run in designed.slow_runs
        ],
        "forecast": forecast_of(designed),
    }
