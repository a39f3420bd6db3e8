"""From a run's log to samples: to the joint side, filtered, averaged where it repeats, differentiated, cut."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from excitor.experiments.align.nouns import Alignment
from excitor.experiments.campaign import OpenCampaign, Processing, Run
from excitor.experiments.program_logs import ProgramLog, declared_by, read_aligned
from excitor.identify.cycles import average_cycles, find_cycles
from excitor.identify.errors import InvalidLog
from excitor.identify.log import Measured, joint_side
from excitor.identify.logs.matlab_means import Fields, read_matlab_means
from excitor.identify.logs.readers import read_log
from excitor.identify.periods import average_periods, periodic_lowpass
from excitor.identify.samples import Samples, Step, repeated
from excitor.identify.signals import differentiate, lowpass, pose_averages
from excitor.robots.arrays import FloatArray
from excitor.robots.robot import Motion, posture


def read_run(campaign: OpenCampaign, run: Run) -> Samples:
    """Read and process one run as the campaign declares it."""
    path = campaign.folder / run.log
    if campaign.content.matlab is not None:
        return read_matlab_means(path, Fields(**campaign.content.matlab.model_dump()), run=run.name)
    settings = campaign.content.processing
    if run.program is not None:
        return read_program(campaign, run)[0]
    assert campaign.content.log is not None
    measured = joint_side(campaign.robot, read_log(path, campaign.content.log, campaign.robot.joint_names))
    try:
        if run.period_s is not None:
            return average_plan(run, settings, measured)
        q = filtered(settings, measured)
        if run.cycle_s is not None:
            return average_process(run, q, measured)
        if run.static:
            return static_poses(campaign, run, q, measured)
        return one_pass(run, settings, q, measured)
    except ValueError as error:
        raise InvalidLog(path, f"run {run.name!r} cannot be processed: {error}") from None


def read_run_aligned(
    campaign: OpenCampaign, run: Run, *, unknown_load: bool = False, found: Alignment | None = None
) -> tuple[Samples, Alignment | None]:
    """Read a run, and tell how it fits its plan where it has one; files are named from the campaign's folder.

    `unknown_load`: that torques look like another load than the robot's is no fault. `found`: how the run fits its
    plan, where that is known already.
    """
    if run.program is None:
        samples, alignment = read_run(campaign, run), None
    else:
        samples, alignment = read_program(campaign, run, unknown_load=unknown_load, found=found)
    return replace(samples, steps=tuple(_from_folder(step, campaign.folder) for step in samples.steps)), alignment


def read_program(
    campaign: OpenCampaign, run: Run, *, unknown_load: bool = False, found: Alignment | None = None
) -> tuple[Samples, Alignment]:
    """Read the run of an emitted program: what of it counts, the plan tells."""
    assert run.program is not None
    log = ProgramLog(run.program, run.log, run.role, run.name)
    declared = campaign.content.log or declared_by(run.program.partition("/")[0], campaign.robot)
    lowpass_hz = campaign.content.processing.lowpass_hz
    try:
        return read_aligned(
            campaign.folder,
            log,
            campaign.robot,
            declared=declared,
            lowpass_hz=lowpass_hz,
            unknown_load=unknown_load,
            found=found,
        )
    except ValueError as error:
        raise InvalidLog(campaign.folder / run.log, f"run {run.name!r} cannot be processed: {error}") from None


def _from_folder(step: Step, folder: Path) -> Step:
    """Name the file of a step from a folder, where it lies in it."""
    file = step.settings.get("file")
    if not isinstance(file, str) or not Path(file).is_relative_to(folder):
        return step
    return Step(step.name, {**step.settings, "file": Path(file).relative_to(folder).as_posix()})


def filtered(settings: Processing, measured: Measured) -> FloatArray:
    """Low-pass positions without delay, where the campaign asks for it."""
    if settings.lowpass_hz is None:
        return measured.q
    return lowpass(
        measured.q,
        sample_rate_hz=measured.sample_rate_hz,
        cutoff_hz=settings.lowpass_hz,
        true_cutoff=settings.true_cutoff,
    )


def one_pass(run: Run, settings: Processing, q: FloatArray, measured: Measured) -> Samples:
    """Differentiate a run, and cut it to the part that counts."""
    rate = measured.sample_rate_hz
    motion = differentiated(q, rate)
    time = np.arange(len(q)) / rate
    edge = settings.drop_ends / rate
    kept = time >= max(run.from_s or 0.0, edge)
    kept &= time <= min(time[-1] if run.to_s is None else run.to_s, time[-1] - edge)
    if np.count_nonzero(kept) < 3:
        raise ValueError("fewer than 3 samples are left; see its from_s, to_s and drop_ends")
    steps = (
        *measured.steps,
        Step("lowpass", {"cutoff_hz": settings.lowpass_hz or "none", "true_cutoff": str(settings.true_cutoff)}),
        Step("differentiate", {"ends": "second-order"}),
        Step("cut", {"from_s": float(time[kept][0]), "to_s": float(time[kept][-1])}),
    )
    part = Motion(motion.q[kept], motion.dq[kept], motion.ddq[kept])
    return Samples(run.name, part, measured.tau[kept], rate, steps=steps)


def average_plan(run: Run, settings: Processing, measured: Measured) -> Samples:
    """Average whole periods of a planned run; its motion is what lies below the cut-off, exactly."""
    assert run.period_s is not None
    rate = measured.sample_rate_hz
    n = round(run.period_s * rate)
    if abs(n - run.period_s * rate) > 0.05:
        raise ValueError(f"period_s is {run.period_s}, not a whole number of samples at {rate:g} Hz; resample first")
    q = average_periods(measured.q, n, drop_periods=run.drop_periods)
    tau = average_periods(measured.tau, n, drop_periods=run.drop_periods)
    cutoff = settings.lowpass_hz or 0.49 * rate
    motion = periodic_lowpass(q.mean, sample_rate_hz=rate, cutoff_hz=cutoff)
    told: dict[str, float | str] = {
        "period_s": run.period_s,
        "repetitions": float(tau.n_repetitions),
        "findings": "; ".join(tau.findings),
    }
    steps = (
        *measured.steps,
        Step("average periods", told),
        Step("periodic lowpass", {"cutoff_hz": cutoff}),
    )
    return repeated(run.name, motion, tau, rate, steps)


def average_process(run: Run, q: FloatArray, measured: Measured) -> Samples:
    """Cut a process log into its cycles, leave out those that deviate, and average the others."""
    assert run.cycle_s is not None
    rate = measured.sample_rate_hz
    cycles = find_cycles(q, sample_rate_hz=rate, min_period_s=run.cycle_s)
    tau = average_cycles(measured.tau, cycles)
    told: dict[str, float | str] = {
        "period_s": cycles.period,
        "repetitions": float(tau.n_repetitions),
        "left_out": "; ".join(cycles.findings),
    }
    motion = differentiated(average_cycles(q, cycles).mean, rate)
    return repeated(run.name, motion, tau, rate, (*measured.steps, Step("average cycles", told)))


def static_poses(campaign: OpenCampaign, run: Run, q: FloatArray, measured: Measured) -> Samples:
    """Average each pose over its approaches from both sides, against stiction."""
    rate = measured.sample_rate_hz
    dq = differentiate(q, sample_rate_hz=rate)
    limits = campaign.robot.limits.velocity
    share = max(campaign.content.processing.dead_zone_percent, 0.1) / 100.0
    threshold = np.where(np.isfinite(limits), share * limits, 1e-2)
    poses = pose_averages(q, measured.tau, dq=dq, threshold=threshold, settle_samples=max(1, round(0.2 * rate)))
    told: dict[str, float | str] = {"poses": float(len(poses.q)), "findings": "; ".join(poses.findings)}
    steps = (*measured.steps, Step("static poses", told))
    return Samples(run.name, posture(poses.q), poses.tau, rate, steps=steps, static=True)


def differentiated(q: FloatArray, rate: float) -> Motion:
    """Differentiate positions twice."""
    dq = differentiate(q, sample_rate_hz=rate)
    return Motion(q, dq, differentiate(dq, sample_rate_hz=rate))
