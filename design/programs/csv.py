"""Neutral tables, written and read: every position with its velocity and acceleration, for unsupported controllers.

Rows are time, part, period, positions, velocities and accelerations.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from excitor.design.programs.plan import MEASURED, PARTS, WARM_UP, Plan, Stretches, StretchName, marks
from excitor.design.programs.target import POSES, Execution, Machine, ProgramError, Stretch, stated, table_times
from excitor.robots.arrays import FloatArray

TARGET = stated("csv.toml", "csv")

_NAMES = {mark: name for name, mark in PARTS.items()}
_LINES = 3e-4  # rad or m
_BETWEEN = 0.01, 0.1  # s
_SAMPLES = 2000  # of a motion, in which its largest acceleration is looked for
_RATE_DECIMALS = 9  # of velocities and accelerations
_SUFFIX: dict[StretchName, str] = {"out": "_out", "main": "", "back": "_back"}


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write one table per motion segment, joints in rad and m."""
    made = [stretch for stretch in Stretches if plan.stretch(stretch).duration > 0.0]
    return {
        f"{name}{_SUFFIX[stretch]}.csv": "".join(_rows(plan, stretch, spacing or fitting_spacing(plan, stretch)))
        for stretch in made
    }


def fitting_spacing(plan: Plan, stretch: StretchName) -> float:
    """Choose the time between rows so that straight lines between them leave the motion by at most `_LINES`.

    Over h at the acceleration a a line is off by h²a / 8; the stated velocities and accelerations tell the rest.
    """
    run = plan.stretch(stretch)
    peak = float(np.abs(run.at(np.linspace(0.0, run.duration, _SAMPLES), 2)).max())
    step = np.sqrt(8.0 * _LINES / max(peak, 1e-9))
    return float(np.clip(1e-3 * np.floor(1e3 * step), *_BETWEEN))


def _rows(plan: Plan, stretch: StretchName, spacing: float) -> Iterator[str]:
    n = plan.robot.n_joints
    columns = [f"{letter}{j}" for letter in ("q", "qd", "qdd") for j in range(1, n + 1)]
    yield ",".join(["t", "phase", "period", *columns]) + "\n"
    t = table_times(plan, stretch, spacing)
    values = np.concatenate([plan.stretch(stretch).at(t, order) for order in range(3)], axis=1)
    values = np.round(values, 12) + 0.0  # no -0
    parts = marks(plan) if stretch == "main" else ((0.0, 0),)
    which = np.searchsorted([start - 1e-9 for start, _ in parts], t, side="right") - 1
    line = ",".join([f"%.{TARGET.decimals}f"] * n + [f"%.{_RATE_DECIMALS}f"] * (2 * n))
    for time, part, row in zip(t, which, values, strict=True):
        phase, period = part_of(stretch, parts[part][1])
        yield f"{time:.15g},{phase},{period}," + line % tuple(row) + "\n"


def part_of(stretch: StretchName, mark: int) -> tuple[str, int]:
    """Name a part, and number its period."""
    if stretch != "main":
        return stretch, 0
    if mark >= MEASURED:
        return "measured", mark - MEASURED
    if mark >= WARM_UP:
        return "warm-up", mark - WARM_UP
    return _NAMES[mark], 0


_COUNTED = {"warm-up": WARM_UP, "measured": MEASURED}


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Read the tables of a program."""
    stretches, marks = [], []
    for stretch, suffix in _SUFFIX.items():
        file = f"{name}{suffix}.csv"
        if file not in files:
            if stretch == "main" and not name.endswith(POSES):
                raise ProgramError(file, None, "is missing")
            continue
        parts, t, values = _table(file, files[file], machine.axes.size)
        n = machine.axes.size
        q, dq, ddq = values[:, :n], values[:, n : 2 * n], values[:, 2 * n :]
        if np.abs(dq[[0, -1]]).max() > 1e-9 or np.abs(ddq[[0, -1]]).max() > 1e-6:
            raise ProgramError(file, 2, "does not begin and end at rest")
        stretches.append(Stretch(stretch, "points", t, q, dq, ddq, "quintic"))
        if stretch == "main":
            marks = _marks(file, parts, t)
    return Execution(tuple(stretches), tuple(marks), tuple(stretch.name for stretch in stretches))


def _table(file: str, text: str, n_joints: int) -> tuple[list[tuple[str, str]], FloatArray, FloatArray]:
    lines = text.split("\n")
    heads = [f"{letter}{j}" for letter in ("q", "qd", "qdd") for j in range(1, n_joints + 1)]
    if lines[0] != ",".join(["t", "phase", "period", *heads]):
        raise ProgramError(file, 1, f"has headings {lines[0][:80]!r}, expected t,phase,period,q1 to qdd{n_joints}")
    if lines[-1]:
        raise ProgramError(file, len(lines), "the last row is cut short; copy the file again")
    parts, numbers = [], []
    for row, line in enumerate(lines[1:-1], start=2):
        cells = line.split(",")
        if len(cells) != 3 + len(heads):
            raise ProgramError(file, row, f"has {len(cells)} entries, expected {3 + len(heads)}")
        try:
            numbers.append([float(cells[0]), *map(float, cells[3:])])
        except ValueError:
            raise ProgramError(file, row, "has an entry that is no number") from None
        parts.append((cells[1], cells[2]))
    if len(numbers) < 2:
        raise ProgramError(file, None, "has fewer than two rows")
    values = np.array(numbers)
    if not np.isfinite(values).all():
        raise ProgramError(file, None, "has an entry that is not finite")
    if not (np.diff(values[:, 0]) > 0.0).all() or values[0, 0] != 0.0:
        raise ProgramError(file, None, "has times that do not rise from 0")
    return parts, values[:, 0], values[:, 1:]


def _marks(file: str, parts: list[tuple[str, str]], t: FloatArray) -> list[tuple[float, int]]:
    """List where the part or its period changes."""
    marks: list[tuple[float, int]] = []
    for k, (phase, period) in enumerate(parts):
        if k and parts[k - 1] == (phase, period):
            continue
        if phase in PARTS and period == "0":
            marks.append((float(t[k]), PARTS[phase]))
        elif phase in _COUNTED and period.isdecimal():
            marks.append((float(t[k]), _COUNTED[phase] + int(period)))
        else:
            raise ProgramError(file, k + 2, f"is of part {phase[:30]!r}, period {period[:10]!r}, which no run has")
    return marks
