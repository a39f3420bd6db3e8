"""A task of the user's: joint positions over time in a CSV file, whose torques the model must predict well."""

import csv
import io

import numpy as np

from excitor.experiments.campaign import FILE, InvalidCampaign, inside
from excitor.experiments.designing.setup import Setup, pendant_to_si
from excitor.identify.signals import differentiate
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion

_LARGEST_FILE = 200_000_000
_FEWEST = 10
_MOST = 2000  # samples that the criterion looks at


def task_motion(setup: Setup) -> Motion:
    """Read the task: a header `t` (s) and the joints' names (degrees, mm), at least ten evenly spaced rows."""
    name = setup.design.task
    assert name is not None
    folder = setup.campaign.folder
    try:
        if not inside(folder, name):
            raise ExcitorError("leaves the folder of the campaign")
        return _read(setup, name)
    except (OSError, ValueError, ExcitorError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidCampaign(folder / FILE, [f"design.task: {name!r} {told}"]) from None


def _read(setup: Setup, name: str) -> Motion:
    path = setup.campaign.folder / name
    if path.stat().st_size > _LARGEST_FILE:
        raise ExcitorError("is too large for a task")
    rows = list(csv.reader(io.StringIO(path.read_text("utf-8-sig"))))
    wanted = ["t", *setup.robot.joint_names]
    if not rows or [cell.strip() for cell in rows[0]] != wanted:
        raise ExcitorError(f"has no header {', '.join(wanted)}")
    values = np.empty((len(rows) - 1, len(wanted)))
    for k, row in enumerate(rows[1:]):
        try:
            values[k] = [float(cell) for cell in row]
        except ValueError:
            raise ExcitorError(f"row {k + 2}: {','.join(row)[:60]!r} are not {len(wanted)} numbers") from None
    if len(values) < _FEWEST or not np.isfinite(values).all():
        raise ExcitorError(f"has {len(values)} rows, expected at least {_FEWEST}, all finite")
    steps = np.diff(values[:, 0])
    if not steps[0] > 0.0 or np.abs(steps - steps.mean()).max() > 0.01 * steps.mean():
        raise ExcitorError("has uneven times; sample it evenly")
    q = pendant_to_si(setup.robot, values[:, 1:])
    rate = float(1.0 / steps.mean())
    dq = differentiate(q, sample_rate_hz=rate)
    ddq = differentiate(dq, sample_rate_hz=rate)
    every = slice(2, -2, max(1, len(q) // _MOST))
    return Motion(q[every], dq[every], ddq[every])
