"""What did the motors do with and without the load? A payload campaign's logs, read, aligned, and taken to them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.align.manifest_file import read_manifest
from excitor.experiments.align.nouns import Alignment
from excitor.experiments.campaign import OpenCampaign, Run
from excitor.experiments.designing.noise import learned_robot
from excitor.experiments.designing.setup import loaded as with_load
from excitor.experiments.processing import read_run_aligned
from excitor.experiments.program_logs import MANIFEST, PROGRAMS
from excitor.identify.load.equations import LoadRun, run_from_samples
from excitor.identify.load.poses import Poses, poses_from_samples
from excitor.identify.samples import Samples, Step
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot

AGREE = 0.002  # s: delays of runs on one clock differ by less


@dataclass(frozen=True, eq=False, slots=True)
class PayloadRuns:
    """All runs of a payload campaign, torques on the motors' side."""

    robot: Robot  # bare
    known: tuple[LoadRun, ...]
    unseen: tuple[LoadRun, ...]
    poses: tuple[Poses, ...]
    samples: Mapping[str, Samples]
    loaded: Mapping[str, bool]  # run -> whether the load was on
    alignments: Mapping[str, Alignment]
    steps: tuple[Step, ...]


def read_runs(campaign: OpenCampaign) -> PayloadRuns:
    """Read every run; a bare run that carries something, or one unlike its plan, is refused there."""
    content = campaign.content
    bare = replace(campaign.robot, payload=None)
    planned = replace(learned_robot(campaign.folder, content.prior, bare, elsewhere=True), payload=None)
    guess = with_load(planned, content.payload)
    read = _aligned(campaign, guess, planned)
    known: list[LoadRun] = []
    unseen: list[LoadRun] = []
    poses: list[Poses] = []
    loads = {run.name: is_loaded(campaign, run) for run in content.run}
    for number, run in enumerate(content.run):
        on, found = loads[run.name], read[run.name][0]
        if found.static:
            poses.append(poses_from_samples(bare, found, loaded=on))
            continue
        made = replace(run_from_samples(bare, found), loaded=on, time=float(number))
        (unseen if run.role == "validate" else known).append(made)
    samples = {name: found for name, (found, _) in read.items()}
    return PayloadRuns(
        bare,
        tuple(known),
        tuple(unseen),
        tuple(poses),
        samples,
        loads,
        {name: alignment for name, (_, alignment) in read.items() if alignment is not None},
        tuple(step for found in samples.values() for step in found.steps),
    )


def _aligned(campaign: OpenCampaign, guess: Robot, planned: Robot) -> dict[str, tuple[Samples, Alignment | None]]:
    """Read all runs with one delay between torques and motion: it is the clock's, the same in every run.

    A run that moves few joints, slowly, tells it badly: where runs disagree, it is noise that they tell, and counts
    as 0.
    """
    made: dict[str, tuple[Samples, Alignment | None]] = {}
    for run in campaign.content.run:
        on = is_loaded(campaign, run)
        made[run.name] = read_run_aligned(replace(campaign, robot=guess if on else planned), run, unknown_load=on)
    late = [found.delay for samples, found in made.values() if found is not None and not samples.static]
    if not late or np.ptp(late) <= AGREE:
        return made
    for run in campaign.content.run:
        found = made[run.name][1]
        if found is not None and found.delay != 0.0:
            on = is_loaded(campaign, run)
            as_run = replace(campaign, robot=guess if on else planned)
            made[run.name] = read_run_aligned(as_run, run, unknown_load=on, found=replace(found, delay=0.0))
    return made


def is_loaded(campaign: OpenCampaign, run: Run) -> bool:
    """Tell whether the load was on: as the run says, or as its program's manifest does."""
    if run.program is None:
        assert run.loaded is not None  # the campaign was checked
        return run.loaded
    target, _, name = run.program.partition("/")
    path = campaign.folder / PROGRAMS / target / MANIFEST
    planned = next((entry for entry in read_manifest(path).programs if entry.name == name), None)
    if planned is None or planned.payload_kg is None:
        raise ExcitorError(f"{path}: does not say whether {name!r} is run with the load; emit the programs again")
    told = planned.payload_kg > 0.0
    if run.loaded is not None and run.loaded != told:
        raise ExcitorError(
            f"run {run.name!r}: loaded is {str(run.loaded).lower()}, but its program was planned "
            f"{'with' if told else 'without'} the load; one of them is wrong"
        )
    return told
