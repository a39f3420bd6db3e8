"""design.json: written and read designs of a campaign, without clock times."""

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from excitor.design.certify.certify import Simulation
from excitor.design.constraints.constraint import Margin
from excitor.design.forecast import forecast_data
from excitor.design.motion import Run, RunForm, old_moves, old_series, problems, read_run, run_data
from excitor.design.pareto import Front
from excitor.design.problem import Candidates, Problem
from excitor.design.search import SearchResult
from excitor.design.torque import WORDING, TorqueTrajectory
from excitor.experiments.files import read_json, typed, write_atomically
from excitor.experiments.plan import CampaignDesign, DesignedRun, SearchedRun
from excitor.robots.arrays import finite, picked
from excitor.robots.base import regroupings
from excitor.robots.errors import ExcitorError
from excitor.robots.information import noise_data

FILE = "design.json"
SCHEMA = 1


def write_design(designed: CampaignDesign) -> Path:
    """Write design.json into the campaign's folder."""
    path = designed.setup.campaign.folder / FILE
    write_atomically(path, json.dumps(design_data(designed), indent=1, allow_nan=False) + "\n")
    return path


def read_design(folder: Path) -> dict[str, Any]:
    """Read a campaign's design."""
    return read_json(folder / FILE, SCHEMA, made_by=f"excitor design {typed(folder)}")


def design_data(designed: CampaignDesign) -> dict[str, Any]:
    """Write a design as plain data."""
    setup, settings = designed.setup, designed.settings
    robot = setup.robot
    return {
        "schema": SCHEMA,
        "robot": robot.name,
        "joints": list(robot.joint_names),
        "units": ["m" if sliding else "rad" for sliding in robot.mechanism.prismatic],
        **picked(designed, "ready finished go reasons"),
        **picked(setup, "remarks"),
        **picked(setup.constraints, "home"),
        "settings": picked(settings, "seed")
        | picked(settings.budget, "evaluations seconds")
        | {"method": settings.method},
        "noise": noise_data(setup.noise),
        "order": list(designed.order),
        "runs": [searched_data(run) for run in designed.searched if run.torques is None],
        "torque_runs": [
            torque_data(run, run.torques, run.certificate.simulation)
            for run in designed.searched
            if run.torques is not None and run.certificate.simulation is not None
        ],
        "slow_runs": [slow_data(run) for run in designed.slow],
        "waiting": [{"name": plan.name, "after": plan.learns_from, "note": plan.note} for plan in designed.waiting],
        "forecast": forecast_of(designed),
        **gains_of(designed),
        "provenance": {"excitor": version("excitor"), "inputs_sha256": setup.campaign.digest},
    }


def searched_data(run: SearchedRun) -> dict[str, Any]:
    """Write one run: coefficients in rad and m, times in s."""
    assert isinstance(run.problem, Problem)
    plan, series, excitation = run.plan, run.run.periodic, run.problem.excitation
    return {
        **picked(plan, "name kind role payload same_as note"),
        "ready": run.certificate.ready,
        **picked(excitation, "period sample_time harmonics moving"),
        "phases": phases_data(run.run),
        **picked(excitation, "warm_up_periods=warm_up measured_periods=measured"),
        **picked(series, "center sines cosines"),
        "criterion": run.problem.criterion.kind,
        **conditioning_data(run),
        "front": front_data(run.front),
        **certificate_data(run),
        "way": way_data(run),
        "search": search_data(run.found) | {"key": run.key},
        "family": family_data(run) if run.plan.same_as is None else [],
        "picked": run.picked,
        "run": run_data(run.run),
    }


def phases_data(run: Run) -> list[dict[str, Any]]:
    """Write the parts of a run."""
    return [picked(phase, "name start end") for phase in run.phases]


def conditioning_data(run: SearchedRun) -> dict[str, Any]:
    """Write how well a run's columns can be told apart."""
    return picked(run, "condition condition_weighted columns singular_values=spectrum")


def certificate_data(run: DesignedRun) -> dict[str, Any]:
    """Write the margins of a run, and what was not checked."""
    margins, notes = [margin_data(item) for item in run.certificate.items], list(run.certificate.notes)
    return {"certificate": margins, "notes": notes}


def front_data(front: Front | None) -> dict[str, Any] | None:
    """Write the front's runs, for `excitor design --pick`."""
    if front is None:
        return None
    periods = [front.problems[k].excitation.period for k in front.which]
    return picked(front, "objectives units points") | {"periods": periods, "picked": front.chosen}


def family_data(run: SearchedRun) -> list[dict[str, Any]]:
    """Write the distinct best motions of a search, for `excitor design --pick` and for the next design."""
    names = "value condition duration_s=duration torque_share=torque clearance_m=clearance center swing"
    return [picked(one, names) for one in run.family]


def finished_searches(folder: Path) -> dict[str, SearchResult]:
    """Read the finished searches of a design by their keys; none of a design that is missing, older or damaged."""
    found: dict[str, SearchResult] = {}
    with suppress(ExcitorError, LookupError, TypeError, ValueError, AttributeError):
        for run in read_design(folder)["runs"]:
            search, family = run["search"], run["family"]
            arrays = [np.array([one[key] for one in family], dtype=float) for key in ("center", "swing", "value")]
            history = np.array([[np.inf if x is None else x for x in row] for row in search["history"]], dtype=float)
            if family and search["stopped"] == "budget spent" and all(np.isfinite(x).all() for x in arrays):
                center, swing, value = arrays
                found[str(search["key"])] = SearchResult(
                    Candidates(center, swing),
                    value,
                    np.zeros(len(value)),
                    int(search["evaluations"]),
                    0.0,
                    "budget spent",
                    history.reshape(-1, 4),
                )
    return found


def slow_data(slow: DesignedRun) -> dict[str, Any]:
    """Write a run of moves and stops: each move goes from one knot to the next, rad and m, s."""
    plan, run = slow.plan, slow.run
    return {
        **picked(plan, "name kind role note"),
        "ready": slow.certificate.ready,
        "sample_time": run.sample_time,
        "knots": run.knots.tolist(),
        "durations": [move.duration for move in run.moves],
        "blends": [move.blend for move in run.moves],
        "measured": [move.measured for move in run.moves],
        **certificate_data(slow),
        "run": run_data(run),
    }


def torque_data(run: SearchedRun, trajectory: TorqueTrajectory, simulation: Simulation) -> dict[str, Any]:
    """Write a run of torques in N m and N, each held from one sample to the next; waves in rad/s and rad."""
    plan, excitation, robust = run.plan, trajectory.excitation, simulation.robustness
    return {
        **picked(plan, "name kind role note"),
        "ready": run.certificate.ready,
        **picked(excitation, "sample_time driven start duration rate band"),
        "phases": phases_data(run.run),
        "torques": picked(trajectory, "constant amplitudes frequencies phases"),
        "criterion": "condition",
        **conditioning_data(run),
        "wording": WORDING,
        "finest_step": simulation.finest_step,
        "robustness": asdict(robust) | {"breaks": [{"name": name, "share": share} for name, share in robust.breaks]},
        **certificate_data(run),
        "search": search_data(run.found),
    }


def search_data(found: SearchResult) -> dict[str, Any]:
    """Write a search's settings and progress."""
    return picked(found, "evaluations stopped history")


def way_data(run: SearchedRun) -> dict[str, Any] | None:
    """Write the way from home to the start; the way back is the same, backwards."""
    way = run.certificate.way
    if way is None:
        return None
    moves = [segment.duration for segment in way.segments if segment.duration > 0.0]
    return {"waypoints": way.knots[: len(moves) + 1].tolist(), "durations": moves}


def margin_data(item: Margin) -> dict[str, Any]:
    """Write one line of a certificate."""
    return picked(item, "name unit limit worst margin holds proof where")


def forecast_of(designed: CampaignDesign) -> dict[str, Any]:
    """Write the forecast with each base parameter's regrouping."""
    from excitor.robots.base import base_parameters

    robot = designed.setup.robot
    base = base_parameters(robot)
    forms = dict(zip(base.names, regroupings(robot, base), strict=True))
    data = forecast_data(designed.forecast)
    for entry in data["parameters"]:
        entry["regrouping"] = forms.get(entry["name"], entry["name"])
    return data


def gains_of(designed: CampaignDesign) -> dict[str, Any]:
    """Write the gains that are expected of a gains campaign, or the deviations of a payload campaign's load."""
    rows = [asdict(one) | {"relative_sigma": finite(one.relative_sigma)} for one in designed.gains]
    data: dict[str, Any] = {"gains": rows} if rows else {}
    return data if designed.load is None else data | {"load_sigma": designed.load.tolist()}


def summary(designed: CampaignDesign) -> dict[str, Any]:
    """Write the main values of a design for scripts: those of its first run, and all margins."""
    first = designed.searched[0] if designed.searched else None  # none of poses alone
    return {
        "condition": None if first is None else finite(first.condition),
        "condition_weighted": None if first is None else finite(first.condition_weighted),
        "certified": designed.ready,
        **picked(designed, "finished go reasons"),
        **picked(designed.setup, "remarks"),
        **picked(designed, "notes"),
        "margins": [
            margin_data(item) | {"run": name}
            for name, certificate in designed.certificates.items()
            for item in certificate.items
        ],
        "evaluations": sum(run.found.evaluations for run in designed.searched if run.plan.same_as is None),
        "cpu_s": designed.cpu_seconds,
        "runs": [
            {"name": run.plan.name, "condition": condition, "certified": run.certificate.ready}
            for run in (*designed.searched, *designed.slow)
            for condition in [finite(getattr(run, "condition", None))]
        ],
        "family": [] if first is None else [_figures(one) for one in family_data(first)],
        "picked": None if first is None else first.picked,
        "forecast": forecast_of(designed),
        **gains_of(designed),
    }


def _figures(one: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key not in ("center", "swing")}


Row = Annotated[list[FiniteFloat], Field(max_length=100)]
Text = Annotated[str, Field(min_length=1, max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class RunEntry(_Part):
    """A run of the design, as it is and as its coefficients or knots state it; files of before have these alone."""

    name: Text
    stated: RunForm
    run: RunForm | None = None
    way: RunForm | None = None  # from home to its start; None: none is certified, or it starts at home

    def motion(self, joints: Sequence[str]) -> Run:
        """Read the run; ValueError where it is not the one that stands beside it."""
        stated = read_run(self.stated)
        run = stated if self.run is None else read_run(self.run)
        t = np.linspace(0.0, stated.duration, 500)
        same = stated.joints == run.joints == tuple(joints) and abs(run.duration - stated.duration) < 1e-9
        if not (same and np.abs(run.at(t) - stated.at(t)).max() < 1e-9):
            raise ValueError("states one motion in its coefficients or knots, and another in its run")
        return run


Waves = Annotated[list[Row], Field(max_length=100)]


class TorqueWaves(_Part):
    """Coefficients of a run's torques, N m and N, rad/s and rad, by joint."""

    constant: Row
    amplitudes: Waves
    frequencies: Waves
    phases: Waves


class TorqueRun(_Part):
    """Torques, each held for a sample."""

    name: Text
    torques: TorqueWaves


class Provenance(_Part):
    """Inputs of a design, by digest."""

    inputs_sha256: str


class DesignFile(_Part):
    """Parts of design.json that programs are made of."""

    robot: str
    joints: list[str]
    ready: bool
    go: bool
    reasons: list[str] = []  # why it is a no-go
    home: Row | None
    order: list[str]
    runs: list[RunEntry]
    slow_runs: list[RunEntry]
    torque_runs: list[TorqueRun]
    provenance: Provenance


def _with_runs(data: dict[str, Any]) -> dict[str, Any]:
    """Write what coefficients, knots and ways of a design state in the form of runs."""
    joints = data["joints"]

    def moves(step: float, poses: list[list[float]], *columns: list[Any]) -> dict[str, Any]:
        keys = ("to", "duration", "blend", "measured")
        rows = zip(poses[1:], *columns, strict=True)
        return old_moves(joints, step, poses[0], [dict(zip(keys, row, strict=True)) for row in rows])

    def entry(old: dict[str, Any]) -> dict[str, Any]:
        step, way = old["sample_time"], old.get("way")
        if "knots" in old:
            stated = moves(step, old["knots"], old["durations"], old["blends"], old["measured"])
        else:
            spans = {one["name"]: round((one["end"] - one["start"]) / step) * step for one in old["phases"]}
            stated = old_series(joints, step, old["period"], spans, old)
        if way is not None:
            n = len(way["durations"])
            way = moves(step, way["waypoints"], way["durations"], [0.0] * n, [False] * n)
        return {"name": old["name"], "stated": stated, "run": old.get("run"), "way": way}

    found: dict[str, list[dict[str, Any]]] = {"runs": [], "slow_runs": []}
    for kind, entries in found.items():
        for k, old in enumerate(data[kind], start=1):
            try:
                entries.append(entry(old))
            except KeyError as error:
                raise ValueError(f"{kind}[{k}].{error.args[0]}: is missing") from None
            except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
                expected = "times, poses or coefficients are no numbers, or not as many as expected"
                raise ValueError(f"{kind}[{k}]: {expected} ({error})") from None
    return data | found


def open_design(folder: Path, inputs_sha256: str) -> DesignFile:
    """Read a campaign's design; one of another campaign.toml, or one without a valid certificate, is refused."""
    path, design = folder / FILE, parse_design(folder)
    if design.provenance.inputs_sha256 != inputs_sha256:
        raise ExcitorError(
            f"{path}: was made from another campaign.toml or robot; run excitor design {typed(folder)} again, then emit"
        )
    if not design.ready:
        raise ExcitorError(
            f"{path}: not every limit of this design is proven to hold, so no program is made of it; "
            f"plan.html shows which, and excitor design {typed(folder)} searches again"
        )
    return design


def parse_design(folder: Path) -> DesignFile:
    """Read a campaign's design without checking its inputs; ExcitorError where it is damaged."""
    data = read_design(folder)
    try:
        return DesignFile.model_validate(_with_runs(data))
    except ValidationError as error:
        found = re.sub(r"\.stated(\.series\[1\])?", "", "; ".join(problems(error)[:5]))
    except KeyError as error:
        found = f"{error.args[0]}: is missing"
    except (ValueError, TypeError) as error:
        found = str(error)[:300]
    raise ExcitorError(f"{folder / FILE}: {found}; design the campaign again")


def no_go_reasons(design: DesignFile) -> tuple[str, ...]:
    """List why a design is a no-go; empty where it is a go."""
    if design.go:
        return ()
    return tuple(design.reasons) or ("see plan.html for the reasons",)


def design_digest(folder: Path) -> str:
    """Compute the digest of design.json."""
    return hashlib.sha256((folder / FILE).read_bytes()).hexdigest()
