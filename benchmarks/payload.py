"""Benchmark of payload campaigns: from `init` to the report, on two virtual robots.

The prior of the arm has the errors of a good earlier campaign: each link's mass, centre and inertia about it by 1.5 %,
rotors by 1 % (one standard deviation); or it is exact. Friction, gears' losses and the load differ in each draw;
Stribeck friction and ripple are in no model. The load is drawn about a guess, which identification does not use.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import Arm, OpenCampaign, open_campaign
from excitor.experiments.emit import Request, emit
from excitor.experiments.figures import Figure, Report
from excitor.experiments.init import begin
from excitor.experiments.payload import IdentifiedLoad, identify_payload
from excitor.experiments.plan import design
from excitor.experiments.report.data import write_data
from excitor.experiments.report.payload import load_page, load_report_data
from excitor.experiments.setup import doubted_arm, set_up, settings_of
from excitor.experiments.simulate import TRUTH, SimulationOptions, simulate
from excitor.experiments.stages import write_all
from excitor.experiments.virtual.robot import Settings
from excitor.identify.load.fit import center_values
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.inertia import check_consistency
from excitor.robots.load import load
from excitor.robots.parameters import layout

DRAWS = 8
LINKS, ROTORS = 0.015, 0.01
MASS, CENTER = 1.5, 6.0  # %, mm: with that doubt about the arm
EXACT_MASS, EXACT_CENTER = 0.3, 1.5  # with none
MOST_CPU = 180.0  # s
COVERED = 85.0  # % of the inertias' 95 % intervals: 48 of them scatter by 3 %
VIRTUAL = Settings(links=0.0, rotors=0.0, friction=0.08, loss=0.0, gears=0.015, stribeck=0.15)


@dataclass(frozen=True, slots=True)
class Case:
    """A robot, its controller, and the guess of its load: the published load of a KR150, and a gripper's."""

    robot: str
    target: str
    guess: str
    radius: float  # m, of a ball that holds it


CASES = (
    Case(
        "kr150",
        "krl",
        "mass = 125.46\ncenter = [0.088, -0.032, 0.14]\ninertia = [38.21, 7.28, 1.49, 6.55, -1.23, 37.13]",
        0.05,
    ),
    Case(
        "ur10",
        "urscript",
        "mass = 8.0\ncenter = [0.03, -0.02, 0.08]\ninertia = [0.06, 0.005, -0.004, 0.05, 0.003, 0.04]",
        0.05,
    ),
)


@dataclass(frozen=True, slots=True)
class Draw:
    """Errors of one draw."""

    mass: float  # %
    center: float  # mm
    inside: int  # of six inertias, those whose interval holds the truth


@one_blas_thread()
def run(full: bool = False) -> Report:
    """Run both robots; with `full` eight draws of each, else one."""
    figures: list[Figure] = []
    context: dict[str, Any] = {"draws": DRAWS if full else 1}
    with tempfile.TemporaryDirectory(prefix="excitor-bench-") as folder:
        for case in CASES:
            made, told = measured(Path(folder) / case.robot, case, DRAWS if full else 1)
            figures += made
            context[case.robot] = told
    return Report("bench", "payload", figures, context)


def measured(where: Path, case: Case, draws: int) -> tuple[list[Figure], Mapping[str, Any]]:
    """Measure one robot; the motion is designed once."""
    start = time.process_time()
    folder = designed(where, case)
    doubtful: list[Draw] = []
    exact: list[Draw] = []
    chain = 0.0
    for seed in range(draws):
        one, other, spent = drawn(folder, case, seed)
        doubtful.append(one)
        exact.append(other)
        chain = chain or time.process_time() - start - spent
    name = f"payload.{case.robot}"
    figures = [
        *_figures(name, "", doubtful, MASS, CENTER),
        *_figures(name, "exact_", exact, EXACT_MASS, EXACT_CENTER),
        Figure(f"{name}.cpu_s", chain, "s CPU, init to report", MOST_CPU, "at most"),
    ]
    told = {"doubtful": [_told(draw) for draw in doubtful], "exact": [_told(draw) for draw in exact]}
    return figures, told


def designed(where: Path, case: Case) -> Path:
    """Create a campaign beside the arm's, design it, and emit its programs."""
    where.mkdir(parents=True)
    (where / "arm").mkdir()
    model = where / "arm" / "model.json"
    model.write_text(json.dumps(arm_model(case.robot, 0)), "utf-8")
    folder = where / "load"
    path = begin(folder, case.robot, "payload", model)
    path.write_text(with_guess(path.read_text("utf-8"), case), "utf-8")
    setup = set_up(open_campaign(folder, "design"))
    write_all(design(setup, settings_of(setup.design)))
    emit(folder, Request((case.target,), allow=("no-go",)), lambda _: None)
    return folder


def with_guess(text: str, case: Case) -> str:
    """Replace the template's load by a guess."""
    lines = text.splitlines()
    begin_ = lines.index("[payload]") + 1
    end = next(k for k in range(begin_, len(lines)) if not lines[k].strip())
    return "\n".join([*lines[:begin_], case.guess, *lines[end:], ""])


def drawn(folder: Path, case: Case, seed: int) -> tuple[Draw, Draw, float]:
    """Simulate and identify one draw, with an uncertain arm and with the true one; return also the latter's time."""
    model = folder.parent / "arm" / "model.json"
    model.write_text(json.dumps(arm_model(case.robot, seed)), "utf-8")
    simulate(folder, [case.target], SimulationOptions(seed, fresh=True, settings=VIRTUAL), lambda _: None)
    truth = center_values(np.array(json.loads((folder / TRUTH).read_text("utf-8"))["load"]))
    campaign = open_campaign(folder)
    result = identify_payload(campaign)
    result.model.save(result.campaign.folder)
    write_data(result.campaign.folder, load_report_data(result.campaign, result.model, result.runs), load_page)
    before = time.process_time()
    exact = identify_payload(with_exact_arm(campaign))
    return judged(result, truth), judged(exact, truth), time.process_time() - before


def with_exact_arm(campaign: OpenCampaign) -> OpenCampaign:
    """Replace the prior by the robot's file: here it is the truth."""
    return replace(
        campaign,
        content=campaign.content.model_copy(update={"prior": None, "arm": Arm(links_percent=0.0, rotors_percent=0.0)}),
    )


def arm_model(robot_name: str, seed: int) -> dict[str, Any]:
    """Write a possible result of an earlier campaign: erroneous base parameters, their covariance, the bodies.

    Numbers that are 0 stay so; draws of which no body is possible are drawn again.
    """
    robot = load(robot_name)
    base, params = base_parameters(robot), layout(robot)
    arm = doubted_arm(robot, LINKS, ROTORS)
    rng = np.random.default_rng([seed, 0x61726D])
    values, V = np.linalg.eigh(arm.covariance)
    root = V * np.sqrt(np.maximum(values, 0.0))
    chi = robot.chi.copy()
    for j in range(params.n_links):
        columns = params.link(j)
        while True:
            trial = robot.chi[columns] + (root @ rng.normal(size=len(params)))[columns]
            if check_consistency(trial).holds or not check_consistency(robot.chi[columns]).holds:
                break
        chi[columns] = trial
    for column in sorted(set(params.rotor_columns)):
        chi[column] *= 1.0 + ROTORS * rng.normal()
    B = np.column_stack([base.values(unit) for unit in np.eye(len(params))])
    C = B @ arm.covariance @ B.T
    return {
        "parameters": [
            {"name": name.removesuffix("R"), "value": float(value)}
            for name, value in zip(base.names, base.values(chi), strict=True)
        ],
        "covariance": C.tolist(),
        "standard": {
            "parameters": [{"name": name, "value": float(x)} for name, x in zip(params.names, chi, strict=True)]
        },
        "weights": [],
    }


def judged(result: IdentifiedLoad, truth: FloatArray) -> Draw:
    """Compare a load with the truth."""
    found = result.load
    assert found is not None
    inside = (found.low[4:] <= truth[4:]) & (truth[4:] <= found.high[4:])
    return Draw(
        100.0 * abs(found.mass / truth[0] - 1.0),
        1e3 * float(np.linalg.norm(found.center - truth[1:4])),
        int(inside.sum()),
    )


def _figures(name: str, kind: str, draws: list[Draw], mass: float, center: float) -> Iterator[Figure]:
    count = 6 * len(draws)
    inside = 100.0 * sum(draw.inside for draw in draws) / count
    yield Figure(f"{name}.{kind}mass_percent", float(np.median([d.mass for d in draws])), "%", mass, "at most")
    yield Figure(f"{name}.{kind}cog_mm", float(np.median([d.center for d in draws])), "mm", center, "at most")
    yield Figure(f"{name}.{kind}inertia_inside_percent", inside, "%", COVERED if len(draws) > 1 else None, "at least")


def _told(draw: Draw) -> dict[str, float]:
    return {"mass_percent": draw.mass, "cog_mm": draw.center, "inertias_inside": float(draw.inside)}
