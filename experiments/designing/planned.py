"""Which runs a campaign asks for: a schedule, with poses, sweeps and a warm-up where it wants them."""

from collections.abc import Iterator
from dataclasses import replace

from excitor.design.schedule import RunPlan, Schedule, checked, moving_mask, plan_runs, together, with_slow_runs
from excitor.experiments.campaign import FILE, InvalidCampaign
from excitor.experiments.designing.setup import Setup
from excitor.experiments.payload.schedule import payload_runs


def planned_runs(setup: Setup) -> tuple[Schedule, Schedule]:
    """List the runs to design now, and those that must wait for what earlier ones teach."""
    design, robot = setup.design, setup.robot
    joints = design.joints or None
    if design.schedule == "payload-pair" and robot.payload is None:
        raise InvalidCampaign(
            setup.campaign.folder / FILE,
            ['design.schedule: is "payload-pair", but there is no [payload]; state its mass, centre and inertia'],
        )
    try:
        if setup.campaign.content.task == "payload" or design.schedule == "static-pair":
            dynamic, static = design.schedule == "payload-pair", design.static_poses > 0
            return payload_runs(robot, joints, dynamic=dynamic, static=static), ()
        if design.schedule == "single":
            schedule: Schedule = tuple(run for run in together(robot, joints) if run.name == "excitation")
        else:
            schedule = plan_runs(robot, design.schedule, joints)
        if not design.warm_up_minutes:
            schedule = tuple(run for run in schedule if run.kind != "warm-up")
        schedule = with_slow_runs(
            robot, schedule, static=design.static_poses > 0, sweeps=design.friction_sweeps, joints=joints
        )
        schedule = (*schedule, *_further(setup))
    except ValueError as error:
        raise InvalidCampaign(setup.campaign.folder / FILE, [f"design.schedule: {error}"]) from None
    waiting: list[RunPlan] = []
    if not setup.learned:
        for run in schedule:
            after = {other.name for other in waiting}
            if run.learns_from is not None or run.same_as in after or (waiting and run.role == "validate"):
                waiting.append(run)
    now = tuple(run for run in schedule if run not in waiting)
    return checked(now), tuple(replace(run) for run in waiting)


def _further(setup: Setup) -> Iterator[RunPlan]:
    """Plan what is added to a campaign that was measured already; last, so that the runs before stay as they are."""
    moving = moving_mask(setup.robot, setup.design.joints or None)
    for k, asked in enumerate(setup.design.further, start=1):
        if asked == "static":
            yield RunPlan(f"further {k}", "static", moving, "identify", "More poses held: gravity alone.")
        elif asked == "sweeps":
            yield RunPlan(f"further {k}", "sweep", moving, "identify", "Constant speeds: friction alone.")
        else:
            note = f"What the runs before leave open or vague of {', '.join(asked)}."
            yield RunPlan(f"further {k}", "excitation", moving, "identify", note, parameters=tuple(asked))
